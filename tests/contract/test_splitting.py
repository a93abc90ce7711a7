"""Tensors that do not fit a binding: the parts cover the result once and compute the same."""

import math
from typing import Any

import numpy as np
import pytest

from fusedconv import Capabilities, UnsupportedError
from fusedconv.operator import builtin
from fusedconv.plan import Plan
from fusedconv.splitting import copies, parts_of, slices

from ..fills import expected, operands

CASES = [
    pytest.param((6, 4, 9, 9), (8, 4, 3, 3), {"pads": [1] * 4}, 8192, id="batch"),
    pytest.param((2, 4, 9, 9), (64, 4, 3, 3), {"bias": True}, 4096, id="channels"),
    pytest.param((1, 2, 64, 16), (3, 2, 5, 3), {"pads": [2, 1, 2, 1], "z": True}, 4096, id="rows"),
    pytest.param((1, 2, 61, 17), (2, 2, 4, 3), {"strides": [3, 2], "dilations": [2, 1]}, 4096, id="strided-rows"),
    pytest.param((1, 2, 63, 17), (4, 2, 4, 3), {"auto_pad": "SAME_LOWER", "strides": 2}, 4096, id="same"),
    pytest.param((2, 8, 16, 16), (8, 2, 3, 3), {"group": 4, "bias": True}, 4096, id="groups"),
    pytest.param((2, 3, 900), (4, 3, 5), {"pads": [2, 2]}, 4096, id="1d"),
    pytest.param((1, 2, 12, 12, 12), (2, 2, 3, 3, 3), {}, 8192, id="3d"),
]  # fmt: skip
TRANSPOSED = [
    pytest.param((6, 4, 9, 9), (4, 8, 3, 3), {"pads": [1] * 4}, 8192, id="batch"),
    pytest.param((2, 4, 9, 9), (4, 32, 3, 3), {"bias": True, "strides": 2}, 8192, id="channels"),
    pytest.param((1, 2, 64, 16), (2, 3, 5, 3), {"pads": [2, 1, 0, 1], "z": True}, 4096, id="rows"),
    pytest.param((1, 2, 31, 9), (2, 2, 4, 3), {"strides": [3, 2], "dilations": [2, 1], "output_padding": [2, 1]}, 4096, id="strided-rows"),
    pytest.param((1, 2, 31, 9), (2, 4, 2, 3), {"auto_pad": "SAME_LOWER", "strides": 4}, 4096, id="same"),
    pytest.param((1, 2, 31, 9), (2, 4, 5, 3), {"strides": 2, "output_shape": [60, 17]}, 4096, id="output-shape"),
    pytest.param((2, 8, 16, 16), (8, 2, 3, 3), {"group": 4, "bias": True}, 8192, id="groups"),
    pytest.param((2, 3, 300), (3, 4, 5), {"pads": [2, 2], "strides": 3}, 4096, id="1d"),
    pytest.param((1, 2, 9, 6, 6), (2, 2, 3, 3, 3), {"strides": 2}, 8192, id="3d"),
]  # fmt: skip
BOTH = [
    pytest.param(name, *case.values, id=f"{name}-{case.id}")
    for name, cases in (("fusedconv", CASES), ("convtranspose", TRANSPOSED))
    for case in cases
]


def device(limit: int, most: int = 2**20) -> Capabilities:
    return Capabilities(limits={"maxStorageBufferBindingSize": limit, "maxBufferSize": most})


