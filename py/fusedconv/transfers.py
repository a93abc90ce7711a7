"""Between host and GPU: tensors from arrays, arrays from tensors, buffers of the page."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any, Literal

from .calls import Call, Turn, turns
from .errors import DeviceError, RequestError
from .gpu.buffers import (
    Storage,
    adopt,
    empty,
    finish_read,
    read_to_js,
    settle,
    start_read,
    upload,
)
from .gpu.device import Gpu, acquire, current
from .operands import HostOperand, Operand
from .tensor import GpuTensor, HostTensor, has_numpy

__all__ = ["adopt_buffer", "array", "drop", "empty_tensor", "read", "read_now", "settled", "stored"]

Kind = Literal["numpy", "host", "js"]


def stored(gpu: Gpu, operand: Operand) -> Storage:
    """A share of an operand's buffer, uploaded if need be."""
    if isinstance(operand, GpuTensor):
        storage: Storage = operand.storage
        return storage.share()
    return upload(gpu, operand.data, operand.nbytes)


def drop(storages: Iterable[Storage]) -> None:
    for storage in storages:
        storage.drop()


def array(operand: Operand) -> Call[GpuTensor]:
    """An operand as a tensor on the current device."""
    if isinstance(operand, GpuTensor):
        return Call(operand)
    try:
        gpu = current()
        if gpu is None:
            return Call.later(_array_later(operand.snapshot()))
        tensor = GpuTensor(upload(gpu, operand.data, operand.nbytes), operand.shape, operand.dtype)
        return settled(tensor)
    except Exception as error:
        return Call(error=error)


async def _array_later(operand: HostOperand) -> GpuTensor:
    gpu = await acquire()
    storage = upload(gpu, operand.data, operand.nbytes)
    return await _after(settle(storage), GpuTensor(storage, operand.shape, operand.dtype))


def settled(tensor: GpuTensor) -> Call[GpuTensor]:
    storage: Storage = tensor.storage
    if storage.gpu.bridge.settled(storage.id) == 0:
        return Call(tensor)
    return Call.later(_after(settle(storage), tensor))


async def _after(before: Awaitable[None], tensor: GpuTensor) -> GpuTensor:
    try:
        await before
    except BaseException:
        tensor.free()
        raise
    return tensor


async def empty_tensor(shape: tuple[int, ...], dtype: str, nbytes: int) -> GpuTensor:
    """A tensor with anything in it, for `out=`."""
    storage = empty(await acquire(), nbytes)
    return await _after(settle(storage), GpuTensor(storage, shape, dtype))


def adopt_buffer(buffer: Any, nbytes: int) -> Storage:
    """See `GpuTensor.from_buffer`."""
    gpu = current()
    if gpu is None:
        raise DeviceError(
            "no device to adopt the buffer on: await fusedconv.device(gpu_device) with the "
            "GPUDevice that made it first"
        )
    if not hasattr(buffer, "mapAsync"):
        raise RequestError("buffer", type(buffer).__name__, "a GPUBuffer")
    return adopt(gpu, buffer, nbytes)


def read(tensor: GpuTensor, kind: Kind) -> Call[Any]:
    """The tensor's values when everything called before has run."""
    try:
        if turns.last is None:
            return read_now(tensor, kind)
        storage: Storage = tensor.storage
        kept = GpuTensor(storage.share(), tensor.shape, tensor.dtype)
        return Call.later(_read_later(kept, kind, turns.take()))
    except Exception as error:
        return Call(error=error)


async def _read_later(tensor: GpuTensor, kind: Kind, turn: Turn) -> Any:
    try:
        await turn.wait()
        call = read_now(tensor, kind)
    finally:
        turn.end()
        tensor.free()
    return await call


def read_now(tensor: GpuTensor, kind: Kind) -> Call[Any]:
    if kind == "numpy" and not has_numpy():
        raise RequestError("t", "no NumPy to be found", "await t.to_host(), or NumPy loaded")
    storage: Storage = tensor.storage
    gpu = storage.gpu
    shape, dtype, nbytes = tensor.shape, tensor.dtype, tensor.nbytes
    ticket = start_read(storage, nbytes)
    steps: Coroutine[Any, Any, Any]
    if kind == "js":
        steps = read_to_js(gpu, ticket, dtype == "float16")
    else:
        steps = _to_host(gpu, ticket, shape, dtype, nbytes, kind)
    return Call.later(steps)


async def _to_host(
    gpu: Gpu, ticket: int, shape: tuple[int, ...], dtype: str, nbytes: int, kind: Kind
) -> Any:
    if kind == "host":
        data = bytearray(nbytes)
        await finish_read(gpu, ticket, data)
        return HostTensor(data, shape, dtype)
    import numpy as np

    values = np.empty(nbytes, np.uint8)
    await finish_read(gpu, ticket, values)
    return values.view(dtype).reshape(shape)
