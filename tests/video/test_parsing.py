"""Whatever bytes from outside lead a parser to, it is an error of their source."""

from __future__ import annotations

import av.error
import numpy as np
import pytest

import seqpipe
from seqpipe.errors import FrameRangeError, SeqpipeError, UnreadableSourceError
from seqpipe.video.bitstream.bits import BitstreamError
from seqpipe.video.index.order import one_clock
from seqpipe.video.probe.probe import probe
from seqpipe.video.probe.recognize import parsing
from seqpipe.video.source.source import open_source
from tests.support.datasets import clips
from tests.support.media import made


@pytest.mark.parametrize(("name", "most"), [("av1_mkv", 1200), ("vp8", 3000)])
def test_a_header_without_packets_is_an_unreadable_source(name, most):
    """An IndexError before: nothing of what was looked up was there."""
    data = made(name).read_bytes()
    said = set()
    for size in range(300, most, 100):
        with pytest.raises(UnreadableSourceError) as caught:
            seqpipe.open(data[:size])
        said.add(caught.value.fact)
    assert "it holds no video packets" in said


def test_one_file_without_packets_does_not_end_a_data_set(tmp_path):
    (tmp_path / "cut.mkv").write_bytes(made("av1_mkv").read_bytes()[:1000])
    files = [tmp_path / "cut.mkv", made("h264")]
    with clips(files, length=4, on_error="skip", cache_dir=tmp_path, threads=1) as dataset:
        assert dataset.report().counts == {"video left out": 1}
        assert dataset.size > 0


@pytest.mark.parametrize(
    "error",
    [
        BitstreamError("8 bits requested, 3 left"),
        IndexError("list index out of range"),
        KeyError("x"),
        ValueError("not enough values"),
        OverflowError("too large"),
        ZeroDivisionError("division by zero"),
        av.error.InvalidDataError(1, "invalid"),
        av.error.MemoryError(12, "no memory"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_a_parser_raises_is_an_error_of_the_source(error):
    said = r"<4 bytes>: its structure cannot be read \("
    with pytest.raises(UnreadableSourceError, match=said) as caught, parsing(open_source(b"1234")):
        raise error
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [FrameRangeError("no frame 3"), MemoryError(), KeyboardInterrupt()])
def test_what_is_no_fault_of_the_bytes_stays_what_it_is(error):
    with pytest.raises(type(error)) as caught, parsing(open_source(b"1234")):
        raise error
    assert caught.value is error


def test_a_broken_set_up_of_hevc_is_an_error_of_the_source():
    data = bytearray(made("hevc").read_bytes())
    at = data.index(b"hvcC") + 4
    for place in range(at, at + 100, 3):
        broken = bytearray(data)
        broken[place] ^= 0xFF
        try:
            probe(bytes(broken))
            with seqpipe.open(bytes(broken), threads=1) as video:
                video.frames([0, 3])
        except SeqpipeError:
            pass


def test_a_clock_beyond_64_bits_is_an_error_of_the_source():
    """Its times wrapped around, with a warning of NumPy's."""
    pts, key = np.array([0, 1 << 61, -5, 6]), np.array([True, False, True, False])
    with pytest.raises(ValueError, match="its clock exceeds 64 bits"):
        one_clock(pts, key)
    assert one_clock(np.array([0, 10, -5, 5]), key).tolist() == [0, 10, 20, 30]
