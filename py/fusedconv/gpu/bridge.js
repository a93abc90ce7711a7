// Runs plans on one GPUDevice for the Python side.
//
// Buffers, plans and runs are whole numbers to Python, so that a warm run is one crossing of the
// language border and makes no proxy. Where a call can fail, a text instead of a number is the
// error, as JSON: { kind, message, ... }.
//
// The value of this file is a function that makes a function that makes the bridge of a device.
((makeStore, makeReader, makeCompiler) => {
  "use strict";
  const MAX_GROUPS = 64;
  // A submit costs more than a small run: runs of the same turn of JavaScript share one, up to so
  // many dispatches, and multiply-adds, for which the GPU is not kept waiting.
  const MAX_DISPATCHES = 32, MAX_WORK = 2 ** 30;

  return (device, owned, budget) => {
    const store = makeStore(device, budget);
    const compiler = makeCompiler(device, store);
    const reader = makeReader(device, store, { depart, submitWith });
    const { CLEAN, refused } = store;
    const instances = new Map(), groups = new Map();
    let lastId = 0, batch = null, waiting = null, runs = 0;
    store.setDepart(depart);

    async function compile(json) {
      try {
        const plan = await compiler.compile(json);
        instances.set(++lastId, { plan, owner: true, once: null, bound: new Map(), proven: false });
        return lastId;
      } catch (error) {
        return refused(error);
      }
    }

    // A prepared operator: keeps what `once` passes made, shared by its plans where those agree.
    function openGroup() {
      groups.set(++lastId, { once: new Map(), members: [] });
      return lastId;
    }

    function instantiate(compiledId, groupId) {
      const { plan } = instances.get(compiledId), group = groups.get(groupId);
      if (plan.onceKey === null) return compiledId;
      if (!group.once.has(plan.onceKey)) group.once.set(plan.onceKey, { ready: false, records: null });
      const once = group.once.get(plan.onceKey);
      instances.set(++lastId, { plan, owner: false, once, bound: new Map(), proven: false });
      group.members.push(lastId);
      return lastId;
    }

    function closeGroup(groupId) {
      const group = groups.get(groupId);
      if (!group) return;
      groups.delete(groupId);
      for (const { records } of group.once.values()) records?.forEach(store.release);
      for (const id of group.members) instances.delete(id);
    }

    function forget(compiledId) {
      const instance = instances.get(compiledId);
      if (!instance) return;
      flush();
      instances.delete(compiledId);
      compiler.forget(instance.plan);
    }

    function bind(instance, slots) {
      const { plan } = instance;
      return plan.passes.map((pass) => device.createBindGroup({
        layout: pass.layout,
        entries: pass.bindings.map((b) => ({
          binding: b.index,
          resource: b.uniform === undefined
            ? { buffer: slots[b.slot].buffer, size: store.padded(plan.slots[b.slot]) }
            : { buffer: plan.uniforms, offset: b.offset, size: b.size },
        })),
      }));
    }

    function keep(instance, key, made) {
      if (instance.bound.size >= MAX_GROUPS) instance.bound.delete(instance.bound.keys().next().value);
      instance.bound.set(key, made);
    }

    // Dispatches share a compute pass until a copy comes between.
    function encode(instance, made, slots, into) {
      const { passes } = instance.plan, skip = instance.once?.ready;
      for (let i = 0; i < passes.length; i++) {
        const step = passes[i];
        if (skip && step.once) continue;
        if (step.before.length) copy(step.before, slots, into);
        const pass = into.pass ??= into.encoder.beginComputePass();
        pass.setPipeline(step.pipeline);
        pass.setBindGroup(0, made[i]);
        pass.dispatchWorkgroups(step.dispatch[0], step.dispatch[1], step.dispatch[2]);
        if (step.after.length) copy(step.after, slots, into);
      }
    }

    function copy(copies, slots, into) {
      endPass(into);
      for (const [source, start, target, offset, nbytes] of copies) {
        into.encoder.copyBufferToBuffer(slots[source].buffer, start, slots[target].buffer, offset, nbytes);
      }
    }

    function endPass(into) {
      into.pass?.end();
      into.pass = null;
    }

    function submit(instance, made, slots) {
      if (!made.length) return;
      if (batch) {
        batch.encoder ??= device.createCommandEncoder();
        encode(instance, made, slots, batch);
        return;
      }
      const into = { encoder: device.createCommandEncoder(), pass: null };
      encode(instance, made, slots, into);
      endPass(into);
      device.queue.submit([into.encoder.finish()]);
    }

    // Like `submit`, for a run with which nothing can go wrong: it may wait for others.
    function enqueue(instance, made, slots) {
      if (batch) {
        submit(instance, made, slots);
        return;
      }
      if (!made.length) return;
      if (!waiting) {
        waiting = { encoder: device.createCommandEncoder(), pass: null, dispatches: 0, work: 0 };
        queueMicrotask(depart);
      }
      encode(instance, made, slots, waiting);
      waiting.dispatches += made.length;
      waiting.work += instance.plan.work;
      if (waiting.dispatches >= MAX_DISPATCHES || waiting.work >= MAX_WORK) depart();
    }

    // Submits the runs that wait. Whatever else goes to the queue, or takes a buffer away, comes after.
    function depart() {
      if (waiting) submitWith(() => {});
    }

    // Submits what `action` encodes, together with the runs that wait.
    function submitWith(action) {
      const into = waiting ?? { encoder: device.createCommandEncoder(), pass: null };
      waiting = null;
      endPass(into);
      action(into.encoder);
      device.queue.submit([into.encoder.finish()]);
    }

    // With timestamps each pass is a compute pass of its own, dispatched `repeat` times.
    function submitTimed(instance, made, slots, clock) {
      const { passes } = instance.plan, encoder = device.createCommandEncoder();
      passes.forEach((step, i) => {
        const at = { querySet: clock.queries, beginningOfPassWriteIndex: 2 * i,
          endOfPassWriteIndex: 2 * i + 1 };
        if (instance.once?.ready && step.once) return;
        copy(step.before, slots, { encoder, pass: null });
        const pass = encoder.beginComputePass(clock.queries ? { timestampWrites: at } : {});
        pass.setPipeline(step.pipeline);
        pass.setBindGroup(0, made[i]);
        for (let n = 0; n < clock.repeat; n++) pass.dispatchWorkgroups(...step.dispatch);
        pass.end();
        copy(step.after, slots, { encoder, pass: null });
      });
      readQueries(encoder, clock);
      device.queue.submit([encoder.finish()]);
    }

    // The whole run `repeat` times, back to back between two timestamps.
    function submitRepeated(instance, made, slots, clock) {
      const encoder = device.createCommandEncoder();
      const at = { querySet: clock.queries, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 };
      const into = { encoder, pass: encoder.beginComputePass(clock.queries ? { timestampWrites: at } : {}) };
      for (let n = 0; n < clock.repeat; n++) encode(instance, made, slots, into);
      endPass(into);
      readQueries(encoder, clock);
      device.queue.submit([encoder.finish()]);
    }

    function readQueries(encoder, { queries, count, resolved, mappable }) {
      if (!queries) return;
      encoder.resolveQuerySet(queries, 0, 2 * count, resolved, 0);
      encoder.copyBufferToBuffer(resolved, 0, mappable, 0, 16 * count);
    }

    // The output and scratch of a run: what is idle at hand, null for what must be created.
    function gather(instance, outId, ids, slots) {
      const { plan, once } = instance;
      slots.push(outId ? store.get(outId) : store.take(plan.slots[0], true));
      for (let i = 0; i < plan.operands; i++) slots.push(store.get(ids[i]));
      for (let i = slots.length; i < plan.slots.length; i++) {
        const kept = once ? plan.once.indexOf(i) : -1;
        slots.push(kept < 0 ? store.take(plan.slots[i], true) : once.records?.[kept] ?? null);
      }
    }

    // Whether nothing about a buffer can be wrong that is not known yet; a batch answers for itself.
    function isClean(record) {
      if (record === null || record.watched) return false;
      if (record.tokens === CLEAN || (batch && record.tokens === batch.tokens)) return true;
      record.tokens = store.unsettled(record.tokens);
      return record.tokens === CLEAN;
    }

    const keyOf = (slots) => {
      let key = "";
      for (const record of slots) key += `${record.id},`;
      return key;
    };

    function releaseScratch(instance, slots) {
      for (let i = 1 + instance.plan.operands; i < slots.length; i++) {
        const record = slots[i];
        if (record && !instance.once?.records?.includes(record)) store.release(record);
      }
    }

    // Runs an instance: out (0: a new buffer), operands, then buffers that nobody holds any more.
    // Gives the output's id, the text of an error, or a promise of either where buffers were made.
    function run(instanceId, outId, ...ids) {
      const instance = instances.get(instanceId), slots = [];
      try {
        for (let i = instance.plan.operands; i < ids.length; i++) release(ids[i]);
        store.check();
        runs += 1;
        gather(instance, outId, ids, slots);
        const clean = instance.proven && slots.every(isClean);
        const made = clean ? instance.bound.get(keyOf(slots)) : undefined;
        if (!made) return runOpenly(instance, outId, slots, submit);
        enqueue(instance, made, slots);
        if (instance.once) instance.once.ready = true;
        if (batch) slots[0].tokens = batch.tokens;
        releaseScratch(instance, slots);
        return slots[0].id;
      } catch (error) {
        abandon(instance, outId, slots);
        return refused(error);
      }
    }

    function abandon(instance, outId, slots) {
      releaseScratch(instance, slots);
      if (!outId && slots[0]) store.release(slots[0]);
    }

    // The run with everything that can go wrong inside error scopes.
    function runOpenly(instance, outId, slots, submitIt) {
      const { plan, once } = instance;
      depart();
      const open = store.unsettled([...new Set(slots.flatMap((record) => record?.tokens ?? []))]);
      const failed = open.find((token) => token.error !== null);
      if (failed) throw failed.error;
      const created = [], first = !instance.proven;
      const token = store.scoped((own) => {
        slots.forEach((record, i) => {
          if (record === null) created.push(slots[i] = store.create(plan.slots[i], own));
        });
        if (once && !once.records) once.records = plan.once.map((i) => slots[i]);
        const key = keyOf(slots), made = instance.bound.get(key) ?? bind(instance, slots);
        submitIt(instance, made, slots);
        keep(instance, key, made);
      });
      instance.proven = true;
      if (once) once.ready = true;
      const tokens = [...open, token, ...(batch ? [batch.token] : [])];
      slots[0].tokens = tokens;
      for (const record of once?.records ?? []) record.tokens = [token];
      releaseScratch(instance, slots);
      const settled = token.promise.then(() => { if (token.error) undo(instance, created); });
      if (batch) batch.open = true;
      if (batch || !(first || created.length || open.length)) return slots[0].id;
      return settled.then(() => store.outcome(tokens)).then((error) => {
        if (!error) return slots[0].id;
        if (!outId) store.release(slots[0]);
        return error;
      });
    }

    function undo(instance, created) {
      instance.proven = false;
      instance.bound.clear();
      created.forEach(store.discard);
      if (!instance.once) return;
      instance.once.ready = false;
      const kept = instance.once.records ?? [];
      kept.forEach((record) => { if (!created.includes(record)) store.release(record); });
      instance.once.records = null;
    }

    // A run by itself, waited for: JSON with the output's id, and the milliseconds of each pass by
    // timestamps (null where the device has none) and on the wall.
    function profile(instanceId, repeat, outId, ...ids) {
      const count = instances.get(instanceId).plan.passes.length;
      return timedRun(instanceId, outId, ids, submitTimed, { repeat, count });
    }

    // The same for the run as a whole: `passes` has one time, the mean of `repeat` runs.
    function measure(instanceId, repeat, outId, ...ids) {
      const { passes } = instances.get(instanceId).plan;
      const whole = passes.length && !passes.some((step) => step.before.length || step.after.length);
      return timedRun(instanceId, outId, ids, submitRepeated, { repeat, count: Number(whole) });
    }

    async function timedRun(instanceId, outId, ids, submitIt, { repeat, count }) {
      const instance = instances.get(instanceId), { plan } = instance;
      const timed = count > 0 && device.features.has("timestamp-query");
      const clock = { repeat, count, queries: null, resolved: null, mappable: null };
      const slots = [];
      let launched = false;
      try {
        for (let i = plan.operands; i < ids.length; i++) release(ids[i]);
        store.check();
        await flush();
        if (timed) {
          clock.queries = device.createQuerySet({ type: "timestamp", count: 2 * count });
          clock.resolved = device.createBuffer({ size: 16 * count, usage: 0x200 | 0x4 });
          clock.mappable = device.createBuffer({ size: 16 * count, usage: 0x1 | 0x8 });
        }
        gather(instance, outId, ids, slots);
        const start = performance.now();
        const collecting = batch;
        batch = null;
        let running;
        try {
          running = runOpenly(instance, outId, slots, (it, made, all) => submitIt(it, made, all, clock));
        } finally {
          batch = collecting;
        }
        launched = true;
        await device.queue.onSubmittedWorkDone();
        const wall = performance.now() - start;
        const out = await running;
        if (typeof out === "string") return out;
        return JSON.stringify({ out, wall, passes: timed ? await readClock(clock) : null });
      } catch (error) {
        if (!launched) abandon(instance, outId, slots);
        return refused(error);
      } finally {
        for (const item of [clock.queries, clock.resolved, clock.mappable]) item?.destroy();
      }
    }

    async function readClock({ mappable, count, repeat }) {
      await mappable.mapAsync(1);
      const ticks = new BigInt64Array(mappable.getMappedRange());
      return Array.from({ length: count }, (_, i) => Number(ticks[2 * i + 1] - ticks[2 * i]) / 1e6 / repeat);
    }

    function release(...ids) {
      for (const id of ids) {
        const record = store.get(id);
        if (record) store.release(record);
      }
    }

    // From `begin` on, runs are collected; `flush` submits what there is, and `end` goes back.
    function begin() {
      if (batch) {
        batch.depth += 1;
        return;
      }
      depart();
      batch = freshBatch(1);
      store.hold();
    }

    function freshBatch(depth) {
      const token = { error: null, done: false, promise: null, settle: null };
      token.promise = new Promise((settle) => { token.settle = settle; });
      return { depth, token, tokens: [token], encoder: null, pass: null, open: false };
    }

    // 0, the text of an error, or a promise of either.
    function flush() {
      depart();
      if (!batch) return 0;
      const before = batch, { encoder, token, open, depth } = batch;
      batch = freshBatch(depth);
      if (!encoder) {
        settle(token, null);
        return 0;
      }
      const submission = store.scoped(() => {
        endPass(before);
        device.queue.submit([encoder.finish()]);
      });
      submission.promise.then(() => settle(token, submission.error));
      store.unhold();
      store.hold();
      return open ? store.outcome([token]) : 0;
    }

    function settle(token, error) {
      token.error = error;
      token.done = true;
      token.settle();
    }

    function end() {
      batch.depth -= 1;
      if (batch.depth > 0) return 0;
      const result = flush();
      batch = null;
      store.unhold();
      return result;
    }

    function read(id, nbytes) {
      if (batch) flush();
      return reader.start(id, nbytes);
    }

    async function synchronize() {
      flush();
      await device.queue.onSubmittedWorkDone();
      try {
        store.check();
        return 0;
      } catch (error) {
        return refused(error);
      }
    }

    function memory() {
      const pinned = [...instances.values()].filter((instance) => instance.owner).length;
      return JSON.stringify({ ...store.memory(), reads: reader.count(), plans: pinned, groups: groups.size,
        pipelines: compiler.count(), runs });
    }

    function close() {
      flush();
      reader.close();
      store.destroy();
      for (const { plan, owner } of instances.values()) if (owner) compiler.forget(plan);
      instances.clear();
      if (owned) device.destroy();
    }

    return {
      begin, close, closeGroup, compile, end, forget, instantiate, memory, openGroup,
      measure, profile, read, release, run, synchronize,
      abandon: reader.abandon, adopt: store.adopt, buffer: (id) => (flush(), store.handOut(id)),
      copyOut: reader.copyOut, device: () => device, empty: store.empty, lost: store.lost,
      mapped: reader.mapped, same: (a, b) => store.get(a).buffer === store.get(b).buffer,
      setBudget: store.setBudget, settled: store.settled,
      toJs: reader.toJs, trim: (bytes) => (reader.spare(), store.trim(bytes)), upload: store.upload,
    };
  };
})
