// Starts Pyodide with fusedconv from a folder, in a page or in a module worker.

const HERE = new URL("./pyodide/", import.meta.url).href;

// Options: indexURL, the folder with pyodide.mjs and a lock that lists fusedconv; numpy, false to
// leave NumPy out; stage(text, done), told what is going on. Answers { pyodide, hasNumpy }.
export async function boot({ indexURL = HERE, numpy = true, stage = () => {} } = {}) {
  stage("Loading Python", 0.05);
  const [{ loadPyodide }, lock] = await Promise.all([
    import(new URL("pyodide.mjs", indexURL).href),
    fetchLock(new URL("pyodide-lock.json", indexURL).href),
  ]);
  const hasNumpy = numpy && "numpy" in lock.packages;
  stage(hasNumpy ? "Loading Python and NumPy" : "Loading Python", 0.15);
  const pyodide = await loadPyodide({
    indexURL,
    lockFileContents: lock,
    packageBaseUrl: indexURL,
    packages: hasNumpy ? ["fusedconv", "numpy"] : ["fusedconv"],
  });
  return { pyodide, hasNumpy };
}

async function fetchLock(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`Pyodide is not at ${url} (${response.status})`);
  return response.json();
}

// Python's error as a reader wants it, { kind, message }: its class and text, without the traceback.
export function readable(error) {
  if (error?.type === undefined) return { kind: error?.name, message: String(error?.message ?? error) };
  const lines = error.message.trimEnd().split("\n");
  const from = lines.findLastIndex((line) => /^[\w.]+(:|$)/.test(line));
  return { kind: error.type, message: lines.slice(from).join("\n").replace(/^[\w.]+: /, "") };
}
