"""What `fusedconv.memory()` reports."""

from __future__ import annotations

import json
from dataclasses import dataclass

__all__ = ["MemoryReport"]


@dataclass(frozen=True)
class MemoryReport:
    """GPU buffers of a device: bytes, then counts. Adopted buffers are counted, not weighed."""

    in_use: int = 0
    pooled: int = 0
    staging: int = 0
    uniforms: int = 0
    held: int = 0
    """in_use + pooled + staging + uniforms."""
    peak: int = 0
    """The most that was held at once."""
    peak_in_use: int = 0
    budget: int | None = None
    buffers_in_use: int = 0
    buffers_pooled: int = 0
    buffers_adopted: int = 0
    buffers_created: int = 0
    """Since the device was opened; constant over warm runs."""
    reads: int = 0
    """Readbacks under way."""
    plans: int = 0
    pipelines: int = 0
    prepared: int = 0
    runs: int = 0

    @classmethod
    def from_json(cls, text: str) -> MemoryReport:
        """Read the bridge's report."""
        data = json.loads(text)
        return cls(
            in_use=data["inUse"],
            pooled=data["idle"],
            staging=data["staging"],
            uniforms=data["uniform"],
            held=data["held"],
            peak=data["peak"],
            peak_in_use=data["peakInUse"],
            budget=data["budget"],
            buffers_in_use=data["buffersInUse"],
            buffers_pooled=data["buffersIdle"],
            buffers_adopted=data["buffersExternal"],
            buffers_created=data["created"],
            reads=data["reads"],
            plans=data["plans"],
            pipelines=data["pipelines"],
            prepared=data["groups"],
            runs=data["runs"],
        )

    def __str__(self) -> str:
        def mib(nbytes: int) -> str:
            return f"{nbytes / 2**20:.1f} MiB"

        return (
            f"{mib(self.held)} held, peak {mib(self.peak)}: {mib(self.in_use)} in use in "
            f"{self.buffers_in_use} buffers, {mib(self.pooled)} pooled in {self.buffers_pooled}, "
            f"{mib(self.staging)} for readback; {self.plans} plans, {self.pipelines} pipelines"
        )
