"""The harness itself: what crosses between a test and the browser's Python, and what fails one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from playwright.sync_api import Browser

from .conftest import BrowserError, BrowserPython, Session


def test_the_last_expression_comes_back(browser_python: BrowserPython) -> None:
    assert browser_python("1 + n", n=1) == 2
    assert browser_python("import asyncio; await asyncio.sleep(0); [1.5, None, 'a']") == [
        1.5,
        None,
        "a",
    ]
    assert math.isnan(browser_python("float('nan')"))


def test_errors_carry_the_traceback(browser_python: BrowserPython) -> None:
    with pytest.raises(BrowserError, match="ZeroDivisionError: division by zero"):
        browser_python("1 / 0")


@pytest.mark.needs_numpy
def test_arrays_cross_in_both_directions(browser_python: BrowserPython) -> None:
    x = np.arange(6, dtype=np.float16).reshape(2, 3)
    y = browser_python("x.T * 2", x=x)
    assert y.dtype == np.float16
    np.testing.assert_array_equal(y, x.T * 2)


def test_fusedconv_is_loaded_compiled(browser: Browser, session: Session) -> None:
    """In a page of its own: other tests load contracts, which takes Jinja."""
    fresh = Session(browser, session.url)
    assert fresh.run(
        """
        import sys, fusedconv, fusedconv._compiled.fusedconv
        [fusedconv.__version__, "__pycache__" in fusedconv.__cached__, "jinja2" in sys.modules]
        """
    ) == ["0.1.0", True, False]
    fresh.open().close()
