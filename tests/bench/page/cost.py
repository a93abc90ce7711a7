"""What planning and calling cost in Python, inside Pyodide. All times are milliseconds."""

import json
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

# Shapes that no other question of this file asks for, one of each family.
FAMILIES: list[tuple[list[int], list[int], dict[str, Any]]] = [
    ([1, 3, 224, 224], [64, 3, 7, 7], {"strides": [2, 2], "pads": [3, 3, 3, 3]}),
    ([1, 64, 56, 56], [64, 64, 3, 3], {"pads": [1, 1, 1, 1]}),
    ([1, 64, 56, 56], [256, 64, 1, 1], {}),
    ([1, 512, 7, 7], [512, 512, 3, 3], {"pads": [1, 1, 1, 1]}),
    ([1, 96, 56, 56], [96, 1, 3, 3], {"pads": [1, 1, 1, 1], "group": 96}),
    ([1, 80, 1500], [384, 80, 3], {"pads": [1, 1]}),
]


def timed(call: Callable[[], Any]) -> float:
    start = perf_counter()
    call()
    return (perf_counter() - start) * 1000


def each(call: Callable[[], Any], count: int) -> float:
    """The median of ten runs of `count` calls, for one call."""

    def many() -> None:
        for _ in range(count):
            call()

    return median(timed(many) / count for _ in range(10))


def importing() -> None:
    import fusedconv  # noqa: F401


def planning() -> dict[str, float]:
    """Of the first plan of all, of shapes that are new, and of one seen before."""
    import fusedconv

    def plan(family: int, growth: int) -> Any:
        x, w, attributes = FAMILIES[family]
        shape = [*x[:2], *(size + growth for size in x[2:])]
        return fusedconv.plan(shape, w, bias=True, activation="Relu", **attributes)

    cold = timed(lambda: plan(1, 0))
    for family in range(len(FAMILIES)):
        plan(family, 1)
    new = [(family, growth) for growth in range(2, 12) for family in range(len(FAMILIES))]
    fresh = [timed(partial(plan, *shape)) for shape in new]
    return {
        "plan, the first": cold,
        "plan, a new shape": median(fresh),
        "plan, a new shape, the slowest tenth": sorted(fresh)[-len(fresh) // 10],
        "plan, a shape seen before": each(lambda: plan(1, 2), 200),
    }


async def calling() -> dict[str, float]:
    """Of a warm call on resident operands: all that happens before it returns, and Python's share.

    Python's share is what is left when the bridge does nothing, so with the crossing.
    """
    import fusedconv

    rng = np.random.default_rng(0)
    w = rng.standard_normal((32, 32, 1, 1), np.float32)
    conv = await fusedconv.prepare(w, bias=np.zeros(32, np.float32), activation="Relu")
    x = await fusedconv.array(rng.standard_normal((1, 32, 8, 8), np.float32))

    async def calls(count: int) -> float:
        start = perf_counter()
        for _ in range(count):
            (await conv(x)).free()
        return (perf_counter() - start) * 1000 / count

    async def several() -> float:
        found = []
        for _ in range(20):
            found.append(await calls(50))
            await fusedconv.synchronize()
        return median(found)

    await several()
    whole = await several()
    gpu = conv._gpu
    real, answer = gpu.run, nothing()
    gpu.run = answer
    try:
        python = await several()
    finally:
        gpu.run = real
        gpu.garbage.clear()
    run = [await one_run(w) for _ in range(20)]
    return {
        "a warm resident call": whole,
        "a warm resident call, Python's share": python,
        "fusedconv.run from NumPy to NumPy": median(run),
    }


def nothing() -> Any:
    """A bridge's `run` that answers a buffer's id at once."""
    from pyodide.code import run_js

    return run_js("(instance, out, ...ids) => 1e9")


async def one_run(w: Any) -> float:
    import fusedconv

    x = np.ones((1, 32, 8, 8), np.float32)
    start = perf_counter()
    await fusedconv.run(x, w, activation="Relu")
    return (perf_counter() - start) * 1000


async def opening() -> float:
    """Of the device, for which the plans after it are."""
    import fusedconv

    start = perf_counter()
    await fusedconv.device()
    return (perf_counter() - start) * 1000


async def measure() -> str:
    """Everything, as JSON."""
    found = {"import": timed(importing), "device": await opening()}
    return json.dumps({**found, **planning(), **await calling()})
