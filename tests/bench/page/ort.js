// onnxruntime-web: its WebGPU provider in both layouts, and its wasm provider.
//
// An engine opens a problem and answers a contender: once() is the result in ONNX's order,
// resident(n) and endToEnd() are milliseconds a call, device is the GPUDevice to time.
const HOME = "/peers/ort/";
const model = async (problem) =>
  new Uint8Array(await (await fetch(`models/${problem.index}-${problem.dtype}.onnx`)).arrayBuffer());

function weightsOf({ w, bias }) {
  const bytes = new Uint8Array(w.byteLength + bias.byteLength);
  bytes.set(new Uint8Array(w.buffer), 0);
  bytes.set(new Uint8Array(bias.buffer), w.byteLength);
  return bytes;
}

async function sessionOf(ort, problem, options) {
  return ort.InferenceSession.create(await model(problem), {
    ...options, logSeverityLevel: 3,
    externalData: [{ path: "weights.bin", data: weightsOf(problem) }],
  });
}

const perCall = (start, n) => (performance.now() - start) / n;

export async function webgpu() {
  const ort = await import(`${HOME}ort.webgpu.bundle.min.mjs`);
  ort.env.wasm.wasmPaths = HOME;
  const layout = (preferredLayout) => ({
    name: preferredLayout ? `onnxruntime-web ${preferredLayout}` : "onnxruntime-web",
    group: "ort",
    open: (problem) => openWebgpu(ort, problem, preferredLayout),
  });
  return { version: ort.env.versions?.web, engines: [layout(""), layout("NCHW")] };
}

// With its last session it destroys its device, so the first one stays.
let anchor = null;

async function openWebgpu(ort, problem, preferredLayout) {
  const provider = preferredLayout ? { name: "webgpu", preferredLayout } : { name: "webgpu" };
  const session = await sessionOf(ort, problem, {
    executionProviders: [provider], preferredOutputLocation: "gpu-buffer",
  });
  anchor ??= session;
  const device = await ort.env.webgpu.device;
  const buffer = device.createBuffer({
    size: Math.ceil(problem.x.byteLength / 4) * 4, mappedAtCreation: true,
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
  });
  new problem.Kind(buffer.getMappedRange(), 0, problem.x.length).set(problem.x);
  buffer.unmap();
  const { dtype: dataType, xShape: dims } = problem;
  const x = ort.Tensor.fromGpuBuffer(buffer, { dataType, dims });
  const end = async (feeds) => {
    const { y } = await session.run(feeds);
    const data = await y.getData();
    y.dispose();
    return data;
  };
  return {
    device,
    once: () => end({ x }),
    async resident(n) {
      const start = performance.now();
      for (let i = 0; i < n; i++) (await session.run({ x })).y.dispose();
      await device.queue.onSubmittedWorkDone();
      return perCall(start, n);
    },
    async endToEnd() {
      const start = performance.now();
      await end({ x: new ort.Tensor(dataType, problem.x, dims) });
      return performance.now() - start;
    },
    async close() {
      buffer.destroy();
      if (session !== anchor) await session.release();
    },
  };
}

export async function wasm() {
  const ort = await import(`${HOME}ort.wasm.bundle.min.mjs`);
  ort.env.wasm.wasmPaths = HOME;
  const engine = { name: "onnxruntime-web wasm", group: "wasm", open: (problem) => openWasm(ort, problem) };
  return { version: ort.env.versions?.web, engines: [engine] };
}

async function openWasm(ort, problem) {
  const session = await sessionOf(ort, problem, { executionProviders: ["wasm"] });
  const x = new ort.Tensor(problem.dtype, problem.x, problem.xShape);
  const run = async () => (await session.run({ x })).y;
  const timed = async (n) => {
    const start = performance.now();
    for (let i = 0; i < n; i++) await run();
    return perCall(start, n);
  };
  return {
    device: null,
    once: async () => (await run()).data,
    resident: timed,
    endToEnd: () => timed(1),
    close: () => session.release(),
    notes: { threads: ort.env.wasm.numThreads },
  };
}
