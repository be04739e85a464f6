"""A GPU that has no room for another decoder: idle ones go, then it is tried once more."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from seqpipe.errors import BackendError, DeviceMemoryError
from seqpipe.video.bitstream.elementary import ElementaryStream
from seqpipe.video.cuda import memory
from seqpipe.video.decode.packets import FedPacket
from seqpipe.video.nvdec import session as session_module
from seqpipe.video.nvdec.session import NvdecPool, Session
from tests.support.fake_cupy import FakeCupy
from tests.video.nvdec.fake_cuvid import FakeCuvid


class SmallCard(FakeCuvid):
    """Has room for some decoders only; answers with another code if it is told to."""

    room = 1
    code = 2

    def create_decoder(self, handle, info):
        return self.code if self.decoders >= self.room else super().create_decoder(handle, info)


@pytest.fixture
def cuvid(monkeypatch):
    fake = SmallCard()
    monkeypatch.setattr(session_module, "load", lambda: fake)
    monkeypatch.setattr(session_module, "exact_refusal", lambda _device, _info: "")
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy(2**30))
    monkeypatch.setattr(memory, "_release_hooks", {})
    return fake


@pytest.fixture
def pool(cuvid):
    made = NvdecPool(0, memory=2**30)
    memory.when_full(0, made.clear)
    return made


def stream(width, height):
    info = SimpleNamespace(codec="h264", pixel_format="yuv420p", width=width, height=height)
    return SimpleNamespace(info=info, extradata=b"", set_ups=())


def decode(session, width, height):
    """The packets whose pictures came."""
    texts = [f"S {width}x{height} I 0", "P 1", "P 2"]
    fed = [FedPacket(number, text.encode(), key=not number, wanted=True) for number, text in enumerate(texts)]
    steps = [*session.feed(fed, ElementaryStream("vp8", b""), first=True), *session.finish()]
    return [picture.packet for result in steps for picture in result.frames]


def test_idle_decoders_make_room_for_the_one_that_is_needed(cuvid, pool):
    small, large = stream(128, 96), stream(256, 192)
    first = pool.take(small, 0, exact=True)
    assert decode(first.session, 128, 96) == [0, 1, 2]
    pool.give_back(small, first)
    assert cuvid.decoders == 1
    second = pool.take(large, 0, exact=True)
    assert decode(second.session, 256, 192) == [0, 1, 2]
    assert cuvid.created == [(128, 96), (256, 192)]
    assert cuvid.decoders == 1


def test_a_gpu_that_stays_full_is_named_with_the_decoder_and_its_size(cuvid, pool):
    busy = pool.take(stream(128, 96), 0, exact=True)
    decode(busy.session, 128, 96)
    other = pool.take(stream(1920, 1088), 0, exact=True)
    with pytest.raises(
        DeviceMemoryError,
        match=r"cuda:0 has no memory for an NVDEC decoder for 1920×1088 pixels of 0\.\d\d GiB; "
        r"allowed: 1\.00 GiB, which are free of 1\.00 GiB.*SEQPIPE_NVDEC_IDLE_GIB",
    ):
        decode(other.session, 1920, 1088)
    # the one that was not given back was left alone; when it goes, its place can be taken
    assert cuvid.created == [(128, 96)]
    assert cuvid.decoders == 1
    busy.session.close()
    again = pool.take(stream(1920, 1088), 0, exact=True)
    assert decode(again.session, 1920, 1088) == [0, 1, 2]


def test_a_decoder_that_is_not_given_back_is_closed_by_whoever_comes_next(cuvid, pool):
    """Not at once: an interrupt in the middle of it would be lost where an abandoned generator drops it."""
    left = pool.take(stream(128, 96), 0, exact=True)
    decode(left.session, 128, 96)
    session = left.session
    del left
    assert cuvid.decoders == 1
    again = pool.take(stream(256, 192), 0, exact=True)
    assert cuvid.decoders == 0
    assert session._decoder is None
    assert decode(again.session, 256, 192) == [0, 1, 2]
    del again
    pool.clear()
    assert cuvid.decoders == 0


def test_what_else_the_gpu_refuses_gives_nothing_back(cuvid, pool):
    idle = pool.take(stream(128, 96), 0, exact=True)
    decode(idle.session, 128, 96)
    pool.give_back(stream(128, 96), idle)
    cuvid.code = 801
    session = Session(4, 0, in_use=4)
    with pytest.raises(BackendError, match=r"CUDA error 801\. Use decode='cpu'") as caught:
        decode(session, 256, 192)
    assert not isinstance(caught.value, DeviceMemoryError)
    assert cuvid.decoders == 1
