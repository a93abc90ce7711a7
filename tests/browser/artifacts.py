"""Where tests leave what people may want to look at."""

from __future__ import annotations

from pathlib import Path

__all__ = ["artifact"]

FOLDER = Path(__file__).parents[2] / "build" / "artifacts"


def artifact(name: str) -> Path:
    """The path of a file to keep."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    return FOLDER / name
