"""The cases by which onnxruntime, its web package and ExecuTorch test their convolutions.

With the numbers that they expect where those are written out there, else against float64. Cases of
one kind cross to the browser together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan, prod
from typing import Any

import numpy as np
import pytest

import fusedconv
from fusedconv import reference

from ..fills import hashed
from .conftest import BrowserPython

pytestmark = pytest.mark.needs_numpy

RUN = """
import asyncio, fusedconv

async def attempt(case):
    run = fusedconv.conv_transpose if case["transposed"] else fusedconv.run
    try:
        return await run(case["x"], case["w"], case["bias"], case["z"], **case["attributes"])
    except fusedconv.FusedConvError as error:
        return f"{type(error).__name__}: {error}"

await asyncio.gather(*map(attempt, cases))
"""


@dataclass(frozen=True)
class Case:
    """A request; its operands are arrays, or shapes that are filled. `want` is flat."""

    name: str
    x: Any
    w: Any
    attributes: Mapping[str, Any] = field(default_factory=dict)
    bias: Any = None
    z: Any = None
    want: Any = None
    shape: tuple[int, ...] | None = None
    transposed: bool = False

    def given(self) -> dict[str, Any]:
        operands = {"x": self.x, "w": self.w, "bias": self.bias, "z": self.z}
        return {
            name: hashed(value, name) if isinstance(value, tuple) else value
            for name, value in operands.items()
        }

    def exact(self, given: Mapping[str, Any]) -> np.ndarray:
        run = reference.conv_transpose if self.transposed else reference.fused_conv
        return run(*given.values(), **self.attributes)

    def fault(self, got: Any, given: Mapping[str, Any]) -> str:
        if isinstance(got, str):
            return got
        exact = self.exact(given)
        if got.shape != exact.shape or self.shape not in (None, got.shape):
            return f"{got.shape}, not {self.shape or exact.shape}"
        if self.want is not None:
            want = np.array(self.want, np.float64).reshape(got.shape)
            if not np.allclose(exact, want, rtol=1e-6, atol=1e-6, equal_nan=True):
                return f"the reference has {exact.ravel()}, not {self.want}"
        if not np.allclose(got, exact, rtol=2e-6, atol=2e-6, equal_nan=True):
            return f"{got.ravel()[:20]}, not {exact.ravel()[:20]}"
        return ""


def faults(browser_python: BrowserPython, cases: Sequence[Case]) -> list[str]:
    listed = [case.given() for case in cases]
    jobs = [
        {**given, "attributes": case.attributes, "transposed": case.transposed}
        for given, case in zip(listed, cases, strict=True)
    ]
    results = browser_python(RUN, cases=jobs)
    found = [
        (c.name, c.fault(*r)) for c, r in zip(cases, zip(results, listed, strict=True), strict=True)
    ]
    return [f"{name}: {fault}" for name, fault in found if fault]


def filled(shape: Sequence[int], *values: float) -> np.ndarray:
    """These values again and again."""
    return np.resize(np.array(values, np.float32), shape)


def ramp(shape: Sequence[int], start: float = 0, step: float = 1) -> np.ndarray:
    return (start + step * np.arange(prod(shape), dtype=np.float32)).reshape(shape)


def activated(name: str, *params: float) -> dict[str, Any]:
    return {"activation": name} | ({"activation_params": list(params)} if params else {})


NINE, ONES = ramp((1, 1, 3, 3), 1), filled((2, 1, 2, 2), 1)
SIGNS = np.repeat(np.float32([1, -1]), 4).reshape(2, 1, 2, 2)

# onnxruntime/test/contrib_ops/fused_conv_test.cc
FUSED_CONV = [
    Case("HardSigmoid", NINE, SIGNS / 8, activated("HardSigmoid", 0.2, 0.5),
         want=[0.8, 0.9, 1, 1, 0.2, 0.1, 0, 0]),
    Case("Relu", NINE, SIGNS, activated("Relu"), want=[12, 16, 24, 28, 0, 0, 0, 0]),
    Case("Bias_Relu", NINE, ONES, activated("Relu"), np.float32([1, -1]),
         want=[13, 17, 25, 29, 11, 15, 23, 27]),
    Case("Bias_Z_Relu", NINE, ONES, activated("Relu"), np.float32([1, -1]),
         np.float32([-1, 0, 0, 0, 0, 0, 0, 1]).reshape(1, 2, 2, 2),
         want=[12, 17, 25, 29, 11, 15, 23, 28]),
]  # fmt: skip

# onnxruntime/test/providers/cpu/nn/conv_op_test.cc
CONV_OP = [
    Case("Conv1D_1", (1, 1, 7), (1, 1, 1), {"kernel_shape": [1], "pads": [0, 0]}),
    Case("Conv1D_2", (3, 1, 8), (2, 1, 2), {"dilations": [2], "pads": [2, 2], "strides": [2]}, shape=(3, 2, 5)),
    Case("Conv1D_Bias", (2, 2, 9), (1, 2, 1), {"dilations": [2], "pads": [1, 1], "strides": [3]}, (1,), shape=(2, 1, 4)),
    Case("Conv1D_asymmetric_padding", ramp((1, 1, 3), 1), filled((1, 1, 3), 1), {"pads": [1, 0]}, want=[3, 6]),
    Case("Conv2D_1", (2, 1, 1, 1), (2, 1, 3, 3), {"pads": [1, 1, 1, 2], "strides": [3, 1]}, shape=(2, 2, 1, 2)),
    Case("Conv2D_2", (1, 1, 7, 7), (1, 1, 1, 1)),
    Case("Conv2D_Bias_1", (1, 1, 3, 3), (2, 1, 2, 2), {}, (2,)),
    Case("Conv2D_Bias_2", (1, 2, 6, 6), (1, 2, 4, 4), {"pads": [1, 2, 3, 1], "strides": [2, 3]}, (1,), shape=(1, 1, 4, 2)),
    Case("Conv2D_4", filled((1, 4, 3, 3), 1), filled((2, 4, 2, 2), 1), {"pads": [1, 2, 3, 1]},
         want=2 * [0, 4, 8, 8, 4, *(2 * [0, 8, 16, 16, 8]), 0, 4, 8, 8, 4, *(10 * [0])]),
    Case("Conv2D_AutoPad1", filled((1, 1, 5, 5), 1), filled((1, 1, 3, 3), 1), {"auto_pad": "SAME_UPPER"},
         want=[4, 6, 6, 6, 4, *(3 * [6, 9, 9, 9, 6]), 4, 6, 6, 6, 4]),
    Case("Conv2D_AutoPad2", ramp((1, 1, 5, 5)), filled((1, 1, 2, 2), 1), {"auto_pad": "SAME_LOWER"}),
    Case("AutoPad_with_non_default_strides", ramp((1, 1, 5, 5)), filled((1, 1, 3, 3), 1),
         {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, want=[12, 27, 24, 63, 108, 81, 72, 117, 84]),
    Case("AutoPad_SAME_UPPER_Stride2", ramp((1, 1, 6, 6)), filled((1, 1, 3, 3), 1), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    Case("Conv3D_1", (1, 1, 3, 3, 3), (1, 1, 1, 1, 1)),
    Case("Conv3D_2", (1, 1, 3, 3, 3), (1, 1, 1, 1, 1), {"pads": [2] * 6, "strides": [2] * 3}, shape=(1, 1, 4, 4, 4)),
    Case("Conv3D_Bias", (2, 1, 3, 3, 3), (2, 1, 2, 2, 2), {"dilations": [2] * 3, "pads": [2] * 6, "strides": [2] * 3}, (2,)),
    Case("Conv2D_group", ramp((1, 2, 3, 3)), np.float32([1, 2]).reshape(2, 1, 1, 1), {"group": 2},
         want=[*range(9), *range(18, 36, 2)]),
    Case("Conv2D_Bias_Group2_Feature4", (1, 4, 3, 3), (4, 2, 2, 2), {"group": 2}, (4,)),
    Case("Depthwise2D_Bias_Group1_Issue18992", filled((1, 1, 1, 1), 0.5), filled((1, 1, 1, 1), -3), {"group": 1}, filled((1,), 2), want=[0.5]),
    Case("Depthwise2D_Bias_Group2", (1, 2, 3, 3), (2, 1, 2, 2), {"group": 2}, (2,)),
    Case("Depthwise2D_Bias_Group15", (1, 15, 2, 2), (15, 1, 2, 2), {"group": 15}, (15,), shape=(1, 15, 1, 1)),
    Case("ConvDimWithZero", (0, 2, 4, 4), (1, 2, 2, 2), {"strides": [2, 2]}, (1,), shape=(0, 1, 2, 2)),
    Case("SplitK_batched", (2, 512, 3, 3), (4, 512, 3, 3), {"pads": [1] * 4}),
    Case("SplitK_batched_bias", (2, 512, 3, 3), (4, 512, 3, 3), {"pads": [1] * 4}, (4,)),
    Case("GroupedConvWithPaddingUsesSignedCoordinates", (1, 4, 3, 3), (4, 2, 3, 3), {"group": 2, "pads": [2] * 4}),
]  # fmt: skip

TENS, QUADS = ramp((1, 1, 3, 3), 10, 10), ramp((1, 1, 2, 2), 1)
MIXED = np.float32([10, 20, -30, -40, -50, -60, 70, 80, 90]).reshape(1, 1, 3, 3)
GROUPS = ramp((1, 3, 3, 3))
GROUPS.reshape(-1)[[3, 5, 9, 10, 12, 14]] *= -1
LANES = ramp((3, 1, 2, 2), 1)

# onnxruntime/js/web/test/data/ops: fused-conv.jsonc, conv.jsonc
WEB = [
    Case("relu", TENS, QUADS, activated("Relu"), want=[370, 470, 670, 770]),
    Case("relu, mixed signs", MIXED, QUADS, activated("Relu"), want=[0, 0, 390, 430]),
    Case("clip", TENS, QUADS, activated("Clip", 400, 600), want=[400, 470, 600, 600]),
    Case("HardSigmoid", MIXED, QUADS, activated("HardSigmoid", 2, 5), want=[0, 0, 1, 1]),
    Case("HardSigmoid in groups", GROUPS, LANES, {"group": 3, **activated("HardSigmoid", 2, 5)}),
    Case("LeakyRelu", MIXED, QUADS, activated("LeakyRelu", 2), want=[-540, -860, 390, 430]),
    Case("LeakyRelu in groups", GROUPS, LANES, {"group": 3, **activated("LeakyRelu", 2)},
         want=[9, -6, 51, 47, -170, -10, 251, 229, 847, 889, 973, 1015]),
    Case("no bias A", TENS, QUADS, want=[370, 470, 670, 770]),
    Case("no bias B", (1, 2, 3, 3), (2, 2, 2, 2)),
    Case("bias A", TENS, QUADS, {}, filled((1,), 1), want=[371, 471, 671, 771]),
    Case("bias B", (1, 2, 3, 3), (2, 2, 2, 2), {}, (2,)),
    Case("bias C", (1, 3, 3, 3), (2, 3, 2, 2), {}, (2,)),
    Case("3 channels to 4", (1, 3, 3, 3), (4, 3, 2, 2), {}, (4,)),
    Case("group A", (1, 2, 3, 3), (2, 1, 2, 2), {"group": 2}),
    Case("group B", (1, 3, 3, 3), (3, 1, 2, 2), {"group": 3}, (3,)),
    Case("group C", (1, 4, 3, 3), (4, 2, 2, 2), {"group": 2}, (4,)),
    Case("vectorised group A", (1, 4, 3, 3), (4, 1, 2, 2), {"group": 4}, (4,)),
    Case("vectorised group B", (1, 8, 3, 3), (8, 4, 2, 2), {"group": 2}, (8,)),
    Case("vectorised group C", (1, 4, 5, 5), (8, 1, 3, 3), {"group": 4, "pads": [1] * 4}),
    Case("vectorised group D", (1, 4, 5, 5), (4, 1, 3, 3), {"group": 4, "strides": [2, 2]}),
    Case("pointwise", (1, 8, 2, 2), (2, 8, 1, 1), {}, (2,)),
]  # fmt: skip


def test_onnxruntime(browser_python: BrowserPython) -> None:
    assert not faults(browser_python, [*FUSED_CONV, *CONV_OP, *WEB])


def spread(shape: Sequence[int], low: float, high: float) -> np.ndarray:
    return np.linspace(low, high, prod(shape), dtype=np.float32).reshape(shape)


def torch(name: str, x: Any, w: Any, bias: bool = True, **attributes: Any) -> Case:
    """With ExecuTorch's fills."""
    transposed = attributes.pop("transposed", False)
    channels = w[1] * attributes.get("group", 1) if transposed else w[0]
    given = spread(x, -1, 1), spread(w, -1, 1) / np.float32(prod(w[2:]))
    added = spread((channels,), -0.5, 0.5) if bias else None
    return Case(name, *given, attributes, added, transposed=transposed)


