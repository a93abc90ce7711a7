"""Operators with their weights on the GPU, ready for inputs of any shape."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from .calls import Call
from .errors import RequestError
from .execution import Invocation, check_order, checked_out
from .gpu.device import Gpu, acquire, current
from .gpu.pipelines import Group, Instance, Kernel
from .operands import Operand, common_dtype, source_of
from .operator import Operator
from .plan import Plan
from .request import as_shape, flag
from .tensor import GpuTensor
from .transfers import settled, stored
from .tuning import Progress

__all__ = ["PreparedConv", "prepare_operator"]


# Options of planning, which are no attributes.
PLANNING = ("extensions", "tunables", "variant")


class PreparedConv:
    """A convolution whose weights live on the GPU, from `fusedconv.prepare`.

    `await conv(x, z=None, out=None)`: a GpuTensor in gives a GpuTensor, an array in an array.
    """

    def __init__(
        self,
        operator: Operator,
        gpu: Gpu,
        weights: Mapping[str, GpuTensor],
        options: Mapping[str, Any],
        cast: bool,
        tune: bool | Progress = False,
    ) -> None:
        self.operator = operator
        self.dtype = weights["w"].dtype
        self._gpu = gpu
        self._weights = dict(weights)
        self._options = dict(options)
        self._cast = cast
        self._tune = tune
        self._group: Group | None = Group(gpu)
        self._instances: dict[tuple[tuple[int, ...], tuple[int, ...] | None], Instance] = {}

    @property
    def weights(self) -> Mapping[str, GpuTensor]:
        """The resident weights, by the operator's names."""
        return dict(self._weights)

    def __call__(self, x: Any, z: Any = None, *, out: GpuTensor | None = None) -> Call[Any]:
        """Run on `x` (N, C, D1..Dn), with a residual `z` of the output's shape.

        Begins at once: `x` and `z` may change after the call. Await it for the result, a
        GpuTensor where `x` is one (or `out`, which is written), else an ndarray (a HostTensor
        without NumPy).
        """
        try:
            operands = self._operands(x, z)
            key = (operands["x"].shape, operands["z"].shape if z is not None else None)
            instance = self._instances.get(key) or self._instance(*key)
            return Invocation(lambda gpu: instance, operands, checked_out(out), self._gpu).start()
        except Exception as error:
            return Call(error=error)

    def _operands(self, x: Any, z: Any) -> dict[str, Operand]:
        self._check_free()
        operands: dict[str, Operand] = {"x": self._operand("x", x), **self._weights}
        if z is not None:
            operands["z"] = self._operand("z", z)
        return operands

    def _check_free(self) -> None:
        if self._group is None:
            raise RequestError("conv", "a freed convolution", "one that is not freed")

    def _operand(self, name: str, value: Any) -> Operand:
        if type(value) is GpuTensor and value.dtype == self.dtype and not value.freed:
            return value
        return source_of(name, value).ready(self.dtype, self._cast)

    def _instance(self, x_shape: tuple[int, ...], z_shape: tuple[int, ...] | None) -> Instance:
        key = (x_shape, z_shape)
        if key not in self._instances:
            plan = self._plan(x_shape, False if z_shape is None else z_shape)
            check_order(plan)
            assert self._group is not None
            kernel = self._gpu.kernels.of(plan)
            if self._tune:
                measure = partial(self._measured, *key)
                self._instances[key] = Tuned(kernel, self._group, measure)
            else:
                self._instances[key] = Instance(kernel, self._group)
        return self._instances[key]

    async def _measured(self, x_shape: tuple[int, ...], z_shape: tuple[int, ...] | None) -> Kernel:
        """What is fastest for inputs of these shapes, measured unless it is known."""
        from .tuner import SECONDS, tune

        bias = self._weights.get("bias")
        request = self.operator.request(
            x_shape,
            self._weights["w"].shape,
            dtype=self.dtype,
            bias=False if bias is None else bias.shape,
            z=False if z_shape is None else z_shape,
            **{k: v for k, v in self._options.items() if k not in PLANNING},
        )
        progress = self._tune if callable(self._tune) else None
        await tune(self.operator, request, SECONDS, progress, gpu=self._gpu)
        return self._gpu.kernels.of(self._plan(x_shape, False if z_shape is None else z_shape))

    def _plan(self, x_shape: tuple[int, ...], z: bool | tuple[int, ...]) -> Plan:
        bias = self._weights.get("bias")
        return self.operator.plan(
            x_shape,
            self._weights["w"].shape,
            dtype=self.dtype,
            bias=False if bias is None else bias.shape,
            z=z,
            device=self._gpu.capabilities,
            **self._options,
        )

    def plan(self, x_shape: Sequence[int], z: bool = False) -> Plan:
        """How an input of this shape would run."""
        return self._plan(as_shape(x_shape, "x_shape"), flag(z, "z"))

    async def warm(self, x_shape: Sequence[int], z: bool = False) -> Plan:
        """Compile what inputs of this shape need, so that the first call does not wait for it."""
        self._check_free()
        plan = self.plan(x_shape, z)
        key = (as_shape(x_shape, "x_shape"), plan.output_shape if z else None)
        instance = self._instance(*key)
        await instance.compile()
        return instance.plan

    def free(self) -> None:
        """Give the weights' memory back; calls that were made before still finish."""
        if self._group is not None:
            for tensor in self._weights.values():
                tensor.free()
            self._instances.clear()
            self._group = None

    def __enter__(self) -> PreparedConv:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.free()


