"""Devices: asked for, adopted, shared, without WebGPU, lost, and under a budget."""

from __future__ import annotations

import numpy as np
import pytest

from .conftest import BrowserPython
from .handmade import HANDMADE

pytestmark = pytest.mark.needs_numpy

CHECK = """
async def works(x=None):
    x = ramp(1, 1, 4) if x is None else x
    y = await run(Handmade(), x, x)
    y = y if isinstance(y, np.ndarray) else await y.numpy()
    return y.ravel().tolist() == [0, 2, 4, 6]
"""


def test_the_adapters_limits_and_features_are_asked_for(browser_python: BrowserPython) -> None:
    results = browser_python(
        """
        import fusedconv, js
        device = await fusedconv.device()
        c = device.capabilities
        adapter = await js.navigator.gpu.requestAdapter()
        names = ["maxBufferSize", "maxStorageBufferBindingSize", "maxComputeInvocationsPerWorkgroup",
                 "maxComputeWorkgroupStorageSize", "maxStorageBuffersPerShaderStage"]
        wanted = {"shader-f16", "subgroups", "subgroup-size-control", "timestamp-query"}
        offered = {f for f in wanted if adapter.features.has(f)}
        planned = fusedconv.plan((1, 8, 8, 8), (8, 8, 1, 1))
        [[c.limits[n] == getattr(adapter.limits, n) for n in names], offered <= c.features,
         c.adapter_info["vendor"] == adapter.info.vendor, c.adapter_info.get("subgroupMaxSize"),
         repr(device), device.lost, planned == fusedconv.plan((1, 8, 8, 8), (8, 8, 1, 1), device=c)]
        """
    )
    assert results[0] == [True] * 5
    assert results[1:3] == [True, True]
    assert isinstance(results[3], int)
    assert "open" in results[4]
    assert results[5:] == [False, True]


def test_operands_may_change_while_the_device_opens(browser_python: BrowserPython) -> None:
    results = browser_python(
        HANDMADE
        + """
from fusedconv.gpu.device import current
(await fusedconv.device(without="timestamp-query")).close()
gc.collect()
x, w = ramp(1, 1, 5, start=1), ramp(1, 1, 5)
none = current() is None
call = run(Handmade("x[i] * 100 + w[i]"), x, w)
x[:], w[:] = -1, -1
[none, await call]
"""
    )
    assert results[0] is True
    np.testing.assert_array_equal(results[1].ravel(), 100 * (np.arange(5) + 1) + np.arange(5))


def test_one_owner_closing_leaves_the_others(browser_python: BrowserPython) -> None:
    results = browser_python(
        HANDMADE
        + CHECK
        + """
from fusedconv.gpu.device import current
a = await fusedconv.device(without="timestamp-query")
b = await fusedconv.device()
t = await fusedconv.array(ramp(1, 1, 4))
conv = await prepare(Handmade(), ramp(1, 1, 4))
same = a.gpu_device == b.gpu_device
a.close(); a.close()
results = [same, await works(), b.lost]
gpu = current()
b.close()
# No owner is left, but tensors are: they go on working.
results += [current() is gpu, gpu.closed, (await t.numpy()).tolist(), await works(t), (await (await conv(t)).numpy()).tolist()]
results += [await works(), current() is gpu]
t.free(); conv.free()
del t, conv
gc.collect()
results += [await works(), gpu.closed]
results
"""
    )
    assert results[:3] == [True, True, False]
    assert results[3:5] == [False, False]
    assert results[5:8] == [[[[0, 1, 2, 3]]], True, [[[0, 2, 4, 6]]]]
    assert results[8:] == [True, False, True, True]


def test_the_pages_own_device_is_adopted_and_survives(browser_python: BrowserPython) -> None:
    results = browser_python(
        HANDMADE
        + CHECK
        + """
import js
adapter = await js.navigator.gpu.requestAdapter()
own = await adapter.requestDevice()
device = await fusedconv.device(own)
results = [device.gpu_device == own, await works(), sorted(device.capabilities.features),
           device.capabilities.limits["maxComputeInvocationsPerWorkgroup"]]
device.close()
from pyodide.code import run_js
alive = await run_js("async (d) => (await Promise.race([d.lost.then(() => 'lost'), new Promise((r) => setTimeout(() => r('alive'), 300))]))")(own)
results += [alive, await works()]
errors = []
for wrong in (dict(gpu_device=3), dict(without=[3]), dict(memory_budget=0), dict(power_preference="fast")):
    try:
        await fusedconv.device(**wrong)
    except fusedconv.RequestError as error:
        errors.append(error.argument)
own.destroy()
[results, errors]
"""
    )
    assert results[0][:2] == [True, True]
    assert "subgroups" not in results[0][2]
    assert results[0][3:] == [256, "alive", True]
    assert results[1] == ["gpu_device", "without", "memory_budget", "power_preference"]


