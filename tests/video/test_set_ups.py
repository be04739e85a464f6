"""Streams whose parameter sets change on the way: frames are right from wherever decoding starts, and came from."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import seqpipe
from data_scripts.frame_code import read
from seqpipe.video.bitstream.bits import nal_spans
from seqpipe.video.bitstream.parameter_sets import ParameterSets
from seqpipe.video.decode.cpu import DecoderPool
from seqpipe.video.index.build import build_index
from seqpipe.video.index.open import open_index
from seqpipe.video.source.source import open_source
from tests.support import access, ffmpeg, media

_FLV_HEADER = 13
_PAIRS = [("h264", "wide_h264"), ("wide_h264", "h264"), ("h264", "h264_no_b"), ("hevc", "hevc_no_b")]


def _joined(names: tuple[str, str], folder: Path) -> Path:
    """A recording that was taken up again with another encoder: sets stand before each part's packets only."""
    parts = []
    for name in names:
        part = folder / f"{name}.flv"
        ffmpeg.write(part, "-i", str(media.made(name)), "-c", "copy")
        parts.append(part.read_bytes())
    path = folder / "joined.flv"
    path.write_bytes(parts[0] + parts[1][_FLV_HEADER:])
    return path


@pytest.mark.parametrize("names", _PAIRS, ids="-".join)
def test_frames_are_right_wherever_decoding_starts(names, tmp_path):
    path = _joined(names, tmp_path)
    drawn = [*media.entry(names[0]).numbers, *media.entry(names[1]).numbers]
    with seqpipe.open(path) as video:
        assert [read(frame.numpy()) for frame in video] == drawn
        for number in random.Random(0).sample(range(len(drawn)), 24):
            assert read(video.frames([number]).numpy()[0]) == drawn[number]
        assert [read(frame) for frame in video[::-5].numpy()] == drawn[::-5]


def test_a_decoder_that_has_seen_other_sets_is_not_for_another_file(tmp_path):
    joined = build_index(open_source(_joined(("h264", "wide_h264"), tmp_path)))
    alone = build_index(open_source(tmp_path / "h264.flv"))
    assert joined.extradata == alone.extradata
    decoders = DecoderPool()
    used = decoders.take(joined, 1)
    decoders.give_back(joined, 1, used)
    assert decoders.take(alone, 1) is not used
    assert decoders.take(joined, 1) is used


def test_set_ups_are_kept_with_the_index(tmp_path):
    path = _joined(("h264", "wide_h264"), tmp_path)
    built = open_index(path, cache_dir=tmp_path)
    assert [number for number, _ in built.set_ups] == [0, 48]
    assert open_index(path, cache_dir=tmp_path).set_ups == built.set_ups


@pytest.mark.parametrize("name", ["h264", "h264_ts", "h264_mkv", "hevc", "hevc_ts", "hevc_open_gop"])
def test_sets_that_are_repeated_are_no_change(name):
    assert access.indexed(media.made(name)).set_ups == ()


def test_sets_hold_until_others_with_their_numbers_come():
    first, second = (access.indexed(media.made(name)) for name in ("h264", "wide_h264"))
    sets = ParameterSets("h264", first.extradata)
    before = sets.replace(3, first.extradata)
    assert sets.set_ups == ()
    assert [unit[0] & 31 for unit in _units(before)] == [7, 8]
    after = sets.replace(5, second.extradata)
    assert sets.set_ups == ((0, before), (5, after))
    sets.look(9, before[: 4 + len(_units(before)[0])])  # the first one's SPS alone
    assert _units(sets.set_ups[-1][1]) == [_units(before)[0], _units(after)[1]]
    sets.look(11, b"\0\0\0\2\x67")  # cut: nothing is known of it
    assert len(sets.set_ups) == 3


def _units(prefixed: bytes) -> list[bytes]:
    return [prefixed[begin:end] for begin, end in nal_spans(prefixed, 4)]
