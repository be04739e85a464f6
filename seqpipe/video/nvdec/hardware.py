"""NVDEC's capabilities; and the hardware decoder of one coded size, reused by streams of that size, with its frames."""

from __future__ import annotations

import ctypes
from collections import deque
from ctypes import Structure, c_int64, c_void_p
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, Protocol

from ...core.finalizers import Finalizer
from ...errors import BackendError
from ..convert.surface import surface_format
from ..cuda.device_surface import DeviceSurface, SurfaceShape
from ..cuda.memory import out_of_memory, release_idle
from ..probe.info import StreamInfo
from .cuvid import CHROMA, CODECS, Caps, CreateInfo, Cuvid, ProcParams, VideoFormat, load

__all__ = [
    "MOST_FRAMES_PER_LAUNCH",
    "Ability",
    "ConversionParams",
    "HardwareDecoder",
    "MappedFrame",
    "PaintParams",
    "Painting",
    "ReleasedDecoders",
    "StreamShape",
    "ability",
    "engines",
    "exact_refusal",
    "plane_layout",
    "refusal",
]

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


# NV12, P016, YUV444, YUV444_16Bit by (4:4:4, more than 8 bits)
_OUTPUT_FORMATS = {(False, False): 0, (False, True): 1, (True, False): 2, (True, True): 3}
_CHROMA_444 = 3
_OUT_OF_MEMORY = 2
_CACHED_LAYOUTS = 256
# The sequence callback's result 1 means "no change" to the parser, which then uses more surfaces than the decoder has,
# and decoding fails with CUDA error 1. The parser asks for one surface where all frames are key frames.
_FEWEST_SURFACES = 2
# Measured on an H200 besides the surfaces of a decoder: 5 MiB at 340×256, 8 MiB at 1080p.
_DECODER_OVERHEAD = 8 << 20


@dataclass(frozen=True)
class StreamShape:
    """Properties of a stream that decide whether a hardware decoder can decode it.

    Attributes:
        codec: cudaVideoCodec.
        chroma: cudaVideoChromaFormat.
        bits: bits per sample.
        width: coded width in pixels.
        height: coded height in pixels.
        area: display area (x, y, width, height) within the coded size.
        surfaces: minimum number of decode surfaces.
    """

    codec: int
    chroma: int
    bits: int
    width: int
    height: int
    area: tuple[int, int, int, int]
    surfaces: int

    @classmethod
    def of(cls, form: VideoFormat) -> StreamShape:
        """Return the shape of a stream from the parser's sequence header."""
        bits = 8 + max(form.luma_bits_minus_8, form.chroma_bits_minus_8)
        shown = form.display_area
        area = (shown.left, shown.top, shown.right - shown.left, shown.bottom - shown.top)
        return cls(
            form.codec,
            form.chroma,
            bits,
            _coded(form.coded_width),
            _coded(form.coded_height),
            area,
            max(form.min_surfaces, _FEWEST_SURFACES),
        )

    @property
    def coded(self) -> tuple[int, int, int, int, int]:
        """Properties that cannot change without a new decoder."""
        return self.codec, self.chroma, self.bits, self.width, self.height


class MappedFrame(Finalizer):
    """Decoded frame mapped into GPU memory; its address is returned to the decoder when the last reference is dropped.

    Attributes:
        pointer: address of the first luma sample of the coded frame.
        pitch: bytes per row.
        shape: shape of its stream; the chroma planes follow the coded rows of luma.
    """

    __slots__ = ("_decoder", "pitch", "pointer", "shape")
    _decoder: HardwareDecoder
    pointer: int
    pitch: int
    shape: StreamShape

    def __new__(cls, decoder: HardwareDecoder, pointer: int, pitch: int, shape: StreamShape) -> MappedFrame:
        """Create a frame of a decoder, and keep the decoder alive as long as the frame."""
        self = super().__new__(cls, decoder.returned.append, pointer)
        self._decoder = decoder
        self.pointer, self.pitch, self.shape = pointer, pitch, shape
        return self

    def surface(self, number: int) -> DeviceSurface:
        """Return the frame as a surface: luma, then interleaved chroma, or Cb and Cr for 4:4:4."""
        form, offsets = plane_layout(self.shape, self.pitch)
        pointer = self.pointer
        return form.surface(number, tuple([pointer + offset for offset in offsets]), self)


