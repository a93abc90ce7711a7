"""From operands to a result: plan, upload, submit, and read back where the caller wants that.

A call does at once what it can: operands are checked and copied before it returns, and a call
that finds its pipelines compiled is submitted, in one crossing to JavaScript. The rest waits in
the order of the calls.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from .calls import Call, Turn, kept, submitted, turns
from .errors import ManifestError, RequestError
from .gpu.buffers import Storage, promised
from .gpu.device import Gpu, acquire, current
from .gpu.failures import error_of
from .operands import HostOperand, Operand
from .plan import Plan
from .profiling import Profile, active_profiles
from .tensor import GpuTensor, has_numpy
from .transfers import drop, read_now, stored

__all__ = ["Invocation", "Target", "check_order", "checked_out", "synchronize"]


class Target(Protocol):
    """What runs: a kernel, or a prepared operator's instance of one. `id` is 0 until compiled."""

    id: int
    plan: Plan
    nbytes: int

    async def compile(self) -> None: ...


def check_order(plan: Plan) -> None:
    """The bridge gets operands by position; `Invocation` orders them x, w, bias, z."""
    order = [name for name in ("x", "w", "bias", "zResidual") if name in plan.operands]
    if list(plan.operands) != order:
        raise ManifestError("inputs", f"operands in the order {list(plan.operands)}, not {order}")


def checked_out(out: Any) -> GpuTensor | None:
    """The caller's `out=`, which must be a tensor."""
    if out is not None and not isinstance(out, GpuTensor):
        raise RequestError("out", type(out).__name__, "a GpuTensor (fusedconv.empty makes one)")
    if out is not None and out.freed:
        raise RequestError("out", f"a freed {out!r}", "a tensor that is not freed")
    return out


