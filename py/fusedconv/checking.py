"""Checks of a manifest that need its expressions: names, circles, and kinds of value."""

from __future__ import annotations

import difflib
import keyword
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import nodes

from .errors import ManifestError
from .expressions import OBJECTS, RESERVED, ExpressionError, compile_expression, parse, read_names
from .jsonform import is_number
from .manifest import BindingSpec, Manifest, PassSpec, Variant

__all__ = ["check_expressions"]

# The kinds of value that can be told without a request.
BOOLEAN, NUMBER, FRACTION, TEXT, LIST = "a boolean", "a number", "a fraction", "a text", "a list"
BY_NODE: Mapping[type[nodes.Node], str] = {
    nodes.Compare: BOOLEAN,
    nodes.Not: BOOLEAN,
    nodes.Concat: TEXT,
    nodes.TemplateData: TEXT,
    nodes.List: LIST,
    nodes.Tuple: LIST,
    nodes.Filter: NUMBER,
    **dict.fromkeys(
        (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.Mod, nodes.Neg, nodes.Pos), NUMBER
    ),
}
BY_FUNCTION: Mapping[str, str] = {
    **dict.fromkeys(("dim", "numel", "ceilDiv", "ceil", "floor", "dtypeBytes"), NUMBER),
    **dict.fromkeys(("sameShape", "has", "f16Ok"), BOOLEAN),
}
BY_OBJECT: Mapping[str, str] = {
    "shapes": LIST,
    "ranks": NUMBER,
    "present": BOOLEAN,
    "dtypes": TEXT,
    "tunables": NUMBER,
}
NO_NAMES: frozenset[str] = frozenset()
# Python itself refuses an expression nested 200 deep: try one that has as many parentheses.
DEEP = 90


@dataclass(frozen=True)
class Facts:
    """What one expression says of itself: derived names, `attrs.x` and the like, its kind."""

    names: frozenset[str]
    members: frozenset[str]
    kind: str | None


@dataclass(frozen=True)
class Known:
    """The names that may be read at one place of the manifest."""

    derived: Set[str]
    members: Set[str]

    def inside(self, derive: Mapping[str, Any], tunables: Mapping[str, Any] = {}) -> Known:
        """The names inside a variant or a pass, which adds some."""
        if not derive and not tunables:
            return self
        more = {f"tunables.{name}" for name in tunables}
        return Known(self.derived | derive.keys(), self.members | more)


def check_expressions(manifest: Manifest) -> None:
    """Raise `ManifestError` for an unknown name, a circle, or a value of the wrong kind."""
    operands = [*manifest.inputs, *manifest.outputs]
    members = {f"{kind}.{name}" for kind in ("shapes", "ranks") for name in operands}
    members |= {f"present.{name}" for name in operands} | {"dtypes.T"}
    members |= {f"dtypes.{name}" for name in manifest.type_constraints}
    members |= {f"attrs.{name}" for name in manifest.attributes}
    members |= {f"tunables.{name}" for name in manifest.tunables}
    known = Known(frozenset(manifest.derive), members)
    for side in ("inputs", "outputs"):
        for name, spec in getattr(manifest, side).items():
            check_kind(spec.get("rank", 1), known, f"{side}.{name}.rank", NUMBER)
    ((output, spec),) = manifest.outputs.items()
    shape = f"outputs.{output}.shape"
    check_kind(spec["shape"], known, shape, LIST)
    reads = {f"{kind}.{output}" for kind in ("shapes", "ranks")}
    depends = {shape: facts(spec["shape"]).names}
    for name, text in manifest.derive.items():
        found = check_derived(name, text, known, "derive")
        depends[name] = found.names | ({shape} if found.members & reads else NO_NAMES)
    refuse_circles(depends, "derive")
    for i, variant in enumerate(manifest.variants):
        check_variant(variant, known, f"variants[{i}] ({variant.id})")


def check_variant(variant: Variant, known: Known, path: str) -> None:
    for key, guards in (("when", variant.when), ("demoteWhen", variant.demote_when)):
        for i, text in enumerate(guards):
            kind = check(text, known, path, key, i).kind
            if kind not in (BOOLEAN, None):
                raise ManifestError(
                    f"{path}.{key}[{i}]", f"a guard must be true or false, '{text}' is {kind}"
                )
    names = known.inside(variant.derive, variant.tunables)
    check_inner_derive(variant.derive, known, names, path)
    for i, item in enumerate(variant.intermediates):
        check_kind(item.shape, names, f"{path}.intermediates[{i}].shape", LIST)
    for i, spec in enumerate(variant.passes):
        check_pass(spec, names, f"{path}.passes[{i}]")


def check_pass(spec: PassSpec, outer: Known, path: str) -> None:
    known = outer.inside(spec.derive)
    check_inner_derive(spec.derive, outer, known, path)
    for axis, count in zip("xyz", spec.dispatch, strict=True):
        where = f"{path}.dispatch.{axis}"
        check_kind(count, known, where, NUMBER)
        refuse_negative(count, where)
    for i, binding in enumerate(spec.bindings):
        check_binding(binding, known, f"{path}.bindings[{i}]")


