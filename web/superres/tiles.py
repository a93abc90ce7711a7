"""Cuts an image into tiles that can be upscaled one after the other with no visible seam."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Tile", "cut"]


@dataclass(frozen=True)
class Tile:
    """A part of the image (left, top, width, height) and the larger part that is read for it."""

    left: int
    top: int
    width: int
    height: int
    read_left: int
    read_top: int
    read_width: int
    read_height: int


def cut(width: int, height: int, size: int, halo: int) -> Iterator[Tile]:
    """Tiles of at most `size` x `size` pixels, read with `halo` pixels of the image around them.

    With the network's reach as the halo each pixel of a tile is what the whole image would give:
    at the image's own border the network pads as it always does.
    """
    for top, rows in _spans(height, size):
        for left, columns in _spans(width, size):
            x0, y0 = max(0, left - halo), max(0, top - halo)
            x1 = min(width, left + columns + halo)
            y1 = min(height, top + rows + halo)
            yield Tile(left, top, columns, rows, x0, y0, x1 - x0, y1 - y0)


def _spans(length: int, size: int) -> Iterator[tuple[int, int]]:
    """Cut a length into nearly equal spans: few distinct shapes, no thin last tile."""
    count = -(-length // size)
    step = -(-length // count)
    for start in range(0, length, step):
        yield start, min(step, length - start)
