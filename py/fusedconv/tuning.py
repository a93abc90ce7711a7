"""What measuring has found: for a request on a device, the variant and tunables that are fastest.

Pure data. `tuner.py` measures; the browser keeps the findings in IndexedDB, and a JSON file takes
them to where plans are made without a GPU.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .capabilities import Capabilities
from .errors import RequestError
from .request import Request

if TYPE_CHECKING:
    from .operator import Operator
    from .plan import Plan

__all__ = [
    "Candidate",
    "Key",
    "Measured",
    "Progress",
    "Tuning",
    "Tunings",
    "candidates",
    "key_of",
    "tunings",
]


@dataclass(frozen=True)
class Candidate:
    """A way to run a request: a variant, and the tunables that differ from the manifest's."""

    variant: str
    tunables: Mapping[str, float]

    def __str__(self) -> str:
        settings = ", ".join(f"{name} {value:g}" for name, value in self.tunables.items())
        return f"{self.variant} ({settings})" if settings else self.variant


@dataclass(frozen=True)
class Measured:
    """A candidate and its milliseconds; None where it did not run, with the reason in `note`."""

    variant: str
    tunables: Mapping[str, float]
    ms: float | None
    note: str = ""

    def __str__(self) -> str:
        time = f"{self.ms:.4g} ms" if self.ms is not None else "failed"
        return f"{time}  {Candidate(self.variant, self.tunables)}  {self.note}".rstrip()


Progress = Callable[[int, int, Measured], Any]
"""Told how many candidates are done, of how many, and what the last one took."""


@dataclass(frozen=True)
class Key:
    """What a finding holds for: a change of any of these, and it is not used."""

    operator: str
    version: str
    adapter: str
    request: str


@dataclass(frozen=True)
class Tuning:
    """The result of `fusedconv.tune`. `measured` begins with what would run without it."""

    key: Key
    variant: str
    tunables: Mapping[str, float]
    ms: float
    plan: str
    """A digest of the winner's plan: the same words for a kernel that has changed do not count."""
    measured: tuple[Measured, ...]

    @property
    def speedup(self) -> float:
        """The time without tuning over the winner's."""
        first = self.measured[0].ms
        return first / self.ms if first is not None and self.ms else 1.0

    def reason(self) -> str:
        """Why the winner runs, for an explanation."""
        settings = str(Candidate("", self.tunables)).strip()
        return f"the fastest of {len(self.measured)} measured {settings}".rstrip()

    def times(self) -> dict[str, float]:
        """Variant -> its best milliseconds."""
        best: dict[str, float] = {}
        for item in self.measured:
            if item.ms is not None:
                best[item.variant] = min(item.ms, best.get(item.variant, item.ms))
        return best

    def __str__(self) -> str:
        ranked = sorted(self.measured, key=lambda m: (m.ms is None, m.ms))
        head = f"{Candidate(self.variant, self.tunables)}: {self.ms:.4g} ms"
        return "\n".join(
            [f"{head}, {self.speedup:.2f} times as fast as untuned", *map(str, ranked)]
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tuning:
        """What `dataclasses.asdict` made."""
        measured = tuple(Measured(**item) for item in data["measured"])
        return cls(**{**data, "key": Key(**data["key"]), "measured": measured})


class Tunings:
    """The findings that plans use; `fusedconv.tunings` is the one that they ask."""

    def __init__(self) -> None:
        self._found: dict[Key, Tuning] = {}
        self.revision = 0
        """Grows with every change; plans that were made before no longer count."""

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Tuning]:
        return iter(self._found.values())

    def get(self, key: Key) -> Tuning | None:
        return self._found.get(key)

    def add(self, tuning: Tuning) -> None:
        self._found[tuning.key] = tuning
        self.revision += 1

    def discard(self, key: Key) -> None:
        if self._found.pop(key, None) is not None:
            self.revision += 1

    def clear(self) -> None:
        """Forget everything, here and not in the browser's store: that is `forget_tunings`."""
        self._found.clear()
        self.revision += 1

    def to_json(self) -> str:
        """All findings, for `load` and for a file."""
        return json.dumps({"tunings": [asdict(tuning) for tuning in self]}, indent=1)

    def save(self, file: str | Path) -> None:
        """Write the findings to a JSON file."""
        Path(file).write_text(self.to_json() + "\n", "utf-8")

    def load(self, source: str | Path) -> int:
        """Add the findings of a JSON file, or of the text of one; says how many.

        Raises `RequestError` for anything else.
        """
        if not isinstance(source, (str, Path)):
            raise RequestError("source", type(source).__name__, "a path, or what it holds")
        text = str(source)
        if not text.lstrip().startswith("{"):
            text = Path(source).read_text("utf-8")
        try:
            found = [Tuning.from_dict(item) for item in json.loads(text)["tunings"]]
        except (KeyError, TypeError, ValueError) as error:
            raise RequestError(
                "source", f"no tunings ({error})", "what Tunings.save wrote"
            ) from None
        for tuning in found:
            self.add(tuning)
        return len(found)


