"""Measures how fast each eligible variant is on this device, and has the fastest remembered."""

from __future__ import annotations

import array as arrays
import json
import math
import random
import time
from collections.abc import Mapping
from typing import Any

from .errors import DeviceLost, FusedConvError, UnsupportedError
from .execution import check_order
from .gpu.bridge import script
from .gpu.buffers import Storage, empty, settle, to_js, upload
from .gpu.device import Gpu, acquire
from .gpu.failures import error_of
from .gpu.findings import forget, remember
from .gpu.pipelines import Group, Instance
from .operator import Operator
from .plan import DTYPE_BYTES, Plan
from .request import Request
from .tuning import (
    Candidate,
    Measured,
    Progress,
    Tuning,
    candidates,
    found_for,
    key_of,
    plan_digest,
)

__all__ = ["SECONDS", "tune"]

SECONDS = 10.0
"""No candidate is begun after that long, unless asked for otherwise."""
SLOW = 4.0
"""A first run this many times the best so far ends a candidate's trial."""
CLOSE = 1.3
"""Candidates within this factor of the best are measured again, in turn."""
ROUNDS = 4
ENOUGH = 0.97
"""What would run anyway is replaced by what takes at most this share of its time."""
APART = {"float32": 1e-3, "float16": 5e-2}
"""A result this far from that of what would run anyway, as a share of the largest, is wrong."""
WARM_MS = 50.0
"""Work before a candidate is timed: GPUs lower their clocks while it is compiled."""
TOGETHER_MS = 15.0
"""Runs are repeated for about this long: browsers round timestamps to 0.1 ms."""
MOST_RUNS = 500


async def tune(
    operator: Operator,
    request: Request,
    seconds: float = SECONDS,
    progress: Progress | None = None,
    again: bool = False,
    gpu: Gpu | None = None,
) -> Tuning:
    """See `fusedconv.tune`; on the current device where none is given."""
    gpu = gpu or await acquire()
    key = key_of(operator, request, gpu.capabilities)
    found = found_for(operator, request, gpu.capabilities)
    if found is not None and not again and operator.tuned(request, gpu.capabilities):
        return found
    if found is not None:
        await forget(key)
    offered = candidates(operator, request, gpu.capabilities)
    if not offered or 0 in request.output_shape:
        # Nothing to measure; planning says why where nothing serves.
        plan = operator.plan_request(request, gpu.capabilities)
        return Tuning(
            key, plan.variant, {}, 0.0, plan_digest(plan), (Measured(plan.variant, {}, 0.0),)
        )
    with Trials(gpu, operator, request) as trials:
        await trials.measure_all(offered, seconds, progress)
        winner = await trials.winner()
    tuning = Tuning(
        key,
        winner.candidate.variant,
        winner.candidate.tunables,
        winner.ms,
        plan_digest(winner.plan),
        tuple(trials.measured()),
    )
    await remember(tuning)
    return tuning


class Trial:
    """A candidate that runs: its plan, what is compiled of it, and its best time."""

    def __init__(self, candidate: Candidate, plan: Plan, instance: Instance) -> None:
        self.candidate = candidate
        self.plan = plan
        self.instance = instance
        self.ms = math.inf


