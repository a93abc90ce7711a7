"""The operators in float64 NumPy: what the kernels are held against.

Written from ONNX's Conv and ConvTranspose and the contract's text, apart from the engine: it shares
no shape inference or padding with it, so a mistake in one shows against the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["activate", "conv_transpose", "fused_conv"]

Array = NDArray[np.float64]

erf: Callable[[Array], Array] = np.vectorize(math.erf, otypes=[np.float64])
erfc: Callable[[Array], Array] = np.vectorize(math.erfc, otypes=[np.float64])


def fused_conv(
    x: NDArray[Any],
    w: NDArray[Any],
    bias: NDArray[Any] | None = None,
    z: NDArray[Any] | None = None,
    *,
    activation: str | None = None,
    activation_params: Sequence[float] | None = None,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Array:
    """act(conv(x, w) + bias + z) in float64, of shape (N, M, o1, ..., on).

    x is (N, C, d1, ..., dn), w (M, C/group, k1, ..., kn), bias (M,), z like the result; any n.
    Padding is zeros; attributes are ONNX's. Arguments are trusted to be valid.
    """
    rank = x.ndim - 2
    kernel = w.shape[2:]
    assert kernel_shape is None or tuple(kernel_shape) == kernel
    strides = list(strides or [1] * rank)
    dilations = list(dilations or [1] * rank)
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    before, after = padding(x.shape[2:], extent, strides, auto_pad, pads)

    sides = [(0, 0), (0, 0), *zip(before, after, strict=True)]
    padded = np.pad(x.astype(np.float64), sides)
    out = tuple(
        (size - span) // stride + 1
        for size, span, stride in zip(padded.shape[2:], extent, strides, strict=True)
    )
    pixels = math.prod(out)
    batch, channels = x.shape[:2]
    filters = w.astype(np.float64).reshape(group, w.shape[0] // group, channels // group, *kernel)
    y = np.zeros((batch, group, w.shape[0] // group, pixels))
    with np.errstate(all="ignore"):
        for tap in product(*map(range, kernel)):
            window: tuple[Any, ...] = tuple(
                slice(t * d, t * d + (o - 1) * s + 1, s)
                for t, d, o, s in zip(tap, dilations, out, strides, strict=True)
            )
            columns = padded[(..., *window)].reshape(batch, group, channels // group, pixels)
            one: tuple[Any, ...] = (..., *tap)
            y += filters[one] @ columns
        y = y.reshape(batch, w.shape[0], *out)
        if bias is not None:
            y += bias.astype(np.float64).reshape(-1, *[1] * rank)
        if z is not None:
            y += z.astype(np.float64)
        return y if activation is None else activate(y, activation, activation_params)


def padding(
    spatial: Sequence[int],
    extent: Sequence[int],
    strides: Sequence[int],
    auto_pad: str,
    pads: Sequence[int] | None,
) -> tuple[list[int], list[int]]:
    """Zeros before and after each axis. SAME pads to ceil(size / stride) windows, never below 0."""
    rank = len(spatial)
    if auto_pad == "VALID":
        return [0] * rank, [0] * rank
    if auto_pad == "NOTSET":
        pads = list(pads or [0] * 2 * rank)
        return pads[:rank], pads[rank:]
    total = [
        max(0, (-(-size // stride) - 1) * stride + span - size)
        for size, span, stride in zip(spatial, extent, strides, strict=True)
    ]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return (small, large) if auto_pad == "SAME_UPPER" else (large, small)


def conv_transpose(
    x: NDArray[Any],
    w: NDArray[Any],
    bias: NDArray[Any] | None = None,
    z: NDArray[Any] | None = None,
    *,
    activation: str | None = None,
    activation_params: Sequence[float] | None = None,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Array:
    """act(transposed conv(x, w) + bias + z) in float64, of shape (N, M, o1, ..., on).

    x is (N, C, d1, ..., dn), w (C, M/group, k1, ..., kn), bias (M,), z like the result; any n.
    Every input is scattered through the kernel into the whole output, which is then cropped.
    """
    rank = x.ndim - 2
    kernel = w.shape[2:]
    assert kernel_shape is None or tuple(kernel_shape) == kernel
    strides = list(strides or [1] * rank)
    dilations = list(dilations or [1] * rank)
    sides = zip(x.shape[2:], kernel, strides, dilations, strict=True)
    whole = [(size - 1) * s + (k - 1) * d + 1 for size, k, s, d in sides]
    extra = list(output_padding or [0] * rank)
    full = [size + e for size, e in zip(whole, extra, strict=True)]
    start, out = cropping(x.shape[2:], full, strides, auto_pad, pads, output_shape)

    batch, channels = x.shape[:2]
    images = x.astype(np.float64).reshape(batch, group, channels // group, -1)
    filters = w.astype(np.float64).reshape(group, channels // group, w.shape[1], *kernel)
    reach = [max(size, s + o) for size, s, o in zip(whole, start, out, strict=True)]
    y = np.zeros((batch, group, w.shape[1], *reach))
    with np.errstate(all="ignore"):
        for tap in product(*map(range, kernel)):
            one: tuple[Any, ...] = (..., *tap)
            reached: tuple[Any, ...] = tuple(
                slice(t * d, t * d + (size - 1) * s + 1, s)
                for t, d, size, s in zip(tap, dilations, x.shape[2:], strides, strict=True)
            )
            summed = filters[one].swapaxes(1, 2) @ images
            y[(..., *reached)] += summed.reshape(batch, group, w.shape[1], *x.shape[2:])
        kept: tuple[Any, ...] = tuple(slice(s, s + o) for s, o in zip(start, out, strict=True))
        y = y.reshape(batch, group * w.shape[1], *reach)[(..., *kept)]
        if bias is not None:
            y = y + bias.astype(np.float64).reshape(-1, *[1] * rank)
        if z is not None:
            y = y + z.astype(np.float64)
        return y if activation is None else activate(y, activation, activation_params)


def cropping(
    spatial: Sequence[int],
    full: Sequence[int],
    strides: Sequence[int],
    auto_pad: str,
    pads: Sequence[int] | None,
    output_shape: Sequence[int] | None,
) -> tuple[list[int], list[int]]:
    """Where the result begins in the whole output, and its sizes; `full` counts output_padding."""
    rank = len(spatial)
    same = auto_pad in ("SAME_UPPER", "SAME_LOWER")
    if output_shape is None and not same:
        pads = list(pads or [0] * 2 * rank)
        return pads[:rank], [f - a - b for f, a, b in zip(full, pads, pads[rank:], strict=False)]
    wanted = list(output_shape or [size * s for size, s in zip(spatial, strides, strict=True)])
    total = [max(0, f - size) for f, size in zip(full, wanted, strict=True)]
    start = [t // 2 if auto_pad == "SAME_UPPER" else t - t // 2 for t in total]
    return start, wanted if output_shape else [f - t for f, t in zip(full, total, strict=True)]


DEFAULTS = {"QuickGelu": (1.702, 0.0), "Elu": (1.0, 0.0), "ThresholdedRelu": (1.0, 0.0)}


def activate(v: Array, name: str, params: Sequence[float] | None = None) -> Array:
    """One of the contract's activations, by its exact name, with its limits at infinity.

    Parameters are rounded to float32, as ONNX holds them. NaN stays NaN; in Clip a NaN bound is
    no bound and the upper bound wins.
    """
    given = list(params or ())
    defaults = DEFAULTS.get(name, (0.0, 0.0))
    with np.errstate(all="ignore"):
        alpha, beta = (float(np.float32(p)) for p in [*given, *defaults[len(given) :]][:2])
        y = ACTIVATIONS[name](v, alpha, beta)
    return np.where(np.isnan(v), v, y)


def sigmoid(v: Array) -> Array:
    e: Array = np.exp(-np.abs(v))
    return np.where(v < 0, e, 1.0) / (1 + e)


def gated(v: Array, gate: Array) -> Array:
    """v * gate, with a closed gate giving 0 also at infinity."""
    return np.where(gate == 0, 0.0, v * gate)


def gelu_tanh(v: Array) -> Array:
    return gated(v, sigmoid(2 * math.sqrt(2 / math.pi) * v * (1 + 0.044715 * v * v)))


def gelu_erf(v: Array) -> Array:
    return gated(v, 0.5 * erfc(-v / math.sqrt(2)))


def clip(v: Array, low: float, high: float) -> Array:
    return np.fmin(np.fmax(v, low), high)


ACTIVATIONS: dict[str, Callable[[Array, float, float], Array]] = {
    "Relu": lambda v, a, b: np.maximum(v, 0),
    "LeakyRelu": lambda v, a, b: np.where(v < 0, a * v, v),
    "Sigmoid": lambda v, a, b: sigmoid(v),
    "Tanh": lambda v, a, b: np.tanh(v),
    "HardSigmoid": lambda v, a, b: np.clip(a * v + b, 0, 1),
    "HardSwish": lambda v, a, b: np.where(v <= -3, 0, np.where(v < 3, v * (v + 3) / 6, v)),
    "Clip": clip,
    "QuickGelu": lambda v, a, b: gated(v, sigmoid(a * v)),
    "Elu": lambda v, a, b: np.where(v < 0, a * np.expm1(v), v),
    "Gelu": lambda v, a, b: gelu_tanh(v) if a else gelu_erf(v),
    "FastGelu": lambda v, a, b: gelu_tanh(v),
    "Softplus": lambda v, a, b: np.maximum(v, 0) + np.log1p(np.exp(-np.abs(v))),
    "ThresholdedRelu": lambda v, a, b: np.where(v > a, v, 0),
    "Erf": lambda v, a, b: erf(v),
}
