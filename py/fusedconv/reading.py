"""A manifest's JSON to dataclasses; a mistake is a `ManifestError` with its path in the file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import ManifestError
from .families import expand
from .jsonform import WHOLE, Keys, is_number, need, shaped, texts
from .manifest import BindingSpec, Intermediate, Manifest, Member, PassSpec, Requires, Variant

__all__ = ["read"]

MANIFEST_KEYS: Keys = {
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
NEEDED = ("name", "inputs", "outputs", "attributes", "tunables", "derive", "variants")
INPUT_KEYS: Keys = {"onnx": str, "dtype": str, "rank": object, "optional": bool}
OUTPUT_KEYS: Keys = {"onnx": str, "dtype": str, "rank": object, "shape": str}
VARIANT_KEYS: Keys = {
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
PASS_KEYS: Keys = {
    "id": str,
    "name": str,
    "shader": str,
    "derive": Mapping,
    "bindings": list,
    "dispatch": Mapping,
    "once": bool,
}
BINDING_KEYS: Keys = {
    "name": str,
    "arg": str,
    "scratch": str,
    "buffer": str,
    "elementType": str,
    "struct": list,
    "sized": bool,
}
INTERMEDIATE_KEYS: Keys = {"id": str, "dtype": str, "shape": str, "once": bool}
MEMBER_KEYS: Keys = {"name": str, "type": str, "value": object}
REQUIRES_KEYS: Keys = {"features": list, "subgroupMatrixConfigs": list}
CONFIG_KEYS: Keys = {"componentType": str, "resultComponentType": str, "M": int, "N": int, "K": int}
GRID_KEYS: Keys = dict.fromkeys("xyz", object)

DTYPES = ("float32", "float16")
BUFFERS = ("read-only-storage", "storage")
MEMBER_TYPES = ("u32", "i32", "f32")
COMPONENTS = ("f32", "f16", "u32", "i32", "u8", "i8")
ELEMENT = re.compile(r"\$\w+|f32|f16|u32|i32|vec[234]<(f32|f16|u32|i32)>")
WGSL_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
FILE_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*", re.ASCII)


def read(data: Mapping[str, Any], extensions: bool) -> Manifest:
    """See `manifest.parse`."""
    from .checking import check_expressions

    full = dict(shaped(expand(data, extensions), MANIFEST_KEYS, NEEDED, ""))
    for key in ("domain", "attributeConstraints", "typeConstraints", "bindings"):
        full.setdefault(key, "" if key == "domain" else {})
    check_signature(full)
    manifest = Manifest(
        domain=full["domain"],
        name=full["name"],
        since_version=full.get("sinceVersion", 1),
        inputs=full["inputs"],
        outputs=full["outputs"],
        attributes=full["attributes"],
        attribute_constraints=full["attributeConstraints"],
        type_constraints=full["typeConstraints"],
        tunables=tunables(full["tunables"], "tunables"),
        derive=full["derive"],
        variants=Reader(full).variants(full["variants"]),
    )
    check_expressions(manifest)
    return manifest


def check_signature(full: Mapping[str, Any]) -> None:
    """Inputs, the output, attributes and type constraints."""
    for name, dtypes in full["typeConstraints"].items():
        path = f"typeConstraints.{name}"
        need(isinstance(dtypes, list) and dtypes, path, "must be a list of dtypes")
        for dtype in dtypes:
            need(dtype in DTYPES, path, f"unknown type {dtype!r}; known: {', '.join(DTYPES)}")
    known = ("T", *full["typeConstraints"], *DTYPES)
    need(len(full["outputs"]) == 1, "outputs", "an operator has one output")
    for side, keys, needed in (
        ("inputs", INPUT_KEYS, ("dtype",)),
        ("outputs", OUTPUT_KEYS, ("dtype", "shape")),
    ):
        for name, spec in full[side].items():
            path = f"{side}.{name}"
            shaped(spec, keys, needed, path)
            kinds = ", ".join(dict.fromkeys(known))
            need(spec["dtype"] in known, f"{path}.dtype", f"unknown type; known: {kinds}")
            need(name not in full["inputs"] or side == "inputs", path, "is an input too")
    for name, spec in full["attributes"].items():
        shaped(spec, {"default": object}, (), f"attributes.{name}")
    for name, spec in full["attributeConstraints"].items():
        path = f"attributeConstraints.{name}"
        need(name in full["attributes"], path, f"there is no attribute '{name}'")
        shaped(spec, {"values": list}, (), path)


class Reader:
    """Reads variants; knows the bindings and operands that they may name."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.bindings = data["bindings"]
        self.inputs = frozenset(data["inputs"])
        self.operands = self.inputs | frozenset(data["outputs"])

    def variants(self, data: Sequence[Any]) -> tuple[Variant, ...]:
        variants = tuple(self.variant(v, f"variants[{i}]") for i, v in enumerate(data))
        places: dict[str, int] = {}
        for i, variant in enumerate(variants):
            first = places.setdefault(variant.id, i)
            path = f"variants[{i}] ({variant.id})"
            need(first == i, path, f"another variant has this id: variants[{first}]")
        for i, variant in enumerate(variants):
            for rival in variant.superseded_by:
                path = f"variants[{i}] ({variant.id}).supersededBy"
                need(rival in places, path, f"there is no variant '{rival}'")
                need(rival != variant.id, path, "a variant cannot supersede itself")
        return variants

    def variant(self, data: Any, path: str) -> Variant:
        if isinstance(data, Mapping) and isinstance(data.get("id"), str):
            path = f"{path} ({data['id']})"
        data = shaped(data, VARIANT_KEYS, ("id", "priority", "when", "passes"), path)
        need(data["id"], f"{path}.id", "is empty")
        need(data["passes"], f"{path}.passes", "a variant needs a pass")
        scratch: dict[str, Intermediate] = {}
        for i, item in enumerate(data.get("intermediates", ())):
            entry = intermediate(item, f"{path}.intermediates[{i}]")
            need(entry.id not in scratch, f"{path}.intermediates[{i}].id", "is there twice")
            scratch[entry.id] = entry
        passes: list[PassSpec] = []
        for i, item in enumerate(data["passes"]):
            spec = self.one_pass(item, scratch, f"{path}.passes[{i}]")
            twice = any(other.id == spec.id for other in passes)
            need(not twice, f"{path}.passes[{i}].id", "is there twice")
            passes.append(spec)
        return Variant(
            id=data["id"],
            priority=data["priority"],
            when=texts(data["when"], f"{path}.when"),
            passes=tuple(passes),
            tunables=tunables(data.get("tunables", {}), f"{path}.tunables"),
            derive=data.get("derive", {}),
            intermediates=tuple(scratch.values()),
            requires=requires(data.get("requires", {}), f"{path}.requires"),
            demote_when=texts(data.get("demoteWhen", ()), f"{path}.demoteWhen"),
            superseded_by=texts(data.get("supersededBy", ()), f"{path}.supersededBy"),
            extension=data.get("extension", False),
        )

    def one_pass(self, data: Any, scratch: Mapping[str, Intermediate], path: str) -> PassSpec:
        data = shaped(data, PASS_KEYS, ("id", "shader", "bindings", "dispatch"), path)
        good = FILE_NAME.fullmatch(data["shader"])
        need(good, f"{path}.shader", "must be the name of a file in the operator's folder")
        grid = shaped(data["dispatch"], GRID_KEYS, "xyz", f"{path}.dispatch")
        for axis, count in grid.items():
            whole = isinstance(count, (str, int)) and not isinstance(count, bool)
            need(whole, f"{path}.dispatch.{axis}", f"an expression or {WHOLE}")
        bindings = tuple(
            self.binding(item, scratch, f"{path}.bindings[{i}]")
            for i, item in enumerate(data["bindings"])
        )
        once = data.get("once", False)
        check_together(bindings, path)
        check_once(bindings, scratch, once, path)
        return PassSpec(
            id=data["id"],
            name=data.get("name", data["id"]),
            shader=data["shader"],
            derive=data.get("derive", {}),
            bindings=bindings,
            dispatch=(grid["x"], grid["y"], grid["z"]),
            once=once,
        )

    def binding(self, data: Any, scratch: Mapping[str, Any], path: str) -> BindingSpec:
        """One binding, with the operand or scratch that it holds and its buffer filled in."""
        key = data if isinstance(data, str) else None
        if key is not None:
            need(key in self.bindings, path, f"there is no binding '{key}'")
            data = self.bindings[key]
        data = shaped(data, BINDING_KEYS, (), path)
        name = data.get("name") or key or data.get("arg") or data.get("scratch")
        need(name, path, "a binding needs a name, an arg or a scratch")
        need(WGSL_NAME.fullmatch(name), path, f"'{name}' is no name in WGSL")
        if "struct" in data:
            for other in ("arg", "scratch", "buffer", "elementType", "sized"):
                need(other not in data, f"{path}.{other}", "does not go with 'struct'")
            return BindingSpec(name, struct=members(data["struct"], f"{path}.struct"))
        element = data.get("elementType", "")
        need(ELEMENT.fullmatch(element), f"{path}.elementType",
             "$T, $name, or f32, f16, u32, i32 or a vec of one")  # fmt: skip
        need(not ("arg" in data and "scratch" in data), path, "holds an arg or a scratch, not both")
        source = data.get("scratch") or (name if name in scratch and "arg" not in data else None)
        operand = None if source else data.get("arg") or name
        if source is not None:
            need(source in scratch, f"{path}.scratch", f"there is no intermediate '{source}'")
        elif operand not in self.operands:
            known = ", ".join(sorted(self.operands | scratch.keys()))
            need(False, path, f"'{operand}' is bound to nothing; known: {known}")
        buffer = data.get("buffer", BUFFERS[operand not in self.inputs])
        need(buffer in BUFFERS, f"{path}.buffer", " or ".join(BUFFERS))
        read_only = operand in self.inputs and buffer == "storage"
        need(not read_only, f"{path}.buffer", "an input is not written to")
        sized = data.get("sized", False)
        need(source or not sized, f"{path}.sized", "only scratch has its length declared")
        return BindingSpec(name, operand, source, buffer, element, sized=sized)


