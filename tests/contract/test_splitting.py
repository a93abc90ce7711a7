"""Tensors that do not fit a binding: the parts cover the result once and compute the same."""

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


def device(limit: int, most: int = 2**20) -> Capabilities:
    return Capabilities(limits={"maxStorageBufferBindingSize": limit, "maxBufferSize": most})


def joined(x: Any, w: Any, arguments: Any, limit: int) -> np.ndarray:
    """The parts computed by the reference, put where the copies say."""
    operator = builtin("fusedconv")
    request = operator.request(x, w, **arguments)
    given = operands(request.shapes, "float32")
    result = np.full(np.prod(request.output_shape), np.nan, "float32")
    for part, own in parts_of(request, device(limit)):
        pieces = {}
        for name, (held, shape) in slices(request, part).items():
            listed = copies(held, shape, 4, name, "")
            if name == "y":
                y = expected(pieces, own.attributes).astype("float32").reshape(-1)
                assert y.size == np.prod(own.output_shape)
                for c in listed:
                    place = slice(c.source_offset // 4, (c.source_offset + c.nbytes) // 4)
                    assert np.isnan(result[place]).all(), "written twice"
                    result[place] = y[c.target_offset // 4 : (c.target_offset + c.nbytes) // 4]
            else:
                flat = given[name].reshape(-1)
                runs = [
                    flat[c.source_offset // 4 : (c.source_offset + c.nbytes) // 4] for c in listed
                ]
                pieces[name] = np.concatenate(runs).reshape(own.shapes[name])
    return result.reshape(request.output_shape)


@pytest.mark.parametrize(("x", "w", "arguments", "limit"), CASES)
def test_the_parts_make_the_whole(x: Any, w: Any, arguments: Any, limit: int) -> None:
    request = builtin("fusedconv").request(x, w, **arguments)
    want = expected(operands(request.shapes, "float32"), request.attributes)
    assert np.array_equal(joined(x, w, arguments, limit), want.astype("float32"))


@pytest.mark.parametrize(("x", "w", "arguments", "limit"), CASES)
def test_no_binding_of_the_plan_is_over_the_limit(
    x: Any, w: Any, arguments: Any, limit: int
) -> None:
    plan: Plan = builtin("fusedconv").plan(x, w, device=device(limit), **arguments)
    scratch = {item.id: item.nbytes for item in plan.scratch}
    bound = [b for item in plan.passes for b in item.bindings if b.uniform is None]
    assert all(b.operand is None and scratch[b.scratch] <= limit for b in bound)
    copied = sum(c.nbytes for item in plan.passes for c in item.after)
    assert copied == plan.output_nbytes


def test_what_fits_is_not_cut() -> None:
    plan = builtin("fusedconv").plan((1, 4, 9, 9), (8, 4, 3, 3), device=device(8192))
    assert not any(item.before or item.after for item in plan.passes)


def test_what_cannot_be_served_says_how_large_it_is() -> None:
    plan = builtin("fusedconv").plan
    with pytest.raises(UnsupportedError, match="x has 1024 bytes.*at most 1000"):
        plan((1, 1, 256), (1, 1, 1), device=device(512, 1000))
    with pytest.raises(UnsupportedError, match="cannot be cut into parts of at most 16 bytes"):
        plan((1, 64, 2), (1, 64, 1), device=device(16))
