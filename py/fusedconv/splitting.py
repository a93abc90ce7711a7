"""Requests whose tensors do not fit a binding: cut into parts that do.

A part is a request of its own on slices of the operands, which are copied to scratch buffers and
back; the whole remains one plan. Batches are cut first, then output channels (whole groups), then
rows of the first spatial axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .capabilities import Capabilities
from .errors import UnsupportedError
from .plan import DTYPE_BYTES, Copy, Pass, Plan, Scratch
from .request import Request, conv_extents, conv_padding

__all__ = ["Part", "fits", "join", "parts_of"]

Range = tuple[int, int]
OUTPUT = "y"


@dataclass(frozen=True)
class Part:
    """Images, output channels and output rows of a request, each from..to."""

    images: Range
    channels: Range
    rows: Range


def largest(request: Request) -> dict[str, int]:
    """The bytes of every operand and of the output."""
    size = DTYPE_BYTES[request.dtype]
    shapes = {**request.shapes, OUTPUT: request.output_shape}
    return {name: size * math.prod(shape) for name, shape in shapes.items()}


def fits(request: Request, capabilities: Capabilities) -> bool:
    """Whether every tensor can be bound whole; raises where one fits no buffer at all."""
    most = capabilities.limits["maxBufferSize"]
    for name, nbytes in largest(request).items():
        if nbytes > most:
            raise UnsupportedError(
                f"{name} has {nbytes} bytes; a buffer of this device holds at most {most} "
                "(maxBufferSize)"
            )
    limit = capabilities.limits["maxStorageBufferBindingSize"]
    return max(largest(request).values()) <= limit


def parts_of(request: Request, capabilities: Capabilities) -> list[tuple[Part, Request]]:
    """The fewest cuts after which every part's tensors can be bound."""
    limit = capabilities.limits["maxStorageBufferBindingSize"]
    for counts in cuts(request):
        parts = [(part, part_request(request, part)) for part in cut(request, *counts)]
        if all(max(largest(own).values()) <= limit and exact(own) for _, own in parts) and aligned(
            request, parts
        ):
            return parts
    sizes = ", ".join(f"{name} {nbytes}" for name, nbytes in largest(request).items())
    raise UnsupportedError(
        f"the tensors ({sizes} bytes) cannot be cut into parts of at most {limit} bytes "
        "(maxStorageBufferBindingSize)"
    )


def exact(part: Request) -> bool:
    """Whether the slice of the input gives the part's rows and no more (all padding may not)."""
    x, w = part.shapes["x"], part.shapes["w"]
    return conv_extents(x[2:], w[2:], part.attributes) == tuple(part.output_shape[2:])


def cuts(request: Request) -> Iterator[tuple[int, int, int]]:
    """How many parts of batch, output channels and rows to try, coarse ones first."""
    batch = request.output_shape[0]
    for count in halvings(batch):
        yield count, 1, 1
    for channels in halvings(request.output_shape[1]):
        for rows in halvings(request.output_shape[2]):
            yield batch, channels, rows


def halvings(size: int) -> Iterator[int]:
    """1, 2, 4, ... and at last the size itself."""
    count = 1
    while count < size:
        yield count
        count *= 2
    yield size


