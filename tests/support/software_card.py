"""A card for machines without one: libavcodec behind the driver's decoder interface, CuPy's names over NumPy's memory.

Only what the driver does is imitated. Parsing into an elementary stream, feeding, handing over, uploading, converting
and all that decides who does what are the library's own; its kernels run as :mod:`tests.support.emulated` runs them.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from contextlib import nullcontext
from ctypes import c_uint64, c_void_p
from types import SimpleNamespace
from typing import Any

import av
import av.error
import numpy as np
import pytest
from av.codec.context import Flags
from numpy.typing import NDArray

from seqpipe.video.gpu import converter, ways
from seqpipe.video.nvdec import caps, session
from seqpipe.video.nvdec.cuvid import CODECS, END_OF_STREAM, Display, Packet, Picture, Status, VideoFormat
from tests.support.cuvid_callbacks import CuvidCallbacks
from tests.support.emulated import EmulatedDevice
from tests.support.fake_cupy import FakeCupy

__all__ = ["SoftwareCard"]

_ENGINES = 2
_CARD_BYTES = 1 << 34
_SUPPORTED = ("h264", "hevc")
_MOST_OUTPUTS = 64  # an H200 refused 67 or more, see device_surface.py
_IN_PROGRESS, _DONE, _FAILED = 1, 2, 9
_ROOM = 4  # surfaces that are free, so that none is used again before it is judged
_NAMES = {number: name for name, number in CODECS.items()}
_RUBBISH = np.full((16, 256), 0x55, np.uint8)
_CHROMA = {"yuv420p": (1, 8), "yuv420p10le": (1, 10), "yuv444p": (3, 8)}


class SoftwareCard:
    """Stands where a card, its driver and CuPy do, while it is in use.

    Args:
        device: runs the kernels.

    Attributes:
        cuvid: the driver's decoder library.
    """

    def __init__(self, device: EmulatedDevice) -> None:
        self.cuvid = SoftwareCuvid()
        self._device = _OneByOne(device)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Take the card's place until the patch is undone."""
        patch.setitem(sys.modules, "cupy", SoftwareCupy())
        patch.setattr(session, "load", lambda: self.cuvid)
        patch.setattr(caps, "load", lambda: self.cuvid)
        patch.setattr(converter, "CudaDevice", lambda _number: self._device)
        for remembered in (caps.ability, converter.converters_of, ways._pool):
            remembered.cache_clear()

    def remove(self) -> None:
        """Forget what the library remembers of the card; nothing of it may be left."""
        ways._pool(0).clear()
        for remembered in (caps.ability, converter.converters_of, ways._pool):
            remembered.cache_clear()
        assert not self.cuvid.faults, self.cuvid.faults


class _OneByOne:
    """Runs one kernel at a time: an emulated one has its thread's numbers in variables of its own."""

    def __init__(self, device: EmulatedDevice) -> None:
        self._device, self._lock = device, threading.Lock()

    def upload(self, array: NDArray[Any], stream: Any) -> tuple[object, int]:
        return self._device.upload(array, stream)

    def launch(self, *given: Any) -> None:
        with self._lock:
            self._device.launch(*given)


class SoftwareCuvid(CuvidCallbacks):
    """Stands where :class:`seqpipe.video.nvdec.cuvid.Cuvid` does.

    Attributes:
        decoders: by handle.
    """

    def __init__(self) -> None:
        super().__init__()
        self.decoders: dict[int, _Decoder] = {}
        self._parsers: dict[int, _Parser] = {}
        self._parsing = threading.local()
        self._next = 0
        self._lock = threading.Lock()

    def get_decoder_caps(self, reference: Any) -> int:
        asked = reference._obj
        name, form = _NAMES[asked.codec], (asked.chroma, asked.bits_minus_8 + 8)
        asked.supported = name in _SUPPORTED and form in _CHROMA.values()
        asked.engines = _ENGINES
        asked.max_width = asked.max_height = 8192
        asked.max_macroblocks = 1 << 18
        asked.min_width = asked.min_height = 48
        return 0

    def create_parser(self, handle: Any, params: Any) -> int:
        handle._obj.value = self._numbered(self._parsers, _Parser(params._obj))
        return 0

    def destroy_parser(self, handle: Any) -> int:
        del self._parsers[_value(handle)]
        return 0

    def create_decoder(self, handle: Any, info: Any) -> int:
        if info._obj.output_surfaces > _MOST_OUTPUTS:
            return 1
        parser = self._parsing.parser
        handle._obj.value = self._numbered(self.decoders, _Decoder(parser, int(info._obj.output_surfaces)))
        return 0

    def destroy_decoder(self, handle: Any) -> int:
        del self.decoders[_value(handle)]
        return 0

    def parse(self, handle: Any, address: int) -> int:
        self._parsing.parser = parser = self._parsers[_value(handle)]
        parser.parse(Packet.from_address(address), address)
        return 0

    def decode_picture(self, handle: Any, _picture: int) -> int:
        return 0 if _value(handle) in self.decoders else 201

    def status(self, handle: Any, surface: int, address: int) -> int:
        Status.from_address(address).state = self.decoders[_value(handle)].parser.states[surface]
        return 0

    def map_frame(self, handle: Any, surface: int, pointer: int, pitch: int, _proc: int) -> int:
        decoder = self.decoders[_value(handle)]
        if len(decoder.mapped) >= decoder.outputs:
            return 205
        picture = decoder.parser.waited_for(surface).copy()
        address = picture.ctypes.data
        decoder.mapped[address] = picture
        c_uint64.from_address(pointer).value = address
        ctypes.c_uint.from_address(pitch).value = picture.shape[1]
        return 0

    def unmap_frame(self, handle: Any, pointer: int) -> int:
        picture = self.decoders[_value(handle)].mapped.pop(int(pointer))
        picture[...] = 0xAA  # whoever still reads it shall see that
        return 0

    def _numbered(self, table: dict[int, Any], value: Any) -> int:
        with self._lock:
            self._next += 1
            table[self._next] = value
            return self._next


