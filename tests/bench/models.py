"""The bench's shapes as ONNX models of one convolution, for onnxruntime-web.

The weights are initialisers, as in a real model, with their bytes outside of the file: the page
makes them, so that a model is some hundred bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["DTYPES", "SHAPES", "file_name", "load_shapes", "write_models"]

SHAPES = Path(__file__).with_name("shapes.json")
DTYPES = ("float32", "float16")
WEIGHTS = "weights.bin"
"""Where the models say that their weights are: w, then bias."""


def load_shapes() -> list[dict[str, Any]]:
    """The shapes of the bench: name, x, w, stride, pad, group, whom they are for, perhaps more."""
    shapes: list[dict[str, Any]] = json.loads(SHAPES.read_text("utf-8"))
    return shapes


def file_name(index: int, dtype: str) -> str:
    """Of the model of the shape at `index`."""
    return f"{index}-{dtype}.onnx"


def write_models(folder: Path) -> None:
    """One model for each shape and dtype."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, shape in enumerate(load_shapes()):
        for dtype in DTYPES:
            (folder / file_name(index, dtype)).write_bytes(model(shape, dtype))


def model(shape: Mapping[str, Any], dtype: str) -> bytes:
    """FusedConv with bias and Relu, or ConvTranspose and a Relu behind it."""
    from onnx import TensorProto, helper

    kind = TensorProto.FLOAT if dtype == "float32" else TensorProto.FLOAT16
    size = 4 if dtype == "float32" else 2
    rank = len(shape["x"]) - 2
    weights = math.prod(shape["w"])
    attributes = {
        "group": shape["group"],
        "kernel_shape": shape["w"][2:],
        "pads": [shape["pad"]] * 2 * rank,
        "strides": [shape["stride"]] * rank,
    }
    if shape.get("transposed"):
        # There is no fused transposed convolution.
        attributes["output_padding"] = [shape["output_padding"]] * rank
        nodes = [
            helper.make_node("ConvTranspose", ["x", "w", "bias"], ["sum"], **attributes),
            helper.make_node("Relu", ["sum"], ["y"]),
        ]
        channels = shape["w"][1] * shape["group"]
    else:
        attributes |= {"activation": "Relu", "domain": "com.microsoft"}
        nodes = [helper.make_node("FusedConv", ["x", "w", "bias"], ["y"], **attributes)]
        channels = shape["w"][0]
    graph = helper.make_graph(
        nodes,
        "bench",
        [helper.make_tensor_value_info("x", kind, shape["x"])],
        [helper.make_tensor_value_info("y", kind, None)],
        [
            external("w", kind, shape["w"], 0, weights * size),
            external("bias", kind, [channels], weights * size, channels * size),
        ],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    content: bytes = made.SerializeToString()
    return content


def external(name: str, kind: int, shape: list[int], offset: int, length: int) -> Any:
    """A tensor whose bytes are in another file."""
    from onnx import TensorProto

    tensor = TensorProto(name=name, data_type=kind, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    place = {"location": WEIGHTS, "offset": str(offset), "length": str(length)}
    for key, value in place.items():
        tensor.external_data.add(key=key, value=value)
    return tensor
