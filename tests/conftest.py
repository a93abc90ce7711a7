"""For all tests: where artifacts go, and what the report says about the browser."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """A folder for pictures and reports that outlive the run: build/artifacts."""
    folder = ROOT / "build" / "artifacts"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
