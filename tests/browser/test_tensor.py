"""GpuTensor and HostTensor: what is on the GPU, how it comes back, and when it goes."""

from __future__ import annotations

import numpy as np
import pytest

from .conftest import BrowserPython
from .handmade import HANDMADE

pytestmark = pytest.mark.needs_numpy


def test_array_round_trip(browser_python: BrowserPython) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 5, 7)).astype(np.float32)
    t, y = browser_python(
        """
        import fusedconv
        t = await fusedconv.array(x)
        facts = [t.shape, t.dtype, t.nbytes, t.ndim, t.size]
        [facts, await t.numpy()]
        """,
        x=x,
    )
    assert t == [[2, 3, 5, 7], "float32", 840, 4, 210]
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 257])
def test_halves_round_trip_with_odd_counts(browser_python: BrowserPython, count: int) -> None:
    """Copies are in multiples of 4 bytes, an odd number of halves is not."""
    x = np.arange(count).astype(np.float16)
    results = browser_python(
        """
        import fusedconv
        t = await fusedconv.array(x)
        host = await t.to_host()
        [t.nbytes, await t.numpy(), host.tolist(), [str(memoryview(host).format), host.dtype]]
        """,
        x=x,
    )
    assert results[0] == 2 * count
    np.testing.assert_array_equal(results[1], x)
    assert results[2] == x.tolist()
    assert results[3] == ["e", "float16"]


def test_empty_tensors(browser_python: BrowserPython) -> None:
    shapes = browser_python(
        """
        import fusedconv, numpy as np
        t = await fusedconv.array(np.zeros((0, 3, 4), np.float32))
        host = await t.to_host()
        [(await t.numpy()).shape, host.shape, host.tolist(), (await fusedconv.empty((0, 2))).nbytes]
        """
    )
    assert shapes == [[0, 3, 4], [0, 3, 4], [], 0]


def test_host_tensor_is_nested_and_exports_its_buffer(browser_python: BrowserPython) -> None:
    nested, shape, values = browser_python(
        """
        import fusedconv, numpy as np
        t = await fusedconv.array(np.arange(12, dtype=np.float32).reshape(2, 3, 2))
        host = await t.to_host()
        view = memoryview(host)
        [host.tolist(), [view.shape, view.format, host.nbytes], np.asarray(host)]
        """
    )
    assert nested == np.arange(12).reshape(2, 3, 2).tolist()
    assert shape == [[2, 3, 2], "f", 48]
    np.testing.assert_array_equal(values, np.arange(12, dtype=np.float32).reshape(2, 3, 2))


def test_reading_for_javascript(browser_python: BrowserPython) -> None:
    kinds = browser_python(
        """
        import fusedconv, numpy as np
        t = await fusedconv.array(np.arange(3, dtype=np.float32))
        h = await fusedconv.array(np.arange(3, dtype=np.float16))
        a, b = await t.to_js(), await h.to_js()
        result = [a.constructor.name, b.constructor.name, list(a), b.length]
        result
        """
    )
    assert kinds[0] == "Float32Array"
    assert kinds[1] == "Uint16Array"
    assert kinds[2:] == [[0.0, 1.0, 2.0], 3]


def test_freed_tensors_are_refused(browser_python: BrowserPython) -> None:
    texts = browser_python(
        HANDMADE
        + """
with await fusedconv.array(ramp(1, 1, 4)) as t:
    pass
u = await fusedconv.array(ramp(1, 1, 4))
u.free()
u.free()
try:
    u.buffer
    buffer = "no error"
except fusedconv.RequestError as error:
    buffer = str(error)
[
    await failure(t.numpy()), buffer, await failure(fusedconv.run(u, ramp(1, 1, 1))),
    await failure(run(Handmade(), ramp(1, 1, 4), u)), repr(u), u.freed,
]
"""
    )
    assert "a freed GpuTensor(shape=(1, 1, 4), dtype=float32, freed)" in texts[0]
    assert "freed" in texts[1]
    assert "freed" in texts[2]
    assert "freed" in texts[3]
    assert texts[4:] == ["GpuTensor(shape=(1, 1, 4), dtype=float32, freed)", True]


def test_memory_goes_back_by_free_by_with_and_by_collection(browser_python: BrowserPython) -> None:
    counts = browser_python(
        HANDMADE
        + """
def in_use():
    return fusedconv.memory().buffers_in_use

before = in_use()
t = await fusedconv.array(ramp(100)); counts = [in_use() - before]
t.free(); counts.append(in_use() - before)
with await fusedconv.array(ramp(100)): counts.append(in_use() - before)
counts.append(in_use() - before)
t = await fusedconv.array(ramp(100)); del t; counts.append(in_use() - before)
a = await fusedconv.array(ramp(100))
b = a.reshape(10, -1)
a.free(); counts.append(in_use() - before)
value = await b.numpy()
b.free(); counts.append(in_use() - before)
[counts, value]
"""
    )
    assert counts[0] == [1, 0, 1, 0, 0, 1, 0]
    np.testing.assert_array_equal(counts[1], np.arange(100, dtype=np.float32).reshape(10, 10))