tunings = Tunings()


def key_of(operator: Operator, request: Request, capabilities: Capabilities) -> Key:
    """What a finding for this request on this device is kept under."""
    asked = {
        "shapes": {name: list(shape) for name, shape in request.shapes.items()},
        "dtype": request.dtype,
        "attributes": dict(request.attributes),
    }
    info = capabilities.adapter_info
    name = " ".join(str(info[part]) for part in ("vendor", "architecture") if info.get(part))
    adapter = f"{name or 'unknown'} {digest(capabilities.key)}"
    text = json.dumps(asked, sort_keys=True, default=str)
    return Key(operator.name, operator_version(operator), adapter, text)


def operator_version(operator: Operator) -> str:
    """Of the package and of the manifest: what variants there are, and when they serve."""
    from . import __version__

    if operator.version is None:
        operator.version = f"{__version__} {digest(repr(operator.manifest))}"
    return operator.version


def digest(text: str) -> str:
    """Sixteen hexadecimal digits that change with the text."""
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:16]


def plan_digest(plan: Plan) -> str:
    """Of what a plan runs, whatever the variant is called."""
    data = plan.to_dict()
    return digest(json.dumps([data["passes"], data["scratch"]], sort_keys=True))


def found_for(operator: Operator, request: Request, capabilities: Capabilities) -> Tuning | None:
    """The finding that a plan of this request has to follow, if there is one."""
    return tunings.get(key_of(operator, request, capabilities)) if len(tunings) else None


def candidates(operator: Operator, request: Request, capabilities: Capabilities) -> list[Candidate]:
    """Every way that may run: first the one that would, then by priority, then other tunables."""
    from fnmatch import fnmatchcase

    settings = [({}, ["*"]), *operator_settings(operator)]
    result: list[Candidate] = []
    for tunables, patterns in settings:
        selection = operator.selection(request, capabilities, True, tunables)
        chosen = selection.choose()
        ranked = sorted(selection.variants, key=lambda v: (v is not chosen, -v.priority))
        for variant in ranked:
            named = any(fnmatchcase(variant.id, pattern) for pattern in patterns)
            if named and selection.refusal(variant) is None:
                result.append(Candidate(variant.id, tunables))
    return result


def operator_settings(operator: Operator) -> list[tuple[Mapping[str, float], Sequence[str]]]:
    """The tunables that are worth a trial, with patterns of the variants that they are for.

    They are in tuning.json beside the operator's manifest.
    """
    from .operator import shaders_folder

    file = shaders_folder() / operator.name.lower() / "tuning.json"
    if not file.is_file():
        return []
    families = json.loads(file.read_text("utf-8"))["families"]
    return [(tried, family["variants"]) for family in families for tried in family["tunables"]]
