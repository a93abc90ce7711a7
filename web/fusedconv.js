// fusedconv for JavaScript:
//
//   import { getKernel } from ".../fusedconv.js";
//   const kernel = await getKernel("com.microsoft.FusedConv");
//   const { y } = await kernel({
//     x: { data: xData, shape: [1, 32, 8, 8] },
//     w: { data: wData, shape: [32, 32, 1, 1] },
//     attributes: { activation: "Relu" },
//   });
//   y.data, y.shape, y.dtype
//
// Data is a Float32Array, a Float16Array (or a Uint16Array with the bits of halves), or a GPUBuffer
// together with a dtype, "float32" or "float16". Operands are x, w, bias, zResidual.
import { boot, readable } from "./boot.js";
import { fromBits, toBits } from "./halves.js";

// Operator -> the function of the package that runs it.
const OPERATORS = { "com.microsoft.FusedConv": "run", "ai.onnx.ConvTranspose": "conv_transpose" };

const GLUE = `
import json
import fusedconv
from fusedconv import GpuTensor

async def operand(value):
    shape = value.shape.to_py()
    if hasattr(value.data, "mapAsync"):
        return GpuTensor.from_buffer(value.data, shape, value.dtype)
    return await fusedconv.array((value.data, shape))

async def call(operator, operands, options):
    held = []
    try:
        given = {}
        for name in operands.object_keys():
            held.append(await operand(getattr(operands, name)))
            given["z" if name == "zResidual" else name] = held[-1]
        return await getattr(fusedconv, operator)(**given, **json.loads(options))
    finally:
        for tensor in held:
            tensor.free()

async def adopt(device):
    await fusedconv.device(device)

call
`;

const started = new Map();

// A function that runs an operator. Options:
//   pyodide    one that runs already, with fusedconv among its packages; else one is started
//   indexURL   the folder of the Pyodide to start (default: "pyodide/" beside this file)
//   device     a GPUDevice to use; else one is requested
export async function getKernel(name, { pyodide, indexURL, device, version = 1 } = {}) {
  const operator = name.replace(/^webgpu-kernels\//, "");
  if (!Object.hasOwn(OPERATORS, operator)) {
    throw new RangeError(`No kernel ${name}; there are: ${Object.keys(OPERATORS).join(", ")}`);
  }
  if (version !== 1) throw new RangeError(`No version ${version} of ${operator}; there is version 1`);
  const python = await glue(pyodide ?? (await shared(indexURL)));
  if (device) await translated(() => python.get("adopt")(device));
  return (inputs, options) => run(python, OPERATORS[operator], inputs, options);
}

// The Pyodide that all kernels of a folder share.
function shared(indexURL = "") {
  if (!started.has(indexURL)) {
    const starting = boot({ indexURL: indexURL || undefined, numpy: false });
    starting.catch(() => started.delete(indexURL));
    started.set(indexURL, starting);
  }
  return started.get(indexURL).then(({ pyodide }) => pyodide);
}

const glued = new WeakMap();

async function glue(pyodide) {
  if (!glued.has(pyodide)) {
    const names = pyodide.globals.get("dict")();
    await translated(async () => pyodide.runPython(GLUE, { globals: names }));
    glued.set(pyodide, names);
  }
  return glued.get(pyodide);
}

// With { resident: true } the result stays on the GPU: y.buffer, to be given back with y.free().
async function run(python, operator, { attributes = {}, variant, tunables, ...inputs }, { resident = false } = {}) {
  const operands = Object.fromEntries(Object.entries(inputs).filter(([, value]) => value != null));
  for (const [name, value] of Object.entries(operands)) {
    if (!value.data || !value.shape) throw new TypeError(`${name}: { data, shape } is needed`);
    operands[name] = { ...value, data: toBits(value.data) };
  }
  const options = { ...attributes, ...(variant && { variant }), ...(tunables && { tunables }) };
  const call = python.get("call");
  const tensor = await translated(() => call(operator, operands, JSON.stringify(options)));
  call.destroy();
  const y = { shape: tensor.shape.toJs(), dtype: tensor.dtype };
  const free = () => {
    tensor.free();
    tensor.destroy();
  };
  if (resident) return { y: { ...y, buffer: tensor.buffer, free } };
  try {
    return { y: { ...y, data: fromBits(await translated(() => tensor.to_js())) } };
  } finally {
    free();
  }
}

// Errors come as JavaScript's, named as in Python: RequestError, UnsupportedError, ...
async function translated(action) {
  try {
    return await action();
  } catch (error) {
    const { kind, message } = readable(error);
    throw Object.assign(new Error(message), { name: kind ?? "Error", cause: error });
  }
}
