"""fusedconv: ONNX Runtime's FusedConv on the visitor's GPU, from Python in the browser."""

from .api import (
    array,
    batch,
    conv_transpose,
    device,
    empty,
    memory,
    prepare,
    profile,
    run,
    synchronize,
    tune,
)
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
from .gpu.device import Device
from .memory import MemoryReport
from .operator import Operator, explain, load_operator, plan
from .plan import Plan
from .prepared import PreparedConv
from .profiling import CallRecord, PassRecord, Profile
from .selection import Explanation
from .tensor import GpuTensor, HostTensor
from .tuning import Measured, Tuning, Tunings, tunings

__version__ = "0.1.0"

__all__ = [
    "CallRecord",
    "Capabilities",
    "Device",
    "DeviceError",
    "DeviceLost",
    "Explanation",
    "FusedConvError",
    "GpuTensor",
    "HostTensor",
    "ManifestError",
    "Measured",
    "MemoryReport",
    "Operator",
    "OutOfMemory",
    "PassRecord",
    "Plan",
    "PreparedConv",
    "Profile",
    "RequestError",
    "ShaderError",
    "Tuning",
    "Tunings",
    "UnsupportedError",
    "WebGPUUnavailable",
    "array",
    "batch",
    "conv_transpose",
    "device",
    "empty",
    "explain",
    "load_operator",
    "memory",
    "plan",
    "prepare",
    "profile",
    "run",
    "synchronize",
    "tune",
    "tunings",
]
