"""Conv as ONNX tests it, FusedConv as ONNX Runtime computes it, both run through the browser."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from ..fills import expected, hashed
from ..onnx_cases import OnnxCase, onnx_cases

pytestmark = pytest.mark.needs_numpy

RUN = """
import fusedconv
await fusedconv.run(x, w, bias=bias, z=z, **attributes)
"""


def run(browser_python: Any, x: Any, w: Any, bias: Any, z: Any, attributes: Any) -> np.ndarray:
    plain = {k: v.decode() if isinstance(v, bytes) else v for k, v in attributes.items()}
    result: np.ndarray = browser_python(RUN, x=x, w=w, bias=bias, z=z, attributes=plain)
    return result


@pytest.mark.parametrize("case", onnx_cases("Conv"), ids=lambda case: case.name)
def test_onnx(case: OnnxCase, browser_python: Any) -> None:
    x, w, *bias = case.inputs
    y = run(browser_python, x, w, bias[0] if bias else None, None, case.attributes)
    assert y.dtype == case.output.dtype
    np.testing.assert_allclose(y, case.output, rtol=case.rtol, atol=case.atol)


def ort(
    inputs: dict[str, np.ndarray], attributes: dict[str, Any], transposed: bool = False
) -> np.ndarray:
    """The result of onnxruntime's CPU provider for com.microsoft.FusedConv, or ConvTranspose."""
    if transposed:
        node = helper.make_node("ConvTranspose", list(inputs), ["Y"], **attributes)
    else:
        names = [name if name in inputs else "" for name in ("X", "W", "B", "Z")]
        node = helper.make_node("FusedConv", names, ["Y"], domain="com.microsoft", **attributes)
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)
        for name, value in inputs.items()
    ]
    graph = helper.make_graph(
        [node], "g", values, [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)]
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (y,) = session.run(None, inputs)
    return np.asarray(y)


SHAPES = [
    pytest.param((2, 6, 23), (8, 6, 5), {"pads": [2, 1], "strides": [2]}, id="1d"),
    pytest.param((1, 6, 23), (6, 2, 3), {"group": 3, "dilations": [2]}, id="1d-group"),
    pytest.param((2, 5, 13, 11), (7, 5, 3, 3), {"pads": [1, 0, 2, 1]}, id="2d"),
    pytest.param((1, 32, 14, 14), (48, 32, 1, 1), {}, id="2d-1x1"),
    pytest.param((1, 16, 40, 40), (64, 16, 3, 3), {"pads": [1, 1, 1, 1]}, id="2d-dense"),
    pytest.param((1, 8, 15, 17), (8, 1, 5, 5), {"group": 8, "pads": [2] * 4}, id="2d-depthwise"),
    pytest.param((1, 8, 15, 17), (12, 2, 3, 3), {"group": 4, "dilations": [2, 2]}, id="2d-group"),
    pytest.param((1, 3, 6, 7, 8), (4, 3, 2, 3, 3), {"strides": [1, 2, 2]}, id="3d"),
]
ACTIVATIONS = [
    (None, None),
    ("Relu", None),
    ("Tanh", None),
    ("Sigmoid", None),
    ("LeakyRelu", [0.1]),
    ("Clip", [-0.5, 0.75]),
    ("HardSigmoid", [0.2, 0.5]),
    ("HardSwish", None),
]


@pytest.mark.parametrize(("x", "w", "attributes"), SHAPES)
@pytest.mark.parametrize(("activation", "params"), ACTIVATIONS)
def test_onnxruntime(
    x: Any, w: Any, attributes: Any, activation: Any, params: Any, browser_python: Any
) -> None:
    given = {"X": hashed(x, "x"), "W": hashed(w, "w") / np.sqrt(np.prod(w[1:])).astype("float32")}
    attributes = dict(attributes)
    if activation:
        attributes["activation"] = activation
    if params:
        attributes["activation_params"] = params
    given["B"] = hashed((w[0],), "b")
    shape = expected({"x": given["X"], "w": given["W"]}, attributes).shape
    given["Z"] = hashed(shape, "z")
    want = ort(given, attributes)
    exact = expected(
        {"x": given["X"], "w": given["W"], "bias": given["B"], "zResidual": given["Z"]}, attributes
    )
    y = run(browser_python, given["X"], given["W"], given["B"], given["Z"], attributes)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=2e-6)
    # No worse than onnxruntime itself, give or take the last bits of one f32 result.
    ours, theirs = np.abs(y - exact).max(), np.abs(want - exact).max()
    assert ours <= 2 * theirs + 5e-7
