"""Misuse of what runs on the GPU: refused by name with nothing allocated, and nothing left behind."""

from __future__ import annotations

import numpy as np
import pytest

from .conftest import BrowserPython
from .handmade import HANDMADE

pytestmark = pytest.mark.needs_numpy

SETUP = (
    HANDMADE
    + """
from fusedconv.gpu.device import current

async def blamed(call):
    try:
        result = call()
        if hasattr(result, "__await__"):
            result = await result
        return f"no error, but {result!r}"
    except fusedconv.RequestError as error:
        return error.argument
    except fusedconv.FusedConvError as error:
        return type(error).__name__
    except Exception as error:
        return f"not ours: {error!r}"

def facts():
    gc.collect()
    m, gpu = fusedconv.memory(), current()
    kept = sum(kernel.id > 0 for kernel in gpu.kernels._by_text.values())
    return [m.buffers_in_use, m.in_use, m.reads, m.plans - kept, m.prepared]

def ones(*shape, dtype="float32"):
    return np.ones(shape, dtype)

x, w, w1 = ramp(1, 2, 5, 5), ones(3, 2, 3, 3), ones(2, 2, 1, 1)
"""
)


def test_misuse_is_refused_by_name(browser_python: BrowserPython) -> None:
    """Of any argument, before anything is allocated."""
    results = browser_python(
        SETUP
        + """
import js
other = await fusedconv.device(without="timestamp-query")
strange = await fusedconv.array(x)
strange_out = await fusedconv.empty((1, 3, 3, 3))
own = await fusedconv.device(features=[])
t, tw = await fusedconv.array(x), await fusedconv.array(w)
t16 = await fusedconv.array(x.astype("float16"))
out, out16 = await fusedconv.empty((1, 3, 3, 3)), await fusedconv.empty((1, 3, 3, 3), "float16")
same = await fusedconv.empty(x.shape)
gone = await fusedconv.array(x)
gone.free()
conv, freed = await fusedconv.prepare(w), await fusedconv.prepare(w)
freed.free(), freed.free()
await fusedconv.run(x, w), await fusedconv.run(t, w1), await conv(x)
await fusedconv.synchronize()
small = own.gpu_device.createBuffer(js.JSON.parse('{"size": 16, "usage": 128}'))
useless = own.gpu_device.createBuffer(js.JSON.parse('{"size": 16, "usage": 4}'))
run, array, empty, prepare, device = fusedconv.run, fusedconv.array, fusedconv.empty, fusedconv.prepare, fusedconv.device
transpose, tune, GpuTensor, nan = fusedconv.conv_transpose, fusedconv.tune, fusedconv.GpuTensor, float("nan")
calls = [
    # Freed, or of another device.
    ("x", lambda: run(gone, w)), ("w", lambda: run(x, gone)), ("bias", lambda: run(x, w, gone)),
    ("z", lambda: run(x, w, z=gone)), ("out", lambda: run(x, w, out=gone)), ("x", lambda: array(gone)),
    ("t", lambda: gone.numpy()), ("t", lambda: gone.buffer), ("t", lambda: gone.reshape(50)),
    ("w", lambda: run(strange, tw)), ("out", lambda: run(t, w, out=strange_out)), ("x", lambda: conv(strange)),
    ("x", lambda: conv(gone)), ("z", lambda: conv(x, gone)), ("w", lambda: prepare(gone)),
    ("conv", lambda: freed(x)), ("conv", lambda: freed.warm(x.shape)),
    # The output.
    ("out", lambda: run(x, w, out=same)), ("out", lambda: run(x, w, out=out16)), ("out", lambda: run(x, w, out=x)),
    ("out", lambda: run(t, w1, out=t)), ("out", lambda: run(t, w1, out=t.reshape(1, 2, 5, 5))),
    ("out", lambda: run(x, w1, z=same, out=same)), ("out", lambda: conv(x, out=7)), ("out", lambda: run(x, tw, out=tw)),
    # Dtypes.
    ("w", lambda: run(x, w.astype("float16"))), ("w", lambda: run(t16, w)), ("x", lambda: conv(t16)),
    ("z", lambda: run(t, w1, z=t16)), ("x", lambda: run(x.astype(complex), w, cast=True)),
    ("cast", lambda: run(x, w, cast="yes")), ("cast", lambda: array(x, cast=None)), ("cast", lambda: prepare(w, cast=w)),
    # No arrays.
    ("x", lambda: run(None, w)), ("w", lambda: run(x, "w")), ("bias", lambda: run(x, w, 5)), ("z", lambda: run(x, w, z=1.0)),
    ("x", lambda: run(np.float32(3), w)), ("x", lambda: run(x[()].sum(), w)), ("x", lambda: run(np.array(3, "f4"), w)),
    ("x", lambda: array({})), ("x", lambda: array((x, (1, 2)))), ("x[1]", lambda: array((b"", "ab"))),
    ("x", lambda: run(x.tolist(), w)), ("z", lambda: conv(x, True)), ("w", lambda: conv(x[0])), ("w", lambda: conv(w.swapaxes(0, 1))),
    # Attributes.
    ("foo", lambda: run(x, w, foo=1)), ("strides", lambda: run(x, w, strides="22")), ("group", lambda: run(x, w, group=0)),
    ("group", lambda: run(x, w, group=True)), ("pads", lambda: run(x, w, pads=nan)), ("dilations", lambda: run(x, w, dilations=10**30)),
    ("activation_params", lambda: run(x, w, activation="LeakyRelu", activation_params=[nan])),
    ("activation_params", lambda: run(x, w, activation="HardSigmoid", activation_params=[1, 2, 3])),
    ("activation", lambda: run(x, w, activation=["Relu"])), ("auto_pad", lambda: run(x, w, auto_pad=np.ones(2))),
    ("strides", lambda: prepare(w, strides=iter([1, 1]))), ("transposed", lambda: prepare(w, transposed=2)),
    ("tune", lambda: prepare(w, tune="yes")), ("tune", lambda: prepare(w, tune=True, variant="direct_nd")),
    ("variant", lambda: run(x, w, variant=7)), ("tunables", lambda: run(x, w, tunables=[1])), ("extensions", lambda: run(x, w, extensions="no")),
    ("y", lambda: run(x, w, pads=2**30)), ("output_padding", lambda: transpose(x, ones(2, 3, 3, 3), output_padding=1)),
    ("w", lambda: run(x, ones(1, 2, 6, 6))), ("w", lambda: transpose(x, w)),
    # Shapes.
    ("shape", lambda: empty((-1,))), ("shape", lambda: empty("3")), ("shape", lambda: empty(None)), ("dtype", lambda: empty((3,), "int8")),
    ("shape", lambda: empty((2**31, 2**31))), ("OutOfMemory", lambda: empty((2**20, 2**11))), ("shape", lambda: t.reshape("a")),
    ("shape", lambda: t.reshape(25.0, 2)), ("shape", lambda: t.reshape()), ("shape", lambda: t.reshape(None)),
    ("x_shape", lambda: conv.warm(5)), ("x", lambda: conv.plan((1, 2))), ("z", lambda: conv.plan(x.shape, z=x)),
    ("buffer", lambda: GpuTensor.from_buffer(None, (1,))), ("buffer", lambda: GpuTensor.from_buffer(small, (5,))),
    ("buffer", lambda: GpuTensor.from_buffer(useless, (4,))), ("shape", lambda: GpuTensor.from_buffer(small, 4)),
    ("dtype", lambda: GpuTensor.from_buffer(small, (4,), float)), ("shape", lambda: GpuTensor.from_buffer(small, (2**32, 1))),
    # Tuning, profiles, devices.
    ("x", lambda: tune((1, 2), w.shape)), ("seconds", lambda: tune(x.shape, w.shape, seconds=nan)), ("seconds", lambda: tune(x.shape, w.shape, seconds="1")),
    ("progress", lambda: tune(x.shape, w.shape, progress=5)), ("transposed", lambda: tune(x.shape, w.shape, transposed="x")),
    ("variant", lambda: tune(x.shape, w.shape, variant="direct_nd")), ("repeat", lambda: fusedconv.profile(repeat=0)),
    *(("memory_budget", lambda budget=budget: device(memory_budget=budget)) for budget in (0, -1, nan, "1", True, float("inf"))),
    ("without", lambda: device(without=5)), ("features", lambda: device(features=[None])), ("power_preference", lambda: device(power_preference=7)),
    ("gpu_device", lambda: device("gpu")), ("WebGPUUnavailable", lambda: device(features=["nonsense"])), ("nbytes", lambda: own.trim("all")),
]
before = facts(), fusedconv.memory().buffers_created
found = [(i, want, got) for i, (want, call) in enumerate(calls) if (got := await blamed(call)) != want]
after = facts(), fusedconv.memory().buffers_created
small.destroy(), useless.destroy()
y = await conv(x)
del conv, freed, t, tw, t16, out, out16, same, gone, strange, strange_out
own.close(), other.close()
[found, before == after, [before, after], y]
"""
    )
    assert not results[0]
    assert results[1], results[2]
    assert results[3].shape == (1, 3, 3, 3)