def test_reshape_checks_the_number_of_elements(browser_python: BrowserPython) -> None:
    results = browser_python(
        HANDMADE
        + """
t = await fusedconv.array(ramp(2, 6))
shapes = [t.reshape(3, 4).shape, t.reshape((4, 3)).shape, t.reshape([-1]).shape, t.reshape(2, -1, 3).shape]
errors = []
for wrong in [(5, 2), (-1, 5), (-1, -1), (0, -1)]:
    try:
        t.reshape(*wrong)
    except fusedconv.RequestError as error:
        errors.append(error.argument)
[shapes, errors]
"""
    )
    assert results == [[[3, 4], [4, 3], [12], [2, 2, 3]], ["shape"] * 4]


def test_a_buffer_of_the_page_is_adopted_and_never_destroyed(
    browser_python: BrowserPython,
) -> None:
    result = browser_python(
        HANDMADE
        + """
from pyodide.code import run_js
device = (await fusedconv.device()).gpu_device
make = run_js('''(device, usage, size) => {
  const buffer = device.createBuffer({size, usage, mappedAtCreation: true});
  new Float32Array(buffer.getMappedRange()).set([1, 2, 3, 4]);
  buffer.unmap();
  return buffer;
}''')
STORAGE, COPY_SRC, COPY_DST = 128, 4, 8
buffer = make(device, STORAGE | COPY_SRC, 16)
before = fusedconv.memory()
t = fusedconv.GpuTensor.from_buffer(buffer, (1, 1, 4))
adopted = fusedconv.memory().buffers_adopted - before.buffers_adopted
w = await fusedconv.array(np.full((1, 1, 4), 10, np.float32))
y = await (await run(Handmade(), t, w)).numpy()
back = await t.numpy()
t.free()
after = fusedconv.memory()
again = await fusedconv.GpuTensor.from_buffer(buffer, (4,)).numpy()
out = fusedconv.GpuTensor.from_buffer(make(device, STORAGE, 16), (1, 1, 4))
written = await run(Handmade(), w, w, out=out)
errors = []
for arguments in [
    (buffer, (5,), "float32"), (make(device, COPY_SRC | COPY_DST, 16), (4,), "float32"),
    ("text", (4,), "float32"), (buffer, (4,), "float64"), (buffer, (-4,), "float32"),
]:
    try:
        fusedconv.GpuTensor.from_buffer(*arguments)
    except fusedconv.RequestError as error:
        errors.append(str(error))
[y, back, again, adopted, after.buffers_adopted - before.buffers_adopted, written is out,
 await failure(out.numpy()), errors, fusedconv.memory().buffers_in_use]
"""
    )
    y, back, again, adopted, after, same, unreadable, errors = result[:8]
    np.testing.assert_array_equal(y.ravel(), [11, 12, 13, 14])
    np.testing.assert_array_equal(back.ravel(), [1, 2, 3, 4])
    np.testing.assert_array_equal(again, [1, 2, 3, 4])
    assert (adopted, after, same) == (1, 0, True)
    assert "COPY_SRC" in unreadable
    assert "16 bytes" in errors[0]
    assert "20 bytes or more" in errors[0]
    assert "STORAGE" in errors[1]
    assert "a GPUBuffer" in errors[2]
    assert errors[3].startswith("dtype")
    assert errors[4].startswith("shape")


def test_a_buffer_is_handed_out(browser_python: BrowserPython) -> None:
    """`t.buffer` is the GPUBuffer, with everything called so far in it."""
    values = browser_python(
        HANDMADE
        + """
from pyodide.code import run_js
copy = run_js('''async (device, source) => {
  const target = device.createBuffer({size: 16, usage: 1 | 8});
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(source, 0, target, 0, 16);
  device.queue.submit([encoder.finish()]);
  await target.mapAsync(1);
  return new Float32Array(target.getMappedRange().slice(0));
}''')
device = (await fusedconv.device()).gpu_device
x = await fusedconv.array(ramp(1, 1, 4))
async with fusedconv.batch():
    y = await run(Handmade(), x, x)
    result = await copy(device, y.buffer)
[list(result), y.buffer.size >= 16]
"""
    )
    assert values == [[0, 2, 4, 6], True]


@pytest.mark.expects_errors("destroyed")
def test_a_handed_out_buffer_is_watched_and_never_pooled(browser_python: BrowserPython) -> None:
    """Other code may destroy it or write to it: that must not pass for a result, nor spread."""
    results = browser_python(
        HANDMADE
        + """
x = await fusedconv.array(ramp(1, 1, 4))
y = await run(Handmade(), x, x)
buffer = y.buffer
good = await (await run(Handmade(), y, x)).numpy()
buffer.destroy()
async def attempt(t):
    return await (await run(Handmade(), t, x)).numpy()
texts = [await failure(attempt(y)), await failure(y.numpy())]
y.free()
again = [await (await run(Handmade(), x, x)).numpy() for _ in range(3)]
[good, texts, again]
"""
    )
    np.testing.assert_array_equal(results[0].ravel(), [0, 3, 6, 9])
    assert all(t.startswith("DeviceError") and "destroyed" in t for t in results[1]), results[1]
    for value in results[2]:
        np.testing.assert_array_equal(value.ravel(), [0, 2, 4, 6])
