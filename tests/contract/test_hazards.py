"""Faults of other engines that show without a GPU; tests/hazards.py lists them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import fusedconv
from fusedconv import Capabilities, Plan, RequestError
from fusedconv.devices import DEVICES
from fusedconv.gpu.pipelines import plan_to_json
from fusedconv.operator import builtin
from fusedconv.plan import DTYPE_BYTES
from fusedconv.reference import padding
from fusedconv.request import conv_padding

from ..hazards import CASES, GUARDS, HazardCase
from ..mutants import MUTANTS
from .random_requests import random_conv
from .random_transposed import random_transposed

ROOT = Path(__file__).parents[2]
DRAWS = {"fusedconv": random_conv, "convtranspose": random_transposed}
ALL = [case for cases in CASES.values() for case in cases]


def test_every_guard_exists() -> None:
    """The table names tests that are there."""
    for hazard, tests in GUARDS.items():
        assert tests, hazard
        for test in tests:
            file, _, name = test.partition("::")
            functions = {
                node.name
                for node in ast.walk(ast.parse((ROOT / file).read_text()))
                if isinstance(node, ast.FunctionDef)
            }
            function, _, kind = name.partition("[")
            assert function in functions, test
            assert not kind or kind[:-1] in CASES, test


def test_every_hazard_has_its_mutants() -> None:
    """Whose old text is still there once, and whose tests the table names."""
    assert {mutant.hazard for mutant in MUTANTS} == set(GUARDS)
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        assert (ROOT / mutant.file).read_text("utf-8").count(mutant.old) == 1, mutant.name
        assert set(mutant.tests) <= set(GUARDS[mutant.hazard]), mutant.name


def drawn(name: str, device: str, rng: Random) -> Plan:
    """A plan for a random request whose tensors fit in the device's buffers."""
    while True:
        x, w, arguments = DRAWS[name](rng)
        if "shader-f16" not in DEVICES[device].features:
            arguments["dtype"] = "float32"
        try:
            return builtin(name).plan(x, w, device=DEVICES[device], **arguments)
        except fusedconv.UnsupportedError as error:
            if "maxBufferSize" not in str(error):
                raise


def workgroup_bytes(wgsl: str) -> int:
    """What the `var<workgroup>` declarations of a shader take."""
    names = {"f16": 2, "f32": 4, "u32": 4, "vec4<f32>": 16, "vec4<f16>": 8, "vec2<f32>": 8}
    constants = re.findall(r"^const (\w+) = (\d+)u;", wgsl, re.M)
    total = 0
    for element, count in re.findall(r"var<workgroup> \w+: array<([\w<>]+), ([^>]+)>;", wgsl):
        for name, value in constants:
            count = re.sub(rf"\b{name}\b", value, count)
        assert re.fullmatch(r"[\d\s*+u]+", count), count
        total += names[element] * prod(int(n.strip(" u")) for n in count.split("*"))
    assert ("var<workgroup>" in wgsl) == (total > 0)
    return total


def over_the_limits(plan: Plan, limits: Mapping[str, int]) -> list[str]:
    """What a plan takes more of than a device has."""
    sizes = {s.id: s.nbytes for s in plan.scratch}
    sizes |= {k: DTYPE_BYTES[plan.dtype] * prod(v) for k, v in plan.operands.items()}
    sizes["y"] = plan.output_nbytes
    over = set()
    for item in plan.passes:
        stored = [b for b in item.bindings if b.uniform is None]
        (text,) = re.findall(r"@workgroup_size\(([^)]*)\)", item.wgsl)
        size = [int(n) for n in text.split(",")]
        taken = {
            "maxStorageBuffersPerShaderStage": len(stored),
            "maxStorageBufferBindingSize": max(sizes[b.operand or b.scratch or ""] for b in stored),
            "maxComputeWorkgroupsPerDimension": max(item.dispatch),
            "maxComputeInvocationsPerWorkgroup": prod(size),
            "maxComputeWorkgroupSizeX": size[0],
            "maxComputeWorkgroupStorageSize": workgroup_bytes(item.wgsl),
        }
        over |= {name for name, value in taken.items() if value > limits[name]}
    return sorted(over)


@pytest.mark.parametrize("device", sorted(DEVICES))
@pytest.mark.parametrize("name", DRAWS)
def test_plans_stay_within_the_device(name: str, device: str) -> None:
    """Bindings, dispatches, workgroups and workgroup memory, on every kind of device."""
    limits, rng = DEVICES[device].limits, Random(f"{name} {device}")
    for _ in range(60):
        plan = drawn(name, device, rng)
        assert not over_the_limits(plan, limits), plan


# Tiles that ask for more threads, or more of their memory, than some devices have.
LARGE_TILES: list[dict[str, float]] = [
    {"GEMM_TILE_M": 128, "GEMM_TILE_N": 128, "GEMM_TILE_K": 32, "GEMM_STAGES": 2},
    {"GEMM_TILE_M": 128, "GEMM_TILE_N": 256, "GEMM_THREAD_M": 4, "GEMM_THREAD_N": 4},
]


@pytest.mark.parametrize("device", ["defaults", "desktop-f16"])
@pytest.mark.parametrize("name", DRAWS)
def test_large_tiles_stay_within_the_device(name: str, device: str) -> None:
    rng, operator = Random(name), builtin(name)
    capabilities = Capabilities() if device == "defaults" else DEVICES[device]
    planned = 0
    for _ in range(40):
        x, w, arguments = DRAWS[name](rng)
        request = operator.request(x, w, **{**arguments, "dtype": "float32"})
        for tiles in LARGE_TILES:
            selection = operator.selection(request, capabilities, True, tiles)
            for variant in selection.variants:
                if selection.refusal(variant) is not None:
                    continue
                plan = operator.plan_request(request, capabilities, True, tiles, variant.id)
                planned += 1
                assert not over_the_limits(plan, capabilities.limits), variant.id
    assert planned