# ExecuTorch: backends/webgpu/test/op_tests/cases.py, backends/vulkan and their like.
TORCH = [
    torch("conv3x3_pad1", (1, 8, 16, 16), (16, 8, 3, 3), pads=[1] * 4),
    torch("patch_embed", (1, 3, 32, 32), (64, 3, 16, 16), strides=[16, 16]),
    torch("strided", (1, 3, 16, 16), (8, 3, 3, 3), strides=[2, 2], pads=[1] * 4),
    torch("depthwise", (1, 8, 8, 8), (8, 1, 3, 3), group=8, pads=[1] * 4),
    torch("grouped_vec4", (1, 8, 8, 8), (8, 4, 3, 3), group=2, pads=[1] * 4),
    torch("transpose2x", (1, 4, 4, 4), (4, 4, 2, 2), strides=[2, 2], transposed=True),
    torch("batched", (3, 8, 16, 16), (16, 8, 3, 3), pads=[1] * 4),
    # relu6
    *(torch(f"clamp {name}", x, w, name != "no_bias", **more, **activated("Clip", 0, 6))
      for name, x, w, more in (
          ("k3p1", (1, 4, 8, 8), (8, 4, 3, 3), {"pads": [1] * 4}),
          ("stride2", (1, 3, 10, 10), (6, 3, 3, 3), {"strides": [2, 2], "pads": [1] * 4}),
          ("dil2", (2, 3, 9, 9), (5, 3, 3, 3), {"dilations": [2, 2], "pads": [2] * 4}),
          ("no_bias", (1, 4, 8, 8), (8, 4, 3, 3), {"pads": [1] * 4}),
          ("asym", (1, 3, 7, 9), (5, 3, 2, 3), {"strides": [1, 2], "pads": [1, 0, 1, 0], "dilations": [2, 1]}),
      )),
    *(torch(f"conv1d_pw {c} {m}", (n, c, length), (m, c, 1), bias)
      for n, c, m, length, bias in ((1, 4, 6, 5, True), (1, 3, 3, 7, True), (1, 5, 2, 4, False), (1, 8, 8, 3, True), (2, 4, 6, 5, True))),
    *(torch(f"conv1d {name}", x, w, name != "no_bias", **more)
      for name, x, w, more in (
          ("stride1", (1, 4, 10), (6, 4, 3), {}),
          ("stride2", (1, 6, 10), (5, 6, 3), {"strides": [2]}),
          ("no_bias", (1, 4, 10), (6, 4, 3), {}),
          ("padded", (1, 4, 10), (6, 4, 3), {"pads": [1, 1]}),
          ("dilated", (1, 2, 11), (3, 2, 3), {"pads": [2, 2], "dilations": [2]}),
          ("batch2", (2, 4, 10), (6, 4, 3), {}),
          ("shorter", (1, 4, 7), (6, 4, 3), {}),
      )),
    *(torch(f"conv1d_dw {name}", (1, c, length), (c, 1, k), name != "k5", group=c, **more)
      for name, c, length, k, more in (
          ("k3s1p1", 4, 8, 3, {"pads": [1, 1]}),
          ("s2", 4, 8, 3, {"pads": [1, 1], "strides": [2]}),
          ("dil2", 3, 10, 3, {"dilations": [2], "pads": [2, 2]}),
          ("k5", 5, 7, 5, {"pads": [2, 2]}),
          ("C1", 1, 8, 3, {"pads": [1, 1]}),
      )),
    *(torch(f"q8ta {name}", (n, c, 9, 11), (m, c, *k), name != "no_bias", **more)
      for name, n, c, m, k, more in (
          ("k3", 1, 4, 8, (3, 3), {"pads": [1] * 4}),
          ("oc_gt", 1, 3, 37, (3, 3), {"pads": [1] * 4}),
          ("no_bias", 1, 4, 8, (3, 3), {"pads": [1] * 4}),
          ("stride2", 1, 4, 8, (3, 3), {"pads": [1] * 4, "strides": [2, 2]}),
          ("dil2", 1, 4, 8, (3, 3), {"pads": [2] * 4, "dilations": [2, 2]}),
          ("oc6 ic3", 1, 3, 6, (3, 3), {"pads": [1] * 4}),
          ("asym", 1, 4, 8, (3, 5), {"pads": [1, 2, 1, 2]}),
          ("batch2", 2, 4, 8, (3, 3), {"pads": [1] * 4}),
      )),
    # Prime sizes.
    torch("primes", (1, 5, 41, 37), (11, 5, 3, 3), pads=[1] * 4, strides=[2, 2]),
    torch("primes, depthwise", (1, 7, 29, 89), (7, 1, 5, 3), group=7),
    torch("primes, transposed", (1, 5, 11, 7), (5, 7, 3, 3), strides=[2, 2], pads=[1] * 4, output_padding=[1, 1], transposed=True),
]  # fmt: skip


