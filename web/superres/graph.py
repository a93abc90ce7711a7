"""A network as fused convolutions: the steps, in order, and what they say about whole images."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .keras import Weight

__all__ = ["Conv", "Graph"]


@dataclass(frozen=True)
class Conv:
    """y = activation(conv(x, weight) + bias + z), tensors NCHW.

    The kernel is OIHW, that of a transposed convolution IOHW.
    """

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
    transposed: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.x,) if self.z is None else (self.x, self.z)

    @property
    def attributes(self) -> dict[str, Any]:
        """Of the fusedconv call, weights and operands apart."""
        named: dict[str, Any] = {
            "strides": list(self.strides),
            "dilations": list(self.dilations),
            "group": self.group,
            "auto_pad": self.auto_pad,
        }
        if self.transposed:
            named["transposed"] = True
        if self.activation:
            named["activation"] = self.activation
        if self.activation_params:
            named["activation_params"] = list(self.activation_params)
        return named


@dataclass(frozen=True)
class Graph:
    """Steps in order, and what they say about whole images."""

    name: str
    steps: tuple[Conv, ...]
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
