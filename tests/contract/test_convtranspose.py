"""Transposed convolution: its request rules, and that every valid request has a plan."""

import math
from random import Random

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from fusedconv import Capabilities, RequestError, UnsupportedError, explain, plan
from fusedconv.devices import DEVICES
from fusedconv.operator import builtin
from fusedconv.reference import conv_transpose
from fusedconv.request_transposed import conv_transpose_request

from .random_transposed import random_transposed

X, W = (2, 6, 5, 7), (6, 2, 3, 4)


@pytest.mark.parametrize(
    ("attributes", "output"),
    [
        ({}, (7, 10)),
        ({"strides": 2}, (11, 16)),
        ({"strides": 2, "pads": 1}, (9, 14)),
        ({"strides": np.array([2, 3]), "pads": [1, 0, 2, 3]}, (8, 19)),
        ({"strides": 2, "output_padding": 1}, (12, 17)),
        ({"strides": [2, 3], "output_padding": (1, 2)}, (12, 24)),
        ({"dilations": [2, 3]}, (9, 16)),
        ({"dilations": [2, 3], "output_padding": [1, 2]}, (10, 18)),
        ({"strides": 2, "auto_pad": "SAME_UPPER"}, (10, 14)),
        ({"strides": 2, "auto_pad": b"SAME_LOWER", "output_padding": 1}, (10, 14)),
        ({"strides": 5, "auto_pad": "SAME_UPPER"}, (23, 34)),
        ({"strides": 2, "auto_pad": "VALID"}, (11, 16)),
        ({"strides": 2, "output_shape": [10, 15]}, (10, 15)),
        ({"strides": 2, "output_shape": [12, 1], "pads": [9, 9, 9, 9]}, (12, 1)),
        ({"auto_pad": "", "kernel_shape": (3, 4), "output_shape": None}, (7, 10)),
    ],
)
def test_output_shape(attributes, output):
    request = conv_transpose_request(X, W, bias=True, z=True, **attributes)
    assert request.output_shape == (2, 2, *output)
    assert request.shapes["bias"] == (2,)
    assert request.shapes["zResidual"] == request.output_shape


def test_groups_multiply_the_output_channels():
    assert conv_transpose_request(X, W, group=3).output_shape[1] == 6


def test_one_and_three_dimensions():
    assert conv_transpose_request((1, 2, 9), (2, 5, 3), strides=[4]).output_shape == (1, 5, 35)
    shape = conv_transpose_request((1, 2, 4, 5, 6), (2, 5, 1, 2, 3), strides=2).output_shape
    assert shape == (1, 5, 7, 10, 13)


def test_an_empty_batch_or_no_output_channels_is_an_empty_result():
    assert conv_transpose_request((0, 2, 9), (2, 5, 3)).output_shape == (0, 5, 11)
    assert conv_transpose_request((1, 2, 9), (2, 0, 3)).output_shape == (1, 0, 11)
    assert plan((0, 2, 9), (2, 5, 3), transposed=True).passes == ()