def test_features_can_be_left_out_or_chosen(browser_python: BrowserPython) -> None:
    results = browser_python(
        HANDMADE
        + """
a = await fusedconv.device(without=("subgroups", "shader-f16"))
b = await fusedconv.device(features=["timestamp-query"])
results = [sorted(a.capabilities.features & {"subgroups", "shader-f16"}), a.gpu_device.features.has("subgroups"),
           "timestamp-query" in b.capabilities.features, "subgroups" in b.capabilities.features]
try:
    await fusedconv.device(features=["timestamp-query", "teleportation"])
except fusedconv.WebGPUUnavailable as error:
    results.append(str(error))
a.close(); b.close()
results
"""
    )
    assert results[:4] == [[], False, True, False]
    assert "teleportation" in results[4]


def test_an_adapter_that_comes_late(browser_python: BrowserPython) -> None:
    """While the GPU process starts, `requestAdapter()` answers null."""
    results = browser_python(
        HANDMADE
        + CHECK
        + """
from pyodide.code import run_js
patch = run_js('''(times) => {
  const request = GPU.prototype.requestAdapter;
  let asked = 0;
  GPU.prototype.requestAdapter = function (...given) {
    asked += 1;
    return asked <= times ? Promise.resolve(null) : request.apply(this, given);
  };
  return () => { GPU.prototype.requestAdapter = request; return asked; };
}''')
undo = patch(2)
device = await fusedconv.device(features=[])
asked = undo()
ok = await works()
device.close()
undo = patch(1000)
try:
    never = await failure(fusedconv.device(features=[]))
finally:
    undo()
hide = run_js('''() => {
  Object.defineProperty(navigator, "gpu", { value: undefined, configurable: true });
  return () => { delete navigator.gpu; };
}''')
undo = hide()
try:
    none = await failure(fusedconv.device(features=[]))
finally:
    undo()
[asked, ok, never, none, await works()]
"""
    )
    assert results[:2] == [3, True]
    assert results[2].startswith("WebGPUUnavailable: WebGPU found no adapter")
    assert "chrome://gpu" in results[2]
    assert results[3].startswith("WebGPUUnavailable: this browser has no WebGPU")
    assert "Safari" in results[3]
    assert results[4] is True


def test_a_lost_device_is_an_error_and_then_replaced(browser_python: BrowserPython) -> None:
    results = browser_python(
        HANDMADE
        + CHECK
        + """
device = await fusedconv.device(without="timestamp-query")
op = Handmade("x[i] + w[i] * 0.75")
t = await fusedconv.array(ramp(1, 1, 4))
conv = await prepare(op, ramp(1, 1, 4))
out = await conv(t)
calls = [run(Handmade("x[i] + w[i] * 0.625"), t, t), run(op, ramp(1, 1, 4), ramp(1, 1, 4)), out.numpy()]
device.gpu_device.destroy()
pending = [type(r).__name__ for r in await asyncio.gather(*calls, return_exceptions=True)]
async def then():
    return await (await conv(t)).numpy()
later = [await failure(then()), await failure(t.numpy()), await failure(conv.warm((1, 1, 9)))]
fresh = await works()
now = await fusedconv.device()
results = [pending, later, device.lost, fresh, now.lost]
device.close(); now.close()
results
"""
    )
    assert set(results[0]) == {"DeviceLost"}, results[0]
    assert all(text.startswith("DeviceLost") for text in results[1]), results[1]
    assert results[2:] == [True, True, False]