class Trials:
    """All candidates for a request, on operands of its shapes."""

    def __init__(self, gpu: Gpu, operator: Operator, request: Request) -> None:
        self.gpu = gpu
        self.operator = operator
        self.request = request
        self.running: list[Trial] = []
        self.failed: list[Measured] = []
        self.operands = [
            upload(gpu, noise(shape, request.dtype), math.prod(shape) * DTYPE_BYTES[request.dtype])
            for shape in request.shapes.values()
        ]
        self.nbytes = math.prod(request.output_shape) * DTYPE_BYTES[request.dtype]
        self.out: Storage = empty(gpu, self.nbytes)

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        for storage in (*self.operands, self.out):
            storage.drop()
        for trial in self.running:
            # The group goes with its last instance, and with it what its `once` passes made.
            del trial.instance
        self.gpu.collect()
        self.gpu.bridge.trim(0)

    async def measure_all(
        self, offered: list[Candidate], seconds: float, progress: Progress | None
    ) -> None:
        """Each candidate once, then the best ones again in turn."""
        await settle(self.out)
        plans: set[str] = set()
        begin = time.perf_counter()
        for i, candidate in enumerate(offered):
            if i and time.perf_counter() - begin > seconds:
                break
            measured = await self.first(candidate, plans)
            if progress is not None and measured is not None:
                progress(i + 1, len(offered), measured)
        if not self.running:
            notes = "; ".join(f"{item.variant}: {item.note}" for item in self.failed)
            raise UnsupportedError(f"none of the eligible variants runs on this device: {notes}")
        best = min(trial.ms for trial in self.running)
        close = [trial for trial in self.running if trial.ms <= CLOSE * best]
        for _ in range(ROUNDS if len(close) > 1 else 0):
            for trial in close:
                trial.ms = min(trial.ms, await self.time(trial, runs_for(trial.ms)))

    async def first(self, candidate: Candidate, plans: set[str]) -> Measured | None:
        """Compile and time a candidate; None where it is another one under a different name."""
        try:
            plan = self.operator.plan_request(
                self.request, self.gpu.capabilities, True, candidate.tunables, candidate.variant
            )
            same = plan_digest(plan)
            if same in plans:
                return None
            plans.add(same)
            check_order(plan)
            instance = Instance(self.gpu.kernels.of(plan), Group(self.gpu))
            await instance.compile()
            trial = Trial(candidate, plan, instance)
            trial.ms = await self.time(trial, 1)  # with the passes that run once
            known = self.running[0] if self.running else trial
            await self.time(known, runs_for(known.ms, WARM_MS))
            trial.ms = await self.time(trial, 1)
            best = min((other.ms for other in self.running), default=math.inf)
            if trial.ms <= SLOW * best:
                trial.ms = await self.time(trial, runs_for(trial.ms))
        except DeviceLost:
            raise
        except FusedConvError as error:
            note = str(error).partition("\n")[0]
            self.failed.append(Measured(candidate.variant, candidate.tunables, None, note))
            return self.failed[-1]
        self.running.append(trial)
        return Measured(candidate.variant, candidate.tunables, trial.ms)

    async def time(self, trial: Trial, runs: int) -> float:
        """Milliseconds of one run, the mean of several."""
        ids = [storage.id for storage in self.operands]
        gpu = self.gpu
        text = await gpu.bridge.measure(
            trial.instance.id, runs, self.out.id, *ids, *gpu.take_garbage()
        )
        if '"kind"' in text:
            raise error_of(text)
        report: Mapping[str, Any] = json.loads(text)
        times = report["passes"]
        # A timestamp of 0.1 ms steps may show nothing.
        return float(times[0]) if times and times[0] > 0 else float(report["wall"]) / runs

    async def winner(self) -> Trial:
        """The fastest that is right, if it is clearly faster than what would run anyway."""
        first = self.running[0]
        fast = [trial for trial in self.running if trial.ms <= ENOUGH * first.ms]
        for trial in sorted(fast, key=lambda trial: trial.ms):
            apart = await self.apart(trial, first)
            if apart <= APART[self.request.dtype]:
                return trial
            self.running.remove(trial)
            note = f"wrong: {apart:.1g} of the largest value from {first.candidate}"
            wrong = trial.candidate
            self.failed.append(Measured(wrong.variant, wrong.tunables, None, note))
        return first

    async def apart(self, trial: Trial, other: Trial) -> float:
        """How far the results of two are apart, as a share of the largest value."""
        results = []
        for each in (trial, other):
            await self.time(each, 1)
            results.append(await to_js(self.out, self.nbytes, self.request.dtype == "float16"))
        return float(script("compare")(*results))

    def measured(self) -> list[Measured]:
        """What would run anyway, then everything else."""
        return [
            *(Measured(t.candidate.variant, t.candidate.tunables, t.ms) for t in self.running),
            *self.failed,
        ]


def runs_for(ms: float, together: float = TOGETHER_MS) -> int:
    """How many runs of `ms` milliseconds take about as long together."""
    return max(1, min(MOST_RUNS, math.ceil(together / max(ms, 1e-3))))


def noise(shape: tuple[int, ...], dtype: str) -> memoryview:
    """Operands to measure with: no zeros or subnormals, on which some devices differ."""
    source = random.Random(0)
    block = arrays.array("f", (source.uniform(-1, 1) for _ in range(4096)))
    content = block.tobytes()
    if dtype == "float16":
        import struct

        content = struct.pack("=4096e", *block)
    nbytes = math.prod(shape) * DTYPE_BYTES[dtype]
    return memoryview((content * (nbytes // len(content) + 1))[:nbytes])
