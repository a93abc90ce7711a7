"""Operands in the browser: every kind reaches the GPU unharmed, and what is wrong never does."""

from __future__ import annotations

import pytest

from .conftest import BrowserPython
from .handmade import HANDMADE


@pytest.mark.needs_numpy
def test_numpy_views_and_byte_orders(browser_python: BrowserPython) -> None:
    results = browser_python(
        HANDMADE
        + """
x = ramp(2, 3, 8)
views = [x, np.asfortranarray(x), x[::-1, :, ::-1], x[:, ::2, 1::2], x.transpose(2, 0, 1),
         np.broadcast_to(x[:, :1, :1], x.shape), x.astype(">f4"), x.astype(">f4").T]
double = Handmade("x[i] + w[i]")
[[bool(np.array_equal(await run(double, v, v), 2 * v)) for v in views],
 [bool(np.array_equal(await (await fusedconv.array(v)).numpy(), v)) for v in views]]
"""
    )
    assert results == [[True] * 8] * 2


def test_buffers_and_typed_arrays_without_numpy(browser_python: BrowserPython) -> None:
    results = browser_python(
        """
        import array, js, struct, fusedconv
        from pyodide.code import run_js
        values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        shape = (1, 2, 3)
        typed = run_js("new Float32Array([9, 1, 2, 3, 4, 5, 6]).subarray(1)")
        given = [
            (array.array("f", values), shape), (memoryview(array.array("f", values)), [1, 2, 3]),
            (struct.pack("6f", *values), shape), (typed, shape),
            fusedconv.HostTensor(array.array("f", values), shape),
        ]
        results = []
        for item in given:
            t = await fusedconv.array(item)
            results.append((await t.to_host()).tolist())
        bits = run_js("new Uint16Array([0x3c00, 0x4000, 0x4200])")
        halves = await fusedconv.array((bits, (3,)))
        results.append([halves.dtype, (await halves.to_host()).tolist()])
        plain = await fusedconv.array(run_js("new Float32Array([1, 2])"))
        results.append([plain.shape, (await plain.to_host()).tolist()])
        w = (array.array("f", [1, 0, 0, 1]), (2, 2, 1))
        y = await fusedconv.run((typed, shape), w, (array.array("f", [10, 20]), (2,)))
        results.append(memoryview(y).tolist())
        results.append((await (await fusedconv.array((array.array("d", values), shape), cast=True)).to_host()).tolist())
        results.append((await (await fusedconv.array((run_js("new Int32Array([1, 2, 3])"), (3,)), cast=True)).to_host()).tolist())
        results
        """
    )
    nested = [[[1, 2, 3], [4, 5, 6]]]
    assert results[:5] == [nested] * 5
    assert results[5] == ["float16", [1, 2, 3]]
    assert results[6] == [[2], [1, 2]]
    assert results[7] == [[[11, 12, 13], [24, 25, 26]]]
    assert results[8] == nested
    assert results[9] == [1, 2, 3]


def test_a_typed_array_may_change_after_the_call(browser_python: BrowserPython) -> None:
    value = browser_python(
        """
        import fusedconv
        from pyodide.code import run_js
        typed = run_js("new Float32Array([1, 2, 3])")
        call = fusedconv.array((typed, (3,)))
        typed.fill(7)
        (await (await call).to_host()).tolist()
        """
    )
    assert value == [1, 2, 3]


def test_wrong_typed_arrays_are_refused(browser_python: BrowserPython) -> None:
    texts = browser_python(
        """
        import fusedconv
        from pyodide.code import run_js
        texts = []
        for text, shape in [("new Float32Array(3)", (4,)), ("new Float64Array(3)", (3,)),
                            ("new Int8Array(3)", (3,)), ("new BigInt64Array(3)", (3,)),
                            ("new ArrayBuffer(12)", (3,)), ("[1, 2, 3]", (3,)), ("({})", (3,)),
                            ("(() => 1)", (3,)), ("new DataView(new ArrayBuffer(12))", (3,))]:
            try:
                await fusedconv.array((run_js(text), shape))
                texts.append("no error")
            except fusedconv.RequestError as error:
                texts.append(str(error))
        texts
        """
    )
    assert texts[0] == "x: got a Float32Array of 3 elements; allowed: 4 for shape (4,)"
    assert "Float32Array.from(...), or cast=True" in texts[1]
    assert "dtype int8" in texts[2]
    assert all(text.startswith("x: got ") for text in texts)


@pytest.mark.needs_numpy
def test_refusals_come_before_any_allocation(browser_python: BrowserPython) -> None:
    results = browser_python(
        HANDMADE
        + """
x, w = ramp(1, 4, 6, 6), ramp(8, 4, 3, 3)
await fusedconv.run(x, w)
t = await fusedconv.array(x)
gc.collect()
before = fusedconv.memory()
bad = [
    (x.astype(float), w, {}), (x, w.astype(np.int32), {}), (x, w.astype(np.float16), {}),
    (t, w.astype(np.float16), {}), (x, w[0], {}), (x, w, dict(bias=ramp(9))),
    (x, w, dict(bias=ramp(8, 1))), (x, w, dict(z=x)), (x, w, dict(pads=[1])),
    (x, w, dict(stride=[1, 1])), (x, w, dict(activation="relu")), (x.tolist(), w, {}),
    (x, None, {}), (x, w, dict(variant="nonsense")), (x, w, dict(out=x)),
    (x, w, dict(tunables={"NONSENSE": 1})), (x, ramp(8, 4, 7, 7), {}),
]
arguments = []
for a, b, more in bad:
    try:
        await fusedconv.run(a, b, **more)
        arguments.append("no error")
    except fusedconv.RequestError as error:
        arguments.append(error.argument)
after = fusedconv.memory()
[arguments, after.buffers_created - before.buffers_created, after.in_use - before.in_use]
"""
    )
    assert results[0] == [
        "x", "w", "w", "w", "w", "bias", "bias", "z", "pads", "stride", "activation", "x", "w",
        "variant", "out", "tunables['NONSENSE']", "w",
    ]  # fmt: skip
    assert results[1:] == [0, 0]


