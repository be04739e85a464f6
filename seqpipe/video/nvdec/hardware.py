"""Hardware decoder of one frame size, reused by consecutive streams of that size."""

from __future__ import annotations

import ctypes
from collections import deque
from dataclasses import dataclass
from functools import lru_cache

from ...errors import BackendError
from ..convert.surface import surface_format
from ..cuda.device_surface import DeviceSurface, SurfaceShape
from ..cuda.memory import out_of_memory, release_idle
from ..finalizers import Afterwards
from .cuvid import IN_PROGRESS, CreateInfo, Cuvid, Display, ProcParams, Status, VideoFormat

__all__ = ["Forgotten", "HardwareDecoder", "Mapped", "StreamShape", "planes_of"]

# NV12, P016, YUV444, YUV444_16Bit by (4:4:4, more than 8 bits)
_OUTPUT_FORMATS = {(False, False): 0, (False, True): 1, (True, False): 2, (True, True): 3}
_CHROMA_444 = 3
_OUT_OF_MEMORY = 2
_SHAPES = 256  # that are remembered
# The parser takes one surface for no answer: it goes on with as many as before, and a decoder that has one refuses them
# with CUDA error 1. It asks for one where all are key frames.
_FEWEST_SURFACES = 2
# what an H200 was seen to take for a decoder besides pictures: 5 MiB at 340×256, 8 at 1080p
_WITHOUT_PICTURES = 8 << 20


@dataclass(frozen=True)
class StreamShape:
    """What of a stream decides whether a decoder can take it.

    Attributes:
        codec: cudaVideoCodec.
        chroma: cudaVideoChromaFormat.
        bits: bits of a sample.
        width: coded columns.
        height: coded rows.
        area: (x, y, width, height) of the picture within them.
        surfaces: pictures that a decoder must be able to hold for it.
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
        """What the parser has found."""
        bits = 8 + max(form.luma_bits_minus_8, form.chroma_bits_minus_8)
        shown = form.display_area
        area = (shown.left, shown.top, shown.right - shown.left, shown.bottom - shown.top)
        return cls(
            form.codec,
            form.chroma,
            bits,
            _whole(form.coded_width),
            _whole(form.coded_height),
            area,
            max(form.min_surfaces, _FEWEST_SURFACES),
        )

    @property
    def coded(self) -> tuple[int, int, int, int, int]:
        """What cannot change without a new decoder."""
        return self.codec, self.chroma, self.bits, self.width, self.height


class Mapped(Afterwards):
    """A decoded picture in the GPU's memory. It is handed back when the last reference to it is gone.

    Attributes:
        pointer: address of the first luma sample of the coded picture.
        pitch: bytes from row to row.
        shape: of its stream; chroma begins after as many rows as the coded picture has.
    """

    __slots__ = ("_decoder", "pitch", "pointer", "shape")
    _decoder: HardwareDecoder
    pointer: int
    pitch: int
    shape: StreamShape

    def __new__(cls, decoder: HardwareDecoder, pointer: int, pitch: int, shape: StreamShape) -> Mapped:
        """A picture of a decoder, which lives as long as it does."""
        self = super().__new__(cls, decoder.returned.append, pointer)
        self._decoder = decoder
        self.pointer, self.pitch, self.shape = pointer, pitch, shape
        return self

    def surface(self, number: int) -> DeviceSurface:
        """Where its planes lie: luma, then interleaved chroma, or Cb and Cr for 4:4:4.

        Args:
            number: the frame's number.
        """
        form, offsets = planes_of(self.shape, self.pitch)
        pointer = self.pointer
        return form.surface(number, tuple([pointer + offset for offset in offsets]), self)


class Forgotten:
    """The decoders of one GPU that nothing refers to any more.

    They are not destroyed when that happens: it takes long, and a forked process may not do it with its parent's.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Cuvid, ctypes.c_void_p, deque[int]]] = deque()

    def note(self, cuvid: Cuvid, handle: ctypes.c_void_p, returned: deque[int]) -> Afterwards:
        """What a decoder holds, so that it is noted with those of its pictures that are still mapped."""
        return Afterwards(self._waiting.append, (cuvid, handle, returned))

    def destroy(self) -> None:
        """Destroy them, and what is mapped with them; the GPU must be the current one."""
        while True:
            try:
                cuvid, handle, returned = self._waiting.popleft()
            except IndexError:  # to look first would not do: another thread may take the last one
                return
            while returned:
                cuvid.unmap_frame(handle, returned.popleft())
            cuvid.destroy_decoder(handle)


