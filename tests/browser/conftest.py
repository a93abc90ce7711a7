"""Fixtures for tests in a real Chromium: a server, a browser, and Python running in a page.

    def test_it(browser_python):
        assert browser_python("import fusedconv; ...; value", x=array) == ...

`browser_python(source, **variables)` runs Python (top-level await allowed) in Pyodide with
fusedconv, and NumPy where the Pyodide folder has it, in one page that the tests share. The value
of the last expression comes back: plain data and arrays. `page` is a fresh page, `site` the
server's address. Errors on a page's console and GPU errors that nothing caught fail the test.
"""

from __future__ import annotations

import base64
import json
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Error, Page, sync_playwright

from prepare import browser as setup
from prepare.config import playwright_config
from prepare.pyodide import has_numpy, pyodide_folder
from prepare.server import MOUNTS, Server, serving
from prepare.steps import exclusive

HERE = Path(__file__).parent
SETTINGS = playwright_config()
REPORT = pytest.StashKey[list[str]]()
BrowserPython = Callable[..., Any]


class BrowserError(AssertionError):
    """Python in the browser raised; the text is its traceback."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[REPORT] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """What a worker of pytest-xdist has to say goes to the process that reports."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["report"] = session.config.stash[REPORT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    report = node.config.stash[REPORT]
    report += [line for line in node.workeroutput.get("report", []) if line not in report]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for line in config.stash[REPORT]:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def adapter() -> str:
    """Which adapter the browser runs on; see playwright.config.py."""
    with exclusive():
        return setup.prepare_adapter(SETTINGS.ADAPTER)


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of the page's server, over a Pyodide folder that is up to date."""
    with exclusive():
        folder = pyodide_folder()
        # This run keeps the wheel that it started with, whoever builds the next one.
        pinned = {
            f"/pyodide/{file.name}": file.read_bytes()
            for file in (*folder.glob("fusedconv-*.whl"), folder / "pyodide-lock.json")
        }
    with serving(Server(mounts={**MOUNTS, "/tests/": HERE}, pinned=pinned)) as url:
        yield url


@pytest.fixture(scope="session")
def browser(adapter: str) -> Iterator[Browser]:
    """One browser for all tests."""
    with sync_playwright() as playwright:
        settings = SETTINGS.launch_settings(adapter, setup.executable(adapter))
        browser = playwright.chromium.launch(**settings)
        yield browser
        browser.close()


class Errors:
    """What a page complained about."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.found: list[str] = []
        page.on("pageerror", lambda error: self.found.append(f"uncaught: {error}"))
        page.on("crash", lambda page: self.found.append("the page crashed"))
        page.on(
            "console",
            lambda message: (
                message.type == "error"
                and self.found.append(f"console: {message.text} ({message.location['url']})")
            ),
        )

    def check(self, request: pytest.FixtureRequest) -> None:
        """Fail the test for everything that was not announced by the marker `expects_errors`."""
        try:
            self.found += self.page.evaluate("window.gpuErrors?.splice(0) ?? []")
        except Error as error:
            self.found.append(str(error))
        found, self.found = self.found, []
        expected = [m.args[0] for m in request.node.iter_markers("expects_errors")]
        rest = [text for text in found if not any(re.search(e, text) for e in expected)]
        if rest:
            pytest.fail("the page reported:\n" + "\n".join(rest), pytrace=False)


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A fresh page in a profile of its own."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(SETTINGS.TIMEOUT_MS)
    page = context.new_page()
    errors = Errors(page)
    yield page
    errors.check(request)
    context.close()


class Session:
    """The page that `browser_python` runs in; opened again when a test has broken it."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.browser = browser
        self.url = url
        self.page: Page | None = None

    def open(self) -> Page:
        if self.page is not None:
            try:
                self.page.evaluate("1")
            except Error:
                self.page = None
        if self.page is None:
            self.page = self.browser.new_page()
            self.page.set_default_timeout(SETTINGS.TIMEOUT_MS)
            self.errors = Errors(self.page)
            self.page.goto(self.url)
            self.page.evaluate("async () => { await window.ready; }")
        return self.page

    def run(self, source: str, /, **variables: Any) -> Any:
        """Run Python in the page; `variables` are its globals."""
        text = json.dumps(variables, default=packed)
        try:
            result = self.open().evaluate(
                "([source, variables]) => window.runPython(source, variables)",
                [textwrap.dedent(source), text],
            )
        except Error as error:
            raise BrowserError(error.message) from None
        return json.loads(result, object_hook=unpacked)


@pytest.fixture(scope="session")
def session(browser: Browser, site: str) -> Session:
    return Session(browser, f"{site}/tests/harness.html")


@pytest.fixture(scope="session")
def facts(session: Session, adapter: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the browser offers: adapter, features, limits, versions, numpy."""
    found: dict[str, Any] = session.open().evaluate(
        """async () => {
          const adapter = await navigator.gpu?.requestAdapter();
          if (!adapter) return { features: [], limits: {} };
          const limits = {};
          for (const name in adapter.limits) limits[name] = adapter.limits[name];
          return { features: [...adapter.features].sort(), limits };
        }"""
    )
    found |= {"adapter": adapter, "numpy": has_numpy()}
    assert found["features"], f"Chromium offers no WebGPU adapter ({adapter})"
    interesting = [
        f for f in found["features"] if f.startswith(("shader", "subgroups", "timestamp"))
    ]
    matrices = [f for f in found["features"] if "matrix" in f]
    numpy = "with NumPy" if found["numpy"] else "without NumPy (neither ../shared/wheels nor CDN)"
    request.config.stash[REPORT].append(
        f"browser: Chromium {session.browser.version} on {adapter}, "
        f"{', '.join(interesting + matrices)}; Pyodide {numpy}"
    )
    return found


@pytest.fixture
def browser_python(
    session: Session, facts: dict[str, Any], request: pytest.FixtureRequest
) -> Iterator[BrowserPython]:
    """Run Python in the shared page: `browser_python(source, **variables)`."""
    skip_without(facts, request)
    session.open()
    yield session.run
    if session.page is not None:
        session.errors.check(request)


def skip_without(facts: dict[str, Any], request: pytest.FixtureRequest) -> None:
    """Skip a test whose markers ask for what this browser has not."""
    has = request.node.get_closest_marker
    if has("needs_numpy") and not facts["numpy"]:
        pytest.skip("no NumPy for Pyodide: neither in ../shared/wheels nor on Pyodide's CDN")
    if has("needs_f16") and "shader-f16" not in facts["features"]:
        pytest.skip(f"no shader-f16 on {facts['adapter']}")
    if has("needs_matrix") and not any("subgroup-matrix" in f for f in facts["features"]):
        pytest.skip(f"no subgroup matrices on {facts['adapter']}")


def packed(value: Any) -> Any:
    """An array (or a scalar of NumPy's) for JSON; harness.py has the other side."""
    if isinstance(value, np.ndarray):
        content = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"__array__": content, "dtype": str(value.dtype), "shape": value.shape}
    return value.tolist()


def unpacked(item: dict[str, Any]) -> Any:
    if "__array__" not in item:
        return item
    content = bytearray(base64.b64decode(item["__array__"]))
    return np.frombuffer(content, item["dtype"]).reshape(item["shape"])
