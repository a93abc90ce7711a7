"""Tensors larger than a binding, in the browser: cut, copied, run part by part, put together."""

from __future__ import annotations

from typing import Any

import pytest

from fusedconv import Capabilities

from ..hazards import HazardCase
from .conftest import BrowserPython
from .test_hazards import LOWERED, OPERATOR, RUN_LOWERED, TRANSPOSED, arguments, device, faults, job

pytestmark = pytest.mark.needs_numpy

# (cut along, request, limit of a binding in bytes for f32)
CASES = [
    ("batch", HazardCase((6, 4, 9, 9), (8, 4, 3, 3), {"pads": [1] * 4}), 8192),
    ("channels", HazardCase((2, 4, 9, 9), (64, 4, 3, 3), bias=True, z=True), 4096),
    (
        "rows",
        HazardCase((1, 2, 64, 16), (3, 2, 5, 3), {"pads": [2, 1, 2, 1]}, bias=True, z=True),
        4096,
    ),
    (
        "strided rows",
        HazardCase((1, 2, 61, 18), (2, 2, 4, 3), {"strides": [3, 2], "dilations": [2, 1]}),
        4096,
    ),
    (
        "same",
        HazardCase((1, 2, 63, 18), (4, 2, 4, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        4096,
    ),
    ("groups", HazardCase((2, 8, 16, 16), (8, 2, 3, 3), {"group": 4}, bias=True), 4096),
    ("positions", HazardCase((2, 3, 900), (4, 3, 5), {"pads": [2, 2]}, z=True), 4096),
    ("slices", HazardCase((1, 2, 12, 12, 12), (2, 2, 3, 3, 3)), 8192),
    (
        "transposed rows",
        HazardCase(
            (1, 2, 31, 10),
            (2, 2, 4, 3),
            {"strides": [3, 2], "dilations": [2, 1], "pads": [0, 0, 0, 1]},
            z=True,
            transposed=True,
        ),
        4096,
    ),
    (
        "transposed groups",
        HazardCase(
            (2, 8, 16, 16),
            (8, 2, 2, 2),
            {"group": 4, "strides": [2, 2]},
            bias=True,
            transposed=True,
        ),
        8192,
    ),
    # Parts that take several passes, and a product with scratch of its own.
    ("products", HazardCase((3, 32, 20, 20), (70, 32, 3, 3), {"pads": [1] * 4}), 120_000),
]


def lowered(capabilities: Capabilities, limit: int) -> Capabilities:
    limits = {**capabilities.limits, "maxStorageBufferBindingSize": limit}
    return Capabilities(capabilities.features, limits, capabilities.adapter_info)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float16", marks=pytest.mark.needs_f16)])
def test_parts_are_the_whole(dtype: str, browser_python: BrowserPython) -> None:
    there = device(browser_python)
    found: list[str] = []
    for name, case, limit in CASES:
        small = lowered(there, limit // 2 if dtype == "float16" else limit)
        operator = TRANSPOSED if case.transposed else OPERATOR
        plan = operator.plan(case.x, case.w, device=small, **arguments(case, dtype))
        assert any(p.before for p in plan.passes), name
        results = browser_python(
            LOWERED + RUN_LOWERED, cases=[job(case, dtype)] * 2, lowered=small.to_json()
        )
        found += faults(results, [(case, name)] * 2, dtype)
    assert not found


def test_prepared_chained_and_profiled(browser_python: BrowserPython) -> None:
    """Resident operands, `out`, a batch and a profile take cut tensors like any other."""
    case = HazardCase((4, 4, 9, 9), (4, 4, 3, 3), {"pads": [1] * 4}, bias=True)
    small = lowered(device(browser_python), 4096)
    given = job(case, "float32")
    results = browser_python(
        LOWERED
        + """
await fusedconv.device()
with planning(lowered):
    t = await fusedconv.array(case["x"])
    out = await fusedconv.array(np.full((4, 4, 9, 9), np.nan, "float32"))
    conv = await fusedconv.prepare(case["w"], case["bias"], **case["options"])
    await conv(t, out=out)
    async with fusedconv.batch():
        a = await conv(t)
        b = await conv(a)
    with fusedconv.profile() as p:
        c = await conv(t)
    d = await conv(await conv(t))
    results = [await y.numpy() for y in (out, a, c)]
    same = (await b.numpy()).tobytes() == (await d.numpy()).tobytes()
    conv.free()
results, same, len(p.records)
""",
        case=given,
        lowered=small.to_json(),
    )
    assert not faults(results[0], [(case, name) for name in ("out", "batch", "profile")], "float32")
    assert results[1:] == [True, 1]


def test_tensors_over_128_mib(browser_python: BrowserPython) -> None:
    """On a device with WebGPU's default limits, whose bindings hold 128 MiB."""
    result: dict[str, Any] = browser_python(
        """
        import fusedconv, js, numpy as np
        own = await (await js.navigator.gpu.requestAdapter()).requestDevice()
        device = await fusedconv.device(own)
        limit = device.capabilities.limits["maxStorageBufferBindingSize"]
        x = np.arange(2 * 17_000_000, dtype=np.float32).reshape(2, 1, -1)
        x %= 257
        w = np.array([[[1, -2, 0.5]]], np.float32)
        plan, half = fusedconv.plan(x.shape, w.shape), fusedconv.plan((1, *x.shape[1:]), w.shape)
        t = await fusedconv.array(x)
        y = await (await fusedconv.run(t, w)).numpy()
        t.free()
        want = x[..., :-2] - 2 * x[..., 1:-1]
        want += 0.5 * x[..., 2:]
        before = fusedconv.memory()
        texts = []
        for shapes in (((1, 1, 2**26 + 1), (1, 1, 1)), ((1, 2, 2**24), (8, 2, 1))):
            try:
                fusedconv.plan(*shapes)
            except fusedconv.UnsupportedError as error:
                texts.append(str(error))
        result = {"same": bool(np.array_equal(y, want)), "parts": len(plan.passes) / len(half.passes), "limit": limit,
                  "bytes": x.nbytes, "texts": texts, "kept": fusedconv.memory() == before}
        device.close()
        own.destroy()
        result
        """
    )
    assert result["bytes"] > result["limit"] == 2**27
    assert result["parts"] == 2
    assert result["same"]
    assert result["kept"]
    assert (
        "x has 268435460 bytes; a buffer of this device holds at most 268435456"
        in (result["texts"][0])
    )
    assert "y has 536870912 bytes" in result["texts"][1]


def test_what_cannot_be_served_allocates_nothing(browser_python: BrowserPython) -> None:
    small = lowered(device(browser_python), 16)
    texts = browser_python(
        LOWERED
        + """
await fusedconv.device()
x, w = np.ones((1, 64, 2), "float32"), np.ones((1, 64, 1), "float32")
t = await fusedconv.array(x)
before = fusedconv.memory()
texts = []
with planning(lowered):
    for call in (fusedconv.run(x, w), fusedconv.run(t, w), fusedconv.run(x, w, pads=[1, 0])):
        try:
            await call
        except fusedconv.UnsupportedError as error:
            texts.append(str(error))
after = fusedconv.memory()
texts, after.buffers_created - before.buffers_created, after.in_use - before.in_use
""",
        lowered=small.to_json(),
    )
    assert len(texts[0]) == 3
    assert all("cannot be cut into parts of at most 16 bytes" in text for text in texts[0])
    assert all("x 512, w 256, y" in text for text in texts[0])
    assert texts[1:] == [0, 0]
