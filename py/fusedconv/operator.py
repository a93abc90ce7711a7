"""An operator, loaded: its manifest, compiled expressions and templates, from choice to plan.

The shipped operators come compiled with the wheel (`compile_to_source`); a folder, a dict or a
URL takes the same path, compiled on the spot.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .capabilities import Capabilities, current
from .errors import ManifestError, RequestError, UnsupportedError
from .evaluation import Compiled, EvaluationError, Scope
from .manifest import Intermediate, Manifest, PassSpec, Variant
from .pieces import Part, Piece, conv_piece, transposed_piece
from .plan import (
    DTYPE_BYTES,
    Binding,
    Pass,
    Plan,
    Scratch,
    declaration,
    element_type,
    pack_uniform,
    whole_number,
)
from .request import MAX_ELEMENTS, Request, conv_request, conv_weights, flag
from .request_transposed import conv_transpose_request, conv_transpose_weights
from .selection import Explanation, Selection
from .splitting import fits, join, parts_of
from .tuning import found_for, plan_digest, tunings

__all__ = ["Operator", "builtin", "explain", "load_operator", "plan"]

ENABLE = re.compile(r"^\s*enable\s+([\w, ]+);", re.MULTILINE)
# The device feature that each of WGSL's extensions asks for.
FEATURE_OF_EXTENSION = {
    "f16": "shader-f16",
    "subgroups": "subgroups",
    "chromium_experimental_subgroup_matrix": "chromium-experimental-subgroup-matrix",
}

Render = Callable[[Scope], str]


@dataclass(frozen=True)
class Rules:
    """What the engine must know of an operator that its manifest does not say."""

    request: Callable[..., Request]
    weights: Callable[..., None]  # the same rules for weights alone, as `prepare` has them
    piece: Callable[[Request, Part], Piece | None]  # for tensors that are too large to bind


# The operators that this package knows, by ONNX name.
CONV = Rules(conv_request, conv_weights, conv_piece)
RULES: Mapping[str, Rules] = {
    "FusedConv": CONV,
    "Conv": CONV,
    "ConvTranspose": Rules(conv_transpose_request, conv_transpose_weights, transposed_piece),
}

# The shipped operators: direct, transposed.
OPERATORS = ("fusedconv", "convtranspose")


class Operator:
    """A contract that can be planned; `load_operator` makes one."""

    def __init__(
        self,
        manifest: Manifest,
        functions: Mapping[str, Compiled],
        templates: Mapping[str, Render],
    ) -> None:
        self.manifest = manifest
        self.name = manifest.name
        self.functions = functions
        self.templates = templates
        self._derive = compiled_names(manifest.derive, functions)
        self.version: str | None = None
        """Set by `tuning.operator_version`, when it is first asked for."""
        self._plans: dict[object, Plan] = {}
        self._children: dict[int, Mapping[str, Compiled]] = {}

    def __repr__(self) -> str:
        return f"<Operator {self.name}: {len(self.manifest.variants)} variants>"

    @property
    def rules(self) -> Rules:
        """The request rules of the operator's name."""
        if self.name not in RULES:
            raise ManifestError("name", f"no request rules for {self.name}: {', '.join(RULES)}")
        return RULES[self.name]

    def request(self, x_shape: Sequence[int], w_shape: Sequence[int], **arguments: Any) -> Request:
        """Check shapes and attributes by the operator's own rules; raises `RequestError`."""
        return self.rules.request(x_shape, w_shape, **arguments)

    def check_weights(self, w_shape: Sequence[int], **arguments: Any) -> None:
        """Check weights and attributes for which there is no input yet; raises `RequestError`."""
        self.rules.weights(w_shape, **arguments)

    def plan(
        self,
        x_shape: Sequence[int],
        w_shape: Sequence[int],
        *,
        dtype: object = "float32",
        bias: bool | Sequence[int] = False,
        z: bool | Sequence[int] = False,
        device: Capabilities | None = None,
        extensions: bool = True,
        tunables: Mapping[str, float] | None = None,
        variant: str | None = None,
        **attributes: Any,
    ) -> Plan:
        """How this request runs on `device` (default: the page's device, else WebGPU's defaults).

        Shapes are (N, C, D1..Dn) and (M, C/group, k1..kn); attributes are ONNX's. `variant` pins
        one, `tunables` overrides the manifest's, `extensions=False` keeps to the published ones.
        Raises `RequestError` for a bad argument, `UnsupportedError` where no variant serves.
        """
        capabilities = planned_for(device)
        key = frozen((x_shape, w_shape, str(dtype), bias, z, extensions, tunables, variant))
        key = (key, frozen(attributes), capabilities.key, tunings.revision)
        found = self._plans.get(key)
        if found is None:
            extensions = flag(extensions, "extensions")
            tunables = self.checked_tunables(tunables)
            request = self.request(x_shape, w_shape, dtype=dtype, bias=bias, z=z, **attributes)
            free = extensions and not tunables and variant is None
            found = (self.tuned(request, capabilities) if free else None) or self.plan_request(
                request, capabilities, extensions, tunables, variant
            )
            if len(self._plans) > 4096:
                self._plans.clear()
            self._plans[key] = found
        return found

    def run(
        self,
        x: Any,
        w: Any,
        bias: Any = None,
        z: Any = None,
        *,
        out: Any = None,
        cast: bool = False,
        **arguments: Any,
    ) -> Coroutine[Any, Any, Any]:
        """`await operator.run(x, w, ...)` on the GPU; see `fusedconv.run` for the arguments."""
        from .api import run_operator

        return run_operator(self, x, w, bias, z, out=out, cast=cast, options=arguments)

    def tuned(self, request: Request, capabilities: Capabilities) -> Plan | None:
        """The plan that `fusedconv.tune` has found to be the fastest, if it was asked.

        A finding for what has changed since is forgotten.
        """
        finding = found_for(self, request, capabilities)
        if finding is None:
            return None
        try:
            plan = self.plan_request(request, capabilities, True, finding.tunables, finding.variant)
        except (RequestError, UnsupportedError):
            plan = None
        if plan is None or plan_digest(plan) != finding.plan:
            tunings.discard(finding.key)
            return None
        return plan

    def explain(
        self,
        x_shape: Sequence[int],
        w_shape: Sequence[int],
        *,
        device: Capabilities | None = None,
        extensions: bool = True,
        tunables: Mapping[str, float] | None = None,
        variant: str | None = None,
        **arguments: Any,
    ) -> Explanation:
        """A verdict for every variant, with the failing guard's terms and values; see `plan`."""
        extensions = flag(extensions, "extensions")
        tunables = self.checked_tunables(tunables)
        request = self.request(x_shape, w_shape, **arguments)
        capabilities = planned_for(device)
        selection = self.selection(request, capabilities, extensions, tunables)
        if variant is not None:
            self.pinned(selection, variant)
        finding = found_for(self, request, capabilities) if extensions else None
        if finding is None:
            return selection.explain(variant)
        if tunables or variant is not None or not self.tuned(request, capabilities):
            return selection.explain(variant).timed(finding.times())
        selection = self.selection(request, capabilities, True, finding.tunables)
        return selection.explain(finding.variant).timed(finding.times(), finding.reason())

    def selection(
        self,
        request: Request,
        capabilities: Capabilities,
        extensions: bool = True,
        tunables: Mapping[str, float] | None = None,
    ) -> Selection:
        """The guards of every variant, over the names of this request on this device."""
        scope = self.scope(request, capabilities, tunables)
        selection = Selection(self.manifest, self.functions, scope, capabilities, extensions)
        selection.definitions = {
            k: v for k, v in self.manifest.derive.items() if isinstance(v, str)
        }
        return selection

    def scope(
        self, request: Request, capabilities: Capabilities, tunables: Mapping[str, float] | None
    ) -> Scope:
        manifest = self.manifest
        shapes = dict(request.shapes)
        defaults = {k: v["default"] for k, v in manifest.attributes.items() if "default" in v}
        scope = Scope(
            self._derive,
            attrs={**defaults, **request.attributes},
            shapes=shapes,
            ranks={name: len(shape) for name, shape in shapes.items()},
            present={name: name in shapes for name in manifest.inputs},
            dtypes={"T": "f16" if request.dtype == "float16" else "f32"},
            tunables={**manifest.tunables, **self.checked_tunables(tunables)},
            limits=capabilities.limits,
            features=capabilities.features,
            adapterInfo=capabilities.adapter_info,
        )
        ((output, spec),) = manifest.outputs.items()
        shape = sizes(self.functions[spec["shape"]](scope), f"outputs.{output}.shape")
        scope.shapes[output], scope.ranks[output] = shape, len(shape)
        return scope

    def checked_tunables(self, given: Mapping[str, float] | None) -> Mapping[str, float]:
        if not isinstance(given, Mapping) and given is not None:
            raise RequestError("tunables", type(given).__name__, "a dict of names and numbers")
        known = set(self.manifest.tunables).union(*(v.tunables for v in self.manifest.variants))
        for name, value in (given or {}).items():
            if name not in known:
                allowed = f"names of the manifest's, such as {nearest(name, known)}"
                raise RequestError(f"tunables[{name!r}]", "an unknown name", allowed)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (number and abs(value) <= MAX_ELEMENTS):
                raise RequestError(f"tunables[{name!r}]", repr(value), "a number below 2**32")
        return given or {}

    def pinned(self, selection: Selection, name: str) -> Variant:
        """The variant that the caller asks for by id, if it is eligible."""
        variant = selection.by_id.get(name) if isinstance(name, str) else None
        if variant is None:
            allowed = f"ids that explain lists, such as {nearest(name, selection.by_id)}"
            raise RequestError("variant", repr(name), allowed)
        if selection.refusal(variant) is not None:
            verdict = selection.verdict(variant, chosen=False)
            raise UnsupportedError(
                f"variant {name} cannot serve this request: {verdict.reason}", selection.explain()
            )
        return variant

    def plan_request(
        self,
        request: Request,
        capabilities: Capabilities,
        extensions: bool = True,
        tunables: Mapping[str, float] | None = None,
        pin: str | None = None,
    ) -> Plan:
        """The plan of a checked request; `plan` is this with a cache."""
        selection = self.selection(request, capabilities, extensions, tunables)
        variant = self.pinned(selection, pin) if pin is not None else selection.choose()
        if variant is None:
            raise unsupported(selection)
        plan = Plan(
            operator=self.name,
            variant=variant.id,
            dtype=request.dtype,
            operands=request.shapes,
            output_shape=request.output_shape,
            passes=(),
            scratch=(),
        )
        if 0 in request.output_shape:
            return plan
        if not fits(request, capabilities):
            return self.split(plan, request, capabilities, (extensions, tunables, pin))
        try:
            return self.planned(plan, variant, selection.scope, tunables or {})
        except (EvaluationError, ArithmeticError, TypeError, ValueError) as error:
            # Tunables can make what no template expects.
            raise UnsupportedError(f"variant {variant.id}: {error}", selection.explain()) from None

    def split(
        self, whole: Plan, request: Request, capabilities: Capabilities, options: tuple[Any, ...]
    ) -> Plan:
        """The plan of a request with tensors that are too large to bind: of its parts, in turn."""
        plans: dict[object, Plan] = {}
        parts = []
        for part, piece in parts_of(request, capabilities, self.rules.piece):
            own = piece.request
            key = (*own.shapes.values(), *own.attributes.values())
            if key not in plans:
                plans[key] = self.plan_request(own, capabilities, *options)
            parts.append((part, piece, plans[key]))
        return join(whole, request, parts)

    def planned(
        self, plan: Plan, variant: Variant, scope: Scope, tunables: Mapping[str, float]
    ) -> Plan:
        own = {**scope.tunables, **variant.tunables, **tunables}
        inner = scope.child(self.derived(variant), tunables=own)
        scratch = tuple(self.scratch(item, inner) for item in variant.intermediates)
        lengths = {item.id: item.nbytes for item in scratch}
        passes = tuple(self.one_pass(spec, inner, lengths) for spec in variant.passes)
        return replace(plan, passes=passes, scratch=scratch)

    def scratch(self, item: Intermediate, scope: Scope) -> Scratch:
        shape = sizes(self.functions[item.shape](scope), f"intermediates.{item.id}")
        elements = math.prod(shape)
        return Scratch(item.id, item.dtype, elements, elements * DTYPE_BYTES[item.dtype], item.once)

    def one_pass(self, spec: PassSpec, variant_scope: Scope, nbytes: Mapping[str, int]) -> Pass:
        scope = variant_scope.child(self.derived(spec))
        bindings, texts = [], []
        for index, entry in enumerate(spec.bindings):
            members = {m.name: (m.type, self.value(m.value, scope)) for m in entry.struct or ()}
            binding = Binding(
                index,
                entry.name,
                entry.buffer or "uniform",
                operand=entry.arg,
                scratch=entry.scratch,
                uniform=pack_uniform(members, f"{spec.id}.{entry.name}") if entry.struct else None,
            )
            element = element_type(entry.element_type, scope) if entry.element_type else ""
            bindings.append(binding)
            kinds = {n: kind for n, (kind, _) in members.items()}
            length = nbytes[entry.scratch] if entry.sized and entry.scratch else None
            texts.append(declaration(binding, element, kinds, length))
        scope.__dict__["declarations"] = "".join(texts)
        x, y, z = (self.workgroups(self.value(axis, scope), spec, scope) for axis in spec.dispatch)
        wgsl = self.templates[spec.shader](scope)
        check_enables(wgsl, scope.features, spec.shader)
        return Pass(spec.id, spec.name, spec.shader, wgsl, tuple(bindings), (x, y, z), spec.once)

    def workgroups(self, count: Any, spec: PassSpec, scope: Scope) -> int:
        value = whole_number(count, f"dispatch of {spec.id}")
        most = scope.limits["maxComputeWorkgroupsPerDimension"]
        if not 0 <= value <= most:
            raise EvaluationError(f"dispatch of {spec.id}: {value} workgroups, at most {most}")
        return value

    def value(self, text: str | float, scope: Scope) -> Any:
        return self.functions[text](scope) if isinstance(text, str) else text

    def derived(self, owner: Variant | PassSpec) -> Mapping[str, Compiled]:
        """The compiled `derive` of a variant or a pass, kept since it is asked for every plan."""
        key = id(owner)
        if key not in self._children:
            self._children[key] = compiled_names(owner.derive, self.functions)
        return self._children[key]


