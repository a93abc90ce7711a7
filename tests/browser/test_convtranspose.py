"""Transposed convolution in the browser: every variant forced, ONNX's own tests, random requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np
import pytest

from fusedconv import Capabilities, Plan
from fusedconv.operator import builtin
from fusedconv.reference import conv_transpose

from ..contract.random_transposed import random_transposed
from ..contract.variant_cases import Case, branches
from ..fills import difference, expected, hashed, operands
from ..onnx_cases import OnnxCase, onnx_cases

OPERATOR = builtin("convtranspose")
FAMILIES = [v.id for v in OPERATOR.manifest.variants if not v.id.endswith(("_bias", "_z"))]

# Small requests must reach kernels that are meant for large ones.
SMALL = {"GEMM_MIN_K": 1, "GEMM_MIN_ROWS": 1, "GEMM_MIN_COLUMNS": 1}

RUN = """
import fusedconv
results = []
for case in cases:
    try:
        y = await fusedconv.conv_transpose(
            case["x"], case["w"], bias=case.get("bias"), z=case.get("zResidual"), **case["options"]
        )
        results.append(y)
    except fusedconv.FusedConvError as error:
        results.append(f"{type(error).__name__}: {error}")
results
"""


def faults(browser_python: Any, cases: list[Case]) -> list[str]:
    """Run cases in the browser; what is wrong with each that is not right."""
    jobs, wanted = [], []
    for case in cases:
        attributes = {k: v for k, v in case.arguments.items() if k not in ("bias", "z", "dtype")}
        dtype = case.arguments["dtype"]
        request = OPERATOR.request(case.x, case.w, **case.arguments)
        given = operands(request.shapes, dtype)
        wanted.append((expected(given, attributes, transposed=True), attributes, dtype))
        options = {**attributes, "tunables": dict(case.tunables)}
        if case.variant:
            options["variant"] = case.variant
        jobs.append({**given, "options": options})
    results = browser_python(RUN, cases=jobs)
    found = []
    for case, got, (want, attributes, dtype) in zip(cases, results, wanted, strict=True):
        activation = attributes.get("activation")
        fault = got if isinstance(got, str) else difference(got, want, dtype, activation)
        if fault:
            found.append(f"{case.name}: {fault}")
    return found


def eligible(rng: Random, device: Capabilities, dtype: str) -> Iterator[tuple[Case, Plan, int]]:
    """Every variant that can serve one random request, with its plan and the output's size."""
    x, w, arguments = random_transposed(rng, "small")
    arguments["dtype"] = dtype
    arguments |= {"activation": "LeakyRelu", "activation_params": [0.25]}
    request = OPERATOR.request(x, w, **arguments)
    selection = OPERATOR.selection(request, device, True, SMALL)
    for variant in selection.variants:
        if selection.refusal(variant) is None:
            plan = OPERATOR.plan_request(request, device, True, SMALL, variant.id)
            case = Case(variant.id, x, w, arguments, SMALL)
            yield case, plan, int(np.prod(request.output_shape))


@lru_cache
def branching_cases(device: str, dtype: str) -> Mapping[str, list[Case]]:
    """For every variant, the smallest request for each set of branches its templates take."""
    rng = Random(3)
    found: dict[str, dict[str, tuple[int, Case]]] = {v.id: {} for v in OPERATOR.manifest.variants}
    for _ in range(400):
        for case, plan, size in eligible(rng, Capabilities.from_json(device), dtype):
            # A template that unrolls has as many sets of branches as requests: the text's length
            # in powers of two stands for them.
            kept = found[case.variant]
            key = branches(plan) if len(plan.passes) == 2 else str(len(plan.passes[0].wgsl) >> 13)
            if key not in kept or size < kept[key][0]:
                kept[key] = (size, case)
    return {
        name: [case for _, case in sorted(kept.values(), key=lambda pair: pair[0])]
        for name, kept in found.items()
    }


@pytest.fixture
def device(browser_python: Any) -> str:
    text: str = browser_python(
        "import fusedconv\n(await fusedconv.device()).capabilities.to_json()"
    )
    return text


@pytest.mark.needs_numpy
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("operands", ["", "_bias", "_z", "_bias_z"])
@pytest.mark.parametrize("family", FAMILIES)
def test_variant(family: str, operands: str, dtype: str, device: str, browser_python: Any) -> None:
    if dtype == "float16" and "shader-f16" not in Capabilities.from_json(device).features:
        pytest.skip("this device has no f16")
    cases = branching_cases(device, dtype)[family + operands]
    if not cases and family.endswith("phases_rows"):
        pytest.skip("for software adapters")
    assert cases
    assert not faults(browser_python, cases[:3])


@pytest.mark.needs_numpy
@pytest.mark.parametrize("seed", range(4))
def test_random_requests(seed: int, device: str, browser_python: Any) -> None:
    rng, cases = Random(100 + seed), []
    for _ in range(10):
        x, w, arguments = random_transposed(rng, "small")
        if "shader-f16" not in Capabilities.from_json(device).features:
            arguments["dtype"] = "float32"
        cases.append(Case("", x, w, arguments))
    assert not faults(browser_python, cases)