def test_padding_has_one_source() -> None:
    """What the kernels get is what the shape was made from, and what the reference says."""
    rng = Random(4)
    for _ in range(300):
        x, w, arguments = random_conv(rng)
        request = builtin("fusedconv").request(x, w, **arguments)
        scope = builtin("fusedconv").scope(request, Capabilities(), None)
        names = ("effectivePadFront", "effectivePadTop", "effectivePadLeft")[5 - len(x) :]
        begins = [int(getattr(scope, name)) for name in names]
        attributes, n = request.attributes, len(x) - 2
        strides, dilations = (attributes.get(k, (1,) * n) for k in ("strides", "dilations"))
        window = [(k - 1) * d + 1 for k, d in zip(w[2:], dilations, strict=True)]
        auto = attributes.get("auto_pad", "NOTSET")
        exact = padding(x[2:], window, strides, auto, attributes.get("pads"))
        assert begins == [before for before, _ in conv_padding(request)] == list(exact[0])


def test_messages_keep_the_callers_dimensions() -> None:
    """A 1-D request is told of one dimension, whatever it is computed as."""
    for change, words in (
        ({"w_shape": (4, 3, 9)}, "kernel [9]"),
        ({"pads": [1, 2, 3]}, "got 3 values; allowed: 2,"),
        ({"strides": [1, 1]}, "got 2 values; allowed: 1,"),
        ({"z": (1, 4, 1, 6)}, "got shape (1, 4, 1, 6); allowed: (1, 4, 6)"),
        ({"kernel_shape": [1]}, "got [1]; allowed: the weights' own: [3]"),
    ):
        with pytest.raises(RequestError) as caught:
            fusedconv.plan(**{"x_shape": (1, 3, 8), "w_shape": (4, 3, 3), **change})
        assert words in str(caught.value)


@pytest.mark.parametrize("params", [(-np.inf, np.inf), (0.0, 1e39), (-1e39, 0.0), (np.nan, 1.0)])
def test_no_infinity_in_wgsl(params: tuple[float, float]) -> None:
    """An infinite or NaN constant is a shader error."""
    for case in ALL:
        more = {**case.attributes, "activation": "Clip", "activation_params": params}
        plan = fusedconv.plan(case.x, case.w, bias=case.bias, z=case.z, **more)
        for item in plan.passes:
            assert not re.search(r"(?i)\b(inf|nan|infinity)f?\b|1e\+?39", item.wgsl)


def test_nan_is_told_by_its_bits() -> None:
    """Compilers may take it that no number differs from itself."""
    for file in (ROOT / "shaders").rglob("*.jinja"):
        assert not re.search(r"\b(\w+) (?:!=|==) \1\b[^ %]*;", file.read_text("utf-8")), file.name


def test_what_differs_in_one_thing_has_another_kernel() -> None:
    """The key that kernels are found by: two requests with one key would give one's result twice."""
    base: dict[str, Any] = {
        "x_shape": (2, 6, 11, 10),
        "w_shape": (6, 6, 4, 4),
        "pads": [1, 2, 2, 1],
    }
    clip = {"activation": "Clip", "activation_params": [0.0, 1.0]}
    changes: list[dict[str, Any]] = [
        {}, {"bias": True}, {"z": True}, {"pads": [2, 1, 1, 2]}, {"pads": None, "auto_pad": "SAME_LOWER"},
        {"pads": None, "auto_pad": "SAME_UPPER"}, {"strides": [2, 1]}, {"dilations": [2, 1]},
        {"w_shape": (6, 3, 4, 4), "group": 2}, {"activation": "Relu"}, clip, {"x_shape": (2, 6, 10, 11)},
        {**clip, "activation_params": [0.0, 2.0]}, {**clip, "activation_params": [-1.0, 1.0]},
        {**clip, "activation_params": [0.0, np.inf]}, {"x_shape": (1, 6, 11, 10)},
        {"dtype": "float16"}, {"variant": "direct_nd"},
    ]  # fmt: skip
    device = DEVICES["desktop-f16"]
    texts = [plan_to_json(fusedconv.plan(**{**base, **c}, device=device)) for c in changes]
    assert len(set(texts)) == len(texts)


def test_nothing_needs_stack_switching() -> None:
    """Browsers without JSPI cannot wait inside a synchronous call."""
    sources = [*(ROOT / "py/fusedconv").rglob("*.py"), *(ROOT / "web").glob("*.py")]
    for file in sources:
        assert "run_sync" not in file.read_text(), file


def test_the_cases_reach_every_family() -> None:
    """So that a family of kernels that is added gets its hazards too."""
    operator, device = builtin("fusedconv"), DEVICES["lavapipe"]
    reached = {family(name) for case in ALL for name in served(case, operator, device)}
    there = {family(v.id) for v in operator.manifest.variants if not re.search("matrix|f16", v.id)}
    assert there - reached == set()


def family(variant: str) -> str:
    return re.sub("_bias|_z", "", variant)


def served(case: HazardCase, operator: Any, device: Capabilities) -> list[str]:
    from .variant_cases import SMALL

    request = operator.request(case.x, case.w, bias=case.bias, z=case.z, **case.attributes)
    selection = operator.selection(request, device, True, SMALL)
    return [v.id for v in selection.variants if selection.refusal(v) is None]
