"""What Python costs in the browser: import, planning, and its share of a warm call.

    python tests/bench/plan_cost.py [--adapter lavapipe] [--repeat 5]

Medians over fresh browsers, in milliseconds. cold_start.py measures from page load to result.
"""

from __future__ import annotations

import sys
from statistics import median

import host
import ready

GOALS = {
    "plan, the first": 30,
    "plan, a new shape": 2,
    "plan, a shape seen before": 0.02,
    "a warm resident call, Python's share": 0.1,
}


def main() -> int:
    parser = ready.parser(__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="browsers")
    options = parser.parse_args()
    bench = ready.Bench(options)
    try:
        runs = [bench.page("cost.html") for _ in range(options.repeat)]
    except host.Failed as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    medians = {name: median(run[name] for run in runs) for name in runs[0]}
    if options.json:
        ready.write(options.json, {"adapter": bench.adapter, "ms": medians, "runs": runs})
    width = max(map(len, medians))
    for name, value in medians.items():
        goal = f"   goal {GOALS[name]}" if name in GOALS else ""
        print(f"{name:{width}} {value:10.4f} ms{goal}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
