"""Streams: what is read from front to back gives the sequences of a file with the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest

import seqpipe
from seqpipe import ops
from seqpipe.errors import (
    DamagedSourceError,
    FrameRangeError,
    ParameterError,
    SourceError,
    UnreadableSourceError,
)
from seqpipe.video.frame_stream import FramePainter, FrameStream
from seqpipe.video.probe.recognize import data_before_index
from tests.support.datasets import clips, images
from tests.support.deep import combined
from tests.support.media import ROOT, made

HOW = {"sequence_length": 4, "stride": 3, "step": 5}
TAKE = {"length": 4, "stride": 3, "step": 5}


class Front:
    """A file that cannot seek."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.farthest = data, 0, 0

    def read(self, size: int = -1) -> bytes:
        found = self.data[self.at : len(self.data) if size < 0 else self.at + size]
        self.at += len(found)
        return found


def assert_same(got, expected):
    assert len(got) == len(expected)
    for streamed, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(streamed.frames, other.frames)
        np.testing.assert_allclose(streamed.timestamps, other.timestamps)
        np.testing.assert_array_equal(streamed.numpy(), other.numpy())


STREAMED = ["h264_faststart", "h264_ts", "h264_mkv", "h264_fragmented", "h264_avi"]
STREAMED += ["hevc_mkv", "vp9", "vp9_altref", "vfr_mkv", "rotated_mkv"]


@pytest.mark.parametrize(("name", "pad_mode"), combined(STREAMED, ["none", "reflect", "constant"]))
def test_a_stream_gives_what_a_reader_of_the_file_gives(name, pad_mode):
    path = made(name)
    expected = images(clips(path, pad=pad_mode, **TAKE))
    assert_same(list(seqpipe.stream(Front(path.read_bytes()), pad_mode=pad_mode, **HOW)), expected)
    assert_same(list(seqpipe.stream(path, pad_mode=pad_mode, **HOW)), expected)


def test_output_and_operators_are_applied():
    path, spec = made("h264_ts"), seqpipe.OutputSpec(color="GRAY", short_side=32)
    flip = ops.Flip(p=0.5, seed=3)
    plain = list(seqpipe.stream(path, output=spec, sequence_length=8))
    flipped = list(seqpipe.stream(path, output=spec, sequence_length=8, operators=flip))
    assert plain[0].numpy().shape[1:] == (32, plain[0].numpy().shape[2], 1)
    for number, (streamed, other) in enumerate(zip(plain, flipped, strict=True)):
        np.testing.assert_array_equal(flip(streamed, index=number).numpy(), other.numpy())


def test_a_part_of_it_is_taken_and_no_more_is_read():
    data = made("h264_ts").read_bytes()
    file = Front(data * 1000)
    with seqpipe.open(made("h264_ts")) as video:
        times = video.timestamps - video.timestamps[0]
        inside = np.flatnonzero((times >= 0.4 - 1e-6) & (times < 0.8 - 1e-6))
    got = [int(frame.frames[0]) for frame in seqpipe.stream(file, start_s=0.4, duration_s=0.4)]
    assert got == inside.tolist()
    assert (
        file.at < 6 << 20 < len(file.data)
    )  # FFmpeg looks at 5 MB of such a stream before it says what is in it


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"start_s": 500.0},
            r"no frame begins from start_s=500 on; allowed: a range .* such as the one at \d",
        ),
        (
            {"start_s": 0.001, "duration_s": 0.002},
            "no frame begins from start_s=0.001 on for duration_s=0.002",
        ),
    ],
)
def test_a_range_without_a_frame_is_an_error_as_it_is_to_export(arguments, said):
    with pytest.raises(FrameRangeError, match=said):
        list(seqpipe.stream(Front(made("h264_ts").read_bytes()), **arguments))


def test_a_pipe_is_read_as_it_is_filled(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    data = made("h264_ts").read_bytes()
    writer = threading.Thread(target=lambda: path.write_bytes(data))
    writer.start()
    got = list(seqpipe.stream(path, **HOW))
    writer.join()
    assert_same(got, images(clips(made("h264_ts"), **TAKE)))


def test_standard_input_is_named_by_a_dash():
    program = "import seqpipe; print(sum(len(s.frames) for s in seqpipe.stream('-', sequence_length=4)))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=made("h264_ts").read_bytes(),
        capture_output=True,
        check=True,
        cwd=ROOT,
    )
    with seqpipe.open(made("h264_ts")) as video:
        assert int(done.stdout) == len(video) // 4 * 4


@pytest.mark.parametrize("opened", [False, True])
def test_a_pipe_that_stalls_is_an_error_by_name(tmp_path, opened):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    end = os.open(path, os.O_RDWR)
    try:
        if opened:
            data = made("h264_ts").read_bytes()
            assert os.write(end, data[:40000]) > 0
        began = time.monotonic()
        with pytest.raises(SourceError, match=r"stalled \(no data for 0.3 s\).*read_timeout_s"):
            list(seqpipe.stream(path, open_timeout_s=0.3, read_timeout_s=0.3))
        assert time.monotonic() - began < 20
    finally:
        os.close(end)


