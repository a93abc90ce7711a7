"""GPU devices: requested or adopted, shared by everything that runs, closed by their last owner."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from .. import capabilities as planning
from ..capabilities import Capabilities
from ..errors import DeviceLost, RequestError
from ..memory import MemoryReport
from .bridge import Bridge, opener
from .failures import error_of
from .findings import recall
from .pipelines import Kernels

__all__ = ["OPTIONAL_FEATURES", "Device", "Gpu", "acquire", "current", "open_device"]

# What some variant or the profile can use.
OPTIONAL_FEATURES = (
    "shader-f16",
    "subgroups",
    "subgroup-size-control",
    "chromium-experimental-subgroup-matrix",
    "timestamp-query",
)
# Features that bring subgroups with them.
_ON_SUBGROUPS = ("subgroup-size-control", "chromium-experimental-subgroup-matrix")
_POWER = ("", "low-power", "high-performance")


class Gpu:
    """One GPUDevice with its bridge, and what Python has in it."""

    def __init__(self, bridge: Bridge, owned: bool, without: Iterable[str]) -> None:
        self.bridge = bridge
        self.run: Callable[..., int | str | Awaitable[int | str]] = bridge.run
        self.owned = owned
        self.capabilities = describe(bridge.describe(), frozenset(without))
        # Ids that nobody holds any more. Finalizers may run anywhere, so they only append here.
        self.garbage: list[int] = []
        self.dead_groups: list[int] = []
        self.kernels = Kernels(bridge)
        self.live = 0
        self.claims = 0
        self.closed = False

    @property
    def lost(self) -> str:
        """Why the device was lost; empty while it is there."""
        return "it was closed" if self.closed else self.bridge.lost()

    def take_garbage(self) -> list[int]:
        """The ids to release, which the caller must hand to the bridge."""
        garbage, self.garbage = self.garbage, []
        return garbage

    def collect(self) -> None:
        """Give buffers that nobody holds back to the pool."""
        if self.garbage:
            self.bridge.release(*self.take_garbage())
        while self.dead_groups:
            self.bridge.closeGroup(self.dead_groups.pop())

    def close_if_unused(self) -> None:
        """Close once no owner and no tensor is left."""
        if not self.closed and self.claims <= 0 and self.live == 0:
            self.collect()
            self.closed = True
            self.bridge.close()

    def memory(self) -> MemoryReport:
        self.collect()
        return MemoryReport.from_json(self.bridge.memory())


def describe(text: str, without: frozenset[str]) -> Capabilities:
    """The bridge's description of a device, less the features that are not to be used."""
    data = json.loads(text)
    features = frozenset(data["features"]) - without
    matrices = "chromium-experimental-subgroup-matrix" in features
    return Capabilities(
        features=features,
        limits=data["limits"],
        adapter_info=data["adapterInfo"],
        subgroup_matrix_configs=data["subgroupMatrixConfigs"] if matrices else (),
    )


class Device:
    """One owner's hold on a GPU device, from `fusedconv.device`; a context manager that closes.

    Closing ends this owner's hold alone: other owners and live tensors keep the device, and an
    adopted GPUDevice is never destroyed.
    """

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._open = True
        gpu.claims += 1

    @property
    def capabilities(self) -> Capabilities:
        """Features, limits and adapter facts, as planning uses them."""
        return self._gpu.capabilities

    @property
    def info(self) -> Mapping[str, Any]:
        """GPUAdapterInfo: vendor, architecture, subgroupMinSize, ..."""
        return self._gpu.capabilities.adapter_info

    @property
    def gpu_device(self) -> Any:
        """The GPUDevice itself, to share with other code of the page."""
        return self._gpu.bridge.device()

    @property
    def lost(self) -> bool:
        """Whether the device is gone; a new one is then made by the next call, if it was ours."""
        return bool(self._gpu.lost)

    def memory(self) -> MemoryReport:
        """Bytes and counts of the buffers on this device."""
        return self._gpu.memory()

    def trim(self, nbytes: int = 0) -> None:
        """Destroy idle buffers until at most `nbytes` of them are pooled."""
        if not isinstance(nbytes, (int, float)) or not nbytes >= 0:
            raise RequestError("nbytes", repr(nbytes), "a number of bytes, 0 or more")
        self._gpu.collect()
        self._gpu.bridge.trim(nbytes)

    def close(self) -> None:
        """End this hold; a second time does nothing."""
        if not self._open:
            return
        self._open = False
        self._gpu.claims -= 1
        if self._gpu.claims == 0:
            retire(self._gpu)

    def __enter__(self) -> Device:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        info = " ".join(str(self.info[k]) for k in ("vendor", "architecture") if self.info.get(k))
        state = "closed" if not self._open else "lost" if self.lost else "open"
        return f"<fusedconv.Device {info or 'of unknown make'}, {state}>"


