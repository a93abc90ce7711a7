"""Whether JSON from elsewhere has the keys and kinds that it must have, told with its path."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from .errors import ManifestError

__all__ = ["WHOLE", "Keys", "is_number", "need", "shaped", "texts"]

WHOLE = "a whole number"
# Key -> what its value must be an instance of.
Keys = Mapping[str, Any]

NOUNS: Mapping[Any, str] = {
    str: "a text",
    int: WHOLE,
    Mapping: "an object",
    list: "a list",
    bool: "true or false",
}


def shaped(data: Any, keys: Keys, needed: Iterable[str], path: str) -> Mapping[str, Any]:
    """`data` as an object with known keys of the right kinds, the needed ones there."""
    if not isinstance(data, Mapping):
        raise ManifestError(path, f"an object is needed, got {kind_of(data)}")
    for key, value in data.items():
        kind = keys.get(key)
        if kind is None:
            known = ", ".join(keys)
            raise ManifestError(f"{path}.{key}".lstrip("."), f"an unknown key; known: {known}")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            got = f"must be {NOUNS[kind]}, got {kind_of(value)}"
            raise ManifestError(f"{path}.{key}".lstrip("."), got)
    for key in needed:
        if key not in data:
            raise ManifestError(path, f"'{key}' is missing")
    return data


def texts(data: Sequence[Any], path: str) -> tuple[str, ...]:
    for i, item in enumerate(data):
        if not isinstance(item, str):
            raise ManifestError(f"{path}[{i}]", f"must be a text, got {kind_of(item)}")
    return tuple(data)


def need(condition: object, path: str, message: str) -> None:
    if not condition:
        raise ManifestError(path, message)


def is_number(value: object) -> TypeGuard[float]:
    """A number that is finite; JSON as Python reads it knows NaN, and integers of any length."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def kind_of(value: Any) -> str:
    kinds = {str: "a text", bool: "a boolean", int: "a number", float: "a number", list: "a list"}
    return kinds.get(type(value), "an object" if isinstance(value, Mapping) else "null")
