"""What takes the place of the driver's decoder library, as callers that are no Python find it."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, Structure, c_int, c_uint, c_uint64, c_void_p
from functools import partial
from typing import Any

__all__ = ["CuvidCallbacks", "PictureParams", "Status"]

_UNKNOWN = 999  # CUDA_ERROR_UNKNOWN
_KINDS = {
    "parse": (c_void_p, c_void_p),
    "decode_picture": (c_void_p, c_void_p),
    "status": (c_void_p, c_int, c_void_p),
    "map_frame": (c_void_p, c_int, c_void_p, c_void_p, c_void_p),
    "unmap_frame": (c_void_p, c_uint64),
}


class PictureParams(Structure):
    """First fields of CUVIDPICPARAMS; the codec's own part follows and is passed on unread."""

    _fields_ = [
        ("width_in_macroblocks", c_int),
        ("height_in_macroblocks", c_int),
        ("surface", c_int),
        ("is_field", c_int),
        ("is_bottom_field", c_int),
        ("is_second_field", c_int),
    ]


class Status(Structure):
    """CUVIDGETDECODESTATUS."""

    _fields_ = [("state", c_int), ("reserved_1", c_uint * 31), ("reserved_2", c_void_p * 8)]


class CuvidCallbacks:
    """Methods of these names, by their addresses; for one that imitates the library.

    Attributes:
        faults: what they raised, which no caller that is C could let through.
    """

    def __init__(self) -> None:
        self.faults: list[BaseException] = []
        # not on demand: of two threads that make them at once, one would keep addresses of freed functions
        self._kept = tuple(
            CFUNCTYPE(c_int, *kind)(partial(self._answer, name)) for name, kind in _KINDS.items()
        )

    def addresses(self) -> tuple[int, ...]:
        """Where its functions are."""
        return tuple(ctypes.cast(function, c_void_p).value or 0 for function in self._kept)

    def _answer(self, name: str, *arguments: Any) -> int:
        try:
            code: int = getattr(self, name)(*arguments)
        except BaseException as error:  # it would be printed and forgotten by ctypes
            self.faults.append(error)
            return _UNKNOWN
        return code
