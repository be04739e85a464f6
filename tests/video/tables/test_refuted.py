"""Packets that are not what the tables said: reading goes on by a scan, or says that it cannot."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

import seqpipe
from seqpipe.errors import SourceError
from seqpipe.video.index import from_tables
from tests.support.datasets import clips, images
from tests.support.media import made


@pytest.fixture
def credulous(monkeypatch):
    """Key packets and small ones are believed without a look, as those of a source that is far away."""
    monkeypatch.setattr(from_tables, "check_keys", lambda *_: None)
    monkeypatch.setattr(from_tables, "_check_tiny", lambda *_: None)


def test_points_of_gradual_refresh_are_no_key_packets(credulous, tmp_path, caplog):
    path = made("h264_refresh")
    with seqpipe.open(path, cache_dir=tmp_path / "scan") as video:
        pass
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(from_tables, "index_of_tables", lambda *_, **__: None)
        with seqpipe.open(path, cache_dir=tmp_path / "other") as video:
            truth = [frame.numpy() for frame in video]
    for way in ("frames", "stream", "engine"):
        cache = tmp_path / way
        if way == "engine":
            with clips(path, length=5, cache_dir=cache) as dataset:
                for sequence in images(dataset):
                    np.testing.assert_array_equal(
                        sequence.numpy(), np.stack([truth[n] for n in sequence.frames])
                    )
            continue
        with seqpipe.open(path, cache_dir=cache) as video:
            assert len(video) == len(truth)
            if way == "frames":
                numbers = [40, 14, 3, 20]
                np.testing.assert_array_equal(
                    video.frames(numbers).numpy(), np.stack([truth[n] for n in numbers])
                )
            else:
                for number, frame in enumerate(video.stream(range(len(video)))):
                    np.testing.assert_array_equal(frame.numpy(), truth[number])
            assert video.index.packets.whole


def test_frames_that_get_other_numbers_are_an_error(credulous, tmp_path):
    """A sample of parameters alone, which its table calls a frame."""
    data = made("h264").read_bytes()
    table = data.index(b"stsz") + 16
    offset = int.from_bytes(data[data.index(b"stco") + 12 :][:4], "big")
    sizes = [int.from_bytes(data[table + 4 * n :][:4], "big") for n in range(48)]
    at = offset + sum(sizes[:30])
    unit = (sizes[30] - 4).to_bytes(4, "big") + b"\x0c" + b"\xff" * (sizes[30] - 5)  # filler data
    lying = data[:at] + unit + data[at + sizes[30] :]
    path = tmp_path / "lying.mp4"
    path.write_bytes(lying)
    with seqpipe.open(path, cache_dir=tmp_path / "cache") as video:
        assert len(video) == 48
        with pytest.raises(SourceError, match=r"tables are wrong.*Open it again"):
            video.frames(range(20, 40))
    with seqpipe.open(path, cache_dir=tmp_path / "cache") as video:
        assert len(video) == 47
        assert len(video.frames(range(10)).numpy()) == 10
    for again in (lying, io.BytesIO(lying)):  # no index of these is cached
        with seqpipe.open(lying) as video, contextlib.suppress(SourceError):
            video.frames(range(20, 40))
        with seqpipe.open(again) as video:
            assert len(video) == 47
            assert len(video.frames(range(10)).numpy()) == 10