@pytest.mark.parametrize(
    ("change", "argument", "got", "allowed"),
    [
        ({"x_shape": (2, 6)}, "x", "(2, 6)", "one to three spatial"),
        ({"x_shape": (2, 6, 9)}, "w", "(6, 2, 3, 4)", "rank 3 as x has: (C, M/group, k1)"),
        ({"x_shape": (2, 5, 5, 7)}, "w", "(6, 2, 3, 4)", "5 in axis 0"),
        ({"x_shape": (2, 6, 0, 7)}, "x", "(2, 6, 0, 7)", "axis 2 is 0"),
        ({"w_shape": (0, 2, 3, 4)}, "w", "(0, 2, 3, 4)", "but in axis 1 (axis 0 is 0)"),
        ({"w_shape": (6, 2, 0, 4)}, "w", "(6, 2, 0, 4)", "axis 2 is 0"),
        ({"group": 4}, "group", "4", "divisor of the 6 input channels"),
        ({"output_padding": 1}, "output_padding", "[1, 1]", "at most 0 in axis 0"),
        ({"output_padding": [0, 2], "strides": 2}, "output_padding", "[0, 2]", "1 in axis 1"),
        ({"output_padding": [1]}, "output_padding", "1 values", "2, or one number for all"),
        ({"output_padding": -1}, "output_padding", "-1", "0 or more"),
        ({"output_shape": [0, 3]}, "output_shape[0]", "0", "1 or more"),
        ({"output_shape": [8, 10]}, "output_shape", "[8, 10]", "at most 7 in axis 0"),
        ({"output_shape": [2, 6, 7, 10]}, "output_shape", "4 values", "2, or one"),
        ({"pads": [4, 0, 3, 0]}, "pads", "[4, 0, 3, 0]", "less than the 7 outputs of axis 0"),
        ({"pads": 1, "auto_pad": "VALID"}, "pads", "VALID", "NOTSET"),
        ({"kernel_shape": [3, 3]}, "kernel_shape", "[3, 3]", "[3, 4]"),
        ({"strides": 0}, "strides", "0", "1 or more"),
        ({"bias": (6,)}, "bias", "(6,)", "(2,)"),
        ({"z": (2, 2, 7, 9)}, "z", "(2, 2, 7, 9)", "(2, 2, 7, 10)"),
        ({"output_pad": 1}, "output_pad", "unknown", "did you mean output_padding?"),
        ({"x_shape": (1, 1, 70000, 70000), "w_shape": (1, 1, 1, 1)}, "x", "70000", "2**32"),
        ({"x_shape": (1, 1, 9000, 9000), "w_shape": (1, 99, 1, 1)}, "y", "99", "2**32"),
    ],
)
def test_refusals_name_the_argument_what_was_given_and_what_is_allowed(
    change, argument, got, allowed
):
    with pytest.raises(RequestError) as caught:
        conv_transpose_request(**{"x_shape": X, "w_shape": W, **change})
    assert caught.value.argument == argument
    assert got in str(caught.value.got)
    assert allowed in str(caught.value.allowed)


def test_output_padding_belongs_to_transposed_convolution_only():
    with pytest.raises(RequestError, match="output_padding"):
        plan((1, 6, 5, 7), (2, 6, 3, 4), output_padding=1)


def onnxruntime_result(x, w, bias, attributes):
    """What onnxruntime's CPU makes of it, or the text of its refusal."""
    names = {"x": x, "w": w, "b": bias}
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)
        for name, value in names.items()
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("ConvTranspose", list(names), ["y"], **attributes)
    graph = helper.make_graph([node], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        return session.run(None, names)[0]
    except Exception as error:
        return str(error)


def test_the_reference_agrees_with_onnxruntime():
    rng, compared, refused = Random(5), 0, 0
    for _ in range(250):
        x_shape, w_shape, arguments = random_transposed(rng, "small")
        unknown = ("bias", "z", "dtype", "activation", "activation_params")
        attributes = {k: v for k, v in arguments.items() if k not in unknown}
        x, w, bias = (
            np.random.default_rng(0).standard_normal(shape).astype("float32")
            for shape in (x_shape, w_shape, (w_shape[1] * arguments["group"],))
        )
        want = onnxruntime_result(x, w, bias, attributes)
        y = conv_transpose(x, w, bias, **attributes)
        assert y.shape == conv_transpose_request(x_shape, w_shape, **attributes).output_shape
        if isinstance(want, str):
            # It keeps output_padding (and so output_shape) below the stride, we below the dilation.
            assert "inconsistent" in want, want
            refused += 1
            continue
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)
        compared += 1
    assert compared > 4 * refused


