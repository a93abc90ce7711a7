"""What compiled expressions and templates run on: a lazy scope and the few functions they may call.

Nothing here needs Jinja, so a page that uses the shipped operators never imports it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

__all__ = ["FUNCTIONS", "EvaluationError", "Scope"]

Compiled = Callable[["Scope"], Any]

# Bounds that no honest manifest meets: an expression or template from a URL can neither build a
# huge value by doubling nor render for ever.
MAX_MAGNITUDE = 2**80
MAX_LENGTH = 65536
MAX_STEPS = 400_000


class EvaluationError(Exception):
    """A compiled expression or template could not be evaluated for this request and device."""


class Scope:
    """The names of one request on one device; a derived value is computed when first asked for.

    A child scope adds or overrides derived values (a variant's, then a pass's). An expression of
    the child sees the child's names first; what the parent derives never sees the child's.
    """

    attrs: Mapping[str, Any]
    shapes: dict[str, tuple[int, ...]]
    ranks: dict[str, int]
    present: Mapping[str, bool]
    dtypes: Mapping[str, str]
    tunables: Mapping[str, Any]
    limits: Mapping[str, int]
    features: frozenset[str]
    adapterInfo: Mapping[str, Any]  # noqa: N815, the contract's own name

    def __init__(
        self, derive: Mapping[str, Compiled], parent: Scope | None = None, **names: Any
    ) -> None:
        self.__dict__.update(names)
        self._derive = derive
        self._parent = parent
        self._steps = MAX_STEPS

    def __getattr__(self, name: str) -> Any:
        # Called only when the value is not in __dict__ yet.
        compiled = self.__dict__["_derive"].get(name)
        if compiled is not None:
            value = bounded(compiled(self))
        elif self._parent is not None:
            value = getattr(self._parent, name)
        else:
            raise EvaluationError(f"'{name}' is not defined here")
        self.__dict__[name] = value
        return value

    @property
    def outer(self) -> Scope:
        """The enclosing scope: what `"hasBias": "hasBias"` in a pass's derive refers to."""
        if self._parent is None:
            raise EvaluationError("there is no enclosing scope")
        return self._parent

    def defines(self, name: str) -> bool:
        """Whether `name` can be asked for here."""
        if name in self.__dict__ or name in self._derive:
            return True
        return self._parent is not None and self._parent.defines(name)

    def child(self, derive: Mapping[str, Compiled], **names: Any) -> Scope:
        """A scope with further derived values and names."""
        return Scope(derive, self, **names)

    def spend(self, steps: int) -> None:
        """Count loop turns, macro calls and text; a template that never ends is stopped."""
        root = self
        while root._parent is not None:
            root = root._parent
        root._steps -= steps
        if root._steps < 0:
            raise EvaluationError(f"the template takes more than {MAX_STEPS} steps")


def bounded(value: Any) -> Any:
    """Pass a value through unless it is of a kind or size that no expression should make."""
    kind = value.__class__
    if kind is int:
        if not -MAX_MAGNITUDE < value < MAX_MAGNITUDE:
            raise EvaluationError("a whole number beyond 2**80")
    elif (kind is str or kind is tuple or kind is list) and len(value) > MAX_LENGTH:
        raise EvaluationError(f"a value longer than {MAX_LENGTH}")
    return value


def _numeric(a: Any, b: Any, sign: str) -> None:
    for value in (a, b):
        if not isinstance(value, (int, float)):
            raise EvaluationError(f"'{sign}' needs numbers, got {value!r}")


def mul(a: Any, b: Any) -> Any:
    if a.__class__ is not int or b.__class__ is not int:
        _numeric(a, b, "*")
    return a * b


def add(a: Any, b: Any) -> Any:
    if a.__class__ is not int or b.__class__ is not int:
        _numeric(a, b, "+")
    return a + b


def mod(a: Any, b: Any) -> Any:
    if a.__class__ is not int or b.__class__ is not int:
        _numeric(a, b, "%")
    if b == 0:
        raise EvaluationError("remainder by zero")
    return a % b


