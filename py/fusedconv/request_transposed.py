"""The request rules of transposed convolution: ONNX's ConvTranspose with FusedConv's extras.

Where the field disagrees:

- SAME with a stride beyond the kernel: the padding is 0, never negative, and the output is smaller
  than input * stride (ONNX's shape inference, onnxruntime).
- SAME with `output_padding` still gives input * stride (ONNX's formula, onnxruntime).
- `output_padding` is below max(stride, dilation) of its axis, as in PyTorch and as ONNX's "less
  than the corresponding stride/dilation" reads; onnxruntime's CPU and ExecuTorch want it below
  the stride.
- `output_shape` may exceed the natural size by what an `output_padding` could add; `pads` beside it
  are ignored, as ONNX says.
- The larger half of an odd padding lies behind for SAME_UPPER, else in front.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .errors import RequestError
from .request import (
    CONV_ATTRIBUTES,
    Request,
    Shape,
    as_shape,
    as_weights,
    check_elements,
    check_ranks,
    check_reach,
    common_attributes,
    dtype_name,
    epilogue_shapes,
    known_attributes,
    per_axis,
)

__all__ = [
    "conv_transpose_request",
    "conv_transpose_weights",
    "transposed_crop",
    "whole_extents",
]

TRANSPOSED_ATTRIBUTES = tuple(sorted((*CONV_ATTRIBUTES, "output_padding", "output_shape")))


def conv_transpose_request(
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    *,
    dtype: object = "float32",
    bias: bool | Sequence[int] = False,
    z: bool | Sequence[int] = False,
    **attributes: Any,
) -> Request:
    """Check a ConvTranspose: x (N, C, D1..Dn), w (C, M/group, k1..kn), bias (M,), z as the output.

    `bias` and `z` are True, or the shape given. Raises `RequestError` naming the argument.
    """
    kind = dtype_name(dtype)
    x, w = as_shape(x_shape, "x"), as_shape(w_shape, "w")
    check_ranks(x, w, ("C", "M/group"), empty=1)
    known = known_attributes(attributes, TRANSPOSED_ATTRIBUTES)
    n = len(x) - 2
    attrs = common_attributes(known, w, n)
    for name, least in (("output_padding", 0), ("output_shape", 1)):
        if name in known:
            attrs[name] = per_axis(known[name], n, least, name)
    group = attrs.get("group", 1)
    check_transposed_channels(x, w, group)
    channels = w[1] * group
    output = (x[0], channels, *transposed_extents(x[2:], w[2:], attrs))
    check_elements(x=x, w=w, y=output)
    shapes = {"x": x, "w": w, **epilogue_shapes(bias, z, channels, output)}
    return Request(shapes, output, kind, attrs)


def conv_transpose_weights(
    w_shape: Sequence[int],
    *,
    dtype: object = "float32",
    bias: bool | Sequence[int] = False,
    **attributes: Any,
) -> None:
    """Check weights and attributes before there is an input: a large enough one stands for all."""
    w = as_weights(w_shape)
    known = known_attributes(attributes, TRANSPOSED_ATTRIBUTES)
    n = len(w) - 2
    attrs = common_attributes(known, w, n)
    if "output_shape" in known:
        per_axis(known.pop("output_shape"), n, 1, "output_shape")
    pads = attrs.get("pads", (0,) * (2 * n))
    x = (1, w[0], *(1 + pads[i] + pads[n + i] for i in range(n)))
    conv_transpose_request(x, w, dtype=dtype, bias=bias, **known)


def check_transposed_channels(x: Shape, w: Shape, group: int) -> None:
    if w[0] != x[1]:
        raise RequestError("w", f"shape {w}", f"{x[1]} in axis 0, as x has that many channels")
    if x[1] % group:
        raise RequestError("group", group, f"a divisor of the {x[1]} input channels")


def whole_extents(size: Shape, kernel: Shape, attrs: Mapping[str, Any]) -> Shape:
    """The spatial sizes that the inputs reach, before anything is added or cropped."""
    n = len(size)
    sides = zip(
        size, kernel, attrs.get("strides", (1,) * n), attrs.get("dilations", (1,) * n), strict=True
    )
    return tuple((s - 1) * stride + (k - 1) * dilation + 1 for s, k, stride, dilation in sides)


def transposed_extents(size: Shape, kernel: Shape, attrs: Mapping[str, Any]) -> Shape:
    """The output's spatial sizes; an error where padding leaves nothing or adds too much."""
    n = len(size)
    strides = attrs.get("strides", (1,) * n)
    dilations = attrs.get("dilations", (1,) * n)
    extra = attrs.get("output_padding", (0,) * n)
    pads = attrs.get("pads", (0,) * (2 * n))
    extents = []
    whole = whole_extents(size, kernel, attrs)
    check_reach(whole)
    for i, bare in enumerate(whole):
        most_extra = max(strides[i], dilations[i]) - 1
        if extra[i] > most_extra:
            raise RequestError(
                "output_padding", list(extra),
                f"at most {most_extra} in axis {i}: below its stride {strides[i]} "
                f"or dilation {dilations[i]}",
            )  # fmt: skip
        full = bare + extra[i]
        if "output_shape" in attrs:
            wanted: int = attrs["output_shape"][i]
            if wanted > bare + most_extra:
                raise RequestError(
                    "output_shape", list(attrs["output_shape"]),
                    f"at most {bare + most_extra} in axis {i}, where {size[i]} inputs reach",
                )  # fmt: skip
            extents.append(wanted)
        elif attrs.get("auto_pad", "NOTSET").startswith("SAME"):
            extents.append(min(full, size[i] * strides[i]))
        else:
            extents.append(full - pads[i] - pads[n + i])
            if extents[i] < 1:
                raise RequestError(
                    "pads", list(pads), f"less than the {full} outputs of axis {i} in all"
                )
    return tuple(extents)


def transposed_crop(request: Request) -> Shape:
    """How much of the whole output is cropped before each spatial axis."""
    attrs, n = request.attributes, len(request.output_shape) - 2
    auto = attrs.get("auto_pad", "NOTSET")
    if "output_shape" not in attrs and not auto.startswith("SAME"):
        return tuple(attrs.get("pads", (0,) * n)[:n])
    extra = attrs.get("output_padding", (0,) * n)
    whole = whole_extents(request.shapes["x"][2:], request.shapes["w"][2:], attrs)
    sides = zip(whole, extra, request.output_shape[2:], strict=True)
    totals = [max(0, size + more - kept) for size, more, kept in sides]
    return tuple(t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in totals)
