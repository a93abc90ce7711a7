"""What counts as an array: told apart, refused with the remedy, and made into bytes for upload."""

from __future__ import annotations

import array
import struct
from typing import Any

import numpy as np
import pytest

from fusedconv import HostTensor, RequestError
from fusedconv.operands import HostOperand, common_dtype, source_of


def contents(value: Any, dtype: str = "float32", cast: bool = False) -> np.ndarray[Any, Any]:
    operand = source_of("x", value).ready(dtype, cast)
    assert isinstance(operand, HostOperand)
    raw = bytes(memoryview(operand.data))
    assert len(raw) == operand.nbytes
    assert raw == bytes(memoryview(operand.snapshot().data))
    return np.frombuffer(raw, operand.dtype).reshape(operand.shape)


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
VIEWS = {
    "plain": X,
    "fortran": np.asfortranarray(X),
    "reversed": X[::-1, :, ::-1],
    "strided": X[:, ::2, 1::2],
    "transposed": X.transpose(2, 0, 1),
    "broadcast": np.broadcast_to(X[:, :1, :1], X.shape),
    "big-endian": X.astype(">f4"),
    "big-endian, transposed": X.astype(">f4").T,
    "read-only": np.frombuffer(X.tobytes(), np.float32).reshape(X.shape),
    "empty": X[:, :0],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_any_numpy_view(view: np.ndarray[Any, Any], dtype: str) -> None:
    given = view if dtype == "float32" else view.astype(view.dtype.str.replace("f4", "f2"))
    result = contents(given, dtype)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.asarray(view))


BUFFERS = {
    "array.array": (array.array("f", range(6)), (2, 3)),
    "memoryview": (memoryview(array.array("f", range(6))), [2, 3]),
    "memoryview with its shape": memoryview(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "strided memoryview": memoryview(np.arange(0, 6, 0.5, np.float32).reshape(2, 6)[:, ::2]),
    "reversed memoryview": (memoryview(array.array("f", range(5, -1, -1)))[::-1], (2, 3)),
    "bytes": (struct.pack("=6f", *range(6)), (2, 3)),
    "bytes and a dtype": (struct.pack("=6f", *range(6)), (2, 3), "float32"),
    "bytearray": (bytearray(struct.pack("=6f", *range(6))), np.array([2, 3])),
    "big-endian buffer": memoryview(np.arange(6, dtype=">f4").reshape(2, 3)),
    "host tensor": HostTensor(array.array("f", range(6)), (2, 3)),
    "array with its own shape": (np.arange(6, dtype=np.float32).reshape(2, 3), (2, 3)),
}


@pytest.mark.parametrize("value", BUFFERS.values(), ids=BUFFERS.keys())
def test_buffers_with_a_shape(value: Any) -> None:
    np.testing.assert_array_equal(contents(value), np.arange(6).reshape(2, 3))


HALVES = struct.pack("=5e", *range(5))


@pytest.mark.parametrize(
    "value",
    [
        (HALVES, (1, 5)),
        (HALVES, (1, 5), "float16"),
        (array.array("H", HALVES), (1, 5)),
        (memoryview(np.arange(5, dtype=np.float16)), (1, 5)),
        HostTensor(HALVES, (1, 5)),
        memoryview(np.arange(5, dtype=">f2").reshape(1, 5)),
    ],
    ids=["bytes", "bytes and a dtype", "uint16", "format e", "host tensor", "big-endian"],
)
def test_halves_in_buffers(value: Any) -> None:
    np.testing.assert_array_equal(contents(value, "float16"), np.arange(5).reshape(1, 5))


REFUSED = {
    "float64": (np.zeros((1, 2)), "dtype float64", "x.astype(np.float32), or cast=True"),
    "int64": (np.zeros((1, 2), int), "dtype int64", "x.astype(np.float32), or cast=True"),
    "bool": (np.zeros((1, 2), bool), "dtype bool", "x.astype(np.float32)"),
    "complex": (np.zeros((1, 2), complex), "dtype complex128", "x.astype(np.float32)"),
    "object": (np.zeros((1, 2), object), "dtype object", "x.astype(np.float32)"),
    "text": (np.zeros((1, 2), "U3"), "dtype str", "x.astype(np.float32)"),
    "list": ([[1.0, 2.0]], "a list", "np.asarray(..., dtype=np.float32)"),
    "int": (3, "a int", "np.asarray(..., dtype=np.float32)"),
    "none": (None, "None", "np.asarray(..., dtype=np.float32)"),
    "str": ("abc", "a str", "np.asarray(..., dtype=np.float32)"),
    "tuple": ((1.0, 2.0), "a tuple", "(buffer or JS typed array, shape)"),
    "generator": ((i for i in range(3)), "a generator", "np.asarray(..., dtype=np.float32)"),
    "numpy scalar": (np.float32(3), "a NumPy scalar (float32)", "np.asarray"),
    "masked": (np.ma.masked_array(X, X > 3), "a masked array", "x.filled(value)"),
    "doubles in a buffer": ((array.array("d", [1, 2]), (2,)), "dtype float64", "array.array('f'"),
    "ints in a buffer": ((array.array("i", [1, 2]), (2,)), "dtype int32", "cast=True"),
    "too few": ((array.array("f", [1, 2]), (3,)), "a buffer of 8 bytes", "12 for shape (3,)"),
    "odd bytes": ((b"abc", (1, 2)), "a buffer of 3 bytes", "8 for shape (1, 2)"),
    "another shape": ((X, (24,)), "an ndarray of shape (2, 3, 4)", "the ndarray alone"),
    "another dtype": ((array.array("f", [1]), (1,), "float16"), "a buffer of float32", "float16"),
    "wrong dtype": ((b"", (0,), "int8"), "int8", "float32 or float16"),
    "wrong shape": ((b"", (-1,)), "shape (-1,)", "sizes of 0 or more"),
    "unshaped shape": ((b"", "ab"), "'ab'", "a sequence of sizes"),
}


@pytest.mark.parametrize(("value", "got", "remedy"), REFUSED.values(), ids=REFUSED.keys())
def test_everything_else_is_refused_with_the_remedy(value: Any, got: str, remedy: str) -> None:
    with pytest.raises(RequestError) as raised:
        source_of("x", value).ready("float32", cast=False)
    assert raised.value.argument.startswith("x")
    assert got in str(raised.value.got)
    assert remedy in str(raised.value)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "value",
    [
        np.arange(6.0).reshape(2, 3),
        np.arange(6).reshape(2, 3),
        np.arange(6, dtype=">u2").reshape(3, 2).T.copy().T.reshape(2, 3),
        np.arange(6, dtype=np.float16).reshape(2, 3),
        (array.array("d", range(6)), (2, 3)),
        (array.array("i", range(6)), (2, 3)),
        (array.array("f", range(6)), (2, 3)),
        HostTensor(struct.pack("=6e", *range(6)), (2, 3)),
    ],
    ids=["f64", "int", "u16be", "f16", "buffer d", "buffer i", "buffer f", "host f16"],
)
def test_cast_converts_floats_and_integers(value: Any, dtype: str) -> None:
    np.testing.assert_array_equal(contents(value, dtype, cast=True), np.arange(6).reshape(2, 3))