class ReleasedDecoders:
    """Decoders of one GPU that are no longer referenced and wait for destruction.

    They are not destroyed by their finalizer: that takes long, and a forked process must not destroy its parent's.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Cuvid, ctypes.c_void_p, deque[int]]] = deque()

    def note(self, cuvid: Cuvid, handle: ctypes.c_void_p, returned: deque[int]) -> Finalizer:
        """Return a finalizer for a decoder to hold, which queues the decoder with its mapped frames."""
        return Finalizer(self._waiting.append, (cuvid, handle, returned))

    def destroy(self) -> None:
        """Unmap the frames of the queued decoders and destroy these; the GPU must be the current one."""
        while True:
            try:
                cuvid, handle, returned = self._waiting.popleft()
            except IndexError:  # no check beforehand: another thread may take the last one
                return
            while returned:
                cuvid.unmap_frame(handle, returned.popleft())
            cuvid.destroy_decoder(handle)


class HardwareDecoder:
    """Decoder of the driver (CUvideodecoder); belongs to one thread at a time.

    Args:
        cuvid: the library.
        shape: shape of the first stream.
        stream: address of the CUDA stream that frames are mapped on.
        most_mapped: number of frames that may be mapped while nothing is decoded.
        several: whether a packet may hold several frames.
        released: queue for decoders that are no longer referenced.

    Attributes:
        returned: addresses of mapped frames that are no longer in use; any thread may append to it.
        pitch: bytes per row of a mapped frame; 0 until the first one is mapped.

    Raises:
        BackendError: the GPU refuses the stream.
        DeviceMemoryError: the GPU is full, even after idle decoders were closed.
    """

    def __init__(
        self,
        cuvid: Cuvid,
        shape: StreamShape,
        *,
        stream: int,
        most_mapped: int,
        several: bool,
        released: ReleasedDecoders,
    ) -> None:
        self._handle = ctypes.c_void_p()
        self._cuvid = cuvid
        self.returned: deque[int] = deque()
        self.pitch = 0
        self.shape = shape
        self.surfaces = shape.surfaces
        # One more for each frame of the packet being parsed: a frame that waits in the surface it is decoded into is
        # mapped early, and mapping is also how to wait for a frame that is still being decoded there.
        self._outputs = most_mapped + (self.surfaces if several else 1)
        info = CreateInfo(
            width=shape.width,
            height=shape.height,
            decode_surfaces=self.surfaces,
            codec=shape.codec,
            chroma=shape.chroma,
            bits_minus_8=shape.bits - 8,
            max_width=shape.width,
            max_height=shape.height,
            output_format=_OUTPUT_FORMATS[shape.chroma == _CHROMA_444, shape.bits > 8],
            target_width=shape.width,
            target_height=shape.height,
            output_surfaces=self._outputs,
        )
        info.display_area.right, info.display_area.bottom = shape.width, shape.height
        self._create(info)
        self._note = released.note(cuvid, self._handle, self.returned)
        self._proc = ProcParams(stream=stream)

    @property
    def memory(self) -> int:
        """Approximate GPU memory of the decoder in bytes."""
        samples = self.shape.width * self.shape.height * (3 if self.shape.chroma == _CHROMA_444 else 1.5)
        frame = int(samples * (1 if self.shape.bits == 8 else 2))
        return _DECODER_OVERHEAD + frame * (self.surfaces + self._outputs)

    @property
    def addresses(self) -> tuple[int | None, int]:
        """The driver's handle, and the address of the mapping parameters (CUVIDPROCPARAMS)."""
        return self._handle.value, ctypes.addressof(self._proc)

    def use(self, stream: int) -> None:
        """Map frames on another CUDA stream from now on."""
        self._proc.stream = stream

    def accept(self, shape: StreamShape) -> bool:
        """Switch to another stream if its coded size and format fit; returns whether they do."""
        fits = shape.coded == self.shape.coded and shape.surfaces <= self.surfaces
        if fits:
            self.shape = shape
        return fits

    def unmap_returned(self) -> None:
        """Unmap the frames that are no longer in use."""
        while self.returned:
            self._cuvid.unmap_frame(self._handle, self.returned.popleft())

    def _create(self, info: CreateInfo) -> None:
        """Create the driver's decoder; without memory, once more after idle ones were released."""
        arguments = ctypes.byref(self._handle), ctypes.byref(info)
        code = self._cuvid.create_decoder(*arguments)
        if code == _OUT_OF_MEMORY:
            release_idle()
            code = self._cuvid.create_decoder(*arguments)
        self.check(code, "create a decoder for")

    def check(self, code: int, what: str) -> None:
        """Raise an error for a CUDA error code other than 0."""
        if not code:
            return
        shape = self.shape
        if code == _OUT_OF_MEMORY:
            raise out_of_memory(f"an NVDEC decoder for {shape.width}×{shape.height} pixels", self.memory)
        raise BackendError(
            f"NVDEC could not {what} {shape.width}×{shape.height} pixels of {shape.bits} bits "
            f"(codec {shape.codec}, chroma {shape.chroma}): CUDA error {code}",
            advice="Use decode='cpu' for this file",
        )


