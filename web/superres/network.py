"""Runs a graph of fused convolutions on the GPU: weights stay there, and so does all between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

import fusedconv
from fusedconv import CallRecord, GpuTensor, HostTensor

from .graph import Conv, Graph, Step
from .keras import Weight
from .upsampling import Upsampling

__all__ = ["LayerReport", "Network"]

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
    """A graph with its weights on the GPU. Call it with a (N, C, H, W) float32 tensor."""

    def __init__(self, graph: Graph, layers: list[_Layer]) -> None:
        self.graph = graph
        self._layers = layers
        self._last_uses = graph.last_uses()

    @classmethod
    async def load(cls, graph: Graph) -> Network:
        """Bring the graph's weights to the GPU."""
        layers: list[_Layer] = []
        with ExitStack() as stack:
            for step in graph.steps:
                layers.append(await _prepare(step))
                stack.callback(layers[-1].free)
            stack.pop_all()
        return cls(graph, layers)

    async def warm(self, x_shape: Shape, progress: Callable[[int, int], None]) -> None:
        """Compile the shaders that an input of this shape needs; progress gets (done, of)."""
        shapes = {self.graph.input: x_shape}
        for i, (step, layer) in enumerate(zip(self.graph.steps, self._layers, strict=True)):
            progress(i, len(self._layers))
            await layer.warm(shapes[step.x])
            shapes[step.y] = layer.shape_after(shapes[step.x])
        progress(len(self._layers), len(self._layers))

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
                    x_shape, (record,) = values[step.x].shape, profile.records
                    await observe(_report(i, step.name, layer, x_shape, record))
                _free(values.pop(name) for name in self._last_uses[i] if name != self.graph.input)
            return values.pop(self.graph.output)
        finally:
            _free(value for value in values.values() if value is not x)

    def free(self) -> None:
        """Give the weights' memory back."""
        _free(self._layers)


class _Layer(Protocol):
    async def __call__(self, x: GpuTensor, z: GpuTensor | None = None, /) -> GpuTensor: ...
    async def warm(self, x_shape: Shape, /) -> None: ...
    def shape_after(self, x_shape: Shape, /) -> Shape: ...
    def request(self, x_shape: Shape, /) -> dict[str, Any]: ...
    def free(self) -> None: ...


class _Convolution:
    """A step of the graph with its weights on the GPU."""

    def __init__(self, step: Conv, conv: fusedconv.PreparedConv) -> None:
        self._step = step
        self._conv = conv

    async def __call__(self, x: GpuTensor, z: GpuTensor | None = None, /) -> GpuTensor:
        y: GpuTensor = await self._conv(x, z=z)
        return y

    async def warm(self, x_shape: Shape, /) -> None:
        await self._conv.warm(x_shape, z=self._step.z is not None)

    def shape_after(self, x_shape: Shape, /) -> Shape:
        return fusedconv.plan(**self.request(x_shape)).output_shape

    def request(self, x_shape: Shape, /) -> dict[str, Any]:
        return {
            "x_shape": x_shape,
            "w_shape": self._step.weight.shape,
            "bias": self._step.bias is not None,
            "z": self._step.z is not None,
            **self._step.attributes,
        }

    def free(self) -> None:
        self._conv.free()


async def _prepare(step: Step) -> _Layer:
    if not isinstance(step, Conv):
        return await Upsampling.prepare(*step.size)
    bias = None if step.bias is None else _tensor(step.bias)
    conv = await fusedconv.prepare(_tensor(step.weight), bias=bias, **step.attributes)
    return _Convolution(step, conv)


def _tensor(weight: Weight) -> HostTensor:
    return HostTensor(weight.data, weight.shape)


def _report(i: int, name: str, layer: _Layer, x_shape: Shape, record: CallRecord) -> LayerReport:
    return LayerReport(
        index=i,
        name=name,
        request=layer.request(x_shape),
        variant=record.variant,
        dispatch=tuple(p.dispatch for p in record.passes),
        x_shape=x_shape,
        y_shape=layer.shape_after(x_shape),
        ms=record.wall_ms if record.gpu_ms is None else record.gpu_ms,
    )


def _free(owners: Any) -> None:
    for owner in owners:
        owner.free()
