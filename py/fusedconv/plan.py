"""Choice -> Plan: everything that running a request takes, as pure data.

A plan holds WGSL, bindings, uniform bytes, dispatch and scratch sizes of each pass; it is made on
any CPython and handed to the GPU side whole.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .evaluation import EvaluationError, Scope

__all__ = [
    "Binding",
    "Copy",
    "Pass",
    "Plan",
    "Scratch",
    "declaration",
    "pack_uniform",
    "whole_number",
]

_PACK = {"u32": "<I", "i32": "<i", "f32": "<f"}
_RANGE = {"u32": (0, 2**32 - 1), "i32": (-(2**31), 2**31 - 1)}
DTYPE_BYTES: Mapping[str, int] = {"float32": 4, "float16": 2}


@dataclass(frozen=True)
class Binding:
    """One entry of group 0: an operand, a scratch buffer, or a uniform's bytes."""

    index: int
    name: str
    buffer: str  # "read-only-storage", "storage" or "uniform"
    operand: str | None = None
    scratch: str | None = None
    uniform: bytes | None = None


@dataclass(frozen=True)
class Copy:
    """Bytes from one buffer to another, each an operand, `y` or a scratch buffer by name."""

    source: str
    source_offset: int
    target: str
    target_offset: int
    nbytes: int

    def reversed(self) -> Copy:
        """The same bytes the other way."""
        return Copy(self.target, self.target_offset, self.source, self.source_offset, self.nbytes)


@dataclass(frozen=True)
class Pass:
    """One dispatch: WGSL with the entry point `main`, its bindings, its workgroup counts.

    `once`: depends on the weights alone; a prepared convolution runs it one time. `before` and
    `after` are copies around it, of tensors that are too large to bind.
    """

    id: str
    name: str
    template: str
    wgsl: str
    bindings: tuple[Binding, ...]
    dispatch: tuple[int, int, int]
    once: bool = False
    before: tuple[Copy, ...] = ()
    after: tuple[Copy, ...] = ()


@dataclass(frozen=True)
class Scratch:
    """A buffer that lives for the call, or as long as the weights where `once` is true."""

    id: str
    dtype: str
    elements: int
    nbytes: int
    once: bool = False


@dataclass(frozen=True)
class Plan:
    """How one request runs on one device. An empty output has no passes."""

    operator: str
    variant: str
    dtype: str
    operands: Mapping[str, tuple[int, ...]]
    output_shape: tuple[int, ...]
    passes: tuple[Pass, ...]
    scratch: tuple[Scratch, ...]

    @property
    def output_nbytes(self) -> int:
        """Size of the output in bytes."""
        return math.prod(self.output_shape) * DTYPE_BYTES[self.dtype]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; a uniform's bytes as hex."""
        data = asdict(self)
        for item in data["passes"]:
            for binding in item["bindings"]:
                if binding["uniform"] is not None:
                    binding["uniform"] = binding["uniform"].hex()
        return data

    def __str__(self) -> str:
        lines = [f"{self.operator} {self.variant} -> {self.output_shape} {self.dtype}"]
        for item in self.passes:
            bound = ", ".join(b.name for b in item.bindings)
            grid = "x".join(map(str, item.dispatch))
            lines.append(f"  {item.id}: {item.template}, workgroups {grid}, bindings {bound}")
        lines += [f"  scratch {s.id}: {s.nbytes} bytes of {s.dtype}" for s in self.scratch]
        return "\n".join(lines)


def whole_number(value: Any, what: str) -> int:
    """A value that must be whole by contract: a dispatch count, a size, a u32 member."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise EvaluationError(f"{what} must be whole, got {value!r}")
    return int(value)


def pack_uniform(members: Mapping[str, tuple[str, Any]], where: str) -> bytes:
    """The bytes of a uniform struct of 4-byte members, padded to 16 as WGSL lays it out."""
    packed = b""
    for name, (kind, value) in members.items():
        if kind == "f32":
            if not isinstance(value, (int, float)) or not math.isfinite(value):
                raise EvaluationError(f"{where}.{name} must be finite, got {value!r}")
        else:
            value = whole_number(value, f"{where}.{name}")
            low, high = _RANGE[kind]
            if not low <= value <= high:
                raise EvaluationError(f"{where}.{name} must fit {kind}, got {value}")
        packed += struct.pack(_PACK[kind], value)
    return packed + bytes(-len(packed) % 16)


def declaration(
    binding: Binding, element: str, members: Mapping[str, str], nbytes: int | None = None
) -> str:
    """The WGSL that declares a binding; made from the manifest, so that host and shader agree.

    With `nbytes` an array has as many elements as fit, and no open end.
    """
    place = f"@group(0) @binding({binding.index})"
    if binding.buffer == "uniform":
        fields = "".join(f"  {name}: {kind},\n" for name, kind in members.items())
        kind = binding.name[:1].upper() + binding.name[1:]
        return f"struct {kind} {{\n{fields}}}\n{place} var<uniform> {binding.name}: {kind};\n"
    access = "read" if binding.buffer == "read-only-storage" else "read_write"
    length = "" if nbytes is None else f", {nbytes // element_size(element)}"
    return f"{place} var<storage, {access}> {binding.name}: array<{element}{length}>;\n"


def element_size(element: str) -> int:
    """Bytes from one element of a WGSL array to the next."""
    vector, _, scalar = element.rstrip(">").rpartition("<")
    size = 2 if scalar == "f16" else 4
    return size * {"": 1, "vec2": 2, "vec3": 4, "vec4": 4}[vector]


def element_type(text: str, scope: Scope) -> str:
    """`$T` is the request's dtype, `$name` a derived string, anything else WGSL's own name."""
    if text == "$T":
        return scope.dtypes["T"]
    return str(getattr(scope, text[1:])) if text.startswith("$") else text
