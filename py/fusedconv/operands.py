"""What callers pass as arrays, told apart and made ready for upload.

Accepted are NumPy arrays, `HostTensor`, buffers with a shape, JS typed arrays with a shape, and
`GpuTensor`. Everything else is refused with what to write instead.
"""

from __future__ import annotations

import array as arrays
import math
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .errors import RequestError
from .plan import DTYPE_BYTES
from .request import as_shape, dtype_name
from .tensor import GpuTensor, HostTensor

__all__ = ["HostOperand", "Operand", "Source", "common_dtype", "source_of"]

Shape = tuple[int, ...]
# struct's format letters, less byte order.
_FORMATS = {
    "e": "float16", "f": "float32", "d": "float64", "?": "bool", "b": "int8", "B": "uint8",
    "h": "int16", "H": "uint16", "i": "int32", "I": "uint32", "l": "int", "L": "uint",
    "q": "int64", "Q": "uint64", "n": "int", "N": "uint",
}  # fmt: skip
_CASTABLE = {*_FORMATS.values(), "longdouble", "float128"} - {"bool"}


@dataclass(frozen=True)
class HostOperand:
    """An operand in memory: contiguous bytes (or a JS typed array) in the request's dtype."""

    shape: Shape
    dtype: str
    data: Any

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * DTYPE_BYTES[self.dtype]

    def snapshot(self) -> HostOperand:
        """A copy that a later change of the caller's array does not reach."""
        if hasattr(self.data, "BYTES_PER_ELEMENT"):
            return HostOperand(self.shape, self.dtype, _js_bytes(self.data))
        return HostOperand(self.shape, self.dtype, bytes(memoryview(self.data)))


Operand = GpuTensor | HostOperand


class Source:
    """An array as it was given: its shape, the name of its dtype, and how to get its bytes."""

    def __init__(self, name: str, shape: Shape, dtype: str) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype

    @property
    def usable(self) -> bool:
        """Whether the dtype is one that runs."""
        return self.dtype in DTYPE_BYTES

    def ready(self, dtype: str, cast: bool) -> Operand:
        """The operand in `dtype`; a conversion only with `cast`. Raises `RequestError`."""
        if self.dtype == dtype:
            return self.operand()
        if not cast or self.dtype not in _CASTABLE:
            raise self.refusal(dtype)
        return HostOperand(self.shape, dtype, self.converted(dtype))

    def refusal(self, dtype: str) -> RequestError:
        if self.usable:
            remedy = f"{dtype} as the other operands have: {self.remedy(dtype)}"
        else:
            remedy = f"float32 or float16: {self.remedy('float32')}"
        return RequestError(self.name, f"dtype {self.dtype}", remedy)

    def remedy(self, dtype: str) -> str:
        note = ", or cast=True" if self.dtype in _CASTABLE else ""
        return f"{self.name}.astype(np.{dtype}){note}"

    def operand(self) -> Operand:
        raise NotImplementedError

    def converted(self, dtype: str) -> Any:
        raise NotImplementedError


class _Resident(Source):
    def __init__(self, name: str, tensor: GpuTensor) -> None:
        super().__init__(name, tensor.shape, tensor.dtype)
        self.tensor = tensor

    def operand(self) -> GpuTensor:
        return self.tensor

    def ready(self, dtype: str, cast: bool) -> GpuTensor:
        if self.dtype != dtype:
            raise RequestError(
                self.name, f"a GpuTensor of {self.dtype}", f"{dtype} as the other operands have"
            )
        return self.tensor


class _Numpy(Source):
    def __init__(self, name: str, array: Any) -> None:
        super().__init__(name, array.shape, array.dtype.name)
        self.array = array

    def operand(self) -> HostOperand:
        return HostOperand(self.shape, self.dtype, self.converted(self.dtype))

    def converted(self, dtype: str) -> Any:
        import numpy as np

        with np.errstate(over="ignore"):
            return np.ascontiguousarray(self.array, dtype=dtype).reshape(-1).view(np.uint8)


