"""The super-resolution network against TensorFlow.js running the same file in the same browser."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from playwright.sync_api import Page

from .artifacts import artifact
from .conftest import BrowserPython

TOLERANCE = 1e-4
"""Largest difference of outputs scaled to 0..1."""

# NHWC values of 0..255 in and out; the best of some times, each with the readback.
PEER = """
async ({ backend, height, width, data, runs }) => {
  await tf.setBackend(backend);
  await tf.ready();
  const model = await tf.loadLayersModel("/model/model.json");
  const x = tf.tensor4d(Float32Array.from(data), [1, height, width, 3]);
  let milliseconds = Infinity, values;
  for (let i = 0; i < runs; i++) {
    const start = performance.now();
    const y = model.predict(x);
    values = await y.data();
    milliseconds = Math.min(milliseconds, performance.now() - start);
    y.dispose();
  }
  return { backend: tf.getBackend(), milliseconds, values: Array.from(values) };
}
"""

LOAD = """
import sys
from array import array
from pathlib import Path
from time import perf_counter

import fusedconv
from fusedconv import HostTensor
from pyodide.http import pyfetch

folder = Path("/home/pyodide/superres")
folder.mkdir(exist_ok=True)
for name in ("__init__", "keras", "graph", "lowering", "network", "tiles"):
    source = await (await pyfetch(f"/superres/{name}.py")).string()
    (folder / f"{name}.py").write_text(source)

from superres.keras import read_model, shard_paths
from superres.lowering import lower
from superres.network import Network

async def load_network():
    text = await (await pyfetch("/model/model.json")).string()
    shards = [await (await pyfetch(f"/model/{path}")).bytes() for path in shard_paths(text)]
    return await Network.load(lower(read_model(text, shards)))

async def upload(data, height, width):
    planes = array("f")
    for channel in range(3):
        planes.extend(data[channel::3])
    return await fusedconv.array(HostTensor(planes, (1, 3, height, width)))
"""

OURS = (
    LOAD
    + """
network = await load_network()
x = await upload(data, height, width)
milliseconds = float("inf")
for _ in range(runs):
    start = perf_counter()
    with await network(x) as y:
        host = await y.numpy()
    milliseconds = min(milliseconds, 1e3 * (perf_counter() - start))
layers = []
async def observe(layer):
    layers.append([layer.name, layer.variant, round(layer.ms, 2)])
(await network(x, observe)).free()
x.free()
network.free()
planes = memoryview(host).cast("B").cast("f").tolist()
{"shape": list(host.shape), "planes": planes, "milliseconds": milliseconds, "layers": layers}
"""
)


def picture(height: int, width: int) -> list[float]:
    """NHWC: slopes, a disc and stripes, so that the network has edges to sharpen."""
    values = []
    for row in range(height):
        for column in range(width):
            inside = math.hypot(row - height / 2, column - width / 2) < height / 3
            stripe = 60 if (row + 2 * column) // 5 % 2 else 0
            shade = 200 - stripe if inside else 255 * column / width
            values += [round(shade), round(255 * row / height), 40 + stripe]
    return values


def interleaved(planes: list[float], height: int, width: int) -> list[float]:
    """NCHW -> NHWC."""
    size = height * width
    return [planes[c * size + i] for i in range(size) for c in range(3)]


def peer(page: Page, site: str, **arguments: Any) -> dict[str, Any]:
    page.goto(f"{site}/tests/peer.html")
    found: dict[str, Any] = page.evaluate(PEER, arguments)
    assert found["backend"] == arguments["backend"]
    return found


@pytest.mark.parametrize(
    ("backend", "height", "width", "runs"), [("webgpu", 48, 48, 3), ("cpu", 13, 10, 1)]
)
def test_the_network_is_tensorflows(
    browser_python: BrowserPython,
    page: Page,
    site: str,
    adapter: str,
    backend: str,
    height: int,
    width: int,
    runs: int,
    record_property: Any,
) -> None:
    data = picture(height, width)
    theirs = peer(page, site, backend=backend, height=height, width=width, data=data, runs=runs)
    ours = browser_python(OURS, data=data, height=height, width=width, runs=runs)
    assert ours["shape"] == [1, 3, 2 * height, 2 * width]
    assert len(ours["layers"]) == 16
    values = interleaved(ours["planes"], 2 * height, 2 * width)
    difference = max(abs(a - b) / 255 for a, b in zip(values, theirs["values"], strict=True))
    measured = {
        "adapter": adapter,
        "size": [height, width],
        "largest_difference": difference,
        "fusedconv_ms": round(ours["milliseconds"], 1),
        f"tensorflowjs_{backend}_ms": round(theirs["milliseconds"], 1),
        "layers": ours["layers"],
    }
    artifact(f"network-{adapter}-{backend}.json").write_text(json.dumps(measured, indent=1))
    for name, value in measured.items():
        record_property(name, value)
    assert max(theirs["values"]) > 150
    assert difference <= TOLERANCE


def test_a_run_leaves_nothing_on_the_gpu(browser_python: BrowserPython) -> None:
    before, loaded, first, second, end = browser_python(
        LOAD
        + """
def held():
    return fusedconv.memory().in_use
before = held()
network = await load_network()
loaded = held()
data = [float(i % 251) for i in range(3 * 9 * 7)]
x = await upload(data, 9, 7)
(await network(x)).free()
# What the first run leaves are the weights as the chosen kernels want them.
first = held()
(await network(x)).free()
second = held()
x.free()
after = held()

class Stop(Exception):
    pass
async def observe(layer):
    if layer.index == 7:
        raise Stop
x = await upload(data, 9, 7)
try:
    await network(x, observe)
except Stop:
    pass
x.free()
assert held() == after
network.free()
[before, loaded, first, second, held()]
"""
    )
    assert before < loaded <= first
    assert (second, end) == (first, before)
