"""`python -m prepare.operators`: every manifest and template of shaders/ is well-formed."""

from __future__ import annotations

import sys

from fusedconv import ManifestError
from fusedconv.loading import compile_to_source, load

from .steps import ROOT


def main() -> int:
    """Compile each operator as a wheel would; names every one that cannot be."""
    failed = 0
    for manifest in sorted(ROOT.glob("shaders/*/manifest.json")):
        folder = manifest.parent
        try:
            compile(compile_to_source(folder), folder.name, "exec")
        except ManifestError as error:
            print(f"shaders/{folder.name}: {error}")
            failed += 1
        else:
            print(f"shaders/{folder.name}: {len(load(folder, None).manifest.variants)} variants")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
