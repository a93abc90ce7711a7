"""The contract's expression language: Jinja's grammar, an allow-list, compiled to Python.

Jinja parses; every node that is not on the list below is refused when the manifest loads, so an
expression can reach the request, the device and a dozen functions, and never Python itself.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.parser import Parser

from .evaluation import FUNCTIONS, NAMESPACE, Compiled, Scope

__all__ = ["Expression", "ExpressionError", "Translator", "compile_expression"]

# The objects a name can be, and where the scope keeps each.
OBJECTS = frozenset({"attrs", "shapes", "ranks", "present", "dtypes", "tunables"})
DEVICE_OBJECTS = frozenset({"limits", "features", "adapterInfo"})

# What a scope is made of has names too; no derived value may take one of them.
RESERVED = frozenset(dir(Scope)) | OBJECTS | DEVICE_OBJECTS | {"device"} | frozenset(FUNCTIONS)

COMPARISONS: Mapping[str, str] = MappingProxyType(
    {"eq": "==", "ne": "!=", "lt": "<", "lteq": "<=", "gt": ">", "gteq": ">=", "in": "in"}
)

ENVIRONMENT = Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False)


class ExpressionError(ValueError):
    """The text is not an expression of the contract."""


@dataclass(frozen=True)
class Expression:
    """One compiled expression: its text, the names it depends on, and Python that computes it."""

    text: str
    names: frozenset[str]
    python: str

    def function(self) -> Compiled:
        """The expression as a function of a `Scope`."""
        return evaluate(f"lambda s: {self.python}")


def evaluate(python: str) -> Compiled:
    """Turn Python that this module wrote into a function."""
    compiled: Compiled = eval(python, {**NAMESPACE, "__builtins__": {}})
    return compiled


@lru_cache(maxsize=4096)
def parse(text: str) -> nodes.Expr:
    """Jinja's syntax tree of one expression."""
    try:
        parser = Parser(ENVIRONMENT, text, state="variable")
        node = parser.parse_expression()
        if not parser.stream.eos:
            raise ExpressionError(f"unexpected {parser.stream.current.value!r} in {text!r}")
    except TemplateSyntaxError as error:
        raise ExpressionError(f"{error.message} in {text!r}") from None
    return node


@lru_cache(maxsize=4096)
def compile_expression(text: str) -> Expression:
    """Check and compile `text`; raises `ExpressionError` for anything outside the language."""
    translator = Translator()
    try:
        python = translator.expression(parse(text))
    except RecursionError:
        raise ExpressionError("the expression is nested too deeply") from None
    return Expression(text, frozenset(translator.names), python)


