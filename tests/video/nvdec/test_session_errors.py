"""What goes wrong on the way through the driver's library ends in the right error, and leaves nothing behind."""

from __future__ import annotations

import ctypes
import signal
import sys
from _thread import interrupt_main
from collections import deque
from functools import partial
from operator import methodcaller
from types import SimpleNamespace

import pytest

from seqpipe.errors import BackendError
from seqpipe.video.bitstream.elementary import ElementaryStream
from seqpipe.video.decode.packets import DecodeError, FedPacket
from seqpipe.video.nvdec import feeder
from seqpipe.video.nvdec import session as session_module
from seqpipe.video.nvdec.cuvid import VideoFormat
from seqpipe.video.nvdec.feeder import native
from seqpipe.video.nvdec.hardware import exact_refusal
from seqpipe.video.nvdec.session import NvdecDecoder, Session
from tests.support.interrupts import lost_interrupts
from tests.video.nvdec.fake_cuvid import FakeCuvid

PACKETS = ("S 128x96 I 0", "P 1", "P 2", "P 3", "P 4", "P 5")
AT = 3


class FaultyCuvid(FakeCuvid):
    """Does one thing wrong, once, when it is asked for it.

    Attributes:
        fault: what; "" again when it was done.
    """

    fault = ""

    def _struck(self, fault: str) -> bool:
        if self.fault != fault:
            return False
        self.fault = ""
        return True

    def create_parser(self, handle, params):
        self._waiting.clear()
        return super().create_parser(handle, params)

    def parse(self, parser, address):
        if self._struck("parser gives up"):
            return 999
        if self._struck("interrupt before a callback"):
            form = VideoFormat(codec=4, coded_width=64, coded_height=48, chroma=1, min_surfaces=2)
            form.display_area.right, form.display_area.bottom = 64, 48
            # The signal must come between two lines of Python, the second of which is the callback's first.
            callback = partial(self._params.on_sequence, self._params.user_data, ctypes.pointer(form))
            return 0 if list(map(methodcaller("__call__"), (interrupt_main, callback)))[1] else 1
        return super().parse(parser, address)

    def create_decoder(self, handle, info):
        if self._struck("interrupt"):
            raise KeyboardInterrupt
        if self._struck("interrupt, and no decoder"):
            signal.raise_signal(signal.SIGINT)
            return 801
        return 801 if self._struck("no decoder") else super().create_decoder(handle, info)

    def decode_picture(self, handle, picture):
        return 1 if self._struck("picture refused") else super().decode_picture(handle, picture)

    def map_frame(self, *given):
        return 400 if self._struck("picture kept back") else super().map_frame(*given)

    def destroy_decoder(self, handle):
        code = super().destroy_decoder(handle)
        if self._struck("interrupt while one is destroyed"):
            signal.raise_signal(signal.SIGINT)
        return code

    def clean(self) -> bool:
        self.released.destroy()
        return not self.fault and (self.decoders, len(self.mapped)) == (0, 0)


@pytest.fixture
def cuvid(monkeypatch):
    """In place of the driver."""
    if native() is None:
        pytest.skip("no C compiler")
    fake = FaultyCuvid()
    monkeypatch.setattr(session_module, "load", lambda: fake)
    return fake


def test_without_a_c_compiler_the_error_says_what_to_do(cuvid, monkeypatch):
    monkeypatch.setattr(feeder, "native", lambda: None)
    with pytest.raises(BackendError, match=r"needs a C compiler.*Install gcc.*SEQPIPE_CC.*decode='cpu'"):
        Session(4, 0, in_use=4, released=cuvid.released)
    assert cuvid.clean()


def feed(session, packets, kept):
    """Feed packets and keep what comes, until something goes wrong."""
    fed = [FedPacket(number, text.encode(), key=not number, wanted=True) for number, text in packets]
    kept.extend(session.feed(fed, ElementaryStream("vp8", b""), first=True))


def came(session, packets=PACKETS):
    """The packets whose pictures came, in order; nothing is damaged."""
    kept = []
    feed(session, enumerate(packets), kept)
    kept.extend(session.finish())
    assert not any(result.damaged for result in kept)
    return [picture.packet for result in kept for picture in result.frames]


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        ("parser gives up", DecodeError, r"parser fails with CUDA error 999"),
        ("picture refused", DecodeError, r"refuses it with CUDA error 1\b"),
        ("picture kept back", BackendError, r"map a frame of 128×96.*CUDA error 400.*decode='cpu'"),
    ],
)
def test_an_error_mid_stream_is_told_and_leaves_nothing_behind(cuvid, fault, kind, said):
    session, kept, numbered = Session(4, 0, in_use=4, released=cuvid.released), [], list(enumerate(PACKETS))
    feed(session, numbered[:AT], kept)
    cuvid.fault = fault
    with pytest.raises(kind, match=said):
        feed(session, numbered[AT:], kept)
    session.close()
    kept.clear()
    assert cuvid.clean()
    assert came(Session(4, 0, in_use=4, released=cuvid.released)) == list(range(len(PACKETS)))


