"""Every variant that the device can run, forced, on requests that reach each of its branches."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

from fusedconv import Capabilities
from fusedconv.operator import builtin

from ..contract.variant_cases import Case, variant_cases
from ..fills import difference, expected, operands

VARIANTS = [variant.id for variant in builtin("fusedconv").manifest.variants]

RUN = """
import fusedconv
results = []
for case in cases:
    try:
        y = await fusedconv.run(
            case["x"], case["w"], bias=case.get("bias"), z=case.get("zResidual"),
            variant=case["variant"], tunables=case["tunables"], **case["attributes"],
        )
        results.append(y)
    except fusedconv.FusedConvError as error:
        results.append(f"{type(error).__name__}: {error}")
results
"""


@lru_cache
def cases(device: str, dtype: str) -> dict[str, list[Case]]:
    """The cases of every variant for this very device, given as JSON."""
    capabilities = Capabilities.from_json(device)
    if dtype == "float16" and "shader-f16" not in capabilities.features:
        return {}
    return variant_cases(builtin("fusedconv"), capabilities, dtype)


def check(browser_python: Any, listed: list[Case]) -> list[str]:
    """Run cases in the browser; what is wrong with each that is not right."""
    jobs, wanted = [], []
    for case in listed:
        arguments = dict(case.arguments)
        dtype = arguments.pop("dtype")
        request = builtin("fusedconv").request(case.x, case.w, **case.arguments)
        given = operands(request.shapes, dtype)
        attributes = {k: v for k, v in arguments.items() if k not in ("bias", "z")}
        wanted.append((expected(given, attributes), dtype, attributes.get("activation")))
        jobs.append(
            {
                **given,
                "variant": case.variant,
                "tunables": dict(case.tunables),
                "attributes": attributes,
            }
        )
    results = browser_python(RUN, cases=jobs)
    faults = []
    for case, got, (want, dtype, activation) in zip(listed, results, wanted, strict=True):
        fault = got if isinstance(got, str) else difference(got, want, dtype, activation)
        if fault:
            faults.append(f"{case.name}: {fault}")
    return faults


@pytest.mark.needs_numpy
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_variant(variant: str, dtype: str, browser_python: Any) -> None:
    device = browser_python("import fusedconv\n(await fusedconv.device()).capabilities.to_json()")
    listed = cases(device, dtype).get(variant, [])
    if not listed:
        pytest.skip(f"this device cannot run {variant} in {dtype}")
    # The published kernels have more branches than the extensions, and halves the same as floats.
    most = 8 if variant.startswith("ext") else 12
    assert not check(browser_python, listed[: most if dtype == "float32" else most // 2])
