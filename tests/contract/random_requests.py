"""Random valid requests, for every sweep: shapes, attributes and which operands are given."""

from random import Random
from typing import Any

from fusedconv.request import ACTIVATIONS

Drawn = tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]

KERNELS = [1, 1, 2, 3, 3, 3, 4, 5, 7, 8, 9, 11, 13]
EXTENTS = {"large": {1: 4000, 2: 130, 3: 20}, "small": {1: 40, 2: 14, 3: 7}}
CHANNELS = {"large": [1, 1, 2, 3, 4, 5, 7, 8, 16, 32, 64, 96], "small": [1, 2, 3, 4, 5, 7, 8]}
OUTPUTS = {"large": [1, 1, 2, 3, 4, 5, 16, 32, 64, 100], "small": [1, 2, 3, 4, 5, 6, 17]}


def random_conv(rng: Random, scale: str = "large") -> Drawn:
    """`(x_shape, w_shape, keyword arguments)` of a valid FusedConv."""
    n = rng.randint(1, 3)
    kernel = [rng.choice(KERNELS) if n < 3 else rng.randint(1, 3) for _ in range(n)]
    if rng.random() < 0.5:
        kernel = [kernel[0]] * n
    group = rng.choice([1, 1, 1, 2, 3, 4, 8, 32] if scale == "large" else [1, 1, 1, 2, 3, 5])
    channels, outputs = rng.choice(CHANNELS[scale]), rng.choice(OUTPUTS[scale])
    strides = [rng.choice([1, 1, 1, 2, 3]) for _ in range(n)]
    dilations = [rng.choice([1, 1, 1, 2, 3]) for _ in range(n)]
    window = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    size = [v + rng.randint(0, EXTENTS[scale][n]) for v in window]
    if rng.random() < 0.5:
        size = [max(v, 8 * (s // 8)) for v, s in zip(window, size, strict=True)]
    arguments: dict[str, Any] = {
        "bias": rng.random() < 0.5,
        "z": rng.random() < 0.3,
        "dtype": rng.choice(["float32", "float16"]),
        **random_padding(rng, window),
        **random_activation(rng),
    }
    steps = {"strides": strides, "dilations": dilations}
    arguments |= {k: v for k, v in steps.items() if max(v) > 1 or rng.random() < 0.5}
    if group > 1:
        arguments["group"] = group
    x = (rng.choice([1, 1, 1, 2, 3]), group * channels, *size)
    return x, (group * outputs, channels, *kernel), arguments


def random_padding(rng: Random, window: list[int]) -> dict[str, Any]:
    kind = rng.choice(["none", "same", "explicit", "auto"])
    if kind == "same":
        return {"pads": [v // 2 for v in window] * 2}
    if kind == "explicit":
        return {"pads": [rng.randint(0, 3) for _ in window * 2]}
    if kind == "auto":
        return {"auto_pad": rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])}
    return {}


def random_activation(rng: Random) -> dict[str, Any]:
    name = rng.choice([None, "Relu", *ACTIVATIONS])
    if name is None:
        return {}
    count = rng.randint(*(ACTIVATIONS[name] or (0, 0)))
    params = {"activation_params": [0.25, 0.75][:count]} if count else {}
    return {"activation": name, **params}
