"""A network as fused convolutions: the steps, in order, and what they say about whole images."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .keras import Weight

__all__ = ["Conv", "Graph", "Step", "Upsample"]


@dataclass(frozen=True)
class Conv:
    """y = activation(conv(x, weight) + bias + z); the kernel is OIHW, tensors are NCHW."""

    name: str
    x: str
    y: str
    weight: Weight
    bias: Weight | None = None
    z: str | None = None
    activation: str = ""
    activation_params: tuple[float, ...] = ()
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    group: int = 1
    auto_pad: str = "VALID"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.x,) if self.z is None else (self.x, self.z)

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the fusedconv call."""
        named = {
            "strides": list(self.strides),
            "dilations": list(self.dilations),
            "group": self.group,
            "auto_pad": self.auto_pad,
        }
        if self.activation:
            named["activation"] = self.activation
        if self.activation_params:
            named["activation_params"] = list(self.activation_params)
        return named


@dataclass(frozen=True)
class Upsample:
    """y repeats each pixel of x `size` times along rows and columns."""

    name: str
    x: str
    y: str
    channels: int
    size: tuple[int, int]

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.x,)


Step = Conv | Upsample


@dataclass(frozen=True)
class Graph:
    """Steps in order, and what they say about whole images."""

    name: str
    steps: tuple[Step, ...]
    input: str
    output: str
    scale: Fraction
    halo: int
    """How many input pixels around a pixel can change its result."""

    def last_uses(self) -> list[tuple[str, ...]]:
        """For each step, the values that no later step reads."""
        last = {name: i for i, step in enumerate(self.steps) for name in step.reads}
        done: list[list[str]] = [[] for _ in self.steps]
        for name, i in last.items():
            done[i].append(name)
        return [tuple(names) for names in done]
