"""A driver's decoder library for machines without one: it parses nothing, but calls back as the real one does.

Every packet is one picture. Its payload is text: ``I 0`` or ``P 3`` with the place at which it is shown; a leading
``S 128x96`` announces a stream. ``X`` makes a picture that ends in an error, ``-`` one that the parser drops.
Start codes count for nothing.
"""

from __future__ import annotations

import ctypes
import itertools
from ctypes import c_void_p
from typing import Any

from seqpipe.video.nvdec.cuvid import (
    END_OF_STREAM,
    Display,
    Packet,
    Picture,
    Status,
    VideoFormat,
)
from seqpipe.video.nvdec.hardware import Forgotten
from tests.support.cuvid_callbacks import CuvidCallbacks

__all__ = ["FakeCuvid"]

SURFACES = 4


class FakeCuvid(CuvidCallbacks):
    """Stands where :class:`seqpipe.video.nvdec.cuvid.Cuvid` does.

    Attributes:
        created: (width, height) of every decoder that was created.
        mapped: pointers that are mapped now.
        forgotten: where decoders go that nothing refers to any more.
        decoders: how many decoders there are now.
        payloads: what was parsed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.created: list[tuple[int, int]] = []
        self.mapped: set[int] = set()
        self.forgotten = Forgotten()
        self.decoders = 0
        self.payloads: list[bytes] = []
        self.outputs = 0
        self._params: Any = None
        self._states: dict[int, int] = {}
        self._waiting: list[tuple[int, int]] = []
        self._surface = itertools.count()
        self._pointers = itertools.count(4096, 4096)

    def create_parser(self, handle: Any, params: Any) -> int:
        handle._obj.value = 1
        self._params = params._obj
        return 0

    def destroy_parser(self, _handle: Any) -> int:
        return 0

    def parse(self, _parser: Any, address: int) -> int:
        packet = Packet.from_address(address)
        if packet.flags & END_OF_STREAM:
            self._show(everything=True)
            return 0
        begin = c_void_p.from_address(address + Packet.payload.offset).value
        payload = ctypes.string_at(begin or 0, packet.size)  # beyond its zeros, unlike packet.payload
        self.payloads.append(payload)
        words = payload.replace(b"\0\0\0\1", b" ").decode().split()
        if words[0] == "S":
            width, height = map(int, words[1].split("x"))
            form = VideoFormat(
                codec=4, coded_width=width, coded_height=height, chroma=1, min_surfaces=SURFACES
            )
            form.display_area.right, form.display_area.bottom = width, height
            if not self._params.on_sequence(self._params.user_data, ctypes.pointer(form)):
                return 0
            words = words[2:]
        kind, place = words
        if kind == "-":
            return 0
        surface = next(self._surface) % (SURFACES + 4)
        picture = Picture(surface=surface)
        self._states[surface] = 9 if kind == "X" else 2
        if self._params.on_picture(self._params.user_data, ctypes.addressof(picture)):
            self._waiting.append((int(place), surface))
            self._show()
        return 0

    def _show(self, *, everything: bool = False) -> None:
        self._waiting.sort()
        while self._waiting and (everything or len(self._waiting) > 2):
            _, surface = self._waiting.pop(0)
            self._params.on_display(
                self._params.user_data, ctypes.pointer(Display(surface=surface, progressive=1))
            )

    def create_decoder(self, handle: Any, info: Any) -> int:
        made = info._obj
        self.created.append((made.width, made.height))
        self.decoders += 1
        self.outputs = made.output_surfaces
        handle._obj.value = len(self.created)
        return 0

    def destroy_decoder(self, _handle: Any) -> int:
        self.decoders -= 1
        return 0

    def decode_picture(self, _handle: Any, _picture: int) -> int:
        return 0

    def status(self, _handle: Any, surface: int, address: int) -> int:
        Status.from_address(address).state = self._states[surface]
        return 0

    def map_frame(self, _handle: Any, _surface: int, pointer: int, pitch: int, _proc: int) -> int:
        if len(self.mapped) >= self.outputs:
            return 205
        new = next(self._pointers)
        self.mapped.add(new)
        ctypes.c_uint64.from_address(pointer).value = new
        ctypes.c_uint.from_address(pitch).value = 512
        return 0

    def unmap_frame(self, _handle: Any, pointer: int) -> int:
        self.mapped.remove(pointer)
        return 0
