"""fusedconv beside onnxruntime-web and TensorFlow.js: one browser, one adapter, one go.

    python tests/bench/peers.py [--adapter lavapipe] [--shapes "3x3 64,1x1 32"] [--json OUT]
    python tests/bench/peers.py --serve-only       the page, for a browser of your own
    python tests/bench/peers.py --bundle DIR --launch "chromium ..."   where nothing is installed

Prints milliseconds a call and ratios to the faster WebGPU peer; writes everything as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import host
import models
import tables

from prepare import browser, node, pyodide, python, steps
from prepare.server import serving

SOFTWARE = ("swiftshader", "lavapipe", "matrix")


def prepare(adapter: str, arguments: list[str]) -> str:
    """Install what the bench needs, and go on in that environment; gives the adapter."""
    with steps.exclusive():
        python.install(["page", "browser", "test"])
        if Path(sys.prefix) != python.VENV:
            script = str(Path(__file__).resolve())
            os.execv(python.PYTHON, [str(python.PYTHON), script, *arguments])
        node.npm_packages("bench")
        pyodide.pyodide_folder()
        chosen = browser.prepare_adapter(adapter)
        folder = host.BUILD / "models"
        inputs = [models.SHAPES, Path(models.__file__)]
        steps.step(
            "ONNX models", lambda: models.write_models(folder), inputs=inputs, outputs=[folder]
        )
    return chosen


def query(options: argparse.Namespace, adapter: str) -> str:
    """The settings of the page as part of its address."""
    settings = {"report": "1", "repeat": 3 if options.quick else options.repeat}
    for name in ("shapes", "engines"):
        if getattr(options, name):
            settings[name] = getattr(options, name)
    if options.dtype:
        settings["dtypes"] = options.dtype
    if adapter in SOFTWARE and not options.all_shapes:
        settings["software"] = "1"
    return urlencode(settings)


def said(kind: str, value: Any) -> None:
    if kind == "log":
        print(f"page: {value}", flush=True)


def measure(server: host.BenchServer, options: argparse.Namespace, adapter: str) -> Any:
    """The page's result."""
    with serving(server) as url:
        address = f"{url}/bench/?{query(options, adapter)}"
        started = (
            host.launched(options.launch, address)
            if options.launch
            else host.playwright_browser(adapter, address)
        )
        with started:
            return server.result(said)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--adapter", default="auto", choices=("auto", "real", *browser.ADAPTERS))
    parser.add_argument("--shapes", help="names from shapes.json, with commas; default: all")
    parser.add_argument(
        "--all-shapes", action="store_true", help="on software, also those for GPUs"
    )
    parser.add_argument("--dtype", choices=models.DTYPES, help="default: both, where there is f16")
    parser.add_argument("--engines", help="of ours,ort,tfjs,wasm; default: all")
    parser.add_argument("--repeat", type=int, default=10, help="rounds at least")
    parser.add_argument("--quick", action="store_true", help="3 rounds, for a first look")
    parser.add_argument("--json", type=Path, help="where the result goes")
    parser.add_argument(
        "--serve-only", action="store_true", help="serve the page, start no browser"
    )
    parser.add_argument("--port", type=int, default=0, help="for --serve-only; default: a free one")
    parser.add_argument(
        "--bundle", type=Path, help="a folder with the packages; nothing is installed"
    )
    parser.add_argument("--launch", metavar="COMMAND", help="a browser's command line")
    return parser


def main() -> int:
    options = arguments().parse_args()
    adapter = "hardware" if options.adapter == "real" else options.adapter
    if options.bundle:
        mounts = host.bundle_mounts(options.bundle)
        adapter = "hardware" if adapter == "auto" else adapter
    else:
        adapter = prepare(adapter, sys.argv[1:])
        mounts = host.mounts(host.BUILD / "models")
    server = host.BenchServer(mounts, options.port)
    if options.serve_only:
        host.serve(server)
        return 0
    try:
        result = {"name": adapter, **measure(server, options, adapter)}
    except host.Failed as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    print(tables.report(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
