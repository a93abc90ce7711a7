"""fusedconv's side of the bench, inside Pyodide: what is timed here is Python's `await conv(x)`."""

import json
from time import perf_counter
from typing import Any

import numpy as np

import fusedconv

held: Any = None


class Contender:
    """One prepared convolution with its input on the GPU and in NumPy. Times are milliseconds."""

    def __init__(self, conv: Any, x: np.ndarray, resident: Any, ranking: str, passes: str) -> None:
        self.conv = conv
        self.x = x
        self.on_gpu = resident
        self.ranking = ranking
        self.passes = passes
        plan = conv.plan(x.shape)
        self.variant = plan.variant
        self.scratch = sum(item.nbytes for item in plan.scratch)

    async def once(self, target: Any) -> None:
        """Fill a Uint8Array with the result's bytes."""
        y = await self.conv(self.x)
        target.assign(y.reshape(-1).view(np.uint8))

    async def resident(self, n: int) -> float:
        conv, x = self.conv, self.on_gpu
        start = perf_counter()
        for _ in range(n):
            (await conv(x)).free()
        await fusedconv.synchronize()
        return (perf_counter() - start) * 1000 / n

    async def batched(self, n: int) -> float:
        """Like `resident`, with all calls in one command encoder."""
        conv, x = self.conv, self.on_gpu
        start = perf_counter()
        async with fusedconv.batch():
            for _ in range(n):
                (await conv(x)).free()
        await fusedconv.synchronize()
        return (perf_counter() - start) * 1000 / n

    async def end_to_end(self) -> float:
        start = perf_counter()
        await self.conv(self.x)
        return (perf_counter() - start) * 1000

    def close(self) -> None:
        self.on_gpu.free()
        self.conv.free()


async def open_contender(x: Any, w: Any, bias: Any, settings: str) -> Contender:
    """Operands are Uint8Arrays of the bytes."""
    given = json.loads(settings)
    dtype, rank = given["dtype"], len(given["x"]) - 2
    arrays = [
        np.frombuffer(content.to_bytes(), dtype).reshape(shape)
        for content, shape in ((x, given["x"]), (w, given["w"]), (bias, [-1]))
    ]
    attributes = {
        "activation": "Relu",
        "strides": [given["stride"]] * rank,
        "pads": [given["pad"]] * 2 * rank,
        "group": given["group"],
        "transposed": given["transposed"],
    }
    if given["transposed"]:
        attributes["output_padding"] = given["output_padding"]
    ranking = ""
    if given["tune"]:
        shapes = given["x"], given["w"]
        tuning = await fusedconv.tune(
            *shapes, dtype=dtype, bias=True, seconds=60, again=True, **attributes
        )
        ranking = str(tuning)
    conv = await fusedconv.prepare(arrays[1], bias=arrays[2], **attributes)
    resident = await fusedconv.array(arrays[0])
    return Contender(conv, arrays[0], resident, ranking, await pass_times(conv, resident))


async def pass_times(conv: Any, x: Any) -> str:
    """Dispatch and milliseconds of each pass, repeated by itself."""
    (await conv(x)).free()
    with fusedconv.profile(repeat=20) as profile:
        (await conv(x)).free()
    passes = profile.records[0].passes
    return ", ".join(f"{p.name} {p.dispatch} {p.ms or 0:.4f}" for p in passes)


async def gpu_device() -> Any:
    """The GPUDevice, held as long as the page lives."""
    global held
    held = held or await fusedconv.device()
    return held.gpu_device
