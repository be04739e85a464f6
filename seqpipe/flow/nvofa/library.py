"""The driver's optical-flow library: structures and constants of its interface 5.0, which extends 2.0 to 4.0; loading.

A test compiles the same declarations in C and compares sizes and offsets.
"""

from __future__ import annotations

import ctypes
import glob
from functools import cache
from typing import Any, Final

from ...errors import BackendError

__all__ = [
    "ADVICE",
    "BOTH",
    "CAPS",
    "COST",
    "DEVICE_POINTER",
    "FORWARD",
    "FUNCTIONS",
    "GRAY8",
    "HINT",
    "INPUT",
    "OPTICAL_FLOW",
    "OUTPUT",
    "PERFORMANCE",
    "SHORT2",
    "STATUS",
    "STRUCTURES",
    "UINT8",
    "VERSIONS",
    "Api",
    "BufferDescriptor",
    "BufferStride",
    "ExecuteInput",
    "ExecuteOutput",
    "FunctionList",
    "InitParams",
    "RoiRect",
    "StrideInfo",
    "api",
    "interface",
    "load_library",
    "status_name",
]

_u32, _i32, _pointer = ctypes.c_uint32, ctypes.c_int32, ctypes.c_void_p

VERSIONS: Final = (0x50, 0x40, 0x30, 0x20)
"""Of the interface, newest first: the major number in the upper four bits."""

STATUS: Final = (
    "NV_OF_SUCCESS",
    "NV_OF_ERR_OF_NOT_AVAILABLE",
    "NV_OF_ERR_UNSUPPORTED_DEVICE",
    "NV_OF_ERR_DEVICE_DOES_NOT_EXIST",
    "NV_OF_ERR_INVALID_PTR",
    "NV_OF_ERR_INVALID_PARAM",
    "NV_OF_ERR_INVALID_CALL",
    "NV_OF_ERR_INVALID_VERSION",
    "NV_OF_ERR_OUT_OF_MEMORY",
    "NV_OF_ERR_NOT_INITIALIZED",
    "NV_OF_ERR_UNSUPPORTED_FEATURE",
    "NV_OF_ERR_GENERIC",
)
"""The names of the codes that functions return, from 0 on."""

CAPS: Final = (
    "output_grids",
    "hint_grids",
    "hints_with_flow",
    "hints_with_stereo",
    "width_min",
    "height_min",
    "width_max",
    "height_max",
    "roi",
    "roi_max",
    "stereo",
)
"""Queries of a device's capabilities, from 0 on."""

PERFORMANCE: Final = {"slow": 5, "medium": 10, "fast": 20}
OPTICAL_FLOW: Final = 1  # the mode; 2 is stereo
INPUT, OUTPUT, HINT, COST = 1, 2, 3, 4  # what a buffer is for
GRAY8, SHORT2, UINT8 = 1, 5, 7  # formats of buffers
DEVICE_POINTER: Final = 2  # a buffer's kind of memory; 1 is an array of CUDA
FORWARD, BOTH = 0, 2  # the directions of a session


class InitParams(ctypes.Structure):
    """NV_OF_INIT_PARAMS; 2.0 ends before predDirection."""

    _fields_ = (
        ("width", _u32),
        ("height", _u32),
        ("outGridSize", _i32),
        ("hintGridSize", _i32),
        ("mode", _i32),
        ("perfLevel", _i32),
        ("enableExternalHints", _i32),
        ("enableOutputCost", _i32),
        ("hPrivData", _pointer),
        ("disparityRange", _i32),
        ("enableRoi", _i32),
        ("predDirection", _i32),
        ("enableGlobalFlow", _i32),
        ("inputBufferFormat", _i32),
    )


class BufferDescriptor(ctypes.Structure):
    """NV_OF_BUFFER_DESCRIPTOR."""

    _fields_ = (("width", _u32), ("height", _u32), ("bufferUsage", _i32), ("bufferFormat", _i32))


class RoiRect(ctypes.Structure):
    """NV_OF_ROI_RECT."""

    _fields_ = (("start_x", _u32), ("start_y", _u32), ("width", _u32), ("height", _u32))


class ExecuteInput(ctypes.Structure):
    """NV_OF_EXECUTE_INPUT_PARAMS."""

    _fields_ = (
        ("inputFrame", _pointer),
        ("referenceFrame", _pointer),
        ("externalHints", _pointer),
        ("disableTemporalHints", _i32),
        ("padding", _u32),
        ("hPrivData", _pointer),
        ("padding2", _u32),
        ("numRois", _u32),
        ("roiData", _pointer),
    )


class ExecuteOutput(ctypes.Structure):
    """NV_OF_EXECUTE_OUTPUT_PARAMS; 2.0 ends before bwdOutputBuffer."""

    _fields_ = (
        ("outputBuffer", _pointer),
        ("outputCostBuffer", _pointer),
        ("hPrivData", _pointer),
        ("bwdOutputBuffer", _pointer),
        ("bwdOutputCostBuffer", _pointer),
        ("globalFlowBuffer", _pointer),
    )


class BufferStride(ctypes.Structure):
    """NV_OF_BUFFER_STRIDE."""

    _fields_ = (("strideXInBytes", _u32), ("strideYInBytes", _u32))


class StrideInfo(ctypes.Structure):
    """NV_OF_CUDA_BUFFER_STRIDE_INFO."""

    _fields_ = (("strideInfo", BufferStride * 3), ("numPlanes", _u32))


def _to(kind: Any) -> Any:
    return ctypes.POINTER(kind)


