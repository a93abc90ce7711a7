"""Findings of tuning: plans and explanations follow them, and only where they hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import fusedconv
from fusedconv import Measured, RequestError, Tuning, tunings
from fusedconv.__main__ import main
from fusedconv.devices import DEVICES
from fusedconv.operator import builtin
from fusedconv.tuning import candidates, key_of, plan_digest

X, W, PADS = (1, 64, 56, 56), (64, 64, 3, 3), [1, 1, 1, 1]
DEVICE = DEVICES["desktop"]
SLOWER = "direct_unrolled_bias"


def planned(**arguments: object) -> fusedconv.Plan:
    return fusedconv.plan(X, W, bias=True, pads=PADS, **{"device": DEVICE, **arguments})


@pytest.fixture
def finding() -> Iterator[Tuning]:
    """That the direct kernel is the fastest, with workgroups of 64."""
    operator = builtin("fusedconv")
    request = operator.request(X, W, bias=True, pads=PADS)
    tunables = {"WORKGROUP_SIZE": 64}
    chosen = planned()
    plan = planned(variant=SLOWER, tunables=tunables)
    measured = (Measured(chosen.variant, {}, 2.0), Measured(SLOWER, tunables, 0.5))
    key = key_of(operator, request, DEVICE)
    yield Tuning(key, SLOWER, tunables, 0.5, plan_digest(plan), measured)
    tunings.clear()


def test_plans_follow_a_finding(finding: Tuning) -> None:
    before = planned()
    tunings.add(finding)
    assert planned().variant == SLOWER != before.variant
    assert "@workgroup_size(64" in planned().passes[0].wgsl


def test_what_is_pinned_or_published_or_another_request_does_not(finding: Tuning) -> None:
    before = planned(extensions=False)
    tunings.add(finding)
    assert planned(extensions=False) == before
    assert planned(tunables={"WORKGROUP_SIZE": 128}).variant != SLOWER
    assert planned(variant="direct_nd_bias").variant == "direct_nd_bias"
    assert planned(activation="Relu").variant != SLOWER
    assert planned(device=DEVICES["default"]).variant != SLOWER


def test_a_finding_of_another_version_is_not_used(finding: Tuning) -> None:
    tunings.add(replace(finding, key=replace(finding.key, version="0.0.1 abc")))
    assert planned().variant != SLOWER


def test_a_finding_for_a_kernel_that_has_changed_is_forgotten(finding: Tuning) -> None:
    tunings.add(replace(finding, plan="0" * 16))
    assert planned().variant != SLOWER
    assert len(tunings) == 0


def test_a_finding_with_a_variant_that_is_gone_is_forgotten(finding: Tuning) -> None:
    tunings.add(replace(finding, variant="gone"))
    assert planned().variant != "gone"
    assert len(tunings) == 0


def test_explain_shows_what_was_measured(finding: Tuning) -> None:
    explain = {"device": DEVICE, "bias": True, "pads": PADS}
    untimed = fusedconv.explain(X, W, **explain)
    tunings.add(finding)
    explanation = fusedconv.explain(X, W, **explain)
    assert explanation.chosen == SLOWER
    assert explanation[SLOWER].ms == 0.5
    assert explanation[untimed.chosen].ms == 2.0
    assert "the fastest of 2 measured (WORKGROUP_SIZE 64)" in str(explanation)
    assert " ms  " in str(explanation).splitlines()[0]
    assert " ms  " not in str(untimed).splitlines()[0]
    assert explanation.to_dict()["variants"][0]["ms"] == 0.5


def test_findings_cross_a_file(finding: Tuning, tmp_path: Path) -> None:
    tunings.add(finding)
    tunings.save(tmp_path / "found.json")
    tunings.clear()
    assert tunings.load(tmp_path / "found.json") == 1
    assert list(tunings) == [finding]
    assert planned().variant == SLOWER


def test_the_command_line_follows_a_file(
    finding: Tuning, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tunings.add(finding)
    tunings.save(tmp_path / "found.json")
    tunings.clear()
    request = "explain --x 1,64,56,56 --w 64,64,3,3 --pads 1,1,1,1 --bias --device desktop"
    assert main([*request.split(), "--tunings", str(tmp_path / "found.json")]) == 0
    assert f"chosen      {SLOWER}" in capsys.readouterr().out
    assert main([*request.split(), "--tunings", str(tmp_path / "no.json")]) == 2


@pytest.mark.parametrize("text", ["{}", "{", '{"tunings": [{"variant": 1}]}'])
def test_a_file_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="source"):
        tunings.load(text)


def test_candidates_begin_with_what_would_run_and_are_all_eligible() -> None:
    operator = builtin("fusedconv")
    request = operator.request(X, W, bias=True, pads=PADS)
    offered = candidates(operator, request, DEVICE)
    assert offered[0].variant == planned().variant
    assert not offered[0].tunables
    for candidate in offered:
        assert planned(variant=candidate.variant, tunables=candidate.tunables).passes


@pytest.mark.parametrize("name", ["fusedconv", "convtranspose"])
def test_the_tunables_to_try_are_ones_that_the_manifest_has(name: str) -> None:
    from fnmatch import fnmatchcase

    from fusedconv.tuning import operator_settings

    operator = builtin(name)
    for tunables, patterns in operator_settings(operator):
        operator.checked_tunables(tunables)
        for pattern in patterns:
            assert any(fnmatchcase(v.id, pattern) for v in operator.manifest.variants), pattern


def test_the_speedup_is_over_what_would_run_without(finding: Tuning) -> None:
    assert finding.speedup == 4.0
    assert str(finding).startswith(f"{SLOWER} (WORKGROUP_SIZE 64): 0.5 ms, 4.00 times as fast")
