"""The family of errors that fusedconv raises; every one is a `FusedConvError`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .selection import Explanation

__all__ = [
    "DeviceError",
    "DeviceLost",
    "FusedConvError",
    "ManifestError",
    "OutOfMemory",
    "RequestError",
    "ShaderError",
    "UnsupportedError",
    "WebGPUUnavailable",
]


# How much of what was given an error repeats.
LONGEST = 200


class FusedConvError(Exception):
    """Base of every error raised on purpose by this package."""


class RequestError(FusedConvError, ValueError):
    """An argument of a call is wrong: which one, what was given, what is allowed."""

    def __init__(self, argument: str, got: object, allowed: str) -> None:
        self.argument = argument
        self.got = got
        self.allowed = allowed
        text = str(got)
        shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
        super().__init__(f"{argument}: got {shown}; allowed: {allowed}")


class ManifestError(FusedConvError, ValueError):
    """An operator's manifest or one of its templates is wrong, at `path` inside the file."""

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        self.message = message
        super().__init__(f"{path}: {message}" if path else message)


class UnsupportedError(FusedConvError):
    """The request is valid but no variant serves it on this device; `explanation` says why."""

    def __init__(self, message: str, explanation: Explanation | None = None) -> None:
        self.explanation = explanation
        super().__init__(message)


class DeviceError(FusedConvError):
    """WebGPU refused or failed."""


class WebGPUUnavailable(DeviceError):
    """There is no WebGPU here; the message says how to get it."""


class DeviceLost(DeviceError):
    """The GPUDevice was lost (driver reset, `destroy()`); results after that are invalid."""


class OutOfMemory(DeviceError):
    """The GPU could not allocate a buffer, or it would pass the memory budget."""


class ShaderError(DeviceError):
    """WGSL did not compile: the template, the line in the rendered text, the browser's message."""

    def __init__(self, template: str, line: int, message: str) -> None:
        self.template = template
        self.line = line
        self.message = message
        super().__init__(f"{template}, line {line} of the rendered WGSL: {message}")
