"""Turns a Keras model into fused convolutions.

Activations are fused into the convolution before them, an Add becomes its residual, and a
Concatenate before a convolution becomes a sum: the kernel is cut along its input channels, and
the parts are chained through the residual. Nearest upsampling is a transposed convolution.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, prod

from .graph import Conv, Graph
from .keras import Layer, Model, Weight

__all__ = ["UnsupportedModelError", "lower", "to_oihw"]

# Keras's activations as FusedConv spells them, with their parameters.
ACTIVATIONS: dict[str, tuple[str, tuple[float, ...]]] = {
    "linear": ("", ()),
    "relu": ("Relu", ()),
    "sigmoid": ("Sigmoid", ()),
    "tanh": ("Tanh", ()),
    "softplus": ("Softplus", ()),
    "gelu": ("Gelu", ()),
    "swish": ("QuickGelu", (1.0,)),
    "hard_sigmoid": ("HardSigmoid", (0.2, 0.5)),
}


class UnsupportedModelError(Exception):
    """The model has a layer, or a use of one, that is not translated."""


@dataclass
class _Value:
    """What a layer's name stands for: one tensor, or several that a Concatenate would join."""

    parts: list[tuple[str, int]]
    scale: Fraction
    radius: Fraction


@dataclass
class _Tail:
    """What is fused behind a convolution: the layer whose value results, and the fused parts."""

    end: Layer
    other: str | None = None
    """The layer whose value the fused Add adds."""
    z: str | None = None
    activation: str = ""
    params: tuple[float, ...] = ()


