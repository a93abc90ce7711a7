"""Operands and attributes to a checked `Request`; every mistake of a caller is raised here.

The rules are ONNX Conv's with ONNX Runtime's FusedConv on top, read as the README's table of
decisions says. Nothing has been allocated when one of these errors is raised.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from .errors import RequestError

__all__ = ["ACTIVATIONS", "Request", "conv_request", "conv_weights", "dtype_name", "flag"]

Shape = tuple[int, ...]

# Activation -> how many activation_params it takes (fewest, most); None: any number, ignored.
ACTIVATIONS: Mapping[str, tuple[int, int] | None] = {
    "Relu": None,
    "LeakyRelu": (1, 1),
    "Sigmoid": None,
    "Tanh": None,
    "HardSigmoid": (2, 2),
    "HardSwish": None,
    "Clip": (2, 2),
    "QuickGelu": (0, 1),
    "Elu": (0, 1),
    "Gelu": (0, 1),
    "FastGelu": None,
    "Softplus": None,
    "ThresholdedRelu": (0, 1),
    "Erf": None,
}
AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
CONV_ATTRIBUTES = (
    "activation",
    "activation_params",
    "auto_pad",
    "dilations",
    "group",
    "kernel_shape",
    "pads",
    "strides",
)
# WGSL indexes with u32, and counts positions in the padding with i32.
MAX_ELEMENTS = 2**32 - 1
MAX_ATTRIBUTE = 2**31 - 1
MAX_F32 = 3.4028234663852886e38


@dataclass(frozen=True)
class Request:
    """One valid call: shapes of the given operands by the manifest's names, dtype, attributes."""

    shapes: Mapping[str, Shape]
    output_shape: Shape
    dtype: str
    attributes: Mapping[str, Any]


def dtype_name(dtype: object, argument: str = "dtype") -> str:
    """`float32` or `float16` from a name, a NumPy dtype or a NumPy scalar type."""
    name = getattr(dtype, "__name__", None) or str(dtype)
    name = {"f32": "float32", "f16": "float16", "half": "float16"}.get(name, name)
    if name not in ("float32", "float16"):
        raise RequestError(argument, name, "float32 or float16")
    return name


def conv_request(
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    *,
    dtype: object = "float32",
    bias: bool | Sequence[int] = False,
    z: bool | Sequence[int] = False,
    **attributes: Any,
) -> Request:
    """Check a FusedConv: x (N, C, D1..Dn), w (M, C/group, k1..kn), bias (M,), z like the output.

    `bias` and `z` are True, or the shape given. Raises `RequestError` naming the argument.
    """
    kind = dtype_name(dtype)
    x, w = as_shape(x_shape, "x"), as_shape(w_shape, "w")
    check_ranks(x, w, ("M", "C/group"), empty=0)
    known = known_attributes(attributes, CONV_ATTRIBUTES)
    n = len(x) - 2
    attrs = common_attributes(known, w, n)
    check_channels(x, w, attrs.get("group", 1))
    output = (x[0], w[0], *conv_extents(x[2:], w[2:], attrs))
    check_elements(x=x, w=w, y=output)
    shapes = {"x": x, "w": w, **epilogue_shapes(bias, z, w[0], output)}
    return Request(shapes, output, kind, attrs)


def conv_weights(
    w_shape: Sequence[int],
    *,
    dtype: object = "float32",
    bias: bool | Sequence[int] = False,
    **attributes: Any,
) -> None:
    """Check weights and attributes before there is an input: any one that fits them would do."""
    w = as_weights(w_shape)
    attrs = common_attributes(known_attributes(attributes, CONV_ATTRIBUTES), w, len(w) - 2)
    dilations = attrs.get("dilations", (1,) * (len(w) - 2))
    window = ((k - 1) * d + 1 for k, d in zip(w[2:], dilations, strict=True))
    x = (1, w[1] * attrs.get("group", 1), *window)
    conv_request(x, w, dtype=dtype, bias=bias, **attributes)


def as_weights(shape: Sequence[int]) -> Shape:
    """The shape of weights, of a rank that some input could have."""
    w = as_shape(shape, "w")
    if not 3 <= len(w) <= 5:
        raise RequestError("w", f"shape {w}", "rank 3 to 5: one to three spatial dimensions")
    return w


def as_shape(shape: Sequence[int], argument: str) -> Shape:
    """A shape as a tuple of ints, zero or more each."""
    given = items(shape)
    if given is None:
        raise RequestError(argument, f"shape {shape!r}", "a sequence of sizes")
    sizes = tuple(whole(size, f"{argument}.shape[{axis}]") for axis, size in enumerate(given))
    if sizes and min(sizes) < 0:
        raise RequestError(argument, f"shape {sizes}", "sizes of 0 or more")
    if sizes and max(sizes) > MAX_ELEMENTS:
        raise RequestError(argument, f"shape {sizes}", "sizes below 2**32")
    return sizes


