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

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import ManifestError

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
    """A binding of a pass: the operand or scratch it holds, or the members of a uniform."""

    name: str
    arg: str | None = None
    scratch: str | None = None
    buffer: str | None = None
    element_type: str | None = None
    struct: tuple[Member, ...] | None = None


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


# The compact form.

PARAMETER = re.compile(r"\$\{(\w+)\}")
MAX_NODES = 200_000


def expand(data: Mapping[str, Any], extensions: bool = True) -> dict[str, Any]:
    """The published form of a manifest; one that is in it already comes back as it is."""
    need(isinstance(data, Mapping), "", "a manifest is a JSON object")
    known = {k: v for k, v in data.items() if k not in ("shared", "families", "extensions")}
    if len(known) == len(data):
        return dict(known)
    shared = data.get("shared", {})
    variants = [*known.get("variants", []), *families(data.get("families", []), shared, "families")]
    more = data.get("extensions", {}) if extensions else {}
    for key in ("derive", "bindings", "tunables"):
        twice = set(known.get(key, {})) & set(more.get(key, {}))
        need(not twice, f"extensions.{key}", f"already in the manifest: {', '.join(sorted(twice))}")
        known[key] = {**known.get(key, {}), **more.get(key, {})}
    added = families(
        more.get("families", []), {**shared, **more.get("shared", {})}, "extensions.families"
    )
    known["variants"] = variants + [{**variant, "extension": True} for variant in added]
    return known


def families(
    listed: Sequence[Mapping[str, Any]], shared: Mapping[str, Any], where: str
) -> list[dict[str, Any]]:
    """The variants of all families, in order."""
    variants = []
    for i, family in enumerate(listed):
        path = f"{where}[{i}]"
        need(isinstance(family, Mapping) and family.get("cases"), path, "a family has cases")
        body = {k: v for k, v in family.items() if k not in ("cases", "defaults", "about")}
        for case in family["cases"]:
            need("id" in case and "priority" in case, path, "a case has an id and a priority")
            parameters = {**family.get("defaults", {}), **standard(case), **case}
            filling = Filling(parameters, shared, f"{path} ({case['id']})")
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


