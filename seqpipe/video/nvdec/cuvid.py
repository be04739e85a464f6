"""ctypes binding of the driver's NVDECODE interface (libnvcuvid): structures, functions, constants.

The structures follow NVIDIA's public headers cuviddec.h and nvcuvid.h (Video Codec SDK 9 to 13, whose layouts agree in
the fields used here) and the NVDEC Video Decoder API Programming Guide. The library is part of the driver.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int16,
    c_longlong,
    c_ubyte,
    c_uint,
    c_uint64,
    c_ulong,
    c_ushort,
    c_void_p,
)
from functools import cache
from typing import Any, Final

from ...errors import BackendError

__all__ = [
    "CHROMA",
    "CODECS",
    "DISPLAY",
    "END_OF_PICTURE",
    "END_OF_STREAM",
    "PICTURE",
    "SEQUENCE",
    "TIMESTAMP",
    "Caps",
    "CreateInfo",
    "Cuvid",
    "Display",
    "Packet",
    "ParserParams",
    "ProcParams",
    "VideoFormat",
    "load",
]

CODECS: Final = {
    "mpeg1video": 0,
    "mpeg2video": 1,
    "mpeg4": 2,
    "h264": 4,
    "hevc": 8,
    "vp8": 9,
    "vp9": 10,
    "av1": 11,
}
"""cudaVideoCodec by FFmpeg's codec names, for the supported codecs."""
CHROMA: Final = {"gray": 0, "4:2:0": 1, "4:2:2": 2, "4:4:4": 3}
"""cudaVideoChromaFormat by the chroma of :class:`seqpipe.video.convert.surface.SurfaceFormat`."""

END_OF_STREAM, TIMESTAMP, END_OF_PICTURE = 1, 2, 8
"""CUVID_PKT_* flags of a packet."""

_LIBRARY = "nvcuvid.dll" if sys.platform == "win32" else "libnvcuvid.so.1"


class _Rect16(Structure):
    _fields_ = [("left", c_int16), ("top", c_int16), ("right", c_int16), ("bottom", c_int16)]


class _Rect32(Structure):
    _fields_ = [("left", c_int), ("top", c_int), ("right", c_int), ("bottom", c_int)]


class Caps(Structure):
    """CUVIDDECODECAPS: what a GPU can decode."""

    _fields_ = [
        ("codec", c_int),
        ("chroma", c_int),
        ("bits_minus_8", c_uint),
        ("reserved_1", c_uint * 3),
        ("supported", c_ubyte),
        ("engines", c_ubyte),
        ("output_formats", c_ushort),
        ("max_width", c_uint),
        ("max_height", c_uint),
        ("max_macroblocks", c_uint),
        ("min_width", c_ushort),
        ("min_height", c_ushort),
        ("reserved_2", c_uint * 11),
    ]


class CreateInfo(Structure):
    """CUVIDDECODECREATEINFO."""

    _fields_ = [
        ("width", c_ulong),
        ("height", c_ulong),
        ("decode_surfaces", c_ulong),
        ("codec", c_int),
        ("chroma", c_int),
        ("flags", c_ulong),
        ("bits_minus_8", c_ulong),
        ("intra_only", c_ulong),
        ("max_width", c_ulong),
        ("max_height", c_ulong),
        ("reserved_1", c_ulong),
        ("display_area", _Rect16),
        ("output_format", c_int),
        ("deinterlace", c_int),
        ("target_width", c_ulong),
        ("target_height", c_ulong),
        ("output_surfaces", c_ulong),
        ("lock", c_void_p),
        ("target_rect", _Rect16),
        ("reserved_2", c_ulong * 5),
    ]


class VideoFormat(Structure):
    """CUVIDEOFORMAT: a stream as the parser reads it from the sequence header."""

    _fields_ = [
        ("codec", c_int),
        ("rate_numerator", c_uint),
        ("rate_denominator", c_uint),
        ("progressive", c_ubyte),
        ("luma_bits_minus_8", c_ubyte),
        ("chroma_bits_minus_8", c_ubyte),
        ("min_surfaces", c_ubyte),
        ("coded_width", c_uint),
        ("coded_height", c_uint),
        ("display_area", _Rect32),
        ("chroma", c_int),
        ("bit_rate", c_uint),
        ("aspect", c_int * 2),
        ("signal", c_ubyte * 4),
        ("header_length", c_uint),
    ]


class Display(Structure):
    """CUVIDPARSERDISPINFO: a frame released for display."""

    _fields_ = [
        ("surface", c_int),
        ("progressive", c_int),
        ("top_field_first", c_int),
        ("repeat_first_field", c_int),
        ("timestamp", c_longlong),
    ]


