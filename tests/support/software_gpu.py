"""A GPU for machines without one: libavcodec behind the driver's decoder interface, CuPy's names over NumPy's memory.

Only what the driver does is imitated. Parsing into an elementary stream, feeding, handing over, uploading, converting
and all that decides who does what are the library's own; its kernels run as :mod:`tests.support.emulated` runs them.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from contextlib import nullcontext
from ctypes import CFUNCTYPE, c_int, c_uint64
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqpipe.video.cuda import painter
from seqpipe.video.engine import gpu_backends
from seqpipe.video.nvdec import cuvid, hardware, session
from seqpipe.video.nvdec.cuvid import CODECS, Packet
from tests.support.cuvid_callbacks import CuvidCallbacks, PictureParams, Status
from tests.support.emulated import EmulatedDevice
from tests.support.fake_cupy import FakeCupy
from tests.support.software_parser import CHROMA, CODEC_NAMES, SoftwareParser
from tests.support.software_vp9 import SoftwareVp9Parser

__all__ = ["SoftwareGpu"]

_ENGINES = 2
_GPU_BYTES = 1 << 34
_WORD, _POINTER = ctypes.c_uint, ctypes.c_void_p
_LAUNCH = CFUNCTYPE(c_int, _POINTER, *[_WORD] * 7, *[_POINTER] * 3)
_RECORD = CFUNCTYPE(c_int, _POINTER, _POINTER)
_WAIT = CFUNCTYPE(c_int, _POINTER)
_SUPPORTED = ("h264", "hevc", "vp9")
_MOST_OUTPUTS = 64  # an H200 refused 67 or more, see device_surface.py


class SoftwareGpu:
    """Stands where a GPU, its driver and CuPy do, while it is in use.

    Args:
        device: runs the kernels.

    Attributes:
        cuvid: the driver's decoder library.
    """

    def __init__(self, device: EmulatedDevice) -> None:
        self.cuvid = SoftwareCuvid()
        self._device = _Handles(device)
        self._launching = SoftwareDriver(self._device)

    def install(self, patch: pytest.MonkeyPatch, *, waits_s: float = 0.0) -> None:
        """Take the GPU's place until the patch is undone.

        Args:
            patch: what is undone.
            waits_s: how long it takes to wait for a stream.
        """
        patch.setattr(_Stream, "waits_s", waits_s)
        patch.setitem(sys.modules, "cupy", SoftwareCupy())
        for user in (cuvid, session, hardware):
            patch.setattr(user, "load", lambda: self.cuvid)
        patch.setattr(painter, "KernelDevice", lambda _number: self._device)
        patch.setattr(painter, "launch_functions", self._launching.addresses)
        for remembered in (hardware.ability, painter.converters_of, gpu_backends._pool):
            remembered.cache_clear()

    def remove(self) -> None:
        """Forget what the library remembers of the GPU; nothing of it may be left."""
        gpu_backends._pool(0).clear()
        for remembered in (hardware.ability, painter.converters_of, gpu_backends._pool):
            remembered.cache_clear()
        faults = self.cuvid.faults + self._launching.faults
        assert not faults, faults


class _Handles:
    """A device whose kernels have handles, as a driver's do."""

    def __init__(self, device: EmulatedDevice) -> None:
        self._device, self._lock = device, threading.Lock()
        self._kernels: list[Any] = []

    def launch(self, *arguments: Any) -> None:
        self._device.launch(*arguments)

    def handle(self, *kernel: Any) -> int:
        with self._lock:
            if kernel not in self._kernels:
                self._kernels.append(kernel)
            return 1 + self._kernels.index(kernel)

    def kernel(self, handle: int) -> Any:
        """What a handle stands for."""
        return self._kernels[handle - 1]


