"""Requests whose tensors do not fit a binding: cut into parts that do.

A part is a request of its own on slices of the operands (its piece, by the operator's rules), which
are copied to scratch buffers and back; an operand that no part cuts is bound as it is. The whole
remains one plan. Batches are cut first, then output channels (whole groups), then rows of the first
spatial axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from .capabilities import Capabilities
from .errors import UnsupportedError
from .pieces import Part, Piece, Range
from .plan import DTYPE_BYTES, Copy, Pass, Plan, Scratch
from .request import Request

__all__ = ["fits", "join", "parts_of", "slices"]

OUTPUT = "y"
# More than these, and planning would take longer than anybody waits.
MAX_PARTS = 4096
MAX_COPIES = 2**16


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


def parts_of(
    request: Request,
    capabilities: Capabilities,
    piece_of: Callable[[Request, Part], Piece | None],
) -> list[tuple[Part, Piece]]:
    """The fewest cuts after which every part's tensors can be bound."""
    limit = capabilities.limits["maxStorageBufferBindingSize"]
    # Even numbers of halves can be copied, whatever lies in one image, channel or row.
    units = (1, 2) if request.dtype == "float16" else (1,)
    for counts, even in product(cuts(request), units):
        if math.prod(counts) > MAX_PARTS:
            continue
        parts = []
        for part in cut(request, *counts, even):
            piece = piece_of(request, part)
            if piece is None or max(largest(piece.request).values()) > limit:
                break
            if not aligned(request, part, piece):
                break
            parts.append((part, piece))
        else:
            return parts
    sizes = ", ".join(f"{name} {nbytes}" for name, nbytes in largest(request).items())
    odd = "; halves are copied in pairs" if request.dtype == "float16" else ""
    raise UnsupportedError(
        f"the tensors ({sizes} bytes) cannot be cut into parts of at most {limit} bytes "
        f"(maxStorageBufferBindingSize{odd})"
    )


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


def cut(request: Request, batch: int, channels: int, rows: int, even: int) -> Iterator[Part]:
    group = request.attributes.get("group", 1)
    images, outputs, height = request.output_shape[:3]
    # Grouped channels are cut between groups, so that a part is grouped convolution again.
    unit = outputs // group if group > 1 else 1
    for i in ranges(images, batch, even):
        for m in ranges(outputs // unit, channels, even):
            for r in ranges(height, rows, even):
                yield Part(i, (m[0] * unit, m[1] * unit), r)


def ranges(size: int, count: int, unit: int = 1) -> Iterator[Range]:
    """`size` in at most `count` almost equal runs, all but the last multiples of `unit`."""
    units = -(-size // unit)
    count = min(count, units)
    for i in range(count):
        yield units * i // count * unit, min(units * (i + 1) // count * unit, size)


def slices(
    request: Request, part: Part, piece: Piece
) -> dict[str, tuple[Sequence[Range], Sequence[int]]]:
    """For every operand and the output, which ranges of its first axes a part holds."""
    output = (part.images, part.channels, part.rows)
    held = {"x": piece.x, "w": piece.w, "bias": (part.channels,), "zResidual": output}
    found = {name: (held[name], shape) for name, shape in request.shapes.items()}
    return {**found, OUTPUT: (output, request.output_shape)}


def copies(
    ranges_held: Sequence[Range], shape: Sequence[int], size: int, tensor: str, piece: str
) -> list[Copy]:
    """Copies of a slice into `piece`: one for each run that lies together in memory."""
    held = [*ranges_held, *((0, extent) for extent in shape[len(ranges_held) :])]
    # The axes behind the last cut one lie together.
    last = max((i for i, r in enumerate(held) if r != (0, shape[i])), default=0)
    inner = math.prod(shape[last + 1 :]) * size
    run = (held[last][1] - held[last][0]) * inner
    runs = math.prod(end - start for start, end in held[:last])
    if runs > MAX_COPIES:
        raise UnsupportedError(f"a part of {tensor} lies in {runs} pieces, more than {MAX_COPIES}")
    starts = [0]
    for axis in range(last):
        step = math.prod(shape[axis + 1 :]) * size
        starts = [start + i * step for start in starts for i in range(*held[axis])]
    offset = held[last][0] * inner
    listed = [Copy(tensor, start + offset, piece, i * run, run) for i, start in enumerate(starts)]
    if starts[-1] + offset + run == math.prod(shape) * size:
        # Buffers hold whole 4 bytes, and so may the copy of the last half.
        listed[-1] = replace(listed[-1], nbytes=-(-run // 4) * 4)
    return listed


def aligned(request: Request, part: Part, piece: Piece) -> bool:
    """Buffers are copied in whole 4 bytes, which an odd number of f16 values is not."""
    size = DTYPE_BYTES[request.dtype]
    return size == 4 or all(
        value % 4 == 0
        for held, shape in slices(request, part, piece).values()
        if not is_whole(held, shape)
        for copy in copies(held, shape, size, "an operand", "")
        for value in (copy.source_offset, copy.target_offset, copy.nbytes)
    )


def is_whole(held: Sequence[Range], shape: Sequence[int]) -> bool:
    return all(r == (0, extent) for r, extent in zip(held, shape, strict=False))


def join(whole: Plan, request: Request, parts: Sequence[tuple[Part, Piece, Plan]]) -> Plan:
    """One plan of the parts' plans, with the copies in and out of their pieces."""
    size = DTYPE_BYTES[request.dtype]
    scratch: dict[str, Scratch] = {}
    passes: list[Pass] = []
    copied = 0
    for part, piece, plan in parts:
        own = {**plan.operands, OUTPUT: plan.output_shape}
        held_of = slices(request, part, piece)
        pieces = {name: f"{name} part" for name in own if not is_whole(*held_of[name])}
        for name in pieces:
            grow(scratch, pieces[name], request.dtype, math.prod(own[name]))
        for item in plan.scratch:
            grow(scratch, item.id, item.dtype, item.elements)
        before: list[Copy] = []
        after: list[Copy] = []
        for name in pieces:
            held, tensor = held_of[name]
            listed = copies(held, tensor, size, name, pieces[name])
            if name == OUTPUT:
                after += [c.reversed() for c in listed]
            else:
                before += listed
        copied += len(before) + len(after)
        if copied > MAX_COPIES:
            raise UnsupportedError(
                f"the parts of these tensors lie in more than {MAX_COPIES} pieces of memory"
            )
        moved = [rebound(item, pieces) for item in plan.passes]
        moved[0] = replace(moved[0], before=tuple(before))
        moved[-1] = replace(moved[-1], after=tuple(after))
        passes += moved
    variant = parts[0][-1].variant
    return replace(whole, variant=variant, passes=tuple(passes), scratch=tuple(scratch.values()))


def grow(scratch: dict[str, Scratch], name: str, dtype: str, elements: int) -> None:
    """Have a scratch buffer hold what one more part needs; parts run one after the other."""
    nbytes = elements * DTYPE_BYTES[dtype]
    if name not in scratch or scratch[name].nbytes < nbytes:
        scratch[name] = Scratch(name, dtype, elements, nbytes)


def rebound(item: Pass, pieces: Mapping[str, str]) -> Pass:
    """A pass that works on the pieces instead of on the operands."""
    bindings = tuple(
        replace(b, operand=None, scratch=pieces[b.operand or ""]) if b.operand in pieces else b
        for b in item.bindings
    )
    return replace(item, bindings=bindings, once=False)
