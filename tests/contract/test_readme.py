"""The README's table of errors is true: its examples raise what it says."""

import re
from pathlib import Path

import pytest

import fusedconv
from fusedconv import load_operator, plan

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
ROW = re.compile(r"^\| `((?:plan|load_operator)\(.*\))` \| (\w+) \| `(.+)` \| .+ \|$", re.MULTILINE)
ROWS = ROW.findall(README)


def test_the_table_has_rows():
    assert len(ROWS) >= 20
    for name in ("WebGPUUnavailable", "DeviceLost", "OutOfMemory", "ShaderError"):
        assert f"| {name} |" in README
        assert issubclass(getattr(fusedconv, name), fusedconv.FusedConvError)


@pytest.mark.parametrize(("example", "error", "message"), ROWS, ids=[row[0] for row in ROWS])
def test_an_example_of_the_table(example, error, message):
    with pytest.raises(getattr(fusedconv, error), match=re.escape(message)):
        eval(example, {"plan": plan, "load_operator": load_operator})