def sizes(value: Any, where: str) -> tuple[int, ...]:
    """A shape that an expression gave."""
    if not isinstance(value, (tuple, list)):
        raise EvaluationError(f"{where} must be a list of sizes, got {value!r}")
    return tuple(whole_number(size, where) for size in value)


def check_enables(wgsl: str, features: Iterable[str], template: str) -> None:
    """A shader may enable only what the device has been granted."""
    for names in ENABLE.findall(wgsl):
        for name in names.split(","):
            feature = FEATURE_OF_EXTENSION.get(name.strip())
            if feature is not None and feature not in features:
                raise EvaluationError(f"{template} enables {name.strip()}, but not the device")


def compiled_names(
    derive: Mapping[str, Any], functions: Mapping[str, Compiled]
) -> dict[str, Compiled]:
    """Name -> function of the scope. `hasBias: "hasBias"` reads the enclosing scope's value."""
    return {name: compiled_name(name, text, functions) for name, text in derive.items()}


def compiled_name(name: str, text: Any, functions: Mapping[str, Compiled]) -> Compiled:
    if not isinstance(text, str):
        return lambda scope: text
    function = functions[text]
    if text == name:
        return lambda scope: function(scope.outer)
    return function


def unsupported(selection: Selection) -> UnsupportedError:
    """The error of a request that no variant serves: names the one with the fewest objections."""
    if selection.scope.dtypes["T"] == "f16" and "shader-f16" not in selection.scope.features:
        return UnsupportedError(
            "float16 needs the feature shader-f16, which this device does not offer",
            selection.explain(),
        )
    nearest = min(selection.variants, key=lambda v: (selection.objections(v), -v.priority))
    reason = selection.verdict(nearest, chosen=False).reason
    return UnsupportedError(
        "no variant serves this request on this device; "
        f"the nearest is {nearest.id}, refused by {reason}",
        selection.explain(),
    )


