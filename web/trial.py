"""Runs one convolution with random operands: how long it takes, and how exact it is."""

from __future__ import annotations

import math
import random
from array import array
from contextlib import ExitStack
from time import perf_counter
from typing import Any

import fusedconv
from fusedconv import GpuTensor, HostTensor

__all__ = ["measure"]

Shape = tuple[int, ...]

CHECK_LIMIT = 400_000_000
"""Multiplications up to which the result is compared with float64 on the processor."""
BUDGET = 1.5
"""Seconds of measuring after the first run."""


async def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Best and median milliseconds of a warm run on resident operands, and the largest error."""
    plan = fusedconv.plan(**request)
    transposed = request.get("transposed", False)
    outer = plan.operands["x"] if transposed else plan.output_shape
    work = math.prod(outer) * math.prod(plan.operands["w"][1:])
    operands = {name: operand(shape, plan.dtype) for name, shape in plan.operands.items()}
    attributes = {
        k: v for k, v in request.items() if k not in ("x_shape", "w_shape", "bias", "z", "dtype")
    }
    resident: dict[str, GpuTensor] = {}
    with ExitStack() as stack:
        for name, host in operands.items():
            resident[name] = stack.enter_context(await fusedconv.array(host))
        times, result = await timed(resident, attributes)
    return {
        "variant": plan.variant,
        "best_ms": min(times),
        "median_ms": sorted(times)[len(times) // 2],
        "runs": len(times),
        "multiplications": work,
        **compared(operands, attributes, result, work),
    }


async def timed(
    operands: dict[str, GpuTensor], attributes: dict[str, Any]
) -> tuple[list[float], Any]:
    """Milliseconds of warm runs, several in flight at a time, and the result on the host."""
    pinned = {"variant": attributes.pop("variant")} if "variant" in attributes else {}
    x, z = operands["x"], operands.get("zResidual")
    conv = await fusedconv.prepare(operands["w"], bias=operands.get("bias"), **pinned, **attributes)
    try:
        with await conv(x, z=z) as y:
            result = await y.to_host()
        times: list[float] = []
        flight, deadline = 1, perf_counter() + BUDGET
        while len(times) < 3 or (perf_counter() < deadline and len(times) < 200):
            start = perf_counter()
            for _ in range(flight):
                (await conv(x, z=z)).free()
            await fusedconv.synchronize()
            times.append(1e3 * (perf_counter() - start) / flight)
            flight = max(1, min(16, int(50 / max(times[-1], 0.1))))
    finally:
        conv.free()
    return times, result


def operand(shape: Shape, dtype: str) -> Any:
    """Values between -1 and 1: with NumPy an array, else a tensor of plain numbers."""
    count = math.prod(shape)
    try:
        import numpy as np
    except ImportError:
        values = array("f", (random.uniform(-1, 1) for _ in range(count)))
        return HostTensor(values, shape)
    return np.random.default_rng(count).uniform(-1, 1, shape).astype(dtype)


def compared(
    operands: dict[str, Any], attributes: dict[str, Any], y: Any, work: int
) -> dict[str, Any]:
    """The largest absolute difference to float64, or why it was not computed."""
    if work > CHECK_LIMIT:
        return {"unchecked": "too large to be computed again on the processor"}
    try:
        import numpy as np
    except ImportError:
        return {"unchecked": "the comparison needs NumPy, which this page runs without"}
    from fusedconv.reference import conv_transpose, fused_conv

    x, w = operands["x"], operands["w"]
    bias, z = operands.get("bias"), operands.get("zResidual")
    known = {k: v for k, v in attributes.items() if k not in ("variant", "transposed")}
    reference = conv_transpose if attributes.get("transposed") else fused_conv
    exact = reference(x, w, bias, z, **known)
    difference = float(np.abs(exact - np.asarray(y, dtype=np.float64)).max(initial=0))
    return {"max_error": difference, "largest": float(np.abs(exact).max(initial=0))}
