"""Plans handed to the bridge once, compiled, and kept while they are in use."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from ..calls import kept
from ..plan import DTYPE_BYTES, Binding, Copy, Plan
from .failures import error_of

if TYPE_CHECKING:
    from .bridge import Bridge
    from .device import Gpu

__all__ = ["Group", "Instance", "Kernel", "Kernels", "plan_to_json"]

# Plans that nothing prepared holds, kept for when their shapes come again.
KEPT = 512


class Kernel:
    """A plan on a device. `id` is 0 until it is compiled, and again once it is forgotten."""

    __slots__ = ("bridge", "id", "nbytes", "pins", "plan", "text")

    def __init__(self, bridge: Bridge, plan: Plan, text: str) -> None:
        self.bridge = bridge
        self.plan = plan
        self.text = text
        self.nbytes = plan.output_nbytes
        self.id = 0
        # Who needs it compiled: prepared operators, and calls under way.
        self.pins = 0

    async def compile(self) -> None:
        """Compile all passes at once, if need be; raises `ShaderError` naming the template."""
        if self.id:
            return
        self.pins += 1
        try:
            result = await kept(self.bridge.compile(self.text), self._unwanted)
        finally:
            self.pins -= 1
        if isinstance(result, str):
            raise error_of(result)
        if self.id:  # another call was faster
            self.bridge.forget(result)
        else:
            self.id = result

    def _unwanted(self, result: int | str) -> None:
        if isinstance(result, int):
            self.bridge.forget(result)


class Group:
    """What one prepared operator keeps: closed when neither it nor a call under way is left."""

    __slots__ = ("gpu", "id")

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.id = gpu.bridge.openGroup()

    def __del__(self) -> None:
        # May run in the middle of anything, so the bridge is not called here.
        self.gpu.dead_groups.append(self.id)


class Instance:
    """A kernel for one prepared operator: keeps what the `once` passes made of its weights."""

    __slots__ = ("group", "id", "kernel", "nbytes", "plan")

    def __init__(self, kernel: Kernel, group: Group) -> None:
        self.kernel = kernel
        self.group = group
        self.plan = kernel.plan
        self.nbytes = kernel.nbytes
        self.id = 0
        kernel.pins += 1

    def __del__(self) -> None:
        self.kernel.pins -= 1

    def take(self, kernel: Kernel) -> None:
        """Be an instance of another kernel of the same request; before it is compiled."""
        kernel.pins += 1
        self.kernel.pins -= 1
        self.kernel, self.plan, self.nbytes = kernel, kernel.plan, kernel.nbytes

    async def compile(self) -> None:
        await self.kernel.compile()
        if not self.id:
            self.id = self.kernel.bridge.instantiate(self.kernel.id, self.group.id)


class Kernels:
    """The kernels of one device: equal plans share one, the least used go first."""

    def __init__(self, bridge: Bridge, kept: int = KEPT) -> None:
        self.bridge = bridge
        self.kept = kept
        self._by_text: OrderedDict[str, Kernel] = OrderedDict()
        # Requests that were seen, by operator, shapes and attributes.
        self.seen: dict[object, Kernel] = {}

    def of(self, plan: Plan) -> Kernel:
        """The kernel of a plan, compiled or not yet."""
        text = plan_to_json(plan)
        kernel = self._by_text.get(text)
        if kernel is None:
            kernel = self._by_text[text] = Kernel(self.bridge, plan, text)
            self._evict()
        else:
            self._by_text.move_to_end(text)
        return kernel

    def remember(self, key: object, kernel: Kernel) -> None:
        """Have `seen` answer for a request from now on."""
        if len(self.seen) >= 8 * self.kept:
            self.seen.clear()
        self.seen[key] = kernel

    def _evict(self) -> None:
        spare = len(self._by_text) - self.kept
        for text in [t for t, k in self._by_text.items() if k.pins == 0][: max(spare, 0)]:
            kernel = self._by_text.pop(text)
            if kernel.id:
                self.bridge.forget(kernel.id)
                kernel.id = 0


def multiply_adds(plan: Plan) -> int:
    """About how many a run takes: every weight meets every position of the smaller tensor."""
    tensors = (plan.operands["x"], plan.output_shape)
    positions = min(shape[0] * math.prod(shape[2:]) for shape in tensors)
    return positions * math.prod(plan.operands.get("w", ()))


def plan_to_json(plan: Plan) -> str:
    """A plan as the bridge reads it: slot 0 is the output, then operands, then scratch."""
    size = DTYPE_BYTES[plan.dtype]
    slots = {name: 1 + i for i, name in enumerate(plan.operands)}
    scratch = {item.id: 1 + len(slots) + i for i, item in enumerate(plan.scratch)}

    def binding(b: Binding) -> dict[str, Any]:
        entry: dict[str, Any] = {"index": b.index, "buffer": b.buffer}
        if b.uniform is not None:
            return entry | {"uniform": b.uniform.hex()}
        return entry | {"slot": scratch[b.scratch] if b.scratch else slots.get(b.operand or "", 0)}

    def copy(c: Copy) -> tuple[int, ...]:
        places = {**slots, **scratch}
        source, target = places.get(c.source, 0), places.get(c.target, 0)
        return source, c.source_offset, target, c.target_offset, c.nbytes

    data = {
        # Two plans that differ in shapes alone are two kernels, for their results differ.
        "shapes": [plan.operator, plan.variant, *plan.operands.values(), plan.output_shape],
        "slots": [
            plan.output_nbytes,
            *(size * math.prod(shape) for shape in plan.operands.values()),
            *(item.nbytes for item in plan.scratch),
        ],
        "operands": len(slots),
        "work": multiply_adds(plan),
        "once": [scratch[item.id] for item in plan.scratch if item.once],
        "passes": [
            {
                "name": item.name,
                "template": item.template,
                "wgsl": item.wgsl,
                "dispatch": item.dispatch,
                "once": item.once,
                "bindings": [binding(b) for b in item.bindings],
                "before": [copy(c) for c in item.before],
                "after": [copy(c) for c in item.after],
            }
            for item in plan.passes
        ],
    }
    return json.dumps(data)
