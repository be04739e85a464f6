"""Filling by a way with a fallback: what the first cannot decode, or finds damaged, the second judges."""

from __future__ import annotations

import contextlib
import logging

import numpy as np
import pytest

from data_scripts.frame_code import read
from seqpipe.errors import BackendError, DamagedSourceError, SourceError
from seqpipe.sequence import Sequence
from seqpipe.video import reader as reader_module
from seqpipe.video.convert.converter import HostPainter
from seqpipe.video.decode.cpu import CpuDecoder, DecoderPool
from seqpipe.video.decode.packets import DecodeError, DecodeResult
from seqpipe.video.engine.backend import DecodeBackend, ReaderContext
from seqpipe.video.engine.engine import Engine
from seqpipe.video.index.open import open_index
from seqpipe.video.plan import Request
from seqpipe.video.reader import VideoReader
from tests.support.decoders import count_packets
from tests.support.media import entry, made


class Faulty(CpuDecoder):
    """Finds fault with one packet: says that it is damaged, refuses it, or swallows its frame."""

    fault, packet = "", 0

    def feed(self, packets):
        for fed in packets:
            if fed.number == self.packet and self.fault == "refused":
                raise DecodeError("this one not", packet=fed.number)
            for result in super().feed([fed]):
                if self.fault == "damaged":
                    yield result._replace(
                        damaged=[packet for packet in result.decoded if packet == self.packet]
                    )
                elif self.fault == "swallowed":
                    pictures = [picture for picture in result.frames if picture.packet != self.packet]
                    yield DecodeResult([picture.packet for picture in pictures], [], pictures)
                else:
                    yield result


class NoDecoders:
    """Has none for any stream."""

    def take(self, index, _threads):
        raise BackendError(f"no GPU decodes {index.info.codec}", advice="Use another one")

    def give_back(self, *_):
        raise AssertionError


def engine(decoders, *, fallback=True):
    backend = DecodeBackend(
        "gpu", decoders, HostPainter, threads=2, fallback=DecoderPool() if fallback else None
    )
    return Engine(2, backends=[backend])


def request(frames, name="h264"):
    return Request(str(made(name)), np.array(frames, dtype=np.int64))


def assert_true(found, frames, name="h264"):
    assert isinstance(found, Sequence), found
    assert [read(frame) for frame in found.numpy()] == [entry(name).numbers[i] for i in frames]


def test_streams_that_a_way_cannot_decode_go_to_its_fallback_and_are_told_once(caplog):
    caplog.set_level(logging.INFO, "seqpipe")
    with engine(NoDecoders()) as made_engine:
        for _ in range(3):
            (found,) = made_engine.read([request([3, 40, 3])])
            assert_true(found, [3, 40, 3])
        assert made_engine.stats() == {
            "frames": {"gpu": 0, "cpu": 6},
            "fallbacks": {"no GPU decodes h264": 3},
        }
    assert len(caplog.records) == 1
    assert "h264.mp4: decoded on the CPU, because no GPU decodes h264" in caplog.text


def test_without_a_fallback_it_is_an_error_of_that_request():
    with engine(NoDecoders(), fallback=False) as made_engine:
        (found,) = made_engine.read([request([3])])
    assert isinstance(found, BackendError)
    assert "no GPU decodes h264" in str(found)


@pytest.mark.parametrize("fault", ["damaged", "refused", "swallowed"])
def test_what_the_first_calls_damaged_the_second_may_deliver(fault, monkeypatch):
    monkeypatch.setattr(Faulty, "fault", fault)
    monkeypatch.setattr(Faulty, "packet", 25)  # a reference: all up to the next key frame hang on it
    wanted = [2, 23, 26, 30, 47]
    with engine(DecoderPool(make=Faulty)) as made_engine:
        (found,) = made_engine.read([request(wanted)])
        assert_true(found, wanted)
        stats = made_engine.stats()
    assert stats["frames"] == {"gpu": 2, "cpu": 3}
    assert len(stats["fallbacks"]) == 1
    with engine(DecoderPool(make=Faulty), fallback=False) as made_engine:
        (found,) = made_engine.read([request(wanted)])
    assert isinstance(found, DamagedSourceError)
    assert found.lost == (26, 30, 47)


class Holding(HostPainter):
    """Holds pictures until it is told to finish, as one does that converts on a GPU."""

    def __init__(self):
        super().__init__()
        self.held = 0

    def put(self, surface, targets):
        self.held += 1
        super().put(surface, targets)

    def finish(self):
        self.held = 0


class Watched(DecoderPool):
    """Notes what a painter holds whenever a decoder is given back, and how often one is taken."""

    def __init__(self, painter, **options):
        super().__init__(**options)
        self.painter, self.taken, self.given_back = painter, 0, []

    def take(self, *args):
        self.taken += 1
        return super().take(*args)

    def give_back(self, *args):
        self.given_back.append(self.painter.held)
        super().give_back(*args)


