"""The template compiler: the same text as Jinja's own sandbox, and a wall where Jinja has none."""

import pytest
from jinja2 import DictLoader, StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from fusedconv.errors import ManifestError
from fusedconv.evaluation import EvaluationError, Scope
from fusedconv.rendering import compile_template, load_templates

LIBRARY = """{% set K = n * 2 %}
{% macro f(a, b=1) %}
{{ a }}+{{ b }}+{{ n }}
{%- endmacro %}
"""


def ours(source, **names):
    sources = {"main": source, "lib/b": LIBRARY, "part": "[{{ n }}{{ q | default('-') }}]"}
    compiled = {name: compile_template(name, text) for name, text in sources.items()}
    return load_templates(compiled)["main"](Scope({}, attrs={"group": 3}, **names))


def jinjas(source, **names):
    sources = {"main": source, "lib/b": LIBRARY, "part": "[{{ n }}{{ q | default('-') }}]"}
    environment = SandboxedEnvironment(
        loader=DictLoader(sources), trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    return environment.get_template("main").render(attrs={"group": 3}, **names)


@pytest.mark.parametrize(
    "source",
    [
        "plain\n  text {{ n }}\n",
        "{% if n > 3 %}\n  big\n{% elif n %}\nsmall\n{% else %}\nno\n{% endif %}\ntail",
        "{% for i in range(3) %}\n {{ i }}{{ ', ' if not loop.last else ';' }}\n{% endfor %}",
        "{% for a in [1, 2] %}{% for b in [a] %}{{ a }}{{ loop.index }}{% endfor %}{% endfor %}",
        "{% set x = 1 %}{% for i in range(2) %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
        "{% if n %}{% set x = 1 %}{% else %}{% set x = 2 %}{% endif %}{{ x }}",
        "{% from 'lib/b' import f, K as k with context %}{{ f(1) }}{{ f(a=2, b=k) }}",
        "{% import 'lib/b' as lib with context %}{{ lib.f(3, 4) }}{{ lib.K }}",
        "{% macro m(a, b='-') %}<{{ a }}{{ b }}{{ n }}>{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}",
        "{% set q = 5 %}{% include 'part' %}{{ missing | default(7) }}",
        "{{ missing is defined }}{{ n is defined }}{{ none is none }}{{ attrs.group }}",
        "{{ [1, 2] | join('-') }}{{ [3, 4] | length }}{{ 2.5 | int }}{{ -3 | abs }}",
        "{{ 7 % 3 }}{{ n ~ 'x' }}{{ 1 if n == 4 else 2 }}{{ n in [3, 4] }}{{ not n }}",
        "{# a comment #}{{ 'quoted \\\\ text' }}{% raw %}{{ raw }}{% endraw %}",
    ],
)
def test_the_same_text_as_jinja(source):
    assert ours(source, n=4) == jinjas(source, n=4)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a\n{{ x.__class__ }}", "main:2"),
        ("{{ ''.join([1]) }}", "cannot be called"),
        ("{{ self }}", "not defined"),
        ("{% set ns = namespace() %}", "namespace"),
        ("{{ x | map('upper') }}", "not allowed"),
        ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "'a' is no function"),
        ("{% include '../secret' %}", "leaves the operator's folder"),
        ("{% include name %}", "named by a string"),
        ("{% import 'gone' as g %}", "no template 'gone'"),
        ("{% include 'main' %}", "includes itself"),
        ("{% extends 'part' %}", "Extends is not allowed"),
        ("{% for i in x recursive %}{% endfor %}", "plain"),
        ("{% if %}", "main:1"),
        ("{% set range = 1 %}", "cannot be set"),
        ("{% set __x = 1 %}", "not allowed"),
    ],
)
def test_refused(source, message):
    with pytest.raises((ManifestError, EvaluationError), match=message):
        ours(source, n=4)


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}",
        "{% set x = 'a' * 99999999 %}",
        "{% macro a() %}" + "x" * 999 + "{% endmacro %}"
        "{% for i in range(60000) %}{% for j in range(9) %}{{ a() }}{% endfor %}{% endfor %}",
    ],
)
def test_a_template_that_never_ends_is_stopped(source):
    with pytest.raises(EvaluationError):
        ours(source, n=4)