def tunables(data: Mapping[str, Any], path: str) -> dict[str, float]:
    """Name -> default."""
    values: dict[str, float] = {}
    for name, spec in data.items():
        default = spec.get("default") if isinstance(spec, Mapping) else None
        if not is_number(default):
            raise ManifestError(f"{path}.{name}", "a tunable needs a number as its default")
        shaped(spec, {"default": object}, (), f"{path}.{name}")
        values[name] = default
    return values


def requires(data: Any, path: str) -> Requires:
    data = shaped(data, REQUIRES_KEYS, (), path)
    features = texts(data.get("features", ()), f"{path}.features")
    need(all(features), f"{path}.features", "a feature has a name")
    configs = data.get("subgroupMatrixConfigs", ())
    for i, config in enumerate(configs):
        where = f"{path}.subgroupMatrixConfigs[{i}]"
        shaped(config, CONFIG_KEYS, (), where)
        need(config, where, f"asks for nothing; known: {', '.join(CONFIG_KEYS)}")
        for key, value in config.items():
            good = value > 0 if isinstance(value, int) else value in COMPONENTS
            need(good, f"{where}.{key}", f"a positive number or one of {', '.join(COMPONENTS)}")
    return Requires(features, tuple(dict(config) for config in configs))


def intermediate(data: Any, path: str) -> Intermediate:
    data = shaped(data, INTERMEDIATE_KEYS, ("id", "dtype", "shape"), path)
    need(data["dtype"] in DTYPES, f"{path}.dtype", " or ".join(DTYPES))
    return Intermediate(data["id"], data["dtype"], data["shape"], data.get("once", False))


