"""Templates to WGSL: a subset of Jinja, compiled to Python functions of a scope.

Jinja parses; what is compiled is on the list below. A template cannot reach Python, and its loops
and macro calls are counted, so one from a URL can be rendered in the page. Compiling to plain
functions lets the shipped operators render without importing Jinja at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateSyntaxError, nodes

from .errors import ManifestError
from .evaluation import FILTERS, NAMESPACE
from .expressions import ENVIRONMENT, RESERVED, ExpressionError, Translator, check_name, describe

__all__ = ["CompiledTemplate", "compile_template", "load_templates"]


@dataclass(frozen=True)
class CompiledTemplate:
    """One template file as Python: `render(s)` gives its text, `module(s)` its macros."""

    name: str
    python: str
    names: frozenset[str]  # read from the scope without asking first whether they are there
    imports: frozenset[str]


def function_name(template: str) -> str:
    """A Python name for a template's path."""
    return "t_" + "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in template)


def compile_template(name: str, source: str) -> CompiledTemplate:
    """Check and compile one template; raises `ManifestError` naming the template and the line."""
    try:
        tree = ENVIRONMENT.parse(source, name)
        writer = TemplateTranslator(name)
        python = writer.template(tree)
    except TemplateSyntaxError as error:
        raise ManifestError(f"{name}:{error.lineno}", error.message or "syntax error") from None
    except RecursionError:
        raise ManifestError(name, "the template is nested too deeply") from None
    return CompiledTemplate(name, python, frozenset(writer.names), frozenset(writer.imports))


def load_templates(templates: Mapping[str, CompiledTemplate]) -> dict[str, Callable[..., str]]:
    """The render function of every template, by template name."""
    namespace: dict[str, Any] = {**NAMESPACE, "__builtins__": {"str": str, "enumerate": enumerate}}
    for template in templates.values():
        for other in template.imports:
            if other not in templates:
                raise ManifestError(template.name, f"there is no template '{other}'")
    refuse_circles(templates)
    for template in templates.values():
        exec(template.python, namespace)  # Python that this module wrote
    return {name: namespace[function_name(name)] for name in templates}


def refuse_circles(templates: Mapping[str, CompiledTemplate]) -> None:
    """A template that includes itself, straight or through others, never ends."""
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            raise ManifestError(name, f"includes itself: {' > '.join((*trail, name))}")
        if name not in done:
            for other in sorted(templates[name].imports):
                visit(other, (*trail, name))
            done.add(name)

    for name in templates:
        visit(name, ())


