"""How Playwright starts the browser: for the tests, and for `serve.py --headless`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

ADAPTER = os.environ.get("FUSEDCONV_ADAPTER", "auto")
"""auto (lavapipe where it can be set up), swiftshader, lavapipe, matrix or hardware."""

TIMEOUT_MS = 120_000
"""For one action of a page: software adapters compile and compute slowly."""

COMMON = [
    "--no-sandbox",
    "--enable-unsafe-webgpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
]
OF_ADAPTER = {
    "swiftshader": ["--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan"],
    # These browsers' SwiftShader is a shim that forwards to Mesa.
    "lavapipe": [],
    "matrix": [],
    "hardware": [
        "--ignore-gpu-blocklist",
        "--enable-features=Vulkan",
        "--use-angle=vulkan",
        "--disable-vulkan-surface",
    ],
}


def launch_settings(adapter: str, executable: Path) -> dict[str, Any]:
    """Arguments of `playwright.chromium.launch`."""
    return {
        "executable_path": str(executable),
        "headless": True,
        "args": COMMON + OF_ADAPTER[adapter],
        "timeout": TIMEOUT_MS,
    }
