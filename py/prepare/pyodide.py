"""The self-hosted Pyodide folder: its core, wheels with byte code, a lock that lists them."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
import urllib.request
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from .node import PACKAGES, node
from .python import PYTHON, pip, requirements
from .steps import BUILD, ROOT, run, say, step

__all__ = ["FOLDER", "build_wheel", "has_numpy", "pyodide_folder"]

FOLDER = BUILD / "pyodide"
WHEELS = BUILD / "wheels"
CORE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
SHARED = ROOT.parent / "shared" / "wheels"
BYTE_CODE = Path(__file__).with_name("bytecode.mjs")
PATIENCE, ASK_AGAIN = 5, 3600
"""Seconds to wait for Pyodide's CDN, and after which it is asked again."""


def pyodide_folder() -> Path:
    """Bring build/pyodide up to date: `loadPackage("fusedconv")` works from it."""
    step("Pyodide's core", copy_core, inputs=[PACKAGES / "pyodide/package.json"], outputs=core())
    dependencies = requirements("pyodide")
    folder = WHEELS / "dependencies"
    step(
        "wheels of the dependencies",
        lambda: fetch_wheels(dependencies, folder),
        inputs=[dependencies, BYTE_CODE],
        outputs=[folder],
    )
    numpy = numpy_wheel()
    own = build_wheel()
    wheels = [own, *sorted(folder.glob("*.whl")), *numpy]
    lock = FOLDER / "pyodide-lock.json"
    inputs = [wheel.name for wheel in wheels] + wheels + [Path(__file__)]
    step("Pyodide's folder", lambda: publish(wheels, lock), inputs=inputs, outputs=[lock])
    return FOLDER


def core() -> list[Path]:
    return [FOLDER / name for name in CORE]


def copy_core() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file in core():
        shutil.copyfile(PACKAGES / "pyodide" / file.name, file)


def fetch_wheels(wanted: list[str], folder: Path) -> None:
    """Pure wheels of exactly these versions; MarkupSafe is built without its C part."""
    shutil.rmtree(folder, ignore_errors=True)
    built = [item for item in wanted if item.startswith("markupsafe")]
    pure = [item for item in wanted if item not in built]
    target = ("--python-version", "3.14", "--only-binary=:all:", "--no-deps", "-d", folder)
    pip("download", *target, *pure)
    pip("wheel", "--no-deps", "--no-binary=markupsafe", "-w", folder, *built, env={"CC": "false"})
    add_byte_code(*folder.glob("*.whl"))


def build_wheel() -> Path:
    """fusedconv's own wheel, with byte code; rebuilt when its sources have changed."""
    folder = WHEELS / "own"
    sources = [ROOT / name for name in ("pyproject.toml", "README.md", "py/build_hook.py")]
    sources += [ROOT / "py/fusedconv", ROOT / "shaders", BYTE_CODE]

    def make() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        run(PYTHON, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
        add_byte_code(*folder.glob("*.whl"))

    step("fusedconv's wheel", make, inputs=sources, outputs=[folder])
    return next(folder.glob("*.whl"))


def add_byte_code(*wheels: Path) -> None:
    """Let Pyodide itself compile the wheels' modules, so that no browser has to."""
    run(node(), BYTE_CODE, PACKAGES / "pyodide/pyodide.mjs", *wheels)


def has_numpy() -> bool:
    """Whether the folder has NumPy."""
    return "numpy" in json.loads((FOLDER / "pyodide-lock.json").read_text())["packages"]


def numpy_wheel() -> list[Path]:
    """NumPy for Pyodide: from ../shared/wheels, else from Pyodide's CDN, else nothing."""
    package = json.loads((PACKAGES / "pyodide/package.json").read_text())
    entry = json.loads((PACKAGES / "pyodide/pyodide-lock.json").read_text())["packages"]["numpy"]
    target = WHEELS / "numpy" / entry["file_name"]
    if target.exists():
        return [target]
    target.parent.mkdir(parents=True, exist_ok=True)
    shared = SHARED / target.name
    if shared.exists():
        say(f"NumPy for Pyodide: copied from {shared.parent.parent.name}/{shared.parent.name}")
        shutil.copyfile(shared, target)
        return [target]
    asked = target.with_name("asked")
    if asked.exists() and time.time() - asked.stat().st_mtime < ASK_AGAIN:
        say("no NumPy for Pyodide: its CDN did not answer within the last hour; going on without")
        return []
    asked.touch()
    base = f"https://cdn.jsdelivr.net/pyodide/v{package['version']}/full"
    try:
        with urllib.request.urlopen(f"{base}/{target.name}", timeout=PATIENCE) as answer:
            content = answer.read()
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise OSError("not the file that Pyodide's lock names")
    except OSError as error:
        say(f"no NumPy for Pyodide: neither in ../shared/wheels nor on its CDN ({error})")
        return []
    say("NumPy for Pyodide: taken from Pyodide's CDN")
    target.write_bytes(content)
    return [target]


def publish(wheels: list[Path], lock: Path) -> None:
    """Copy the wheels beside Pyodide's core and write the lock that lists exactly them."""
    for old in FOLDER.glob("*.whl"):
        old.unlink()
    upstream = json.loads((PACKAGES / "pyodide/pyodide-lock.json").read_text())
    packages = {}
    for wheel in wheels:
        shutil.copyfile(wheel, FOLDER / wheel.name)
        entry = lock_entry(wheel)
        packages[normalized(entry["name"])] = entry
    for entry in packages.values():
        entry["depends"] = [name for name in entry["depends"] if name in packages]
    lock.write_text(json.dumps({"info": upstream["info"], "packages": packages}, indent=1) + "\n")


def lock_entry(wheel: Path) -> dict[str, Any]:
    """What a Pyodide lock says of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(archive.read(metadata).decode())
    required = [r for r in headers.get_all("Requires-Dist", []) if "extra ==" not in r]
    tops = {name.split("/")[0] for name in names if name.endswith("/__init__.py")}
    return {
        "name": headers["Name"],
        "version": headers["Version"],
        "file_name": wheel.name,
        "install_dir": "site",
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "package_type": "package",
        "imports": sorted(tops),
        "depends": [normalized(re.split(r"[^\w.-]", item)[0]) for item in required],
        "unvendored_tests": False,
    }


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