@dataclass
class _Lowering:
    model: Model
    values: dict[str, _Value] = field(default_factory=dict)
    steps: list[Conv] = field(default_factory=list)
    fused: set[str] = field(default_factory=set)
    consumers: dict[str, list[Layer]] = field(default_factory=dict)
    input: str = ""

    def run(self) -> Graph:
        for layer in self.model.layers:
            for name in layer.inputs:
                self.consumers.setdefault(name, []).append(layer)
        for layer in self.model.layers:
            if layer.name not in self.fused:
                self.lower(layer)
        name, _ = self.single(self.model.output, "the output")
        value = self.values[self.model.output]
        return Graph(
            self.model.name, tuple(self.steps), self.input, name, value.scale, ceil(value.radius)
        )

    def lower(self, layer: Layer) -> None:
        if layer.kind == "InputLayer":
            self.input = layer.name
            channels = layer.config["batch_input_shape"][-1]
            self.values[layer.name] = _Value([(layer.name, channels)], Fraction(1), Fraction(0))
        elif layer.kind == "Conv2D":
            self.convolution(layer)
        elif layer.kind == "Concatenate":
            self.concatenate(layer)
        elif layer.kind == "UpSampling2D":
            self.upsample(layer)
        elif layer.kind in ("Add", "Activation", "ReLU", "LeakyReLU"):
            self.pointwise(layer)
        else:
            raise UnsupportedModelError(f"layer {layer.name!r}: {layer.kind} is not translated")

    def single(self, name: str, user: str) -> tuple[str, int]:
        parts = self.values[name].parts
        if len(parts) != 1:
            raise UnsupportedModelError(f"{name!r} joins tensors, which {user} can't take apart")
        return parts[0]

    def concatenate(self, layer: Layer) -> None:
        if layer.config["axis"] not in (3, -1):
            raise UnsupportedModelError(
                f"layer {layer.name!r} joins along axis {layer.config['axis']}"
            )
        values = [self.values[name] for name in layer.inputs]
        parts = [part for value in values for part in value.parts]
        radius = max(value.radius for value in values)
        self.values[layer.name] = _Value(parts, values[0].scale, radius)

    def upsample(self, layer: Layer) -> None:
        """Nearest: a transposed convolution in which each pixel paints a square of ones."""
        if layer.config["interpolation"] != "nearest":
            raise UnsupportedModelError(
                f"layer {layer.name!r}: only nearest upsampling is translated"
            )
        rows, columns = layer.config["size"]
        if rows != columns:
            raise UnsupportedModelError(f"layer {layer.name!r} scales rows and columns differently")
        source, channels = self.single(layer.inputs[0], "UpSampling2D")
        before = self.values[layer.inputs[0]]
        self.steps.append(
            Conv(
                name=layer.name,
                x=source,
                y=layer.name,
                weight=ones(channels, 1, rows, columns),
                strides=(rows, columns),
                group=channels,
                transposed=True,
            )
        )
        after = _Value([(layer.name, channels)], before.scale * rows, before.radius)
        self.values[layer.name] = after

    def pointwise(self, layer: Layer) -> None:
        """An Add or an activation that no convolution could take: one with a kernel of ones."""
        source, channels = self.single(layer.inputs[0], layer.kind)
        z = None
        radius = self.values[layer.inputs[0]].radius
        if layer.kind == "Add":
            other = self.other_operand(layer, layer.inputs[0])
            z, _ = self.single(other, "Add")
            radius = max(radius, self.values[other].radius)
        activation, params = _activation(layer) if layer.kind != "Add" else ("", ())
        self.steps.append(
            Conv(
                layer.name,
                source,
                layer.name,
                ones(channels, 1, 1, 1),
                None,
                z,
                activation,
                params,
                group=channels,
            )
        )
        scale = self.values[layer.inputs[0]].scale
        self.values[layer.name] = _Value([(layer.name, channels)], scale, radius)

    def convolution(self, layer: Layer) -> None:
        config = layer.config
        if config["data_format"] != "channels_last":
            raise UnsupportedModelError(f"layer {layer.name!r} is not channels_last")
        kernel = self.model.weights[f"{layer.name}/kernel"]
        bias = self.model.weights[f"{layer.name}/bias"] if config["use_bias"] else None
        before = self.values[layer.inputs[0]]
        height, width, _, filters = kernel.shape
        tail = self.tail(layer)
        self.emit(layer, tail, before, kernel, bias)
        rows, columns = config["dilation_rate"]
        reach = max(height // 2 * rows, width // 2 * columns)
        radius = before.radius + reach / before.scale
        if tail.other is not None:
            radius = max(radius, self.values[tail.other].radius)
        after = _Value([(tail.end.name, filters)], before.scale / config["strides"][0], radius)
        self.values[tail.end.name] = after

    def emit(
        self, layer: Layer, tail: _Tail, before: _Value, kernel: Weight, bias: Weight | None
    ) -> None:
        config = layer.config
        group = config.get("groups", 1)
        if len(before.parts) > 1 and group != 1:
            raise UnsupportedModelError(f"layer {layer.name!r} groups joined tensors")
        z, start = tail.z, 0
        for i, (source, channels) in enumerate(before.parts):
            first, last = i == 0, i == len(before.parts) - 1
            y = tail.end.name if last else f"{layer.name}/{i + 1}"
            stop = start + channels // group
            self.steps.append(
                Conv(
                    name=layer.name if first and last else f"{layer.name} part {i + 1}",
                    x=source,
                    y=y,
                    weight=to_oihw(kernel, start, stop),
                    bias=bias if first else None,
                    z=z,
                    activation=tail.activation if last else "",
                    activation_params=tail.params if last else (),
                    strides=tuple(config["strides"]),
                    dilations=tuple(config["dilation_rate"]),
                    group=group,
                    auto_pad={"same": "SAME_UPPER", "valid": "VALID"}[config["padding"]],
                )
            )
            z, start = y, stop

    def tail(self, layer: Layer) -> _Tail:
        """Follow the only consumer as long as it can be fused: one Add, then one activation."""
        tail = _Tail(layer)
        tail.activation, tail.params = _activation(layer)
        while not tail.activation and tail.end.name != self.model.output:
            consumers = self.consumers.get(tail.end.name, [])
            if len(consumers) != 1:
                break
            follower = consumers[0]
            if follower.kind == "Add" and tail.z is None:
                other = self.other_operand(follower, tail.end.name)
                if other not in self.values:
                    break
                tail.other, tail.z = other, self.single(other, "Add")[0]
            elif follower.kind in ("Activation", "ReLU", "LeakyReLU"):
                tail.activation, tail.params = _activation(follower)
            else:
                break
            tail.end = follower
            self.fused.add(follower.name)
        return tail

    @staticmethod
    def other_operand(add: Layer, name: str) -> str:
        if len(add.inputs) != 2:
            raise UnsupportedModelError(
                f"layer {add.name!r} adds {len(add.inputs)} tensors, not two"
            )
        return add.inputs[1] if add.inputs[0] == name else add.inputs[0]


def lower(model: Model) -> Graph:
    """Translate a model; `UnsupportedModelError` names the layer that can't be."""
    return _Lowering(model).run()


def to_oihw(kernel: Weight, start: int, stop: int) -> Weight:
    """Input channels start to stop of an HWIO kernel, as OIHW."""
    height, width, inputs, outputs = kernel.shape
    step = inputs * outputs
    values = array("f")
    for o in range(outputs):
        for i in range(start, stop):
            values.extend(kernel.data[i * outputs + o :: step])
    return Weight((outputs, stop - start, height, width), values)


def ones(*shape: int) -> Weight:
    return Weight(shape, array("f", [1.0]) * prod(shape))


def _activation(layer: Layer) -> tuple[str, tuple[float, ...]]:
    if layer.kind == "ReLU":
        if layer.config.get("max_value") or layer.config.get("threshold"):
            raise UnsupportedModelError(f"layer {layer.name!r} is a ReLU with bounds")
        return "Relu", ()
    if layer.kind == "LeakyReLU":
        return "LeakyRelu", (float(layer.config["alpha"]),)
    name = layer.config.get("activation", "linear")
    if name not in ACTIVATIONS:
        raise UnsupportedModelError(f"layer {layer.name!r}: activation {name!r} is not translated")
    return ACTIVATIONS[name]
