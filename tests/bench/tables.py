"""What peers.py prints: milliseconds a call, ratios, and their geometric means.

python tests/bench/tables.py [--least] RESULT.json ...     --least: not medians, but the best
python tests/bench/tables.py --readme [--cudnn CUDNN.json] RESULT.json ...    README's tables
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["report"]

Result = Mapping[str, Any]
KINDS = {
    "resident": "operands resident",
    "endToEnd": "end to end: upload, run, readback",
    "gpu": "the GPU's own time",
}
STATISTIC = "median"
PEERS = {"ort": "onnxruntime-web", "tfjs": "TensorFlow.js", "wasm": "ort wasm"}


def best(shape: Result, group: str, kind: str) -> float | None:
    """The median of an engine, or the smaller one of its ways."""
    rows = (engine for engine in shape["engines"] if engine["group"] == group)
    times = [row[kind][STATISTIC] for row in rows if row.get(kind) and not row.get("refused")]
    return min(times) if times else None


def report(result: Result) -> str:
    """Every table of a result as Markdown."""
    info = ", ".join(filter(None, result["adapter"]["info"].values()))
    versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items() if k != "browser")
    lines = [
        f"{result.get('name', 'adapter')}: {info}; {result['date'][:10]}",
        f"{versions}; {result['versions']['browser'].split(') ')[-1]}",
    ]
    if peak := result["adapter"].get("peak"):
        f16 = f", f16 {peak['f16']:.0f}" if "f16" in peak else ""
        lines.append(
            f"measured peaks: f32 {peak['f32']:.0f}{f16} GFLOP/s, {peak['bandwidth']:.0f} GB/s"
        )
    for name, shapes in grouped(result).items():
        for kind, title in KINDS.items():
            lines += ["", f"{name}, {title}, ms a call", "", *table(shapes, kind)]
    return "\n".join([*lines, *remarks(result)])


def grouped(result: Result) -> dict[str, list[Result]]:
    """The shapes of each table: of one dtype, transposed or not."""
    groups: dict[str, list[Result]] = {}
    for shape in result["results"]:
        name = f"{shape['dtype']}, transposed" if shape.get("transposed") else shape["dtype"]
        groups.setdefault(name, []).append(shape)
    return groups


def readme(result: Result, cudnn: Result | None) -> str:
    """README's tables: wall time and ratios with operands resident, GPU time, scratch memory."""
    lines = []
    for name, shapes in grouped(result).items():
        peers = [g for g in ("ort", "tfjs") if any(best(s, g, "resident") for s in shapes)]
        head = [f"shape, {name}", "fusedconv", *(PEERS[g] for g in peers)]
        head += ["/ faster peer", "/ onnxruntime-web"] if len(peers) > 1 else ["/ onnxruntime-web"]
        head += ["GPU time", "GPU / faster peer", "scratch MB", *(["cuDNN"] if cudnn else [])]
        rows, columns = [], []
        for shape in shapes:
            ours, mine = best(shape, "ours", "resident"), best(shape, "ours", "gpu")
            times = {g: best(shape, g, "resident") for g in peers}
            ratios = [
                over(ours, times.get("ort")),
                over(mine, least(best(shape, g, "gpu") for g in peers)),
            ]
            if len(peers) > 1:
                ratios.insert(0, over(ours, least(times.values())))
            row = [
                shape["name"],
                number(ours),
                *map(number, times.values()),
                *map(number, ratios[:-1]),
            ]
            row += [number(mine), number(ratios[-1]), megabytes(shape)]
            if cudnn:
                row.append(number(cudnn["times"][shape["dtype"]].get(shape["name"])))
            rows.append(row)
            columns.append(ratios)
        means = [number(geometric_mean(column)) for column in zip(*columns, strict=True)]
        mean = ["geometric mean", *[""] * (1 + len(peers)), *means[:-1], "", means[-1], ""]
        lines += ["", *markdown(head, [*rows, [*mean, *([""] if cudnn else [])]], padded=False)]
    return "\n".join(lines[1:])