@pytest.mark.parametrize("value", [np.zeros(2, bool), np.zeros(2, complex), np.zeros(2, object)])
def test_cast_leaves_what_is_no_number(value: Any) -> None:
    with pytest.raises(RequestError, match="astype"):
        source_of("x", value).ready("float32", cast=True)


def test_cast_beyond_the_range() -> None:
    assert contents(np.array([1e300, -1e300]), cast=True).tolist() == [np.inf, -np.inf]
    with pytest.raises(RequestError, match="within float16's range"):
        source_of("x", (array.array("f", [1e6]), (1,))).ready("float16", cast=True)


def test_dtypes_must_agree() -> None:
    sources = {"x": source_of("x", X), "w": source_of("w", X.astype(np.float16))}
    dtype = common_dtype(sources, cast=False)
    assert dtype == "float32"
    with pytest.raises(RequestError, match="float32 as the other operands have") as raised:
        sources["w"].ready(dtype, cast=False)
    assert raised.value.argument == "w"


def test_cast_goes_to_the_first_dtype_that_runs() -> None:
    wide, half = source_of("x", X.astype(float)), source_of("w", X.astype(np.float16))
    assert common_dtype({"x": wide, "w": half}, cast=True) == "float16"
    assert common_dtype({"x": wide}, cast=True) == "float32"
    assert contents(X.astype(float), "float16", cast=True).dtype == np.float16


def test_host_tensor_without_numpy() -> None:
    t = HostTensor(array.array("f", range(6)), (1, 2, 3))
    assert (t.shape, t.dtype, t.nbytes, t.ndim, t.size) == ((1, 2, 3), "float32", 24, 3, 6)
    assert t.tolist() == [[[0, 1, 2], [3, 4, 5]]]
    assert t.data.shape == (1, 2, 3)
    assert np.asarray(t).dtype == np.float32
    assert np.asarray(t, dtype=np.float64).tolist() == t.tolist()
    assert HostTensor(b"", (0, 3)).tolist() == []
    assert HostTensor(bytes(4), ()).size == 1
    with pytest.raises(RequestError, match="5 bytes"):
        HostTensor(bytes(5), (1, 2))
