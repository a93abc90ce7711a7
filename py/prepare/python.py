"""The virtual environment and what is installed into it."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from .steps import ROOT, apt_install, run, step

__all__ = ["PYTHON", "VENV", "install", "pip", "requirements"]

VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
MARKERS = ROOT / "build" / "installed"


def requirements(*groups: str) -> list[str]:
    """The dependency groups of pyproject.toml, one list."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    return [requirement for group in groups for requirement in known[group]]


def install(groups: Sequence[str]) -> Path:
    """The environment's interpreter, with these dependency groups installed."""
    base = getattr(sys, "_base_executable", sys.executable)
    step("virtual environment", create, inputs=[sys.version, base], outputs=[PYTHON])
    for group in groups:
        wanted = requirements(group)
        marker = MARKERS / group

        def make(wanted: list[str] = wanted, marker: Path = marker) -> None:
            pip("install", *wanted)
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()

        # Names the environment too: a new one has nothing installed.
        made = (VENV / "pyvenv.cfg").stat().st_mtime_ns
        step(f"Python packages ({group})", make, inputs=[wanted, made], outputs=[marker])
    return PYTHON


def create() -> None:
    if importlib.util.find_spec("ensurepip") is None:
        apt_install("python3-venv")
    run(sys.executable, "-m", "venv", "--clear", VENV)
    packages = next(VENV.glob("lib/python3*/site-packages"))
    (packages / "checkout.pth").write_text(f"{ROOT / 'py'}\n")


def pip(*arguments: str | Path, env: Mapping[str, str] | None = None) -> None:
    run(PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments, env=env)