def test_a_lost_adopted_device_is_not_replaced_behind_its_owners_back(
    browser_python: BrowserPython,
) -> None:
    results = browser_python(
        HANDMADE
        + CHECK
        + """
import js
own = await (await js.navigator.gpu.requestAdapter()).requestDevice()
device = await fusedconv.device(own)
ok = await works()
own.destroy()
await own.lost
texts = [await failure(works()), await failure(fusedconv.array(ramp(4)))]
fresh = await fusedconv.device()
[ok, texts, await works(), fresh.lost]
"""
    )
    assert results[0] is True
    assert all("adopt another" in text for text in results[1])
    assert results[2:] == [True, False]


def test_a_memory_budget_trims_the_pool_and_then_refuses(browser_python: BrowserPython) -> None:
    results = browser_python(
        HANDMADE
        + CHECK
        + """
MIB = 2**20
device = await fusedconv.device(without="timestamp-query", memory_budget=16 * MIB)
def tensor(mib):
    return fusedconv.array(np.zeros(mib * MIB // 4, np.float32))
a, b = await tensor(6), await tensor(6)
refused = await failure(tensor(6))
held = fusedconv.memory().held // MIB
a.free(); b.free()
pooled = fusedconv.memory().pooled // MIB
c = await tensor(14)
after = fusedconv.memory()
c.free()
x = np.zeros((1, 1, 6 * MIB // 4), np.float32)
whole = await failure(run(Handmade(size=256), x, x))
empty = fusedconv.memory()
device.trim()
trimmed = fusedconv.memory().pooled
ok = await works()
device.close()
[refused, held, pooled, after.held // MIB, after.budget == 16 * MIB, whole, empty.in_use, trimmed, ok, str(after)]
"""
    )
    assert results[0].startswith("OutOfMemory")
    assert "budget of 16777216" in results[0]
    assert results[1:5] == [12, 12, 14, True]
    assert results[5].startswith("OutOfMemory")
    assert results[6:9] == [0, 0, True]
    assert "14.0 MiB held" in results[9]


def test_a_buffer_over_the_devices_limit_is_refused(browser_python: BrowserPython) -> None:
    results = browser_python(
        HANDMADE
        + CHECK
        + """
import js
from pyodide.ffi import to_js
own = await (await js.navigator.gpu.requestAdapter()).requestDevice()
device = await fusedconv.device(own)
before = fusedconv.memory().held
text = await failure(fusedconv.empty((2**28 + 4,)))
result = [text, fusedconv.memory().held - before, await works()]
device.close(); own.destroy()
result
"""
    )
    assert results[0].startswith("OutOfMemory")
    assert "maxBufferSize of 268435456" in results[0]
    assert results[1:] == [0, True]


@pytest.mark.expects_errors("memory|allocat")
def test_the_gpus_own_out_of_memory(browser_python: BrowserPython) -> None:
    """An allocation that the device refuses late is an error, and leaves the pool usable."""
    results = browser_python(
        HANDMADE
        + CHECK
        + """
from pyodide.code import run_js
device = await fusedconv.device(without="timestamp-query")
# A stand-in for a GPU that has no memory left: the browser reports it in the same manner.
patch = run_js('''(device) => {
  const create = device.createBuffer, pop = device.popErrorScope, push = device.pushErrorScope;
  let fail = 0, scopes = [];
  device.createBuffer = function (d) { if (d.size > 1e6) fail = 1; return create.call(device, d); };
  device.pushErrorScope = function (f) { scopes.push(f); return push.call(device, f); };
  device.popErrorScope = function () {
    const filter = scopes.pop(), real = pop.call(device);
    if (filter !== "out-of-memory" || !fail) return real;
    fail = 0;
    return real.then(() => ({ message: "out of GPU memory" }));
  };
  return () => { delete device.createBuffer; delete device.popErrorScope; delete device.pushErrorScope; };
}''')
x = np.zeros((1, 1, 2**19), np.float32)
undo = patch(device.gpu_device)
try:
    t = await fusedconv.array(ramp(1, 1, 4))
    first = await failure(fusedconv.array(x))
    second = await failure(run(Handmade(), x, x))
    memory = fusedconv.memory()
finally:
    undo()
results = [first, second, memory.in_use <= 256, memory.pooled < 1e6, await works(), await works(t)]
t.free()
device.close()
results
"""
    )
    assert results[0] == "OutOfMemory: out of GPU memory"
    assert results[1] == "OutOfMemory: out of GPU memory"
    assert results[2:] == [True, True, True, True]