def div(a: Any, b: Any) -> Any:
    """True division; a whole quotient of whole numbers stays whole (64 / 2 is 32, not 32.0)."""
    if a.__class__ is not int or b.__class__ is not int:
        _numeric(a, b, "/")
    if b == 0:
        raise EvaluationError("division by zero")
    if isinstance(a, int) and isinstance(b, int) and a % b == 0:
        return a // b
    return a / b


def concat(*parts: Any) -> str:
    return str(bounded("".join(map(str, parts))))


def look_up(mapping: Mapping[str, Any], key: str, owner: str) -> Any:
    try:
        return mapping[key]
    except KeyError:
        raise EvaluationError(f"{owner}.{key} is absent") from None


def item(value: Any, index: Any) -> Any:
    if not isinstance(value, (tuple, list)) or not isinstance(index, int):
        raise EvaluationError(f"cannot index {value!r} with {index!r}")
    try:
        return value[index]
    except IndexError:
        raise EvaluationError(f"index {index} is outside {value!r}") from None


def length(value: Any) -> int:
    if not isinstance(value, (tuple, list, str)):
        raise EvaluationError(f"{value!r} has no length")
    return len(value)


def dim(shape: Sequence[int], index: int) -> int:
    return int(item(shape, index))


def numel(shape: Sequence[int]) -> int:
    return math.prod(shape)


def same_shape(a: Sequence[int], b: Sequence[int]) -> bool:
    return tuple(a) == tuple(b)


def ceil_div(a: Any, b: Any) -> int:
    _numeric(a, b, "ceilDiv")
    if b == 0:
        raise EvaluationError("ceilDiv by zero")
    return int(-(-a // b))


def dtype_bytes(name: str) -> int:
    sizes = {"float32": 4, "f32": 4, "float16": 2, "f16": 2}
    if name not in sizes:
        raise EvaluationError(f"dtypeBytes of {name!r}; known: {', '.join(sizes)}")
    return sizes[name]


def turns(scope: Scope, sequence: Iterable[Any]) -> tuple[Any, ...]:
    """The values of a `for`, once it is sure that they are few enough."""
    if not isinstance(sequence, (tuple, list, range)):
        raise EvaluationError(f"cannot loop over {sequence!r}")
    scope.spend(len(sequence))
    return tuple(sequence)


def text(scope: Scope, parts: list[str]) -> str:
    """What a template or macro has written, unless it is far longer than any WGSL."""
    size = sum(map(len, parts))
    scope.spend(size >> 8)
    return "".join(parts)


def bounded_range(*arguments: int) -> range:
    values = range(*arguments)
    if len(values) > MAX_LENGTH:
        raise EvaluationError(f"a range of more than {MAX_LENGTH} values")
    return values


def join(values: Iterable[Any], separator: str = "") -> str:
    return str(bounded(separator.join(map(str, values))))


# The calls that the contract's expressions may make, under the contract's names.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "dim": dim,
    "numel": numel,
    "sameShape": same_shape,
    "ceilDiv": ceil_div,
    "ceil": math.ceil,
    "floor": math.floor,
    "min": min,
    "max": max,
    "dtypeBytes": dtype_bytes,
    "range": bounded_range,
}

# The filters that templates may use besides (an expression has only `length`).
FILTERS: Mapping[str, Callable[..., Any]] = {
    "length": length,
    "int": int,
    "string": str,
    "join": join,
    "round": round,
    "abs": abs,
    "min": min,
    "max": max,
}

# The globals of every compiled module: operators with bounds, functions and filters.
NAMESPACE: Mapping[str, Any] = {
    "add": add,
    "mul": mul,
    "mod": mod,
    "div": div,
    "concat": concat,
    "look_up": look_up,
    "item": item,
    "bounded": bounded,
    "text": text,
    "turns": turns,
    **{f"f_{name}": function for name, function in FUNCTIONS.items()},
    **{f"t_{name}": function for name, function in FILTERS.items()},
}