def test_executorch(browser_python: BrowserPython) -> None:
    assert not faults(browser_python, TORCH)


ONE = filled((1, 1, 1), 1)
ALL = np.float32([-inf, -7, -1, -0.25, 0, 0.25, 1, 7, inf, nan]).reshape(1, 1, -1)


def one(name: str, x: Any, want: Any, attributes: Mapping[str, Any], **more: Any) -> Case:
    x = np.float32(x).reshape(1, 1, -1)
    more = {
        k: np.float32(v).reshape(1, 1, -1) if k == "z" else np.float32(v) for k, v in more.items()
    }
    return Case(name, x, ONE, attributes, want=want, **more)


# What onnxruntime computes on a CPU.
READINGS = [
    one("z before Relu", [1, 2, 3], [11, 22, 0], activated("Relu"), z=[10, 20, -30]),
    one("bias and z before LeakyRelu", [1, 2, 3], [12, 23, -13], activated("LeakyRelu", 0.5), z=[10, 20, -30], bias=[1]),
    one("Relu", [-1, 0, 2, inf, nan], [0, 0, 2, inf, nan], activated("Relu")),
    one("Relu without a parameter that it has", [-1, 2], [0, 2], activated("Relu", 3.0)),
    one("Clip the wrong way round", [-1, 3, 9, inf, nan], [0, 0, 0, 0, nan], activated("Clip", 6, 0)),
    one("Clip without bounds", [-inf, -1, 3, inf], [-inf, -1, 3, inf], activated("Clip", -inf, inf)),
    one("LeakyRelu below 0", [-2, 3], [1, 3], activated("LeakyRelu", -0.5)),
    one("HardSigmoid downwards", [-10, -1, 0, 10], [1, 0.7, 0.5, 0], activated("HardSigmoid", -0.2, 0.5)),
    *(Case(f"NaN through {name}", ALL, ONE, activated(name, *params)) for name, params in (
        ("Relu", ()), ("Tanh", ()), ("Sigmoid", ()), ("LeakyRelu", (0.1,)), ("Clip", (-1, 1)),
        ("HardSigmoid", (0.2, 0.5)), ("HardSwish", ()))),
    # Shapes.
    Case("pads that rescue a kernel", (1, 2, 2, 2), (3, 2, 4, 4), {"pads": [1] * 4}, shape=(1, 3, 1, 1)),
    Case("windows in the padding", filled((1, 1, 2), 1), filled((2, 1, 1), 1), {"pads": [2, 0], **activated("Relu")}, np.float32([3, -3]),
         want=[3, 3, 4, 4, 0, 0, 0, 0]),
    Case("no images", (0, 3, 5, 5), (4, 3, 3, 3), {"pads": [1] * 4}, (4,), shape=(0, 4, 5, 5)),
    Case("no output channels", (2, 3, 5, 5), (0, 3, 3, 3), shape=(2, 0, 3, 3)),
    Case("all axes are 1", (1, 1, 1, 1), (1, 1, 1, 1)),
]  # fmt: skip


