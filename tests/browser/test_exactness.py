"""Results are as exact as those of onnxruntime's CPU provider: f32, against float64.

    FUSEDCONV_CASES=300 python3 serve.py --test tests/browser/test_exactness.py

Operands are normal noise, weights scaled so that results are of the size of 1. A case's largest
error is that of one element, a few roundings: where results are few and sums short it is by luck some
times another's, but then it is a few ulp. Over many cases luck evens out: there the geometric mean
of our error to onnxruntime's must not be above 1, and of a family's typical error hardly.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest

from fusedconv import Capabilities
from fusedconv.operator import Operator, builtin

from ..contract.random_requests import random_conv
from ..contract.variant_cases import SMALL
from ..fills import expected
from .test_conformance import ort

pytestmark = pytest.mark.needs_numpy

SEED = int(os.environ.get("FUSEDCONV_SEED", "20261201"))
CASES = int(os.environ.get("FUSEDCONV_CASES", "100"))
CHUNK = 50

RUN = """
import fusedconv
results = []
for case in cases:
    run = fusedconv.conv_transpose if case["transposed"] else fusedconv.run
    results.append([await run(case["x"], case["w"], **options) for options in case["options"]])
results
"""


@dataclass(frozen=True)
class Case:
    """A request with its operands, the exact result and onnxruntime's."""

    request: tuple[Any, ...]
    given: dict[str, np.ndarray]
    exact: np.ndarray
    theirs: np.ndarray

    def ratios(self, y: np.ndarray) -> tuple[float, float]:
        """Our error to theirs: the largest, and the root of the mean square."""
        ours, theirs = np.abs(y - self.exact), np.abs(self.theirs - self.exact)
        least = 1e-3 * float(np.spacing(np.float32(np.abs(self.exact).max())))  # both may be exact
        mean = [np.sqrt((wrong**2).mean()) for wrong in (ours, theirs)]
        return (
            float((ours.max() + least) / (theirs.max() + least)),
            float((mean[0] + least) / (mean[1] + least)),
        )

    def within(self, y: np.ndarray, ulps: float) -> bool:
        """No error is larger than so many ulp of the largest value."""
        unit = np.spacing(np.float32(np.abs(self.exact).max()))
        return bool(np.abs(y - self.exact).max() <= ulps * unit)


def case_of(
    rng: np.random.Generator, x: Any, w: Any, attributes: dict[str, Any], transposed: bool = False
) -> Case:
    terms = prod(w[1:])
    if transposed:
        terms = w[0] // attributes.get("group", 1) * prod(w[2:]) // prod(attributes["strides"])
    given = {
        "x": rng.standard_normal(x).astype("float32"),
        "w": (rng.standard_normal(w) / np.sqrt(max(1, terms))).astype("float32"),
    }
    theirs = ort({"X": given["x"], "W": given["w"]}, attributes, transposed)
    return Case((x, w, attributes), given, expected(given, attributes, transposed), theirs)


def drawn(rng: Random, generator: np.random.Generator) -> Iterator[Case]:
    while True:
        x, w, arguments = random_conv(rng, "small")
        left_out = ("bias", "z", "dtype", "activation", "activation_params")
        attributes = {k: v for k, v in arguments.items() if k not in left_out}
        # onnxruntime refuses SAME with dilations; padding is not what is judged here.
        if attributes.get("auto_pad", "NOTSET") == "NOTSET":
            yield case_of(generator, x, w, attributes)