def members(data: list[Any], path: str) -> tuple[Member, ...]:
    need(data, path, "a struct needs a member")
    found: dict[str, Member] = {}
    for i, item in enumerate(data):
        where = f"{path}[{i}]"
        item = shaped(item, MEMBER_KEYS, ("name", "type", "value"), where)
        need(item["type"] in MEMBER_TYPES, f"{where}.type", f"one of {', '.join(MEMBER_TYPES)}")
        need(WGSL_NAME.fullmatch(item["name"]), f"{where}.name", "is no name in WGSL")
        need(item["name"] not in found, f"{where}.name", "is there twice")
        found[item["name"]] = Member(item["name"], item["type"], item["value"])
    return tuple(found.values())


def check_together(bindings: Sequence[BindingSpec], path: str) -> None:
    """The bindings of one pass: names of their own; something is written, by one binding alone."""
    need(any(b.buffer == "storage" for b in bindings), f"{path}.bindings", "none is written to")
    names: set[str] = set()
    sources = [(binding.arg, binding.scratch) for binding in bindings if not binding.struct]
    for i, binding in enumerate(bindings):
        where = f"{path}.bindings[{i}]"
        need(binding.name not in names, where, f"'{binding.name}' is there twice")
        names.add(binding.name)
        alone = sources.count((binding.arg, binding.scratch)) == 1
        need(alone or binding.buffer != "storage", where, "written to, and bound twice")


def check_once(
    bindings: Sequence[BindingSpec], scratch: Mapping[str, Intermediate], once: bool, path: str
) -> None:
    """What is computed one time is written by passes that run one time, and by no others."""
    for i, binding in enumerate(bindings):
        kept = binding.scratch is not None and scratch[binding.scratch].once
        if binding.buffer == "storage" or (once and binding.scratch is not None):
            fits = kept == once
            need(fits, f"{path}.bindings[{i}]", "'once' differs between the pass and the buffer")
