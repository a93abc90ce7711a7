"""Runs a graph of fused convolutions on the GPU: weights stay there, and so does all between."""

from __future__ import annotations

import asyncio
import struct
from array import array
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import fusedconv
from fusedconv import CallRecord, GpuTensor, HostTensor, PreparedConv

from .graph import Conv, Graph

__all__ = ["LayerReport", "Network", "host_tensor"]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class LayerReport:
    """What one layer ran as, and how long it took."""

    index: int
    name: str
    request: dict[str, Any]
    """Arguments for `fusedconv.explain`."""
    variant: str
    dispatch: tuple[tuple[int, int, int], ...]
    """Workgroups, pass by pass."""
    x_shape: Shape
    y_shape: Shape
    ms: float
    """By the GPU's clock where it has one, else from submission to completion."""


Observer = Callable[[LayerReport], Awaitable[None]]


class Network:
    """A graph with its weights on the GPU. Call it with a (N, C, H, W) tensor of its dtype."""

    def __init__(self, graph: Graph, layers: list[PreparedConv], dtype: str) -> None:
        self.graph = graph
        self.dtype = dtype
        self._layers = layers
        self._last_uses = graph.last_uses()

    @classmethod
    async def load(cls, graph: Graph, dtype: str = "float32") -> Network:
        """Bring the graph's weights to the GPU, as float32 or float16."""
        layers: list[PreparedConv] = []
        with ExitStack() as stack:
            for step in graph.steps:
                layers.append(await _prepare(step, dtype))
                stack.callback(layers[-1].free)
            stack.pop_all()
        return cls(graph, layers, dtype)

    async def warm(self, x_shape: Shape, progress: Callable[[int, int], None]) -> None:
        """Compile the shaders that an input of this shape needs; progress gets (done, of)."""
        shapes = {self.graph.input: x_shape}
        compilations = []
        for step, layer in zip(self.graph.steps, self._layers, strict=True):
            z = step.z is not None
            shapes[step.y] = layer.plan(shapes[step.x], z).output_shape
            compilations.append(layer.warm(shapes[step.x], z))
        done = 0

        async def counted(compilation: Awaitable[object]) -> None:
            nonlocal done
            await compilation
            done += 1
            progress(done, len(compilations))

        await asyncio.gather(*map(counted, compilations))

    async def __call__(self, x: GpuTensor, observe: Observer | None = None) -> GpuTensor:
        """The result, still on the GPU. The caller keeps and frees `x` and the result.

        With an observer each layer is timed, alone on the GPU; without one the GPU gets all
        layers at once.
        """
        values = {self.graph.input: x}
        try:
            for i, (step, layer) in enumerate(zip(self.graph.steps, self._layers, strict=True)):
                operands = [values[name] for name in step.reads]
                if observe is None:
                    values[step.y] = await layer(*operands)
                else:
                    with fusedconv.profile() as profile:
                        values[step.y] = await layer(*operands)
                    await observe(_report(i, step, *profile.records))
                _free(values.pop(name) for name in self._last_uses[i] if name != self.graph.input)
            return values.pop(self.graph.output)
        finally:
            _free(value for value in values.values() if value is not x)

    def free(self) -> None:
        """Give the weights' memory back."""
        _free(self._layers)


async def _prepare(step: Conv, dtype: str) -> PreparedConv:
    w = host_tensor(step.weight.data, step.weight.shape, dtype)
    bias = step.bias and host_tensor(step.bias.data, step.bias.shape, dtype)
    return await fusedconv.prepare(w, bias=bias, **step.attributes)


def host_tensor(values: array[float], shape: Shape, dtype: str) -> HostTensor:
    """Numbers as a tensor of float32 or float16."""
    if dtype == "float16":
        return HostTensor(struct.pack(f"={len(values)}e", *values), shape, dtype)
    return HostTensor(values, shape, dtype)


def _report(i: int, step: Conv, record: CallRecord) -> LayerReport:
    shapes = record.operands
    request = {
        "x_shape": shapes["x"],
        "w_shape": shapes["w"],
        "dtype": record.dtype,
        "bias": step.bias is not None,
        "z": step.z is not None,
        **step.attributes,
    }
    return LayerReport(
        index=i,
        name=step.name,
        request=request,
        variant=record.variant,
        dispatch=tuple(p.dispatch for p in record.passes),
        x_shape=shapes["x"],
        y_shape=record.output_shape,
        ms=record.wall_ms if record.gpu_ms is None else record.gpu_ms,
    )


def _free(owners: Iterable[GpuTensor | PreparedConv]) -> None:
    for owner in owners:
        owner.free()
