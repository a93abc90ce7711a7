"""Operands for tests: hashed multiples of 1/8, so that every sum is exact and any order of adding
gives the same bits. Periodic fills would cancel mistakes of padding; these do not."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fusedconv import reference

# Activations that are exact on exact sums (the others are compared within a tolerance).
EXACT = {None, "Relu", "LeakyRelu", "Clip", "ThresholdedRelu"}


def hashed(shape: Sequence[int], seed: str, dtype: str = "float32") -> np.ndarray:
    """Multiples of 1/8 in -1..1 that look random and depend on the position and the seed."""
    index = np.arange(math.prod(shape), dtype=np.uint64)
    mixed = (index + np.uint64(zlib.crc32(seed.encode()))) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    steps = ((mixed >> np.uint64(40)) % np.uint64(17)).astype(np.int64) - 8
    return (steps / 8).astype(dtype).reshape(shape)


def operands(shapes: Mapping[str, Sequence[int]], dtype: str) -> dict[str, np.ndarray]:
    """An exact fill for every operand, by the manifest's names."""
    return {name: hashed(shape, name, dtype) for name, shape in shapes.items()}


def expected(
    given: Mapping[str, np.ndarray], attributes: Mapping[str, Any], transposed: bool = False
) -> np.ndarray:
    """The result in float64, by the reference."""
    function = reference.conv_transpose if transposed else reference.fused_conv
    return function(given["x"], given["w"], given.get("bias"), given.get("zResidual"), **attributes)


def difference(got: np.ndarray, want: np.ndarray, dtype: str, activation: str | None) -> str:
    """'' when `got` is right: bitwise for exact activations, else within what f32 promises."""
    if got.shape != want.shape or str(got.dtype) != dtype:
        return f"{got.shape} {got.dtype} instead of {want.shape} {dtype}"
    want = want.astype(dtype)
    if activation in EXACT:
        wrong = ~((got == want) | (np.isnan(got) & np.isnan(want)))
    else:
        # WGSL promises exp, tanh and division to a few ulp; f16 rounds once at the store.
        relative, absolute = (2e-6, 2e-6) if dtype == "float32" else (1e-3, 1e-4)
        wrong = ~np.isclose(got, want, rtol=relative, atol=absolute, equal_nan=True)
    if not wrong.any():
        return ""
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{wrong.sum()} of {wrong.size} wrong, first at {first}: {got[first]}, not {want[first]}"