def megabytes(shape: Result) -> str:
    """Scratch memory of our variant, the transformed weights included."""
    found = [e["scratch"] for e in shape["engines"] if "scratch" in e]
    return "0" if found == [0] else number(found[0] / 1e6 if found else None)


def least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def over(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours and theirs else None


def table(shapes: Iterable[Result], kind: str) -> list[str]:
    """Rows for shapes, and one of geometric means."""
    head = ["shape", "fusedconv", *PEERS.values(), "/ faster WebGPU peer", "/ onnxruntime-web"]
    if kind == "resident":
        head.insert(2, "in one encoder")
    if kind == "gpu":
        head[-2:] = ["GFLOP/s", *head[-2:]]
        head.remove(PEERS["wasm"])
    rows, to_best, to_ort = [], [], []
    for shape in shapes:
        ours = best(shape, "ours", kind)
        times = {group: best(shape, group, kind) for group in PEERS}
        rivals = [t for group, t in times.items() if t is not None and group != "wasm"]
        ratios = [
            ours / min(rivals) if ours and rivals else None,
            ours / times["ort"] if ours and times["ort"] else None,
        ]
        to_best.append(ratios[0])
        to_ort.append(ratios[1])
        row = [shape["name"], number(ours), *map(number, times.values())]
        if kind == "resident":
            row.insert(2, number(best(shape, "ours", "batched")))
        if kind == "gpu":
            row[-1] = f"{shape['gflop'] / ours * 1000:.0f}" if ours else "–"
        rows.append([*row, *(f"{r:.2f}" if r else "–" for r in ratios)])
    means = [f"{mean:.2f}" if (mean := geometric_mean(r)) else "–" for r in (to_best, to_ort)]
    rows.append(["geometric mean", *[""] * (len(head) - 3), *means])
    return markdown(head, rows)


def geometric_mean(values: Iterable[float | None]) -> float | None:
    known = [math.log(value) for value in values if value]
    return math.exp(sum(known) / len(known)) if known else None


def number(value: float | None) -> str:
    """Three digits that count."""
    if value is None:
        return "–"
    return f"{value:.{max(0, 2 - math.floor(math.log10(max(value, 1e-4))))}f}"


def markdown(head: list[str], rows: list[list[str]], padded: bool = True) -> list[str]:
    widths = [max(len(row[i]) for row in [head, *rows]) if padded else 4 for i in range(len(head))]

    def line(cells: list[str]) -> str:
        aligned = [
            c.ljust(w * padded) if i == 0 else c.rjust(w * padded)
            for i, (c, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(aligned)} |"

    rule = [("-" * (w - 1) + ":") if i else "-" * w for i, w in enumerate(widths)]
    return [line(head), line(rule), *map(line, rows)]


def remarks(result: Result) -> list[str]:
    """What was not timed, and why; variants and errors of what was."""
    refused, chosen = [], []
    for shape in result["results"]:
        what = f"{shape['name']} {shape['dtype']}"
        rows = shape["engines"]
        refused += [f"{what}, {e['name']}: {e['refused']}" for e in rows if e.get("refused")]
        errors = [f"{e['name']} {e['error']:.0e}" for e in rows if e.get("error") is not None]
        variants = [e["variant"] for e in rows if e.get("variant")]
        chosen.append(f"{what}: {', '.join(variants)}; errors {', '.join(errors)}")
        chosen += [f"    {e['passes']} ms" for e in rows if e.get("passes")]
        chosen += ["    " + line for e in rows for line in e.get("tuning", "").splitlines()]
    return ["", *refused, "", *chosen]


def main() -> None:
    global STATISTIC
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT.json")
    parser.add_argument("--least", action="store_true", help="not medians, but the best")
    parser.add_argument("--readme", action="store_true", help="README's tables")
    parser.add_argument("--cudnn", type=Path, help="what cudnn.py wrote, for a column of its own")
    options = parser.parse_args()
    STATISTIC = "least" if options.least else STATISTIC
    for file in options.results:
        result = json.loads(file.read_text())
        cudnn = json.loads(options.cudnn.read_text()) if options.cudnn else None
        print(readme(result, cudnn) if options.readme else report(result), end="\n\n")


if __name__ == "__main__":
    main()
