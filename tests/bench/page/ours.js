// fusedconv from Python, in a Pyodide of this page.
import { boot } from "/boot.js";

export async function ours({ tune = false }) {
  const { pyodide, hasNumpy } = await boot({ indexURL: new URL("/pyodide/", location.href).href });
  if (!hasNumpy) throw new Error("the Pyodide folder has no NumPy");
  pyodide.FS.writeFile("/home/pyodide/ours.py", await (await fetch("ours.py")).text());
  const python = pyodide.pyimport("ours"), device = await python.gpu_device();
  return {
    version: python.fusedconv.__version__,
    pyodide: pyodide.version,
    engines: [{ name: "fusedconv", group: "ours", open: (problem) => open(python, device, problem, tune) }],
  };
}

async function open(python, device, problem, tune) {
  const { x, w, bias, xShape, wShape, yShape, stride, pad, group, transposed, output_padding, dtype, Kind } = problem;
  const settings = JSON.stringify({ x: xShape, w: wShape, stride, pad, group, transposed, output_padding, dtype, tune });
  // Pyodide knows no Float16Array.
  const bytes = [x, w, bias].map((values) => new Uint8Array(values.buffer));
  const contender = await python.open_contender(...bytes, settings);
  const size = yShape.reduce((a, b) => a * b, 1);
  return {
    device,
    notes: { variant: contender.variant, scratch: contender.scratch, passes: contender.passes, ...(tune && { tuning: contender.ranking }) },
    async once() {
      const y = new Kind(size);
      await contender.once(new Uint8Array(y.buffer));
      return y;
    },
    resident: (n) => contender.resident(n),
    batched: (n) => contender.batched(n),
    endToEnd: () => contender.end_to_end(),
    close() {
      contender.close();
      contender.destroy();
    },
  };
}
