"""What happens to single numbers: activations against float64, NaN and infinity, f16's range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from fusedconv import reference

from ..fills import expected, hashed
from .conftest import BrowserPython

pytestmark = pytest.mark.needs_numpy

RUN = """
import fusedconv
results = []
for case in cases:
    results.append(await fusedconv.run(case["x"], case["w"], bias=case.get("bias"),
                                       z=case.get("zResidual"), **case["attributes"]))
results
"""
DTYPES = ["float32", pytest.param("float16", marks=pytest.mark.needs_f16)]
INF, NAN = float("inf"), float("nan")

# Activations with parameters that change the code or reach an edge of it.
ACTIVATIONS: list[tuple[str, list[float] | None]] = [
    ("Relu", None),
    ("LeakyRelu", [0.1]),
    ("LeakyRelu", [-2.0]),
    ("Sigmoid", None),
    ("Tanh", None),
    ("HardSigmoid", [0.2, 0.5]),
    ("HardSigmoid", [-0.3, 0.25]),
    ("HardSwish", None),
    ("Clip", [-1.0, 6.0]),
    ("Clip", [6.0, 0.0]),
    ("Clip", [-INF, 1.0]),
    ("Clip", [0.0, 1e39]),
    ("QuickGelu", None),
    ("QuickGelu", [-1.5]),
    ("Elu", None),
    ("Elu", [1.5]),
    ("Gelu", None),
    ("Gelu", [1.0]),
    ("FastGelu", None),
    ("Softplus", None),
    ("ThresholdedRelu", None),
    ("ThresholdedRelu", [-1e-7]),
    ("Erf", None),
]


def run(browser_python: BrowserPython, cases: list[Mapping[str, Any]]) -> list[np.ndarray]:
    results: list[np.ndarray] = browser_python(RUN, cases=cases)
    return results


def sweep(dtype: str) -> np.ndarray:
    """Every scale of number that an activation can meet, and the special ones."""
    large = 3e38 if dtype == "float32" else 6e4
    scale = np.geomspace(1e-8, large, 3000)
    special = [0.0, -0.0, 88, 89, 104, -88, -89, -104, 3, -3, INF, -INF, NAN]
    values = np.concatenate([np.linspace(-12, 12, 20001), scale, -scale, special])
    return values.astype(dtype).reshape(1, 1, -1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_activations(dtype: str, browser_python: BrowserPython) -> None:
    x, w = sweep(dtype), np.ones((1, 1, 1), dtype)
    attributes = [
        {"activation": name} | ({"activation_params": params} if params else {})
        for name, params in ACTIVATIONS
    ]
    results = run(browser_python, [{"x": x, "w": w, "attributes": a} for a in attributes])
    # In f32 within two or three units of the last place, in f16 one rounding of that.
    tolerance = 3e-7 if dtype == "float32" else 6e-4
    faults = []
    for (name, params), got in zip(ACTIVATIONS, results, strict=True):
        exact = reference.activate(x.astype(np.float64), name, params)
        with np.errstate(over="ignore"):
            want = exact.astype(dtype)
        finite = np.isfinite(want)
        error = np.abs(got[finite] - exact[finite]) / np.maximum(1, np.abs(exact[finite]))
        if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
            faults.append(f"{name} {params}: {got[~finite]} instead of {want[~finite]}")
        elif error.max() > tolerance:
            at = x[finite][error.argmax()]
            faults.append(f"{name} {params}: error {error.max():.1e} at {at}")
    assert not faults


# (x, w, attributes): a dense one through tiles, one of windows, grouped, 1-D and 3-D.
KERNELS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 37, 7, 9), (33, 37, 1, 1), {}),
    ((1, 64, 64, 64), (70, 64, 1, 1), {}),
    ((2, 12, 40, 41), (70, 12, 3, 3), {"pads": [1, 1, 1, 0]}),
    ((2, 5, 9, 11), (9, 5, 3, 3), {"pads": [1, 0, 2, 1], "dilations": [1, 2]}),
    ((1, 8, 40, 44), (8, 1, 3, 3), {"group": 8, "pads": [1, 1, 1, 1]}),
    ((1, 8, 40, 43), (16, 2, 5, 5), {"group": 4, "strides": [2, 1]}),
    ((1, 8, 40, 41), (8, 1, 3, 3), {"group": 8, "dilations": [2, 2], "pads": [2, 2, 2, 2]}),
    ((1, 20, 1500), (140, 20, 3), {"pads": [1, 2]}),
    ((2, 3, 5, 6, 7), (4, 3, 2, 3, 3), {"pads": [1, 1, 0, 0, 1, 2]}),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", [None, "Relu", "Clip"])
def test_nan_and_infinity_stay_in_their_windows(
    activation: str | None, dtype: str, browser_python: BrowserPython
) -> None:
    """And nowhere else: neighbours in a tile, its zero fill and the padding stay clean."""
    cases = []
    for i, (x_shape, w_shape, attributes) in enumerate(KERNELS):
        x = hashed(x_shape, f"x{i}", dtype)
        x.reshape(-1)[[x.size // 7, x.size // 3, x.size - 1]] = NAN, INF, -INF
        # Weights that are all whole and none 0, as infinity times 0 is NaN.
        w = np.where(hashed(w_shape, f"w{i}") < 0, -1, 1).astype(dtype)
        bias = hashed(w_shape[:1], f"b{i}", dtype)
        bias[0] = NAN
        if activation:
            attributes = {**attributes, "activation": activation}
        if activation == "Clip":
            attributes["activation_params"] = [-1.0, 2.0]
        cases.append({"x": x, "w": w, "bias": bias, "attributes": attributes})
    faults = []
    for case, got in zip(cases, run(browser_python, cases), strict=True):
        want = expected(case, case["attributes"]).astype(dtype)
        wrong = ~((got == want) | (np.isnan(got) & np.isnan(want)))
        if wrong.any():
            faults.append(f"{case['w'].shape}: {wrong.sum()} of {wrong.size} elements")
    assert not faults


@pytest.mark.needs_f16
def test_halves_are_summed_in_f32(browser_python: BrowserPython) -> None:
    def row(values: list[float]) -> np.ndarray:
        return np.array(values, "float16").reshape(1, -1, 1, 1)

    one = np.ones((1, 1, 1, 1), "float16")
    cases: list[dict[str, Any]] = [
        {"x": row([1] * 4096), "w": row([1] * 4096), "attributes": {}},
        {"x": row([256] * 4), "w": row([256, 256, -256, -256]), "attributes": {}},
        {"x": row([60000, 60000, -60000]), "w": row([1, 1, 1]), "attributes": {}},
        {"x": row([60000, 60000]), "w": row([1, 1]), "zResidual": -60000 * one, "attributes": {}},
        {"x": row([60000, 60000]), "w": row([1, 1]), "attributes": {}},
        {
            "x": row([60000, 60000]),
            "w": row([1, 1]),
            "attributes": {"activation": "Clip", "activation_params": [0.0, 6.0]},
        },
    ]
    results = [float(y.item()) for y in run(browser_python, cases)]
    assert results == [4096, 0, 60000, 60000, INF, 6]
