"""The compact form of a manifest to the published one; `manifest` describes the form.

A manifest may come from somebody else: expansion is data in, data out, and what it may write is
bounded, whatever refers to whatever.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from .errors import ManifestError

__all__ = ["expand"]

COMPACT_KEYS = ("shared", "families", "extensions")
EXTENSION_KEYS = ("shared", "families", "derive", "bindings", "tunables")
NOT_BODY = ("cases", "defaults", "about")
PARAMETER = re.compile(r"\$\{(\w+)\}")
# Values plus characters that one expansion may write; ours takes less than 200 000.
MAX_SIZE = 4_000_000
MAX_DEPTH = 24
NOUNS: Mapping[Any, str] = {Mapping: "an object", list: "a list", str: "a text"}


def expand(data: Mapping[str, Any], extensions: bool = True) -> dict[str, Any]:
    """See `manifest.expand`."""
    of_kind(data, Mapping, "")
    known = {key: value for key, value in data.items() if key not in COMPACT_KEYS}
    if len(known) == len(data):
        return known
    room = Room()
    shared = part(data, "shared", Mapping)
    variants = part(data, "variants", list) + families(data, shared, "", room)
    more = part(data, "extensions", Mapping) if extensions else {}
    for key in more:
        if key not in EXTENSION_KEYS:
            allowed = ", ".join(EXTENSION_KEYS)
            raise ManifestError(f"extensions.{key}", f"an unknown key; known: {allowed}")
    for key in ("derive", "bindings", "tunables"):
        ours, theirs = part(data, key, Mapping), part(more, key, Mapping, "extensions.")
        for name in theirs:
            if name in ours:
                raise ManifestError(f"extensions.{key}.{name}", "is in the contract already")
        known[key] = {**ours, **theirs}
    shared = {**shared, **part(more, "shared", Mapping, "extensions.")}
    added = families(more, shared, "extensions.", room)
    known["variants"] = variants + [{**variant, "extension": True} for variant in added]
    return known


def families(
    data: Mapping[str, Any], shared: Mapping[str, Any], prefix: str, room: Room
) -> list[dict[str, Any]]:
    """The variants of all families, in order."""
    variants = []
    for i, family in enumerate(part(data, "families", list, prefix)):
        path = f"{prefix}families[{i}]"
        of_kind(family, Mapping, path)
        body = {key: value for key, value in family.items() if key not in NOT_BODY}
        defaults = part(family, "defaults", Mapping, f"{path}.")
        cases = part(family, "cases", list, f"{path}.")
        if not cases:
            raise ManifestError(path, "a family has cases")
        for j, case in enumerate(cases):
            where = f"{path}.cases[{j}]"
            of_kind(case, Mapping, where)
            if not isinstance(case.get("id"), str) or "priority" not in case:
                raise ManifestError(where, "a case has an id and a priority")
            parameters = {**defaults, **standard(case), **case}
            filling = Filling(parameters, shared, f"{where} ({case['id']})", room)
            filled = filling.object(body)
            variants.append({"id": case["id"], "priority": case["priority"], **filled})
    return variants


def standard(case: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that follow from whether a case has a bias and a residual."""
    bias, z = bool(case.get("bias")), bool(case.get("z"))
    return {
        "bias": bias,
        "z": z,
        "Bias": "Bias" if bias else "",
        "epilogue": [
            "biasContract" if bias else "noBiasContract",
            "residualContract" if z else "noResidualContract",
        ],
        "operands": ["bias"] * bias + ["zResidual"] * z,
    }


class Room:
    """How much one expansion may still write, over all of its families."""

    def __init__(self) -> None:
        self.left = MAX_SIZE

    def take(self, size: int, depth: int, path: str) -> None:
        self.left -= size
        if self.left < 0 or depth > MAX_DEPTH:
            raise ManifestError(path, "the family expands without end")


class Filling:
    """Fills a family's body with the parameters of one case."""

    def __init__(
        self, parameters: Mapping[str, Any], shared: Mapping[str, Any], path: str, room: Room
    ) -> None:
        self.parameters = parameters
        self.shared = shared
        self.path = path
        self.room = room

    def value(self, node: Any, depth: int = 0) -> Any:
        """`node` with its parameters and shared parts in place."""
        self.room.take(1 + len(node) if isinstance(node, str) else 1, depth, self.path)
        if isinstance(node, str):
            return self.text(node, depth)
        if isinstance(node, list):
            return self.items(node, depth)
        return self.object(node, depth) if isinstance(node, Mapping) else node

    def text(self, node: str, depth: int) -> Any:
        if node.startswith("@"):
            return self.value(self.look_up(self.shared, node[1:], "shared part"), depth + 1)
        if "${" not in node:
            return node
        whole = PARAMETER.fullmatch(node)
        if whole:
            return self.value(self.look_up(self.parameters, whole[1], "parameter"), depth + 1)
        return PARAMETER.sub(lambda found: self.inside(found[1], depth), node)

    def inside(self, name: str, depth: int) -> str:
        """A parameter as part of a longer text."""
        value = self.value(self.look_up(self.parameters, name, "parameter"), depth + 1)
        if not isinstance(value, (str, int, float)):
            raise ManifestError(self.path, f"parameter '{name}' is {value!r} inside a text")
        return value if isinstance(value, str) else json.dumps(value)

    def look_up(self, names: Mapping[str, Any], name: Any, kind: str) -> Any:
        if not isinstance(name, str) or name not in names:
            raise ManifestError(self.path, f"there is no {kind} '{name}'")
        return names[name]

    def items(self, node: list[Any], depth: int) -> list[Any]:
        result: list[Any] = []
        for item in node:
            if isinstance(item, Mapping) and "if" in item:
                if item.keys() != {"if", "use"}:
                    raise ManifestError(self.path, f"a condition is an 'if' and a 'use': {item!r}")
                if not self.look_up(self.parameters, item["if"], "parameter"):
                    continue
                item = item["use"]
            value = self.value(item, depth + 1)
            if isinstance(value, list):
                result.extend(value)
            else:
                result.append(value)
        return result

    def object(self, node: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name in of_kind(node.get("@", []), list, f"{self.path}.@"):
            taken = self.value(self.look_up(self.shared, name, "shared part"), depth + 1)
            result.update(of_kind(taken, Mapping, f"{self.path} @{name}"))
        for key, item in node.items():
            value = self.value(item, depth + 1) if key != "@" else None
            if value is not None:
                result[key] = value
        return result


def part(holder: Mapping[str, Any], key: str, kind: Any, prefix: str = "") -> Any:
    """`holder[key]`, of the kind that it must be, empty where it is absent."""
    empty: Any = [] if kind is list else {}
    return of_kind(holder.get(key, empty), kind, f"{prefix}{key}")


def of_kind(value: Any, kind: Any, path: str) -> Any:
    if not isinstance(value, kind):
        raise ManifestError(path, f"must be {NOUNS[kind]}, got {value!r:.80}")
    return value
