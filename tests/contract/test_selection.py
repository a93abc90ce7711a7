"""The chosen variant is the published contract's, for every request and device."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusedconv import Capabilities, UnsupportedError, load_operator
from fusedconv.devices import DEVICES
from fusedconv.errors import RequestError
from fusedconv.loading import functions_of
from fusedconv.manifest import expand, parse
from fusedconv.operator import Operator, builtin, shaders_folder

from . import naive
from .random_requests import random_conv

PUBLISHED = Path(__file__).parents[3] / "shared" / "contract" / "manifest.json"


def published():
    """The published contract where it is at hand, else our own expansion of it."""
    if PUBLISHED.exists():
        return json.loads(PUBLISHED.read_text())
    ours = json.loads((shaders_folder() / "fusedconv" / "manifest.json").read_text())
    return expand(ours, extensions=False)


CONTRACT = published()
REQUESTS = st.randoms(use_true_random=False).map(random_conv)


@pytest.fixture(scope="module")
def contract_operator():
    manifest = parse(CONTRACT)
    return Operator(manifest, functions_of(manifest), {})


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(request=REQUESTS, device=st.sampled_from(sorted(DEVICES)))
def test_the_same_choice_as_a_naive_reading(request, device, contract_operator):
    x, w, arguments = request
    checked = contract_operator.request(x, w, **arguments)
    dtype = "f16" if checked.dtype == "float16" else "f32"
    wanted = naive.choose(CONTRACT, checked.shapes, dtype, checked.attributes, DEVICES[device])
    selection = contract_operator.selection(checked, DEVICES[device])
    chosen = selection.choose()
    assert (chosen and chosen.id) == wanted
    ours = builtin("fusedconv").selection(checked, DEVICES[device], extensions=False).choose()
    assert (ours and ours.id) == wanted
    assert selection.explain().chosen == wanted
    shape = selection.scope.shapes["y"]
    assert shape == checked.output_shape


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(request=REQUESTS, device=st.sampled_from(sorted(DEVICES)))
def test_every_valid_request_has_a_plan(request, device):
    x, w, arguments = request
    if arguments["dtype"] == "float16" and "shader-f16" not in DEVICES[device].features:
        arguments["dtype"] = "float32"
    try:
        plan = builtin("fusedconv").plan(x, w, device=DEVICES[device], **arguments)
    except UnsupportedError:
        # A tensor that no buffer of the device can hold, which nothing can serve.
        request = builtin("fusedconv").request(x, w, **arguments)
        largest = max(
            math.prod(shape) for shape in (*request.shapes.values(), request.output_shape)
        )
        nbytes = largest * (2 if request.dtype == "float16" else 4)
        if nbytes <= DEVICES[device].limits["maxBufferSize"]:
            raise
        return
    assert plan.passes
    last = plan.passes[-1]
    written = {b.operand for b in last.bindings if b.buffer == "storage"}
    # A part of what is too large to bind is copied to its place.
    assert "y" in written | {copy.target for copy in last.after}


def test_the_published_manifest_loads_unmodified():
    if not PUBLISHED.exists():
        pytest.skip("the published manifest is not at hand")
    operator = load_operator(PUBLISHED, templates=shaders_folder() / "fusedconv")
    plan = operator.plan((1, 64, 56, 56), (64, 64, 3, 3), pads=1, bias=True, activation="Relu")
    assert plan.variant == "implicit_im2col_tiled_bias_reg_splitk"
    assert [item.dispatch for item in plan.passes] == [(49, 1, 8), (784, 1, 1)]


CASE = ((1, 64, 56, 56), (64, 64, 3, 3))


def test_a_pinned_variant_runs_or_says_which_guard_failed():
    operator = builtin("fusedconv")
    plan = operator.plan(*CASE, pads=1, variant="im2col_gemm_tiled", extensions=False)
    assert plan.variant == "im2col_gemm_tiled"
    with pytest.raises(UnsupportedError, match=r"present\.bias = False"):
        operator.plan(*CASE, pads=1, variant="im2col_gemm_tiled_bias")
    with pytest.raises(RequestError, match="variant"):
        operator.plan(*CASE, variant="fastest")


def test_tunables_are_overridden_for_one_call():
    operator = builtin("fusedconv")
    plain = operator.plan(*CASE, pads=1, extensions=False)
    plan = operator.plan(*CASE, pads=1, extensions=False, tunables={"TILED_SPLIT_K_MODE": 0})
    assert (plain.variant, plan.variant) == (
        "implicit_im2col_tiled_reg_splitk",
        "implicit_im2col_tiled_reg",
    )
    with pytest.raises(RequestError, match="TILED_SPLIT_K_MODE"):
        operator.plan(*CASE, tunables={"TILED_SPLIT_K": 0})


def test_an_explanation_names_the_term_that_failed_and_its_values():
    tiny = Capabilities(limits={"maxComputeInvocationsPerWorkgroup": 128})
    explanation = builtin("fusedconv").explain(*CASE, pads=1, device=tiny, extensions=False)
    verdict = explanation["im2col_gemm_tiled"]
    assert verdict.status == "refused"
    assert verdict.path[0] == "baseContract"
    assert verdict.path[-1] == "tunables.WORKGROUP_SIZE <= deviceWorkgroupCap"
    assert verdict.values == {"tunables.WORKGROUP_SIZE": 256, "deviceWorkgroupCap": 128}
    assert "baseContract > configuredWorkgroupOk > tunables.WORKGROUP_SIZE" in verdict.reason
    assert json.loads(json.dumps(explanation.to_dict()))["variants"]
    assert "<table>" in explanation._repr_html_()
    statuses = {v.status for v in builtin("fusedconv").explain(*CASE, pads=1)}
    assert {"chosen", "eligible", "superseded", "refused"} <= statuses
