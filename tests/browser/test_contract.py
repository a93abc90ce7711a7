"""A contract that is loaded in the page: from a URL, and the published one as a dict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fusedconv.manifest import expand
from fusedconv.operator import shaders_folder

from ..fills import expected, operands

pytestmark = pytest.mark.needs_numpy

PUBLISHED = Path(__file__).parents[3] / "shared" / "contract" / "manifest.json"
SHAPES = {"x": (1, 8, 20, 20), "w": (8, 8, 3, 3), "bias": (8,)}
ATTRIBUTES = {"pads": [1, 1, 1, 1], "activation": "Relu"}


# What operators share lies beside their folders, where it is looked for second.
@pytest.mark.expects_errors("404")
def test_an_operator_from_a_url(browser_python: Any, site: str) -> None:
    source = """
import fusedconv
op = fusedconv.load_operator(place)
y = await op.run(x, w, bias=bias, **attributes)
[len(op.manifest.variants), y]
"""
    given = operands(SHAPES, "float32")
    variants, y = browser_python(
        source, place=f"{site}/shaders/fusedconv", attributes=ATTRIBUTES, **given
    )
    ours = json.loads((shaders_folder() / "fusedconv" / "manifest.json").read_text())
    assert variants == len(expand(ours)["variants"])
    np.testing.assert_array_equal(y, expected(given, ATTRIBUTES).astype("float32"))


@pytest.mark.expects_errors("404")
def test_a_url_that_gives_nothing(browser_python: Any, site: str) -> None:
    source = """
import fusedconv
try:
    fusedconv.load_operator(place)
except fusedconv.ManifestError as error:
    message = str(error)
message
"""
    assert f"{site}/gone/manifest.json" in browser_python(source, place=f"{site}/gone")


def test_the_published_manifest_runs_unmodified(browser_python: Any) -> None:
    if not PUBLISHED.exists():
        pytest.skip("the published manifest is not at hand")
    source = """
import fusedconv
op = fusedconv.load_operator(manifest)
plan = op.plan(x.shape, w.shape, bias=True, **attributes)
[plan.variant, await op.run(x, w, bias=bias, **attributes)]
"""
    given = operands(SHAPES, "float32")
    manifest = json.loads(PUBLISHED.read_text())
    variant, y = browser_python(source, manifest=manifest, attributes=ATTRIBUTES, **given)
    assert variant in {v["id"] for v in manifest["variants"]}
    np.testing.assert_array_equal(y, expected(given, ATTRIBUTES).astype("float32"))
