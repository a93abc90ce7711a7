"""What a manifest is: the published form, our compact one, and the dataclasses both become.

The compact form says each family of variants once:

    "shared": {"name": text, list or object},
    "families": [{
        "cases": [{"id": ..., "priority": ..., "bias": true, "z": true, any other parameters}, ...],
        "defaults": {parameter: value for the cases that do not give it},
        "when": [...], "passes": [...], and whatever else a variant has
    }],
    "extensions": {"derive": ..., "bindings": ..., "tunables": ..., "shared": ..., "families": ...}

In a family's body a text "${p}" is the case's parameter p (inside a longer text, its text), and
"@name" what `shared` holds; a list that takes the place of a list's item is spliced in. An object
takes shared objects in by {"@": ["name"], ...}. {"if": "p", "use": item} stands in a list when
the parameter is true. A key whose value becomes null is dropped. Three parameters are given:
${epilogue}, the guards of bias and residual; ${operands}, their bindings; ${Bias}, "Bias" or "".

What `extensions` holds comes after the published part and is marked `"extension": true`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = [
    "BindingSpec",
    "Intermediate",
    "Manifest",
    "Member",
    "PassSpec",
    "Requires",
    "Variant",
    "expand",
    "expressions_of",
    "parse",
]


@dataclass(frozen=True)
class Member:
    """A member of a uniform struct: `u32`, `i32` or `f32`, and the expression of its value."""

    name: str
    type: str
    value: str | float


@dataclass(frozen=True)
class BindingSpec:
    """A binding of a pass: the operand or scratch it holds, or the members of a uniform.

    The array of a `sized` one is declared with its length, which bounds checks can then do without.
    """

    name: str
    arg: str | None = None
    scratch: str | None = None
    buffer: str | None = None
    element_type: str | None = None
    struct: tuple[Member, ...] | None = None
    sized: bool = False


@dataclass(frozen=True)
class PassSpec:
    """One dispatch of a variant; `once` where it depends on the weights alone."""

    id: str
    name: str
    shader: str
    derive: Mapping[str, Any]
    bindings: tuple[BindingSpec, ...]
    dispatch: tuple[str | int, str | int, str | int]
    once: bool = False


@dataclass(frozen=True)
class Intermediate:
    """A scratch buffer: its dtype and the expression of its shape."""

    id: str
    dtype: str
    shape: str
    once: bool = False


@dataclass(frozen=True)
class Requires:
    """Features that must be granted, and matrix configurations that the adapter must have."""

    features: tuple[str, ...] = ()
    subgroup_matrix_configs: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Variant:
    """One implementation: when it may run, how eagerly it is chosen, and its passes."""

    id: str
    priority: int
    when: tuple[str, ...]
    passes: tuple[PassSpec, ...]
    tunables: Mapping[str, float]
    derive: Mapping[str, Any]
    intermediates: tuple[Intermediate, ...]
    requires: Requires
    demote_when: tuple[str, ...]
    superseded_by: tuple[str, ...]
    extension: bool = False


@dataclass(frozen=True)
class Manifest:
    """An operator's contract."""

    domain: str
    name: str
    since_version: int
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    attributes: Mapping[str, Any]
    attribute_constraints: Mapping[str, Any]
    type_constraints: Mapping[str, Any]
    tunables: Mapping[str, float]
    derive: Mapping[str, Any]
    variants: tuple[Variant, ...]


# A page that uses the shipped operators reads no manifest, and should not import how.


def expand(data: Mapping[str, Any], extensions: bool = True) -> dict[str, Any]:
    """The published form of a manifest; one that is in it already comes back as it is.

    With `extensions=False` what the manifest adds to the contract is left out. Raises
    `ManifestError` for a family that cannot be expanded.
    """
    from .families import expand

    return expand(data, extensions)


def parse(data: Mapping[str, Any], extensions: bool = True) -> Manifest:
    """Check a manifest of either form; raises `ManifestError` with the path of what is wrong."""
    from .reading import read

    return read(data, extensions)


def expressions_of(manifest: Manifest) -> list[str]:
    """Every distinct expression of a manifest, in order."""
    return list(dict.fromkeys(text for text in every_value(manifest) if isinstance(text, str)))


def every_value(manifest: Manifest) -> Iterator[Any]:
    for spec in manifest.outputs.values():
        yield spec["shape"]
    yield from manifest.derive.values()
    for variant in manifest.variants:
        yield from variant.when
        yield from variant.demote_when
        yield from variant.derive.values()
        yield from (item.shape for item in variant.intermediates)
        for item in variant.passes:
            yield from item.derive.values()
            yield from item.dispatch
            for binding in item.bindings:
                yield from (member.value for member in binding.struct or ())
