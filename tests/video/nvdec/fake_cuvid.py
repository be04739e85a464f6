"""A driver's decoder library for machines without one: it parses nothing, but calls back as the real one does.

Every packet is one picture. Its payload is text: ``I 0`` or ``P 3`` with the place at which it is shown; a leading
``S 128x96`` announces a stream, ``S 128x96+8`` one whose picture begins at column 8. ``X`` makes a picture that ends
in an error, ``-`` one that the parser drops, ``~`` one that it drops after it has shown all that are inside. Before
``K``, and before a stream, all pictures inside are shown, and ``K`` is decoded into the surface that was shown last.
``H`` is decoded and not shown; ``E 7=3`` decodes nothing, but shows the picture of place 3 at place 7. Timestamps are
wrong, as the driver's may be. Start codes count for nothing.
"""

from __future__ import annotations

import ctypes
import itertools
from ctypes import c_void_p
from typing import Any

from seqpipe.video.nvdec.cuvid import END_OF_STREAM, Display, Packet, VideoFormat
from seqpipe.video.nvdec.hardware import ReleasedDecoders
from tests.support.cuvid_callbacks import CuvidCallbacks, PictureParams, Status

__all__ = ["FakeCuvid"]

SURFACES = 4


class FakeCuvid(CuvidCallbacks):
    """Stands where :class:`seqpipe.video.nvdec.cuvid.Cuvid` does.

    Attributes:
        created: (width, height) of every decoder that was created.
        parsers: handles of the parsers that were created and not destroyed.
        mapped: pointers that are mapped now, each with its decoder and the place of the picture there.
        released: where decoders go that nothing refers to any more.
        decoders: how many decoders there are now.
        outputs: how many pictures of each decoder may be mapped.
        payloads: what was parsed.
        delay: how many pictures wait to be shown before the first of them is.
        min_surfaces: what the parser asks for.
        surfaces: how many of them the parser uses now; an answer of 1 means as many as before.
        decode_surfaces: how many the last decoder has.
        shows: how often each picture is shown.
    """

    def __init__(self) -> None:
        super().__init__()
        self.created: list[tuple[int, int]] = []
        self.parsers: list[int] = []
        self.mapped: dict[int, tuple[int, int]] = {}
        self.released = ReleasedDecoders()
        self.decoders = 0
        self.payloads: list[bytes] = []
        self.delay = 2
        self.shows = 1
        self.min_surfaces = SURFACES
        self.surfaces = self.decode_surfaces = 0
        self.outputs: dict[int, int] = {}
        self._params: Any = None
        self._newest = 0
        self._states: dict[int, int] = {}
        self._waiting: list[tuple[int, int]] = []
        self._surface = itertools.count()
        self._shown_last = 0
        self._surface_of: dict[int, int] = {}
        self._places: dict[tuple[int, int], int] = {}
        self._pointers = itertools.count(4096, 4096)

    def create_parser(self, handle: Any, params: Any) -> int:
        handle._obj.value = self._newest = self._newest + 1
        self.parsers.append(self._newest)
        self._params = params._obj
        self.surfaces = self._params.decode_surfaces
        return 0

    def destroy_parser(self, handle: Any) -> int:
        self.parsers.remove(_value(handle))
        return 0

    def parse(self, parser: int, address: int) -> int:
        assert parser in self.parsers
        packet = Packet.from_address(address)
        if packet.flags & END_OF_STREAM:
            self._show(everything=True)
            return 0
        begin = c_void_p.from_address(address + Packet.payload.offset).value
        payload = ctypes.string_at(begin or 0, packet.size)  # beyond its zeros, unlike packet.payload
        self.payloads.append(payload)
        words = payload.replace(b"\0\0\0\1", b" ").decode().split()
        if words[0] == "S":
            self._show(everything=True)
            size, _, left = words[1].partition("+")
            width, height = map(int, size.split("x"))
            form = VideoFormat(
                codec=4, coded_width=width, coded_height=height, chroma=1, min_surfaces=self.min_surfaces
            )
            form.display_area.left = int(left or 0)
            form.display_area.right, form.display_area.bottom = width, height
            answer = self._params.on_sequence(self._params.user_data, ctypes.pointer(form))
            if not answer:
                return 0
            self.surfaces = answer if answer > 1 else self.surfaces
            words = words[2:]
        kind, place = words
        if kind == "-":
            return 0
        if kind == "E":
            at, _, earlier = place.partition("=")
            self._waiting.append((int(at), self._surface_of[int(earlier)]))
            self._show()
            return 0
        if kind in ("K", "~"):
            self._show(everything=True)
        if kind == "~":
            return 0
        surface = self._shown_last if kind == "K" else next(self._surface) % (SURFACES + 4)
        picture = PictureParams(surface=surface)
        self._states[surface] = 9 if kind == "X" else 2
        self._place = int(place)
        self._surface_of[self._place] = surface
        if self._params.on_picture(self._params.user_data, ctypes.addressof(picture)) and kind != "H":
            self._waiting.append((int(place), surface))
            self._show()
        return 0

    def _show(self, *, everything: bool = False) -> None:
        self._waiting.sort()
        while self._waiting and (everything or len(self._waiting) > self.delay):
            _, surface = self._waiting.pop(0)
            self._shown_last = surface
            for _ in range(self.shows):
                self._params.on_display(
                    self._params.user_data, ctypes.pointer(Display(surface=surface, progressive=1))
                )

    def create_decoder(self, handle: Any, info: Any) -> int:
        made = info._obj
        self.created.append((made.width, made.height))
        self.decoders += 1
        handle._obj.value = len(self.created)
        self.outputs[len(self.created)] = made.output_surfaces
        self.decode_surfaces = made.decode_surfaces
        return 0

    def destroy_decoder(self, handle: Any) -> int:
        assert _value(handle) not in {decoder for decoder, _ in self.mapped.values()}, (
            "its pictures are in use"
        )
        self.decoders -= 1
        return 0

    def decode_picture(self, handle: Any, picture: int) -> int:
        self._places[_value(handle), PictureParams.from_address(picture).surface] = self._place
        return 0

    def status(self, _handle: Any, surface: int, address: int) -> int:
        Status.from_address(address).state = self._states[surface]
        return 0

    def map_frame(self, handle: Any, surface: int, pointer: int, pitch: int, _proc: int) -> int:
        decoder = _value(handle)
        if sum(decoder == other for other, _ in self.mapped.values()) >= self.outputs[decoder]:
            return 205
        new = next(self._pointers)
        self.mapped[new] = decoder, self._places[decoder, surface]
        ctypes.c_uint64.from_address(pointer).value = new
        ctypes.c_uint.from_address(pitch).value = 512
        return 0

    def unmap_frame(self, handle: Any, pointer: int) -> int:
        decoder, _ = self.mapped.pop(pointer)
        assert decoder == _value(handle)
        return 0


def _value(handle: Any) -> int:
    return int(handle if isinstance(handle, int) else handle.value)