@pytest.mark.parametrize("before", [(), PACKETS])
@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        ("no decoder", BackendError, r"create a decoder for 176×144 pixels of 8 bits.*CUDA error 801"),
        ("interrupt", KeyboardInterrupt, None),
    ],
)
def test_where_no_decoder_is_made_that_is_told_and_earlier_pictures_stay(cuvid, before, fault, kind, said):
    session, kept = Session(4, 0, in_use=4, released=cuvid.released), []
    if before:
        feed(session, enumerate(before), kept)
        kept.extend(session.finish())
    cuvid.fault = fault
    with pytest.raises(kind, match=said):
        feed(session, [(0, "S 176x144 I 0")], [])
    session.close()
    assert sum(len(result.frames) for result in kept) == len(before)
    assert cuvid.decoders == (1 if before else 0)
    kept.clear()
    assert cuvid.clean()


def test_an_interrupt_that_comes_before_a_callback_is_not_lost(cuvid, monkeypatch):
    """Python handles it where the callback begins, before its first line: what is raised there, ctypes only prints."""
    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        session = Session(4, 0, in_use=4, released=cuvid.released)
        feed(session, [(0, PACKETS[0])], [])
        cuvid.fault = "interrupt before a callback"
        with pytest.raises(KeyboardInterrupt):
            feed(session, [(1, PACKETS[1])], [])
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        session.close()
    finally:
        signal.signal(signal.SIGINT, usual)
    assert not lost
    assert cuvid.clean()


def test_an_interrupt_is_not_lost_where_the_gpu_refuses_the_stream_at_once(cuvid):
    """What is refused is decoded by the CPU: raised instead of the interrupt, that would be the last of it."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        session = Session(4, 0, in_use=4, released=cuvid.released)
        cuvid.fault = "interrupt, and no decoder"
        with pytest.raises(KeyboardInterrupt) as caught:
            feed(session, [(0, PACKETS[0])], [])
        assert isinstance(caught.value.__context__, BackendError)
        session.close()
    finally:
        signal.signal(signal.SIGINT, usual)
    assert cuvid.clean()


def test_an_interrupt_while_a_decoder_is_destroyed_is_not_lost(cuvid, monkeypatch):
    """What is raised in a __del__ is lost, so none is destroyed there, and none twice."""
    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        session, kept = Session(4, 0, in_use=4, released=cuvid.released), []
        feed(session, [(0, PACKETS[0])], kept)
        kept.extend(session.finish())
        cuvid.fault = "interrupt while one is destroyed"
        kept.clear()
        with pytest.raises(KeyboardInterrupt):
            session.close()
        session.close()
    finally:
        signal.signal(signal.SIGINT, usual)
    assert not lost
    assert cuvid.clean()


@pytest.fixture
def open_session(cuvid, monkeypatch):
    """Opens sessions on libraries of their own: what an interrupt has left of one is nothing to the next."""
    opened = []

    def open_one():
        opened[:] = [FaultyCuvid()]
        return Session(4, 0, in_use=4, released=opened[0].released)

    monkeypatch.setattr(session_module, "load", lambda: opened[0])
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    return open_one


def test_no_interrupt_is_lost_wherever_it_comes_while_pictures_are_decoded_and_let_go(open_session):
    def run():
        session, kept = open_session(), []
        feed(session, enumerate(PACKETS), kept)
        kept.extend(session.finish())
        surfaces = [picture.surface(0) for result in kept for picture in result.frames]
        kept.clear()
        surfaces.clear()
        session.close()

    for _ in range(2):
        run()
    assert lost_interrupts(run) == []


def test_no_interrupt_is_lost_where_a_decoder_is_left_midway(open_session):
    index = SimpleNamespace(info=SimpleNamespace(codec="vp8"), extradata=b"", set_ups=())
    given_up = deque()
    fed = [
        FedPacket(number, text.encode(), key=not number, wanted=True) for number, text in enumerate(PACKETS)
    ]

    def run():
        session = open_session()
        next(NvdecDecoder(session, index, given_up).feed(fed))
        assert given_up.pop() == [session]
        session.close()

    for _ in range(2):
        run()
    assert lost_interrupts(run) == []


def test_damage_that_no_gpu_reports_is_left_to_the_cpu():
    """Where damage ends a partition of VP8 early, a frame showed what its surface held before."""
    stream = SimpleNamespace(codec="vp8", profile="")
    assert "does not report damage" in exact_refusal(0, stream)
