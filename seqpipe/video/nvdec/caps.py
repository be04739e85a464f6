"""NVDEC capabilities: the streams that a GPU can decode, and the reason why it cannot decode others."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

from ...errors import BackendError
from ..convert.surface import surface_format
from ..probe.info import StreamInfo
from .cuvid import CHROMA, CODECS, Caps, load

__all__ = ["Ability", "ability", "engines", "exact_refusal", "refusal"]


# Codecs whose parser reports the display size as the coded size.
_UNALIGNED = frozenset(CODECS[name] for name in ("mpeg1video", "mpeg2video", "mpeg4", "vp8"))
_INEXACT = frozenset({"mpeg1video", "mpeg2video", "mpeg4"})
_LOSSLESS = "High 4:4:4 Predictive"


@dataclass(frozen=True)
class Ability:
    """Limits of the current device's engines for one codec, chroma format and bit depth.

    Attributes:
        supported: whether the engines decode such streams.
        engines: number of engines.
        max_size: maximum (width, height).
        min_size: minimum (width, height).
        max_macroblocks: maximum number of 16×16 macroblocks.
    """

    supported: bool
    engines: int
    max_size: tuple[int, int]
    min_size: tuple[int, int]
    max_macroblocks: int


@cache
def ability(device: int, codec: int, chroma: int, bits: int) -> Ability:
    """Query the driver; memoized by ``device``, which must be the current device, with a context."""
    caps = Caps(codec=codec, chroma=chroma, bits_minus_8=bits - 8)
    if code := load().get_decoder_caps(ctypes.byref(caps)):
        raise BackendError(f"the decoder capabilities of cuda:{device} cannot be queried: CUDA error {code}")
    return Ability(
        supported=bool(caps.supported),
        engines=caps.engines,
        max_size=(caps.max_width, caps.max_height),
        min_size=(caps.min_width, caps.min_height),
        max_macroblocks=caps.max_macroblocks,
    )


def engines(device: int) -> int:
    """Return the number of decoder engines of the current device."""
    return ability(device, CODECS["h264"], CHROMA["4:2:0"], 8).engines


def refusal(device: int, info: StreamInfo) -> str:
    """Return why the current device cannot decode a stream, as one clause; "" if it can."""
    codec, form = CODECS.get(info.codec), surface_format(info.pixel_format)
    if codec is None:
        return f"NVDEC does not decode {info.codec}"
    if form.chroma not in CHROMA:
        return f"NVDEC does not decode {form.chroma} chroma"
    found = ability(device, codec, CHROMA[form.chroma], form.bits)
    if not found.supported:
        return f"this GPU does not decode {info.codec} with {form.bits} bits and {form.chroma} chroma"
    size = (info.width, info.height)
    if codec in _UNALIGNED and (size[0] % 2 or size[1] % 2):
        return f"NVDEC does not decode {info.codec} of odd width or height correctly"
    if any(side < least for side, least in zip(size, found.min_size, strict=True)):
        return f"this GPU decodes {info.codec} only from {found.min_size[0]}×{found.min_size[1]} pixels on"
    blocks = -(-size[0] // 16) * -(-size[1] // 16)
    if blocks > found.max_macroblocks or any(
        side > most for side, most in zip(size, found.max_size, strict=True)
    ):
        return f"this GPU decodes {info.codec} only up to {found.max_size[0]}×{found.max_size[1]} pixels"
    return ""


def exact_refusal(device: int, info: StreamInfo) -> str:
    """Return why the current device cannot decode a stream to the CPU decoder's frames; "" if it can.

    The inverse transforms of MPEG-1, 2 and 4 are not exact by their standards, so that frames differ between decoders,
    and the GPU does not report damage in them. Nor does it in VP8, which has no checks: where damage ends a partition
    early, a frame shows what its surface held before. NVDEC ignores the transform bypass of H.264's lossless profile.
    """
    if info.codec == "h264" and info.profile == _LOSSLESS:
        return (
            f"NVDEC decodes lossless macroblocks of H.264's profile {_LOSSLESS} with errors of up to 3 values"
        )
    if info.codec in _INEXACT:
        return f"NVDEC decodes {info.codec} to other frames than the CPU does, and does not report damage in them"
    if info.codec == "vp8":
        return (
            "NVDEC does not report damage in vp8, and its damaged frames depend on those decoded before them"
        )
    return refusal(device, info)
