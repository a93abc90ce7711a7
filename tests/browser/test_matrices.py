"""Subgroup-matrix kernels with the matrices emulated by plain arrays: everything around them (tiles,
padding, staging, the epilogue) runs on any device, also for f32 operands, whose matrices few have."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from fusedconv.devices import DEVICES
from fusedconv.operator import Operator, builtin, load_operator, shaders_folder

from ..contract.variant_cases import SMALL_TILES, Case, variant_cases
from ..fills import difference, expected, operands
from .conftest import BrowserPython

HALF = pytest.mark.needs_f16
TEMPLATES = ("conv-1x1-subgroup-matrix.wgsl.jinja", "ext-matrix-product.wgsl.jinja")


def pairs() -> list[Any]:
    """Variant and dtype, for every variant with matrices and the dtypes that it takes."""
    return [
        pytest.param(variant.id, dtype, marks=HALF if dtype == "float16" else ())
        for variant in builtin("fusedconv").manifest.variants
        if variant.passes[-1].shader in TEMPLATES
        for dtype, other in (("float32", "f16"), ("float16", "f32"))
        if not any(guard.startswith(f'dtypes.T == "{other}"') for guard in variant.when)
    ]


# Plans made here for a device with matrices, run there on the device that is.
RUN = """
import fusedconv
from fusedconv.api import run_operator
from fusedconv.plan import Binding, Pass, Plan, Scratch

def read(data):
    for item in data["passes"]:
        for binding in item["bindings"]:
            if binding["uniform"] is not None:
                binding["uniform"] = bytes.fromhex(binding["uniform"])
        item["bindings"] = tuple(Binding(**binding) for binding in item["bindings"])
        item["dispatch"] = tuple(item["dispatch"])
    data["passes"] = tuple(Pass(**item) for item in data["passes"])
    data["scratch"] = tuple(Scratch(**item) for item in data["scratch"])
    data["output_shape"] = tuple(data["output_shape"])
    return Plan(**data)

class Ready:
    name = "Ready"

    def __init__(self, plan):
        self.ready = read(plan)

    def plan(self, *shapes, **options):
        return self.ready

[await run_operator(Ready(case["plan"]), case["x"], case["w"], case.get("bias"),
                    case.get("zResidual"), out=None, cast=False, options={})
 for case in cases]
"""


@cache
def emulating() -> Operator:
    """FusedConv with the matrix macros lowered to plain arrays."""
    manifest = json.loads((shaders_folder() / "fusedconv" / "manifest.json").read_text())
    manifest["derive"]["emulateMatrix"] = True
    return load_operator(manifest)


def device_of(variant: str) -> str:
    """One with matrices of 8x8x8, of both types, or one with 16 rows."""
    return "h200" if "_16x" in variant else "apple"


@cache
def cases(device: str, dtype: str) -> dict[str, list[Case]]:
    """Requests for each branch of the kernels."""
    return variant_cases(emulating(), DEVICES[device], dtype, draws=1500)


@pytest.mark.needs_numpy
@pytest.mark.parametrize(("variant", "dtype"), pairs())
def test_emulated(variant: str, dtype: str, browser_python: BrowserPython) -> None:
    device = device_of(variant)
    listed = cases(device, dtype)[variant][: 2 if variant.startswith("ext") else 4]
    assert listed, "no request was drawn that this variant serves"
    jobs: list[dict[str, Any]] = []
    for case in listed:
        request = emulating().request(case.x, case.w, **case.arguments)
        tunables = {**case.tunables, **SMALL_TILES}
        plan = emulating().plan_request(request, DEVICES[device], True, tunables, variant)
        jobs.append({**operands(request.shapes, dtype), "plan": plan.to_dict()})
    results = browser_python(RUN, cases=jobs)
    for case, job, got in zip(listed, jobs, results, strict=True):
        skip = ("dtype", "bias", "z")
        attributes = {k: v for k, v in case.arguments.items() if k not in skip}
        want = expected(job, attributes)
        fault = difference(got, want, dtype, attributes.get("activation"))
        assert not fault, f"{case.name}: {fault}"
