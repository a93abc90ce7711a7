"""Times of calls: by GPU timestamps where the device has them, and on the wall."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from .errors import RequestError
from .plan import Plan

__all__ = ["CallRecord", "PassRecord", "Profile", "active_profiles"]

active_profiles: list[Profile] = []


@dataclass(frozen=True)
class PassRecord:
    """One dispatch of a call. `ms` is None where the device has no timestamps."""

    name: str
    template: str
    dispatch: tuple[int, int, int]
    ms: float | None


@dataclass(frozen=True)
class CallRecord:
    """One call: what ran and how long. The wall time includes submission and waiting."""

    operator: str
    variant: str
    dtype: str
    operands: Mapping[str, tuple[int, ...]]
    output_shape: tuple[int, ...]
    passes: tuple[PassRecord, ...]
    gpu_ms: float | None
    wall_ms: float


class Profile:
    """Collects a `CallRecord` for every call made and awaited in its `with` block.

    Calls run one at a time meanwhile, outside of any batch. Browsers round timestamps (Chrome to
    0.1 ms): with `repeat` each pass is dispatched that often and its mean is given.
    """

    def __init__(
        self, on_record: Callable[[CallRecord], Any] | None = None, *, repeat: int = 1
    ) -> None:
        """`on_record` is called with every record as it comes."""
        if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
            raise RequestError("repeat", repr(repeat), "a whole number, 1 or more")
        if on_record is not None and not callable(on_record):
            raise RequestError("on_record", type(on_record).__name__, "a function")
        self.records: list[CallRecord] = []
        self.repeat = repeat
        self._on_record = on_record

    def __enter__(self) -> Profile:
        active_profiles.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        active_profiles.remove(self)

    def add(self, plan: Plan, text: str) -> int:
        """Take the bridge's report of a call; gives the output's buffer."""
        data = json.loads(text)
        times = data["passes"] or [None] * len(plan.passes)
        passes = tuple(
            PassRecord(p.name, p.template, p.dispatch, ms)
            for p, ms in zip(plan.passes, times, strict=True)
        )
        record = CallRecord(
            operator=plan.operator,
            variant=plan.variant,
            dtype=plan.dtype,
            operands=plan.operands,
            output_shape=plan.output_shape,
            passes=passes,
            gpu_ms=None if data["passes"] is None else sum(data["passes"]),
            wall_ms=data["wall"],
        )
        self.records.append(record)
        if self._on_record is not None:
            self._on_record(record)
        return int(data["out"])