def test_a_device_without_f16(browser_python: BrowserPython) -> None:
    kinds, same = browser_python(
        SETUP
        + """
device = await fusedconv.device(without="shader-f16")
h, hw = x.astype("float16"), w.astype("float16")
await fusedconv.run(x, w)
t = await fusedconv.array(h)
conv = await fusedconv.prepare(hw)
before = facts()
kinds = [await blamed(call) for call in (
    lambda: fusedconv.run(h, hw), lambda: fusedconv.run(t, hw), lambda: conv(h), lambda: conv(t), lambda: conv.warm(h.shape),
    lambda: fusedconv.tune(h.shape, hw.shape, dtype="float16"), lambda: fusedconv.plan(h.shape, hw.shape, dtype="float16"),
    lambda: fusedconv.conv_transpose(h, hw.transpose(1, 0, 2, 3)))]
after = facts()
back = (await t.numpy()).tobytes() == h.tobytes()
conv.free(), t.free()
del conv, t
device.close()
[kinds, before == after and back]
"""
    )
    assert kinds == ["UnsupportedError"] * 8
    assert same


def test_cancelled_anywhere(browser_python: BrowserPython) -> None:
    """At every moment of every kind of call: nothing stays behind, and `out` stays the caller's."""
    found, kinds, plain = browser_python(
        SETUP
        + """
await fusedconv.run(x, w)
t, out = await fusedconv.array(x), await fusedconv.empty((1, 3, 3, 3))
conv = await fusedconv.prepare(w)
await conv(t, out=out), await out.numpy()
serial = 0
def cold():
    global serial
    serial += 1
    return {"activation": "Clip", "activation_params": [-1e9, 1e6 + serial]}

async def profiled():
    with fusedconv.profile():
        return await fusedconv.run(t, w, **cold())

async def batched():
    async with fusedconv.batch():
        await fusedconv.run(t, w, **cold())
        await fusedconv.run(t, w)

kinds = {
    "cold": lambda: fusedconv.run(x, w, **cold()), "warm": lambda: fusedconv.run(x, w), "resident": lambda: fusedconv.run(t, w, **cold()),
    "out": lambda: fusedconv.run(t, w, out=out), "cold out": lambda: fusedconv.run(t, w, out=out, **cold()), "read": lambda: t.numpy(),
    "js": lambda: t.to_js(), "array": lambda: fusedconv.array(x), "empty": lambda: fusedconv.empty((7, serial + 3000)),
    "prepare": lambda: fusedconv.prepare(w), "call": lambda: conv(t), "call out": lambda: conv(x, out=out),
    "wait": lambda: fusedconv.synchronize(), "profile": profiled, "batch": batched,
}
found, seen = [], set()
await fusedconv.synchronize()
before = facts()
for name, make in kinds.items():
    if found:
        break
    for turns in (0, 1, 2, 0.0, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03):
        task = asyncio.ensure_future(make())
        if isinstance(turns, float):
            await asyncio.sleep(turns)
        else:
            for _ in range(turns):
                await asyncio.sleep(0)
        task.cancel()
        try:
            await task
            seen.add("done")
        except asyncio.CancelledError:
            seen.add("cancelled")
        del task
        # What is still being compiled is told of by one of the next.
        for _ in range(100):
            await asyncio.sleep(0.01)
            await fusedconv.synchronize()
            after = facts()
            if before == after:
                break
        else:
            found.append([name, turns, before, after])
            break
fresh = [await fusedconv.array(np.zeros((1, 3, 3, 3), np.float32)) for _ in range(4)]
owners = len({t.storage.id for t in (*fresh, out)})
plain = await (await conv(t, out=out)).numpy()
clean = all([not (await f.numpy()).any() for f in fresh])
conv.free()
[found, sorted(seen), plain.tobytes() == (await fusedconv.run(x, w)).tobytes() and clean and owners == 5]
"""
    )
    assert not found
    assert kinds == ["cancelled", "done"]
    assert plain