@pytest.mark.needs_numpy
@pytest.mark.parametrize("case", onnx_cases("ConvTranspose"), ids=lambda case: case.name)
def test_onnx(case: OnnxCase, browser_python: Any) -> None:
    x, w, *bias = case.inputs
    attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in case.attributes.items()}
    job = {"x": x, "w": w, "options": attributes, **({"bias": bias[0]} if bias else {})}
    (y,) = browser_python(RUN, cases=[job])
    assert not isinstance(y, str), y
    np.testing.assert_allclose(y, case.output, rtol=case.rtol, atol=case.atol)


# Requests of several tiles or runs in every direction where that is cheap.
LARGER = [
    ((1, 40, 17, 18), (40, 24, 4, 4), {"strides": 2, "pads": [1, 0, 2, 1]}),
    ((2, 48, 9, 11), (48, 20, 2, 2), {"strides": 2}),
    ((1, 33, 12, 13), (33, 70, 3, 3), {"strides": 2, "pads": 1, "output_padding": 1}),
    ((2, 6, 20, 19), (6, 4, 3, 3), {"strides": 2, "group": 6, "pads": 1}),
    ((1, 8, 30, 31), (8, 3, 5, 5), {"strides": 2, "pads": 2, "output_padding": 1}),
    ((1, 40, 50), (40, 33, 16), {"strides": 8, "pads": 4}),
    ((1, 4, 20, 20), (4, 3, 5, 5), {"strides": [3, 9]}),
]


@pytest.mark.needs_numpy
@pytest.mark.parametrize(("x", "w", "attributes"), LARGER)
def test_not_a_number_reaches_only_what_hears_it(
    x: Any, w: Any, attributes: Any, browser_python: Any
) -> None:
    """Guards against zeros that stand for missing taps and are multiplied all the same."""
    given = {"x": hashed(x, "x"), "w": hashed(w, "w")}
    given["x"][(0, -1, *(size // 2 for size in x[2:]))] = np.nan
    given["x"][(0, 0, *(size - 1 for size in x[2:]))] = np.inf
    checked = OPERATOR.request(x, w, **attributes).attributes
    want = conv_transpose(**given, **checked)
    assert np.isnan(want).any()
    assert np.isfinite(want).mean() > 0.4
    source = """
        import fusedconv
        verdicts = fusedconv.explain(x.shape, w.shape, transposed=True, **attributes)
        able = [verdict.id for verdict in verdicts if verdict.status != "refused"]
        {
            variant: await fusedconv.conv_transpose(x, w, variant=variant, **attributes)
            for variant in able
        }
    """
    results = browser_python(source, **given, attributes=attributes)
    assert results
    for variant, y in results.items():
        assert not difference(y, want, "float32", None), variant


@pytest.mark.needs_numpy
def test_prepared_with_resident_operands(browser_python: Any) -> None:
    """The weights' layout is made once, and a second run with the same operands is the same."""
    shapes = {"x": (1, 40, 17, 18), "w": (40, 24, 4, 4), "bias": (24,), "z": (1, 24, 36, 38)}
    given = {name: hashed(shape, name) for name, shape in shapes.items()}
    source = """
        import fusedconv
        conv = await fusedconv.prepare(w, bias=bias, transposed=True, strides=2, activation="Relu")
        t, tz = await fusedconv.array(x), await fusedconv.array(z)
        plan = await conv.warm(x.shape, z=True)
        results = [await (await conv(t, z=tz)).numpy() for _ in range(3)]
        results += [await conv(x, z=z), await conv(x)]
        conv.free()
        results, plan.variant
    """
    results, variant = browser_python(source, **given)
    assert variant.startswith(("convtranspose_phases", "convtranspose_split_phases"))
    attributes = {"strides": [2, 2], "activation": "Relu"}
    with_z = conv_transpose(given["x"], given["w"], given["bias"], given["z"], **attributes)
    without = conv_transpose(given["x"], given["w"], given["bias"], **attributes)
    for y, want in zip(results, [with_z] * 4 + [without], strict=True):
        np.testing.assert_array_equal(y, want)


def test_errors_come_before_any_allocation(browser_python: Any) -> None:
    source = """
        import fusedconv
        from array import array
        x, w = (array("f", range(45)), (1, 5, 9)), (array("f", range(45)), (5, 3, 3))
        await fusedconv.device()
        before = str(fusedconv.memory())
        texts = []
        for change in changes:
            try:
                await fusedconv.conv_transpose(x, w, **change)
            except fusedconv.RequestError as error:
                texts.append(str(error))
        texts, str(fusedconv.memory()) == before
    """
    changes = [{"output_padding": 1}, {"group": 2}, {"pads": 9}, {"output_shape": 40}]
    texts, same = browser_python(source, changes=changes)
    assert [text.split(":")[0] for text in texts] == [next(iter(change)) for change in changes]
    assert same
