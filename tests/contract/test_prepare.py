"""The preparation of a checkout: steps run when they must, and locks say what wheels hold."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from prepare import pyodide, steps
from prepare.steps import SetupError, digest, run, step


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that the steps of a test make, in a checkout of its own."""
    monkeypatch.setattr(steps, "BUILD", tmp_path / "build")
    return tmp_path / "made"


def test_a_step_runs_again_only_for_new_inputs_or_lost_outputs(made: Path) -> None:
    def once(*inputs: object) -> bool:
        return step("a step", made.touch, inputs=inputs, outputs=[made])

    assert [once("a"), once("a"), once("b"), once("b")] == [True, False, True, False]
    made.unlink()
    assert [once("b"), once("b")] == [True, False]


def test_a_step_that_failed_runs_again(made: Path) -> None:
    def fail() -> None:
        made.touch()
        raise SetupError("no")

    with pytest.raises(SetupError):
        step("a step", fail, inputs=["a"], outputs=[made])
    assert step("a step", made.touch, inputs=["a"], outputs=[made])
    with pytest.raises(SetupError, match="made no"):
        step("another", lambda: None, inputs=[], outputs=[made.with_name("missing")])


def test_the_digest_of_a_folder_is_that_of_its_files_names_and_contents(tmp_path: Path) -> None:
    seen = []
    for name, text in (("a", "1"), ("a", "2"), ("b", "2"), ("__pycache__/c", "3")):
        for old in tmp_path.glob("[ab]"):
            old.unlink()
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        seen.append(digest(tmp_path))
    (tmp_path / "b").write_text("2")
    assert len(set(seen)) == 4
    assert digest(tmp_path) == seen[2]


def test_a_failed_command_shows_its_output_and_the_command() -> None:
    with pytest.raises(SetupError, match=r"(?s)^\$ sh -c .*gone wrong$"):
        run("sh", "-c", "echo gone wrong; exit 3")


def test_a_lock_entry_names_what_the_wheel_needs(tmp_path: Path) -> None:
    wheel = tmp_path / "a_b-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a_b/__init__.py", "")
        archive.writestr(
            "a_b-1.0.dist-info/METADATA",
            "Name: A.b\nVersion: 1.0\nRequires-Dist: Jinja2>=3\nRequires-Dist: x; extra == 'y'\n",
        )
    entry = pyodide.lock_entry(wheel)
    assert entry["imports"] == ["a_b"]
    assert entry["depends"] == ["jinja2"]
    assert entry["sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert pyodide.normalized(entry["name"]) == "a-b"
