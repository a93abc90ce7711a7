"""The texts that the JavaScript side gives for errors, as the package's own exceptions."""

from __future__ import annotations

import json

from ..errors import (
    DeviceError,
    DeviceLost,
    FusedConvError,
    OutOfMemory,
    RequestError,
    ShaderError,
    WebGPUUnavailable,
)

__all__ = ["error_of", "unavailable"]

BROWSERS = (
    "Chrome or Edge 113 and later, Safari 26 and later, Firefox 141 and later on Windows (145 on "
    "macOS)"
)
_UNAVAILABLE = {
    "insecure": "WebGPU needs a secure context: serve the page over https or from localhost",
    "no-gpu": f"this browser has no WebGPU: use {BROWSERS}, or on Linux start Chrome with "
    "--enable-unsafe-webgpu --enable-features=Vulkan",
    "no-adapter": "WebGPU found no adapter: see chrome://gpu; turn on hardware acceleration in the "
    "browser's settings, update the GPU driver, or start Chrome with --enable-unsafe-webgpu (and "
    "--use-webgpu-adapter=swiftshader to run on the CPU)",
    "refused": "the adapter gave no device",
    "missing-features": "the adapter lacks features that were asked for",
    "no-browser": "running needs WebGPU, which only a browser offers: load this package in "
    f"Pyodide, in {BROWSERS}. Planning (fusedconv.plan, fusedconv.explain) works here",
}


def unavailable(reason: str, detail: str = "") -> WebGPUUnavailable:
    """The error for a reason of the table, which tells what to do about it."""
    text = _UNAVAILABLE[reason]
    return WebGPUUnavailable(f"{text} ({detail})" if detail else text)


def error_of(text: str, argument: str = "buffer") -> FusedConvError:
    """The exception for the JSON `{kind, message, ...}`."""
    data = json.loads(text)
    kind, message = data["kind"], data["message"]
    if kind == "unavailable":
        insecure = message == "no-gpu" and not data.get("secure", True)
        return unavailable("insecure" if insecure else message, data.get("detail", ""))
    if kind == "lost":
        return DeviceLost(message)
    if kind == "memory":
        return OutOfMemory(message)
    if kind == "shader":
        return ShaderError(data["template"], data["line"], message)
    if kind == "request":
        return RequestError(argument, message, data["allowed"])
    return DeviceError(message)
