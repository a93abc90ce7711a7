"""Reads a Keras model as TensorFlow.js stores it: `model.json` and the shards of its weights."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

__all__ = ["Layer", "Model", "ModelFileError", "Weight", "read_model", "shard_paths"]


class ModelFileError(Exception):
    """The model's files are not what they should be."""


@dataclass(frozen=True)
class Weight:
    """float32 values in row-major order; needs no NumPy."""

    shape: tuple[int, ...]
    data: array[float]


@dataclass(frozen=True)
class Layer:
    """One layer: its Keras class, its settings, and the names of the layers that feed it."""

    name: str
    kind: str
    config: Mapping[str, Any]
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Model:
    """Layers, each after the layers that feed it, and weights under names like `conv/kernel`."""

    name: str
    layers: tuple[Layer, ...]
    output: str
    weights: Mapping[str, Weight]


def shard_paths(model_json: str) -> list[str]:
    """The files of weights that belong to a `model.json`, relative to it, in order."""
    groups = _parse(model_json)["weightsManifest"]
    return [path for group in groups for path in group["paths"]]


def read_model(model_json: str, shards: Sequence[bytes]) -> Model:
    """Read a model of the Functional kind with one input and one output.

    `shards` holds the bytes of `shard_paths(model_json)`, in that order.
    """
    data = _parse(model_json)
    config = data["modelTopology"]["model_config"]["config"]
    layers = tuple(_layer(entry) for entry in config["layers"])
    if len(config["input_layers"]) != 1 or len(config["output_layers"]) != 1:
        raise ModelFileError("a model with one input and one output is needed")
    known: set[str] = set()
    for layer in layers:
        if not known.issuperset(layer.inputs):
            raise ModelFileError(f"layer {layer.name!r} comes before a layer that feeds it")
        known.add(layer.name)
    weights = _weights(data["weightsManifest"], b"".join(shards))
    return Model(config["name"], layers, config["output_layers"][0][0], weights)


def _parse(model_json: str) -> dict[str, Any]:
    try:
        data = json.loads(model_json)
        kind = data["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"model.json is not a TensorFlow.js model: {error}") from None
    if kind != "layers-model":
        raise ModelFileError(f"a layers-model is needed, this is a {kind}")
    return dict(data)


def _layer(entry: Mapping[str, Any]) -> Layer:
    nodes = entry["inbound_nodes"]
    if len(nodes) > 1:
        raise ModelFileError(f"layer {entry['name']!r} is used {len(nodes)} times; once is read")
    inputs = tuple(source[0] for source in nodes[0]) if nodes else ()
    return Layer(entry["name"], entry["class_name"], entry["config"], inputs)


def _weights(groups: Sequence[Mapping[str, Any]], content: bytes) -> dict[str, Weight]:
    weights = {}
    offset = 0
    for spec in (spec for group in groups for spec in group["weights"]):
        if spec["dtype"] != "float32" or "quantization" in spec:
            raise ModelFileError(f"weight {spec['name']!r} is not plain float32")
        shape = tuple(spec["shape"])
        end = offset + 4 * prod(shape)
        values = array("f")
        values.frombytes(content[offset:end])
        if len(values) != prod(shape):
            raise ModelFileError(f"the weights end at {len(content)} bytes, {end} are needed")
        weights[spec["name"]] = Weight(shape, values)
        offset = end
    if offset != len(content):
        raise ModelFileError(f"the weights have {len(content)} bytes, {offset} are described")
    return weights
