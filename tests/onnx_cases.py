"""The convolution tests that the `onnx` package ships, as data."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


@dataclass(frozen=True)
class OnnxCase:
    """One model of one node: its inputs in order, its attributes, the output that ONNX expects."""

    name: str
    inputs: tuple[np.ndarray, ...]
    attributes: dict[str, Any]
    output: np.ndarray
    rtol: float
    atol: float


def onnx_cases(op_type: str) -> list[OnnxCase]:
    """Every test of the package whose model is one `op_type` node."""
    return [*node_cases(op_type), *stored_cases(op_type)]


def node_cases(op_type: str) -> Iterator[OnnxCase]:
    """The node tests, which the package generates."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package's own, of other operators
        cases = collect_testcases(op_type)
    for case in cases:
        if [node.op_type for node in case.model.graph.node] == [op_type]:
            for inputs, outputs in case.data_sets:
                yield one(case.name, case.model, inputs, outputs[0], case.rtol, case.atol)


def stored_cases(op_type: str) -> Iterator[OnnxCase]:
    """The tests converted from PyTorch, which the package stores."""
    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    for path in sorted(data.glob("pytorch-*/*/model.onnx")):
        model = onnx.load(path)
        if [node.op_type for node in model.graph.node] != [op_type]:
            continue
        given = [tensor(file) for file in sorted(path.parent.glob("test_data_set_0/input_*.pb"))]
        stored = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
        names = [item.name for item in model.graph.input if item.name not in stored]
        values = {**stored, **dict(zip(names, given, strict=True))}
        inputs = [values[name] for name in model.graph.node[0].input]
        output = tensor(path.parent / "test_data_set_0" / "output_0.pb")
        yield one(path.parent.name, model, inputs, output, 1e-3, 1e-6)


def tensor(path: Path) -> np.ndarray:
    return numpy_helper.to_array(onnx.load_tensor(str(path)))


def one(name: str, model: Any, inputs: Any, output: Any, rtol: float, atol: float) -> OnnxCase:
    node = model.graph.node[0]
    attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    return OnnxCase(name, tuple(map(np.asarray, inputs)), attributes, output, rtol, atol)
