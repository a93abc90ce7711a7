"""playwright.config.py as a module; its name is not one that `import` can spell."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from .steps import ROOT

__all__ = ["playwright_config"]


def playwright_config() -> ModuleType:
    """Load the checkout's playwright.config.py."""
    spec = importlib.util.spec_from_file_location(
        "playwright_config", ROOT / "playwright.config.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
