"""Tensors: on the GPU, and on the host without NumPy."""

from __future__ import annotations

import importlib.util
import math
import struct
import sys
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from .errors import RequestError
from .plan import DTYPE_BYTES
from .request import as_shape, check_elements, dtype_name, items, whole

if TYPE_CHECKING:
    import numpy as np

__all__ = ["GpuTensor", "HostTensor"]

_FORMATS = {"float32": "f", "float16": "e"}


class HostTensor:
    """A float32 or float16 array in memory, for pages without NumPy.

    It exports the buffer protocol (`memoryview(t)`, `np.asarray(t)`), and is accepted wherever an
    array is.
    """

    def __init__(self, data: Any, shape: Sequence[int], dtype: str | None = None) -> None:
        """Wrap a contiguous buffer; without a `dtype`, its size says float32 or float16."""
        self.shape = as_shape(shape, "shape")
        try:
            self._bytes = memoryview(data).cast("B")
        except TypeError:
            raise RequestError("data", f"a {type(data).__name__}", "a contiguous buffer") from None
        self.dtype = dtype_name(dtype) if dtype is not None else self._guess()
        if self._bytes.nbytes != self.nbytes:
            raise RequestError(
                "data",
                f"{self._bytes.nbytes} bytes",
                f"{self.nbytes} for shape {self.shape} {self.dtype}",
            )

    def _guess(self) -> str:
        half = self._bytes.nbytes == 2 * self.size and self.size > 0
        return "float16" if half else "float32"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * DTYPE_BYTES[self.dtype]

    @property
    def raw(self) -> memoryview:
        """The bytes."""
        return self._bytes

    @property
    def data(self) -> memoryview:
        """The elements, shaped; flat where there are none, since a memoryview can't be both.

        Before Python 3.12 a memoryview has no halves: there it is their bits as `H`.
        """
        shape = [self.shape] if self.size else []
        try:
            return self._bytes.cast(_FORMATS[self.dtype], *shape)  # type: ignore[call-overload,no-any-return]
        except ValueError:
            return self._bytes.cast("H", *shape)

    def __buffer__(self, flags: int, /) -> memoryview:
        return self.data

    def tolist(self) -> list[Any]:
        """Nested lists of floats."""
        flat = list(struct.unpack(f"={self.size}{_FORMATS[self.dtype]}", self._bytes))
        for axis in reversed(range(1, self.ndim)):
            count = math.prod(self.shape[:axis])
            step = self.shape[axis]
            flat = [flat[i * step : (i + 1) * step] for i in range(count)]
        return flat

    def numpy(self) -> np.ndarray[Any, Any]:
        """An ndarray on the same memory."""
        import numpy as np

        return np.frombuffer(self._bytes, dtype=self.dtype).reshape(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __repr__(self) -> str:
        return f"HostTensor(shape={self.shape}, dtype={self.dtype})"


class GpuTensor:
    """A float32 or float16 array on the GPU, from `fusedconv.array` or as the result of a call.

    Its memory goes back to the pool with `free()`, at the end of a `with` block, or when the last
    reference goes. An error that the GPU reports late is raised by the first await that depends
    on the tensor.
    """

    __slots__ = ("_storage", "dtype", "shape")

    def __init__(self, storage: Any, shape: tuple[int, ...], dtype: str) -> None:
        self._storage = storage
        self.shape = shape
        self.dtype = dtype

    @classmethod
    def from_buffer(cls, buffer: Any, shape: Sequence[int], dtype: object = "float32") -> GpuTensor:
        """A tensor on a GPUBuffer that the page already has, on the current device.

        The buffer needs the usage STORAGE (and COPY_SRC to be read back) and a size of at least
        the elements', rounded up to 4 bytes. It stays the caller's: freeing never destroys it.
        """
        from .transfers import adopt_buffer

        sizes, name = as_shape(shape, "shape"), dtype_name(dtype)
        check_elements(shape=sizes)
        nbytes = math.prod(sizes) * DTYPE_BYTES[name]
        return cls(adopt_buffer(buffer, nbytes), sizes, name)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * DTYPE_BYTES[self.dtype]

    @property
    def freed(self) -> bool:
        return self._storage is None

    @property
    def storage(self) -> Any:
        """The buffer's handle; raises `RequestError` after `free()`."""
        if self._storage is None:
            raise RequestError("t", f"a freed {self!r}", "a tensor that is not freed")
        return self._storage

    @property
    def buffer(self) -> Any:
        """The GPUBuffer, which lives as long as this tensor; it may be larger than `nbytes`.

        Everything that was called so far has been submitted when this returns.
        """
        storage = self.storage
        return storage.gpu.bridge.buffer(storage.id)

    def numpy(self) -> Coroutine[Any, Any, np.ndarray[Any, Any]]:
        """Read back: `await t.numpy()` is an ndarray of the values at the time of the call."""
        return self._read("numpy")

    def to_host(self) -> Coroutine[Any, Any, HostTensor]:
        """Read back without NumPy: `await t.to_host()`."""
        return self._read("host")

    def to_js(self) -> Coroutine[Any, Any, Any]:
        """Read back for JavaScript: a Float32Array, or the bits of halves as a Uint16Array.

        (Pyodide cannot hold a Float16Array; `new Float16Array(bits.buffer)` makes one of it.)
        """
        return self._read("js")

    def _read(self, kind: Literal["numpy", "host", "js"]) -> Coroutine[Any, Any, Any]:
        from .transfers import read

        return read(self, kind)

    def reshape(self, *shape: int | Sequence[int]) -> GpuTensor:
        """The same memory under another shape of as many elements; one size may be -1."""
        given = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        sizes = [whole(size, "shape") for size in items(given) or ()]
        if sizes.count(-1) == 1:
            rest = -math.prod(sizes)
            sizes[sizes.index(-1)] = self.size // rest if rest else 0
        if any(size < 0 for size in sizes) or math.prod(sizes) != self.size:
            raise RequestError("shape", given, f"{self.size} elements, as {self.shape} has")
        return GpuTensor(self.storage.share(), tuple(sizes), self.dtype)

    def free(self) -> None:
        """Give the memory back to the pool; calls that were made before still finish."""
        if self._storage is not None:
            self._storage.drop()
            self._storage = None

    def __enter__(self) -> GpuTensor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.free()

    def __repr__(self) -> str:
        state = ", freed" if self._storage is None else ""
        return f"GpuTensor(shape={self.shape}, dtype={self.dtype}{state})"


def has_numpy() -> bool:
    """Whether NumPy can be had for results."""
    return "numpy" in sys.modules or importlib.util.find_spec("numpy") is not None
