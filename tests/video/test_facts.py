"""Facts: exactly what the index says, in eleven numbers."""

from __future__ import annotations

import json
import math
import struct
import zlib
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.errors import UnreadableSourceError
from seqpipe.video.convert.output import OutputSpec
from seqpipe.video.index.cache import cache_file, load_facts, save_index
from seqpipe.video.index.open import open_index
from seqpipe.video.packet_index import Facts, clock_of
from seqpipe.video.source.source import open_source
from tests.support.media import made, made_all

# variable rates; a pts that is there twice; files that end too soon
UNEVEN = {
    *("vfr", "vfr_mkv", "vfr_webm", "duplicate_pts", "duplicate_pts_mp4"),
    *("data_cut_mp4", "data_cut_fragmented", "data_cut_ts"),
}


def test_the_facts_of_every_video_are_those_of_its_index(tmp_path):
    uneven = set()
    for item in made_all():
        source = open_source(made(item.name)) if item.name != "empty" else None
        try:
            index = None if source is None else open_index(source)
        except UnreadableSourceError:
            index = None
        if source is None or index is None:
            continue
        facts = Facts.of(index)
        assert (facts.frames, facts.geometry) == (
            len(index),
            (index.info.width, index.info.height, index.info.rotation_degrees, index.info.flipped),
        )
        spec = OutputSpec(short_side=33, layout="FCHW")
        assert spec.frame_shape(facts) == spec.frame_shape(index.info)
        if facts.timestamps is None:
            uneven.add(item.name)
        else:
            assert facts.timestamps.dtype == index.timestamps.dtype
            np.testing.assert_array_equal(facts.timestamps, index.timestamps)
        save_index(tmp_path, source.stamp(), index)
        assert load_facts(tmp_path, source.stamp()) == facts
    assert uneven <= UNEVEN


@pytest.mark.parametrize(
    ("name", "clock"), [("start_10s", (128000, 512, 1, 0)), ("ts_wrap", (-82592, 3600, 1, 0)), ("vfr", None)]
)
def test_the_clock_is_where_the_stream_has_it(name, clock):
    assert clock_of(open_index(made(name))) == clock


@given(
    rate=st.fractions(Fraction(1, 50), 1000, max_denominator=1001),
    tick=st.sampled_from(
        [Fraction(1, 1000), Fraction(1, 90000), Fraction(1, 600), Fraction(1001, 30000), Fraction(1)]
    ),
    first=st.integers(-(10**9), 10**9),
    phase=st.fractions(0, 1, max_denominator=50),
    frames=st.integers(0, 300),
    slip=st.none() | st.tuples(st.integers(0, 299), st.integers(-2, 2)),
)
def test_rounded_constant_rates_are_told_exactly_and_all_others_not_at_all(
    rate, tick, first, phase, frames, slip
):
    ticks = np.array([first + math.floor(n / (rate * tick) + phase) for n in range(frames)], dtype=np.int64)
    whole = slip is None or slip[0] >= frames
    if not whole:
        ticks[slip[0]] += slip[1]
    table = SimpleNamespace(pts=ticks, frame_packet=np.arange(frames))
    info = SimpleNamespace(average_rate=None, real_rate=rate, time_base=tick)
    clock = clock_of(SimpleNamespace(packets=table, info=info))
    assert clock is not None or not whole
    if clock is not None:
        facts = Facts(frames, 1, 1, 0, False, *clock, tick.numerator, tick.denominator)
        assert facts.timestamps.tobytes() == (ticks * tick.numerator / tick.denominator).tobytes()


def test_numbers_that_are_too_large_are_left_to_the_index():
    ticks = np.array([0, 1, 2 + (1 << 62)])  # four times that is 8 in 64 bits, as if they were even
    info = SimpleNamespace(average_rate=Fraction(4, 5), real_rate=None, time_base=Fraction(1))
    table = SimpleNamespace(pts=ticks, frame_packet=np.arange(3))
    assert clock_of(SimpleNamespace(packets=table, info=info)) is None


def test_an_index_without_its_clock_still_tells_the_rest(tmp_path):
    source = open_source(made("h264"))
    index = open_index(source)
    save_index(tmp_path, source.stamp(), index)
    path = cache_file(tmp_path, source.stamp())
    _rewrite_header(path, lambda header: header.pop("ticks"))
    facts = load_facts(tmp_path, source.stamp())
    assert facts[:5] == Facts.of(index)[:5]
    assert facts.timestamps is None


@pytest.mark.parametrize(
    "change", [lambda info: info.pop("width"), lambda info: info.update(time_base="x/y")]
)
def test_a_header_of_another_form_is_built_anew(tmp_path, caplog, change):
    source = open_source(made("h264"))
    save_index(tmp_path, source.stamp(), open_index(source))
    _rewrite_header(cache_file(tmp_path, source.stamp()), lambda header: change(header["info"]))
    assert load_facts(tmp_path, source.stamp()) is None
    assert "rebuilt" in caplog.text


def test_there_are_no_facts_without_a_fresh_index(tmp_path):
    source = open_source(made("h264"))
    assert load_facts(tmp_path, source.stamp()) is None
    save_index(tmp_path, source.stamp(), open_index(source))
    path, size, time = source.stamp()
    assert load_facts(tmp_path, (path, size, time + "1")) is None


def _rewrite_header(path, change):
    """Change the header of an index, its checksum made right."""
    data = path.read_bytes()
    magic, length, _ = struct.unpack_from("<8sII", data)
    header = json.loads(data[16 : 16 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<8sII", magic, len(text), zlib.crc32(text)) + text + data[16 + length :])