def frozen(value: Any) -> Any:
    """A value as part of a dictionary key, equal for values that mean the same to a request.

    1, 1.0 and True are equal as keys but not as attributes, and so are 0.0 and -0.0.
    """
    kind = type(value)
    if kind is int or kind is str or value is None:
        return value
    try:
        if isinstance(value, (list, tuple)):
            return tuple(map(frozen, value))
        if kind is float or kind is bool or kind is bytes:
            return kind.__name__, repr(value)
        if isinstance(value, Mapping):
            return tuple((name, frozen(item)) for name, item in sorted(value.items()))
        if hasattr(value, "tolist"):
            return frozen(value.tolist())
    except (RecursionError, TypeError):  # a list in itself, names that are no texts
        pass
    # Not even equal to itself at another time, when it may mean something else.
    return object()


def nearest(name: Any, known: Iterable[str]) -> str:
    """A few of the known names, those most like this one."""
    import difflib  # only for errors: it is slow to import

    return ", ".join(difflib.get_close_matches(str(name)[:80], known, 3, 0.0))


def planned_for(device: Any) -> Capabilities:
    """What plans are made for: the page's own device where none is given."""
    if device is None:
        return current()
    if not isinstance(device, Capabilities):
        raise RequestError("device", type(device).__name__, "fusedconv.Capabilities")
    return device


