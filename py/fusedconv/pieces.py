"""What a part of a request is as a request of its own, by each operator's rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .request import Request, Shape, conv_extents, conv_padding
from .request_transposed import transposed_crop, whole_extents

__all__ = ["Part", "Piece", "Range", "conv_piece", "transposed_piece"]

Range = tuple[int, int]


@dataclass(frozen=True)
class Part:
    """Images, output channels (whole groups) and output rows of a request, each from..to."""

    images: Range
    channels: Range
    rows: Range


@dataclass(frozen=True)
class Piece:
    """A part's own request, and the ranges of the first axes of x and w that it works on."""

    request: Request
    x: tuple[Range, ...]
    w: tuple[Range, ...]


def conv_piece(request: Request, part: Part) -> Piece | None:
    """A part of a FusedConv, its padding made explicit; None where padding alone would be left."""
    w, group = request.shapes["w"], request.attributes.get("group", 1)
    (rows, first), rest = input_rows(request, part.rows), conv_padding(request)[1:]
    channels = grouped(part, group, w[0] // group, request.shapes["x"][1])
    held = (part.images, channels, rows)
    filters = (length(part.channels), *w[1:])
    pads = [first, *rest]
    cropped = {"pads": (*(before for before, _ in pads), *(after for _, after in pads))}
    own = own_request(request, part, held, filters, cropped)
    if conv_extents(own.shapes["x"][2:], w[2:], own.attributes) != own.output_shape[2:]:
        return None
    return Piece(own, held, (part.channels,))


def transposed_piece(request: Request, part: Part) -> Piece:
    """A part of a ConvTranspose, its cropping made explicit."""
    x, w = request.shapes["x"], request.shapes["w"]
    group = request.attributes.get("group", 1)
    channels = grouped(part, group, w[1], x[1])
    rows, first = reaching_rows(request, part.rows)
    held = (part.images, channels, rows)
    slab = (channels,) if group > 1 else ((0, x[1]), part.channels)
    filters = (length(channels), w[1] if group > 1 else length(part.channels), *w[2:])
    begin = (first, *transposed_crop(request)[1:])
    own = own_request(request, part, held, filters, {})
    whole = whole_extents(own.shapes["x"][2:], w[2:], own.attributes)
    sizes = zip(whole, begin, own.output_shape[2:], strict=True)
    # What reaches past the part is cropped; what nothing reaches is added.
    ends = [size - start - kept for size, start, kept in sizes]
    cropped = {
        "pads": (*begin, *(max(0, end) for end in ends)),
        "output_padding": tuple(max(0, -end) for end in ends),
    }
    return Piece(own_request(request, part, held, filters, cropped), held, slab)


def grouped(part: Part, group: int, outputs: int, inputs: int) -> Range:
    """The input channels of a part; `outputs` counts a group's, `inputs` all of x's."""
    if group == 1:
        return (0, inputs)
    first, last = part.channels
    return (first // outputs * inputs // group, last // outputs * inputs // group)


def own_request(
    request: Request,
    part: Part,
    held: tuple[Range, Range, Range],
    filters: Shape,
    cropped: dict[str, Any],
) -> Request:
    """The request on the slice `held` of x; `cropped` says in numbers what is padded or cropped."""
    x, attributes = request.shapes["x"], request.attributes
    replaced = ("auto_pad", "kernel_shape", "output_padding", "output_shape", "pads")
    kept = {name: value for name, value in attributes.items() if name not in replaced}
    if attributes.get("group", 1) > 1:
        kept["group"] = attributes["group"] * length(held[1]) // x[1]
    outputs = length(part.channels)
    output = (length(part.images), outputs, length(part.rows), *request.output_shape[3:])
    shapes = {"x": (*map(length, held), *x[3:]), "w": filters}
    if "bias" in request.shapes:
        shapes["bias"] = (outputs,)
    if "zResidual" in request.shapes:
        shapes["zResidual"] = output
    return Request(shapes, output, request.dtype, {**kept, **cropped})


def length(held: Range) -> int:
    return held[1] - held[0]


def input_rows(request: Request, rows: Range) -> tuple[Range, Range]:
    """The input rows that output rows read, and the padding before and after that is left."""
    height = request.shapes["x"][2]
    if rows == (0, request.output_shape[2]):
        return (0, height), conv_padding(request)[0]
    kernel = request.shapes["w"][2]
    stride = request.attributes.get("strides", (1,))[0]
    dilation = request.attributes.get("dilations", (1,))[0]
    first = rows[0] * stride - conv_padding(request)[0][0]
    last = (rows[1] - 1) * stride - conv_padding(request)[0][0] + (kernel - 1) * dilation + 1
    # A window wholly in the padding still needs a row to stand on.
    low = min(max(first, 0), height - 1)
    high = max(min(last, height), low + 1)
    return (low, high), (max(low - first, 0), max(last - high, 0))


def reaching_rows(request: Request, rows: Range) -> tuple[Range, int]:
    """The input rows that reach output rows, and how much is cropped before those."""
    height, kernel = request.shapes["x"][2], request.shapes["w"][2]
    stride = request.attributes.get("strides", (1,))[0]
    dilation = request.attributes.get("dilations", (1,))[0]
    first, last = (row + transposed_crop(request)[0] for row in rows)
    # Never past the first place, so that what is cropped is not negative; one row at least.
    low = min(-(-(first - (kernel - 1) * dilation) // stride), first // stride)
    low = min(max(low, 0), height - 1)
    high = max(min((last - 1) // stride + 1, height), low + 1)
    return (low, high), first - low * stride