class _Buffer(Source):
    """Any buffer. `H` and `B` elements are the bits of floats where the sizes say so."""

    def __init__(self, name: str, view: memoryview, shape: Shape | None, dtype: str | None) -> None:
        order, letter = _split_format(view.format)
        super().__init__(name, view.shape or () if shape is None else shape, _FORMATS[letter])
        self.view = view
        self.letter = letter
        self.swapped = order in (">", "!") and view.itemsize > 1 and sys.byteorder == "little"
        count = math.prod(self.shape)
        if shape is not None and letter in "BbH":
            self.dtype = dtype or self._bits(count)
            self.letter = {"float16": "e", "float32": "f"}.get(self.dtype, letter)
        if dtype is not None and self.dtype != dtype:
            raise RequestError(name, f"a buffer of {self.dtype}", f"{dtype} as its third item says")
        width = DTYPE_BYTES.get(self.dtype, view.itemsize)
        if count * width != view.nbytes:
            raise RequestError(
                name, f"a buffer of {view.nbytes} bytes", f"{count * width} for shape {self.shape}"
            )

    def _bits(self, count: int) -> str:
        if self.view.nbytes == 2 * count and (count or self.letter == "H"):
            return "float16"
        return "float32" if self.letter in "Bb" else self.dtype

    def remedy(self, dtype: str) -> str:
        code = "array.array('f', ...)" if dtype == "float32" else "a buffer of format 'e'"
        return f"{code}{', or cast=True' if self.dtype in _CASTABLE else ''}"

    def operand(self) -> HostOperand:
        return HostOperand(self.shape, self.dtype, self.contiguous())

    def contiguous(self) -> memoryview:
        if self.swapped:
            swapped = bytearray(self.view.tobytes())
            width = self.view.itemsize
            for i in range(width // 2):
                swapped[i::width], swapped[width - 1 - i :: width] = (
                    swapped[width - 1 - i :: width],
                    swapped[i::width],
                )
            return memoryview(swapped)
        if self.view.c_contiguous and self.view.nbytes:
            return self.view.cast("B")
        return memoryview(self.view.tobytes())

    def converted(self, dtype: str) -> Any:
        values = struct.unpack(f"={math.prod(self.shape)}{self.letter}", self.contiguous())
        return _packed(values, dtype, self.name)


class _Typed(Source):
    """A JS typed array. A Uint16Array holds the bits of halves: Pyodide has no Float16Array yet."""

    NAMES: ClassVar[Mapping[str, str]] = {
        "Float32Array": "float32", "Float16Array": "float16", "Uint16Array": "float16",
        "Float64Array": "float64", "Int8Array": "int8", "Uint8Array": "uint8",
        "Uint8ClampedArray": "uint8", "Int16Array": "int16", "Int32Array": "int32",
        "Uint32Array": "uint32",
    }  # fmt: skip
    LETTERS: ClassVar[Mapping[str, str]] = {
        "Float32Array": "f", "Float16Array": "e", "Uint16Array": "e", "Float64Array": "d",
        "Int8Array": "b", "Uint8Array": "B", "Uint8ClampedArray": "B", "Int16Array": "h",
        "Int32Array": "i", "Uint32Array": "I",
    }  # fmt: skip

    def __init__(self, name: str, typed: Any, shape: Shape | None, dtype: str | None) -> None:
        self.kind = str(typed.constructor.name)
        length = int(typed.length)
        super().__init__(
            name, (length,) if shape is None else shape, self.NAMES.get(self.kind, self.kind)
        )
        self.typed = typed
        if dtype is not None and self.dtype != dtype:
            raise RequestError(name, f"a {self.kind}", f"{dtype} as its third item says")
        if math.prod(self.shape) != length:
            raise RequestError(
                name, f"a {self.kind} of {length} elements",
                f"{math.prod(self.shape)} for shape {self.shape}",
            )  # fmt: skip

    def remedy(self, dtype: str) -> str:
        kind = "Float32Array" if dtype == "float32" else "Float16Array"
        return f"{kind}.from(...){', or cast=True' if self.dtype in _CASTABLE else ''}"

    def operand(self) -> HostOperand:
        return HostOperand(self.shape, self.dtype, self.typed)

    def converted(self, dtype: str) -> Any:
        values = memoryview(_js_bytes(self.typed)).cast(self.LETTERS[self.kind])  # type: ignore[call-overload]
        return _packed(values.tolist(), dtype, self.name)


def _js_bytes(typed: Any) -> bytes:
    start = int(typed.byteOffset)
    return bytes(typed.buffer.slice(start, start + int(typed.byteLength)).to_bytes())


def _packed(values: Any, dtype: str, name: str) -> memoryview:
    """Python numbers as the bytes of a dtype."""
    try:
        if dtype == "float32":
            return memoryview(arrays.array("f", values)).cast("B")
        return memoryview(struct.pack(f"={len(values)}e", *values))
    except OverflowError:
        raise RequestError(name, "a value too large", f"numbers within {dtype}'s range") from None


def _split_format(text: str) -> tuple[str, str]:
    order, letter = (text[0], text[1:]) if text[:1] in "@=<>!" else ("@", text)
    return order, letter


def source_of(name: str, value: Any) -> Source:
    """Tell what an argument is. Raises `RequestError` naming it, with what to write instead."""
    if isinstance(value, GpuTensor):
        if value.freed:
            raise RequestError(name, f"a freed {value!r}", "a tensor that is not freed")
        return _Resident(name, value)
    if isinstance(value, HostTensor):
        return _Buffer(name, value.raw, value.shape, value.dtype)
    if isinstance(value, tuple):
        return _with_shape(name, value)
    return _bare(name, value, None, None)


def _with_shape(name: str, value: tuple[Any, ...]) -> Source:
    if len(value) not in (2, 3) or isinstance(value[0], (int, float, tuple, list)):
        raise _refused(name, "a tuple")
    shape = as_shape(value[1], f"{name}[1]")
    dtype = dtype_name(value[2], f"{name}[2]") if len(value) == 3 else None
    if _is_numpy(value[0]):
        given = _bare(name, value[0], None, dtype)
        if given.shape != shape:
            raise RequestError(name, f"an ndarray of shape {given.shape} with shape {shape}",
                               "the ndarray alone")  # fmt: skip
        return given
    return _bare(name, value[0], shape, dtype)


def _bare(name: str, value: Any, shape: Shape | None, dtype: str | None) -> Source:
    if _is_numpy(value):
        return _from_numpy(name, value)
    if hasattr(value, "BYTES_PER_ELEMENT"):
        return _Typed(name, value, shape, dtype)
    if value is None or isinstance(value, (list, int, float, complex, str)):
        raise _refused(name, "None" if value is None else f"a {type(value).__name__}")
    try:
        view = memoryview(value)
    except TypeError:
        raise _refused(name, f"a {type(value).__name__}") from None
    if _split_format(view.format)[1] not in _FORMATS:
        raise RequestError(name, f"a buffer of format {view.format!r}", "float32 or float16")
    return _Buffer(name, view, shape, dtype)


def _is_numpy(value: Any) -> bool:
    np = sys.modules.get("numpy")
    return np is not None and isinstance(value, (np.ndarray, np.generic))


def _from_numpy(name: str, value: Any) -> Source:
    import numpy as np

    if isinstance(value, np.generic):
        raise _refused(name, f"a NumPy scalar ({value.dtype.name})")
    masked = sys.modules.get("numpy.ma")  # np.ma would import it
    if masked is not None and isinstance(value, masked.MaskedArray):
        raise RequestError(name, "a masked array", f"{name}.filled(value)")
    if value.dtype.kind not in "fiub":
        raise RequestError(
            name, f"dtype {value.dtype.name}", f"float32 or float16: {name}.astype(np.float32)"
        )
    return _Numpy(name, np.asarray(value))


def _refused(name: str, got: str) -> RequestError:
    return RequestError(
        name,
        got,
        "an ndarray (np.asarray(..., dtype=np.float32)), a GpuTensor, a HostTensor, or "
        "(buffer or JS typed array, shape)",
    )


def common_dtype(sources: Mapping[str, Source], cast: bool) -> str:
    """The dtype that the operands share: the first one's that runs, float32 where none does."""
    usable = [source for source in sources.values() if source.usable]
    resident = [source for source in usable if isinstance(source, _Resident)]
    if not usable:
        return "float32"
    return (resident or usable)[0].dtype if cast else usable[0].dtype
