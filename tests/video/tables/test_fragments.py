"""Fragmented MP4 by its fragments' own tables: as a scan finds it, near and far, whole and broken."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe.video.index.from_tables import index_of_tables
from seqpipe.video.source.source import open_source
from seqpipe.video.tables import fragments
from seqpipe.video.tables.gate import UnusableTablesError
from tests.support import ffmpeg
from tests.support.media import made

from .test_lies import MAY_DIFFER, outcome, refused_or_scanned
from .test_same_as_scan import check_same

FLAGS = {
    "by offset": "frag_keyframe+empty_moov",
    "from moof": "frag_keyframe+empty_moov+default_base_moof",
    "dash": "frag_keyframe+empty_moov+default_base_moof+dash",
    "global sidx": "frag_keyframe+empty_moov+dash+global_sidx",
    "cmaf": "cmaf+frag_keyframe",
    "edited": "frag_keyframe+delay_moov",
    "begun in moov": "frag_keyframe",
    "each frame": "frag_every_frame+empty_moov+skip_trailer",
    "implicit": "frag_keyframe+empty_moov+omit_tfhd_offset",
    "tracks apart": "frag_keyframe+empty_moov+separate_moof",
}
NAMES = ["h264", "h264_short_gops", "hevc_open_gop", "with_audio", "vfr", "av1", "vp9_mp4"]


@pytest.fixture(scope="module")
def fragmented(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fragments")

    def remuxed(name: str, flags: str):
        path = folder / f"{name}_{flags.replace(' ', '_')}.mp4"
        if not path.exists():
            ffmpeg.write(path, "-i", str(made(name)), "-c", "copy", "-movflags", FLAGS[flags])
        return path

    return remuxed


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("name", NAMES)
def test_fragments_are_indexed_as_by_a_scan(fragmented, name, flags):
    assert check_same(str(fragmented(name, flags)))


@pytest.mark.parametrize("flags", ["from moof", "begun in moov"])
def test_one_wrong_byte_gives_the_scan_an_error_or_the_same(fragmented, flags):
    data = fragmented("h264", flags).read_bytes()
    table = data.index(b"moof") - 4
    random, other = np.random.default_rng(3), 0
    for at in random.integers(table, table + 320, 120).tolist():
        broken = data[:at] + bytes([data[at] ^ int(random.choice([1, 2, 16, 128, 255]))]) + data[at + 1 :]
        found = refused_or_scanned(broken)
        other += bool(found)
        # a length that lies moves later frames within their piece; decoding them says so
        assert found <= MAY_DIFFER, at
    assert other <= 4


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.95])
def test_a_cut_file_is_scanned(fragmented, cut):
    data = fragmented("h264", "from moof").read_bytes()
    assert outcome(index_of_tables, data[: int(len(data) * cut)]) is None


@pytest.mark.parametrize("flags", ["by offset", "global sidx", "each frame"])
def test_far_away_fragments_are_read_together_where_a_table_names_them(fragmented, flags, tmp_path):
    import fsspec

    path = fragmented("h264_short_gops", flags)
    url = f"memory://fragments/{path.name}"
    with fsspec.open(url, "wb") as target:
        target.write(path.read_bytes())
    with seqpipe.open(url, cache_dir=tmp_path) as far, seqpipe.open(path) as here:
        assert {**far.info.to_json(), "source": ""} == {**here.info.to_json(), "source": ""}
        np.testing.assert_array_equal(far[20:30].numpy(), here[20:30].numpy())
        assert far.stats()["requests"] <= 6
    assert index_of_tables(open_source(url)) is not None


def offsets_of(data: bytes, kind: bytes) -> list[int]:
    """Where the boxes of a kind begin that lie in no other."""
    at, found = 0, []
    while at < len(data):
        if data[at + 4 : at + 8] == kind:
            found.append(at)
        at += int.from_bytes(data[at : at + 4], "big")
    return found


def test_the_tables_name_each_fragment(fragmented):
    data = fragmented("h264_short_gops", "global sidx").read_bytes()
    (first,) = offsets_of(data, b"sidx")
    moofs = offsets_of(data, b"moof")
    assert len(moofs) > 3
    assert fragments._of_sidx(open_source(data), first) == moofs
    data = fragmented("h264_short_gops", "from moof").read_bytes()
    assert fragments._of_mfra(open_source(data)) == offsets_of(data, b"moof")


def test_boxes_that_end_in_the_middle_or_are_too_large_are_refused():
    def moofs(data: bytes, end: int):
        return list(fragments._moofs(lambda count, at: data[at : at + count], 0, end))

    whole = (16).to_bytes(4, "big") + b"moof" + bytes(8)
    assert [at for at, _ in moofs(whole * 2, 32)] == [0, 16]
    with pytest.raises(UnusableTablesError, match="cut in the middle of a box"):
        moofs(whole + bytes(4), 20)
    with pytest.raises(UnusableTablesError, match="its tables are too large"):
        moofs((1 << 25).to_bytes(4, "big") + b"moof" + bytes(8), 1 << 26)
