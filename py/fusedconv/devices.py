"""Descriptions of devices by name, to plan for without having them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .capabilities import Capabilities

__all__ = ["DEVICES"]

_DESKTOP: Mapping[str, int] = MappingProxyType(
    {
        "maxBufferSize": 2**32,
        "maxStorageBufferBindingSize": 2**31 - 4,
        "maxComputeWorkgroupStorageSize": 32768,
        "maxComputeInvocationsPerWorkgroup": 1024,
        "maxComputeWorkgroupSizeX": 1024,
        "maxComputeWorkgroupSizeY": 1024,
        "maxStorageBuffersPerShaderStage": 10,
    }
)
_WAVE32 = {"subgroupMinSize": 32, "subgroupMaxSize": 32}
_MATRIX = ("shader-f16", "subgroups", "chromium-experimental-subgroup-matrix")


def _matrix(component: str, result: str, m: int, n: int, k: int) -> dict[str, str | int]:
    return {"componentType": component, "resultComponentType": result, "M": m, "N": n, "K": k}


DEVICES: Mapping[str, Capabilities] = MappingProxyType(
    {
        # What every WebGPU device guarantees.
        "default": Capabilities(),
        # A desktop GPU without optional arithmetic.
        "desktop": Capabilities(("subgroups", "timestamp-query"), _DESKTOP, _WAVE32),
        "desktop-f16": Capabilities(
            ("shader-f16", "subgroups", "timestamp-query"), _DESKTOP, _WAVE32
        ),
        # Apple GPUs: subgroups of 32, 8x8x8 matrices of both types.
        "apple": Capabilities(
            (*_MATRIX, "timestamp-query"),
            {**_DESKTOP, "maxComputeWorkgroupStorageSize": 32768},
            {**_WAVE32, "vendor": "apple", "architecture": "metal-3"},
            (
                _matrix("f32", "f32", 8, 8, 8),
                _matrix("f16", "f16", 8, 8, 8),
                _matrix("f16", "f32", 8, 8, 8),
            ),
        ),
        # A GPU whose subgroup size varies and can be pinned.
        "pinned-subgroups": Capabilities(
            (*_MATRIX, "subgroup-size-control"),
            _DESKTOP,
            {"subgroupMinSize": 8, "subgroupMaxSize": 32, "vendor": "intel"},
            (_matrix("f32", "f32", 8, 8, 8), _matrix("f16", "f32", 8, 8, 8)),
        ),
        # Chromium on an NVIDIA H200.
        "h200": Capabilities(
            (*_MATRIX, "timestamp-query"),
            {**_DESKTOP, "maxComputeWorkgroupStorageSize": 49152},
            {**_WAVE32, "vendor": "nvidia", "architecture": "hopper"},
            tuple(
                _matrix("f16", result, *shape)
                for result in ("f16", "f32")
                for shape in ((16, 16, 16), (16, 8, 16), (16, 8, 8))
            ),
        ),
        # Chromium's software adapters.
        "swiftshader": Capabilities(
            ("subgroups", "timestamp-query"),
            {
                "maxBufferSize": 2**30,
                "maxStorageBufferBindingSize": 2**30,
                "maxComputeWorkgroupStorageSize": 32768,
            },
            {
                "vendor": "google",
                "architecture": "swiftshader",
                "subgroupMinSize": 4,
                "subgroupMaxSize": 4,
            },
        ),
        "lavapipe": Capabilities(
            ("shader-f16", "subgroups", "timestamp-query"),
            {
                "maxBufferSize": 2**30,
                "maxStorageBufferBindingSize": 2**27,
                "maxComputeWorkgroupStorageSize": 32768,
                "maxComputeInvocationsPerWorkgroup": 1024,
                "maxComputeWorkgroupSizeX": 1024,
                "maxComputeWorkgroupSizeY": 1024,
            },
            {
                "vendor": "google",
                "architecture": "swiftshader",
                "subgroupMinSize": 8,
                "subgroupMaxSize": 8,
            },
        ),
        # Below WebGPU's guarantees: what compatibility-mode devices may offer.
        "tiny": Capabilities(
            (),
            {
                "maxBufferSize": 2**26,
                "maxStorageBufferBindingSize": 2**24,
                "maxComputeWorkgroupStorageSize": 16384,
                "maxComputeInvocationsPerWorkgroup": 128,
                "maxComputeWorkgroupSizeX": 128,
                "maxComputeWorkgroupSizeY": 128,
            },
        ),
    }
)
