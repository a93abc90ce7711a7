#!/usr/bin/env python3
"""Prepares everything that a fresh checkout needs, then serves the page, or runs it or the tests.

python3 serve.py                     the page on http://127.0.0.1:8000
python3 serve.py --headless          the page's example without a screen, its report as text
python3 serve.py --test [ARGUMENTS]  all checks and tests; arguments are pytest's
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 (says so instead of failing below)
    sys.exit(f"needs Python 3.11 or newer; this is {sys.version.split()[0]}")

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "py"))

from prepare import browser, node, pyodide, python, server, steps  # noqa: E402
from prepare.config import playwright_config  # noqa: E402

CHECKS = {
    "ruff check": ("ruff", "check"),
    "ruff format": ("ruff", "format", "--check"),
    "types": ("mypy",),
    "operators": ("prepare.operators",),
}
"""What is checked before the tests: modules of the environment and their arguments."""

ALL_TESTS = ("-n", "2", "--dist", "loadfile")
"""Pytest's arguments where none are given: software adapters compile on one core at a time."""


def prepare(use: str, adapter: str | None = None) -> str:
    """Bring everything up to date for a use, a key of `node.SETS`; the adapter that was set up."""
    start = time.monotonic()
    groups = {"page": ["page"], "headless": ["page", "browser"]}
    with steps.exclusive():
        python.install(groups.get(use, ["page", "browser", "test"]))
        node.npm_packages("page" if use == "headless" else use)
        pyodide.pyodide_folder()
        chosen = browser.prepare_adapter(adapter) if adapter else ""
    steps.say(f"ready after {time.monotonic() - start:.1f} s")
    return chosen


def in_environment(module: str, *arguments: str, **settings: str) -> int:
    """Run a module with the environment's Python; its exit status."""
    command = [str(python.PYTHON), "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, check=False).returncode


def serve(port: int) -> int:
    prepare("page")
    try:
        running = server.Server(port)
    except OSError as error:
        raise steps.SetupError(f"port {port}: {error.strerror}; choose another: --port N") from None
    print(f"serving the page on {running.url} (Ctrl-C ends it)", flush=True)
    try:
        running.serve_forever()
    except KeyboardInterrupt:
        print()
    return 0


def test(adapter: str, arguments: Sequence[str]) -> int:
    """Every check, then pytest: 0 if all of them pass."""
    chosen = prepare("test", adapter)
    failed = []
    for name, (module, *rest) in CHECKS.items():
        print(f"check: {name}", flush=True)
        if in_environment(module, *rest):
            failed.append(name)
    status = in_environment("pytest", *(arguments or ALL_TESTS), FUSEDCONV_ADAPTER=chosen)
    if failed:
        print(f"failed checks: {', '.join(failed)}", flush=True)
    return status or int(bool(failed))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8000, help="default: 8000")
    parser.add_argument("--headless", action="store_true", help="run the example, print its report")
    parser.add_argument(
        "--adapter",
        choices=("auto", *browser.ADAPTERS),
        default=playwright_config().ADAPTER,
        help="what the headless browser computes on; auto: lavapipe if it can be set up",
    )
    parser.add_argument("--test", nargs=argparse.REMAINDER, help="all checks and tests")
    options = parser.parse_args()
    try:
        if options.test is not None:
            return test(options.adapter, options.test)
        if options.headless:
            return in_environment("prepare.headless", prepare("headless", options.adapter))
        return serve(options.port)
    except steps.SetupError as error:
        print(f"prepare: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