def items(value: Any) -> list[Any] | None:
    """What a sequence holds; None for a single value, a text, and what has no order or no end."""
    if isinstance(value, (str, bytes, bytearray, Set, Mapping)) or not hasattr(value, "__len__"):
        return None
    try:
        return list(value)
    except TypeError:  # an array without axes
        return None


def flag(value: Any, argument: str) -> bool:
    """True or False, also NumPy's; 1 and 0 stand for them."""
    if type(value).__name__ in ("bool", "bool_") or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise RequestError(argument, repr(value), "True or False")


def whole(value: Any, argument: str) -> int:
    """A whole number: Python's or NumPy's int, no bool, no float."""
    if type(value).__name__ in ("bool", "bool_"):
        raise RequestError(argument, repr(value), "a whole number")
    try:
        return operator.index(value)
    except TypeError:
        raise RequestError(argument, repr(value), "a whole number") from None


def check_ranks(x: Shape, w: Shape, leading: tuple[str, str], empty: int) -> None:
    """Ranks that fit each other and no size of 0, but in x's batch and in w's axis `empty`.

    `leading` names w's first two axes, for the message.
    """
    if not 3 <= len(x) <= 5:
        raise RequestError(
            "x", f"shape {x}", "(N, C, D1, ..., Dn) with one to three spatial dimensions"
        )
    if len(w) != len(x):
        wanted = ", ".join([*leading, *(f"k{i + 1}" for i in range(len(x) - 2))])
        raise RequestError("w", f"shape {w}", f"rank {len(x)} as x has: ({wanted})")
    for name, shape, free in (("x", x, 0), ("w", w, empty)):
        for axis, size in enumerate(shape):
            if size == 0 and axis != free:
                raise RequestError(
                    name, f"shape {shape}", f"no size of 0 but in axis {free} (axis {axis} is 0)"
                )


