"""From page load to the first result of a small convolution, and the bytes fetched for it.

    python tests/bench/cold_start.py [--adapter lavapipe] [--repeat 5]

Medians over fresh browsers, served from this machine: a network adds its own time to the bytes,
given raw and, where Node is at hand, compressed by Brotli as a web server would send them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import host
import ready
import tables

ENGINES = (
    "bare",
    "bare, NumPy",
    "fusedconv",
    "fusedconv, NumPy",
    "onnxruntime-web",
    "onnxruntime-web wasm",
    "TensorFlow.js",
)
OVER = {"fusedconv": "bare", "fusedconv, NumPy": "bare, NumPy"}
BROTLI = """
const { constants, brotliCompressSync } = require("zlib");
const params = { [constants.BROTLI_PARAM_QUALITY]: 9 };
console.log(brotliCompressSync(require("fs").readFileSync(process.argv[1]), { params }).length);
"""


def file_of(address: str, mounts: Mapping[str, Path]) -> Path:
    """The file behind an address."""
    prefix = max((m for m in mounts if address.startswith(m)), key=len)
    return mounts[prefix] / address.removeprefix(prefix)


def compressed(file: Path, node: str) -> int:
    """Bytes after Brotli, for what is not compressed already."""
    if file.suffix in (".whl", ".zip"):
        return file.stat().st_size
    command = [node, "-e", BROTLI, str(file)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def started(bench: ready.Bench, engine: str) -> dict[str, Any]:
    """One run, with the files from outside of the bench that the engine took."""
    run: dict[str, Any] = bench.page(f"cold.html?engine={engine}")
    paths = [p for p in dict.fromkeys(bench.fetched) if not p.startswith("/bench/")]
    run["files"] = {
        p: file.stat().st_size for p in paths if (file := file_of(p, bench.mounts)).is_file()
    }
    return run


def summary(bench: ready.Bench, engine: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of an engine's runs, and its bytes."""
    files: dict[str, int] = runs[0]["files"]
    node = shutil.which("node")
    packed = [compressed(file_of(p, bench.mounts), node) for p in files] if node else None
    return {
        "engine": engine,
        "ms": median(run["ms"] for run in runs),
        "least": min(run["ms"] for run in runs),
        "stages": {name: median(run["stages"][name] for run in runs) for name in runs[0]["stages"]},
        "bytes": sum(files.values()),
        "brotli": sum(packed) if packed else None,
        "files": files,
    }


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The result as Markdown."""
    ms = {row["engine"]: row["ms"] for row in rows}
    head = ["engine", "ms", "least", "over bare Pyodide", "MB", "MB, Brotli", "stages, ms"]
    lines = []
    for row in rows:
        base = ms.get(OVER.get(row["engine"], ""))
        lines.append(
            [
                row["engine"],
                f"{row['ms']:.0f}",
                f"{row['least']:.0f}",
                f"{row['ms'] - base:.0f}" if base else "",
                f"{row['bytes'] / 1e6:.2f}",
                f"{row['brotli'] / 1e6:.2f}" if row["brotli"] else "",
                ", ".join(f"{name} {at:.0f}" for name, at in row["stages"].items()),
            ]
        )
    return tables.markdown(head, lines)


def main() -> int:
    parser = ready.parser(__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="browsers for each engine")
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=ENGINES)
    options = parser.parse_args()
    bench = ready.Bench(options)
    runs: dict[str, list[Any]] = {engine: [] for engine in options.engines}
    try:
        for _ in range(options.repeat):
            for engine in runs:
                runs[engine].append(started(bench, engine))
    except host.Failed as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    rows = [summary(bench, engine, several) for engine, several in runs.items()]
    if options.json:
        ready.write(options.json, {"adapter": bench.adapter, "engines": rows})
    print("\n".join(table(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
