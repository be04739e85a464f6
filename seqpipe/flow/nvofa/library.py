"""Loading of the driver's optical-flow library, with the newest supported interface."""

from __future__ import annotations

import ctypes
import glob
from functools import cache
from typing import Any, Final

from ...errors import BackendError
from .abi import FUNCTIONS, STATUS, VERSIONS, FunctionList

__all__ = ["ADVICE", "Api", "api", "interface", "load_library", "status_name"]

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