class HardwareDecoder:
    """A CUvideodecoder; belongs to one thread at a time.

    Args:
        cuvid: the library.
        shape: the first stream it is for.
        stream: the CUDA stream on which pictures are handed over.
        at_once: pictures that may be mapped while nothing is decoded.
        several: whether a packet may hold several pictures.
        forgotten: where it goes when nothing refers to it any more.

    Attributes:
        returned: the addresses of pictures that are no longer used, and still mapped; any thread may add to them.
        pitch: bytes from row to row of a picture; 0 as long as none was handed over.

    Raises:
        BackendError: the GPU refuses; the message names the stream and the reason.
        DeviceMemoryError: the GPU is full, also after idle decoders were given back.
    """

    def __init__(
        self,
        cuvid: Cuvid,
        shape: StreamShape,
        *,
        stream: int,
        at_once: int,
        several: bool,
        forgotten: Forgotten,
    ) -> None:
        self._handle = ctypes.c_void_p()
        self._cuvid = cuvid
        self.returned: deque[int] = deque()
        self._status = Status()
        self.pitch = 0
        self.shape = shape
        self.surfaces = shape.surfaces
        # one more while a packet is parsed, for each picture that is in it: what waits where that is decoded into is
        # mapped early, and what is still being decoded there is mapped to wait for it
        self._outputs = at_once + (self.surfaces if several else 1)
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
        self._note = forgotten.note(cuvid, self._handle, self.returned)
        self._proc = ProcParams(stream=stream)
        self._pointer, self._pitch = ctypes.c_uint64(), ctypes.c_uint()
        self._map_arguments = (
            ctypes.addressof(self._pointer),
            ctypes.addressof(self._pitch),
            ctypes.addressof(self._proc),
        )
        self._status_address = ctypes.addressof(self._status)

    @property
    def memory(self) -> int:
        """About how many bytes of the GPU it holds."""
        samples = self.shape.width * self.shape.height * (3 if self.shape.chroma == _CHROMA_444 else 1.5)
        picture = int(samples * (1 if self.shape.bits == 8 else 2))
        return _WITHOUT_PICTURES + picture * (self.surfaces + self._outputs)

    @property
    def addresses(self) -> tuple[int | None, int]:
        """The driver's handle, and where the parameters of handing over lie."""
        return self._handle.value, ctypes.addressof(self._proc)

    def use(self, stream: int) -> None:
        """Hand pictures over on another CUDA stream from now on."""
        self._proc.stream = stream

    def take(self, shape: StreamShape) -> bool:
        """Make ready for a stream, if it can be decoded here."""
        fits = shape.coded == self.shape.coded and shape.surfaces <= self.surfaces
        if fits:
            self.shape = shape
        return fits

    def decode(self, picture: int) -> int:
        """Begin to decode the picture at an address; returns CUDA's error code."""
        code: int = self._cuvid.decode_picture(self._handle, picture)
        return code

    def state(self, surface: int) -> int:
        """The cuvidDecodeStatus of the picture in a surface; 0 where the codec has none."""
        if self._cuvid.status(self._handle, surface, self._status_address):
            return 0
        state: int = self._status.state
        return state

    def map(self, display: Display, shape: StreamShape) -> Mapped:
        """Wait for a picture of a stream and hand it over.

        Raises:
            BackendError: the GPU refuses.
        """
        pointer = self._map(display)
        return Mapped(self, pointer, self._pitch.value, shape)

    def _map(self, display: Display) -> int:
        self.unmap_returned()
        proc = self._proc
        proc.progressive = display.progressive
        proc.second_field = display.repeat_first_field + 1
        proc.top_field_first = display.top_field_first
        proc.unpaired_field = display.repeat_first_field < 0
        self.check(
            self._cuvid.map_frame(self._handle, display.surface, *self._map_arguments),
            "hand over a picture of",
        )
        return self._pointer.value

    def wait(self, surface: int) -> int:
        """Wait until a picture is decoded; returns its state."""
        if (state := self.state(surface)) != IN_PROGRESS:
            return state
        self.returned.append(self._map(Display(surface=surface, progressive=1)))
        return self.state(surface)

    def unmap_returned(self) -> None:
        """Unmap what was handed back."""
        while self.returned:
            self._cuvid.unmap_frame(self._handle, self.returned.popleft())

    def _create(self, info: CreateInfo) -> None:
        arguments = ctypes.byref(self._handle), ctypes.byref(info)
        code = self._cuvid.create_decoder(*arguments)
        if code == _OUT_OF_MEMORY:
            release_idle()
            code = self._cuvid.create_decoder(*arguments)
        self.check(code, "create a decoder for")

    def check(self, code: int, what: str) -> None:
        """Raise what a code of CUDA means, if it is not 0.

        Raises:
            DeviceMemoryError: the GPU is full.
            BackendError: anything else.
        """
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


def _whole(side: int) -> int:
    """Some parsers tell the picture's size for the coded one; what is coded are whole macroblocks."""
    return side if side % 2 == 0 else -(-side // 16) * 16


@lru_cache(_SHAPES)
def planes_of(shape: StreamShape, pitch: int) -> tuple[SurfaceShape, tuple[int, ...]]:
    """How the pictures of a stream are to be read, and where their planes begin: the same for all of them."""
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
