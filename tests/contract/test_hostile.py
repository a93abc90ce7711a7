"""Whatever is given for an argument, it is taken or refused in words, by name and at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fusedconv
from fusedconv import Capabilities, FusedConvError, RequestError, UnsupportedError
from fusedconv.capabilities import DEFAULT_LIMITS
from fusedconv.devices import DEVICES
from fusedconv.operator import builtin

from .test_hazards import over_the_limits

NAN, INF = float("nan"), float("inf")
ITSELF: list[Any] = []
ITSELF.append(ITSELF)

VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 2**31, 2**32, 2**64, 10**30, -(10**30), 10**400, 0.0, 1.5, NAN, INF,
    -INF, 1j, "", "1", "11", "Relu", "SAME_UPPER", "\ud800", "x" * 10**6, b"", b"\xff", b"Relu",
    bytearray(b"ab"), memoryview(b"ab"), [], [0], [1], [1, 1], (1, 1, 1, 1), [NAN, NAN], [INF] * 2,
    [2**31, 1], [10**9] * 2, [10**400] * 2, [2**70] * 4, ["1", "1"], [None] * 2, [True, True], [[1], [1]],
    ITSELF, {}, {"a": 1}, {1: 2, "a": 1}, {1, 2}, np.array(1), np.array([1, 1]), np.ones(2), np.ones((2, 2)),
    np.int64(2), np.float32(2), np.bool_(True), np.array([]), np.array(["a", "b"]), np.datetime64("2020-01-01"),
    object(), int, Decimal(2), Fraction(2), range(2), Ellipsis, lambda: 1,
]  # fmt: skip
ARGUMENTS = (
    "activation", "activation_params", "auto_pad", "bias", "device", "dilations", "dtype",
    "extensions", "group", "kernel_shape", "output_padding", "output_shape", "pads", "strides",
    "transposed", "tunables", "variant", "w_shape", "x_shape", "z",
)  # fmt: skip
# The shapes are told of as the operands that they are of; a result may be what is too large.
CALLED = {"w_shape": "w", "x_shape": "x"}
BASE: dict[str, Any] = {"x_shape": (1, 4, 8, 8), "w_shape": (4, 4, 3, 3)}


def fault(call: Callable[[], object], named: str) -> str:
    """What is wrong with how a call fails."""
    start = time.perf_counter()
    try:
        call()
    except RequestError as error:
        if len(str(error)) > 600:
            return f"{len(str(error))} letters"
        about = error.argument.partition("[")[0].partition(".")[0]
        if about not in (named, "y", "pads", "w", "activation_params"):
            return f"blames {error.argument}"
    except FusedConvError:
        pass
    except Exception as error:
        return repr(error)
    return "slow" if time.perf_counter() - start > 2 else ""


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("function", [fusedconv.plan, fusedconv.explain])
def test_any_value(function: Callable[..., object], argument: str) -> None:
    found = []
    for transposed in (False, True):
        for value in VALUES:
            given = {**BASE, "transposed": transposed, argument: value}
            if argument == "activation_params":
                given["activation"] = "Clip"
            what = fault(lambda given=given: function(**given), CALLED.get(argument, argument))
            if what and not (argument.startswith("output_") and not transposed):
                found.append(f"{str(value)[:60]}: {what}")
    assert not found


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"strides": iter([1, 1])}, "strides"),
        ({"x_shape": (n for n in (1, 4, 8, 8))}, "x"),
        ({"dilations": {1, 2}}, "dilations"),
        ({"pads": b"\1\1\1\1"}, "pads"),
        ({"strides": 2**31}, "strides"),
        ({"activation": "Clip", "activation_params": [True, True]}, "activation_params"),
        ({"activation": "Elu", "activation_params": [1e39]}, "activation_params"),
        ({"variant": ""}, "variant"),
        ({"variant": ["direct_nd"]}, "variant"),
        ({"device": True}, "device"),
        ({"extensions": np.ones(2)}, "extensions"),
        ({"tunables": [1]}, "tunables"),
        ({"tunables": {"WORKGROUP_SIZE": NAN}}, "tunables['WORKGROUP_SIZE']"),
        ({"transposed": None}, "transposed"),
        ({"x_shape": (0, 4, 2**31, 2**31)}, "x"),
    ],
)
def test_refused(change: dict[str, Any], argument: str) -> None:
    with pytest.raises(RequestError) as caught:
        fusedconv.plan(**{**BASE, **change})
    assert caught.value.argument == argument


def within(x: Any, w: Any, **arguments: Any) -> None:
    plan = fusedconv.plan(x, w, **arguments)
    assert not over_the_limits(plan, DEFAULT_LIMITS), plan.variant


TUNABLES = [0, -1, 1, 3, 1.5, 7, 64, 1024, 4096, 2**20, 2**31, 2**32 - 1, 10**30, -INF]


@pytest.mark.parametrize("transposed", [False, True])
def test_tunables(transposed: bool) -> None:
    """Whatever they are, a plan that a device refuses is none."""
    name = ("fusedconv", "convtranspose")[transposed]
    manifest = builtin(name).manifest
    names = set(manifest.tunables).union(*(v.tunables for v in manifest.variants))
    found = []
    for x, w in (((1, 16, 40, 40), (16, 16, 3, 3)), ((1, 8, 300), (8, 8, 3))):
        for tunable in sorted(names):
            for value in TUNABLES:
                arguments = {"transposed": transposed, "tunables": {tunable: value}}
                what = fault(lambda a=arguments, x=x, w=w: fusedconv.plan(x, w, **a), "tunables")
                if what:
                    found.append(f"{x} {tunable}={value}: {what}")
    assert not found, "\n".join(found[:9])


def test_host_tensors_and_operators() -> None:
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: fusedconv.HostTensor(None, (1,)), "data"),
        (lambda: fusedconv.HostTensor([1.0], (1,)), "data"),
        (lambda: fusedconv.HostTensor(bytes(4), None), "shape"),
        (lambda: fusedconv.HostTensor(bytes(4), (-1,)), "shape"),
        (lambda: fusedconv.HostTensor(bytes(4), (1,), "int8"), "dtype"),
        (lambda: fusedconv.profile("x"), "on_record"),
        (lambda: fusedconv.profile(repeat=NAN), "repeat"),
        (lambda: fusedconv.tunings.load(5), "source"),
        (lambda: fusedconv.tunings.load("{}"), "source"),
        (lambda: Capabilities(features=5), "features"),
        (lambda: Capabilities(features=[5]), "features"),
        (lambda: Capabilities(limits=[1]), "limits"),
        (lambda: Capabilities(limits={"maxBufferSize": -1}), "limits"),
        (lambda: Capabilities(limits={5: 6}), "limits"),
        (lambda: Capabilities(adapter_info=[1]), "adapter_info"),
        (lambda: Capabilities(subgroup_matrix_configs=[5]), "subgroup_matrix_configs"),
        (lambda: Capabilities.from_json(None), "device"),
        (lambda: Capabilities.from_json('{"limits": 5}'), "limits"),
        *(
            (lambda value=value: fusedconv.load_operator(value), "manifest")
            for value in VALUES[:60]
        ),
    ]
    found = [(i, what) for i, (call, named) in enumerate(calls) if (what := fault(call, named))]
    assert not found


@pytest.mark.parametrize(
    ("x", "w", "arguments"),
    [
        ((1, 1048576, 2), (1048576, 7, 7), {"transposed": True}),
        ((16, 1048576, 2, 1, 9), (1048576, 4, 3, 16, 4), {"transposed": True, "z": True}),
        ((2, 9, 1), (9, 7, 16777216), {"transposed": True, "pads": [16, 256]}),
        ((1, 1, 3), (16777216, 1, 1), {"auto_pad": "SAME_UPPER"}),
        ((65536, 5, 16), (5, 3, 8), {"transposed": True, "output_shape": [3]}),
        ((1, 4, 3), (5, 4, 3), {"auto_pad": "SAME_LOWER", "dilations": 2**31 - 1}),
        ((1, 4, 3), (4, 5, 3), {"transposed": True, "strides": 2**31 - 1, "output_shape": 1}),
    ],
)
def test_what_would_never_end(x: Any, w: Any, arguments: dict[str, Any]) -> None:
    """Parts without number, kernels that reach past what is counted."""
    start = time.perf_counter()
    with pytest.raises((UnsupportedError, RequestError)):
        fusedconv.plan(x, w, **arguments, device=DEVICES["tiny"])
    assert time.perf_counter() - start < 5


def test_far_taps_have_a_kernel() -> None:
    """However far a transposed kernel reaches, its text stays short."""
    plan = fusedconv.plan((1, 5, 8), (5, 4, 9), transposed=True, dilations=65535)
    assert plan.variant == "convtranspose_gather"
    for dilation in (1, 20, 31, 100, 3000):
        plan = fusedconv.plan((1, 5, 8), (5, 4, 9), transposed=True, dilations=dilation)
        assert sum(len(item.wgsl) for item in plan.passes) < 100_000