class Translator:
    """Writes the Python of a syntax tree; `names` collects what it reads from the scope."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def expression(self, node: nodes.Node) -> str:
        """Python source for one node, or `ExpressionError`."""
        method: Callable[[nodes.Node], str] | None
        method = getattr(self, f"visit_{type(node).__name__.lower()}", None)
        if method is None:
            raise ExpressionError(f"{type(node).__name__} is not allowed in an expression")
        python: str = method(node)
        return python

    def visit_const(self, node: nodes.Const) -> str:
        if node.value is not None and not isinstance(node.value, (str, int, float)):
            raise ExpressionError(f"the constant {node.value!r} is not allowed")
        return repr(node.value)

    def visit_templatedata(self, node: nodes.TemplateData) -> str:
        return repr(node.data)

    def visit_name(self, node: nodes.Name) -> str:
        check_name(node.name)
        if node.name in RESERVED:
            raise ExpressionError(f"'{node.name}' has no value of its own")
        self.names.add(node.name)
        return f"s.{node.name}"

    def visit_getattr(self, node: nodes.Getattr) -> str:
        check_name(node.attr)
        return f"look_up({self.object(node.node)}, {node.attr!r}, {describe(node.node)!r})"

    def object(self, node: nodes.Node) -> str:
        """One of the fixed objects: `attrs`, `shapes`, `device.limits`..."""
        if isinstance(node, nodes.Name) and node.name in OBJECTS:
            return f"s.{node.name}"
        if (
            isinstance(node, nodes.Getattr)
            and isinstance(node.node, nodes.Name)
            and node.node.name == "device"
            and node.attr in DEVICE_OBJECTS
        ):
            return f"s.{node.attr}"
        raise ExpressionError(f"'{describe(node)}' has no attributes to read")

    def visit_getitem(self, node: nodes.Getitem) -> str:
        return f"item({self.expression(node.node)}, {self.expression(node.arg)})"

    def visit_call(self, node: nodes.Call) -> str:
        if node.kwargs or node.dyn_args or node.dyn_kwargs:
            raise ExpressionError("a call takes plain arguments only")
        if isinstance(node.node, nodes.Getattr):
            return self.feature_test(node.node, node.args)
        name = node.node.name if isinstance(node.node, nodes.Name) else describe(node.node)
        if name == "has":
            return self.presence_test(node.args)
        if name == "f16Ok" and len(node.args) == 1:
            kind = self.expression(node.args[0])
            return f"({kind} != 'f16' or 'shader-f16' in s.features)"
        if name not in FUNCTIONS:
            known = ", ".join(["has", "f16Ok", *FUNCTIONS])
            raise ExpressionError(f"'{name}' is no function; known: {known}")
        return f"f_{name}({', '.join(map(self.expression, node.args))})"

    def feature_test(self, method: nodes.Getattr, arguments: list[nodes.Expr]) -> str:
        if method.attr != "has" or len(arguments) != 1 or self.object(method.node) != "s.features":
            raise ExpressionError(f"'{describe(method)}' cannot be called")
        return f"({self.expression(arguments[0])} in s.features)"

    def presence_test(self, arguments: list[nodes.Expr]) -> str:
        if len(arguments) != 2:
            raise ExpressionError('has takes an object and a name: has(attrs, "group")')
        return f"({self.expression(arguments[1])} in {self.object(arguments[0])})"

    def visit_filter(self, node: nodes.Filter) -> str:
        if node.name != "length" or node.node is None or node.args or node.kwargs:
            raise ExpressionError(f"the filter '{node.name}' is not allowed; known: length")
        return f"t_length({self.expression(node.node)})"

    def visit_condexpr(self, node: nodes.CondExpr) -> str:
        if node.expr2 is None:
            raise ExpressionError("'a if c' needs an else")
        parts = (node.expr1, node.test, node.expr2)
        return "({} if {} else {})".format(*map(self.expression, parts))

    def visit_compare(self, node: nodes.Compare) -> str:
        text = self.expression(node.expr)
        for operand in node.ops:
            if operand.op not in COMPARISONS:
                raise ExpressionError(f"the comparison '{operand.op}' is not allowed")
            text += f" {COMPARISONS[operand.op]} {self.expression(operand.expr)}"
        return f"({text})"

    def visit_not(self, node: nodes.Not) -> str:
        return f"(not {self.expression(node.node)})"

    def visit_neg(self, node: nodes.Neg) -> str:
        return f"(-{self.expression(node.node)})"

    def visit_pos(self, node: nodes.Pos) -> str:
        return self.expression(node.node)

    def visit_and(self, node: nodes.And) -> str:
        return f"({self.expression(node.left)} and {self.expression(node.right)})"

    def visit_or(self, node: nodes.Or) -> str:
        return f"({self.expression(node.left)} or {self.expression(node.right)})"

    def visit_add(self, node: nodes.Add) -> str:
        return self.binary("add", node)

    def visit_sub(self, node: nodes.Sub) -> str:
        return f"({self.expression(node.left)} - {self.expression(node.right)})"

    def visit_mul(self, node: nodes.Mul) -> str:
        return self.binary("mul", node)

    def visit_div(self, node: nodes.Div) -> str:
        return self.binary("div", node)

    def visit_mod(self, node: nodes.Mod) -> str:
        return self.binary("mod", node)

    def binary(self, function: str, node: nodes.BinExpr) -> str:
        return f"{function}({self.expression(node.left)}, {self.expression(node.right)})"

    def visit_concat(self, node: nodes.Concat) -> str:
        return f"concat({', '.join(map(self.expression, node.nodes))})"

    def visit_list(self, node: nodes.List) -> str:
        return f"({''.join(self.expression(item) + ', ' for item in node.items)})"

    def visit_tuple(self, node: nodes.Tuple) -> str:
        return f"({''.join(self.expression(item) + ', ' for item in node.items)})"


def check_name(name: str) -> None:
    """Refuse what could reach Python: dunders, private names, keywords."""
    if name.startswith("_") or keyword.iskeyword(name) or not name.isascii():
        raise ExpressionError(f"the name '{name}' is not allowed")


def conjuncts(text: str) -> tuple[str, ...]:
    """The terms that `text` joins by `and`, each as text; one term when it joins nothing."""

    def split(node: nodes.Node) -> tuple[str, ...]:
        if isinstance(node, nodes.And):
            return split(node.left) + split(node.right)
        return (describe(node),)

    return split(parse(text))


_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "And": "and", "Or": "or"}


def describe(node: nodes.Node) -> str:
    """The expression as text again, for people to read."""
    match node:
        case nodes.Const():
            words = {True: "true", False: "false", None: "none"}
            plain = isinstance(node.value, (bool, type(None)))
            return words[node.value] if plain else repr(node.value)
        case nodes.Name():
            return node.name
        case nodes.Getattr():
            return f"{describe(node.node)}.{node.attr}"
        case nodes.Getitem():
            return f"{describe(node.node)}[{describe(node.arg)}]"
        case nodes.Call():
            return f"{describe(node.node)}({', '.join(map(describe, node.args))})"
        case nodes.Filter() if node.node is not None:
            return f"({describe(node.node)} | {node.name})"
        case nodes.Not():
            return f"not {describe(node.node)}"
        case nodes.Neg():
            return f"-{describe(node.node)}"
        case nodes.Compare():
            tail = "".join(f" {COMPARISONS[o.op]} {describe(o.expr)}" for o in node.ops)
            return describe(node.expr) + tail
        case nodes.CondExpr() if node.expr2 is not None:
            parts = (node.expr1, node.test, node.expr2)
            return "({} if {} else {})".format(*map(describe, parts))
        case nodes.Concat():
            return " ~ ".join(map(describe, node.nodes))
        case nodes.List() | nodes.Tuple():
            return f"[{', '.join(map(describe, node.items))}]"
        case nodes.BinExpr():
            return f"({describe(node.left)} {_SIGNS[type(node).__name__]} {describe(node.right)})"
    return type(node).__name__


def read_names(text: str) -> tuple[str, ...]:
    """What an expression reads, as text in order: `kernelRows`, `attrs.group`, `shapes.x`."""
    found: dict[str, None] = {}

    def walk(node: nodes.Node) -> None:
        if isinstance(node, nodes.Getattr) or (
            isinstance(node, nodes.Name) and node.name not in RESERVED
        ):
            found[describe(node)] = None
            return
        callee = [node.node] if isinstance(node, nodes.Call) else []
        for child in node.iter_child_nodes():
            if child not in callee:
                walk(child)

    walk(parse(text))
    return tuple(found)