def test_readings(browser_python: BrowserPython) -> None:
    assert not faults(browser_python, READINGS)


@pytest.mark.needs_f16
def test_readings_of_halves(browser_python: BrowserPython) -> None:
    """Everything in f32, one rounding at the end."""
    many, one = np.full((1, 3, 1), 60000, "float16"), np.ones((1, 3, 1), "float16")
    signed, two = one * np.float16([[[1], [1], [-1]]]), one * np.float16([[[1], [1], [0]]])
    single = np.ones(1, "float16")
    cases = [
        (many, signed, None, None, {}, 60000),
        (many, two, single, -60000 * single.reshape(1, 1, 1), {}, 60000),
        (many, two, None, None, activated("Clip", 0, 6), 6),
        (many, two, None, None, {}, inf),
        (np.ones((1, 4096, 1), "float16"), np.ones((1, 4096, 1), "float16"), None, None, {}, 4096),
    ]
    jobs = [
        {"x": x, "w": w, "bias": bias, "z": z, "attributes": attributes, "transposed": False}
        for x, w, bias, z, attributes, _ in cases
    ]
    results = browser_python(RUN, cases=jobs)
    assert [float(y.item()) for y in results] == [case[-1] for case in cases]


# Refused there at session creation, by shape inference or when run.
REFUSED: list[tuple[Any, Any, dict[str, Any], str]] = [
    ((1, 1, 1), (1, 1, 2), {}, "w"),
    ((1, 3, 1, 111), (1, 3, 3, 3), {}, "w"),
    ((1, 1, 3), (1, 1, 2), {"dilations": [3]}, "w"),
    ((1, 1, 3), (1, 1, 2), {"pads": [-1, 0]}, "pads[0]"),
    ((1, 1, 3), (1, 1, 2), {"pads": [1]}, "pads"),
    ((1, 1, 3), (1, 1, 2), {"strides": [0]}, "strides[0]"),
    ((1, 1, 3), (1, 1, 2), {"dilations": [0]}, "dilations[0]"),
    ((1, 1, 3), (1, 1, 2), {"strides": [1, 1]}, "strides"),
    ((1, 1, 3), (1, 1, 2), {"kernel_shape": [3]}, "kernel_shape"),
    ((1, 3, 3), (2, 1, 2), {"group": 2}, "w"),
    ((1, 4, 3), (3, 2, 2), {"group": 2}, "group"),
    ((1, 1, 3), (2, 1, 2), {"bias": (1,)}, "bias"),
    ((1, 1, 3), (2, 1, 2), {"bias": (2, 1)}, "bias"),
    ((1, 1, 3), (2, 1, 2), {"z": (1, 2, 1)}, "z"),
    ((1, 0, 3), (2, 0, 2), {}, "x"),
    ((1, 1, 0), (2, 1, 2), {"pads": [1, 1]}, "x"),
    ((1, 1), (2, 1), {}, "x"),
    ((1, 1, 3), (2, 1, 2), {"activation": ""}, "activation"),
    ((1, 1, 3), (2, 1, 2), {"activation": "relu"}, "activation"),
    ((1, 1, 3), (2, 1, 2), {"activation": "Silu"}, "activation"),
    ((1, 1, 3), (2, 1, 2), {"activation": "LeakyRelu"}, "activation_params"),
    ((1, 1, 3), (2, 1, 2), activated("LeakyRelu", 1, 2), "activation_params"),
    ((1, 1, 3), (2, 1, 2), activated("Clip", 1), "activation_params"),
    ((1, 1, 3), (2, 1, 2), activated("HardSigmoid", 1, 2, 3), "activation_params"),
    # ExecuTorch
    ((1, 1, 3), (2, 1, 2), {"dtype": "float64"}, "dtype"),
    ((1, 3, 4, 4), (4, 2, 2, 2), {}, "w"),
    ((1, 4, 4, 4), (4, 4, 2, 2), {"transposed": True, "output_padding": 1}, "output_padding"),
    ((1, 4, 4, 4), (4, 4, 2, 2), {"transposed": True, "strides": 2, "output_padding": 2}, "output_padding"),
    ((1, 4, 4, 4), (3, 4, 2, 2), {"transposed": True}, "w"),
    ((1, 2**16, 2**8, 2**8), (1, 2**16, 1, 1), {}, "x"),
]  # fmt: skip


def test_refused() -> None:
    found = []
    for x, w, arguments, argument in REFUSED:
        try:
            fusedconv.plan(x, w, **arguments)
            found.append(f"{x} {w} {arguments}: no error")
        except fusedconv.RequestError as error:
            if error.argument != argument:
                found.append(f"{x} {w} {arguments}: {error}")
    assert not found
