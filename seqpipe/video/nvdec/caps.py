"""NVDEC capabilities: what a GPU can decode, and the reason in words where it cannot."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

from ...errors import BackendError
from ..convert.surface import SurfaceFormat, surface_format
from ..probe.info import StreamInfo
from .cuvid import CHROMA, CODECS, Caps, load

__all__ = ["Ability", "ability", "engines", "mistrust", "refusal"]


# codecs whose parser tells the picture's size for the coded one
_UNALIGNED = frozenset(CODECS[name] for name in ("mpeg1video", "mpeg2video", "mpeg4", "vp8"))
_INEXACT = frozenset({"mpeg1video", "mpeg2video", "mpeg4"})
_LOSSLESS = "High 4:4:4 Predictive"


@dataclass(frozen=True)
class Ability:
    """What the current device's engines do with one kind of stream.

    Attributes:
        supported: whether they decode it at all.
        engines: how many engines there are.
        max_size: the most columns and rows.
        min_size: the fewest columns and rows.
        max_macroblocks: the most blocks of 16×16 pixels.
    """

    supported: bool
    engines: int
    max_size: tuple[int, int]
    min_size: tuple[int, int]
    max_macroblocks: int


@cache
def ability(device: int, codec: int, chroma: int, bits: int) -> Ability:
    """Ask the driver; ``device`` must be the current one, with a context, and is remembered by its number.

    Raises:
        BackendError: the driver's decoder library is not there, or does not answer.
    """
    caps = Caps(codec=codec, chroma=chroma, bits_minus_8=bits - 8)
    if code := load().get_decoder_caps(ctypes.byref(caps)):
        raise BackendError(f"the driver does not tell what cuda:{device} decodes: CUDA error {code}")
    return Ability(
        supported=bool(caps.supported),
        engines=caps.engines,
        max_size=(caps.max_width, caps.max_height),
        min_size=(caps.min_width, caps.min_height),
        max_macroblocks=caps.max_macroblocks,
    )


def engines(device: int) -> int:
    """How many decoder engines the current device has."""
    return ability(device, CODECS["h264"], CHROMA["4:2:0"], 8).engines


def refusal(device: int, info: StreamInfo) -> str:
    """Why the current device cannot decode a stream, as one clause; "" if it can."""
    codec, form = CODECS.get(info.codec), surface_format(info.pixel_format)
    if codec is None:
        return f"NVDEC does not decode {info.codec}"
    if form.chroma not in CHROMA:
        return f"NVDEC does not decode {form.chroma} chroma"
    found = ability(device, codec, CHROMA[form.chroma], form.bits)
    if not found.supported:
        return f"this GPU does not decode {info.codec} with {_named(form)}"
    size = (info.width, info.height)
    if codec in _UNALIGNED and (size[0] % 2 or size[1] % 2):
        return f"NVDEC does not give {info.codec} of odd size as it is"
    if any(side < least for side, least in zip(size, found.min_size, strict=True)):
        return f"this GPU decodes {info.codec} from {found.min_size[0]}×{found.min_size[1]} pixels on"
    blocks = -(-size[0] // 16) * -(-size[1] // 16)
    if blocks > found.max_macroblocks or any(
        side > most for side, most in zip(size, found.max_size, strict=True)
    ):
        return f"this GPU decodes {info.codec} up to {found.max_size[0]}×{found.max_size[1]} pixels"
    return ""


def mistrust(device: int, info: StreamInfo) -> str:
    """Why a stream is better left to the CPU although the GPU may decode it, or cannot; "" if it is not.

    The inverse transforms of MPEG-1, 2 and 4 are not exact by their standards, so that frames differ from decoder to
    decoder, and the GPU does not tell of damage in them. NVDEC ignores the transform bypass of H.264's lossless
    profile.
    """
    if info.codec == "h264" and info.profile == _LOSSLESS:
        return f"lossless macroblocks of H.264's profile {_LOSSLESS} come out of NVDEC up to 3 levels off"
    if info.codec in _INEXACT:
        return f"the frames of {info.codec} from NVDEC are not those of the CPU, and damage in them goes unnoticed"
    return refusal(device, info)


def _named(form: SurfaceFormat) -> str:
    return f"{form.bits} bits and {form.chroma} chroma"
