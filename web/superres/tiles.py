"""Cuts an image into tiles that can be upscaled one after the other with no visible seam."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Tile", "cut", "planes"]


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


def cut(width: int, height: int, size: int, halo: int, border: int = 0) -> Iterator[Tile]:
    """Tiles of at most `size` x `size` pixels, read with `halo` pixels of the image around them.

    With the network's reach as the halo each pixel of a tile is what the whole image would give.
    `border` widens the image first: so many pixels outside of it are read, too.
    """
    for top, rows in _spans(height, size):
        for left, columns in _spans(width, size):
            x0, y0 = max(-border, left - halo), max(-border, top - halo)
            x1 = min(width + border, left + columns + halo)
            y1 = min(height + border, top + rows + halo)
            yield Tile(left, top, columns, rows, x0, y0, x1 - x0, y1 - y0)


def _spans(length: int, size: int) -> Iterator[tuple[int, int]]:
    """Cut a length into nearly equal spans: few distinct shapes, no thin last tile."""
    count = -(-length // size)
    step = -(-length // count)
    for start in range(0, length, step):
        yield start, min(step, length - start)


def planes(rgba: bytes, width: int, height: int, tile: Tile) -> array[float]:
    """The red, green and blue planes, 0..255, of what is read for a tile of a picture.

    Outside of the picture its outermost pixels go on.
    """
    before = max(0, -tile.read_left)
    after = max(0, tile.read_left + tile.read_width - width)
    first = 4 * max(0, tile.read_left)
    last = 4 * min(width, tile.read_left + tile.read_width)
    rows = []
    for y in range(tile.read_top, tile.read_top + tile.read_height):
        start = 4 * width * min(max(y, 0), height - 1)
        row = rgba[start + first : start + last]
        rows.append(row[:4] * before + row + row[-4:] * after)
    part = b"".join(rows)
    values = array("f")
    for channel in range(3):
        values.extend(part[channel::4])
    return values