class TemplateTranslator(Translator):
    """Writes the Python of one template.

    `frames` map Jinja's names to Python's: a loop or a macro opens a frame, and what is set in it
    is not seen outside, as in Jinja.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.imports: set[str] = set()
        self.frames: list[dict[str, str]] = [{}]
        self.modules: set[str] = set()
        self.loops: list[tuple[str, str]] = []
        self.in_macro = False
        self.lines: list[str] = []
        self.depth = 0
        self.count = 0

    # Statements: each writes lines.

    def template(self, tree: nodes.Template) -> str:
        """One function: the text of the template or, for an import, what it sets and defines."""
        self.write(f"def {function_name(self.name)}(s, module=False):")
        self.depth += 1
        self.write("out = []; w = out.append")
        self.block(tree.body)
        exported = ", ".join(f"{name!r}: {python}" for name, python in self.frames[0].items())
        self.write(f"return {{{exported}}} if module else text(s, out)")
        return "\n".join(self.lines) + "\n"

    def write(self, line: str) -> None:
        self.lines.append(" " * self.depth + line)

    def block(self, body: list[nodes.Node]) -> None:
        before = len(self.lines)
        for node in body:
            method = getattr(self, f"write_{type(node).__name__.lower()}", None)
            try:
                if method is None:
                    raise ExpressionError(f"{type(node).__name__} is not allowed in a template")
                method(node)
            except ExpressionError as error:
                raise ManifestError(f"{self.name}:{node.lineno}", str(error)) from None
        if len(self.lines) == before:
            self.write("pass")

    def indented(self, body: list[nodes.Node]) -> None:
        self.depth += 1
        self.block(body)
        self.depth -= 1

    def write_output(self, node: nodes.Output) -> None:
        for part in node.nodes:
            if isinstance(part, nodes.TemplateData):
                self.write(f"w({part.data!r})")
                continue
            try:
                self.write(f"w(str({self.expression(part)}))")
            except ExpressionError as error:  # the part's own line, not the whole output's
                raise ManifestError(f"{self.name}:{part.lineno}", str(error)) from None

    def write_if(self, node: nodes.If) -> None:
        self.write(f"if {self.expression(node.test)}:")
        self.indented(node.body)
        for branch in node.elif_:
            self.write(f"elif {self.expression(branch.test)}:")
            self.indented(branch.body)
        if node.else_:
            self.write("else:")
            self.indented(node.else_)

    def write_for(self, node: nodes.For) -> None:
        if node.else_ or node.test or node.recursive or not isinstance(node.target, nodes.Name):
            raise ExpressionError("a loop is plain: for name in sequence")
        index, sequence = self.fresh("index"), self.fresh("sequence")
        self.write(f"{sequence} = turns(s, {self.expression(node.iter)})")
        self.frames.append({})
        self.loops.append((index, sequence))
        self.write(f"for {index}, {self.bind(node.target.name)} in enumerate({sequence}):")
        self.indented(node.body)
        self.loops.pop()
        self.frames.pop()

    def write_assign(self, node: nodes.Assign) -> None:
        if not isinstance(node.target, nodes.Name):
            raise ExpressionError("set takes one name")
        value = self.expression(node.node)
        self.write(f"{self.bind(node.target.name)} = bounded({value})")

    def write_macro(self, node: nodes.Macro) -> None:
        if self.in_macro or self.loops:
            raise ExpressionError("a macro stands at the top of its template")
        names = [argument.name for argument in node.args]
        required = len(names) - len(node.defaults)
        defaults = [""] * required + [f"={self.expression(value)}" for value in node.defaults]
        # Parameters keep their names behind a prefix, so that a call can name them.
        self.frames.append({name: f"p_{name}" for name in names})
        head = ", ".join(f"p_{n}{d}" for n, d in zip(names, defaults, strict=True))
        python = self.fresh(node.name)
        self.in_macro = True
        self.write(f"def {python}({head}):")
        self.depth += 1
        self.write("s.spend(1); out = []; w = out.append")
        self.block(node.body)
        self.write("return text(s, out)")
        self.depth -= 1
        self.in_macro = False
        self.frames.pop()
        self.frames[0][node.name] = python  # bound only now: a macro cannot call itself

    def write_include(self, node: nodes.Include) -> None:
        visible = {name: python for frame in self.frames for name, python in frame.items()}
        names = "".join(f", {name}={python}" for name, python in visible.items())
        self.write(f"w({self.other(node.template)}(s.child({{}}{names})))")

    def write_import(self, node: nodes.Import) -> None:
        self.write(f"{self.bind(node.target)} = {self.other(node.template)}(s, True)")
        self.modules.add(node.target)

    def write_fromimport(self, node: nodes.FromImport) -> None:
        module = self.fresh("module")
        self.write(f"{module} = {self.other(node.template)}(s, True)")
        for entry in node.names:
            name, alias = entry if isinstance(entry, tuple) else (entry, entry)
            self.write(f"{self.bind(alias)} = look_up({module}, {name!r}, 'import')")

    def other(self, node: nodes.Expr) -> str:
        """The function of another template; names are relative to the operator's folder."""
        if not isinstance(node, nodes.Const) or not isinstance(node.value, str):
            raise ExpressionError("a template is named by a string")
        if node.value.startswith("/") or ".." in node.value.split("/"):
            raise ExpressionError(f"{node.value!r} leaves the operator's folder")
        self.imports.add(node.value)
        return function_name(node.value)

    def fresh(self, name: str) -> str:
        self.count += 1
        return f"l{self.count}_{name}"

    def bind(self, name: str) -> str:
        """The Python variable for `name` in the current frame."""
        check_name(name)
        if name in RESERVED or name == "loop":
            raise ExpressionError(f"'{name}' cannot be set")
        return self.frames[-1].setdefault(name, self.fresh(name))

    def find(self, name: str) -> str | None:
        return next((frame[name] for frame in reversed(self.frames) if name in frame), None)

    # Expressions: the contract's, and what templates may do besides.

    def visit_name(self, node: nodes.Name) -> str:
        return self.find(node.name) or super().visit_name(node)

    def visit_getattr(self, node: nodes.Getattr) -> str:
        if isinstance(node.node, nodes.Name):
            owner = node.node.name
            if owner == "loop" and self.loops:
                return self.loop_value(node.attr)
            if owner in self.modules:
                return f"look_up({self.find(owner)}, {node.attr!r}, {owner!r})"
        return super().visit_getattr(node)

    def loop_value(self, attribute: str) -> str:
        index, sequence = self.loops[-1]
        known = {
            "index0": index,
            "index": f"({index} + 1)",
            "first": f"({index} == 0)",
            "last": f"({index} + 1 == t_length({sequence}))",
            "length": f"t_length({sequence})",
        }
        if attribute not in known:
            raise ExpressionError(f"loop has no '{attribute}'; known: {', '.join(known)}")
        return known[attribute]

    def visit_call(self, node: nodes.Call) -> str:
        callee = node.node
        is_macro = isinstance(callee, nodes.Name) and self.find(callee.name) is not None
        is_module = (
            isinstance(callee, nodes.Getattr)
            and isinstance(callee.node, nodes.Name)
            and callee.node.name in self.modules
        )
        if not (is_macro or is_module):
            return super().visit_call(node)
        if node.dyn_args or node.dyn_kwargs:
            raise ExpressionError("a macro call names its arguments one by one")
        arguments = [self.expression(argument) for argument in node.args]
        arguments += [f"p_{pair.key}={self.expression(pair.value)}" for pair in node.kwargs]
        return f"{self.expression(callee)}({', '.join(arguments)})"

    def visit_filter(self, node: nodes.Filter) -> str:
        if node.node is None or node.kwargs:
            raise ExpressionError("a filter stands behind a value and takes plain arguments")
        arguments = [self.expression(argument) for argument in node.args]
        if node.name in ("default", "d"):
            return self.with_default(node.node, arguments[0] if arguments else "''")
        if node.name not in FILTERS:
            known = ", ".join(["default", *FILTERS])
            raise ExpressionError(f"the filter '{node.name}' is not allowed; known: {known}")
        return f"t_{node.name}({', '.join([self.expression(node.node), *arguments])})"

    def with_default(self, node: nodes.Expr, fallback: str) -> str:
        asked = self.is_there(node)
        return f"({self.quietly(node)} if {asked} else {fallback})"

    def visit_test(self, node: nodes.Test) -> str:
        if node.name == "defined":
            return self.is_there(node.node)
        if node.name == "undefined":
            return f"(not {self.is_there(node.node)})"
        if node.name == "none":
            return f"({self.expression(node.node)} is None)"
        known = "defined, undefined, none"
        raise ExpressionError(f"the test '{node.name}' is not allowed; known: {known}")

    def is_there(self, node: nodes.Expr) -> str:
        """Python that asks whether a name, or an attribute of a fixed object, is defined."""
        if isinstance(node, nodes.Name):
            return "True" if self.find(node.name) else f"s.defines({node.name!r})"
        if isinstance(node, nodes.Getattr):
            return f"({node.attr!r} in {self.object(node.node)})"
        raise ExpressionError(f"cannot ask whether '{describe(node)}' is defined")

    def quietly(self, node: nodes.Expr) -> str:
        """The value of a node whose absence is provided for: its name is not demanded."""
        before = set(self.names)
        python = self.expression(node)
        self.names = before
        return python
