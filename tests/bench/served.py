"""The share of random valid requests that a manifest serves, and by which variants.

    python tests/bench/served.py [--count N] [--seed S] [--manifest PATH] [--device NAME ...]

100.0 % is the goal on every device; the published manifest serves 86 to 88 %.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "contract"))

from random_requests import random_conv  # tests/contract

from fusedconv import load_operator
from fusedconv.devices import DEVICES
from fusedconv.operator import Operator, builtin


def served(
    operator: Operator, device: str, count: int, seed: int, extensions: bool
) -> Counter[str]:
    """How many of `count` requests each variant serves; '' for none."""
    rng = Random(seed)
    capabilities = DEVICES[device]
    chosen: Counter[str] = Counter()
    for _ in range(count):
        x, w, arguments = random_conv(rng)
        if "shader-f16" not in capabilities.features:
            arguments["dtype"] = "float32"
        request = operator.request(x, w, **arguments)
        variant = operator.selection(request, capabilities, extensions).choose()
        chosen[variant.id if variant else ""] += 1
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--manifest", help="another manifest.json; default: ours")
    parser.add_argument("--no-extensions", action="store_true")
    parser.add_argument("--device", nargs="*", default=list(DEVICES), choices=list(DEVICES))
    parser.add_argument("--top", type=int, default=6, help="variants to list per device")
    options = parser.parse_args()
    operator = load_operator(options.manifest) if options.manifest else builtin("fusedconv")
    for device in options.device:
        chosen = served(operator, device, options.count, options.seed, not options.no_extensions)
        share = 100 * (1 - chosen[""] / options.count)
        top = ", ".join(
            f"{k or 'none'} {100 * n / options.count:.1f}%"
            for k, n in chosen.most_common(options.top)
        )
        print(
            f"{device:18} {share:6.2f} % of {options.count} (seed {options.seed}): {top}",
            flush=True,
        )


if __name__ == "__main__":
    main()