class Invocation:
    """One call of an operator."""

    __slots__ = ("gpu", "host", "operands", "out", "target_of")

    def __init__(
        self,
        target_of: Callable[[Gpu], Target],
        operands: Mapping[str, Operand],
        out: GpuTensor | None = None,
        gpu: Gpu | None = None,
    ) -> None:
        """`operands` are in the order of the plan's."""
        self.target_of = target_of
        self.operands = operands
        self.out = out
        self.host = out is None and not isinstance(operands["x"], GpuTensor)
        self.gpu = gpu

    def start(self) -> Call[Any]:
        """Begin the call; its errors are raised where it is awaited."""
        try:
            gpu = self.device()
            if gpu is None:
                operands = [o.snapshot() if isinstance(o, HostOperand) else o
                            for o in self.operands.values()]  # fmt: skip
                return self.later(None, None, operands)
            target = self.target_of(gpu)
            if self.out is not None:
                self.check_out(target, gpu)
            if not target.id or turns.last is not None or active_profiles:
                return self.later(gpu, target, self.uploaded(gpu))
            return self.now(gpu, target)
        except Exception as error:
            return Call(error=error)

    def device(self) -> Gpu | None:
        """The device of the resident operands, which must agree, else the current one."""
        gpu = self.gpu
        given: Iterable[tuple[str, Any]] = self.operands.items()
        if self.out is not None:
            given = [*given, ("out", self.out)]
        for name, operand in given:
            if isinstance(operand, GpuTensor):
                own: Gpu = operand.storage.gpu
                if gpu is None:
                    gpu = own
                elif own is not gpu:
                    raise RequestError(
                        name, "a GpuTensor of another device", "tensors of one device"
                    )
        return current() if gpu is None else gpu

    def check_out(self, target: Target, gpu: Gpu) -> None:
        """`out` must be what the result is, and none of the operands."""
        out, plan = self.out, target.plan
        assert out is not None
        if out.shape != plan.output_shape or out.dtype != plan.dtype:
            raise RequestError(
                "out", repr(out), f"a GpuTensor of shape {plan.output_shape}, {plan.dtype}"
            )
        for name, operand in self.operands.items():
            if isinstance(operand, GpuTensor) and operand.storage.is_on(out.storage):
                raise RequestError("out", f"the memory of {name}", "memory that no operand uses")

    def uploaded(self, gpu: Gpu) -> list[Storage]:
        """Every operand on the device, each with a share of this call's own."""
        storages: list[Storage] = []
        try:
            storages.extend(stored(gpu, operand) for operand in self.operands.values())
        except BaseException:
            drop(storages)
            raise
        return storages

    def now(self, gpu: Gpu, target: Target) -> Call[Any]:
        # Resident operands are not shared as in `uploaded`: nothing can free them meanwhile.
        ids, uploads = [], []
        try:
            for operand in self.operands.values():
                if isinstance(operand, GpuTensor):
                    ids.append(operand.storage.id)
                else:
                    uploads.append(stored(gpu, operand))
                    ids.append(uploads[-1].id)
            result = self.submit(gpu, target, ids)
        finally:
            drop(uploads)
        if isinstance(result, int):
            return self.finished(gpu, target, result)
        return Call.later(self.finish_later(gpu, target, result))

    def submit(self, gpu: Gpu, target: Target, ids: Iterable[int]) -> int | Awaitable[int | str]:
        out = self.out.storage.id if self.out is not None else 0
        result = gpu.run(target.id, out, *ids, *gpu.take_garbage())
        if isinstance(result, str):
            raise error_of(result)
        return result

    def finished(self, gpu: Gpu, target: Target, buffer: int) -> Call[Any]:
        """The result of a submitted call: resident, or with its readback begun."""
        plan = target.plan
        if self.out is not None:
            return Call(self.out)
        tensor = GpuTensor(Storage(gpu, buffer), plan.output_shape, plan.dtype)
        if not self.host:
            return Call(tensor)
        try:
            return read_now(tensor, "numpy" if has_numpy() else "host")
        finally:
            tensor.free()

    async def finish_later(self, gpu: Gpu, target: Target, promise: Awaitable[int | str]) -> Any:
        return await self.finished(gpu, target, await promised(gpu, promise, self.out is None))

    def later(self, gpu: Gpu | None, target: Target | None, operands: list[Any]) -> Call[Any]:
        """The call, for when its device and pipelines are there and its turn has come."""
        out = None if self.out is None else self.out.storage.share()
        return Call.later(self.steps(gpu, target, operands, turns.take(), out))

    async def steps(
        self,
        gpu: Gpu | None,
        target: Target | None,
        operands: list[Any],
        turn: Turn,
        out: Storage | None,
    ) -> Any:
        try:
            if gpu is None:
                gpu = await acquire()
                target = self.target_of(gpu)
                operands = [stored(gpu, operand) for operand in operands]
            assert target is not None
            await target.compile()
            await turn.wait()
            # Nothing is awaited between the compilation and the submission.
            while not target.id:
                await target.compile()
            if active_profiles:
                return await self.profiled(gpu, target, operands)
            result = self.submit(gpu, target, [operand.id for operand in operands])
        finally:
            turn.end()
            drop(o for o in operands if isinstance(o, Storage))
            if out is not None:
                out.drop()
        if not isinstance(result, int):
            result = await promised(gpu, result, self.out is None)
        return await self.finished(gpu, target, result)

    async def profiled(self, gpu: Gpu, target: Target, storages: list[Storage]) -> Any:
        profile: Profile = active_profiles[-1]
        out = self.out.storage.id if self.out is not None else 0
        ids = [s.id for s in storages]
        promise = gpu.bridge.profile(target.id, profile.repeat, out, *ids, *gpu.take_garbage())
        text = await kept(promise, lambda text: None if out else give_back(gpu, text))
        if '"kind"' in text:
            raise error_of(text)
        try:
            buffer = profile.add(target.plan, text)
        except BaseException:  # of the caller's own function
            if not out:
                give_back(gpu, text)
            raise
        return await self.finished(gpu, target, buffer)


def give_back(gpu: Gpu, text: str) -> None:
    """Release the output of a profiled call, which nobody wants."""
    if '"kind"' not in text:
        gpu.garbage.append(json.loads(text)["out"])


async def synchronize() -> None:
    """Wait until the GPU has done everything that was called so far."""
    await submitted()
    gpu = current()
    if gpu is not None:
        problem = await gpu.bridge.synchronize()
        if isinstance(problem, str):
            raise error_of(problem)
