"""A second reading of the contract: slow, plain, and sharing no code with the package.

Jinja itself evaluates every expression of every variant, derived values are tried until nothing
changes, and the rules of choosing are written out as they are told.
"""

import math

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

ENVIRONMENT = SandboxedEnvironment(undefined=StrictUndefined)
COMPILED = {}


class Features(set):
    def has(self, name):
        return name in self


def functions(features):
    return {
        "dim": lambda shape, i: shape[i],
        "numel": math.prod,
        "sameShape": lambda a, b: list(a) == list(b),
        "ceilDiv": lambda a, b: math.ceil(a / b),
        "ceil": math.ceil,
        "floor": math.floor,
        "min": min,
        "max": max,
        "has": lambda obj, name: name in obj,
        "dtypeBytes": lambda name: {"float32": 4, "float16": 2}[name],
        "f16Ok": lambda t: t != "f16" or "shader-f16" in features,
    }


def evaluate(text, names):
    if not isinstance(text, str):
        return text
    if text not in COMPILED:
        COMPILED[text] = ENVIRONMENT.compile_expression(text, undefined_to_none=False)
    value = COMPILED[text](**names)
    if isinstance(value, StrictUndefined):
        str(value)  # raises
    return value


def settle(derive, names):
    """Try every derived value until a round brings nothing new."""
    waiting = dict(derive)
    while waiting:
        done = {}
        for name, text in waiting.items():
            try:
                done[name] = evaluate(text, names)
            except Exception:
                continue
        if not done:
            return
        names.update(done)
        waiting = {name: text for name, text in waiting.items() if name not in done}


def choose(manifest, shapes, dtype, attributes, device):
    """The id of the variant that the rules choose, or None."""
    features = Features(device.features)
    attrs = {k: v["default"] for k, v in manifest["attributes"].items() if "default" in v}
    names = {
        **functions(features),
        "attrs": {**attrs, **attributes},
        "shapes": dict(shapes),
        "ranks": {name: len(shape) for name, shape in shapes.items()},
        "present": {name: name in shapes for name in manifest["inputs"]},
        "dtypes": {"T": dtype},
        "tunables": {k: v["default"] for k, v in manifest["tunables"].items()},
        "device": {
            "limits": dict(device.limits),
            "features": features,
            "adapterInfo": dict(device.adapter_info),
        },
    }
    settle(manifest["derive"], names)
    names["shapes"]["y"] = evaluate(manifest["outputs"]["y"]["shape"], names)
    names["ranks"]["y"] = len(names["shapes"]["y"])
    settle({k: v for k, v in manifest["derive"].items() if k not in names}, names)

    def true(text):
        try:
            return evaluate(text, names) is True
        except Exception:
            return False

    def eligible(variant):
        requires = variant.get("requires", {})
        if not set(requires.get("features", [])) <= features:
            return False
        for wanted in requires.get("subgroupMatrixConfigs", []):
            configs = device.subgroup_matrix_configs
            if not any(all(c.get(k) == v for k, v in wanted.items()) for c in configs):
                return False
        return all(true(text) for text in variant["when"])

    candidates = [v for v in manifest["variants"] if eligible(v)]
    ids = {v["id"] for v in candidates}
    candidates = [v for v in candidates if not ids & set(v.get("supersededBy", []))]
    demoted = {v["id"] for v in candidates if any(true(t) for t in v.get("demoteWhen", []))}
    pool = [v for v in candidates if v["id"] not in demoted] or candidates
    best = max((v["priority"] for v in pool), default=None)
    return next((v["id"] for v in pool if v["priority"] == best), None)