def check_binding(binding: BindingSpec, known: Known, path: str) -> None:
    element = binding.element_type or ""
    if element.startswith("$") and element != "$T" and element[1:] not in known.derived:
        raise ManifestError(f"{path}.elementType", undefined(element[1:], known.derived))
    for i, member in enumerate(binding.struct or ()):
        where = f"{path}.struct[{i}].value"
        check_kind(member.value, known, where, FRACTION if member.type == "f32" else NUMBER)
        if member.type == "u32":
            refuse_negative(member.value, where)


def check_inner_derive(derive: Mapping[str, Any], outer: Known, known: Known, path: str) -> None:
    """A variant's or a pass's derived values. `"hasZ": "hasZ"` hands on the enclosing scope's."""
    depends: dict[str, frozenset[str]] = {}
    for name, text in derive.items():
        hands_on = text == name
        found = check_derived(name, text, outer if hands_on else known, f"{path}.derive")
        depends[name] = NO_NAMES if hands_on else found.names
    refuse_circles(depends, f"{path}.derive")


def check_derived(name: str, text: Any, known: Known, path: str) -> Facts:
    usable = name.isidentifier() and name.isascii() and not keyword.iskeyword(name)
    if not usable or name.startswith("_") or name in RESERVED:
        raise ManifestError(f"{path}.{name}", f"'{name}' cannot be the name of a derived value")
    return check(text, known, path, name)


def check(text: Any, known: Known, path: str, *place: str | int) -> Facts:
    """Compile one expression; every name that it reads must be known."""
    try:
        found = facts(text) if isinstance(text, str) else constant(text)
    except ExpressionError as error:
        raise ManifestError(join(path, place), str(error)) from None
    if not (found.names <= known.derived and found.members <= known.members):
        missing, names = found.names - known.derived, known.derived
        if not missing:
            missing, names = found.members - known.members, known.members
        raise ManifestError(join(path, place), undefined(min(missing), names))
    return found


def check_kind(value: Any, known: Known, path: str, wanted: str) -> None:
    """Refuse what can be seen to be of another kind; a whole number also serves as a fraction."""
    kind = check(value, known, path).kind
    if kind in (None, wanted) or (wanted == FRACTION and kind == NUMBER):
        return
    need = {NUMBER: "whole", FRACTION: "a number"}.get(wanted, wanted)
    raise ManifestError(path, f"must be {need}, '{value}' is {kind}")


def refuse_negative(value: str | float, path: str) -> None:
    if not isinstance(value, str) and value < 0:
        raise ManifestError(path, f"must not be negative: {value}")


def join(path: str, place: tuple[str | int, ...]) -> str:
    return path + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place)


def undefined(name: str, known: Set[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"'{name}' is not defined" + (f"; did you mean '{near[0]}'?" if near else "")


def refuse_circles(depends: Mapping[str, Set[str]], path: str) -> None:
    """Raise for a derived value that depends on itself."""
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            circle = " > ".join((*trail[trail.index(name) :], name))
            where = f"{path}.{name}" if name.isidentifier() else name
            raise ManifestError(where, f"depends on itself: {circle}")
        if name in done or name not in depends:
            return
        if len(trail) > 200:
            raise ManifestError(f"{path}.{name}", "depends on too long a chain of derived values")
        for other in sorted(depends[name]):
            visit(other, (*trail, name))
        done.add(name)

    for name in depends:
        visit(name, ())


@lru_cache(maxsize=4096)
def facts(text: str) -> Facts:
    """What an expression reads and yields; raises `ExpressionError` where it is none."""
    try:
        compiled = compile_expression(text)
        if compiled.python.count("(") > DEEP:
            compiled.function()
    except ExpressionError:
        raise
    except (SyntaxError, RecursionError, MemoryError):
        raise ExpressionError("the expression is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise ExpressionError(str(error)) from None
    read = (name for name in read_names(text) if name.partition(".")[0] in OBJECTS)
    return Facts(compiled.names, frozenset(read), kind(parse(text)))


def constant(value: Any) -> Facts:
    """A number or a boolean in the place of an expression."""
    if not isinstance(value, bool) and not is_number(value):
        raise ExpressionError("an expression, a finite number or a boolean is needed")
    return Facts(NO_NAMES, NO_NAMES, kind(nodes.Const(value)))


def kind(node: nodes.Node) -> str | None:
    """The kind of value that a syntax tree yields, where that is plain to see."""
    match node:
        case nodes.Const(value=bool()):
            return BOOLEAN
        case nodes.Const(value=int()):
            return NUMBER
        case nodes.Const(value=float()):
            return NUMBER if node.value.is_integer() else FRACTION
        case nodes.Const(value=str()):
            return TEXT
        case nodes.Getattr(node=nodes.Name(name=name)):
            return BY_OBJECT.get(name)
        case nodes.Call(node=nodes.Name(name=name)):
            return BY_FUNCTION.get(name)
        case nodes.Call():
            return BOOLEAN  # device.features.has, the one method there is
        case nodes.And(left=one, right=other) | nodes.Or(left=one, right=other):
            return common(one, other)
        case nodes.CondExpr(expr1=one, expr2=other) if other is not None:
            return common(one, other)
    return BY_NODE.get(type(node))


def common(one: nodes.Node, other: nodes.Node) -> str | None:
    found = kind(one)
    return found if found == kind(other) else None
