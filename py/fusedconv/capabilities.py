"""What a device offers, as plain data that can be read from a device, written by hand or stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from .errors import RequestError

__all__ = ["DEFAULT_LIMITS", "Capabilities", "current", "set_current"]

# The limits that every WebGPU device guarantees (WebGPU, "3.6.2 Limits"); only those a manifest
# or the execution can ask for.
DEFAULT_LIMITS: Mapping[str, int] = MappingProxyType(
    {
        "maxBindGroups": 4,
        "maxBindingsPerBindGroup": 1000,
        "maxStorageBuffersPerShaderStage": 8,
        "maxUniformBuffersPerShaderStage": 12,
        "maxUniformBufferBindingSize": 65536,
        "maxStorageBufferBindingSize": 134217728,
        "minUniformBufferOffsetAlignment": 256,
        "minStorageBufferOffsetAlignment": 256,
        "maxBufferSize": 268435456,
        "maxComputeWorkgroupStorageSize": 16384,
        "maxComputeInvocationsPerWorkgroup": 256,
        "maxComputeWorkgroupSizeX": 256,
        "maxComputeWorkgroupSizeY": 256,
        "maxComputeWorkgroupSizeZ": 64,
        "maxComputeWorkgroupsPerDimension": 65535,
    }
)


def listed(value: Any) -> list[Any]:
    """The items of an iterable; what is none is its own only item."""
    try:
        return list(value)
    except TypeError:
        return [value]


def _plain(value: object, where: str) -> Any:
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    raise RequestError(where, repr(value), "a string, a number or a boolean")


@dataclass(frozen=True, eq=False)
class Capabilities:
    """Features, limits and adapter facts of a GPUDevice, under WebGPU's own names.

    Limits that are not given are WebGPU's defaults. `subgroup_matrix_configs` are dicts with
    `componentType`, `resultComponentType`, `M`, `N`, `K`, as `GPUAdapterInfo` lists them.
    """

    features: Iterable[str] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    adapter_info: Mapping[str, Any] = field(default_factory=dict)
    subgroup_matrix_configs: Iterable[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        features = [] if isinstance(self.features, str) else listed(self.features)
        if not all(isinstance(name, str) for name in features) or isinstance(self.features, str):
            raise RequestError("features", repr(self.features), "a sequence of feature names")
        for argument in ("limits", "adapter_info"):
            named: object = getattr(self, argument)
            if not isinstance(named, Mapping) or not all(isinstance(key, str) for key in named):
                raise RequestError(argument, repr(named), "a dict under WebGPU's own names")
        given = listed(self.subgroup_matrix_configs)
        if not all(isinstance(config, Mapping) for config in given):
            raise RequestError("subgroup_matrix_configs", repr(given), "a sequence of dicts")
        limits = dict(DEFAULT_LIMITS)
        for name, value in self.limits.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise RequestError(f"limits[{name!r}]", repr(value), "a whole number, 0 or more")
            limits[name] = value
        info = {k: _plain(v, f"adapter_info[{k!r}]") for k, v in self.adapter_info.items()}
        configs = tuple(
            MappingProxyType({k: _plain(v, "subgroup_matrix_configs") for k, v in c.items()})
            for c in given
        )
        object.__setattr__(self, "features", frozenset(features))
        object.__setattr__(self, "limits", MappingProxyType(limits))
        object.__setattr__(self, "adapter_info", MappingProxyType(info))
        object.__setattr__(self, "subgroup_matrix_configs", configs)

    @cached_property
    def key(self) -> str:
        """A text that is equal exactly for equal capabilities."""
        return self.to_json()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Capabilities) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def to_json(self, indent: int | None = None) -> str:
        """The device as JSON; `from_json` reads it back."""
        data = {
            "features": sorted(self.features),
            "limits": dict(sorted(self.limits.items())),
            "adapterInfo": dict(sorted(self.adapter_info.items())),
            "subgroupMatrixConfigs": [dict(c) for c in self.subgroup_matrix_configs],
        }
        return json.dumps(data, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Capabilities:
        """Read what `to_json` wrote, or the same written by hand; every key may be left out."""
        try:
            data = json.loads(text)
        except (TypeError, ValueError) as error:
            raise RequestError("device", f"no JSON ({error})", "a JSON object") from None
        known = {"features", "limits", "adapterInfo", "subgroupMatrixConfigs"}
        if not isinstance(data, dict) or not set(data) <= known:
            got = sorted(set(data) - known) if isinstance(data, dict) else type(data).__name__
            raise RequestError("device", got, f"a JSON object with {', '.join(sorted(known))}")
        return cls(
            features=data.get("features", ()),
            limits=data.get("limits", {}),
            adapter_info=data.get("adapterInfo", {}),
            subgroup_matrix_configs=data.get("subgroupMatrixConfigs", ()),
        )

    def __repr__(self) -> str:
        changed = {k: v for k, v in self.limits.items() if DEFAULT_LIMITS.get(k) != v}
        return (
            f"Capabilities(features={sorted(self.features)}, limits={changed}, "
            f"adapter_info={dict(self.adapter_info)}, "
            f"subgroup_matrix_configs={[dict(c) for c in self.subgroup_matrix_configs]})"
        )


_current: Capabilities | None = None


def set_current(capabilities: Capabilities | None) -> None:
    """Name the device that planning is for when none is given: the page's own."""
    global _current
    _current = capabilities


def current() -> Capabilities:
    """The page's device once there is one, else what every WebGPU device guarantees."""
    return _current if _current is not None else Capabilities()
