// What the adapter can do at most, measured: multiply-adds a second and bytes a second.

const LOOPS = 256, CHAINS = 8, SIZE = 256;
const LEAST_MS = 30;

const arithmetic = (type) => `
${type === "f16" ? "enable f16;" : ""}
@group(0) @binding(0) var<storage, read_write> y: array<vec4<${type}>>;
@compute @workgroup_size(${SIZE})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let factor = vec4<${type}>(y[0].x + 0.999);
  ${Array.from({ length: CHAINS }, (_, i) => `var sum${i} = vec4<${type}>(${type}(id.x % 64u) * 0.01 + ${i}.0);`).join("\n  ")}
  for (var i = 0u; i < ${LOOPS}u; i++) {
    ${Array.from({ length: CHAINS }, (_, i) => `sum${i} = fma(sum${i}, factor, factor);`).join("\n    ")}
  }
  y[id.x % arrayLength(&y)] = ${Array.from({ length: CHAINS }, (_, i) => `sum${i}`).join(" + ")};
}`;

const COPY = `
@group(0) @binding(0) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@compute @workgroup_size(${SIZE})
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  for (var i = id.x; i < arrayLength(&x); i += groups.x * ${SIZE}u) { y[i] = x[i] + 1.0; }
}`;

function prepared(device, code, buffers) {
  const pipeline = device.createComputePipeline({ layout: "auto",
    compute: { module: device.createShaderModule({ code }), entryPoint: "main" } });
  const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0),
    entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer } })) });
  return async (workgroups, times) => {
    const start = performance.now(), encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    for (let i = 0; i < times; i++) pass.dispatchWorkgroups(workgroups);
    pass.end();
    device.queue.submit([encoder.finish()]);
    await device.queue.onSubmittedWorkDone();
    return performance.now() - start;
  };
}

// Runs a second, once enough of them are timed together.
async function rate(run, workgroups) {
  let times = 1, ms = await run(workgroups, 1);
  ms = await run(workgroups, 1);
  while (ms < LEAST_MS && times < 4096) {
    times *= Math.min(8, Math.max(2, Math.ceil(LEAST_MS / Math.max(ms, 0.1))));
    ms = await run(workgroups, times);
  }
  ms = Math.min(ms, await run(workgroups, times), await run(workgroups, times));
  return (1000 * times) / ms;
}

const isSoftware = ({ info }) => /swiftshader|llvmpipe|software/i.test(`${info.architecture} ${info.description}`);

// GFLOP/s in f32 (and f16), GB/s of reading and writing.
export async function roofline(adapter) {
  const f16 = adapter.features.has("shader-f16"), { maxStorageBufferBindingSize, maxBufferSize } = adapter.limits;
  const software = isSoftware(adapter);
  const device = await adapter.requestDevice({ requiredFeatures: f16 ? ["shader-f16"] : [],
    requiredLimits: { maxStorageBufferBindingSize, maxBufferSize } });
  const size = Math.min(maxStorageBufferBindingSize, software ? 2 ** 25 : 2 ** 29);
  const usage = GPUBufferUsage.STORAGE, [x, y] = [0, 1].map(() => device.createBuffer({ size, usage }));
  const workgroups = software ? 64 : 16384, flop = workgroups * SIZE * LOOPS * CHAINS * 8;
  try {
    const result = { f32: (await rate(prepared(device, arithmetic("f32"), [y]), workgroups)) * flop / 1e9 };
    if (f16) result.f16 = (await rate(prepared(device, arithmetic("f16"), [y]), workgroups)) * flop / 1e9;
    result.bandwidth = (await rate(prepared(device, COPY, [y, x]), software ? 64 : 16384)) * 2 * size / 1e9;
    return result;
  } finally {
    device.destroy();
  }
}

// A function that keeps the GPU busy for some milliseconds: GPUs lower their clocks when idle, within
// milliseconds, and whoever is timed first would pay for it. Software adapters have no clocks.
export async function heater(adapter) {
  if (isSoftware(adapter)) return async () => {};
  const device = await adapter.requestDevice();
  const y = device.createBuffer({ size: 2 ** 20, usage: GPUBufferUsage.STORAGE });
  const run = prepared(device, arithmetic("f32"), [y]);
  return async (ms) => {
    const end = performance.now() + ms;
    while (performance.now() < end) await run(16384, 2);
  };
}
