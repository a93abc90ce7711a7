"""fusedconv beside onnxruntime-web and TensorFlow.js: one browser, one adapter, one go.

    python tests/bench/peers.py [--adapter lavapipe] [--shapes "3x3 64,1x1 32"] [--json OUT]
    python tests/bench/peers.py --serve-only       the page, for a browser of your own
    python tests/bench/peers.py --bundle DIR --launch "chromium ..."   where nothing is installed

Prints milliseconds a call and ratios to the faster WebGPU peer; writes everything as JSON.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any
from urllib.parse import urlencode

import host
import models
import ready
import tables

SOFTWARE = ("swiftshader", "lavapipe", "matrix")


def query(options: argparse.Namespace, adapter: str) -> str:
    """The settings of the page as part of its address."""
    settings = {"report": "1", "repeat": 3 if options.quick else options.repeat}
    for name in ("shapes", "engines", "calls"):
        if getattr(options, name):
            settings[name] = getattr(options, name)
    if options.dtype:
        settings["dtypes"] = options.dtype
    if adapter in SOFTWARE and not options.all_shapes:
        settings["software"] = "1"
    if options.tune:
        settings["tune"] = "1"
    return urlencode(settings)


def said(kind: str, value: Any) -> None:
    if kind == "log":
        print(f"page: {value}", flush=True)


def arguments() -> argparse.ArgumentParser:
    parser = ready.parser(__doc__)
    parser.add_argument("--shapes", help="names from shapes.json, with commas; default: all")
    parser.add_argument("--all-shapes", action="store_true", help="those for GPUs on software")
    parser.add_argument("--dtype", choices=models.DTYPES, help="default: both, where there is f16")
    parser.add_argument("--engines", help="of ours,ort,tfjs,wasm; default: all")
    parser.add_argument("--repeat", type=int, default=10, help="rounds at least")
    parser.add_argument("--calls", type=int, help="timed together; default: some 100 ms of them")
    parser.add_argument("--tune", action="store_true", help="measure our variants first, rank them")
    parser.add_argument("--quick", action="store_true", help="3 rounds, for a first look")
    parser.add_argument("--serve-only", action="store_true", help="serve the page alone")
    parser.add_argument("--port", type=int, default=0, help="for --serve-only; default: a free one")
    return parser


def main() -> int:
    options = arguments().parse_args()
    bench = ready.Bench(options)
    if options.serve_only:
        host.serve(host.BenchServer(bench.mounts, options.port))
        return 0
    try:
        found = bench.page(f"?{query(options, bench.adapter)}", said)
    except host.Failed as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    result = {"name": bench.adapter, **found}
    if options.json:
        ready.write(options.json, result)
    print(tables.report(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