def joined(name: str, x: Any, w: Any, arguments: Any, limit: int) -> np.ndarray:
    """The parts computed by the reference, put where the copies say."""
    operator = builtin(name)
    request = operator.request(x, w, **arguments)
    given = operands(request.shapes, "float32")
    result = np.full(np.prod(request.output_shape), np.nan, "float32")
    for part, piece in parts_of(request, device(limit), operator.rules.piece):
        pieces = {}
        own = piece.request
        for tensor, (held, shape) in slices(request, part, piece).items():
            listed = copies(held, shape, 4, tensor, "")
            if tensor == "y":
                transposed = name == "convtranspose"
                y = expected(pieces, own.attributes, transposed).astype("float32")
                assert y.shape == own.output_shape
                y = y.reshape(-1)
                for c in listed:
                    place = slice(c.source_offset // 4, (c.source_offset + c.nbytes) // 4)
                    assert np.isnan(result[place]).all(), "written twice"
                    result[place] = y[c.target_offset // 4 : (c.target_offset + c.nbytes) // 4]
            else:
                flat = given[tensor].reshape(-1)
                runs = [
                    flat[c.source_offset // 4 : (c.source_offset + c.nbytes) // 4] for c in listed
                ]
                pieces[tensor] = np.concatenate(runs).reshape(own.shapes[tensor])
    return result.reshape(request.output_shape)


@pytest.mark.parametrize(("name", "x", "w", "arguments", "limit"), BOTH)
def test_the_parts_make_the_whole(name: str, x: Any, w: Any, arguments: Any, limit: int) -> None:
    request = builtin(name).request(x, w, **arguments)
    given = operands(request.shapes, "float32")
    want = expected(given, request.attributes, name == "convtranspose")
    assert np.array_equal(joined(name, x, w, arguments, limit), want.astype("float32"))


@pytest.mark.parametrize(("name", "x", "w", "arguments", "limit"), BOTH)
def test_no_binding_of_the_plan_is_over_the_limit(
    name: str, x: Any, w: Any, arguments: Any, limit: int
) -> None:
    plan: Plan = builtin(name).plan(x, w, device=device(limit), **arguments)
    sizes = {item.id: item.nbytes for item in plan.scratch}
    sizes |= {operand: 4 * math.prod(shape) for operand, shape in plan.operands.items()}
    sizes["y"] = plan.output_nbytes
    bound = [b for item in plan.passes for b in item.bindings if b.uniform is None]
    assert all(sizes[b.operand or b.scratch] <= limit for b in bound)
    copied = sum(c.nbytes for item in plan.passes for c in item.after)
    assert copied in (0, plan.output_nbytes)
    assert copied or plan.output_nbytes <= limit


@pytest.mark.parametrize(
    ("x", "w", "limit"),
    [
        ((6, 1, 5, 5), (1, 1, 3, 3), 128),  # an odd number of halves in an image
        ((1, 1, 5, 5), (7, 1, 3, 3), 64),  # in a channel
        ((1, 1, 10, 4), (3, 1, 1, 1), 120),  # in the bias
    ],
)
def test_halves_are_copied_in_pairs(x: Any, w: Any, limit: int) -> None:
    capabilities = Capabilities(("shader-f16",), device(limit).limits)
    plan = builtin("fusedconv").plan(x, w, bias=True, dtype="float16", device=capabilities)
    listed = [c for item in plan.passes for c in (*item.before, *item.after)]
    assert listed
    assert all(n % 4 == 0 for c in listed for n in (c.source_offset, c.target_offset, c.nbytes))


def test_what_fits_is_not_cut() -> None:
    plan = builtin("fusedconv").plan((1, 4, 9, 9), (8, 4, 3, 3), device=device(8192))
    assert not any(item.before or item.after for item in plan.passes)


def test_what_cannot_be_served_says_how_large_it_is() -> None:
    plan = builtin("fusedconv").plan
    with pytest.raises(UnsupportedError, match=r"x has 1024 bytes.*at most 1000"):
        plan((1, 1, 256), (1, 1, 1), device=device(512, 1000))
    with pytest.raises(UnsupportedError, match="cannot be cut into parts of at most 16 bytes"):
        plan((1, 64, 2), (1, 64, 1), device=device(16))


def test_what_cannot_be_served_is_told_at_once() -> None:
    """However many ways of cutting there are."""
    plan = builtin("fusedconv").plan
    with pytest.raises(UnsupportedError, match="cannot be cut"):
        plan((9, 64, 9000, 2), (9000, 64, 1, 1), device=device(100, 2**40))
    halves = Capabilities(("shader-f16",), device(30_000, 2**40).limits)
    with pytest.raises(UnsupportedError, match="copied in pairs"):
        plan((1, 3, 901, 901), (1, 3, 1, 1), dtype="float16", device=halves)
