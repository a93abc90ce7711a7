"""The expression language: what it computes, and that nothing in it reaches Python."""

import pytest

from fusedconv.evaluation import EvaluationError, Scope
from fusedconv.expressions import ExpressionError, compile_expression, conjuncts, read_names


def scope(**names):
    given = {
        "attrs": {"group": 2, "strides": (2, 3), "activation": "Relu"},
        "shapes": {"x": (1, 6, 5, 7)},
        "ranks": {"x": 4},
        "present": {"bias": False},
        "dtypes": {"T": "f16"},
        "tunables": {"SIZE": 256},
        "limits": {"maxBufferSize": 1024},
        "features": frozenset({"subgroups"}),
        "adapterInfo": {"subgroupMinSize": 32},
    }
    return Scope({}, **{**given, **names})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 - 4", 3),
        ("64 / 2", 32),
        ("7 / 2", 3.5),
        ("7 % 4", 3),
        ("ceil(7 / 2) + floor(7 / 2) + ceilDiv(7, 2)", 11),
        ("min(4, 2, 3) + max(1, 5)", 7),
        ('"vec4<" ~ dtypes.T ~ ">"', "vec4<f16>"),
        ("dim(shapes.x, ranks.x - 1)", 7),
        ("numel(shapes.x)", 210),
        ("sameShape(shapes.x, [1, 6, 5, 7])", True),
        ("attrs.strides[1]", 3),
        ("attrs.strides | length", 2),
        ('has(attrs, "pads")', False),
        ('has(device.adapterInfo, "subgroupMinSize")', True),
        ('device.features.has("subgroups")', True),
        ("device.limits.maxBufferSize >= 1024 and not present.bias", True),
        ("1 if attrs.group == 2 else 0", 1),
        ('attrs.activation == "Relu" or attrs.missing', True),
        ("f16Ok(dtypes.T)", False),
        ('f16Ok("f32")', True),
        ('dtypeBytes("float16") + dtypeBytes("f32")', 6),
        ("1 < 2 <= 2 != 3", True),
        ("-(3) + +4", 1),
    ],
)
def test_value(text, value):
    result = compile_expression(text).function()(scope())
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "x.__class__",
        "''.__class__.__mro__",
        "attrs.__init__",
        "__import__('os')",
        "attrs.values()",
        "device.features.add('x')",
        "''.join(['a'])",
        "x | attr('y')",
        "x | map('upper')",
        "x is defined",
        "2 ** 9",
        "9 // 2",
        "x[1:2]",
        "{'a': 1}",
        "f(1)",
        "dim(*shapes.x)",
        "min(a=1)",
        "1 if x",
        "device",
        "attrs",
        "range",
        "outer",
        "child",
        "lambda",
        "a b",
        "(",
        "",
        "('(' * 2)(1)",
        "(" * 300 + "1" + ")" * 300,
    ],
)
def test_refused_at_load(text):
    with pytest.raises(ExpressionError):
        compile_expression(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("'a' * 1000000000", "needs numbers"),
        ("'%99999999d' % 1", "needs numbers"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "by zero"),
        ("attrs.pads", "attrs.pads is absent"),
        ("attrs.strides[5]", "outside"),
        ("nothing", "not defined"),
        ("numel(range(99999999))", "range"),
    ],
)
def test_refused_when_evaluated(text, message):
    with pytest.raises(EvaluationError, match=message):
        compile_expression(text).function()(scope())


def test_a_chain_of_squares_is_stopped():
    derive = {"d0": lambda s: 2**40}
    for i in range(1, 40):
        derive[f"d{i}"] = compile_expression(f"d{i - 1} * d{i - 1}").function()
    with pytest.raises(EvaluationError, match="2\\*\\*80"):
        _ = Scope(derive).d39


def test_a_chain_of_joins_is_stopped():
    derive = {"d0": lambda s: "x" * 1000}
    for i in range(1, 40):
        derive[f"d{i}"] = compile_expression(f"d{i - 1} ~ d{i - 1}").function()
    with pytest.raises(EvaluationError, match="longer"):
        _ = Scope(derive).d39


def test_names_are_what_it_depends_on():
    text = "kernelRows * dim(shapes.w, 0) if hasBias else attrs.group"
    assert compile_expression(text).names == {"kernelRows", "hasBias"}
    assert read_names(text) == ("hasBias", "kernelRows", "shapes.w", "attrs.group")


def test_conjuncts_are_the_terms_of_an_and():
    assert conjuncts("a and (b or c) and d <= 3") == ("a", "(b or c)", "d <= 3")


def test_a_child_overrides_and_the_parent_does_not_see_it():
    parent = Scope({"N": lambda s: 1, "twice": lambda s: s.N * 2})
    child = parent.child({"N": lambda s: 10, "plus": lambda s: s.N + s.twice})
    assert (child.plus, parent.N) == (12, 1)