# name → (what it returns, its arguments), in the order of NV_OF_CUDA_API_FUNCTION_LIST
FUNCTIONS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "nvCreateOpticalFlowCuda": (_i32, (_pointer, _to(_pointer))),
    "nvOFInit": (_i32, (_pointer, _to(InitParams))),
    "nvOFCreateGPUBufferCuda": (_i32, (_pointer, _to(BufferDescriptor), _i32, _to(_pointer))),
    "nvOFGPUBufferGetCUarray": (_pointer, (_pointer,)),
    "nvOFGPUBufferGetCUdeviceptr": (ctypes.c_uint64, (_pointer,)),
    "nvOFGPUBufferGetStrideInfo": (_i32, (_pointer, _to(StrideInfo))),
    "nvOFSetIOCudaStreams": (_i32, (_pointer, _pointer, _pointer)),
    "nvOFExecute": (_i32, (_pointer, _to(ExecuteInput), _to(ExecuteOutput))),
    "nvOFDestroyGPUBufferCuda": (_i32, (_pointer,)),
    "nvOFDestroy": (_i32, (_pointer,)),
    "nvOFGetLastError": (_i32, (_pointer, ctypes.c_char_p, _to(_u32))),
    "nvOFGetCaps": (_i32, (_pointer, _i32, _to(_u32), _to(_u32))),
}


class FunctionList(ctypes.Structure):
    """NV_OF_CUDA_API_FUNCTION_LIST, followed by spare memory for functions of newer drivers."""

    _fields_ = (*((name, _pointer) for name in FUNCTIONS), ("spare", _pointer * 32))


STRUCTURES: Final = (
    InitParams,
    BufferDescriptor,
    RoiRect,
    ExecuteInput,
    ExecuteOutput,
    BufferStride,
    StrideInfo,
    FunctionList,
)


ADVICE: Final = "Give backend='auto' or backend='dis', which compute it on the CPU"
_NAME: Final = "libnvidia-opticalflow"
_DEPENDENCY: Final = "libnvcuvid"  # the library loads it by name only, from the loader's search path
_FOLDERS: Final = (
    "/usr/local/nvidia/lib64/",
    "/usr/local/nvidia/lib/",
    "/usr/lib/x86_64-linux-gnu/",
    "/usr/lib/aarch64-linux-gnu/",
    "/usr/lib64/",
    "/usr/lib/",
)


class Api:
    """The library's functions, as attributes, in one version of the interface.

    Args:
        library: the loaded library.

    Attributes:
        version: version of the interface, 0x20 to 0x50.

    Raises:
        BackendError: the library supports none of the known interfaces.
    """

    def __init__(self, library: Any) -> None:
        create = library.NvOFAPICreateInstanceCuda
        create.argtypes, create.restype = [ctypes.c_uint32, ctypes.POINTER(FunctionList)], ctypes.c_int32
        newest = _newest(library)
        table, codes = FunctionList(), dict[int, int]()
        for version in VERSIONS:
            if newest is not None and version > newest:
                continue
            ctypes.memset(ctypes.byref(table), 0, ctypes.sizeof(table))
            codes[version] = create(version, ctypes.byref(table))
            if codes[version] == 0:
                break
        else:
            refusals = ", ".join(f"{v >> 4}.0: {status_name(code)}" for v, code in codes.items())
            raise BackendError(
                f"the optical-flow library of the driver has none of the known interfaces ({refusals})",
                advice=f"Update the NVIDIA driver. {ADVICE}",
            )
        self.version = version
        self._library = library  # its functions require it to stay loaded
        for name, (returned, arguments) in FUNCTIONS.items():
            setattr(self, name, ctypes.CFUNCTYPE(returned, *arguments)(getattr(table, name)))

    def __getattr__(self, name: str) -> Any:  # for type checkers: functions are set above
        raise AttributeError(name)


def status_name(code: int) -> str:
    """Return the name of a status code."""
    return STATUS[code] if 0 <= code < len(STATUS) else f"NV_OF_STATUS_{code}"


def interface() -> str:
    """Return the version of the interface in use, such as 5.0."""
    return f"{api().version >> 4}.{api().version & 15}"


@cache
def api() -> Api:
    """Return the functions of the driver's library, loaded once."""
    return Api(load_library())


def load_library() -> ctypes.CDLL:
    """Load the driver's library."""
    for path in _candidates(_DEPENDENCY):
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            break
        except OSError:
            continue  # the library may still find it by its own search path
    reasons = []
    for path in _candidates(_NAME):
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            reasons.append(str(error))
    raise BackendError(
        f"the driver's optical-flow library cannot be loaded ({reasons[0]})",
        advice=f"It comes with the NVIDIA driver; containers see it with NVIDIA_DRIVER_CAPABILITIES=video. {ADVICE}",
    )


def _candidates(stem: str) -> list[str]:
    """Return names and paths of a library: in the loader's search path, then in folders that containers mount."""
    paths = [path for folder in _FOLDERS for path in sorted(glob.glob(f"{folder}{stem}.so*"))]  # noqa: PTH207  text
    return [f"{stem}.so.1", f"{stem}.so", *paths]


def _newest(library: Any) -> int | None:
    """Return the newest interface version that the library reports; None if it reports none."""
    function = getattr(library, "NvOFGetMaxSupportedApiVersion", None)
    if function is None:
        return None
    function.argtypes, function.restype = [ctypes.POINTER(ctypes.c_uint32)], ctypes.c_int32
    version = ctypes.c_uint32()
    return int(version.value) if function(ctypes.byref(version)) == 0 else None