class _Decoder:
    """What a CUvideodecoder holds."""

    def __init__(self, parser: _Parser, outputs: int) -> None:
        self.parser, self.outputs = parser, outputs
        self.mapped: dict[int, NDArray[np.uint8]] = {}


class _Parser:
    """A parser and the engine behind it: a picture is decoded before the parser calls back for it."""

    def __init__(self, params: Any) -> None:
        self._codec, self._user = _NAMES[params.codec], params.user_data
        self._on_sequence, self._on_picture = params.on_sequence, params.on_picture
        self._on_display = params.on_display
        self._context: Any = None
        self._at_once: Any = None
        self._judged: dict[int, int] = {}
        self._last = 0
        self._form: tuple[Any, ...] = ()
        self._surfaces, self._number = 0, 0
        self._inside: dict[int, int] = {}
        self._stamps: dict[int, int] = {}
        self.states: dict[int, int] = {}
        self.pictures: dict[int, NDArray[np.uint8]] = {}

    def parse(self, packet: Packet, address: int) -> None:
        if packet.flags & END_OF_STREAM:
            if self._context is not None:
                self._judge(_decoded(self._at_once, None)[0])
                rest = _decoded(self._context, None)[0]
                self._judge(rest)
                self._show(rest)
            self._context, self._inside, self._judged = None, {}, {}
            return
        begin = c_void_p.from_address(address + Packet.payload.offset).value
        coded: Any = av.Packet(ctypes.string_at(begin or 0, packet.size))
        coded.pts = number = self._number = self._number + 1
        if self._context is None:
            self._context, self._at_once = _context(self._codec), _context(self._codec)
            # without reordering: whether a picture is damaged is known soon, as of an engine
            self._at_once.flags |= Flags.low_delay
        known, taken = _decoded(self._at_once, coded)
        frames, _ = _decoded(self._context, coded)
        self._announce()
        surface = self._free()
        self.states[surface] = _IN_PROGRESS if taken else _FAILED
        self._stamps[number] = packet.timestamp
        picture = Picture(surface=surface)
        if self._on_picture(self._user, ctypes.addressof(picture)) and taken:
            self._inside[number] = self._judged[number] = surface
        self._judge(known)
        self._judge(frames)
        self._show(frames)

    def waited_for(self, surface: int) -> NDArray[np.uint8]:
        """What is in a surface once it is decoded; what libavcodec has not given out so far has failed."""
        if self.states[surface] == _IN_PROGRESS:
            self.states[surface] = _FAILED
        return self.pictures.get(surface, _RUBBISH)

    def _free(self) -> int:
        """A surface that nothing is in; where all are, that of a picture that will never come."""
        if len(self._inside) >= self._surfaces - _ROOM:
            del self._inside[min(self._inside)]
        while self._last % self._surfaces in self._inside.values():
            self._last += 1
        self._last += 1
        return (self._last - 1) % self._surfaces

    def _judge(self, frames: list[Any]) -> None:
        """These are finished."""
        for frame in frames:
            if (surface := self._judged.pop(frame.pts, None)) is not None:
                self.states[surface] = _FAILED if frame.is_corrupt else _DONE

    def _announce(self) -> None:
        context = self._context
        form = context.width, context.height, context.pix_fmt
        if form == self._form or not context.width:
            return
        self._form = form
        chroma, bits = _CHROMA[context.pix_fmt.replace("yuvj", "yuv")]
        told = VideoFormat(
            codec=CODECS[self._codec],
            chroma=chroma,
            luma_bits_minus_8=bits - 8,
            chroma_bits_minus_8=bits - 8,
            min_surfaces=20,
            coded_width=-(-context.width // 16) * 16,
            coded_height=-(-context.height // 16) * 16,
        )
        told.display_area.right, told.display_area.bottom = context.width, context.height
        self._surfaces = self._on_sequence(self._user, ctypes.pointer(told))

    def _show(self, frames: list[Any]) -> None:
        for frame in frames:
            if (surface := self._inside.pop(frame.pts, None)) is None:
                continue
            self.pictures[surface] = _laid_down(frame)
            display = Display(surface=surface, progressive=1, timestamp=self._stamps.pop(frame.pts))
            self._on_display(self._user, ctypes.pointer(display))


def _context(codec: str) -> Any:
    context: Any = av.CodecContext.create(codec, "r")
    context.thread_count = 1
    context.options = {"strict": "1"} if codec == "h264" else {"err_detect": "crccheck+explode"}
    return context


def _decoded(context: Any, packet: Any) -> tuple[list[Any], bool]:
    try:
        return context.decode(packet), True
    except av.error.FFmpegError:
        return [], False


def _laid_down(frame: Any) -> NDArray[np.uint8]:
    """A picture as NVDEC lays it down: NV12, P016, or three planes; rows of bytes, below them rubbish."""
    planes = [np.asarray(plane) for plane in _planes(frame)]
    rows, columns = planes[0].shape
    coded_rows = -(-rows // 16) * 16
    separate = planes[1].shape == planes[0].shape
    if not separate:
        both = np.stack(planes[1:], axis=-1)
        planes[1:] = [both.reshape(both.shape[0], -1)]
    pitch = -(-columns * planes[0].itemsize // 256) * 256 + 256
    heights = [coded_rows] * 3 if separate else [coded_rows, coded_rows // 2]
    out = np.full((sum(heights), pitch), 0x55, np.uint8)
    begin = 0
    for plane, height in zip(planes, heights, strict=True):
        line = plane.view(np.uint8).reshape(plane.shape[0], -1)
        out[begin : begin + plane.shape[0], : line.shape[1]] = line
        begin += height
    return out


def _planes(frame: Any) -> list[NDArray[Any]]:
    wide = frame.format.name.endswith("10le")
    found = []
    for plane in frame.planes:
        rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: plane.height]
        if wide:
            found.append(np.ascontiguousarray(rows[:, : 2 * plane.width]).view("<u2") << 6)
        else:
            found.append(np.ascontiguousarray(rows[:, : plane.width]))
    return found


def _value(handle: Any) -> int:
    return int(handle if isinstance(handle, int) else handle.value)


class _CardArray(np.ndarray):
    """An array that tells its address as CuPy's do."""

    @property
    def data(self) -> Any:  # type: ignore[override]  # CuPy's means another thing
        return SimpleNamespace(ptr=self.ctypes.data)


class _Stream:
    """Does at once what is queued."""

    ptr = 1

    def __init__(self, **_: Any) -> None: ...

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None: ...

    def synchronize(self) -> None: ...

    def wait_event(self, _event: Any) -> None: ...


class _Event:
    def __init__(self, **_: Any) -> None: ...

    def record(self, _stream: Any = None) -> None: ...

    def synchronize(self) -> None: ...


class _Memory:
    """What ``cupy.cuda.alloc`` gives."""

    def __init__(self, size: int) -> None:
        self._bytes = np.empty(size, np.uint8)
        self.ptr = self._bytes.ctypes.data

    def copy_from_host_async(self, address: int, size: int, _stream: Any) -> None:
        ctypes.memmove(self.ptr, address, size)


class SoftwareCupy(FakeCupy):
    """Stands where the module ``cupy`` does; its arrays and streams are used."""

    def __init__(self) -> None:
        super().__init__(_CARD_BYTES)
        _Stream.null = _Stream()  # type: ignore[attr-defined]
        self.cuda = SimpleNamespace(
            runtime=self.cuda.runtime,
            Device=lambda _number: _Device(),
            Stream=_Stream,
            Event=_Event,
            alloc=_Memory,
            alloc_pinned_memory=lambda size: bytearray(size),
        )

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return np.empty(shape, dtype).view(_CardArray)


class _Device(nullcontext[None]):
    def use(self) -> None: ...
