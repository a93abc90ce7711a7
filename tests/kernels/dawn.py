"""Runs plans on Dawn in Node, without a browser: the quickest loop for work on kernels.

Needs Node and its package `webgpu` (`$DAWN` may name the module), and a Vulkan driver that Dawn
accepts: Mesa 25 or newer, or a GPU's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fusedconv import Capabilities
from fusedconv.plan import Plan

__all__ = ["Job", "available", "device", "run"]

RUNNER = Path(__file__).with_name("run_plans.mjs")
Job = tuple[Plan, Mapping[str, NDArray[Any]]]


def node(*arguments: str) -> str:
    """Standard output of the runner; raises with its standard error when it fails."""
    done = subprocess.run(
        ["node", str(RUNNER), *arguments], capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout


def available() -> str | None:
    """Why Dawn cannot run here, or None."""
    if shutil.which("node") is None:
        return "Node is not installed"
    try:
        device()
    except RuntimeError as error:
        return f"Dawn does not start: {str(error).strip().splitlines()[-1]}"
    return None


def device() -> Capabilities:
    """What Dawn's device offers here."""
    return Capabilities(**json.loads(node("device")))


def run(jobs: Sequence[Job]) -> list[NDArray[Any] | str]:
    """The output of each plan on its operands, as an array of its dtype, or an error's text."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        listed = []
        for i, (plan, operands) in enumerate(jobs):
            files = {key: f"{i}.{key}.bin" for key in operands}
            for key, value in operands.items():
                value.astype(plan.dtype).tofile(folder / files[key])
            listed.append({"plan": plan.to_dict(), "operands": files, "output": f"{i}.y.bin"})
        (folder / "jobs.json").write_text(json.dumps(listed))
        node("run", name)
        report = json.loads((folder / "report.json").read_text())
        return [
            item["error"]
            if "error" in item
            else np.fromfile(folder / f"{i}.y.bin", plan.dtype).reshape(plan.output_shape)
            for i, (item, (plan, _)) in enumerate(zip(report, jobs, strict=True))
        ]
