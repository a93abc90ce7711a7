"""Tuning in the browser: measured once, used from then on, remembered across visits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ..fills import expected, operands
from .conftest import BrowserError, BrowserPython

SETUP = """
import fusedconv
from fusedconv import tunings
from fusedconv.gpu import findings
X, W = (1, 8, 12, 12), (8, 8, 3, 3)
options = {"bias": True, "pads": [1, 1, 1, 1], "activation": "Relu"}
told = []

def progress(done, of, measured):
    told.append((done, of, measured.variant, measured.ms))
"""


def test_the_fastest_is_found_once_and_followed(browser_python: BrowserPython) -> None:
    found = browser_python(
        SETUP
        + """
await findings.forget()
first = await fusedconv.tune(X, W, progress=progress, seconds=5, **options)
count = len(told)
again = await fusedconv.tune(X, W, progress=progress, **options)
explanation = fusedconv.explain(X, W, **options)
{
    "told": told, "count": count, "same": again == first, "variant": first.variant,
    "tunables": dict(first.tunables), "ms": first.ms, "planned": fusedconv.plan(X, W, **options).variant,
    "chosen": explanation.chosen, "times": {v.id: v.ms for v in explanation if v.ms is not None},
    "failed": [str(m) for m in first.measured if m.ms is None],
    "held": fusedconv.memory().in_use,
}
"""
    )
    assert found["count"] >= 3
    assert len(found["told"]) == found["count"]
    assert found["same"]
    assert found["failed"] == []
    assert found["planned"] == found["chosen"] == found["variant"]
    assert found["times"][found["variant"]] == pytest.approx(found["ms"])
    assert found["ms"] > 0
    assert all(done <= of for done, of, *_ in found["told"])


def test_a_later_visit_finds_it_without_measuring(browser_python: BrowserPython) -> None:
    found = browser_python(
        SETUP
        + """
first = await fusedconv.tune(X, W, **options)
tunings.clear()          # what a fresh page has
findings._recalled = None
await findings.recall()
again = await fusedconv.tune(X, W, progress=progress, **options)
[told, again == first, len(tunings)]
"""
    )
    assert found[:2] == [[], True]
    assert found[2] >= 1


def test_another_version_forgets(browser_python: BrowserPython) -> None:
    found = browser_python(
        SETUP
        + """
from dataclasses import replace
first = await fusedconv.tune(X, W, **options)
await findings.forget()
old = replace(first, key=replace(first.key, version="0.0.1 abc"))
await findings.remember(old)
await fusedconv.tune(X, W, progress=progress, seconds=0, **options)
tunings.clear()
findings._recalled = None
await findings.recall()
[len(told), [t.key.version == first.key.version for t in tunings]]
"""
    )
    assert found == [1, [True]]


def test_prepare_tunes_with_the_first_call(browser_python: BrowserPython) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((1, 8, 12, 12), np.float32)
    w = rng.standard_normal((8, 8, 3, 3), np.float32)
    found = browser_python(
        SETUP
        + """
await findings.forget()
want = await fusedconv.run(x, w, pads=[1, 1, 1, 1])
conv = await fusedconv.prepare(w, pads=[1, 1, 1, 1], tune=progress)
calls = [conv(x), conv(x)]
x[:] = 0
ys = [await call for call in calls]
count = len(told)
again = await fusedconv.prepare(w, pads=[1, 1, 1, 1], tune=progress)
plan = await again.warm(x.shape)
[want, *ys, count, len(told), plan.variant, [t.variant for t in tunings]]
""",
        x=x,
        w=w,
    )
    want, first, second, count, later, variant, winners = found
    np.testing.assert_allclose(first, want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(second, want, rtol=1e-5, atol=1e-5)
    assert count == later >= 3
    assert winners == [variant]


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((2, 20, 11, 13), (40, 20, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 48, 9, 9), (40, 48, 1, 1), {}),
        ((1, 40, 700), (40, 40, 3), {"pads": [1, 1]}),
        ((1, 16, 20, 21), (16, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 16}),
    ],
    ids=["3x3", "1x1", "1-D", "depthwise"],
)
def test_every_candidate_is_right(
    browser_python: BrowserPython,
    x: tuple[int, ...],
    w: tuple[int, ...],
    attributes: dict[str, Any],
) -> None:
    given = operands({"x": x, "w": w, "bias": w[:1]}, "float32")
    count, wrong = browser_python(
        """
import numpy as np, fusedconv
from fusedconv.operator import builtin
from fusedconv.tuning import candidates
device = await fusedconv.device()
operator = builtin("fusedconv")
request = operator.request(x.shape, w.shape, bias=True, activation="Relu", **attributes)
offered = candidates(operator, request, device.capabilities)
if w.shape[2:] != (3, 3):  # the tiles of the dense product are the same for all
    offered = [way for way in offered if "GEMM_TILE_M" not in way.tunables]
wrong = []
for way in offered:
    options = {"variant": way.variant, "tunables": way.tunables or None}
    y = await fusedconv.run(x, w, bias=bias, activation="Relu", **options, **attributes)
    if not np.allclose(y, want, rtol=1e-4, atol=1e-4):
        wrong.append(f"{way}: {np.abs(y - want).max()}")
[len(offered), wrong]
""",
        **given,
        want=expected(given, {"activation": "Relu", **attributes}).astype("float32"),
        attributes=attributes,
    )
    assert wrong == []
    assert count > 3


def test_a_fast_candidate_that_is_wrong_does_not_win(browser_python: BrowserPython) -> None:
    first, variant, failed = browser_python(
        SETUP
        + """
from fusedconv.tuner import Trials

class Liar(Trials):
    async def apart(self, trial, other):
        return 0.5 if str(trial.candidate) == names[1] else 0.0

from fusedconv.operator import builtin
from fusedconv.tuning import candidates
import fusedconv.gpu.device as devices
gpu = await devices.acquire()
operator = builtin("fusedconv")
request = operator.request(X, W, **options)
with Liar(gpu, operator, request) as trials:
    for candidate in candidates(operator, request, gpu.capabilities)[:3]:
        await trials.first(candidate, set())
    for i, trial in enumerate(trials.running):
        trial.ms = [1.0, 0.2, 0.3][i]
    names = [str(trial.candidate) for trial in trials.running]
    winner = await trials.winner()
    failed = [str(item) for item in trials.failed]
[names, str(winner.candidate), failed]
"""
    )
    assert variant == first[2]
    assert len(failed) == 1
    assert f"{first[1]}  wrong: 0.5 of the largest value from {first[0]}" in failed[0]


def test_a_pinned_choice_is_not_tuned(browser_python: BrowserPython) -> None:
    with pytest.raises(BrowserError, match="tune: got a pinned choice"):
        browser_python(
            SETUP
            + """
w = (memoryview(bytes(8 * 8 * 9 * 4)).cast("f"), W)
await fusedconv.prepare(w, tune=True, variant="direct_nd")
"""
        )


def test_tuning_leaves_nothing_allocated(browser_python: BrowserPython) -> None:
    before, after = browser_python(
        SETUP
        + """
await fusedconv.tune(X, W, again=True, seconds=0.5, **options)
before = fusedconv.memory()
await fusedconv.tune(X, W, again=True, seconds=0.5, **options)
after = fusedconv.memory()
[[before.in_use, before.prepared], [after.in_use, after.prepared]]
"""
    )
    assert before == after
