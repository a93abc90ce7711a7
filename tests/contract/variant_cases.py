"""For every variant, small requests that reach each branch of its templates.

Two requests take the same branches when their WGSL has the same lines, numbers apart. They are
drawn (the same ones every time), thresholds of size are lowered by tunables, and of those with the
same branches the cheapest is kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from fusedconv import Capabilities, Plan
from fusedconv.operator import Operator

NUMBER = re.compile(r"\b\d+(\.\d+)?(e[-+]?\d+)?[uifh]?\b")

# Small requests must reach kernels that are meant for large ones.
SMALL = {
    "REG_MIN_SPATIAL": 1,
    "REG_MIN_KERNEL_ROWS": 1,
    "IMPLICIT_TILED_MIN_TILE_COUNT": 1,
    "IMPLICIT_SGMAT_MIN_OUTPUT_PIXELS": 1,
    "CONV1D_REG_MIN_TILE_COUNT": 1,
    "CONV1D_REG_MIN_KERNEL_ROWS": 1,
    "GEMM_ROWS_MIN_PRODUCTS": 0,
}

# Tiles that software adapters compile within a second, where tiles do not matter.
SMALL_TILES: dict[str, float] = {
    "GEMM_TILE_M": 8,
    "GEMM_TILE_N": 64,
    "GEMM_THREAD_M": 8,
    "GEMM_THREAD_N": 2,
    "POINTWISE_TILE_M": 32,
    "POINTWISE_TILE_N": 32,
    "WINOGRAD_TILE_M": 16,
    "WINOGRAD_TILE_N": 16,
    "WINOGRAD_TILE_K": 4,
    "WINOGRAD_THREAD_M": 4,
    "WINOGRAD_THREAD_N": 4,
    "MATRIX_SUBGROUPS_M": 2,
    "MATRIX_SUBGROUPS_N": 1,
    "MATRIX_DOWN": 1,
    "MATRIX_ACROSS": 2,
}

# Tiles of the implicit product: small, small and sliced thin, and now and then as chosen.
SLICED: dict[str, float] = {**SMALL_TILES, "GEMM_MIN_SLICE_TILES": 1}
FEW = {name: SMALL_TILES[name] for name in ("POINTWISE_TILE_M", "POINTWISE_TILE_N")}
TILES = (*[SMALL_TILES] * 4, *[SLICED] * 5, FEW)


@dataclass(frozen=True)
class Case:
    """A request that `variant` is pinned for."""

    variant: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    arguments: Mapping[str, Any]
    tunables: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        attributes = " ".join(f"{k}={v}" for k, v in self.arguments.items() if v is not False)
        return f"{self.variant} {self.x} {self.w} {attributes}"


def draw(rng: Random, n: int, dtype: str, bias: bool, z: bool) -> tuple[Any, Any, dict[str, Any]]:
    """One request of `n` spatial dimensions, in the sizes at which kernels change."""
    square = rng.random() < 0.6
    kernel = [rng.choice([1, 1, 2, 3, 3, 3, 5, 7, 9, 11] if n < 3 else [1, 2, 3]) for _ in range(n)]
    kernel = [kernel[0]] * n if square else kernel
    channels = rng.choice([1, 2, 3, 4, 5, 7, 8, 16, 32, 33, 64, 96, 128, 160])
    outputs = rng.choice([1, 2, 3, 4, 5, 6, 8, 16, 31, 32, 33, 48, 64, 65, 96, 128, 160])
    group = rng.choice([1, 1, 1, 2, 4, channels])
    strides = [rng.choice([1, 1, 1, 2, 3])] * n if rng.random() < 0.7 else [1, 2, 3][:n]
    dilations = [rng.choice([1, 1, 1, 2, 3])] * n
    window = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    most = {1: 160, 2: 24, 3: 6}[n]
    size = [v - 1 + rng.randint(1, most) for v in window]
    if rng.random() < 0.4:
        size = [8 * -(-s // 8) for s in size]
    if n == 2 and rng.random() < 0.3:  # a matrix product: aligned, unpadded, perhaps many images
        kernel, strides, dilations, window = [rng.choice([1, 1, 2])] * 2, [1, 1], [1, 1], [1, 1]
        group, size = 1, [kernel[0] + 7] * 2
        channels, outputs = rng.choice([8, 32, 64, 96]), rng.choice([32, 64, 65, 128])
    pads = rng.choice([None, [v // 2 for v in window] * 2, [rng.randint(0, 2) for _ in window * 2]])
    x = (rng.choice([1, 1, 1, 2, 64]), group * max(1, channels // group), *size)
    w = (group * max(1, outputs // group), x[1] // group, *kernel)
    arguments: dict[str, Any] = {"dtype": dtype, "bias": bias, "z": z, "strides": strides}
    arguments.update({"dilations": dilations, "group": group, "activation": "LeakyRelu"})
    arguments["activation_params"] = [0.25]
    if pads:
        arguments["pads"] = pads
    if rng.random() < 0.2:
        del arguments["activation"], arguments["activation_params"]
    return x, w, arguments


def cost(x: tuple[int, ...], w: tuple[int, ...], output: tuple[int, ...]) -> int:
    """Multiplications of the request."""
    return math.prod(output) * math.prod(w[1:])


def branches(plan: Plan) -> str:
    """What is left of a plan's WGSL without numbers and repetitions."""
    lines = NUMBER.sub("#", "\n".join(item.wgsl for item in plan.passes)).splitlines()
    return "\n".join(sorted({line.strip() for line in lines}))


def variant_cases(
    operator: Operator, device: Capabilities, dtype: str, draws: int = 4000, seed: int = 1
) -> dict[str, list[Case]]:
    """The cases of every variant that `device` can run with `dtype`, cheapest first."""
    found: dict[str, dict[str, tuple[int, Case]]] = {v.id: {} for v in operator.manifest.variants}
    for x, w, arguments, tunables in drawn(dtype, draws, seed):
        request = operator.request(x, w, **arguments)
        price = cost(x, w, request.output_shape)
        if price > 12_000_000 or 0 in request.output_shape:
            continue
        selection = operator.selection(request, device, True, tunables)
        for variant in selection.variants:
            if selection.refusal(variant) is not None:
                continue
            plan = operator.plan_request(request, device, True, tunables, variant.id)
            skeleton = branches(plan)
            case = Case(variant.id, x, w, arguments, tunables)
            kept = found[variant.id].get(skeleton)
            if kept is None or price < kept[0]:
                found[variant.id][skeleton] = (price, case)
    return {
        name: [case for _, case in sorted(kept.values(), key=lambda pair: pair[0])]
        for name, kept in found.items()
    }


def drawn(dtype: str, draws: int, seed: int) -> Iterator[tuple[Any, Any, dict[str, Any], Any]]:
    """Valid requests, each with lowered thresholds, some with other tunables too."""
    rng = Random(seed)
    tiles = Random(seed)
    for i in range(draws):
        n = rng.choice([1, 2, 2, 2, 3])
        x, w, arguments = draw(rng, n, dtype, bool(i & 1), bool(i & 2))
        tunables: dict[str, float] = dict(SMALL)
        if rng.random() < 0.2:
            tunables["TILED_SPLIT_K_MODE"] = 0
        tunables |= tiles.choice(TILES)
        yield x, w, arguments, tunables
