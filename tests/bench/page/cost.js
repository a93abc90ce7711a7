// What planning and calling cost in Python, in one fresh page: reports milliseconds by name.

const send = (kind, value) => fetch(`/report/${kind}`, { method: "POST", body: JSON.stringify(value) });

async function measure() {
  const indexURL = new URL("/pyodide/", location.href).href;
  const [{ loadPyodide }, lock] = await Promise.all([
    import(`${indexURL}pyodide.mjs`),
    fetch(`${indexURL}pyodide-lock.json`).then((response) => response.json()),
  ]);
  const pyodide = await loadPyodide({ indexURL, lockFileContents: lock, packageBaseUrl: indexURL,
    packages: ["numpy"] });
  pyodide.runPython("import numpy");
  pyodide.FS.writeFile("/home/pyodide/cost.py", await (await fetch("cost.py")).text());
  const start = performance.now();
  await pyodide.loadPackage("fusedconv", { messageCallback() {} });
  const unpacked = performance.now() - start;
  const found = JSON.parse(await pyodide.pyimport("cost").measure());
  return { "unpacking the wheels": unpacked, ...found };
}

measure().then((found) => send("done", found), (error) => send("failed", String(error?.stack ?? error)));
