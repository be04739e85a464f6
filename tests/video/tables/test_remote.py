"""Opening what is far away: heads and tables alone, and the runs of packets that frames are decoded from."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe.video.source.blocks import Blocks, CountedSource
from seqpipe.video.source.source import open_source
from tests.support.media import made, shared_media


@pytest.fixture
def put():
    import fsspec

    def put(data: bytes, name: str) -> str:
        url = f"memory://first_touch/{name}"
        with fsspec.open(url, "wb") as target:
            target.write(data)
        return url

    return put


@pytest.mark.parametrize(
    "name", ["h264", "h264_faststart", "hevc_open_gop", "rotated_90", "with_audio", "av1"]
)
def test_frames_and_facts_are_those_of_the_local_file(put, name, tmp_path):
    path = made(name)
    url = put(path.read_bytes(), path.name)
    with seqpipe.open(url, cache_dir=tmp_path) as far, seqpipe.open(path) as here:
        assert not far.index.packets.whole
        assert {**far.info.to_json(), "source": ""} == {**here.info.to_json(), "source": ""}
        for window in (slice(20, 30), slice(0, 5), slice(40, None, 3)):
            np.testing.assert_array_equal(far[window].numpy(), here[window].numpy())


def test_a_window_costs_its_run_of_packets(put, tmp_path):
    path = shared_media() / "video" / "codec" / "h264_1080p50.mov"
    with seqpipe.open(put(path.read_bytes(), path.name), cache_dir=tmp_path) as video:
        opened = video.stats()
        assert opened["requests"] <= 3
        assert opened["bytes_read"] < path.stat().st_size / 8
        assert opened["bytes_needed"] == 0
        video.frames(range(50, 58))
        read = {name: value - opened[name] for name, value in video.stats().items()}
        assert read["requests"] == 1
        assert 0 < read["bytes_needed"] <= read["bytes_read"] <= 1.3 * read["bytes_needed"]
        video.frames(range(50, 58))
        again = video.stats()["bytes_needed"] - opened["bytes_needed"] - read["bytes_needed"]
        assert 0 < again <= read["bytes_needed"]  # what is superfluous is known now


def test_blocks_read_each_byte_once_and_a_demuxer_sees_no_others():
    data = bytes(range(256)) * 4096
    counted = CountedSource(open_source(data))
    blocks = Blocks(counted)
    random = np.random.default_rng(0)
    for _ in range(50):
        ranges = [(int(random.integers(0, len(data))), int(random.integers(0, 200_000))) for _ in range(3)]
        assert blocks.read(ranges) == [data[at : at + size] for at, size in ranges]
    assert counted.bytes_read <= len(data)

    blocks = Blocks(open_source(data))
    blocks.read([(300_000, 10)])
    with blocks.for_demuxer() as file:
        assert file.read(10) == b""
        file.seek(300_000)
        assert file.read(10) == data[300_000:300_010]
        assert file.seek(0, 2) == len(data)
