// Plans to pipelines: what is compiled once and shared by every run.
//
// The value of this file is a function that makes the compiler of a device. A plan arrives as JSON:
// { slots: [bytes of output, operands..., scratch...], operands: count, work: multiply-adds, once: [slot, ...],
//   passes: [{ name, template, wgsl, dispatch, once, bindings: [{ index, buffer, slot | uniform }],
//              before: [[source slot, offset, target slot, offset, bytes], ...], after: the same }] }
(() => {
  "use strict";
  const COMPUTE = 4;

  const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

  return (device, store) => {
    const pipelines = new Map();
    const { Refusal } = store;

    const signature = (bindings) => bindings.map((b) => `${b.index}:${b.buffer}`).join();

    async function build(pass) {
      const entries = pass.bindings.map((b) => (
        { binding: b.index, visibility: COMPUTE, buffer: { type: b.buffer } }));
      let module, layout, descriptor;
      const token = store.scoped(() => {
        module = device.createShaderModule({ label: pass.template, code: pass.wgsl });
        layout = device.createBindGroupLayout({ label: pass.name, entries });
        const bindGroupLayouts = [layout];
        descriptor = { label: pass.name, layout: device.createPipelineLayout({ bindGroupLayouts }),
          compute: { module, entryPoint: "main" } };
      });
      let pipeline, problem = null;
      try {
        pipeline = await device.createComputePipelineAsync(descriptor);
      } catch (error) {
        problem = error;
      }
      await token.promise;
      store.check();
      if (problem || token.error) {
        await shaderErrors(pass, module);
        throw token.error ?? new Refusal("device", `${pass.template}: ${problem.message}`);
      }
      return { pipeline, layout };
    }

    async function shaderErrors(pass, module) {
      const { messages } = await module.getCompilationInfo();
      const first = messages.find((m) => m.type === "error");
      if (!first) return;
      throw new Refusal("shader", first.message, { template: pass.template, line: first.lineNum });
    }

    // Passes with the same text and the same kinds of bindings share a pipeline.
    function acquire(pass) {
      const key = `${signature(pass.bindings)}\n${pass.wgsl}`;
      let entry = pipelines.get(key);
      if (!entry) {
        entry = { key, users: 0, made: build(pass) };
        pipelines.set(key, entry);
        entry.made.catch(() => pipelines.delete(key));
      }
      entry.users += 1;
      return entry;
    }

    function drop(entry) {
      entry.users -= 1;
      if (entry.users === 0 && pipelines.get(entry.key) === entry) pipelines.delete(entry.key);
    }

    // Every uniform of a plan in one buffer, each at an offset that the device allows.
    function layOutUniforms(plan) {
      const align = device.limits.minUniformBufferOffsetAlignment, chunks = [];
      let size = 0;
      for (const pass of plan.passes) {
        for (const binding of pass.bindings) {
          if (binding.uniform === undefined) continue;
          const bytes = fromHex(binding.uniform);
          binding.offset = size;
          binding.size = bytes.length;
          chunks.push([size, bytes]);
          size += Math.ceil(bytes.length / align) * align;
        }
      }
      const all = new Uint8Array(size);
      for (const [offset, bytes] of chunks) all.set(bytes, offset);
      return store.uniforms(all);
    }

    // The plan with its pipelines, layouts and uniforms; all of its passes compile at once.
    async function compile(json) {
      store.check();
      const plan = JSON.parse(json);
      const entries = plan.passes.map(acquire);
      const results = await Promise.allSettled(entries.map((entry) => entry.made));
      const failed = results.find((result) => result.status === "rejected");
      if (failed) {
        entries.forEach(drop);
        throw failed.reason;
      }
      results.forEach(({ value }, i) => Object.assign(plan.passes[i], value));
      plan.entries = entries;
      plan.uniforms = layOutUniforms(plan);
      const once = plan.passes.filter((pass) => pass.once);
      plan.onceKey = once.length === 0 ? null : JSON.stringify(once.map((pass) => (
        [pass.wgsl, pass.dispatch, pass.bindings.map((b) => [b.index, b.uniform ?? plan.slots[b.slot]])])));
      return plan;
    }

    function forget(plan) {
      plan.entries.forEach(drop);
      if (plan.uniforms) store.freeUniforms(plan.uniforms);
    }

    return { compile, forget, count: () => pipelines.size };
  };
})()
