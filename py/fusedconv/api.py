"""The asynchronous functions of the package: everything that runs on the GPU."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .calls import Call, submitted
from .errors import RequestError
from .memory import MemoryReport
from .operands import common_dtype, source_of
from .operator import OPERATORS, Operator, builtin, frozen, shipped
from .plan import DTYPE_BYTES
from .profiling import CallRecord, Profile
from .request import as_shape, check_elements, dtype_name, flag
from .tensor import GpuTensor
from .tuning import Progress, Tuning, tunings

if TYPE_CHECKING:
    from .gpu.device import Device, Gpu
    from .gpu.pipelines import Kernel
    from .prepared import PreparedConv

__all__ = [
    "array",
    "batch",
    "conv_transpose",
    "device",
    "empty",
    "memory",
    "prepare",
    "profile",
    "run",
    "run_operator",
    "synchronize",
    "tune",
]


def run(
    x: Any,
    w: Any,
    bias: Any = None,
    z: Any = None,
    *,
    out: GpuTensor | None = None,
    cast: bool = False,
    extensions: bool = True,
    tunables: Mapping[str, float] | None = None,
    variant: str | None = None,
    **attributes: Any,
) -> Coroutine[Any, Any, Any]:
    """`await run(x, w, ...)`: activation(conv(x, w) + bias + z), as ONNX Runtime's FusedConv.

    `x` is (N, C, D1..Dn) with one to three spatial dimensions, `w` (M, C/group, k1..kn), `bias`
    (M,), `z` of the output's shape; all float32 or all float16 (other numbers are refused, or
    with `cast=True` converted). Each may be an ndarray, a GpuTensor, a HostTensor, or a pair
    (buffer or JS typed array, shape). Attributes are ONNX's: `activation`, `activation_params`,
    `auto_pad`, `dilations`, `group`, `kernel_shape`, `pads`, `strides`.

    The result lives where `x` does: a GpuTensor for a GpuTensor, else an ndarray (a HostTensor
    without NumPy). `out`, a GpuTensor, is written and given back instead. The call begins at
    once: operands may change after it. `variant` pins one, `tunables` and `extensions` are as in
    `plan`.

    Raises `RequestError` for a bad argument and `DeviceError` where the GPU fails, when awaited.
    """
    options = {"extensions": extensions, "tunables": tunables, "variant": variant, **attributes}
    return run_operator(builtin("fusedconv"), x, w, bias, z, out=out, cast=cast, options=options)


def conv_transpose(
    x: Any,
    w: Any,
    bias: Any = None,
    z: Any = None,
    *,
    out: GpuTensor | None = None,
    cast: bool = False,
    extensions: bool = True,
    tunables: Mapping[str, float] | None = None,
    variant: str | None = None,
    **attributes: Any,
) -> Coroutine[Any, Any, Any]:
    """`await conv_transpose(x, w, ...)`: ONNX ConvTranspose with the epilogue of `run`.

    `w` is (C, M/group, k1..kn). Attributes beside those of `run`: `output_padding`,
    `output_shape`. Operands, result and errors are as for `run`.
    """
    options = {"extensions": extensions, "tunables": tunables, "variant": variant, **attributes}
    operator = builtin(OPERATORS[True])
    return run_operator(operator, x, w, bias, z, out=out, cast=cast, options=options)


def run_operator(
    operator: Operator,
    x: Any,
    w: Any,
    bias: Any,
    z: Any,
    *,
    out: Any,
    cast: bool,
    options: Mapping[str, Any],
) -> Call[Any]:
    """Run any operator; `options` are what its `plan` takes beside shapes and dtype."""
    from .execution import Invocation, check_order, checked_out

    try:
        given = {"x": x, "w": w, "bias": bias, "z": z}
        sources = {
            name: source_of(name, value)
            for name, value in given.items()
            if value is not None or name in ("x", "w")
        }
        dtype = common_dtype(sources, flag(cast, "cast"))
        shapes = {name: source.shape for name, source in sources.items()}
        key = (operator, tunings.revision, *shapes.items(), dtype, frozen(options))

        def target_of(gpu: Gpu) -> Kernel:
            kernel = gpu.kernels.seen.get(key)
            if kernel is None or not kernel.id:
                plan = operator.plan(
                    shapes["x"],
                    shapes["w"],
                    dtype=dtype,
                    bias=shapes.get("bias", False),
                    z=shapes.get("z", False),
                    device=gpu.capabilities,
                    **options,
                )
                check_order(plan)
                kernel = gpu.kernels.of(plan)
                gpu.kernels.remember(key, kernel)
            return kernel

        operands = {name: source.ready(dtype, cast) for name, source in sources.items()}
        return Invocation(target_of, operands, checked_out(out)).start()
    except Exception as error:
        return Call(error=error)


def prepare(
    w: Any,
    bias: Any = None,
    *,
    cast: bool = False,
    extensions: bool = True,
    tunables: Mapping[str, float] | None = None,
    variant: str | None = None,
    transposed: bool = False,
    tune: bool | Progress = False,
    **attributes: Any,
) -> Coroutine[Any, Any, PreparedConv]:
    """`conv = await prepare(w, ...)`: keep the weights on the GPU for many calls `await conv(x)`.

    The arguments are those of `run`, or with `transposed` those of `conv_transpose`.
    `await conv.warm(x_shape)` compiles ahead, `conv.free()` (or a `with` block) gives the memory
    back. With `tune`, the first call of each shape measures what is fastest, as `fusedconv.tune`
    does, unless that is known; a function given as `tune` is its `progress`.
    """
    options = {"extensions": extensions, "tunables": tunables, "variant": variant, **attributes}
    try:
        return _prepare(shipped(transposed), w, bias, options, flag(cast, "cast"), tune)
    except Exception as error:
        return Call(error=error)


def _prepare(
    operator: Operator,
    w: Any,
    bias: Any,
    options: Mapping[str, Any],
    cast: bool,
    tune: bool | Progress,
) -> Call[PreparedConv]:
    from .prepared import prepare_operator

    return prepare_operator(operator, w, bias, options, cast, tune)


async def tune(
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    *,
    dtype: object = "float32",
    bias: bool | Sequence[int] = False,
    z: bool | Sequence[int] = False,
    transposed: bool = False,
    seconds: float = 10.0,
    progress: Progress | None = None,
    again: bool = False,
    **attributes: Any,
) -> Tuning:
    """Measure which variant, with which tunables, is fastest for a request on this device.

    The arguments are those of `plan`. Every later plan of the same request follows the result,
    and so do later visits of the page: it is kept in IndexedDB for this adapter and this version
    of the operator, and found there without measuring (`again` measures anyway). No new candidate
    is begun after `seconds`. `progress(done, of, measured)` is called after each.

    Convolutions that are prepared already keep the variant that they have. Nothing is measured
    for calls that pin a variant, give tunables, or do without extensions, and none of them
    follows a result. `fusedconv.tunings` has all results; it writes and reads a JSON file.
    """
    from .tuner import tune as measure

    if not isinstance(seconds, (int, float)) or not seconds >= 0:
        raise RequestError("seconds", repr(seconds), "a number, 0 or more")
    if progress is not None and not callable(progress):
        raise RequestError("progress", type(progress).__name__, "a function")
    operator, again = shipped(transposed), flag(again, "again")
    request = operator.request(x_shape, w_shape, dtype=dtype, bias=bias, z=z, **attributes)
    return await measure(operator, request, seconds, progress, again)


def array(x: Any, *, cast: bool = False) -> Coroutine[Any, Any, GpuTensor]:
    """`t = await array(x)`: copy an array to the GPU. `x` may change after the call."""
    from .transfers import array as upload

    try:
        source = source_of("x", x)
        dtype = source.dtype if source.usable else "float32"
        return upload(source.ready(dtype, flag(cast, "cast")))
    except Exception as error:
        return Call(error=error)


async def empty(shape: Sequence[int], dtype: object = "float32") -> GpuTensor:
    """A GpuTensor with anything in it, for `out=`."""
    from .transfers import empty_tensor

    sizes, name = as_shape(shape, "shape"), dtype_name(dtype)
    check_elements(shape=sizes)
    return await empty_tensor(sizes, name, math.prod(sizes) * DTYPE_BYTES[name])


async def device(
    gpu_device: Any = None,
    *,
    features: Iterable[str] | None = None,
    without: Iterable[str] = (),
    power_preference: str | None = None,
    memory_budget: int | None = None,
) -> Device:
    """The GPU device that calls use, as an owner's handle: `.capabilities`, `.close()`.

    Without arguments this is the current device, or a new one with the adapter's own limits and
    every optional feature that some variant can use. `gpu_device` adopts a GPUDevice of the
    page. `features` asks for exactly these, `without` leaves some out ("subgroups"),
    `memory_budget` is in bytes. With arguments, the device becomes the current one.

    Raises `WebGPUUnavailable` with what to do, where there is no WebGPU.
    """
    from .gpu.device import open_device

    return await open_device(
        gpu_device,
        features=features,
        without=without,
        power_preference=power_preference,
        memory_budget=memory_budget,
    )


def memory() -> MemoryReport:
    """Bytes and counts of the buffers on the current device; zeros where there is none."""
    from .gpu.device import current

    gpu = current()
    return MemoryReport() if gpu is None else gpu.memory()


def synchronize() -> Coroutine[Any, Any, None]:
    """`await synchronize()`: until the GPU has done everything that was called so far."""
    from .execution import synchronize as wait

    return wait()


def profile(on_record: Callable[[CallRecord], Any] | None = None, *, repeat: int = 1) -> Profile:
    """`with profile() as p:` collects a record of every call awaited inside, in `p.records`.

    A record has the variant, the shapes, each pass's dispatch and its time by GPU timestamps where
    the device offers them, and the wall time. Calls run one at a time meanwhile. `on_record` gets
    every record as it comes; `repeat` dispatches each pass that often and gives its mean.
    """
    return Profile(on_record, repeat=repeat)


class batch:  # noqa: N801 - used like a function
    """`async with batch():` collects the calls inside in one command encoder and submit.

    A readback inside submits what was collected before it. A GPU error of one call may fail the
    others of its batch; errors of arguments harm nobody.
    """

    def __init__(self) -> None:
        self._gpu: Gpu | None = None

    async def __aenter__(self) -> batch:
        from .gpu.device import acquire

        self._gpu = await acquire()
        self._gpu.bridge.begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        gpu = self._gpu
        assert gpu is not None
        try:
            await submitted()
        finally:
            result: int | str | Awaitable[int | str] = gpu.bridge.end()
        if isinstance(result, int):
            return
        problem = result if isinstance(result, str) else await result
        if isinstance(problem, str) and error is None:
            from .gpu.failures import error_of

            raise error_of(problem)