def test_a_read_that_raises_is_an_error_by_name():
    class Broken(Front):
        def read(self, size=-1):
            if self.at + max(size, 0) > 15000:
                raise TimeoutError("the line is dead")
            return super().read(size)

    data = made("h264_ts").read_bytes() * 6
    with pytest.raises(SourceError, match="stalled \\(the line is dead\\)"):
        list(seqpipe.stream(Broken(data[:200000])))


def test_a_damaged_frame_ends_it_with_its_number():
    got = []
    with pytest.raises(DamagedSourceError, match=r"frame \d+ cannot be decoded") as error:
        got.extend(int(sequence.frames[0]) for sequence in seqpipe.stream(made("h264_flip_reference")))
    assert error.value.lost == (len(got),)


@pytest.mark.parametrize("part", [0.5, 0.63, 0.81])
@pytest.mark.parametrize("name", ["h264_mkv", "hevc_mkv", "vp9", "h264_fragmented", "h264_flv", "h264_avi"])
def test_a_stream_that_ends_in_the_middle_gives_what_is_whole_and_says_so(name, part):
    data = made(name).read_bytes()
    data = data[: int(len(data) * part)]
    got = []
    with pytest.raises(SourceError, match=r"is truncated.*after frame \d+|frame \d+ cannot be decoded"):
        got.extend(seqpipe.stream(Front(data)))
    with seqpipe.open(data) as video:  # of a file that was cut at the same place
        there = [video[number] for number in range(len(got))]
    assert len(got) > 10
    for streamed, other in zip(got, there, strict=True):
        np.testing.assert_array_equal(streamed.numpy()[0], other.numpy())
        np.testing.assert_allclose(streamed.timestamps, other.timestamps)


def test_a_header_that_comes_last_is_said_so():
    class Long(Front):
        pass

    data = made("h264").read_bytes()
    begin = data.index(b"mdat")
    with pytest.raises(UnreadableSourceError, match="faststart"):
        list(seqpipe.stream(Long(data[: begin + 400])))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"sequence_length": 0}, "sequence_length=0"),
        ({"start_s": -1}, "start_s=-1"),
        ({"read_timeout_s": 0}, "read_timeout_s=0"),
        ({"fill_value": 256}, "fill_value=256 is not valid; allowed: a whole number from 0 to 255"),
        ({"fill_value": 0.5}, "fill_value=0.5 is not valid; allowed: a whole number from 0 to 255"),
        ({"pad_mode": "none_such"}, "pad_mode='none_such'"),
    ],
)
def test_parameters_are_checked_at_once(arguments, said):
    with pytest.raises(ParameterError, match=said):
        seqpipe.stream(made("h264_ts"), **arguments)


def test_what_cannot_be_read_is_a_parameter_error():
    with pytest.raises(ParameterError, match="an object of type int cannot be streamed"):
        list(seqpipe.stream(3))


@pytest.mark.parametrize(
    "name",
    [
        "h264_ts",
        "vp8_altref",
        "data_cut_avi",
        "data_cut_ts",
        "h264_flip_reference",
        "av1_lost_reference",
        "h264_lost_key",
    ],
)
def test_several_threads_give_what_one_gives(name):
    """Damage, of which several threads tell late, costs no sound frame and shows no other."""

    def given(threads):
        frames = []
        with ExitStack() as stack, made(name).open("rb") as file:
            stream = FrameStream(file, (9, 9), stack, threads=threads)
            painter = FramePainter(stream.info, seqpipe.OutputSpec(short_side=32))
            try:
                for frame in stream.frames():
                    frames.append(
                        (frame.number, frame.pts, painter.pixels(frame.number, frame.surface).tobytes())
                    )
            except DamagedSourceError as error:
                return frames, str(error)
            return frames, str(stream.error)

    assert given(3) == given(1)


def test_an_edit_list_and_a_restarted_clock_are_those_of_a_file():
    for name in ("edit_list", "edit_list_b", "joined"):
        path = made(name)
        assert_same(
            list(seqpipe.stream(Front(path.read_bytes()))),
            images(clips(path, length=1)),
        )


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"\0\0\0\x10ftypisom\0\0\0\0\0\0\x10\0moov", 0),
        (b"\0\0\0\x10ftypisom\0\0\0\0\0\0\x10\0mdat", 4096),
        (b"\0\0\0\x08wide\0\0\0\x01mdat\0\0\0\x01\0\0\0\0", 1 << 32),
        (b"\0\0\0\x08free\0\0\0\0mdat", float("inf")),
        (b"\0\0\0\x01free" + bytes(16), 0),
        (b"\x1a\x45\xdf\xa3", 0),
        (b"", 0),
    ],
)
def test_where_the_index_of_an_mp4_lies_is_told_by_its_first_bytes(head, expected):
    assert data_before_index(head) == expected
