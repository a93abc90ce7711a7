"""Random valid requests against float64, and random invalid ones, each refused by name.

    FUSEDCONV_SEED=7 FUSEDCONV_CASES=5000 python3 serve.py --test tests/browser/test_sweep.py

The seed is printed with every fault, so that a run can be had again.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from fusedconv import Capabilities
from fusedconv.operator import builtin

from ..contract.random_requests import random_conv
from ..fills import difference, expected, operands

pytestmark = pytest.mark.needs_numpy

SEED = int(os.environ.get("FUSEDCONV_SEED", "20261201"))
CASES = int(os.environ.get("FUSEDCONV_CASES", "500"))
CHUNK = 50

RUN = """
import fusedconv
results = []
for case in cases:
    try:
        y = await fusedconv.run(
            case["x"], case["w"], bias=case.get("bias"), z=case.get("zResidual"),
            **case["attributes"],
        )
        results.append(y)
    except fusedconv.FusedConvError as error:
        results.append(f"{type(error).__name__}: {error}")
results
"""


def has_f16(browser_python: Any) -> bool:
    text = browser_python("import fusedconv\n(await fusedconv.device()).capabilities.to_json()")
    return "shader-f16" in Capabilities.from_json(text).features


def drawn(rng: Random, half: bool) -> tuple[dict[str, Any], Any]:
    """A job for the browser, and what is needed to judge its result."""
    x, w, arguments = random_conv(rng, "small")
    if not half:
        arguments["dtype"] = "float32"
    request = builtin("fusedconv").request(x, w, **arguments)
    dtype = arguments["dtype"]
    attributes = {k: v for k, v in arguments.items() if k not in ("bias", "z", "dtype")}
    given = operands(request.shapes, dtype)
    return {**given, "attributes": attributes}, (x, w, arguments)


@pytest.mark.parametrize("chunk", range((CASES + CHUNK - 1) // CHUNK))
def test_random_requests(chunk: int, browser_python: Any) -> None:
    rng, half = Random(f"{SEED}:{chunk}"), has_f16(browser_python)
    jobs = [drawn(rng, half) for _ in range(CHUNK)]
    results = browser_python(RUN, cases=[job for job, _ in jobs])
    faults = []
    for got, (job, (x, w, arguments)) in zip(results, jobs, strict=True):
        given = {k: v for k, v in job.items() if k != "attributes"}
        want = expected(given, job["attributes"])
        activation = arguments.get("activation")
        fault = (
            got if isinstance(got, str) else difference(got, want, arguments["dtype"], activation)
        )
        if fault:
            faults.append(f"seed {SEED} chunk {chunk}: {x} {w} {arguments}: {fault}")
    assert not faults, "\n".join(faults[:5])


def spoiled(rng: Random) -> tuple[str, dict[str, Any]]:
    """A valid request with one thing made wrong, and the argument that must be blamed."""
    x, w, arguments = random_conv(rng, "small")
    arguments = {**arguments, "dtype": "float32"}
    n = len(x) - 2
    request = builtin("fusedconv").request(x, w, **arguments)
    attributes = {k: v for k, v in arguments.items() if k not in ("bias", "z", "dtype")}
    shapes = dict(request.shapes)
    group = attributes.get("group", 1)
    kind = rng.choice(
        ["rank", "channels", "bias", "z", "strides", "dilations", "pads", "group", "activation",
         "params", "auto_pad", "kernel_shape", "unknown", "zero", "kernel"]
    )  # fmt: skip
    match kind:
        case "rank":
            shapes["w"] = (*w, 1)
        case "channels":
            shapes["x"] = (x[0], x[1] + 1, *x[2:])
        case "bias":
            shapes["bias"] = (w[0] + 1,)
        case "z":
            shapes["zResidual"] = (*request.output_shape[:-1], request.output_shape[-1] + 1)
        case "strides" | "dilations":
            attributes[kind] = rng.choice([[0] * n, [1] * (n + 1), [-1] * n, [1.5] * n, "1"])
        case "pads":
            attributes.pop("auto_pad", None)
            attributes["pads"] = rng.choice([[-1] * 2 * n, [1] * (2 * n + 1), [0.5] * 2 * n])
        case "group":
            attributes["group"] = rng.choice([0, -1, -group, 1.5])
        case "activation":
            attributes["activation"] = rng.choice(["relu", "", "Swish", 3])
            attributes.pop("activation_params", None)
        case "params":
            attributes["activation"] = "Clip"
            attributes["activation_params"] = rng.choice([[], [1.0], [1.0, 2.0, 3.0], ["a", "b"]])
        case "auto_pad":
            attributes.pop("pads", None)
            attributes["auto_pad"] = rng.choice(["SAME", "valid", 1])
        case "kernel_shape":
            attributes["kernel_shape"] = [w[2] + 1, *w[3:]]
        case "unknown":
            attributes["padding"] = 1
        case "zero":
            shapes["x"] = (*x[:-1], 0)
        case "kernel":
            attributes.pop("auto_pad", None)
            attributes.pop("pads", None)
            shapes["w"] = (*w[:2], *(50 for _ in w[2:]))
    blamed = {
        "rank": "w", "channels": "w", "zero": "x", "kernel": "w", "params": "activation_params",
        "unknown": "padding",
    }.get(kind, kind)  # fmt: skip
    shapes.pop("dtype", None)
    return blamed, {"shapes": {k: list(v) for k, v in shapes.items()}, "attributes": attributes}


REFUSE = """
import fusedconv, gc, numpy as np
await fusedconv.device()
gc.collect()
before = fusedconv.memory().in_use
answers = []
for case in cases:
    given = {name: np.zeros(shape, "float32") for name, shape in case["shapes"].items()}
    try:
        await fusedconv.run(
            given["x"], given["w"], bias=given.get("bias"), z=given.get("zResidual"),
            **case["attributes"],
        )
        answers.append(["", "nothing was raised"])
    except fusedconv.RequestError as error:
        answers.append([error.argument, str(error)])
{"answers": answers, "kept": fusedconv.memory().in_use - before}
"""


def test_random_mistakes(browser_python: Any) -> None:
    rng = Random(SEED)
    jobs = [spoiled(rng) for _ in range(300)]
    answer = browser_python(REFUSE, cases=[job for _, job in jobs])
    faults = [
        f"{job}: {got} ({message}), not {blamed}"
        for (blamed, job), (got, message) in zip(jobs, answer["answers"], strict=True)
        if got.split("[")[0] != blamed
    ]
    assert not faults, "\n".join(faults[:5])
    assert answer["kept"] == 0