def test_cancelled_between_submission_and_result(browser_python: BrowserPython) -> None:
    states, y, want = browser_python(
        SETUP
        + """
t, out = await fusedconv.array(x), await fusedconv.empty((1, 3, 3, 3))
await fusedconv.run(t, w), await fusedconv.run(t, w, out=out)
await fusedconv.synchronize()
gpu = current()
states = [facts()]
for k, target in enumerate((out, None)):
    submit, submitted = gpu.run, []
    gpu.run = lambda *given: (submit(*given), submitted.append(1))[0]
    task = asyncio.ensure_future(fusedconv.run(t, w, out=target, activation="Clip", activation_params=[-2e9, 2e6 + k]))
    while not submitted:
        await asyncio.sleep(0)
    gpu.run = submit
    task.cancel()
    try:
        await task
        states.append("not cancelled")
    except asyncio.CancelledError:
        pass
    del task
    await fusedconv.synchronize()
    await asyncio.sleep(0.05)
    states.append(facts())
fresh = [await fusedconv.array(np.zeros((1, 3, 3, 3), np.float32)) for _ in range(3)]
[states, await out.numpy(), await fusedconv.run(x, w)]
"""
    )
    assert states == states[:1] * 3
    np.testing.assert_array_equal(y, want)


def test_what_goes_wrong_in_the_callers_own_code(browser_python: BrowserPython) -> None:
    """In a batch, in a profile's function, in tuning's; afterwards all is as before."""
    texts, same, y = browser_python(
        SETUP
        + """
t = await fusedconv.array(x)
first = await fusedconv.run(t, w)
await first.numpy(), await fusedconv.run(first, ones(3, 3, 1, 1)), await fusedconv.run(t, w1)
first.free()
await fusedconv.synchronize()
def fail(*given):
    raise KeyError("mine")

async def recorded():
    with fusedconv.profile(fail):
        await fusedconv.run(t, w)

async def raised_in_a_batch():
    async with fusedconv.batch():
        await fusedconv.run(t, w)
        async with fusedconv.batch():
            call = fusedconv.run(t, w1)
            fail()

async def a_batch_twice():
    batch = fusedconv.batch()
    for _ in range(2):
        async with batch:
            y = await fusedconv.run(t, w)
    async with batch:
        async with batch:
            z = await fusedconv.run(y, ones(3, 3, 1, 1))
    return (await z.numpy()).shape

async def refused_in_a_batch():
    async with fusedconv.batch():
        await fusedconv.run(t, w, strides=0)

async def cancelled_in_a_batch():
    async with fusedconv.batch():
        y = await fusedconv.run(t, w)
        raise asyncio.CancelledError

async def awaited_twice():
    call = fusedconv.run(t, w, strides=0)
    errors = []
    for _ in range(2):
        try:
            await call
        except fusedconv.RequestError as error:
            errors.append(error)
    assert errors[0] is errors[1]
    call = fusedconv.run(x, w)
    one, two = await asyncio.gather(call, call) if False else (await call, await call)
    assert one is two
    raise KeyError("fine")

texts = []
before = facts()
for attempt in (recorded, raised_in_a_batch, a_batch_twice, refused_in_a_batch, cancelled_in_a_batch, awaited_twice):
    try:
        texts.append(str(await attempt()))
    except BaseException as error:
        texts.append(f"{type(error).__name__}: {error}")
    del attempt
await fusedconv.synchronize()
await asyncio.sleep(0.05)
after = facts()
[texts, [before, after], await (await fusedconv.run(t, w)).numpy()]
"""
    )
    assert texts[:3] == ["KeyError: 'mine'", "KeyError: 'mine'", "(1, 3, 3, 3)"]
    assert texts[3].startswith("RequestError: strides")
    assert texts[4:] == ["CancelledError: ", "KeyError: 'fine'"]
    assert same[0] == same[1]
    assert y.shape == (1, 3, 3, 3)


