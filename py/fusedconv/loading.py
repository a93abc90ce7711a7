"""Reading an operator from a folder, a dict or a URL, and compiling it; needs Jinja."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import ManifestError, RequestError
from .expressions import compile_expression
from .manifest import Manifest, expressions_of, parse
from .operator import Operator, shaders_folder
from .rendering import CompiledTemplate, compile_template, function_name, load_templates

__all__ = ["compile_to_source", "load"]


def load(
    manifest: str | Path | Mapping[str, Any], templates: str | Path | Mapping[str, str] | None
) -> Operator:
    """See `fusedconv.load_operator`."""
    for argument, value in (("manifest", manifest), ("templates", templates)):
        if not isinstance(value, (str, Path, Mapping)) and (value is not None or value is manifest):
            raise RequestError(argument, type(value).__name__, "a folder, a path, a URL or a dict")
    if isinstance(manifest, Mapping):
        data: Any = manifest
        place: str | Path = shaders_folder() / str(data.get("name", "")).lower()
    else:
        data, place = read_manifest(manifest)
    parsed = parse(data)
    if templates is None:
        templates = place
    sources = templates if isinstance(templates, Mapping) else Sources(templates)
    compiled = compile_operator(parsed, sources)
    return Operator(parsed, functions_of(parsed), load_templates(compiled))


def read_manifest(where: str | Path) -> tuple[Any, str | Path]:
    """The manifest's JSON and the folder (or URL of a folder) that it came from."""
    text = str(where)
    if "://" in text:
        url = text if text.endswith(".json") else text.rstrip("/") + "/manifest.json"
        return from_json(fetch(url), url), url.rsplit("/", 1)[0]
    path = Path(where)
    try:
        path = path / "manifest.json" if path.is_dir() else path
        return from_json(path.read_text("utf-8"), str(path)), path.parent
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ManifestError(str(path), f"cannot be read ({reason})") from None


def from_json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ManifestError(where, f"not JSON: {error}") from None


def fetch(url: str) -> str:
    """The text behind a URL; in the browser only, where the page's own rules for URLs hold."""
    try:
        from pyodide.http import pyxhr
    except ModuleNotFoundError:
        raise ManifestError(url, "a URL can be loaded in the browser only; give a path") from None
    try:
        response = pyxhr.get(url)
        response.raise_for_status()
        return str(response.text)
    except Exception as error:
        raise ManifestError(url, f"cannot be fetched ({error})") from None


class Sources(Mapping[str, str]):
    """Templates by name, from a folder or the URL of one; libraries may lie beside the folder."""

    def __init__(self, place: str | Path) -> None:
        self.place = place

    def __getitem__(self, name: str) -> str:
        if "://" in str(self.place):
            try:
                return fetch(f"{self.place}/{name}")
            except ManifestError:
                return fetch(f"{str(self.place).rsplit('/', 1)[0]}/{name}")
        for folder in (Path(self.place), Path(self.place).parent):
            if (folder / name).is_file():
                return (folder / name).read_text("utf-8")
        raise KeyError(name)

    def __iter__(self) -> Any:
        raise TypeError("templates are asked for by name")

    def __len__(self) -> int:
        raise TypeError("templates are asked for by name")


def compile_operator(manifest: Manifest, sources: Mapping[str, str]) -> dict[str, CompiledTemplate]:
    """Every template that the manifest's passes name, and what those import."""
    compiled: dict[str, CompiledTemplate] = {}

    def add(name: str, where: str) -> None:
        if name in compiled:
            return
        try:
            source = sources[name]
        except KeyError:
            raise ManifestError(where, f"there is no template '{name}'") from None
        compiled[name] = compile_template(name, source)
        for other in sorted(compiled[name].imports):
            add(other, name)

    for i, variant in enumerate(manifest.variants):
        for j, spec in enumerate(variant.passes):
            add(spec.shader, f"variants[{i}] ({variant.id}).passes[{j}].shader")
    return compiled


def functions_of(manifest: Manifest) -> dict[str, Any]:
    """Every expression of the manifest as a function, by its text."""
    return {text: compile_expression(text).function() for text in expressions_of(manifest)}


def compile_to_source(folder: Path) -> str:
    """The operator in `folder` as one Python module, for the wheel: no Jinja, no JSON to read."""
    data, place = read_manifest(folder)
    manifest = parse(data)
    templates = compile_operator(manifest, Sources(place))
    names = {name: function_name(name) for name in templates}
    return "\n".join(
        [
            f'"""Compiled from {Path(folder).name}/ and its templates; do not edit."""',
            "from fusedconv.evaluation import NAMESPACE",
            "from fusedconv.manifest import *",
            "globals().update(NAMESPACE)",
            *(template.python for template in templates.values()),
            "FUNCTIONS = {",
            *(
                f"{text!r}: lambda s: {compile_expression(text).python},"
                for text in expressions_of(manifest)
            ),
            "}",
            "TEMPLATES = {" + ", ".join(f"{n!r}: {f}" for n, f in names.items()) + "}",
            f"MANIFEST = {manifest!r}",
            "",
        ]
    )
