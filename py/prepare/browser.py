"""A Chromium, and where it can be made one whose WebGPU adapter is Mesa's lavapipe."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .steps import BUILD, ROOT, SetupError, apt_install, run, say, step

__all__ = ["ADAPTERS", "SETUPS", "chromium", "executable", "prepare_adapter"]

ADAPTERS = ("swiftshader", "lavapipe", "matrix", "hardware")
DEVICES = ROOT / "tests" / "devices"
# Browsers that a script makes: the script, and what it makes.
SETUPS = {
    "lavapipe": (DEVICES / "setup_lavapipe.sh", BUILD / "lavapipe" / "chrome-lavapipe"),
    "matrix": (DEVICES / "setup_subgroup_matrix.sh", BUILD / "matrix" / "chrome-matrix"),
}
DEBIAN = Path("/usr/lib/chromium/chromium")


def chromium() -> Path:
    """Debian's Chromium; installs it where there is none. $FUSEDCONV_CHROMIUM names another."""
    named = os.environ.get("FUSEDCONV_CHROMIUM")
    if named:
        return Path(named)
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if not found:
        say("no Chromium here: installing Debian's")
        apt_install("chromium")
        found = shutil.which("chromium")
    if not found:
        raise SetupError("apt-get installed no /usr/bin/chromium; set FUSEDCONV_CHROMIUM to one")
    return Path(found)


def prepare_adapter(wanted: str) -> str:
    """Set up what an adapter needs; "auto" is lavapipe where that works, else SwiftShader."""
    chromium()
    if wanted not in ("auto", *ADAPTERS):
        raise SetupError(f"no adapter {wanted!r}: auto, {', '.join(ADAPTERS)}")
    if wanted == "auto" and os.environ.get("FUSEDCONV_CHROMIUM"):
        return "swiftshader"
    name = "lavapipe" if wanted == "auto" else wanted
    if name not in SETUPS:
        return name
    script, made = SETUPS[name]
    inputs = [DEVICES, os.stat(DEBIAN).st_mtime_ns if DEBIAN.exists() else ""]
    try:
        step(f"Chromium on {name}", lambda: run(script, made.parent), inputs=inputs, outputs=[made])
    except SetupError as error:
        if wanted != "auto":
            raise
        say(f"lavapipe cannot be set up here, so the adapter is SwiftShader:\n{error}")
        return "swiftshader"
    return name


def executable(adapter: str) -> Path:
    """The browser to start for an adapter that is set up."""
    return SETUPS[adapter][1] if adapter in SETUPS else chromium()