def cut(request: Request, batch: int, channels: int, rows: int) -> Iterator[Part]:
    group = request.attributes.get("group", 1)
    images, outputs, height = request.output_shape[:3]
    # Grouped channels are cut between groups, so that a part is grouped convolution again.
    unit = outputs // group if group > 1 else 1
    for i in ranges(images, batch):
        for m in ranges(outputs // unit, min(channels, outputs // unit)):
            for r in ranges(height, rows):
                yield Part(i, (m[0] * unit, m[1] * unit), r)


def ranges(size: int, count: int) -> Iterator[Range]:
    """`size` in `count` runs of almost equal length."""
    for i in range(count):
        yield size * i // count, size * (i + 1) // count


def input_rows(request: Request, rows: Range) -> tuple[Range, tuple[int, int]]:
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


def part_request(request: Request, part: Part) -> Request:
    """The request that a part is, with its padding made explicit."""
    x, w, group = request.shapes["x"], request.shapes["w"], request.attributes.get("group", 1)
    images = part.images[1] - part.images[0]
    outputs = part.channels[1] - part.channels[0]
    (low, high), first = input_rows(request, part.rows)
    groups = outputs * group // w[0] if group > 1 else 1
    pads = [first, *conv_padding(request)[1:]]
    attributes = {
        **{k: v for k, v in request.attributes.items() if k not in ("auto_pad", "kernel_shape")},
        "pads": (*(before for before, _ in pads), *(after for _, after in pads)),
        **({"group": groups} if group > 1 else {}),
    }
    output = (images, outputs, part.rows[1] - part.rows[0], *request.output_shape[3:])
    shapes = {"x": (images, groups * w[1] if group > 1 else x[1], high - low, *x[3:])}
    shapes["w"] = (outputs, *w[1:])
    if "bias" in request.shapes:
        shapes["bias"] = (outputs,)
    if "zResidual" in request.shapes:
        shapes["zResidual"] = output
    return Request(shapes, output, request.dtype, attributes)


def slices(request: Request, part: Part) -> dict[str, tuple[Sequence[Range], Sequence[int]]]:
    """For every operand and the output, which ranges of its first three axes a part holds."""
    w, group = request.shapes["w"], request.attributes.get("group", 1)
    per_group = w[0] // group
    inputs = (0, request.shapes["x"][1])
    if group > 1:
        inputs = (part.channels[0] // per_group * w[1], part.channels[1] // per_group * w[1])
    rows = input_rows(request, part.rows)[0]
    held = {
        "x": ((part.images, inputs, rows), request.shapes["x"]),
        "w": ((part.channels,), w),
        "bias": ((part.channels,), w[:1]),
        "zResidual": ((part.images, part.channels, part.rows), request.output_shape),
        OUTPUT: ((part.images, part.channels, part.rows), request.output_shape),
    }
    return {k: v for k, v in held.items() if k == OUTPUT or k in request.shapes}


def copies(
    ranges_held: Sequence[Range], shape: Sequence[int], size: int, tensor: str, piece: str
) -> list[Copy]:
    """Copies of a slice into `piece`: one for each run that lies together in memory."""
    held = [*ranges_held, *((0, extent) for extent in shape[len(ranges_held) :])]
    # The axes behind the last cut one lie together.
    last = max((i for i, r in enumerate(held) if r != (0, shape[i])), default=0)
    inner = math.prod(shape[last + 1 :]) * size
    run = (held[last][1] - held[last][0]) * inner
    starts = [0]
    for axis in range(last):
        step = math.prod(shape[axis + 1 :]) * size
        starts = [start + i * step for start in starts for i in range(*held[axis])]
    offset = held[last][0] * inner
    return [Copy(tensor, start + offset, piece, i * run, run) for i, start in enumerate(starts)]


def aligned(request: Request, parts: Sequence[tuple[Part, Request]]) -> bool:
    """Buffers are copied in whole 4 bytes, which an odd number of f16 values is not."""
    size = DTYPE_BYTES[request.dtype]
    return size == 4 or all(
        value % 4 == 0
        for part, _ in parts
        for held, shape in slices(request, part).values()
        for copy in copies(held, shape, size, "", "")
        for value in (copy.source_offset, copy.target_offset, copy.nbytes)
    )


def join(whole: Plan, request: Request, parts: Sequence[tuple[Part, Plan]]) -> Plan:
    """One plan of the parts' plans, with the copies in and out of their pieces."""
    size = DTYPE_BYTES[request.dtype]
    scratch: dict[str, Scratch] = {}
    passes: list[Pass] = []
    for part, plan in parts:
        own = {**plan.operands, OUTPUT: plan.output_shape}
        pieces = {name: f"{name} part" for name in own}
        for name, shape in own.items():
            grow(scratch, pieces[name], request.dtype, math.prod(shape))
        for item in plan.scratch:
            grow(scratch, item.id, item.dtype, item.elements)
        before: list[Copy] = []
        after: list[Copy] = []
        for name, (held, tensor) in slices(request, part).items():
            listed = copies(held, tensor, size, name, pieces[name])
            if name == OUTPUT:
                after += [c.reversed() for c in listed]
            else:
                before += listed
        moved = [rebound(item, pieces) for item in plan.passes]
        moved[0] = replace(moved[0], before=tuple(before))
        moved[-1] = replace(moved[-1], after=tuple(after))
        passes += moved
    return replace(whole, passes=tuple(passes), scratch=tuple(scratch.values()))


def grow(scratch: dict[str, Scratch], name: str, dtype: str, elements: int) -> None:
    """Have a scratch buffer hold what one more part needs; parts run one after the other."""
    nbytes = elements * DTYPE_BYTES[dtype]
    if name not in scratch or scratch[name].nbytes < nbytes:
        scratch[name] = Scratch(name, dtype, elements, nbytes)


def rebound(item: Pass, pieces: Mapping[str, Any]) -> Pass:
    """A pass that works on the pieces instead of on the operands."""
    bindings = tuple(
        replace(b, operand=None, scratch=pieces[b.operand]) if b.operand else b
        for b in item.bindings
    )
    return replace(item, bindings=bindings, once=False)