def _coded(side: int) -> int:
    """Round a side up to whole macroblocks where the parser reports the display size as the coded size."""
    return side if side % 2 == 0 else -(-side // 16) * 16


@lru_cache(_CACHED_LAYOUTS)
def plane_layout(shape: StreamShape, pitch: int) -> tuple[SurfaceShape, tuple[int, ...]]:
    """Return the surface shape and the plane offsets of a stream's mapped frames."""
    x, y, width, height = shape.area
    size = 1 if shape.bits == 8 else 2
    plane = pitch * shape.height
    first = y * pitch + x * size
    separate = shape.chroma == _CHROMA_444
    offsets: tuple[int, ...] = (first, plane + y // 2 * pitch + x // 2 * 2 * size)
    if separate:
        offsets = (first, first + plane, first + 2 * plane)
    stem = "yuv444p" if separate else "yuv420p"
    form = surface_format(stem if shape.bits == 8 else f"{stem}{shape.bits}le")
    shift = 0 if shape.bits == 8 else 16 - shape.bits
    return SurfaceShape(pitch, width, height, form, not separate, shift), offsets


MOST_FRAMES_PER_LAUNCH: Final = 8
"""Maximum number of frames that one launch converts."""
_PLANES: Final = 3


class ConversionParams(Structure):
    """C structure: the kernel of one converter, its grid, and the argument that frames are gathered in."""

    _fields_ = [
        ("kernel", c_void_p),
        ("argument", c_void_p),
        ("columns", c_int64),
        ("rows", c_int64),
        ("depths", c_int64 * (MOST_FRAMES_PER_LAUNCH + 1)),
        ("frames", c_int64),
    ]


class PaintParams(Structure):
    """C structure: addresses of driver functions, the layout of mapped frames, and the conversions."""

    _fields_ = [
        ("launch", c_void_p),
        ("record", c_void_p),
        ("wait_for_event", c_void_p),
        ("wait_for_stream", c_void_p),
        ("stream", c_void_p),
        ("events", c_void_p * 2),
        ("frames_per_launch", c_int64),
        ("threads", c_int64),
        ("count_at", c_int64),
        ("sequence", c_int64),
        ("pitch", c_int64),
        ("planes", c_int64),
        ("offsets", c_int64 * _PLANES),
        ("begun", c_int64),
        ("count", c_int64),
        ("conversions", c_void_p),
    ]


class Painting(Protocol):
    """Conversions of the frames of a fused run, configured once the parser has announced the stream."""

    @property
    def params(self) -> PaintParams:
        """Structure that the C code reads; the painting keeps alive what it refers to."""

    def fit(self, shape: StreamShape, pitch: int, sequence: int) -> None:
        """Configure the conversions for a stream."""