@pytest.mark.parametrize("device", sorted(DEVICES))
def test_every_valid_request_has_a_plan(device):
    rng = Random(device)
    for _ in range(150):
        x, w, arguments = random_transposed(rng, "small" if device == "tiny" else "large")
        if "shader-f16" not in DEVICES[device].features:
            arguments["dtype"] = "float32"
        made = plan(x, w, transposed=True, device=DEVICES[device], **arguments)
        assert made.operator == "ConvTranspose"
        bindings = [b for item in made.passes for b in item.bindings]
        assert {b.operand for b in bindings} - {None} == {*made.operands, "y"}
        assert sum(b.operand == "y" and b.buffer == "storage" for b in bindings) == 1


def test_a_device_with_little_still_serves_what_is_huge():
    """The grid folds where one dimension does not hold it."""
    large = dict.fromkeys(("maxBufferSize", "maxStorageBufferBindingSize"), 2**36)
    few = dict.fromkeys(("maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupSizeX"), 64)
    tiny = Capabilities(limits={**large, **few})
    made = plan((1, 1, 3000, 3000), (1, 1, 17, 17), transposed=True, strides=16, device=tiny)
    assert made.variant == "convtranspose_gather"
    (item,) = made.passes
    assert math.prod(item.dispatch) * 64 >= math.prod(made.output_shape)
    assert max(item.dispatch) <= 65535


BENCH = [
    ((1, 64, 56, 56), (64, 32, 4, 4), {"strides": 2, "pads": 1}, "phases"),
    ((1, 256, 14, 14), (256, 128, 2, 2), {"strides": 2}, "nonoverlapping"),
    ((1, 64, 9, 9), (64, 48, 1, 1), {}, "nonoverlapping"),
    ((1, 512, 200), (512, 256, 16), {"strides": 8, "pads": 4}, "phases"),
    ((1, 64, 28, 28), (64, 64, 3, 3), {"strides": 2, "pads": 1, "output_padding": 1}, "split"),
    ((1, 64, 28, 28), (64, 64, 3, 3), {"pads": 1, "dilations": 2}, "phases"),
    ((1, 64, 28, 28), (64, 64, 3, 3), {"strides": 2, "dilations": 3}, "split"),
    ((1, 32, 9, 9), (32, 1, 2, 2), {"strides": 2, "group": 32}, "depthwise"),
    ((1, 4, 60, 60), (4, 3, 5, 5), {"strides": 3}, "rows"),
    ((1, 4, 60, 60), (4, 3, 5, 5), {"strides": 16}, "gather"),
]


@pytest.mark.parametrize(("x", "w", "attributes", "family"), BENCH)
def test_the_family_that_is_meant_for_a_shape_serves_it(x, w, attributes, family):
    for bias, z in ((False, False), (True, True)):
        made = plan(x, w, transposed=True, bias=bias, z=z, **attributes)
        assert made.variant.split("_")[1] == family
        assert made.variant.endswith("_bias_z") == z


def test_weights_are_laid_out_once():
    made = plan(*BENCH[0][:2], transposed=True, **BENCH[0][2])
    assert [(item.id, item.once) for item in made.passes] == [("weights", True), ("product", False)]
    assert [item.once for item in made.scratch] == [True]
    assert {b.operand for b in made.passes[0].bindings} == {"w", None}


def test_a_pin_that_is_not_eligible_says_why():
    with pytest.raises(UnsupportedError, match=r"kernelIsStride > kernelH == strideH"):
        plan(X, W, transposed=True, strides=2, variant="convtranspose_nonoverlapping")
    verdicts = explain(X, W, transposed=True, strides=2)
    assert verdicts["convtranspose_depthwise"].reason == "inCPerGroup == 1, where inCPerGroup = 6"


def test_the_manifest_needs_nothing_of_the_other_operator():
    operator = builtin("convtranspose")
    assert operator.manifest.name == "ConvTranspose"
    assert {v.id.split("_")[0] for v in operator.manifest.variants} == {"convtranspose"}