class SoftwareDriver:
    """Stands where the driver's functions for launch_functions do; everything is done at once.

    Args:
        device: runs the kernels.

    Attributes:
        faults: what they raised.
    """

    def __init__(self, device: _Handles) -> None:
        self._device = device
        self.faults: list[BaseException] = []
        kinds = (self._launch, _LAUNCH), (self._record, _RECORD), (self._event, _WAIT), (self._stream, _WAIT)
        self._kept = [kind(function) for function, kind in kinds]

    def addresses(self) -> tuple[int, ...]:
        """Where they are."""
        return tuple(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in self._kept)

    def _launch(self, kernel: int, x: int, y: int, z: int, threads: int, _y: int, _z: int, *rest: Any) -> int:
        _shared, stream, arguments, _extra = rest
        try:
            source, function, defines = self._device.kernel(kernel)
            address = ctypes.c_void_p.from_address(arguments).value or 0
            job = (ctypes.c_uint8 * defines["JOB_BYTES"]).from_address(address)
            argument = np.ndarray((), np.dtype((np.void, len(job))), job)
            self._device.launch(source, function, defines, (x, y, z), threads, argument, stream)
        except BaseException as error:  # it would be printed and forgotten by ctypes
            self.faults.append(error)
            return 999
        return 0

    def _record(self, _event: int, _stream: int) -> int:
        return 0

    def _event(self, _event: int) -> int:
        return 0

    def _stream(self, _stream: int) -> int:
        time.sleep(_Stream.waits_s)
        return 0


class SoftwareCuvid(CuvidCallbacks):
    """Stands where :class:`seqpipe.video.nvdec.cuvid.Cuvid` does.

    Attributes:
        decoders: by handle.
        early: how many pictures were handed over before one was decoded into their surface, while a packet was parsed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.decoders: dict[int, _Decoder] = {}
        self.early = 0
        self._parsers: dict[int, SoftwareParser] = {}
        self._parsing = threading.local()
        self._next = 0
        self._lock = threading.Lock()

    def get_decoder_caps(self, reference: Any) -> int:
        asked = reference._obj
        name, form = CODEC_NAMES[asked.codec], (asked.chroma, asked.bits_minus_8 + 8)
        asked.supported = name in _SUPPORTED and form in CHROMA.values()
        asked.engines = _ENGINES
        asked.max_width = asked.max_height = 8192
        asked.max_macroblocks = 1 << 18
        asked.min_width = asked.min_height = 48
        return 0

    def create_parser(self, handle: Any, params: Any) -> int:
        parser = SoftwareVp9Parser if params._obj.codec == CODECS["vp9"] else SoftwareParser
        handle._obj.value = self._numbered(self._parsers, parser(params._obj))
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
        try:
            parser.parse(Packet.from_address(address), address)
        finally:
            self._parsing.parser = None
        return 0

    def decode_picture(self, handle: Any, picture: int) -> int:
        if (decoder := self.decoders.get(_value(handle))) is None:
            return 201
        if decoder.parser is not (parser := self._parsing.parser):  # another parser feeds it from now on
            decoder.parser, decoder.pictures = parser, parser.pictures
        decoder.parser.decode(PictureParams.from_address(picture).surface)
        return 0

    def status(self, handle: Any, surface: int, address: int) -> int:
        Status.from_address(address).state = self.decoders[_value(handle)].parser.states[surface]
        return 0

    def map_frame(self, handle: Any, surface: int, pointer: int, pitch: int, _proc: int) -> int:
        decoder = self.decoders[_value(handle)]
        if len(decoder.mapped) >= decoder.outputs:
            return 205
        if (
            decoder.pictures is decoder.parser.pictures
        ):  # else it was waited for when another decoder was made
            decoder.parser.finish(surface)
        picture = decoder.pictures[surface].copy()
        address = picture.ctypes.data
        self.early += self._parsing.parser is not None
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

    def __init__(self, parser: SoftwareParser, outputs: int) -> None:
        self.parser, self.outputs = parser, outputs
        self.pictures = parser.pictures = {}
        self.mapped: dict[int, NDArray[np.uint8]] = {}


def _value(handle: Any) -> int:
    return int(handle if isinstance(handle, int) else handle.value)


class _GpuArray(np.ndarray):
    """An array that tells its address as CuPy's do."""

    @property
    def data(self) -> Any:  # type: ignore[override]  # CuPy's means another thing
        return SimpleNamespace(ptr=self.ctypes.data)


class _Stream:
    """Does at once what is queued; who waits for it may have to wait for a while all the same."""

    ptr = 1
    waits_s = 0.0

    def __init__(self, **_: Any) -> None: ...

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None: ...

    def synchronize(self) -> None:
        time.sleep(self.waits_s)

    def wait_event(self, _event: Any) -> None: ...


class _Event:
    ptr = 1

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
        super().__init__(_GPU_BYTES)
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
        return np.empty(shape, dtype).view(_GpuArray)


class _Device(nullcontext[None]):
    def use(self) -> None: ...
