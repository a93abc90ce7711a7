"""The super-resolution example up to the GPU: reading, translating, cutting into tiles."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from superres.graph import Conv, Graph
from superres.keras import ModelFileError, read_model, shard_paths
from superres.lowering import UnsupportedModelError, lower
from superres.tiles import cut, planes

Layers = Sequence[tuple[str, str, Mapping[str, Any], Sequence[str]]]


def model_files(layers: Layers, weights: Mapping[str, np.ndarray]) -> tuple[str, bytes]:
    """A model file with these layers (name, kind, config, inputs); the last one is the output."""
    entries = [
        {
            "class_name": kind,
            "name": name,
            "config": {"name": name, **config},
            "inbound_nodes": [[[source, 0, 0, {}] for source in inputs]] if inputs else [],
        }
        for name, kind, config, inputs in layers
    ]
    specs = [{"name": n, "shape": list(w.shape), "dtype": "float32"} for n, w in weights.items()]
    config = {
        "name": "test",
        "layers": entries,
        "input_layers": [[layers[0][0], 0, 0]],
        "output_layers": [[layers[-1][0], 0, 0]],
    }
    data = {
        "format": "layers-model",
        "modelTopology": {"model_config": {"class_name": "Functional", "config": config}},
        "weightsManifest": [{"paths": ["a.bin"], "weights": specs}],
    }
    content = b"".join(w.astype("<f4").tobytes() for w in weights.values())
    return json.dumps(data), content


def image(channels: int = 3) -> tuple[str, str, dict[str, Any], list[str]]:
    return ("in", "InputLayer", {"batch_input_shape": [None, None, None, channels]}, [])


def conv(name: str, source: str, **config: Any) -> tuple[str, str, dict[str, Any], list[str]]:
    settings = {
        "strides": [1, 1],
        "padding": "same",
        "dilation_rate": [1, 1],
        "groups": 1,
        "activation": "linear",
        "use_bias": True,
        "data_format": "channels_last",
    }
    return (name, "Conv2D", settings | config, [source])


def graph_of(layers: Layers, **shapes: tuple[int, ...]) -> tuple[Graph, dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    weights = {}
    for name, shape in shapes.items():
        weights[f"{name}/kernel"] = rng.standard_normal(shape).astype(np.float32)
        weights[f"{name}/bias"] = rng.standard_normal(shape[-1:]).astype(np.float32)
    text, content = model_files(layers, weights)
    return lower(read_model(text, [content])), weights


def convolve(x: np.ndarray, w: np.ndarray, step: Conv) -> np.ndarray:
    """Stride 1, SAME_UPPER or VALID, NCHW, float64."""
    assert step.strides == (1, 1)
    kh, kw = ((k - 1) * d + 1 for k, d in zip(w.shape[2:], step.dilations, strict=True))
    same = step.auto_pad == "SAME_UPPER"
    pad = [((k - 1) // 2, k // 2) if same else (0, 0) for k in (kh, kw)]
    x = np.pad(x, [(0, 0), (0, 0), *pad])
    height, width = x.shape[2] - kh + 1, x.shape[3] - kw + 1
    per_group = w.shape[1]
    y = np.zeros((x.shape[0], w.shape[0], height, width))
    outputs = w.shape[0] // step.group
    for g in range(step.group):
        part = x[:, g * per_group : (g + 1) * per_group]
        rows = slice(g * outputs, (g + 1) * outputs)
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                top, left = i * step.dilations[0], j * step.dilations[1]
                window = part[:, :, top : top + height, left : left + width]
                y[:, rows] += np.einsum("oi,nihw->nohw", w[rows, :, i, j], window)
    return y


def evaluate(graph: Graph, x: np.ndarray) -> np.ndarray:
    """Run the steps in float64, freeing values as the GPU does."""
    values = {graph.input: x.astype(np.float64)}
    for step, done in zip(graph.steps, graph.last_uses(), strict=True):
        if step.transposed:
            assert (step.weight.shape[1], set(step.weight.data)) == (1, {1.0})
            assert step.strides == step.weight.shape[2:]
            values[step.y] = values[step.x].repeat(step.strides[0], 2).repeat(step.strides[1], 3)
        else:
            w = np.array(step.weight.data, dtype=np.float64).reshape(step.weight.shape)
            y = convolve(values[step.x], w, step)
            if step.bias is not None:
                y += np.array(step.bias.data)[:, None, None]
            if step.z is not None:
                y += values[step.z]
            values[step.y] = np.maximum(y, 0) if step.activation == "Relu" else y
            assert step.activation in ("", "Relu")
        for name in done:
            del values[name]
    assert list(values) == [graph.output]
    return values[graph.output]


def test_a_convolution_takes_the_add_and_the_activation_behind_it() -> None:
    graph, _ = graph_of(
        [
            image(4),
            conv("c", "in"),
            ("sum", "Add", {}, ["in", "c"]),
            ("act", "Activation", {"activation": "relu"}, ["sum"]),
        ],
        c=(3, 3, 4, 4),
    )
    (step,) = graph.steps
    assert (step.y, step.z, step.activation) == ("act", "in", "Relu")


def test_a_value_that_is_read_twice_is_not_fused_away() -> None:
    graph, _ = graph_of(
        [
            image(2),
            conv("a", "in"),
            ("relu", "ReLU", {}, ["a"]),
            ("sum", "Add", {}, ["a", "relu"]),
        ],
        a=(3, 3, 2, 2),
    )
    assert [step.y for step in graph.steps] == ["a", "relu", "sum"]
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 4))
    a = evaluate(Graph("a", graph.steps[:1], "in", "a", Fraction(1), 1), x)
    np.testing.assert_allclose(evaluate(graph, x), a + np.maximum(a, 0))


def test_two_convolutions_that_are_added_chain() -> None:
    graph, _ = graph_of(
        [image(2), conv("a", "in"), conv("b", "in"), ("sum", "Add", {}, ["a", "b"])],
        a=(3, 3, 2, 5),
        b=(1, 1, 2, 5),
    )
    assert [(s.y, s.z) for s in graph.steps] == [("a", None), ("sum", "a")]


def test_a_convolution_of_joined_tensors_is_a_chain_of_sums() -> None:
    graph, weights = graph_of(
        [
            image(2),
            conv("a", "in"),
            conv("b", "in"),
            ("ab", "Concatenate", {"axis": 3}, ["a", "b"]),
            ("abx", "Concatenate", {"axis": -1}, ["ab", "in"]),
            conv("c", "abx", activation="relu"),
        ],
        a=(1, 1, 2, 3),
        b=(1, 1, 2, 4),
        c=(3, 3, 9, 2),
    )
    parts = graph.steps[2:]
    assert [(p.x, p.z, p.activation) for p in parts] == [
        ("a", None, ""),
        ("b", "c/1", ""),
        ("in", "c/2", "Relu"),
    ]
    x = np.random.default_rng(0).standard_normal((1, 2, 6, 5))
    joined = np.concatenate(
        [
            np.einsum("nihw,io->nohw", x, weights[f"{n}/kernel"][0, 0])
            + weights[f"{n}/bias"][:, None, None]
            for n in "ab"
        ]
        + [x],
        axis=1,
    )
    whole = convolve(joined, weights["c/kernel"].transpose(3, 2, 0, 1), parts[0])
    expected = np.maximum(whole + weights["c/bias"][:, None, None], 0)
    np.testing.assert_allclose(evaluate(graph, x), expected)


def test_the_halo_counts_input_pixels() -> None:
    graph, _ = graph_of(
        [
            image(1),
            conv("a", "in", dilation_rate=[2, 2]),
            ("up", "UpSampling2D", {"size": [2, 2], "interpolation": "nearest"}, ["a"]),
            conv("b", "up"),
        ],
        a=(5, 5, 1, 1),
        b=(3, 3, 1, 1),
    )
    assert graph.scale == 2
    assert graph.halo == 5  # 2 taps of 2 pixels, and half a pixel after the upsampling


def test_tiles_read_around_themselves_give_the_whole_image() -> None:
    graph, _ = graph_of(
        [
            image(1),
            conv("a", "in"),
            ("up", "UpSampling2D", {"size": [2, 2], "interpolation": "nearest"}, ["a"]),
            conv("b", "up"),
        ],
        a=(5, 5, 1, 3),
        b=(3, 3, 3, 1),
    )
    x = np.random.default_rng(0).standard_normal((1, 1, 23, 17))
    whole = evaluate(graph, x)
    pasted = np.full_like(whole, np.nan)
    for t in cut(17, 23, 8, graph.halo):
        part = x[:, :, t.read_top : t.read_top + t.read_height, t.read_left :][..., : t.read_width]
        y = evaluate(graph, part)
        top, left = 2 * (t.top - t.read_top), 2 * (t.left - t.read_left)
        y = y[:, :, top : top + 2 * t.height, left : left + 2 * t.width]
        pasted[:, :, 2 * t.top : 2 * (t.top + t.height), 2 * t.left :][..., : 2 * t.width] = y
    np.testing.assert_allclose(pasted, whole)


def test_tiles_are_nearly_equal() -> None:
    tiles = list(cut(130, 64, 128, 10))
    assert [(t.left, t.width) for t in tiles] == [(0, 65), (65, 65)]
    assert [(t.read_left, t.read_width) for t in tiles] == [(0, 75), (55, 75)]


def test_outside_of_the_picture_its_outermost_pixels_go_on() -> None:
    rgba = np.arange(4 * 3 * 2).astype(np.uint8)
    (tile,) = cut(3, 2, 8, 10, 1)
    assert (tile.read_left, tile.read_width, tile.read_top, tile.read_height) == (-1, 5, -1, 4)
    found = np.array(planes(rgba.tobytes(), 3, 2, tile)).reshape(3, 4, 5)
    picture = rgba.reshape(2, 3, 4)[..., :3].transpose(2, 0, 1)
    np.testing.assert_array_equal(found, np.pad(picture, [(0, 0), (1, 1), (1, 1)], mode="edge"))


def test_a_tile_inside_reads_its_surroundings() -> None:
    rgba = np.random.default_rng(0).integers(0, 256, (20, 30, 4), dtype=np.uint8)
    picture = rgba[..., :3].transpose(2, 0, 1)
    for t in cut(30, 20, 8, 3, 2):
        found = np.array(planes(rgba.tobytes(), 30, 20, t)).reshape(3, t.read_height, t.read_width)
        wide = np.pad(picture, [(0, 0), (2, 2), (2, 2)], mode="edge")
        part = wide[:, t.read_top + 2 :, t.read_left + 2 :][:, : t.read_height, : t.read_width]
        np.testing.assert_array_equal(found, part)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (("d", "Dense", {}, ["in"]), "'d': Dense is not translated"),
        (("a", "Activation", {"activation": "mish"}, ["in"]), "activation 'mish'"),
        (("s", "Add", {}, ["in", "in", "in"]), "adds 3 tensors"),
        (("u", "UpSampling2D", {"size": [2, 2], "interpolation": "bilinear"}, ["in"]), "nearest"),
    ],
)
def test_a_layer_that_is_not_known_is_named(layer: Any, message: str) -> None:
    with pytest.raises(UnsupportedModelError, match=message):
        graph_of([image(), layer])


def test_files_that_are_cut_short_are_refused() -> None:
    text, content = model_files([image(), conv("a", "in")], {"a/kernel": np.ones((1, 1, 3, 2))})
    assert shard_paths(text) == ["a.bin"]
    with pytest.raises(ModelFileError, match="the weights end at 20 bytes, 24 are needed"):
        read_model(text, [content[:20]])
    with pytest.raises(ModelFileError, match=r"not a TensorFlow\.js model"):
        read_model("<html>", [])


def test_weights_are_plain_arrays() -> None:
    text, content = model_files([image(), conv("a", "in")], {"a/kernel": np.ones((1, 1, 3, 2))})
    weight = read_model(text, [content]).weights["a/kernel"]
    assert weight.shape == (1, 1, 3, 2)
    assert weight.data == array("f", [1.0] * 6)
