"""Buffers on a device as Python holds them: uploaded, read back, given to the pool when done."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from ..calls import kept
from .device import Gpu
from .failures import error_of

__all__ = ["Storage", "adopt", "download", "empty", "promised", "settle", "to_js", "upload"]


class Storage:
    """A buffer's id and how many tensors and calls under way share it."""

    __slots__ = ("adopted", "gpu", "id", "shares")

    def __init__(self, gpu: Gpu, buffer_id: int) -> None:
        self.adopted = False
        self.gpu = gpu
        self.id = buffer_id
        self.shares = 1
        gpu.live += 1

    def is_on(self, other: Storage) -> bool:
        """Whether both are the same memory; an adopted buffer may be another tensor's."""
        if self is other or not (self.adopted or other.adopted):
            return self is other
        return bool(self.gpu.bridge.same(self.id, other.id))

    def share(self) -> Storage:
        """Take a share, to be given back with `drop`."""
        self.shares += 1
        return self

    def drop(self) -> None:
        """Give a share back; with the last one the buffer goes to the pool."""
        self.shares -= 1
        if self.shares == 0:
            self.__del__()

    def __del__(self) -> None:
        # May run in the middle of anything, so the bridge is not called here.
        if self.id:
            self.gpu.garbage.append(self.id)
            self.gpu.live -= 1
            self.id = 0


def _storage(gpu: Gpu, result: int | str, argument: str = "buffer") -> Storage:
    if isinstance(result, str):
        raise error_of(result, argument)
    return Storage(gpu, result)


def upload(gpu: Gpu, source: Any, nbytes: int) -> Storage:
    """A buffer with a copy of `source`: contiguous bytes, or a JS typed array.

    The copy is made before this returns. Whether the memory could be had is known only after
    `settle`, or with the result of a run that reads the buffer.
    """
    gpu.collect()
    return _storage(gpu, gpu.bridge.upload(source, nbytes))


def empty(gpu: Gpu, nbytes: int) -> Storage:
    """A buffer with anything in it."""
    gpu.collect()
    return _storage(gpu, gpu.bridge.empty(nbytes))


def adopt(gpu: Gpu, buffer: Any, nbytes: int) -> Storage:
    """Somebody else's GPUBuffer; it is never pooled or destroyed."""
    storage = _storage(gpu, gpu.bridge.adopt(buffer, nbytes))
    storage.adopted = True
    return storage


async def settle(storage: Storage) -> None:
    """Wait until it is known that the buffer exists; raises `OutOfMemory`."""
    result = storage.gpu.bridge.settled(storage.id)
    if not isinstance(result, int):
        problem = await result
        if isinstance(problem, str):
            raise error_of(problem)


async def promised(gpu: Gpu, promise: Awaitable[int | str], mine: bool = True) -> int:
    """The buffer's id that a run promised; given back, if `mine`, once nobody waits for it."""

    def unwanted(result: int | str) -> None:
        if mine and isinstance(result, int):
            gpu.garbage.append(result)

    result = await kept(promise, unwanted)
    if isinstance(result, str):
        raise error_of(result)
    return result


def start_read(storage: Storage, nbytes: int) -> int:
    """Have the GPU copy the buffer's present contents; a ticket to end the read with."""
    storage.gpu.collect()
    ticket = storage.gpu.bridge.read(storage.id, nbytes)
    if isinstance(ticket, str):
        raise error_of(ticket, "t")
    return ticket


async def finish_read(gpu: Gpu, ticket: int, target: Any) -> None:
    """Wait for a read and copy it to a writable buffer of exactly its bytes."""
    try:
        await _mapped(gpu, ticket)
        gpu.bridge.copyOut(ticket, target)
    except BaseException:
        gpu.bridge.abandon(ticket)
        raise


async def read_to_js(gpu: Gpu, ticket: int, half: bool) -> Any:
    """Wait for a read and give it as a JS typed array."""
    try:
        await _mapped(gpu, ticket)
        return gpu.bridge.toJs(ticket, half)
    except BaseException:
        gpu.bridge.abandon(ticket)
        raise


async def _mapped(gpu: Gpu, ticket: int) -> None:
    problem = await gpu.bridge.mapped(ticket)
    if isinstance(problem, str):
        raise error_of(problem)


async def download(storage: Storage, nbytes: int, target: Any) -> None:
    """Read a buffer into `target`."""
    await finish_read(storage.gpu, start_read(storage, nbytes), target)


async def to_js(storage: Storage, nbytes: int, half: bool) -> Any:
    """Read a buffer into a typed array: a Float32Array, or a Uint16Array of halves."""
    return await read_to_js(storage.gpu, start_read(storage, nbytes), half)
