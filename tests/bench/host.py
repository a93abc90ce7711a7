"""Serves a page of the bench, opens it in a browser, and takes what the page reports.

Everything here is standard library, so that it runs where only a browser and Python are; only
`playwright_browser` needs Playwright.
"""

from __future__ import annotations

import json
import queue
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "py"))

from prepare.server import MOUNTS, Handler, Server, serving  # noqa: E402

__all__ = ["BenchServer", "Failed", "bundle_mounts", "launched", "mounts", "playwright_browser"]

PAGE = Path(__file__).with_name("page")
BUILD = ROOT / "build" / "bench"
PATIENCE = 600
"""Seconds without a word from the page after which it has failed."""

FINE_CLOCK = "--disable-dawn-features=timestamp_quantization"
"""Chrome rounds GPU timestamps to 0.1 ms otherwise."""


class Failed(Exception):
    """The page reported an error, or nothing for too long."""


class BenchHandler(Handler):
    """Takes the page's reports, POST /report/KIND with a JSON body, and notes what it fetches."""

    def do_GET(self) -> None:  # noqa: N802
        server = self.server
        assert isinstance(server, BenchServer)
        server.fetched.append(self.path.partition("?")[0])
        super().do_GET()

    def do_POST(self) -> None:  # noqa: N802
        content = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        assert isinstance(server, BenchServer)
        server.reports.put((self.path.rsplit("/", 1)[-1], json.loads(content)))
        self.send_response(204)
        self.send_header("Content-Length", "0")
        self.end_headers()


class BenchServer(Server):
    """Serves the bench beside what its mounts name."""

    def __init__(self, mounts: Mapping[str, Path], port: int = 0) -> None:
        self.reports: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.fetched: list[str] = []
        super().__init__(port, mounts)
        self.RequestHandlerClass = BenchHandler

    def result(self, said: Callable[[str, Any], None]) -> Any:
        """What the page reports as done; everything before goes to `said`."""
        while True:
            try:
                kind, value = self.reports.get(timeout=PATIENCE)
            except queue.Empty:
                raise Failed(f"the page said nothing for {PATIENCE} s") from None
            if kind == "done":
                return value
            if kind == "failed":
                raise Failed(str(value))
            said(kind, value)


def mounts(models: Path) -> dict[str, Path]:
    """The addresses of a prepared checkout."""
    own = {"/bench/": PAGE, "/bench/models/": models, "/bench/data/": PAGE.parent}
    return {**MOUNTS, **own}


def bundle_mounts(bundle: Path) -> dict[str, Path]:
    """The same addresses over one folder that has everything from outside the checkout."""
    folders = {address: bundle / address.strip("/") for address in MOUNTS if address != "/"}
    return {**mounts(bundle / "models"), **folders}


@contextmanager
def playwright_browser(adapter: str, url: str) -> Iterator[None]:
    """The page in a headless Chromium on an adapter."""
    from playwright.sync_api import sync_playwright

    from prepare.browser import executable
    from prepare.config import playwright_config

    settings = playwright_config().launch_settings(adapter, executable(adapter))
    settings["args"] = [*settings["args"], FINE_CLOCK]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**settings)
        try:
            page = browser.new_page()
            page.goto(url)
            yield
        finally:
            browser.close()


@contextmanager
def launched(command: str, url: str) -> Iterator[None]:
    """The page in a browser that a command starts; the address is added to the command.

    What the browser says is shown when the page fails.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [*shlex.split(command), FINE_CLOCK, f"--user-data-dir={profile}/profile", url]
        log = Path(profile, "log")
        with log.open("wb") as output:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            yield
        except Failed:
            print(log.read_text("utf-8", "replace")[-4000:], file=sys.stderr)
            raise
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def serve(server: BenchServer) -> None:
    """Serve until Ctrl-C."""
    with serving(server) as url:
        print(f"the bench: {url}/bench/ (Ctrl-C ends it)", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print()
