"""Faults of other engines, as requests; tests/hazards.py lists them.

Every variant that can serve a request runs it three times: on arrays, and twice on resident
tensors into an `out` that was full of NaN. Fills are exact, so results are compared bitwise.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from fusedconv import Capabilities
from fusedconv.operator import builtin
from fusedconv.request import Request

from ..contract.variant_cases import SMALL, SMALL_TILES
from ..fills import difference, expected, hashed, operands
from ..hazards import CASES, HALF, HazardCase
from .conftest import BrowserPython

pytestmark = pytest.mark.needs_numpy
OPERATOR = builtin("fusedconv")
LOW = {**SMALL, **SMALL_TILES}
TRANSPOSED = builtin("convtranspose")

RUN = """
import asyncio, fusedconv, numpy as np

async def attempt(case):
    options = case["options"]
    given = {name: case.get(name) for name in ("x", "w", "bias", "z")}
    y = await fusedconv.run(**given, **options)
    there = {k: None if v is None else await fusedconv.array(v) for k, v in given.items()}
    sentinel = np.full(y.shape, np.nan, y.dtype)
    for _ in range(2):
        out = await fusedconv.array(sentinel)
        again = await (await fusedconv.run(**there, out=out, **options)).numpy()
        if again.tobytes() != y.tobytes():
            return f"another result when run again: {again.ravel()[:8]}, not {y.ravel()[:8]}"
    return y

async def tried(case):
    try:
        return await attempt(case)
    except fusedconv.FusedConvError as error:
        return f"{type(error).__name__}: {error}"

