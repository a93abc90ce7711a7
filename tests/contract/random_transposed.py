"""Random valid transposed convolutions: shapes, attributes and which operands are given."""

from collections.abc import Sequence
from random import Random
from typing import Any

from .random_requests import Drawn, random_activation

EXTENTS = {"large": {1: 2000, 2: 64, 3: 12}, "small": {1: 24, 2: 8, 3: 4}}
CHANNELS = {"large": [1, 1, 2, 3, 5, 7, 16, 32, 64, 100], "small": [1, 1, 2, 3, 5, 7, 17, 32]}
OUTPUTS = {"large": [1, 2, 3, 4, 5, 8, 16, 20, 64, 100], "small": [1, 2, 3, 4, 5, 8, 9, 16]}


def random_transposed(rng: Random, scale: str = "large") -> Drawn:
    """`(x_shape, w_shape, keyword arguments)` of a valid ConvTranspose."""
    n = rng.choice([1, 2, 2, 3])
    kernel = [rng.choice([1, 2, 3, 3, 4, 5, 6, 7] if n < 3 else [1, 2, 3]) for _ in range(n)]
    strides = [rng.choice([1, 1, 2, 2, 2, 3, 4]) for _ in range(n)]
    dilations = [rng.choice([1, 1, 1, 1, 2, 3]) for _ in range(n)]
    if rng.random() < 0.5:
        kernel, strides, dilations = [kernel[0]] * n, [strides[0]] * n, [dilations[0]] * n
    if rng.random() < 0.25:
        kernel, dilations = list(strides), [1] * n
    if rng.random() < 0.1:
        strides[-1] = rng.choice([5, 8, 9, 16])
    group = rng.choice([1, 1, 1, 2, 3, 4])
    size = [rng.randint(1, EXTENTS[scale][n]) for _ in range(n)]
    arguments: dict[str, Any] = {
        "bias": rng.random() < 0.5,
        "z": rng.random() < 0.3,
        "dtype": rng.choice(["float32", "float16"]),
        "strides": strides,
        "dilations": dilations,
        "group": group,
        **random_cropping(rng, size, kernel, strides, dilations),
        **random_activation(rng),
    }
    channels = group * rng.choice(CHANNELS[scale])
    x = (rng.choice([1, 1, 1, 2, 3]), channels, *size)
    return x, (channels, rng.choice(OUTPUTS[scale]), *kernel), arguments


def random_cropping(
    rng: Random,
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> dict[str, Any]:
    """Attributes that say which part of the whole output is kept."""
    reach = [(s - 1) * t for s, t in zip(size, strides, strict=True)]
    whole = [r + (k - 1) * d + 1 for r, k, d in zip(reach, kernel, dilations, strict=True)]
    most = [max(pair) - 1 for pair in zip(strides, dilations, strict=True)]
    chosen: dict[str, Any] = {}
    if rng.random() < 0.4:
        chosen["output_padding"] = [rng.randint(0, m) for m in most]
    how = rng.choice(["none", "pads", "pads", "auto_pad", "output_shape"])
    if how == "pads":
        before = [rng.randint(0, min(4, w - 1)) for w in whole]
        after = [rng.randint(0, min(4, w - 1 - b)) for w, b in zip(whole, before, strict=True)]
        chosen["pads"] = before + after
    elif how == "auto_pad":
        chosen["auto_pad"] = rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif how == "output_shape":
        limits = [(max(1, w - 3), w + m) for w, m in zip(whole, most, strict=True)]
        chosen["output_shape"] = [rng.randint(*pair) for pair in limits]
        chosen["auto_pad"] = rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
    return chosen
