// A page in which the tests run Python: `await ready`, then `await runPython(source, variables)`.
// ?numpy=0 leaves NumPy out.
import { boot } from "/boot.js";

// Errors that no scope caught, and warnings of the shader compiler, fail the test that made them.
window.gpuErrors = [];
const requestDevice = GPUAdapter.prototype.requestDevice;
GPUAdapter.prototype.requestDevice = async function (...descriptor) {
  const device = await requestDevice.apply(this, descriptor);
  device.addEventListener("uncapturederror", ({ error }) => {
    window.gpuErrors.push(`${error.constructor.name}: ${error.message}`);
  });
  return device;
};

async function start() {
  const numpy = new URLSearchParams(location.search).get("numpy") !== "0";
  const { pyodide } = await boot({ indexURL: new URL("/pyodide/", location.href).href, numpy });
  pyodide.FS.writeFile("/home/pyodide/harness.py", await (await fetch("harness.py")).text());
  return pyodide.pyimport("harness").run;
}

window.ready = start();
window.runPython = async (source, variables) => (await window.ready)(source, variables);