class Tuned(Instance):
    """An instance that has its kernel measured before it is compiled."""

    __slots__ = ("_measure", "_task")

    def __init__(
        self, kernel: Kernel, group: Group, measure: Callable[[], Coroutine[Any, Any, Kernel]]
    ) -> None:
        super().__init__(kernel, group)
        self._measure = measure
        self._task: asyncio.Task[Kernel] | None = None

    async def compile(self) -> None:
        if not self.id:
            if self._task is None or (self._task.done() and self._task.exception()):
                self._task = asyncio.ensure_future(self._measure())
            self.take(await asyncio.shield(self._task))
        await super().compile()


def prepare_operator(
    operator: Operator,
    w: Any,
    bias: Any,
    options: Mapping[str, Any],
    cast: bool,
    tune: bool | Progress = False,
) -> Call[PreparedConv]:
    """Bring the weights to the current device; see `fusedconv.prepare`."""
    try:
        if not isinstance(tune, bool) and not callable(tune):
            raise RequestError("tune", repr(tune), "True, False, or a function as its progress")
        if tune and (options["variant"] or options["tunables"] or not options["extensions"]):
            raise RequestError(
                "tune", "a pinned choice", "tune without variant, tunables and extensions=False"
            )
        sources = {"w": source_of("w", w)}
        if bias is not None:
            sources["bias"] = source_of("bias", bias)
        dtype = common_dtype(sources, cast)
        attributes = {k: v for k, v in options.items() if k not in PLANNING}
        bias_shape = sources["bias"].shape if bias is not None else False
        operator.check_weights(sources["w"].shape, bias=bias_shape, dtype=dtype, **attributes)
        weights = {name: source.ready(dtype, cast) for name, source in sources.items()}
        gpu = current()
        for name, operand in weights.items():
            if isinstance(operand, GpuTensor):
                gpu = operand.storage.gpu
            elif gpu is None:
                weights[name] = operand.snapshot()
        if gpu is None:
            return Call.later(_prepare_later(operator, weights, options, cast, tune))
        return _settled(PreparedConv(operator, gpu, resident(gpu, weights), options, cast, tune))
    except Exception as error:
        return Call(error=error)


async def _prepare_later(
    operator: Operator,
    weights: Mapping[str, Operand],
    options: Mapping[str, Any],
    cast: bool,
    tune: bool | Progress,
) -> PreparedConv:
    gpu = await acquire()
    conv = PreparedConv(operator, gpu, resident(gpu, weights), options, cast, tune)
    return await _after([settled(tensor) for tensor in conv.weights.values()], conv)


def resident(gpu: Gpu, operands: Mapping[str, Operand]) -> dict[str, GpuTensor]:
    """Each operand as a tensor of its own on the device."""
    tensors: dict[str, GpuTensor] = {}
    try:
        for name, operand in operands.items():
            storage = stored(gpu, operand)
            tensors[name] = GpuTensor(storage, operand.shape, operand.dtype)
    except BaseException:
        for tensor in tensors.values():
            tensor.free()
        raise
    return tensors


def _settled(conv: PreparedConv) -> Call[PreparedConv]:
    calls = [settled(tensor) for tensor in conv.weights.values()]
    if all(call.done for call in calls):
        return Call(conv)
    return Call.later(_after(calls, conv))


async def _after(calls: Sequence[Call[GpuTensor]], conv: PreparedConv) -> PreparedConv:
    try:
        for call in calls:
            await call
    except BaseException:
        conv.free()
        raise
    return conv