@pytest.mark.parametrize(
    "name", ["h264", "h264_flip_reference", "h264_lost_key", "hevc_lost_reference", "mpeg4_avi"]
)
@pytest.mark.parametrize("fallback", [False, True])
def test_decoders_are_given_back_when_their_pictures_are_free(name, fallback):
    """Else whoever takes one next shares its few pictures with those that the painter still holds."""
    painter = Holding()
    pool, other = Watched(painter), Watched(painter)
    backend = DecodeBackend("gpu", pool, lambda: painter, threads=1, fallback=other if fallback else None)
    with Engine(1, backends=[backend]) as made_engine:
        for frames in ([3, 40, 3], range(12, 30), [0]):
            made_engine.read([request(frames, name)])
    assert pool.given_back
    assert not any([*pool.given_back, *other.given_back])


def test_who_tries_again_keeps_the_decoder(monkeypatch):
    table = open_index(str(made("h264")), whole=True).packets
    packet = int(np.flatnonzero(~table.reference)[3])
    monkeypatch.setattr(Faulty, "fault", "swallowed")
    monkeypatch.setattr(Faulty, "packet", packet)
    painter = Holding()
    pool = Watched(painter, make=Faulty)
    with Engine(1, backends=[DecodeBackend("gpu", pool, lambda: painter, threads=1)]) as made_engine:
        (found,) = made_engine.read([request([0, int(table.packet_frame[packet]), 40])])
    assert found.lost == (int(table.packet_frame[packet]),)
    assert (pool.taken, pool.given_back) == (1, [0])


def test_what_both_find_damaged_is_lost():
    lost = entry("h264_flip_reference").lost
    with engine(DecoderPool()) as made_engine:
        found, sound = made_engine.read(
            [request(lost, "h264_flip_reference"), request([0, 1], "h264_flip_reference")]
        )
    assert isinstance(found, DamagedSourceError)
    assert found.lost == lost
    assert_true(sound, [0, 1], "h264_flip_reference")


def reader_with(decoders, monkeypatch, *, fallback=True):
    """A reader that decodes as one for a GPU does, several frames at a time."""
    backend = DecodeBackend("gpu", decoders, HostPainter, fallback=DecoderPool() if fallback else None)
    place = ReaderContext(backend, contextlib.nullcontext, 4)
    monkeypatch.setattr(reader_module, "reader_context", lambda *_, **__: place)
    return VideoReader(made("h264"))


@pytest.mark.parametrize("fault", ["damaged", "refused", "swallowed", "none"])
def test_a_stream_goes_on_in_order_through_faults_of_the_first(fault, monkeypatch):
    monkeypatch.setattr(Faulty, "fault", fault)
    monkeypatch.setattr(Faulty, "packet", 25)
    decoders = NoDecoders() if fault == "none" else DecoderPool(make=Faulty)
    wanted = [1, 2, 5, 20, 23, 26, 27, 30, 46, 47]
    with reader_with(decoders, monkeypatch) as reader:
        frames = list(reader.stream(wanted))
        assert [int(frame.frames[0]) for frame in frames] == wanted
        assert [read(frame.data) for frame in frames] == [entry("h264").numbers[i] for i in wanted]
        assert_true(reader.frames([30, 2]), [30, 2])


def test_a_stream_that_the_first_cannot_decode_is_decoded_once(monkeypatch):
    fed = count_packets(monkeypatch)
    with reader_with(NoDecoders(), monkeypatch) as reader:
        assert len(list(reader.stream(range(48)))) == 48
    assert sorted(fed) == list(range(48))


class FailingPainter(HostPainter):
    """Keeps what it is given until it is told to finish, and cannot convert one stream."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def put(self, surface, _targets):
        self.kept.append(surface)
        if len(self.kept) > 1:
            raise SourceError("its color cannot be converted", source="another stream like this one")

    def finish(self):
        self.kept.clear()


def test_after_an_error_a_painter_holds_nothing_for_the_next_job():
    painter = FailingPainter()
    with Engine(1, backends=[DecodeBackend("gpu", DecoderPool(), lambda: painter)]) as made_engine:
        (found,) = made_engine.read([request([1, 2])])
    assert isinstance(found, SourceError)
    assert found.source == str(made("h264"))
    assert painter.kept == []


def test_a_stream_without_a_fallback_gives_what_is_sound_and_names_the_rest(monkeypatch):
    monkeypatch.setattr(Faulty, "fault", "damaged")
    monkeypatch.setattr(Faulty, "packet", 25)
    given = []
    with (
        reader_with(DecoderPool(make=Faulty), monkeypatch, fallback=False) as reader,
        pytest.raises(DamagedSourceError) as caught,
    ):
        given.extend(int(frame.frames[0]) for frame in reader.stream(range(0, 48, 5)))
    assert given == [0, 5, 10, 15, 20]
    assert caught.value.lost == (25, 30, 35, 40, 45)


def test_a_way_has_as_many_frame_threads_as_it_says():
    asked = []

    def make(index, threads):
        asked.append(threads)
        return CpuDecoder(index, threads)

    backend = DecodeBackend("gpu", DecoderPool(make=make), HostPainter, frame_threads=3)
    with Engine(1, backends=[backend]) as made_engine:
        (found,) = made_engine.read([request([1, 2])])
    assert [read(picture) for picture in found.numpy()] == [1, 2]
    assert asked == [3]
