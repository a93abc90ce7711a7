"""Every variant that the device can run, forced, on requests that reach each of its branches."""

from __future__ import annotations

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


@pytest.fixture(scope="session")
def capabilities(browser_python: Any) -> Capabilities:
    """What the browser's device offers."""
    text = "import fusedconv\n(await fusedconv.device()).capabilities.to_json()"
    return Capabilities.from_json(browser_python(text))


@pytest.fixture(scope="session")
def cases(capabilities: Capabilities) -> dict[tuple[str, str], list[Case]]:
    """The cases by variant and dtype, for this very device."""
    dtypes = ["float32"] + ["float16"] * ("shader-f16" in capabilities.features)
    return {
        (name, dtype): listed
        for dtype in dtypes
        for name, listed in variant_cases(builtin("fusedconv"), capabilities, dtype).items()
    }


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
def test_variant(variant: str, dtype: str, browser_python: Any, cases: Any) -> None:
    listed = cases.get((variant, dtype), [])
    if not listed:
        pytest.skip(f"this device cannot run {variant} in {dtype}")
    assert not check(browser_python, listed[:12])