def shipped(transposed: Any) -> Operator:
    """The shipped operator, direct or transposed."""
    return builtin(OPERATORS[flag(transposed, "transposed")])


_builtin: dict[str, Operator] = {}


def builtin(name: str) -> Operator:
    """A shipped operator by its folder's name, `fusedconv`: compiled with the wheel, or here."""
    if name not in _builtin:
        try:
            module = importlib.import_module(f"fusedconv._compiled.{name}")
        except ModuleNotFoundError:
            _builtin[name] = load_operator(shaders_folder() / name)
        else:
            _builtin[name] = Operator(module.MANIFEST, module.FUNCTIONS, module.TEMPLATES)
    return _builtin[name]


def shaders_folder() -> Path:
    """Where the operators' folders are: inside the wheel, or beside `py/` in a checkout."""
    inside = Path(__file__).parent / "shaders"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "shaders"


def load_operator(
    manifest: str | Path | Mapping[str, Any],
    templates: str | Path | Mapping[str, str] | None = None,
) -> Operator:
    """Load an operator contract: our compact form or the published one, unmodified.

    `manifest` is a folder, a manifest.json's path, its URL (in the browser) or the parsed dict;
    `templates` a folder, a URL or {name: source}; left out, the manifest's own folder, or for a
    dict those of the shipped operator of its name. Raises `ManifestError` with the path inside the
    file.
    """
    from .loading import load

    return load(manifest, templates)


def plan(
    x_shape: Sequence[int], w_shape: Sequence[int], *, transposed: bool = False, **arguments: Any
) -> Plan:
    """How a FusedConv, or a transposed one, would run; see `Operator.plan` for the arguments."""
    return shipped(transposed).plan(x_shape, w_shape, **arguments)


def explain(
    x_shape: Sequence[int], w_shape: Sequence[int], *, transposed: bool = False, **arguments: Any
) -> Explanation:
    """Which variant a request takes and why not the others; see `Operator.explain`."""
    return shipped(transposed).explain(x_shape, w_shape, **arguments)
