"""The page's HTTP server: several folders under one address, isolated, never stale."""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from .node import PACKAGES, WEB
from .pyodide import FOLDER
from .steps import ROOT

__all__ = ["MOUNTS", "Server", "serving"]

MOUNTS: dict[str, Path] = {
    "/": WEB,
    "/pyodide/": FOLDER,
    "/shaders/": ROOT / "shaders",
    "/model/": PACKAGES / "@upscalerjs/default-model/models",
    "/peers/tfjs/": PACKAGES / "@tensorflow/tfjs/dist",
    "/peers/tfjs-webgpu/": PACKAGES / "@tensorflow/tfjs-backend-webgpu/dist",
    "/peers/ort/": PACKAGES / "onnxruntime-web/dist",
}
"""Address -> folder; the longest that fits counts."""


class Handler(SimpleHTTPRequestHandler):
    """Files below the mounts, with the headers that a page with threads and timers wants."""

    protocol_version = "HTTP/1.1"
    extensions_map = {  # noqa: RUF012 (the base class declares it)
        **SimpleHTTPRequestHandler.extensions_map,
        ".js": "text/javascript",
        ".mjs": "text/javascript",
        ".json": "application/json",
        ".wasm": "application/wasm",
        ".whl": "application/zip",
        ".py": "text/plain; charset=utf-8",
    }

    server: Server

    def do_GET(self) -> None:
        content = self.server.pinned.get(urlsplit(self.path).path)
        if content is None:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(self.path))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def translate_path(self, path: str) -> str:
        asked = unquote(urlsplit(path).path)
        clean = posixpath.normpath(asked) + ("/" if asked.endswith("/") else "")
        clean = "/" + clean.lstrip("/")
        mounts = self.server.mounts
        prefix = max((m for m in mounts if clean.startswith(m)), key=len)
        return f"{mounts[prefix]}/{clean[len(prefix) :]}"

    def end_headers(self) -> None:
        # A cross-origin isolated page has a finer clock, and may share memory.
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        if self.server.verbose:
            super().log_message(format, *args)


class Server(ThreadingHTTPServer):
    """Serves `mounts` on the loopback address; port 0 takes a free one.

    `pinned` has contents that stand in for files, by address.
    """

    daemon_threads = True

    def __init__(
        self,
        port: int = 0,
        mounts: Mapping[str, Path] = MOUNTS,
        pinned: Mapping[str, bytes] | None = None,
        *,
        verbose: bool = False,
    ) -> None:
        self.mounts = mounts
        self.pinned = pinned or {}
        self.verbose = verbose
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that hangs up in the middle of a file is nothing to report."""


@contextmanager
def serving(server: Server) -> Iterator[str]:
    """Run a server in the background; gives its address."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()
