"""Checks of a manifest that need its expressions: names, circles, and kinds of value."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from jinja2 import nodes

from .errors import ManifestError
from .expressions import ExpressionError, compile_expression, parse
from .manifest import Manifest, PassSpec, Variant

__all__ = ["check_expressions"]

BOOLEAN = (nodes.Compare, nodes.Not, nodes.And, nodes.Or, nodes.Call, nodes.Name, nodes.Getattr, nodes.CondExpr)  # fmt: skip


def check_expressions(manifest: Manifest) -> None:
    """Raise `ManifestError` for an unknown name, a circle, or a value of the wrong kind."""
    known = frozenset(manifest.derive)
    for name, spec in manifest.outputs.items():
        check(spec["shape"], known, f"outputs.{name}.shape")
    check_derive(manifest.derive, known, "derive")
    for i, variant in enumerate(manifest.variants):
        check_variant(variant, known, f"variants[{i}] ({variant.id})")


def check_variant(variant: Variant, known: Set[str], path: str) -> None:
    for key, guards in (("when", variant.when), ("demoteWhen", variant.demote_when)):
        for i, text in enumerate(guards):
            check(text, known, f"{path}.{key}[{i}]")
            check_boolean(text, f"{path}.{key}[{i}]")
    names = known | set(variant.derive)
    check_derive(variant.derive, names, f"{path}.derive")
    for i, item in enumerate(variant.intermediates):
        check(item.shape, names, f"{path}.intermediates[{i}].shape")
    for i, spec in enumerate(variant.passes):
        check_pass(spec, names, f"{path}.passes[{i}]")


def check_pass(spec: PassSpec, known: Set[str], path: str) -> None:
    names = known | set(spec.derive)
    check_derive(spec.derive, names, f"{path}.derive")
    for axis, count in zip("xyz", spec.dispatch, strict=True):
        check(count, names, f"{path}.dispatch.{axis}")
        check_whole(count, f"{path}.dispatch.{axis}")
    for i, binding in enumerate(spec.bindings):
        where = f"{path}.bindings[{i}]"
        element = binding.element_type or ""
        if element.startswith("$") and element != "$T" and element[1:] not in names:
            raise ManifestError(f"{where}.elementType", f"'{element[1:]}' is not defined")
        for j, member in enumerate(binding.struct or ()):
            check(member.value, names, f"{where}.struct[{j}].value")
            if member.type != "f32":
                check_whole(member.value, f"{where}.struct[{j}].value")


def check(text: Any, known: Set[str], path: str) -> frozenset[str]:
    """Compile one expression; every name that it reads must be known."""
    if not isinstance(text, str):
        if not isinstance(text, (bool, int, float)):
            raise ManifestError(path, "an expression, a number or a boolean is needed")
        return frozenset()
    try:
        names = compile_expression(text).names
    except ExpressionError as error:
        raise ManifestError(path, str(error)) from None
    for name in sorted(names - known):
        raise ManifestError(path, f"'{name}' is not defined")
    return names


def check_derive(derive: Mapping[str, Any], known: Set[str], path: str) -> None:
    """Compile derived values and look for one that depends on itself."""
    depends = {name: check(text, known, f"{path}.{name}") for name, text in derive.items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            circle = " > ".join((*trail[trail.index(name) :], name))
            raise ManifestError(f"{path}.{name}", f"depends on itself: {circle}")
        if name in done or name not in depends:
            return
        # `"hasBias": "hasBias"` hands the enclosing scope's value on and is no circle.
        if derive[name] != name or path == "derive":
            for other in sorted(depends[name]):
                visit(other, (*trail, name))
        done.add(name)

    for name in derive:
        visit(name, ())


def check_boolean(text: str, path: str) -> None:
    """A guard that can be seen not to be true or false: a number, a text, a sum."""
    node = parse(text)
    if isinstance(node, nodes.Const):
        wrong = not isinstance(node.value, bool)
    else:
        wrong = not isinstance(node, BOOLEAN)
    if wrong:
        raise ManifestError(path, f"a guard must be true or false: {text}")


def check_whole(value: Any, path: str) -> None:
    """A value that can be seen not to be whole: a text, a fraction, a comparison."""
    node = parse(value) if isinstance(value, str) else nodes.Const(value)
    wrong = isinstance(node, (nodes.Compare, nodes.Not, nodes.Concat, nodes.List))
    if isinstance(node, nodes.Const):
        number = isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
        wrong = not number or node.value != int(node.value)
    if wrong:
        raise ManifestError(path, f"must be whole: {value}")
