"""Every wrong argument is refused by name, with what was given and what is allowed."""

import numpy as np
import pytest

from fusedconv.errors import FusedConvError, RequestError
from fusedconv.request import conv_request

X, W = (2, 6, 9, 11), (4, 3, 3, 5)


@pytest.mark.parametrize(
    ("attributes", "output"),
    [
        ({}, (7, 7)),
        ({"pads": 1}, (9, 9)),
        ({"pads": [1, 0, 2, 3]}, (10, 10)),
        ({"strides": 2}, (4, 4)),
        ({"strides": np.array([2, 1])}, (4, 7)),
        ({"dilations": (2, 1)}, (5, 7)),
        ({"auto_pad": "VALID"}, (7, 7)),
        ({"auto_pad": b"SAME_UPPER", "strides": [2, 3]}, (5, 4)),
        ({"auto_pad": "SAME_LOWER", "strides": 20}, (1, 1)),
        ({"auto_pad": ""}, (7, 7)),
        ({"kernel_shape": (3, 5), "strides": None}, (7, 7)),
    ],
)
def test_output_shape(attributes, output):
    request = conv_request(X, W, group=np.int64(2), bias=True, z=True, **attributes)
    assert request.output_shape == (2, 4, *output)
    assert request.shapes["bias"] == (4,)
    assert request.shapes["zResidual"] == request.output_shape


def test_one_and_three_dimensions():
    assert conv_request((1, 2, 9), (5, 2, 3), pads=[1, 0]).output_shape == (1, 5, 8)
    assert conv_request((1, 2, 4, 5, 6), (5, 2, 1, 2, 3)).output_shape == (1, 5, 4, 4, 4)


def test_an_empty_batch_or_no_output_channels_is_an_empty_result():
    assert conv_request((0, 2, 9), (5, 2, 3)).output_shape == (0, 5, 7)
    assert conv_request((1, 2, 9), (0, 2, 3)).output_shape == (1, 0, 7)


@pytest.mark.parametrize(
    ("change", "argument", "got", "allowed"),
    [
        ({"x_shape": (2, 6)}, "x", "(2, 6)", "one to three spatial"),
        ({"x_shape": (1, 6, 2, 2, 2, 2)}, "x", "2, 2, 2", "one to three spatial"),
        ({"x_shape": (2, 6, 9)}, "w", "(4, 3, 3, 5)", "rank 3"),
        ({"x_shape": (2, 0, 9, 11)}, "x", "(2, 0, 9, 11)", "axis 1 is 0"),
        ({"x_shape": (2, 6, 0, 11)}, "x", "(2, 6, 0, 11)", "axis 2 is 0"),
        ({"x_shape": (2, 6, -1, 11)}, "x", "-1", "0 or more"),
        ({"x_shape": (2, 6, 9.5, 11)}, "x.shape[2]", "9.5", "whole"),
        ({"x_shape": 7}, "x", "7", "sequence"),
        ({"w_shape": (4, 3, 0, 5)}, "w", "(4, 3, 0, 5)", "axis 2 is 0"),
        ({"w_shape": (4, 2, 3, 5)}, "w", "(4, 2, 3, 5)", "6/2"),
        ({"w_shape": (3, 3, 3, 5)}, "group", "2", "divisor of the 3"),
        ({"w_shape": (4, 3, 10, 5)}, "w", "[10, 5]", "at most the padded input, 9 in axis 0"),
        ({"dilations": [1, 3]}, "w", "spans 13", "at most the padded input, 11 in axis 1"),
        ({"dtype": "float64"}, "dtype", "float64", "float32 or float16"),
        ({"bias": (5,)}, "bias", "(5,)", "(4,)"),
        ({"bias": ()}, "bias", "()", "(4,)"),
        ({"bias": (4, 1)}, "bias", "(4, 1)", "(4,)"),
        ({"z": (2, 4, 7, 1)}, "z", "(2, 4, 7, 1)", "(2, 4, 7, 7)"),
        ({"group": 0}, "group", "0", "1 or more"),
        ({"group": 2.0}, "group", "2.0", "whole"),
        ({"group": True}, "group", "True", "whole"),
        ({"strides": [1]}, "strides", "1 values", "2"),
        ({"strides": [0, 1]}, "strides[0]", "0", "1 or more"),
        ({"strides": "11"}, "strides", "'11'", "2 whole"),
        ({"dilations": 0}, "dilations", "0", "1 or more"),
        ({"dilations": [1, 1.5]}, "dilations[1]", "1.5", "whole"),
        ({"pads": [1, 1]}, "pads", "2 values", "4"),
        ({"pads": [1, 1, -1, 1]}, "pads[2]", "-1", "0 or more"),
        ({"kernel_shape": [3, 3]}, "kernel_shape", "[3, 3]", "[3, 5]"),
        ({"auto_pad": "SAME"}, "auto_pad", "'SAME'", "SAME_UPPER"),
        ({"auto_pad": "same_upper"}, "auto_pad", "'same_upper'", "SAME_UPPER"),
        ({"auto_pad": 1}, "auto_pad", "1", "NOTSET"),
        ({"auto_pad": "VALID", "pads": 0}, "pads", "VALID", "NOTSET"),
        ({"activation": "relu"}, "activation", "'relu'", "Relu"),
        ({"activation": ""}, "activation", "''", "Relu"),
        ({"activation": "LeakyRelu"}, "activation_params", "0 values", "exactly 1"),
        ({"activation": "Clip", "activation_params": [1]}, "activation_params", "1", "exactly 2"),
        (
            {"activation": "Elu", "activation_params": [1, 2]},
            "activation_params",
            "2",
            "at most 1",
        ),
        (
            {"activation": "Elu", "activation_params": ["a"]},
            "activation_params",
            "['a']",
            "numbers",
        ),
        (
            {"activation": "LeakyRelu", "activation_params": [float("inf")]},
            "activation_params",
            "inf",
            "finite",
        ),
        ({"activation_params": [1.0]}, "activation_params", "without", "activation"),
        ({"stride": 2}, "stride", "unknown", "did you mean strides"),
        ({"x_shape": (2**20, 6, 99, 99)}, "x", "1048576", "2**32"),
    ],
)
def test_refused(change, argument, got, allowed):
    arguments = {"x_shape": X, "w_shape": W, "group": 2, **change}
    with pytest.raises(RequestError) as caught:
        conv_request(arguments.pop("x_shape"), arguments.pop("w_shape"), **arguments)
    error = caught.value
    assert error.argument == argument
    assert got in str(error.got)
    assert allowed in error.allowed
    assert argument in str(error)
    assert isinstance(error, FusedConvError)


def test_clip_may_be_infinite():
    request = conv_request(
        X, W, group=2, activation="Clip", activation_params=[-np.inf, np.float32(6)]
    )
    assert request.attributes["activation_params"] == (-np.inf, 6.0)
