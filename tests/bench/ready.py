"""What the programs of the bench share: options, preparation, and pages opened one at a time."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import host
import models

from prepare import browser, node, pyodide, python, steps
from prepare.server import serving

__all__ = ["Bench", "parser", "write"]


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The options that every program has."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--adapter", default="auto", choices=("auto", "real", *browser.ADAPTERS))
    made.add_argument("--bundle", type=Path, help="a folder that has the packages")
    made.add_argument("--launch", metavar="COMMAND", help="a browser's command line")
    made.add_argument("--json", type=Path, help="where the result goes")
    return made


class Bench:
    """A prepared checkout, or a bundle that needs no preparation, and the pages of the bench."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.launch = options.launch
        self.fetched: list[str] = []
        wanted = "hardware" if options.adapter == "real" else options.adapter
        if options.bundle:
            self.adapter = "hardware" if wanted == "auto" else wanted
            self.mounts = host.bundle_mounts(options.bundle)
        else:
            self.adapter = prepare(wanted)
            self.mounts = host.mounts(host.BUILD / "models")

    def page(self, path: str, said: Callable[[str, Any], None] = lambda kind, value: None) -> Any:
        """Open a page below /bench/ in a fresh browser; what it reports as done.

        `fetched` are the addresses that it asked for.

        Raises `host.Failed` with its error.
        """
        server = host.BenchServer(self.mounts)
        self.fetched = server.fetched
        with serving(server) as url:
            address = f"{url}/bench/{path}"
            started = (
                host.launched(self.launch, address)
                if self.launch
                else host.playwright_browser(self.adapter, address)
            )
            with started:
                return server.result(said)


def prepare(adapter: str) -> str:
    """Install what the bench needs and go on in that environment; gives the adapter."""
    with steps.exclusive():
        python.install(["page", "browser", "test"])
        if Path(sys.prefix) != python.VENV:
            os.execv(python.PYTHON, [str(python.PYTHON), *sys.argv])
        node.npm_packages("bench")
        pyodide.pyodide_folder()
        chosen = browser.prepare_adapter(adapter)
        folder = host.BUILD / "models"
        inputs = [models.SHAPES, Path(models.__file__)]
        steps.step(
            "ONNX models", lambda: models.write_models(folder), inputs=inputs, outputs=[folder]
        )
    return chosen


def write(file: Path, result: Any) -> None:
    """A result as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")