def known_attributes(attributes: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """The attributes that are given (not None), or an error for a name that is none."""
    for name in attributes:
        if name not in known:
            import difflib  # only for the error: it is slow to import

            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise RequestError(name, "an unknown attribute", ", ".join(known) + hint)
    return {name: value for name, value in attributes.items() if value is not None}


def common_attributes(given: Mapping[str, Any], w: Shape, n: int) -> dict[str, Any]:
    """The attributes that direct and transposed convolutions share, each in its ONNX form."""
    attrs: dict[str, Any] = {}
    if "auto_pad" in given:
        attrs["auto_pad"] = one_of(given["auto_pad"], AUTO_PADS, "auto_pad", empty="NOTSET")
    if "group" in given:
        attrs["group"] = at_least(1, whole(given["group"], "group"), "group")
    for name in ("strides", "dilations"):
        if name in given:
            attrs[name] = per_axis(given[name], n, 1, name)
    if "pads" in given:
        attrs["pads"] = per_axis(given["pads"], 2 * n, 0, "pads")
        if attrs.get("auto_pad", "NOTSET") != "NOTSET":
            raise RequestError(
                "pads", f"{list(attrs['pads'])} with auto_pad {attrs['auto_pad']}",
                "pads only with auto_pad NOTSET",
            )  # fmt: skip
    if "kernel_shape" in given:
        attrs["kernel_shape"] = per_axis(given["kernel_shape"], n, 1, "kernel_shape")
        if attrs["kernel_shape"] != w[2:]:
            raise RequestError(
                "kernel_shape", list(attrs["kernel_shape"]), f"the weights' own: {list(w[2:])}"
            )
    attrs.update(activation_attributes(given))
    return attrs


def one_of(value: Any, allowed: Sequence[str], argument: str, empty: str | None = None) -> str:
    """A string attribute by its exact name; bytes are read as their text."""
    text = value.decode("utf-8", "replace") if isinstance(value, (bytes, bytearray)) else value
    if not isinstance(text, str) or (text not in allowed and not (empty and text == "")):
        raise RequestError(argument, repr(value), ", ".join(allowed))
    if text == "" and empty is not None:
        return empty
    return str(text)


def at_least(least: int, value: int, argument: str) -> int:
    if value < least:
        raise RequestError(argument, value, f"{least} or more")
    if value > MAX_ATTRIBUTE:
        raise RequestError(argument, value, "less than 2**31")
    return value


def per_axis(value: Any, length: int, least: int, argument: str) -> Shape:
    """A whole number for every axis, or one that stands for all of them."""
    values = items(value)
    if values is None and hasattr(value, "__index__"):
        return (at_least(least, whole(value, argument), argument),) * length
    if values is None:
        raise RequestError(argument, repr(value), f"{length} whole numbers, or one for all")
    if len(values) != length:
        raise RequestError(argument, f"{len(values)} values", f"{length}, or one number for all")
    return tuple(
        at_least(least, whole(item, f"{argument}[{i}]"), f"{argument}[{i}]")
        for i, item in enumerate(values)
    )


def activation_attributes(given: Mapping[str, Any]) -> dict[str, Any]:
    """`activation` and its `activation_params`, counted and finite where they must be."""
    if "activation" not in given:
        if "activation_params" in given:
            raise RequestError(
                "activation_params", "parameters without an activation", "an activation beside them"
            )
        return {}
    name = one_of(given["activation"], tuple(ACTIVATIONS), "activation")
    count = ACTIVATIONS[name]
    params = real_numbers(given.get("activation_params", ()), "activation_params")
    if count is None:
        return {"activation": name}
    fewest, most = count
    if not fewest <= len(params) <= most:
        wanted = f"exactly {most}" if fewest == most else f"at most {most}"
        raise RequestError("activation_params", f"{len(params)} values", f"{wanted} for {name}")
    if name != "Clip" and not all(abs(value) <= MAX_F32 for value in params):
        raise RequestError("activation_params", list(params), f"finite numbers for {name}")
    return {"activation": name, **({"activation_params": params} if params else {})}


def real_numbers(value: Any, argument: str) -> tuple[float, ...]:
    """A tuple of floats from a number or a sequence of numbers."""
    values = items(value)
    if values is None:
        values = [value]
    if any(isinstance(item, (str, bytes, bytearray, bool)) for item in values):
        raise RequestError(argument, repr(value), "numbers")
    try:
        return tuple(float(item) for item in values)
    except (OverflowError, TypeError, ValueError):
        raise RequestError(argument, repr(value), "numbers") from None


def check_channels(x: Shape, w: Shape, group: int) -> None:
    if w[1] * group != x[1]:
        wanted = f"C/group = {x[1]}/{group} in axis 1, since x has {x[1]} channels"
        raise RequestError("w", f"shape {w}", wanted)
    if w[0] % group:
        raise RequestError("group", group, f"a divisor of the {w[0]} output channels")


def conv_extents(size: Shape, kernel: Shape, attrs: Mapping[str, Any]) -> Shape:
    """The output's spatial sizes; an error where no window fits the padded input."""
    n = len(size)
    strides = attrs.get("strides", (1,) * n)
    dilations = attrs.get("dilations", (1,) * n)
    pads = attrs.get("pads", (0,) * (2 * n))
    check_reach((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    if attrs.get("auto_pad", "NOTSET").startswith("SAME"):
        return tuple(-(-s // stride) for s, stride in zip(size, strides, strict=True))
    extents = []
    for i in range(n):
        padded = size[i] + pads[i] + pads[n + i]
        window = (kernel[i] - 1) * dilations[i] + 1
        if window > padded:
            raise RequestError(
                "w", f"kernel {list(kernel)} (axis {i} spans {window} with its dilation)",
                f"at most the padded input, {padded} in axis {i}",
            )  # fmt: skip
        extents.append((padded - window) // strides[i] + 1)
    return tuple(extents)


def check_reach(spans: Iterable[int]) -> None:
    """How far a kernel reaches is counted in u32, its padding in i32."""
    for axis, span in enumerate(spans):
        if span > MAX_ATTRIBUTE + 1:
            raise RequestError("w", f"a kernel that spans {span} in axis {axis}", "at most 2**31")


def conv_padding(request: Request) -> list[tuple[int, int]]:
    """The padding before and after each spatial axis, whichever way it was asked for."""
    attrs, n = request.attributes, len(request.output_shape) - 2
    auto = attrs.get("auto_pad", "NOTSET")
    pads = attrs.get("pads", (0,) * (2 * n))
    if not auto.startswith("SAME"):
        return [(pads[i], pads[n + i]) for i in range(n)]
    padding = []
    for i in range(n):
        stride = attrs.get("strides", (1,) * n)[i]
        window = (request.shapes["w"][2 + i] - 1) * attrs.get("dilations", (1,) * n)[i] + 1
        span = (request.output_shape[2 + i] - 1) * stride + window
        total = max(0, span - request.shapes["x"][2 + i])
        less, more = total // 2, total - total // 2
        padding.append((less, more) if auto == "SAME_UPPER" else (more, less))
    return padding


def check_elements(**shapes: Shape) -> None:
    for name, shape in shapes.items():
        # Also of what has none, for whose sizes stand for strides.
        if math.prod(size or 1 for size in shape) > MAX_ELEMENTS:
            raise RequestError(name, f"shape {shape}", "fewer than 2**32 elements")


def epilogue_shapes(
    bias: bool | Sequence[int], z: bool | Sequence[int], channels: int, output: Shape
) -> dict[str, Shape]:
    """The shapes of the given bias and residual, which follow from the others."""
    shapes: dict[str, Shape] = {}
    if bias is not False and bias is not None:
        got = (channels,) if bias is True else as_shape(bias, "bias")
        if got != (channels,):
            raise RequestError(
                "bias", f"shape {got}", f"({channels},): one for each output channel"
            )
        shapes["bias"] = got
    if z is not False and z is not None:
        got = output if z is True else as_shape(z, "z")
        if got != output:
            raise RequestError("z", f"shape {got}", f"{output}, the output's own; no broadcast")
        shapes["zResidual"] = got
    return shapes