_current: Gpu | None = None
_opening: asyncio.Future[Gpu] | None = None
_retired: list[Gpu] = []


def current() -> Gpu | None:
    """The device that calls without resident operands use, if there is one that works.

    Raises `DeviceLost` where it was adopted and is lost: only its owner can make another.
    """
    sweep()
    if _current is None or not _current.lost:
        return _current
    if not _current.owned:
        raise DeviceLost(
            f"the adopted GPU device was lost ({_current.lost}); adopt another with "
            "fusedconv.device(gpu_device), or call fusedconv.device() for one of our own"
        )
    return None


async def acquire() -> Gpu:
    """The current device, or a new one with everything that a variant can use."""
    global _opening
    gpu = current()
    if gpu is not None:
        return gpu
    if _opening is None:
        _opening = asyncio.ensure_future(_open_default())
        _opening.add_done_callback(_opened)
    return await asyncio.shield(_opening)


async def _open_default() -> Gpu:
    return make_current(await _open_gpu(None, OPTIONAL_FEATURES, (), (), None, None))


def _opened(_: asyncio.Future[Gpu]) -> None:
    global _opening
    _opening = None


async def open_device(
    gpu_device: Any = None,
    *,
    features: Iterable[str] | None = None,
    without: Iterable[str] = (),
    power_preference: str | None = None,
    memory_budget: int | None = None,
) -> Device:
    """See `fusedconv.device`."""
    without = names(without, "without")
    if "subgroups" in without:
        without += _ON_SUBGROUPS
    if memory_budget is not None and not (
        isinstance(memory_budget, (int, float))
        and not isinstance(memory_budget, bool)
        and 0 < memory_budget < math.inf
    ):
        raise RequestError("memory_budget", repr(memory_budget), "a number of bytes over 0")
    if power_preference is not None and str(power_preference) not in _POWER:
        raise RequestError("power_preference", repr(power_preference), ", ".join(_POWER[1:]))
    given = gpu_device is not None or features is not None or power_preference is not None
    if not (given or without):
        gpu = await acquire() if _current is None or _current.owned else await _fresh_if_lost()
        if memory_budget is not None:
            gpu.bridge.setBudget(memory_budget)
        return Device(gpu)
    if gpu_device is not None and not hasattr(gpu_device, "createComputePipelineAsync"):
        raise RequestError("gpu_device", type(gpu_device).__name__, "a GPUDevice")
    required = () if features is None else names(features, "features")
    wanted = OPTIONAL_FEATURES if features is None else required
    gpu = await _open_gpu(gpu_device, wanted, required, without, power_preference, memory_budget)
    return Device(make_current(gpu))


async def _fresh_if_lost() -> Gpu:
    try:
        return await acquire()
    except DeviceLost:
        return await _open_default()


def names(given: Iterable[str], argument: str) -> tuple[str, ...]:
    """Feature names; one alone may stand for a sequence of one."""
    try:
        result = (given,) if isinstance(given, str) else tuple(given)
    except TypeError:
        raise RequestError(argument, repr(given), "names of WebGPU features") from None
    for name in result:
        if not isinstance(name, str):
            raise RequestError(argument, repr(name), "names of WebGPU features")
    return result


async def _open_gpu(
    gpu_device: Any,
    features: Iterable[str],
    required: Iterable[str],
    without: Iterable[str],
    power_preference: str | None,
    budget: int | None,
) -> Gpu:
    without = tuple(without)
    options = {
        "features": [name for name in features if name not in without],
        "required": list(required),
        "powerPreference": power_preference,
        "budget": budget,
    }
    opening = opener()(json.dumps(options), gpu_device)
    await recall()
    bridge = await opening
    if isinstance(bridge, str):
        raise error_of(bridge)
    return Gpu(bridge, gpu_device is None, without)


def make_current(gpu: Gpu) -> Gpu:
    """Make this the device of later calls; the one before closes once nobody uses it."""
    global _current
    before, _current = _current, gpu
    planning.set_current(gpu.capabilities)
    if before is not None and before is not gpu and before.claims == 0:
        retire(before)
    return gpu


def retire(gpu: Gpu) -> None:
    """Close a device that no owner holds, now or when its last tensor goes."""
    global _current
    if gpu is _current:
        _current = None
        planning.set_current(None)
    _retired.append(gpu)
    sweep()


def sweep() -> None:
    """Close the retired devices that nothing uses any more."""
    if _retired:
        for gpu in _retired:
            gpu.close_if_unused()
        _retired[:] = [gpu for gpu in _retired if not gpu.closed]
