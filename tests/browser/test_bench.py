"""The bench's pages run, as far as they need no peers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import host
import models
import tables

from prepare.server import serving

pytestmark = pytest.mark.needs_numpy


@pytest.mark.usefixtures("facts")
def test_ours_is_checked_and_timed(page: Page, site: str, tmp_path: Path) -> None:
    server = host.BenchServer(host.mounts(tmp_path))
    settings = {
        "report": 1,
        "engines": "ours",
        "repeat": 3,
        "dtypes": "float32",
        "shapes": "1x1 32",
    }
    heard = []
    with serving(server) as url:
        page.goto(f"{url}/bench/?{urlencode(settings)}")
        result = server.result(lambda kind, value: heard.append(kind))
    (shape,) = result["results"]
    (ours,) = shape["engines"]
    assert ours["error"] < 1e-5
    assert ours["variant"]
    assert 0 < ours["resident"]["least"] <= ours["resident"]["median"]
    assert {"batched", "endToEnd"} <= set(ours)
    assert "result" in heard
    text = tables.report({"name": "this", **result})
    assert "| 1x1 32 " in text
    assert page.locator("#table tr").count() == 2


@pytest.mark.usefixtures("facts")
def test_what_python_costs_is_told(page: Page, site: str, tmp_path: Path) -> None:
    server = host.BenchServer(host.mounts(tmp_path))
    with serving(server) as url:
        page.goto(f"{url}/bench/cost.html")
        found = server.result(lambda kind, value: None)
    assert found["plan, a shape seen before"] < found["plan, the first"]
    assert all(ms > 0 for ms in found.values())


def test_a_table_compares_with_the_faster_peer() -> None:
    def engine(group: str, ms: float) -> dict[str, object]:
        return {"name": group, "group": group, "resident": {"median": ms}, "error": 1e-7}

    engines = [engine("ours", 2.0), engine("ort", 8.0), engine("ort", 6.0), engine("tfjs", 4.0)]
    engines[0]["variant"] = "fast"
    shape = {"name": "3x3", "dtype": "float32", "gflop": 1.0, "engines": engines}
    result = {
        "date": "2026-12-01",
        "adapter": {"info": {"vendor": "acme"}},
        "versions": {"browser": "Chrome/1"},
        "results": [shape],
    }
    row = next(line for line in tables.report(result).splitlines() if line.startswith("| 3x3"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == ["3x3", "2.00", "–", "6.00", "4.00", "–", "0.50", "0.33"]


def test_every_shape_has_a_model_of_its_size(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    models.write_models(tmp_path)
    for index, shape in enumerate(models.load_shapes()):
        file = tmp_path / models.file_name(index, "float32")
        graph = onnx.load(file, load_external_data=False).graph
        assert list(graph.initializer[0].dims) == shape["w"], json.dumps(shape)