@pytest.mark.needs_numpy
def test_weights_are_checked_when_they_are_prepared(browser_python: BrowserPython) -> None:
    results = browser_python(
        HANDMADE
        + """
w = ramp(8, 4, 3, 3)
await fusedconv.device()
gc.collect()
before = fusedconv.memory()
bad = [
    (w[0, 0], {}), (w.astype(float), {}), (w, dict(bias=ramp(9))), (w, dict(pads=[1])),
    (w, dict(stride=[1, 1])), (w, dict(activation="relu")), (w, dict(group=3)),
    (w, dict(kernel_shape=[5, 5])), (w, dict(dilations=[0, 1])), (w, dict(output_padding=1)),
    (w, dict(transposed=True, group=3)), (w, dict(transposed=True, bias=ramp(8))),
    (w, dict(transposed=True, output_shape=[1])), (w, dict(transposed=True, output_padding=1)),
]
arguments = []
for weights, more in bad:
    try:
        await fusedconv.prepare(weights, **more)
        arguments.append("no error")
    except fusedconv.RequestError as error:
        arguments.append(error.argument)
after = fusedconv.memory()
good = [
    await fusedconv.prepare(w, bias=ramp(8), pads=9, strides=4, dilations=[3, 1], group=2),
    await fusedconv.prepare(w, bias=ramp(4), transposed=True, pads=7, output_shape=[90, 90]),
]
[arguments, after.buffers_created - before.buffers_created, len(good)]
"""
    )
    assert results[0] == [
        "w", "w", "bias", "pads", "stride", "activation", "group", "kernel_shape", "dilations[0]",
        "output_padding", "group", "bias", "output_shape", "output_padding",
    ]  # fmt: skip
    assert results[1:] == [0, 2]


@pytest.mark.needs_numpy
def test_cast_converts_and_mixed_residence_works(browser_python: BrowserPython) -> None:
    results = browser_python(
        HANDMADE
        + """
x, w = ramp(1, 2, 5), ramp(3, 2, 1)
expected = np.einsum("nck,mc->nmk", x, w[:, :, 0])
xt, wt = await fusedconv.array(x), await fusedconv.array(w)
got = [
    await fusedconv.run(x.astype(float), w.astype(int), cast=True),
    await fusedconv.run(x, wt), await (await fusedconv.run(xt, w)).numpy(),
    await (await fusedconv.run(xt, w.astype(float), cast=True)).numpy(),
]
conv = await fusedconv.prepare(w.astype(np.int16), cast=True)
got += [await conv(x.astype(float)), await conv(x)]
strict = await fusedconv.prepare(wt)
[[bool(np.array_equal(g, expected)) for g in got], [g.dtype.name for g in got],
 await failure(strict(x.astype(float))), await failure(strict(x.astype(np.float16)))]
"""
    )
    assert results[0] == [True] * 6
    assert results[1] == ["float32"] * 6
    assert "x.astype(np.float32)" in results[2]
    assert results[3].startswith("RequestError: x: got dtype float16")


@pytest.mark.needs_numpy
def test_keys_tell_requests_apart_that_compare_equal(browser_python: BrowserPython) -> None:
    """1, 1.0 and True are equal keys of a dict, but not equal attributes; neither 0.0 and -0.0."""
    results = browser_python(
        HANDMADE
        + """
x, w = ramp(1, 2, 6), np.ones((2, 2, 1), np.float32)
results = [(await fusedconv.run(x, w, strides=[1])).shape]
for strides in ([True], [1.0], True, 1.0, "1"):
    results.append(await failure(fusedconv.run(x, w, strides=strides)))
for strides in ((1,), 1, np.array([1]), [np.int64(1)]):
    results.append((await fusedconv.run(x, w, strides=strides)).shape)
for low in (0.0, -0.0, 3.0):
    y = await fusedconv.run(x, w, activation="Clip", activation_params=[low, 5.0])
    results.append([float(y.min()), float(y.max())])
results
"""
    )
    assert results[0] == [1, 2, 6]
    assert all(text.startswith("RequestError: strides") for text in results[1:6]), results[1:6]
    assert results[6:10] == [[1, 2, 6]] * 4
    assert results[10:] == [[5, 5], [5, 5], [5, 5]] or results[12][0] >= 3


def test_results_without_numpy_are_host_tensors(browser_python: BrowserPython) -> None:
    kinds = browser_python(
        """
        import array, sys, fusedconv, fusedconv.execution as execution, fusedconv.transfers as transfers
        x, w = (array.array("f", range(6)), (1, 2, 3)), (array.array("f", [1, 1]), (1, 2, 1))
        has = execution.has_numpy
        execution.has_numpy = transfers.has_numpy = lambda: False
        try:
            y = await fusedconv.run(x, w)
            t = await fusedconv.array(x)
            try:
                await t.numpy()
            except fusedconv.RequestError as error:
                text = str(error)
        finally:
            execution.has_numpy = transfers.has_numpy = has
        [type(y).__name__, y.tolist(), text]
        """
    )
    assert kinds[:2] == ["HostTensor", [[[3, 5, 7]]]]
    assert "await t.to_host()" in kinds[2]