def test_random_requests(browser_python: Any) -> None:
    """Short sums, by the variant that is chosen."""
    cases = drawn(Random(SEED), np.random.default_rng(SEED))
    ratios, faults = [], []
    for _ in range((CASES + CHUNK - 1) // CHUNK):
        chunk = [next(cases) for _ in range(CHUNK)]
        jobs = [{**c.given, "options": [c.request[2]], "transposed": False} for c in chunk]
        for case, (y,) in zip(chunk, browser_python(RUN, cases=jobs), strict=True):
            ratios.append(case.ratios(y))
            # Few elements of few terms: mere luck can double an error, but then it is small.
            if ratios[-1][0] > 2 and not case.within(y, 4):
                faults.append(f"seed {SEED}: {case.request}: {ratios[-1]}")
    means = np.exp(np.log(ratios).mean(axis=0))
    assert not faults, "\n".join(faults[:5])
    assert (means <= 1).all(), means


# Sums of 500 to 5000 terms, and the shorter ones of kernels for them. x, w, attributes.
LONG: list[tuple[Any, Any, dict[str, Any]]] = [
    ((2, 512, 6, 6), (16, 512, 1, 1), {}),
    ((1, 2048, 7, 7), (16, 2048, 1, 1), {}),
    ((1, 64, 10, 10), (16, 64, 3, 3), {"pads": [1] * 4}),
    ((1, 256, 8, 8), (16, 256, 3, 3), {"pads": [1] * 4}),
    ((1, 512, 7, 7), (16, 512, 3, 3), {"pads": [1] * 4}),
    ((1, 256, 12, 12), (16, 256, 3, 3), {"strides": [2, 2], "pads": [1] * 4}),
    ((1, 64, 12, 12), (16, 64, 7, 7), {"pads": [3] * 4}),
    ((1, 32, 16, 16), (32, 1, 7, 7), {"group": 32, "pads": [3] * 4}),
    ((1, 32, 16, 18), (32, 1, 7, 7), {"group": 32, "pads": [9] * 4, "dilations": [3, 3]}),
    ((1, 32, 16, 16), (32, 1, 11, 11), {"group": 32, "pads": [5] * 4}),
    ((1, 256, 8, 8), (16, 64, 3, 3), {"group": 4, "pads": [1] * 4}),
    ((1, 256, 9, 9), (16, 128, 5, 5), {"group": 2, "pads": [2] * 4}),
    ((1, 384, 40), (16, 384, 3), {"pads": [1, 1]}),
    ((1, 512, 60), (16, 256, 9), {"pads": [4, 4], "group": 2}),
    ((1, 64, 5, 5, 5), (8, 64, 3, 3, 3), {"pads": [1] * 6}),
    ((1, 32, 6, 6, 6), (8, 32, 5, 5, 5), {"pads": [2] * 6}),
]
LONG_TRANSPOSED: list[tuple[Any, Any, dict[str, Any]]] = [
    ((1, 512, 5, 5), (512, 8, 3, 3), {"strides": [2, 2], "pads": [1] * 4}),
    ((1, 512, 5, 5), (512, 8, 4, 4), {"strides": [2, 2], "pads": [1] * 4}),
    ((1, 2048, 5, 5), (2048, 8, 2, 2), {"strides": [2, 2]}),
    ((1, 256, 6, 6), (256, 8, 3, 3), {"strides": [1, 1], "pads": [1] * 4}),
    ((1, 32, 8, 8), (32, 1, 9, 9), {"group": 32, "strides": [2, 2], "pads": [4] * 4}),
    ((1, 256, 40), (256, 8, 16), {"strides": [4], "pads": [6, 6]}),
    ((1, 128, 3, 3, 3), (128, 4, 4, 4, 4), {"strides": [2, 2, 2], "pads": [1] * 6}),
]


def pins(operator: Operator, case: Case, device: Capabilities) -> Iterator[tuple[str, Any]]:
    """Every family that can serve a case, and the options that pin it."""
    x, w, attributes = case.request
    small = {**SMALL, "GEMM_MIN_K": 1, "GEMM_MIN_ROWS": 1, "GEMM_MIN_COLUMNS": 1}
    small = {k: v for k, v in small.items() if k in operator.manifest.tunables}
    selection = operator.selection(operator.request(x, w, **attributes), device, True, small)
    for variant in selection.variants:
        # A product of a single row is nothing that is chosen.
        senseless = variant.id.startswith("ext_gemm") and w[0] == attributes.get("group", 1)
        if selection.refusal(variant) is None and not variant.id.endswith("_z") and not senseless:
            yield variant.id, {**attributes, "variant": variant.id, "tunables": small}


@pytest.mark.parametrize("name", ["fusedconv", "convtranspose"])
def test_long_sums(name: str, browser_python: Any) -> None:
    """Every family that the device has, pinned: they add in blocks, as onnxruntime does."""
    text = browser_python("import fusedconv\n(await fusedconv.device()).capabilities.to_json()")
    device, generator = Capabilities.from_json(text), np.random.default_rng(SEED)
    transposed = name == "convtranspose"
    ratios, faults = defaultdict(list), []
    for x, w, attributes in LONG_TRANSPOSED if transposed else LONG:
        case = case_of(generator, x, w, attributes, transposed)
        names, options = zip(*pins(builtin(name), case, device), strict=True)
        job = {**case.given, "options": options, "transposed": transposed}
        (results,) = browser_python(RUN, cases=[job])
        for variant, y in zip(names, results, strict=True):
            largest, typical = case.ratios(y)
            ratios[variant].append((largest, typical))
            # The typical error of hundreds of elements is hardly luck; the largest is one element's.
            if typical > 1.15 or (largest > 1.5 and not case.within(y, 2)):
                faults.append(f"{variant} {case.request}: {largest}, typical {typical}")
    for variant, found in ratios.items():
        typical = float(np.exp(np.mean([np.log(pair[1]) for pair in found])))
        if typical > 1.05:  # some families have one case, of few terms
            faults.append(f"{variant}: typical {typical} in the mean")
    means = np.exp(np.log(np.concatenate(list(ratios.values()))).mean(axis=0))
    assert not faults, "\n".join(faults)
    assert (means <= 1).all(), means