class ProcParams(Structure):
    """CUVIDPROCPARAMS: how a frame is mapped."""

    _fields_ = [
        ("progressive", c_int),
        ("second_field", c_int),
        ("top_field_first", c_int),
        ("unpaired_field", c_int),
        ("reserved_flags", c_uint),
        ("reserved_zero", c_uint),
        ("raw_input", c_uint64),
        ("raw_input_pitch", c_uint),
        ("raw_input_format", c_uint),
        ("raw_output", c_uint64),
        ("raw_output_pitch", c_uint),
        ("reserved_1", c_uint),
        ("stream", c_void_p),
        ("reserved_2", c_uint * 46),
        ("reserved_3", c_void_p * 2),
    ]


class Packet(Structure):
    """CUVIDSOURCEDATAPACKET."""

    _fields_ = [("flags", c_ulong), ("size", c_ulong), ("payload", c_char_p), ("timestamp", c_longlong)]


SEQUENCE: Final = CFUNCTYPE(c_int, c_void_p, POINTER(VideoFormat))
PICTURE: Final = CFUNCTYPE(c_int, c_void_p, c_void_p)
DISPLAY: Final = CFUNCTYPE(c_int, c_void_p, POINTER(Display))


class ParserParams(Structure):
    """CUVIDPARSERPARAMS."""

    _fields_ = [
        ("codec", c_int),
        ("decode_surfaces", c_uint),
        ("clock_rate", c_uint),
        ("error_threshold", c_uint),
        ("display_delay", c_uint),
        ("reserved_1", c_uint * 5),
        ("user_data", c_void_p),
        ("on_sequence", SEQUENCE),
        ("on_picture", PICTURE),
        ("on_display", DISPLAY),
        ("reserved_2", c_void_p * 7),
        ("extended_format", c_void_p),
    ]


class Cuvid:
    """Functions of the library; those that may wait for the GPU release the GIL.

    Args:
        waiting: the library, loaded so that calls release the GIL.
        quick: the library, loaded so that calls hold the GIL, for functions that return immediately.
    """

    def __init__(self, waiting: ctypes.CDLL, quick: ctypes.PyDLL) -> None:
        self.get_decoder_caps = _function(waiting, "cuvidGetDecoderCaps", POINTER(Caps))
        self.create_parser = _function(
            waiting, "cuvidCreateVideoParser", POINTER(c_void_p), POINTER(ParserParams)
        )
        self.destroy_parser = _function(waiting, "cuvidDestroyVideoParser", c_void_p)
        self.create_decoder = _function(waiting, "cuvidCreateDecoder", POINTER(c_void_p), POINTER(CreateInfo))
        self.destroy_decoder = _function(waiting, "cuvidDestroyDecoder", c_void_p)
        self.decode_picture = _function(waiting, "cuvidDecodePicture", c_void_p, c_void_p)
        self.status = _function(quick, "cuvidGetDecodeStatus", c_void_p, c_int, c_void_p)
        self.map_frame = _function(
            waiting, "cuvidMapVideoFrame64", c_void_p, c_int, c_void_p, c_void_p, c_void_p
        )
        # Parsing takes microseconds; only the functions that its callbacks call wait for the GPU.
        self.parse = _function(quick, "cuvidParseVideoData", c_void_p, c_void_p)
        self.unmap_frame = _function(quick, "cuvidUnmapVideoFrame64", c_void_p, c_uint64)

    def addresses(self) -> tuple[int, ...]:
        """Return the addresses of parse, decode_picture, status, map_frame and unmap_frame."""
        functions = self.parse, self.decode_picture, self.status, self.map_frame, self.unmap_frame
        return tuple(ctypes.cast(function, c_void_p).value or 0 for function in functions)


@cache
def load() -> Cuvid:
    """Load the driver's decoder library."""
    try:
        return Cuvid(ctypes.CDLL(_LIBRARY), ctypes.PyDLL(_LIBRARY))
    except OSError as error:
        raise BackendError(
            f"{_LIBRARY}, the NVIDIA driver's video decoder, cannot be loaded ({error})",
            advice="Install the NVIDIA driver; in a container set NVIDIA_DRIVER_CAPABILITIES=compute,utility,video. "
            "Or use device='cpu'",
        ) from error


def _function(library: ctypes.CDLL, name: str, *arguments: Any) -> Any:
    function = getattr(library, name)
    function.argtypes = arguments
    function.restype = c_int
    return function