def test_extremes_that_are_right(browser_python: BrowserPython) -> None:
    """Long kernels, large strides and paddings, tiny and huge parameters."""
    results = browser_python(
        SETUP
        + """
line, kernel = ramp(1, 1, 70001), ones(1, 1, 70001)
results = [
    float((await fusedconv.run(line % 5, kernel)).item()),
    (await fusedconv.run(x, w1, strides=2**31 - 1)).ravel().tolist(),
    (await fusedconv.run(x, w1, strides=2**31 - 1, pads=[0, 0, 2**31 - 1, 2**31 - 1])).ravel().tolist(),
    (await fusedconv.conv_transpose(ramp(1, 1, 2, start=1), ramp(1, 1, 3, start=1), dilations=70000))[0, 0, [0, 1, 70000, 70001, 140001, 9]].tolist(),
    (await fusedconv.run(x[..., :1, :1], ones(1, 2, 1, 2), dilations=2**30, pads=[0, 2**30, 0, 0])).ravel().tolist(),
]
for params in ([1e-46], [5e-324], [-1e-40], [3.4e38]):
    results.append((await fusedconv.run(x[..., :1, :1] - 30, w1, activation="LeakyRelu", activation_params=params)).ravel().tolist())
results
"""
    )
    x = np.arange(50, dtype=np.float32).reshape(1, 2, 5, 5)
    corner = float(x[0, :, 0, 0].sum())
    assert results[0] == (np.arange(70001) % 5).sum()
    assert results[1] == [corner] * 2
    assert results[2] == [corner, 0, 0, 0] * 2
    assert results[3] == [1, 2, 2, 4, 6, 0]
    assert results[4] == [corner]
    assert results[5:7] == [[0, 0]] * 2
    assert np.allclose(results[7], 35e-40, atol=2e-38)
    assert results[8] == [-np.inf] * 2