await asyncio.gather(*map(tried, cases))
"""
DEVICE = "import fusedconv\n(await fusedconv.device()).capabilities.to_json()"


def device(browser_python: BrowserPython) -> Capabilities:
    return Capabilities.from_json(browser_python(DEVICE))


def arguments(case: HazardCase, dtype: str) -> dict[str, Any]:
    return {"dtype": dtype, "bias": case.bias, "z": case.z, **case.attributes}


def eligible(
    case: HazardCase, dtype: str, capabilities: Capabilities, tunables: Mapping[str, float] = LOW
) -> list[str]:
    """Every variant that can serve a request, thresholds of size lowered."""
    request = OPERATOR.request(case.x, case.w, **arguments(case, dtype))
    selection = OPERATOR.selection(request, capabilities, True, tunables)
    return [v.id for v in selection.variants if selection.refusal(v) is None]


def request_of(case: HazardCase, dtype: str) -> Request:
    operator = TRANSPOSED if case.transposed else OPERATOR
    return operator.request(case.x, case.w, **arguments(case, dtype))


def job(case: HazardCase, dtype: str, **options: Any) -> dict[str, Any]:
    """What the browser needs to run a case; `options` are those of `fusedconv.run`."""
    given = operands(request_of(case, dtype).shapes, dtype)
    if "zResidual" in given:
        given["z"] = given.pop("zResidual")
    options = {**case.attributes, **options}
    return {**given, "options": options, "transposed": case.transposed}


def faults(
    results: Sequence[Any], listed: Sequence[tuple[HazardCase, str]], dtype: str
) -> list[str]:
    """What is wrong with each result that is not right; `listed` has its case and a remark."""
    found = []
    for got, (case, remark) in zip(results, listed, strict=True):
        given = operands(request_of(case, dtype).shapes, dtype)
        want = expected(given, case.attributes, case.transposed)
        activation = case.attributes.get("activation")
        fault = got if isinstance(got, str) else difference(got, want, dtype, activation)
        if fault:
            found.append(f"{case.name} {remark}: {fault}")
    return found


def check(browser_python: BrowserPython, cases: Sequence[HazardCase], dtype: str) -> list[str]:
    capabilities = device(browser_python)
    listed = [(c, variant) for c in cases for variant in eligible(c, dtype, capabilities)]
    assert len(listed) >= len(cases)
    jobs = [job(c, dtype, variant=variant, tunables=LOW) for c, variant in listed]
    return faults(browser_python(RUN, cases=jobs), listed, dtype)


@pytest.mark.parametrize("kind", [kind for kind in CASES if kind != "sums"])
def test_case(kind: str, browser_python: BrowserPython) -> None:
    assert not check(browser_python, CASES[kind], "float32")


@pytest.mark.needs_f16
@pytest.mark.parametrize("kind", HALF)
def test_half(kind: str, browser_python: BrowserPython) -> None:
    assert not check(browser_python, CASES[kind], "float16")


# Variants with scratch, whose slack a product might touch: (case, variant).
SCRATCH = [
    (HazardCase((2, 5, 9, 11), (7, 5, 3, 3), {"pads": [1] * 4}), "im2col_gemm_tiled"),
    (HazardCase((2, 5, 9, 11), (7, 5, 3, 3), bias=True, z=True), "im2col_gemm_tiled_bias_z"),
    (HazardCase((1, 37, 9, 11), (70, 37, 3, 3)), "implicit_im2col_tiled_reg_splitk"),
    (HazardCase((1, 45, 9, 11), (33, 45, 3, 3), bias=True), "ext_gemm_tiled_bias"),
    (HazardCase((3, 24, 6, 22), (130, 24, 1, 1), bias=True, z=True), "ext_gemm_1x1_bias_z"),
]

POISON = """
async def poison(nbytes, dtype):
    held = [await fusedconv.array(np.full(max(1, n // 4), np.nan, "float32")) for n in nbytes for _ in range(3)]
    for t in held:
        t.free()
    fusedconv.memory()
"""


def test_poisoned_scratch(browser_python: BrowserPython) -> None:
    """Idle buffers of every size that a call takes are full of NaN; none of it is multiplied."""
    listed = SCRATCH
    jobs = [job(case, "float32", variant=v, tunables=LOW) for case, v in listed]
    results = browser_python(
        "import fusedconv, numpy as np\n"
        + POISON
        + """
results = []
for case in cases:
    given = {name: case.get(name) for name in ("x", "w", "bias", "z")}
    shapes = {name: v is not None and v.shape for name, v in given.items()}
    plan = fusedconv.plan(shapes["x"], shapes["w"], bias=shapes["bias"], z=shapes["z"], **case["options"])
    assert plan.scratch
    sizes = [s.nbytes for s in plan.scratch] + [v.nbytes for v in given.values() if v is not None]
    for _ in range(2):
        await poison([*sizes, plan.output_nbytes], "float32")
        y = await fusedconv.run(**given, **case["options"])
    results.append(y)
results
""",
        cases=jobs,
    )
    assert not faults(results, listed, "float32")


# Batches of two, so that an image and a channel have neighbours; some with tiles sliced along k.
NEIGHBOURED = [
    (HazardCase((2, 37, 7, 9), (33, 37, 1, 1)), {}),
    (HazardCase((2, 5, 9, 11), (7, 5, 3, 3), {"pads": [1] * 4}), {}),
    (HazardCase((2, 37, 40), (5, 37, 3), {"pads": [1, 1]}), {}),
    (HazardCase((2, 74, 9, 11), (66, 37, 3, 3), {"group": 2}), {"GEMM_MIN_SLICE_TILES": 1}),
]


def test_not_a_number_stays_with_its_channel_and_image(browser_python: BrowserPython) -> None:
    """Nothing past the end of a row, of K or of an image is multiplied, be it by 0."""
    capabilities, listed, jobs = device(browser_python), [], []
    for case, tunables in NEIGHBOURED:
        low = {**LOW, **tunables}
        for variant in eligible(case, "float32", capabilities, low):
            far, near = (job(case, "float32", variant=variant, tunables=low) for _ in range(2))
            far["x"][1], far["w"][1::2] = np.nan, np.nan
            # Where an address that does not count points to.
            near["x"].reshape(-1)[0] = np.nan
            listed.append((case, variant))
            jobs += [far, near]
    results = browser_python(RUN, cases=jobs)
    found = []
    for far, near, (case, variant) in zip(results[::2], results[1::2], listed, strict=True):
        given = operands(request_of(case, "float32").shapes, "float32")
        want = expected(given, case.attributes).astype("float32")
        if isinstance(far, str) or not np.array_equal(far[0, ::2], want[0, ::2]):
            found.append(f"{case.name} {variant}: {far}")
        given["x"].reshape(-1)[0] = np.nan
        want = expected(given, case.attributes)
        # Transforms spread it over a tile.
        if "winograd" not in variant and (fault := difference(near, want, "float32", None)):
            found.append(f"{case.name} {variant}: {fault}")
    assert not found


def test_folded_grids(browser_python: BrowserPython) -> None:
    """More workgroups than a dimension holds: tiny ones, so that small requests have that many."""
    tiny = {**SMALL, "WORKGROUP_SIZE": 2, "GROUPED_WIDE_WORKGROUP_SIZE": 2}
    given = [
        HazardCase((1, 1, 401, 400), (1, 1, 3, 3)),
        HazardCase((3, 2, 45001), (1, 2, 3), bias=True),
        HazardCase((2, 4, 290, 300), (4, 1, 5, 5), {"group": 4}),
        HazardCase((1, 1, 60, 54, 50), (1, 1, 2, 2, 2), z=True),
    ]
    capabilities = device(browser_python)
    listed = []
    for case in given:
        for name in eligible(case, "float32", capabilities, tiny):
            more = {**arguments(case, "float32"), "variant": name, "tunables": tiny}
            plan = OPERATOR.plan(case.x, case.w, device=capabilities, **more)
            if any(item.dispatch[0] == 65535 for item in plan.passes):
                listed.append((case, name))
    assert len({name for _, name in listed}) >= 5
    jobs = [job(case, "float32", variant=name, tunables=tiny) for case, name in listed]
    results = browser_python(RUN_ALL, cases=jobs)
    assert not faults(results, listed, "float32")


# Plans as for a device with other limits, run on the one that is there.
LOWERED = """
import fusedconv, numpy as np
from contextlib import contextmanager
from fusedconv.gpu.device import current

@contextmanager
def planning(capabilities):
    gpu = current()
    kept, gpu.capabilities = gpu.capabilities, fusedconv.Capabilities.from_json(capabilities)
    gpu.kernels.seen.clear()
    try:
        yield
    finally:
        gpu.capabilities = kept
        gpu.kernels.seen.clear()
"""
RUN_ALL = """
import fusedconv
results = []
for case in cases:
    given = {name: case.get(name) for name in ("x", "w", "bias", "z")}
    run = fusedconv.conv_transpose if case["transposed"] else fusedconv.run
    results.append(await run(**given, **case["options"]))
results
"""
RUN_LOWERED = f"""
import fusedconv
await fusedconv.device()
with planning(lowered):
{textwrap.indent(RUN_ALL, "    ")}
results
"""


def test_a_device_with_default_limits(browser_python: BrowserPython) -> None:
    """As small a device as WebGPU allows: 256 invocations, 16 KiB of workgroup memory."""
    given = [case for cases in CASES.values() for case in cases[:2]]
    jobs = [job(case, "float32") for case in given]
    results, cap = browser_python(
        """
        import asyncio, fusedconv, js
        own = await (await js.navigator.gpu.requestAdapter()).requestDevice()
        device = await fusedconv.device(own)
        cap = device.capabilities.limits["maxComputeWorkgroupStorageSize"]
        results = await asyncio.gather(*(
            fusedconv.run(c["x"], c["w"], c.get("bias"), c.get("z"), **c["options"]) for c in cases))
        device.close()
        own.destroy()
        results, cap
        """,
        cases=jobs,
    )
    assert cap == 16384
    assert not faults(results, [(c, "") for c in given], "float32")


def test_operands_are_left_as_they_are(browser_python: BrowserPython) -> None:
    """The residual may be the input itself, and neither is ever the memory of the result."""
    x, w = hashed((2, 6, 5, 7), "x"), hashed((6, 6, 1, 1), "w")
    results = browser_python(
        """
        import fusedconv
        t = await fusedconv.array(x)
        conv = await fusedconv.prepare(w)
        results = []
        for call in (lambda: fusedconv.run(t, w, z=t), lambda: conv(t, t)):
            first = await call()
            second = await call()
            results += [await first.numpy(), await second.numpy(), await t.numpy()]
            first.free()
            results.append(await (await call()).numpy())
        results
        """,
        x=x,
        w=w,
    )
    want = expected({"x": x, "w": w, "zResidual": x}, {}).astype("float32")
    for i, y in enumerate(results):
        np.testing.assert_array_equal(y, x if i % 4 == 2 else want)


X, W = (2, 6, 11, 10), (6, 6, 4, 4)
BASE = {"pads": [1, 2, 2, 1]}
# Requests that share shapes, and mostly the output's, but for one thing.
NEIGHBOURS: list[HazardCase] = [
    HazardCase(X, W, BASE),
    HazardCase(X, W, BASE, bias=True),
    HazardCase(X, W, BASE, z=True),
    HazardCase(X, W, BASE, bias=True, z=True),
    HazardCase(X, W, {"pads": [2, 1, 1, 2]}),
    HazardCase(X, W, {"pads": [2, 2, 1, 1]}),
    HazardCase(X, W, {"auto_pad": "SAME_UPPER"}),
    HazardCase(X, W, {"auto_pad": "SAME_LOWER"}),
    HazardCase(X, W, {**BASE, "strides": [2, 1]}),
    HazardCase(X, W, {**BASE, "strides": [1, 2]}),
    HazardCase(X, W, {"dilations": [2, 1], "pads": [1, 2, 5, 1]}),
    HazardCase(X, W, {"dilations": [1, 2], "pads": [1, 2, 2, 4]}),
    HazardCase(X, (6, 3, 4, 4), {**BASE, "group": 2}),
    HazardCase(X, (6, 1, 4, 4), {**BASE, "group": 6}),
    *(HazardCase(X, W, {**BASE, "activation": name}) for name in ("Relu", "ThresholdedRelu")),
    *(
        HazardCase(X, W, {**BASE, "activation": name, "activation_params": params})
        for name, params in (
            ("LeakyRelu", [0.25]),
            ("LeakyRelu", [-0.25]),
            ("ThresholdedRelu", [0.5]),
            ("Clip", [0.0, 1.0]),
            ("Clip", [0.0, 2.0]),
            ("Clip", [-1.0, 1.0]),
            ("Clip", [0.0, float("inf")]),
            ("Clip", [float("-inf"), 1.0]),
        )
    ),
    HazardCase((1, 12, 11, 10), (12, 12, 4, 4), BASE),
    HazardCase((2, 6, 10, 11), W, BASE),
]


@pytest.mark.parametrize("resident", [False, True])
def test_requests_that_differ_in_one_thing(resident: bool, browser_python: BrowserPython) -> None:
    """Interleaved, forwards and backwards: a cache that forgets a thing gives another's result."""
    jobs = [job(case, "float32") for case in NEIGHBOURS]
    results = browser_python(
        """
        import fusedconv, numpy as np
        resident = {}
        async def there(v):
            if v is None or not is_resident:
                return v
            key = v.tobytes(), v.shape
            if key not in resident:
                resident[key] = await fusedconv.array(v)
            return resident[key]
        async def attempt(case):
            given = {name: await there(case.get(name)) for name in ("x", "w", "bias", "z")}
            y = await fusedconv.run(**given, **case["options"])
            return await y.numpy() if is_resident else y
        forwards = [await attempt(case) for case in cases]
        backwards = [await attempt(case) for case in reversed(cases)][::-1]
        same = [a.tobytes() == b.tobytes() for a, b in zip(forwards, backwards)]
        forwards, same
        """,
        cases=jobs,
        is_resident=resident,
    )
    assert results[1] == [True] * len(jobs)
    assert not faults(results[0], [(c, "") for c in NEIGHBOURS], "float32")


@pytest.mark.needs_f16
def test_dtypes_that_take_turns(browser_python: BrowserPython) -> None:
    case = HazardCase(X, W, BASE, bias=True)
    jobs = [job(case, dtype) for dtype in ("float32", "float16")]
    results = browser_python(RUN_ALL, cases=jobs * 2)
    for got, dtype in zip(results, ("float32", "float16") * 2, strict=True):
        assert not faults([got], [(case, dtype)], dtype)


# Of these two inputs, on software adapters, each has the weights laid out in another way.
SIZES = [(1, 16, 3, 3), (1, 16, 24, 24)]


def test_one_prepared_object_serves_many_requests(browser_python: BrowserPython) -> None:
    """A residual that comes and goes, inputs whose kernels want the weights laid out otherwise."""
    cases = [
        HazardCase(size, (16, 4, 3, 3), {"group": 4}, bias=True, z=z)
        for size in SIZES
        for z in (False, True)
    ]
    jobs = [job(case, "float32") for case in cases]
    results = browser_python(
        """
        import fusedconv
        conv = await fusedconv.prepare(cases[0]["w"], cases[0]["bias"], group=4)
        order = [*cases, *reversed(cases), cases[0], cases[2], cases[1], cases[3]]
        resident = [(await fusedconv.array(c["x"]), c.get("z")) for c in order]
        results = [await conv(c["x"], c.get("z")) for c in order]
        results += [await (await conv(x, z)).numpy() for x, z in resident]
        conv.free()
        results
        """,
        cases=jobs,
    )
    order = [*cases, *reversed(cases), cases[0], cases[2], cases[1], cases[3]] * 2
    assert not faults(results, [(c, "") for c in order], "float32")


def test_empty_before_real(browser_python: BrowserPython) -> None:
    x, w = hashed((2, 3, 6, 6), "x"), hashed((4, 3, 3, 3), "w")
    results = browser_python(
        """
        import fusedconv
        conv = await fusedconv.prepare(w)
        nothing = x[:0]
        shapes = [(await conv(nothing)).shape]
        y = await conv(x)
        t = await conv(await fusedconv.array(nothing))
        shapes += [t.shape, (await t.numpy()).shape, (await fusedconv.run(x, w[:0])).shape]
        async with fusedconv.batch():
            t = await conv(await fusedconv.array(nothing))
            u = await conv(await fusedconv.array(x))
        shapes, y, await u.numpy(), await conv(x)
        """,
        x=x,
        w=w,
    )
    assert results[0] == [[0, 4, 4, 4]] * 3 + [[2, 0, 4, 4]]
    want = expected({"x": x, "w": w}, {}).astype("float32")
    for y in results[1:]:
        np.testing.assert_array_equal(y, want)


def test_mixed_calls_leave_memory_flat(browser_python: BrowserPython) -> None:
    """Two hundred calls of mixed shapes, some of which fail, again and again."""
    before, after, wrong = browser_python(
        """
        import gc, random, fusedconv, numpy as np, pyodide_js
        rng = np.random.default_rng(5)
        shapes = [((1, c, s, s + 1), (m, c, k, k)) for c in (1, 3, 8) for s in (7, 20) for m in (2, 9) for k in (1, 3)]
        arrays = [tuple(rng.standard_normal(s).astype("float32") for s in pair) for pair in shapes]
        first = {}
        async def some(count):
            wrong = 0
            random.seed(1)
            for i in range(count):
                k = random.randrange(len(arrays))
                x, w = arrays[k]
                if i % 5 == 4:
                    try:
                        await fusedconv.run(x, w, bias=x, pads=[1])
                        wrong += 1
                    except fusedconv.RequestError:
                        continue
                y = await fusedconv.run(await fusedconv.array(x) if i % 2 else x, w)
                if i % 2:
                    y = await y.numpy()
                wrong += first.setdefault(k, y.tobytes()) != y.tobytes()
            return wrong
        def state():
            gc.collect()
            m = fusedconv.memory()
            return [m.held, m.buffers_created, m.plans, m.pipelines, m.buffers_in_use, pyodide_js._module.HEAP8.length]
        wrong = await some(200)
        before = state()
        wrong += await some(200)
        before, state(), wrong
        """
    )
    assert wrong == 0
    assert after == before
