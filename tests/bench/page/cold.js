// From the page's load to the first result of one engine.

const X = [1, 32, 8, 8], W = [32, 32, 1, 1];
const filled = (shape) => new Float32Array(shape.reduce((a, b) => a * b)).fill(0.5);
const stages = {};
const stage = (name) => { stages[name] = performance.now(); };

async function python(packages) {
  const indexURL = new URL("/pyodide/", location.href).href;
  const [{ loadPyodide }, lock] = await Promise.all([
    import(`${indexURL}pyodide.mjs`),
    fetch(`${indexURL}pyodide-lock.json`).then((response) => response.json()),
  ]);
  const pyodide = await loadPyodide({ indexURL, lockFileContents: lock, packageBaseUrl: indexURL, packages });
  stage("Python with its packages");
  if (packages.includes("numpy")) {
    pyodide.runPython("import numpy");
    stage("import numpy");
  }
  return pyodide;
}

async function convolve(pyodide, operands) {
  pyodide.runPython("import fusedconv");
  stage("import fusedconv");
  await pyodide.runPythonAsync("held = await fusedconv.device()");
  stage("device");
  const y = await pyodide.runPythonAsync(`${operands}\n(await fusedconv.run(x, w, activation="Relu")).nbytes`);
  if (y !== 8192) throw new Error(`${y} bytes`);
}

const HOST_OPERANDS = `
from array import array
x, w = (array("f", [0.5]) * 2048, (1, 32, 8, 8)), (array("f", [0.5]) * 1024, (32, 32, 1, 1))`;
const NUMPY_OPERANDS = `
x, w = numpy.full((1, 32, 8, 8), 0.5, "float32"), numpy.full((32, 32, 1, 1), 0.5, "float32")`;

async function onnxruntime(bundle, provider) {
  const home = "/peers/ort/";
  const ort = await import(`${home}${bundle}`);
  ort.env.wasm.wasmPaths = home;
  const model = new Uint8Array(await (await fetch("models/7-float32.onnx")).arrayBuffer());
  const session = await ort.InferenceSession.create(model, { executionProviders: [provider], logSeverityLevel: 3,
    externalData: [{ path: "weights.bin", data: new Uint8Array(4 * (1024 + 32)) }] });
  stage("session");
  const { y } = await session.run({ x: new ort.Tensor("float32", filled(X), X) });
  await y.getData();
}

function script(src) {
  return new Promise((done, failed) => {
    document.head.append(Object.assign(document.createElement("script"), { src, onload: done, onerror: failed }));
  });
}

async function tensorflow() {
  await script("/peers/tfjs/tf.min.js");
  await script("/peers/tfjs-webgpu/tf-backend-webgpu.min.js");
  const { tf } = globalThis;
  await tf.setBackend("webgpu");
  await tf.ready();
  stage("backend");
  const x = tf.tensor4d(filled(X), [1, 8, 8, 32]), filter = tf.tensor4d(filled(W), [1, 1, 32, 32]);
  await tf.fused.conv2d({ x, filter, strides: 1, pad: 0, activation: "relu" }).data();
}

const ENGINES = {
  "bare": () => python([]),
  "bare, NumPy": () => python(["numpy"]),
  "fusedconv": async () => convolve(await python(["fusedconv"]), HOST_OPERANDS),
  "fusedconv, NumPy": async () => convolve(await python(["fusedconv", "numpy"]), NUMPY_OPERANDS),
  "onnxruntime-web": () => onnxruntime("ort.webgpu.bundle.min.mjs", "webgpu"),
  "onnxruntime-web wasm": () => onnxruntime("ort.wasm.bundle.min.mjs", "wasm"),
  "TensorFlow.js": tensorflow,
};

async function measure(name) {
  await ENGINES[name]();
  const ms = performance.now();
  return { ms, stages };
}

const send = (kind, value) => fetch(`/report/${kind}`, { method: "POST", body: JSON.stringify(value) });
measure(new URLSearchParams(location.search).get("engine"))
  .then((found) => send("done", found), (error) => send("failed", String(error?.stack ?? error)));
