// Runs plans on Dawn in Node: the npm package `webgpu`, or the module that $DAWN names.
//
//   node run_plans.mjs device          prints the device's capabilities as JSON
//   node run_plans.mjs run FOLDER      FOLDER/jobs.json lists { plan, operands: { name: file }, output: file }
//
// Every buffer is larger than it needs to be and starts as NaN, as pooled memory would be at its
// worst: a kernel that reads slack or leaves an element unwritten shows.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const { create, globals } = await import(process.env.DAWN ?? "webgpu");
Object.assign(globalThis, globals);
const gpu = create(["backend=vulkan", "enable-dawn-features=allow_unsafe_apis"]);
const adapter = await gpu.requestAdapter();
const wanted = ["shader-f16", "subgroups", "chromium-experimental-subgroup-matrix"];
const requiredFeatures = wanted.filter((name) => adapter.features.has(name));
const requiredLimits = {};
for (const name of ["maxComputeWorkgroupStorageSize", "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX", "maxComputeWorkgroupSizeY", "maxStorageBufferBindingSize", "maxBufferSize"]) {
  requiredLimits[name] = adapter.limits[name];
}
const device = await adapter.requestDevice({ requiredFeatures, requiredLimits });

function capabilities() {
  const limits = {};
  for (const name in adapter.limits) limits[name] = device.limits[name];
  const { subgroupMinSize, subgroupMaxSize, vendor, architecture } = adapter.info;
  const configs = [...(adapter.info.subgroupMatrixConfigs ?? [])].map(
    ({ M, N, K, componentType, resultComponentType }) => ({ M, N, K, componentType, resultComponentType }));
  return {
    features: requiredFeatures,
    limits,
    adapter_info: { vendor, architecture, subgroupMinSize, subgroupMaxSize },
    subgroup_matrix_configs: configs,
  };
}

const SLACK = 256;
const { STORAGE, UNIFORM, COPY_SRC, COPY_DST } = GPUBufferUsage;

function poisoned(bytes, content) {
  const size = Math.ceil(bytes / 4) * 4 + SLACK;
  const data = new Uint8Array(size).fill(0xff);
  if (content) data.set(content);
  const buffer = device.createBuffer({ size, usage: STORAGE | COPY_SRC | COPY_DST });
  device.queue.writeBuffer(buffer, 0, data);
  return buffer;
}

function uniform(hex) {
  const data = Buffer.from(hex, "hex");
  const buffer = device.createBuffer({ size: data.length, usage: UNIFORM | COPY_DST });
  device.queue.writeBuffer(buffer, 0, data);
  return buffer;
}

const pipelines = new Map();

async function pipeline(pass) {
  if (!pipelines.has(pass.wgsl)) {
    const entries = pass.bindings.map((b) => ({
      binding: b.index, visibility: GPUShaderStage.COMPUTE, buffer: { type: b.buffer },
    }));
    const layout = device.createPipelineLayout({ bindGroupLayouts: [device.createBindGroupLayout({ entries })] });
    const module = device.createShaderModule({ code: pass.wgsl });
    const errors = (await module.getCompilationInfo()).messages.filter((m) => m.type === "error");
    if (errors.length) throw new Error(`${pass.template}:${errors[0].lineNum}: ${errors[0].message}\n${pass.wgsl}`);
    pipelines.set(pass.wgsl, await device.createComputePipelineAsync({
      layout, compute: { module, entryPoint: "main" },
    }));
  }
  return pipelines.get(pass.wgsl);
}

async function run(plan, operands) {
  const bytes = { float32: 4, float16: 2 }[plan.dtype];
  const outputBytes = bytes * plan.output_shape.reduce((a, b) => a * b, 1);
  const held = { y: poisoned(outputBytes) };
  for (const name in operands) held[name] = poisoned(operands[name].length, operands[name]);
  for (const item of plan.scratch) held[`scratch ${item.id}`] = poisoned(item.nbytes);

  const encoder = device.createCommandEncoder();
  for (const pass of plan.passes) {
    const made = await pipeline(pass);
    const entries = pass.bindings.map((b) => ({
      binding: b.index,
      resource: { buffer: b.uniform ? (held[`${pass.id} ${b.name}`] = uniform(b.uniform))
        : held[b.scratch ? `scratch ${b.scratch}` : b.operand] },
    }));
    const compute = encoder.beginComputePass();
    compute.setPipeline(made);
    compute.setBindGroup(0, device.createBindGroup({ layout: made.getBindGroupLayout(0), entries }));
    compute.dispatchWorkgroups(...pass.dispatch);
    compute.end();
  }
  const size = Math.ceil(outputBytes / 4) * 4;
  const readback = device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | COPY_DST });
  encoder.copyBufferToBuffer(held.y, 0, readback, 0, size);
  const started = performance.now();
  device.queue.submit([encoder.finish()]);
  await readback.mapAsync(GPUMapMode.READ);
  const ms = performance.now() - started;
  const result = new Uint8Array(readback.getMappedRange()).slice(0, outputBytes);
  for (const buffer of [...Object.values(held), readback]) buffer.destroy();
  return { result, ms };
}

const [command, folder] = process.argv.slice(2);
if (command === "device") {
  console.log(JSON.stringify(capabilities()));
} else {
  const jobs = JSON.parse(readFileSync(join(folder, "jobs.json"), "utf8"));
  const report = [];
  for (const job of jobs) {
    const operands = {};
    for (const name in job.operands) operands[name] = readFileSync(join(folder, job.operands[name]));
    device.pushErrorScope("validation");
    try {
      const { result, ms } = await run(job.plan, operands);
      const error = await device.popErrorScope();
      if (error) throw new Error(error.message);
      writeFileSync(join(folder, job.output), result);
      report.push({ ms });
    } catch (error) {
      report.push({ error: String(error.message ?? error) });
    }
  }
  writeFileSync(join(folder, "report.json"), JSON.stringify(report));
}
process.exit(0); // Dawn's device keeps Node alive
