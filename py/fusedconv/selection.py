"""Request x device -> the variant that runs, and for every other one why it does not.

The rules are the contract's: eligible when `requires` and every `when` hold; dropped when a
variant that supersedes it is eligible; behind all others when a `demoteWhen` holds; then the
highest priority, and the first listed on a tie.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .capabilities import Capabilities
from .evaluation import Compiled, Scope
from .manifest import Manifest, Requires, Variant

__all__ = ["Explanation", "Selection", "Verdict"]

STATUSES = ("chosen", "eligible", "demoted", "superseded", "refused")


@dataclass(frozen=True)
class Verdict:
    """What became of one variant: its status, the reason, and the values the reason rests on.

    `path` leads from the guard that failed to the innermost term of it that is not true.
    """

    id: str
    status: str
    priority: int
    reason: str
    path: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    extension: bool = False
    ms: float | None = None
    """The best time that `fusedconv.tune` has measured for it here, in milliseconds."""


class Selection:
    """Evaluates guards lazily, each at most once, and answers who is chosen and why."""

    def __init__(
        self,
        manifest: Manifest,
        functions: Mapping[str, Compiled],
        scope: Scope,
        capabilities: Capabilities,
        extensions: bool = True,
    ) -> None:
        self.scope = scope
        self.capabilities = capabilities
        self.functions = functions
        self.variants = [v for v in manifest.variants if extensions or not v.extension]
        self.by_id = {variant.id: variant for variant in self.variants}
        self._guards: dict[str, object] = {}
        self._refusals: dict[str, str | None] = {}

    def guard(self, text: str) -> object:
        """The value of a guard, or the error that evaluating it raised."""
        if text not in self._guards:
            try:
                self._guards[text] = self.functions[text](self.scope)
            except (
                Exception
            ) as error:  # the contract: an error refuses the variant, not the request
                self._guards[text] = error
        return self._guards[text]

    def refusal(self, variant: Variant) -> str | None:
        """The first guard that is not true, a requirement that is not met, or None."""
        if variant.id not in self._refusals:
            missing = unmet(variant.requires, self.capabilities)
            failed = (text for text in variant.when if self.guard(text) is not True)
            self._refusals[variant.id] = missing or next(failed, None)
        return self._refusals[variant.id]

    def objections(self, variant: Variant) -> int:
        """How many requirements and guards stand against a variant."""
        missing = unmet(variant.requires, self.capabilities) is not None
        return missing + sum(self.guard(text) is not True for text in variant.when)

    def superseded_by(self, variant: Variant) -> str | None:
        """The eligible variant in whose favour this one is dropped, if any."""
        rivals = (self.by_id[name] for name in variant.superseded_by if name in self.by_id)
        return next((rival.id for rival in rivals if self.refusal(rival) is None), None)

    def demoted_by(self, variant: Variant) -> str | None:
        """The first `demoteWhen` that is true, if any."""
        return next((text for text in variant.demote_when if self.guard(text) is True), None)

    def choose(self) -> Variant | None:
        """The variant to run; evaluates no guard of lower priority than it needs."""
        best_demoted = None
        for variant in sorted(self.variants, key=lambda v: -v.priority):
            if self.refusal(variant) is not None or self.superseded_by(variant) is not None:
                continue
            if self.demoted_by(variant) is None:
                return variant
            best_demoted = best_demoted or variant
        return best_demoted

    def explain(self, pinned: str | None = None) -> Explanation:
        """A verdict for every variant, the chosen one first, then by status and priority."""
        chosen = self.by_id.get(pinned) if pinned else self.choose()
        verdicts = [self.verdict(variant, variant is chosen) for variant in self.variants]
        verdicts.sort(key=lambda v: (STATUSES.index(v.status), -v.priority))
        return Explanation(tuple(verdicts))

    def verdict(self, variant: Variant, chosen: bool) -> Verdict:
        """What became of one variant."""
        status, reason, path, values = self.fate(variant, chosen)
        return Verdict(
            variant.id, status, variant.priority, reason, path, values, variant.extension
        )

    def fate(
        self, variant: Variant, chosen: bool
    ) -> tuple[str, str, tuple[str, ...], Mapping[str, Any]]:
        refusal = self.refusal(variant)
        if refusal is not None:
            if refusal not in variant.when:
                return "refused", refusal, (refusal,), {}
            path, values = self.why_not(refusal)
            return "refused", sentence(path, values), path, values
        rival = self.superseded_by(variant)
        demotion = self.demoted_by(variant)
        if chosen:
            reason = f"demoted ({demotion}), but nothing else is eligible" if demotion else ""
            return "chosen", reason or f"priority {variant.priority}", (), {}
        if rival is not None:
            return "superseded", f"{rival} is eligible", (), {}
        if demotion is not None:
            return "demoted", demotion, (demotion,), self.values_in(demotion)
        return "eligible", f"priority {variant.priority}", (), {}

    def why_not(self, text: str) -> tuple[tuple[str, ...], Mapping[str, Any]]:
        """Follow a guard that is not true down to the term that made it so."""
        from .expressions import conjuncts, read_names

        value = self.guard(text)
        if isinstance(value, Exception):
            return (text, str(value)), {}
        for term in conjuncts(text):
            outcome = self.evaluate(term)
            if outcome is True:
                continue
            if isinstance(outcome, Exception):
                return (text, term, str(outcome)), {}
            definition = self.definitions.get(term)
            if definition is not None and read_names(definition):
                path, values = self.why_not(definition)
                return (text, *path) if term == text else (text, term, *path), values
            return ((text,) if term == text else (text, term)), self.values_in(term)
        return (text,), self.values_in(text)

    definitions: Mapping[str, str] = {}

    def evaluate(self, text: str) -> object:
        from .expressions import compile_expression

        if text not in self._guards and text not in self.functions:
            try:
                self._guards[text] = compile_expression(text).function()(self.scope)
            except Exception as error:
                self._guards[text] = error
        return self.guard(text)

    def values_in(self, text: str) -> Mapping[str, Any]:
        """The value of every name and attribute that a term reads."""
        from .expressions import read_names

        values = {name: self.evaluate(name) for name in read_names(text)}
        return {name: v for name, v in values.items() if not isinstance(v, Exception)}


def sentence(path: Sequence[str], values: Mapping[str, Any]) -> str:
    """`baseContract > configuredWorkgroupOk > a <= b, where a = 256, b = 128`."""
    steps = [*(step for step in path[:-1] if step.isidentifier()), path[-1]]
    where = ", ".join(f"{name} = {value!r}" for name, value in values.items())
    return " > ".join(dict.fromkeys(steps)) + (f", where {where}" if where else "")


def unmet(requires: Requires, capabilities: Capabilities) -> str | None:
    """The first requirement that the device does not meet, as a sentence."""
    for feature in requires.features:
        if feature not in capabilities.features:
            return f"the feature {feature} is not granted"
    for wanted in requires.subgroup_matrix_configs:
        if not any(
            all(config.get(key) == value for key, value in wanted.items())
            for config in capabilities.subgroup_matrix_configs
        ):
            text = ", ".join(f"{key} {value}" for key, value in wanted.items())
            return f"the adapter has no subgroup-matrix configuration with {text}"
    return None


@dataclass(frozen=True)
class Explanation:
    """A verdict for every variant; prints as an aligned table, shows as HTML in notebooks."""

    verdicts: tuple[Verdict, ...]

    @property
    def chosen(self) -> str | None:
        """The id of the variant that runs, or None where none does."""
        return next((v.id for v in self.verdicts if v.status == "chosen"), None)

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def __len__(self) -> int:
        return len(self.verdicts)

    def __getitem__(self, variant: str) -> Verdict:
        for verdict in self.verdicts:
            if verdict.id == variant:
                return verdict
        raise KeyError(variant)

    def timed(self, times: Mapping[str, float], reason: str = "") -> Explanation:
        """The same with measured milliseconds, and why the chosen one was chosen by them."""
        return Explanation(
            tuple(
                replace(
                    v,
                    ms=times.get(v.id),
                    reason=reason if reason and v.status == "chosen" else v.reason,
                )
                for v in self.verdicts
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "chosen": self.chosen,
            "variants": [
                {
                    "id": v.id,
                    "status": v.status,
                    "priority": v.priority,
                    "extension": v.extension,
                    "reason": v.reason,
                    "ms": v.ms,
                    "path": list(v.path),
                    "values": {name: plain(value) for name, value in v.values.items()},
                }
                for v in self.verdicts
            ],
        }

    def __str__(self) -> str:
        width = max((len(v.id) for v in self.verdicts), default=0)
        times = {v.id: f"{'' if v.ms is None else f'{v.ms:.4g}':>8}  " for v in self.verdicts}
        measured = any(v.ms is not None for v in self.verdicts)
        rows = [
            f"{v.status:<10}  {v.id:<{width}}  {v.priority:>4}  {' +'[v.extension]}  "
            f"{times[v.id] if measured else ''}{v.reason}"
            for v in self.verdicts
        ]
        head = (
            f"{'status':<10}  {'variant':<{width}}  prio  +  {'      ms  ' if measured else ''}"
            "reason (+: an extension of ours)"
        )
        return "\n".join([head, *rows])

    def _repr_html_(self) -> str:
        import html  # only for notebooks: it is slow to import

        cells = "".join(
            f"<tr><td>{v.status}</td><td><code>{html.escape(v.id)}</code>"
            f"{' +' if v.extension else ''}</td><td>{v.priority}</td>"
            f"<td>{'' if v.ms is None else f'{v.ms:.4g}'}</td>"
            f"<td>{html.escape(v.reason)}</td></tr>"
            for v in self.verdicts
        )
        return (
            "<table><thead><tr><th>status</th><th>variant</th><th>priority</th><th>ms</th><th>reason</th>"
            f"</tr></thead><tbody>{cells}</tbody></table>"
        )


def plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    return list(value) if isinstance(value, (tuple, list)) else value
