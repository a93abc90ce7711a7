// The buffers of one GPUDevice: a pool by size class, uploads, and which errors concern which.
//
// The value of this file is a function that makes the store of a device. A buffer is known outside
// by its whole-numbered id, which is never given to another buffer.
//
// WebGPU tells errors late. What can fail runs in error scopes, and the buffers it concerns carry
// its token until it settled: whoever reads such a buffer, or a result made from it, gets the error.
(() => {
  "use strict";
  const COPY_SRC = 4, COPY_DST = 8, UNIFORM = 64, STORAGE = 128;
  const TENSOR = STORAGE | COPY_SRC | COPY_DST;
  const IDLE_FLOOR = 256 * 2 ** 20;
  const CLEAN = Object.freeze([]);

  const failure = (kind, message, more) => JSON.stringify({ kind, message, ...more });

  class Refusal extends Error {
    constructor(kind, message, more = {}) {
      super(message);
      this.kind = kind;
      this.more = more;
    }
  }

  // Text for an exception that Python turns into its own error class.
  const refused = (error) =>
    error instanceof Refusal ? failure(error.kind, error.message, error.more)
      : failure("device", String(error?.message ?? error));

  const padded = (nbytes) => Math.max(4, Math.ceil(nbytes / 4) * 4);

  // Eight classes an octave, so that at most an eighth is wasted and mixed shapes share buffers.
  function sizeClass(nbytes, limit) {
    const step = Math.max(256, 2 ** (Math.floor(Math.log2(nbytes)) - 3));
    return Math.max(nbytes, Math.min(Math.ceil(nbytes / step) * step, limit));
  }

  return (device, budget) => {
    const limit = device.limits.maxBufferSize;
    const live = new Map();
    const idle = new Map();
    const deferred = new Map();
    const graves = [];
    const tally = { inUse: 0, idle: 0, staging: 0, uniform: 0, peak: 0, peakInUse: 0, created: 0 };
    let lastId = 0, clock = 0, holding = false, lostReason = null;
    let spare = () => {}, depart = () => {};
    device.lost.then((info) => {
      lostReason = info.message || info.reason || "unknown reason";
    });

    const held = () => tally.inUse + tally.idle + tally.staging + tally.uniform;
    const notePeak = () => {
      tally.peak = Math.max(tally.peak, held());
      tally.peakInUse = Math.max(tally.peakInUse, tally.inUse);
    };
    // A failed call may be told before the loss that caused it.
    const lostSoon = () => Promise.race([device.lost, new Promise((done) => setTimeout(done, 100))]);
    const lostError = () => new Refusal("lost", `the GPU device was lost: ${lostReason}`);

    function check() {
      if (lostReason !== null) throw lostError();
    }

    // Runs `action` in error scopes. The token says how it went once its promise has settled.
    function scoped(action) {
      const token = { error: null, done: false, promise: null };
      const filters = ["internal", "out-of-memory", "validation"];
      for (const filter of filters) device.pushErrorScope(filter);
      let thrown = null;
      try {
        action(token);
      } catch (error) {
        thrown = error;
      }
      const pops = filters.map(() => device.popErrorScope());
      token.promise = Promise.all(pops).then(
        ([validation, memory, internal]) => {
          if (memory) {
            token.error = new Refusal("memory", memory.message);
            trim(0); // room for whoever tries again
          } else if (validation ?? internal) {
            token.error = new Refusal("device", (validation ?? internal).message);
          } else if (lostReason !== null) token.error = lostError();
        },
        (error) => { token.error = lostReason === null ? error : lostError(); },
      ).then(() => { token.done = true; });
      if (thrown) throw thrown;
      return token;
    }

    const unsettled = (tokens) => {
      const left = tokens.filter((token) => token.error !== null || !token.done);
      return left.length ? left : CLEAN;
    };

    function push(map, record) {
      record.stamp = ++clock;
      const list = map.get(record.size);
      if (list) list.push(record);
      else map.set(record.size, [record]);
    }

    function drop(map, record) {
      const list = map.get(record.size), at = list ? list.indexOf(record) : -1;
      if (at < 0) return false;
      list.splice(at, 1);
      if (!list.length) map.delete(record.size);
      return true;
    }

    function oldestIdle() {
      let oldest = null;
      for (const list of idle.values()) {
        if (!oldest || list[0].stamp < oldest.stamp) oldest = list[0];
      }
      return oldest;
    }

    function trim(bytes) {
      if (tally.idle > bytes) depart();
      while (tally.idle > bytes) {
        const record = oldestIdle();
        if (!record) return;
        drop(idle, record);
        tally.idle -= record.size;
        record.buffer.destroy();
      }
    }

    // Makes room under the budget by giving idle buffers back, or refuses.
    function reserve(size) {
      if (budget === null || held() + size <= budget) return;
      trim(Math.max(0, tally.idle - (held() + size - budget)));
      if (held() + size <= budget) return;
      spare();
      if (held() + size <= budget) return;
      throw new Refusal("memory", `${size} bytes more would pass the memory budget of ${budget} ` +
        `bytes (${tally.inUse} in use)`);
    }

    const classOf = (nbytes) => {
      const size = padded(nbytes);
      if (size > limit) {
        throw new Refusal("memory", `a buffer of ${size} bytes is over the device's maxBufferSize ` +
          `of ${limit}`);
      }
      return sizeClass(size, limit);
    };

    // An idle buffer or null. `ordered`: its first use is encoded in order with the open batch,
    // so that a buffer which the batch has done with will do; a queue write is not ordered.
    function take(nbytes, ordered) {
      const size = classOf(nbytes);
      for (const map of ordered ? [deferred, idle] : [idle]) {
        const list = map.get(size);
        if (list) {
          const record = list[list.length - 1];
          drop(map, record);
          tally.idle -= size;
          return use(record);
        }
      }
      return null;
    }

    function use(record) {
      record.tokens = record.birth.done ? CLEAN : [record.birth];
      tally.inUse += record.size;
      live.set(record.id, record);
      notePeak();
      return record;
    }

    // To be called in `scoped`, whose token the record then carries.
    function create(nbytes, token) {
      const size = classOf(nbytes);
      reserve(size);
      const buffer = device.createBuffer({ size, usage: TENSOR });
      tally.created += 1;
      return use({ id: ++lastId, buffer, size, stamp: 0, external: false, watched: false,
        doomed: false, birth: token, tokens: CLEAN });
    }

    function release(record) {
      if (!live.delete(record.id)) return;
      if (record.external) return;
      tally.inUse -= record.size;
      if (record.doomed) {
        bury(record);
        return;
      }
      tally.idle += record.size;
      push(holding ? deferred : idle, record);
      trim(Math.max(IDLE_FLOOR, tally.peakInUse));
    }

    // An open batch may still have commands that name the buffer.
    function bury(record) {
      if (holding) graves.push(record);
      else record.buffer.destroy();
    }

    // For a buffer whose creation failed: never to be used again.
    function discard(record) {
      record.doomed = true;
      if (drop(idle, record) || drop(deferred, record)) {
        tally.idle -= record.size;
        record.buffer.destroy();
      }
    }

    function write(record, view, nbytes) {
      const whole = nbytes & ~3;
      if (whole) device.queue.writeBuffer(record.buffer, 0, view.buffer, view.byteOffset, whole);
      if (whole === nbytes) return;
      const tail = new Uint8Array(4);
      tail.set(new Uint8Array(view.buffer, view.byteOffset + whole, nbytes - whole));
      device.queue.writeBuffer(record.buffer, whole, tail);
    }

    // Queue writes snapshot: the source may change as soon as this returns.
    function upload(source, nbytes) {
      const borrowed = ArrayBuffer.isView(source) ? null : source.getBuffer("u8");
      const view = borrowed ? borrowed.data : source;
      const kept = [];
      try {
        check();
        let record = take(nbytes, false);
        if (record) {
          depart();
          write(record, view, nbytes);
          return record.id;
        }
        const token = scoped((own) => {
          record = create(nbytes, own);
          kept.push(record);
          write(record, view, nbytes);
        });
        token.promise.then(() => { if (token.error) discard(record); });
        return record.id;
      } catch (error) {
        kept.forEach(release);
        return refused(error);
      } finally {
        borrowed?.release();
      }
    }

    function empty(nbytes) {
      try {
        check();
        let record = take(nbytes, false);
        if (record) return record.id;
        const token = scoped((own) => { record = create(nbytes, own); });
        token.promise.then(() => { if (token.error) discard(record); });
        return record.id;
      } catch (error) {
        return refused(error);
      }
    }

    function adopt(buffer, nbytes) {
      if (!(buffer.usage & STORAGE)) {
        return failure("request", "a buffer without the usage STORAGE", { allowed: "usage STORAGE" });
      }
      if (buffer.size < padded(nbytes)) {
        return failure("request", `a buffer of ${buffer.size} bytes`,
          { allowed: `${padded(nbytes)} bytes or more for this shape and dtype` });
      }
      const record = { id: ++lastId, buffer, size: buffer.size, stamp: 0, external: true,
        watched: true, doomed: false, tokens: CLEAN };
      live.set(record.id, record);
      return record.id;
    }

    // The GPUBuffer for other code of the page. What that does with it is not ours to know: runs on
    // it are watched, and it is never pooled.
    function handOut(id) {
      const record = live.get(id);
      record.watched = true;
      if (!record.external) record.doomed = true;
      return record.buffer;
    }

    // 0 where nothing is open, else a promise of 0 or of the error's text.
    function settled(id) {
      const record = live.get(id);
      record.tokens = unsettled(record.tokens);
      if (record.tokens === CLEAN) return 0;
      return outcome(record.tokens);
    }

    async function outcome(tokens) {
      await Promise.all(tokens.map((token) => token.promise));
      const failed = tokens.find((token) => token.error !== null);
      return failed ? refused(failed.error) : 0;
    }

    function uniforms(bytes) {
      if (!bytes.length) return null;
      reserve(bytes.length);
      const buffer = device.createBuffer({ size: bytes.length, usage: UNIFORM | COPY_DST });
      device.queue.writeBuffer(buffer, 0, bytes);
      tally.uniform += bytes.length;
      return buffer;
    }

    function freeUniforms(buffer) {
      tally.uniform -= buffer.size;
      buffer.destroy();
    }

    // While a batch is open, what it has done with may not be written by the queue.
    function hold() { holding = true; }

    function unhold() {
      holding = false;
      graves.splice(0).forEach(bury);
      for (const list of deferred.values()) for (const record of list) push(idle, record);
      deferred.clear();
    }

    function memory() {
      let pooled = 0, external = 0;
      for (const map of [idle, deferred]) for (const list of map.values()) pooled += list.length;
      for (const record of live.values()) external += record.external ? 1 : 0;
      return { ...tally, held: held(), buffersInUse: live.size - external, buffersIdle: pooled,
        buffersExternal: external, budget };
    }

    function destroy() {
      for (const record of live.values()) if (!record.external) record.buffer.destroy();
      for (const map of [idle, deferred]) {
        for (const list of map.values()) for (const record of list) record.buffer.destroy();
        map.clear();
      }
      live.clear();
      Object.assign(tally, { inUse: 0, idle: 0 });
    }

    return {
      CLEAN, Refusal, adopt, check, classOf, create, destroy, discard, drop, empty, freeUniforms,
      get: (id) => live.get(id), handOut, hold, lost: () => lostReason ?? "", lostSoon, memory, nextId: () => ++lastId,
      notePeak, outcome, padded, push, refused, release, reserve, scoped, settled, take, tally, trim,
      unhold, uniforms, unsettled, upload,
      setBudget: (bytes) => { budget = bytes; },
      setDepart: (submit) => { depart = submit; },
      setSpare: (give) => { spare = give; },
    };
  };
})()