@pytest.mark.expects_errors("lost|destroyed")
def test_a_device_that_goes_in_the_middle(browser_python: BrowserPython) -> None:
    """Of a batch, a profile, a reading or a preparation; the next call has a new one."""
    texts, y = browser_python(
        SETUP
        + """
async def goes(steps):
    device = await fusedconv.device(without="timestamp-query")
    t = await fusedconv.array(x)
    await fusedconv.run(t, w)
    try:
        return f"no error, but {await steps(device, t)!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    finally:
        device.close()

async def batched(device, t):
    async with fusedconv.batch():
        y = await fusedconv.run(t, w)
        device.gpu_device.destroy()
        await device.gpu_device.lost
        await fusedconv.run(y, ones(3, 3, 1, 1))

async def batched_at_the_end(device, t):
    async with fusedconv.batch():
        y = await fusedconv.run(t, w)
        device.gpu_device.destroy()
    return await y.numpy()

async def profiled(device, t):
    with fusedconv.profile():
        call = fusedconv.run(t, w)
        device.gpu_device.destroy()
        return await (await call).numpy()

async def read(device, t):
    call = t.numpy()
    device.gpu_device.destroy()
    return await call

async def prepared(device, t):
    conv = await fusedconv.prepare(w)
    device.gpu_device.destroy()
    return await (await conv(t)).numpy()

async def closed_in_a_batch(device, t):
    async with fusedconv.batch():
        y = await fusedconv.run(t, w)
        device.close()
    return (await y.numpy()).shape

texts = [await goes(steps) for steps in (batched, batched_at_the_end, profiled, read, prepared, closed_in_a_batch)]
[texts, await fusedconv.run(x, w)]
"""
    )
    assert all(text.startswith("DeviceLost: ") for text in texts[:5]), texts
    assert texts[5] == "no error, but (1, 3, 3, 3)"
    assert y.shape == (1, 3, 3, 3)


@pytest.mark.expects_errors("usage|storage|[Bb]uffer")
def test_one_buffer_as_operand_and_output(browser_python: BrowserPython) -> None:
    """Whatever tensors it hides behind."""
    texts, same = browser_python(
        SETUP
        + """
t = await fusedconv.array(x)
twin = fusedconv.GpuTensor.from_buffer(t.buffer, x.shape)
z = await fusedconv.array(x)
z_twin = fusedconv.GpuTensor.from_buffer(z.buffer, x.shape)
texts = []
for _ in range(2):
    texts.append(await failure(fusedconv.run(t, w1, out=twin)))
    texts.append(await failure(fusedconv.run(twin, w1, out=t)))
    texts.append(await failure(fusedconv.run(t, w1, z=z, out=z_twin)))
[texts, (await t.numpy()).tobytes() == x.tobytes()]
"""
    )
    assert all(text.startswith("RequestError: out") for text in texts), texts
    assert same
