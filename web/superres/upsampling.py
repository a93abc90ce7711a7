"""Nearest upsampling as a convolution: the one place to change when there is a better kernel."""

from __future__ import annotations

from array import array
from typing import Any

import fusedconv
from fusedconv import GpuTensor, HostTensor

__all__ = ["Upsampling"]

Shape = tuple[int, ...]


class Upsampling:
    """Repeats each pixel `rows` x `columns` times: (N, C, H, W) to (N, C, rows*H, columns*W).

    In memory the result is `rows` copies of each image row, with each pixel `columns` times. So
    each row is taken as an image of its own, (N*C*H, 1, W, 1), and convolved to `rows` channels
    with a kernel of `columns` ones along the last axis, which is padded so far that each window
    holds the one pixel that is there.
    """

    def __init__(self, conv: fusedconv.PreparedConv, rows: int, columns: int) -> None:
        self._conv = conv
        self._rows = rows
        self._columns = columns

    @classmethod
    async def prepare(cls, rows: int, columns: int) -> Upsampling:
        ones = HostTensor(array("f", [1.0]) * (rows * columns), (rows, 1, 1, columns))
        pads = [0, columns - 1, 0, columns - 1]
        return cls(await fusedconv.prepare(ones, pads=pads), rows, columns)

    async def __call__(self, x: GpuTensor, z: GpuTensor | None = None, /) -> GpuTensor:
        y: GpuTensor
        with x.reshape(self._as_rows(x.shape)) as rows, await self._conv(rows) as y:
            return y.reshape(self.shape_after(x.shape))

    def shape_after(self, x_shape: Shape) -> Shape:
        n, c, h, w = x_shape
        return n, c, h * self._rows, w * self._columns

    async def warm(self, x_shape: Shape) -> None:
        await self._conv.warm(self._as_rows(x_shape))

    def request(self, x_shape: Shape) -> dict[str, Any]:
        """What is asked of fusedconv, as arguments of `fusedconv.plan`."""
        return {
            "x_shape": self._as_rows(x_shape),
            "w_shape": (self._rows, 1, 1, self._columns),
            "pads": [0, self._columns - 1, 0, self._columns - 1],
        }

    def free(self) -> None:
        self._conv.free()

    @staticmethod
    def _as_rows(shape: Shape) -> Shape:
        n, c, h, w = shape
        return n * c * h, 1, w, 1
