"""fusedconv: ONNX Runtime's FusedConv on the visitor's GPU, from Python in the browser."""

from .capabilities import Capabilities
from .errors import (
    DeviceError,
    DeviceLost,
    FusedConvError,
    ManifestError,
    OutOfMemory,
    RequestError,
    ShaderError,
    UnsupportedError,
    WebGPUUnavailable,
)
from .operator import Operator, explain, load_operator, plan
from .plan import Plan
from .selection import Explanation

__version__ = "0.1.0"

__all__ = [
    "Capabilities",
    "DeviceError",
    "DeviceLost",
    "Explanation",
    "FusedConvError",
    "ManifestError",
    "Operator",
    "OutOfMemory",
    "Plan",
    "RequestError",
    "ShaderError",
    "UnsupportedError",
    "WebGPUUnavailable",
    "explain",
    "load_operator",
    "plan",
]
