"""Facts: exactly what the index says, in nine numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from seqpipe.errors import UnreadableSourceError
from seqpipe.video.cache import cache_file, load_facts, save_index
from seqpipe.video.facts import Facts, clock_of
from seqpipe.video.open import open_index
from seqpipe.video.output import OutputSpec
from seqpipe.video.source import open_source
from tests.support.media import made, made_all

# variable rates; rates that a clock of milliseconds cannot hold; a pts that is there twice; files that end too soon
UNEVEN = {
    *("vfr", "vfr_mkv", "vfr_webm", "ntsc_mkv", "duplicate_pts", "duplicate_pts_mp4"),
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
        assert (facts.frames, facts.picture) == (
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
    ("name", "clock"), [("start_10s", (128000, 512)), ("ts_wrap", (-82592, 3600)), ("vfr", None)]
)
def test_the_clock_is_where_the_stream_has_it(name, clock):
    assert clock_of(open_index(made(name))) == clock


def test_an_index_without_its_clock_still_tells_the_rest(tmp_path):
    source = open_source(made("h264"))
    index = open_index(source)
    save_index(tmp_path, source.stamp(), index)
    path = cache_file(tmp_path, source.stamp())
    _rewrite_header(path, lambda header: header.pop("clock"))
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
    assert "built anew" in caplog.text


def test_there_are_no_facts_without_a_fresh_index(tmp_path):
    source = open_source(made("h264"))
    assert load_facts(tmp_path, source.stamp()) is None
    save_index(tmp_path, source.stamp(), open_index(source))
    path, size, time = source.stamp()
    assert load_facts(tmp_path, (path, size, time + "1")) is None


def _rewrite_header(path, change):
    """Change the header of an index, its checksum made right."""
    import struct
    import zlib

    data = path.read_bytes()
    magic, length, _ = struct.unpack_from("<8sII", data)
    header = json.loads(data[16 : 16 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<8sII", magic, len(text), zlib.crc32(text)) + text + data[16 + length :])
