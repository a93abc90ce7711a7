"""Compiles each operator of shaders/ into a module of the wheel, so that no browser has to."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileOperators(BuildHookInterface):  # type: ignore[type-arg]
    """`shaders/<operator>/` (expressions and templates) -> `fusedconv/_compiled/<operator>.py`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root / "py"))
        from fusedconv.loading import compile_to_source

        self.folder = TemporaryDirectory()
        target = Path(self.folder.name)
        (target / "__init__.py").write_text('"""Operators, compiled when the wheel was built."""\n')
        for manifest in sorted(root.glob("shaders/*/manifest.json")):
            operator = manifest.parent
            (target / f"{operator.name}.py").write_text(compile_to_source(operator), "utf-8")
        build_data["force_include"][str(target)] = "fusedconv/_compiled"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self.folder.cleanup()
