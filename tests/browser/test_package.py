"""The wheel and the Pyodide folder: what is inside, and every way to load it."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Page

from prepare.pyodide import FOLDER

BARE = """async ([folder, source, packages]) => {
  const { loadPyodide } = await import(folder + "pyodide.mjs");
  const pyodide = await loadPyodide({ indexURL: folder });
  await pyodide.loadPackage(packages, { messageCallback: () => {} });
  return await pyodide.runPythonAsync(source);
}"""
PLAN = "fusedconv.plan((1, 3, 8, 8), (4, 3, 3, 3)).output_shape == (1, 4, 6, 6)"


@pytest.fixture
def wheel(site: str) -> zipfile.ZipFile:
    """fusedconv's wheel in the folder that `site` serves."""
    path: Path = next(FOLDER.glob("fusedconv-*-py3-none-any.whl"))
    return zipfile.ZipFile(path)


def test_the_wheel_has_templates_manifest_bridge_and_compiled_operators(
    wheel: zipfile.ZipFile,
) -> None:
    names = set(wheel.namelist())
    assert {
        "fusedconv/shaders/fusedconv/manifest.json",
        "fusedconv/shaders/lib/epilogue.wgsl.jinja",
        "fusedconv/gpu/bridge.js",
        "fusedconv/_compiled/fusedconv.py",
    } <= names


def test_every_module_has_byte_code_that_names_no_folder(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    modules = [Path(name) for name in names if name.endswith(".py")]
    for module in modules:
        cached = module.parent / "__pycache__" / f"{module.stem}.cpython-314.pyc"
        content = wheel.read(str(cached))
        # Unchecked: a browser that unpacks the wheel now must not compare dates.
        assert content[4:8] == b"\1\0\0\0"
        assert module.as_posix().encode() in content
        assert b"/home/" not in content.replace(b"/home/pyodide", b"")
        assert str(Path.cwd()).encode() not in content


def test_the_record_lists_every_file(wheel: zipfile.ZipFile) -> None:
    record = next(name for name in wheel.namelist() if name.endswith("/RECORD"))
    listed = dict(line.split(",", 1) for line in wheel.read(record).decode().splitlines())
    assert set(listed) == set(wheel.namelist())
    for name, entry in listed.items():
        if name != record:
            content = wheel.read(name)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            assert entry == f"sha256={digest.decode()},{len(content)}"


def test_load_package_brings_the_dependencies_and_no_numpy(page: Page, site: str) -> None:
    page.goto(f"{site}/tests/blank.html")
    source = f"import sys, fusedconv, jinja2; {PLAN} and 'numpy' not in sys.modules"
    assert page.evaluate(BARE, [f"{site}/pyodide/", source, ["fusedconv"]])


def test_micropip_installs_it_from_a_url(page: Page, site: str, wheel: zipfile.ZipFile) -> None:
    page.goto(f"{site}/tests/blank.html")
    url = f"{site}/pyodide/{Path(wheel.filename or '').name}"
    source = f"import micropip; await micropip.install({url!r}); import fusedconv; {PLAN}"
    assert page.evaluate(BARE, [f"{site}/pyodide/", source, ["micropip"]])


def test_pages_are_isolated_and_never_stale(page: Page, site: str) -> None:
    response = page.goto(f"{site}/tests/blank.html")
    assert response is not None
    assert response.headers["cache-control"] == "no-cache"
    assert page.evaluate("crossOriginIsolated")
    for name, kind in {
        "/pyodide/pyodide.mjs": "text/javascript",
        "/pyodide/pyodide.asm.wasm": "application/wasm",
        "/model/model.json": "application/json",
    }.items():
        assert page.request.get(site + name).headers["content-type"] == kind
    assert page.request.get(f"{site}/../pyproject.toml").status == 404
    assert page.request.get(f"{site}/%2e%2e/pyproject.toml").status == 404
