"""cuDNN on the bench's shapes: what the same card does without a browser.

    python tests/bench/cudnn.py --json OUT      needs PyTorch with CUDA, and nothing else

Convolution and bias in float32 (without TF32) and float16, in both layouts of memory, the faster
one counts; `torch.backends.cudnn.benchmark` chooses the algorithm. Calls are replayed as a CUDA
graph, so that the time is the card's alone; milliseconds, medians of 20.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (PyTorch's own name for it)

SHAPES = Path(__file__).with_name("shapes.json")
TOGETHER, SAMPLES = 20, 20


def operator(shape: dict[str, Any]) -> Any:
    rank = len(shape["x"]) - 2
    if shape.get("transposed"):
        transposed = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
        return lambda x, w, b: transposed(
            x, w, b, shape["stride"], shape["pad"], shape["output_padding"], shape["group"]
        )
    plain = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    return lambda x, w, b: plain(x, w, b, shape["stride"], shape["pad"], 1, shape["group"])


def timed(shape: dict[str, Any], dtype: torch.dtype, channels_last: bool) -> float:
    generator = torch.Generator("cuda").manual_seed(1)
    sizes = [shape["x"], shape["w"], [shape["w"][1 if shape.get("transposed") else 0]]]
    operands = [torch.randn(s, generator=generator, device="cuda", dtype=dtype) for s in sizes]
    if channels_last:
        operands[:2] = [o.to(memory_format=torch.channels_last) for o in operands[:2]]
    run = operator(shape)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run(*operands)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(TOGETHER):
            run(*operands)
    samples = []
    for _ in range(SAMPLES + 3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        samples.append(begin.elapsed_time(end) / TOGETHER)
    return statistics.median(samples[3:])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="where the result goes")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    times: dict[str, dict[str, float]] = {}
    for dtype in (torch.float32, torch.float16):
        name = str(dtype).removeprefix("torch.")
        times[name] = {}
        for shape in json.loads(SHAPES.read_text("utf-8")):
            layouts = (False, True) if len(shape["x"]) == 4 else (False,)
            times[name][shape["name"]] = min(timed(shape, dtype, last) for last in layouts)
            print(f"{name} {shape['name']}: {times[name][shape['name']]:.4f} ms", flush=True)
    device = torch.cuda.get_device_name()
    result = {"device": device, "cudnn": torch.backends.cudnn.version(), "times": times}
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