class Filling:
    """Fills a family's body with the parameters of one case."""

    def __init__(self, parameters: Mapping[str, Any], shared: Mapping[str, Any], path: str) -> None:
        self.parameters = parameters
        self.shared = shared
        self.path = path
        self.nodes = 0

    def value(self, node: Any, depth: int = 0) -> Any:
        """`node` with its parameters and shared parts in place."""
        self.nodes += 1
        need(depth < 24 and self.nodes < MAX_NODES, self.path, "the family expands without end")
        if isinstance(node, str):
            return self.text(node, depth)
        if isinstance(node, list):
            return self.items(node, depth)
        return self.object(node, depth) if isinstance(node, Mapping) else node

    def text(self, node: str, depth: int) -> Any:
        if node.startswith("@"):
            return self.value(self.look_up(self.shared, node[1:], "shared part"), depth + 1)
        whole = PARAMETER.fullmatch(node)
        if whole:
            return self.value(self.look_up(self.parameters, whole[1], "parameter"), depth + 1)
        return PARAMETER.sub(lambda m: str(self.look_up(self.parameters, m[1], "parameter")), node)

    def look_up(self, names: Mapping[str, Any], name: str, kind: str) -> Any:
        need(name in names, self.path, f"there is no {kind} '{name}'")
        return names[name]

    def items(self, node: list[Any], depth: int) -> list[Any]:
        result: list[Any] = []
        for item in node:
            if isinstance(item, Mapping) and "if" in item:
                if not self.look_up(self.parameters, item["if"], "parameter"):
                    continue
                item = item.get("use")
            value = self.value(item, depth + 1)
            if isinstance(value, list):
                result.extend(value)
            else:
                result.append(value)
        return result

    def object(self, node: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name in node.get("@", ()):
            result.update(self.object(self.look_up(self.shared, name, "shared part"), depth + 1))
        for key, item in node.items():
            value = self.value(item, depth + 1) if key != "@" else None
            if value is not None:
                result[key] = value
        return result


# Parsing: every mistake is a ManifestError with its path inside the file.


def need(condition: object, path: str, message: str) -> None:
    if not condition:
        raise ManifestError(path, message)


MANIFEST_KEYS = {
    "domain": str,
    "name": str,
    "sinceVersion": int,
    "inputs": Mapping,
    "outputs": Mapping,
    "attributes": Mapping,
    "attributeConstraints": Mapping,
    "typeConstraints": Mapping,
    "tunables": Mapping,
    "derive": Mapping,
    "bindings": Mapping,
    "variants": list,
}
VARIANT_KEYS = {
    "id": str,
    "priority": int,
    "when": list,
    "passes": list,
    "tunables": Mapping,
    "derive": Mapping,
    "intermediates": list,
    "requires": Mapping,
    "demoteWhen": list,
    "supersededBy": list,
    "extension": bool,
}
PASS_KEYS = {
    "id": str,
    "name": str,
    "shader": str,
    "derive": Mapping,
    "bindings": list,
    "dispatch": Mapping,
    "once": bool,
}
BINDING_KEYS = {
    "name": str,
    "arg": str,
    "scratch": str,
    "buffer": str,
    "elementType": str,
    "struct": list,
}
INTERMEDIATE_KEYS = {"id": str, "dtype": str, "shape": str, "once": bool}
MEMBER_KEYS = {"name": str, "type": str, "value": object}
BUFFERS = ("read-only-storage", "storage")
MEMBER_TYPES = ("u32", "i32", "f32")
ELEMENT = re.compile(r"\$\w+|(vec[234]<)?(f32|f16|u32|i32)>?")


def shaped(
    data: Any, keys: Mapping[str, type], required: Iterable[str], path: str
) -> Mapping[str, Any]:
    """`data` as an object with known keys of the right kinds, the required ones there."""
    need(isinstance(data, Mapping), path, f"an object is needed, got {kind_of(data)}")
    for key, value in data.items():
        need(key in keys, f"{path}.{key}", f"an unknown key; known: {', '.join(keys)}")
        right = isinstance(value, keys[key]) and not (keys[key] is int and value is True)
        need(right, f"{path}.{key}", f"must be {NOUNS[keys[key]]}, got {kind_of(value)}")
    for key in required:
        need(key in data, path, f"'{key}' is missing")
    checked: Mapping[str, Any] = data
    return checked


NOUNS = {str: "a text", int: "a whole number", Mapping: "an object", list: "a list", bool: "true or false", object: "a value"}  # fmt: skip


def kind_of(value: Any) -> str:
    kinds = {str: "a text", bool: "a boolean", int: "a number", float: "a number", list: "a list"}
    return kinds.get(type(value), "an object" if isinstance(value, Mapping) else "null")


def parse(data: Mapping[str, Any], extensions: bool = True) -> Manifest:
    """Check a manifest of either form; raises `ManifestError` with the path of what is wrong."""
    full = expand(data, extensions)
    required = ("name", "inputs", "outputs", "attributes", "tunables", "derive", "variants")
    full = dict(shaped(full, MANIFEST_KEYS, required, "manifest"))
    need(len(full["outputs"]) == 1, "outputs", "an operator has one output")
    for name, spec in full["outputs"].items():
        need(isinstance(spec, Mapping) and "shape" in spec, f"outputs.{name}", "needs a shape")
    reader = Reader(full)
    manifest = Manifest(
        domain=full.get("domain", ""),
        name=full["name"],
        since_version=full.get("sinceVersion", 1),
        inputs=full["inputs"],
        outputs=full["outputs"],
        attributes=full["attributes"],
        attribute_constraints=full.get("attributeConstraints", {}),
        type_constraints=full.get("typeConstraints", {}),
        tunables=reader.tunables(full["tunables"], "tunables"),
        derive=full["derive"],
        variants=reader.variants(full["variants"]),
    )
    reader.check(manifest)
    return manifest


class Reader:
    """Turns checked JSON into dataclasses; knows the bindings and operands that may be named."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.bindings = data.get("bindings", {})
        self.operands = {*data["inputs"], *data["outputs"]}

    def tunables(self, data: Mapping[str, Any], path: str) -> dict[str, float]:
        values: dict[str, float] = {}
        for name, spec in data.items():
            default = spec.get("default") if isinstance(spec, Mapping) else None
            if not isinstance(default, (int, float)) or isinstance(default, bool):
                raise ManifestError(f"{path}.{name}", "a tunable needs a number as its default")
            values[name] = default
        return values

    def variants(self, data: Sequence[Any]) -> tuple[Variant, ...]:
        variants = tuple(self.variant(v, f"variants[{i}]") for i, v in enumerate(data))
        ids = [v.id for v in variants]
        for i, variant in enumerate(variants):
            path = f"variants[{i}] ({variant.id})"
            need(ids.index(variant.id) == i, path, "another variant has this id")
            for rival in variant.superseded_by:
                need(rival in ids, f"{path}.supersededBy", f"there is no variant '{rival}'")
        return variants

    def variant(self, data: Any, path: str) -> Variant:
        if isinstance(data, Mapping) and isinstance(data.get("id"), str):
            path = f"{path} ({data['id']})"
        data = shaped(data, VARIANT_KEYS, ("id", "priority", "when", "passes"), path)
        scratch = tuple(
            self.intermediate(item, f"{path}.intermediates[{i}]")
            for i, item in enumerate(data.get("intermediates", ()))
        )
        return Variant(
            id=data["id"],
            priority=data["priority"],
            when=texts(data["when"], f"{path}.when"),
            passes=tuple(
                self.one_pass(item, {s.id for s in scratch}, f"{path}.passes[{i}]")
                for i, item in enumerate(data["passes"])
            ),
            tunables=self.tunables(data.get("tunables", {}), f"{path}.tunables"),
            derive=data.get("derive", {}),
            intermediates=scratch,
            requires=self.requires(data.get("requires", {}), f"{path}.requires"),
            demote_when=texts(data.get("demoteWhen", ()), f"{path}.demoteWhen"),
            superseded_by=texts(data.get("supersededBy", ()), f"{path}.supersededBy"),
            extension=data.get("extension", False),
        )

    def requires(self, data: Any, path: str) -> Requires:
        data = shaped(data, {"features": list, "subgroupMatrixConfigs": list}, (), path)
        configs = data.get("subgroupMatrixConfigs", [])
        for i, config in enumerate(configs):
            shaped(
                config,
                {"componentType": str, "resultComponentType": str, "M": int, "N": int, "K": int},
                (),
                f"{path}.subgroupMatrixConfigs[{i}]",
            )
        features = texts(data.get("features", ()), f"{path}.features")
        return Requires(features, tuple(dict(config) for config in configs))

    def intermediate(self, data: Any, path: str) -> Intermediate:
        data = shaped(data, INTERMEDIATE_KEYS, ("id", "dtype", "shape"), path)
        need(data["dtype"] in ("float32", "float16"), f"{path}.dtype", "float32 or float16")
        return Intermediate(data["id"], data["dtype"], data["shape"], data.get("once", False))

    def one_pass(self, data: Any, scratch: set[str], path: str) -> PassSpec:
        data = shaped(data, PASS_KEYS, ("id", "shader", "bindings", "dispatch"), path)
        grid = shaped(data["dispatch"], dict.fromkeys("xyz", object), "xyz", f"{path}.dispatch")
        for axis, count in grid.items():
            whole = isinstance(count, (str, int)) and not isinstance(count, bool)
            need(whole, f"{path}.dispatch.{axis}", "an expression or a whole number")
        return PassSpec(
            id=data["id"],
            name=data.get("name", data["id"]),
            shader=data["shader"],
            derive=data.get("derive", {}),
            bindings=tuple(
                self.binding(item, scratch, f"{path}.bindings[{i}]")
                for i, item in enumerate(data["bindings"])
            ),
            dispatch=(grid["x"], grid["y"], grid["z"]),
            once=data.get("once", False),
        )

    def binding(self, data: Any, scratch: set[str], path: str) -> BindingSpec:
        key = data if isinstance(data, str) else None
        if key is not None:
            need(key in self.bindings, path, f"there is no binding '{key}'")
            data = self.bindings[key]
        data = shaped(data, BINDING_KEYS, (), path)
        name = data.get("name") or key or data.get("arg") or data.get("scratch")
        need(name, path, "a binding needs a name, an arg or a scratch")
        if "struct" in data:
            members = tuple(
                self.member(m, f"{path}.struct[{i}]") for i, m in enumerate(data["struct"])
            )
            return BindingSpec(name, struct=members)
        buffer = data.get("buffer")
        need(buffer is None or buffer in BUFFERS, f"{path}.buffer", " or ".join(BUFFERS))
        need(ELEMENT.fullmatch(data.get("elementType", "")), f"{path}.elementType",
             "$T, $name, or f32, f16, u32, i32 or a vec of one")  # fmt: skip
        source = data.get("scratch") or (name if name in scratch else None)
        if source is not None:
            need(source in scratch, f"{path}.scratch", f"there is no intermediate '{source}'")
        else:
            operand = data.get("arg") or name
            known = ", ".join(sorted(self.operands | scratch))
            need(operand in self.operands, path, f"'{operand}' is bound to nothing; known: {known}")
        return BindingSpec(name, data.get("arg"), source, buffer, data["elementType"])

    def member(self, data: Any, path: str) -> Member:
        data = shaped(data, MEMBER_KEYS, ("name", "type", "value"), path)
        need(data["type"] in MEMBER_TYPES, f"{path}.type", f"one of {', '.join(MEMBER_TYPES)}")
        return Member(data["name"], data["type"], data["value"])

    def check(self, manifest: Manifest) -> None:
        """Names, kinds and circles of every expression; see `checking`."""
        from .checking import check_expressions

        check_expressions(manifest)


def texts(data: Any, path: str) -> tuple[str, ...]:
    for i, item in enumerate(data):
        need(isinstance(item, str), f"{path}[{i}]", f"must be a text, got {kind_of(item)}")
    return tuple(data)


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
