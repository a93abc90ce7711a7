// Adds byte code to wheels, compiled by the Python that will run them.
// usage: node bytecode.mjs PYODIDE.MJS WHEEL...
import { readFileSync, renameSync, writeFileSync } from "node:fs";

const COMPILE = `
import base64, hashlib, importlib.util, io, zipfile
from _frozen_importlib_external import _code_to_hash_pyc

def with_byte_code(wheel: bytes) -> bytes:
    source = zipfile.ZipFile(io.BytesIO(wheel))
    files = {item.filename: source.read(item) for item in source.infolist() if not item.is_dir()}
    record = next(name for name in files if name.endswith(".dist-info/RECORD"))
    added = {}
    for name, content in files.items():
        if name.endswith(".py"):
            # Unchecked: no browser compares it with the source. The name is relative, and replaced
            # by the real place at import.
            code = compile(content, name, "exec", dont_inherit=True)
            hashed = importlib.util.source_hash(content)
            added[importlib.util.cache_from_source(name)] = _code_to_hash_pyc(code, hashed, False)
    lines = files.pop(record).decode().splitlines()
    for name, content in added.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        lines.append(f"{name},sha256={digest},{len(content)}")
    files |= added
    files[record] = ("\\n".join(lines) + "\\n").encode()
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in files.items():
            target.writestr(zipfile.ZipInfo(name, (2020, 2, 2, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return result.getvalue()

lambda wheel: with_byte_code(wheel.to_bytes())
`;

async function main(module, ...wheels) {
  const { loadPyodide } = await import(module);
  const pyodide = await loadPyodide();
  const compile = pyodide.runPython(COMPILE);
  for (const wheel of wheels) {
    writeFileSync(`${wheel}.part`, compile(new Uint8Array(readFileSync(wheel))).toJs());
    renameSync(`${wheel}.part`, wheel);
  }
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
