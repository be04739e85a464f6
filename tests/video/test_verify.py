"""A verified index knows what decoding on the CPU would have found, before anything is decoded."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe.errors import DamagedSourceError
from seqpipe.video.decode.cpu import CpuDecoder
from seqpipe.video.index.open import lost_frames, open_index
from tests.support.media import entry, made

DAMAGED = [
    "h264_flip_key",
    "h264_flip_reference",
    "h264_flip_disposable",
    "h264_lost_reference",
    "hevc_hashed_flip_reference",
    "data_cut_ts",
]


def lost_by_reading(path, **options):
    with seqpipe.open(path, **options) as reader:
        try:
            reader.frames(range(len(reader)))
        except DamagedSourceError as error:
            return error.lost
    return ()


@pytest.mark.parametrize("name", [*DAMAGED, "h264", "h264_open_gop", "vp9_altref"])
def test_it_finds_what_decoding_finds(name, tmp_path):
    index = open_index(made(name), cache_dir=tmp_path, verified=True)
    assert index.verified
    assert tuple(lost_frames(index)) == lost_by_reading(made(name), cache_dir=tmp_path / "other")
    assert tuple(lost_frames(index)) == lost_by_reading(made(name), cache_dir=tmp_path)


def test_what_is_known_to_be_lost_is_not_decoded(tmp_path, monkeypatch):
    open_index(made("h264_flip_key"), cache_dir=tmp_path, verified=True)
    fed = []
    monkeypatch.setattr(CpuDecoder, "feed", lambda *given, **_: fed.append(given) or [])
    lost = entry("h264_flip_key").lost
    with (
        seqpipe.open(made("h264_flip_key"), cache_dir=tmp_path) as reader,
        pytest.raises(DamagedSourceError, match=r"packet 24 is damaged: indexing found it damaged"),
    ):
        reader.frames(lost)
    assert fed == []


def test_it_is_kept_and_done_once(tmp_path, monkeypatch):
    plain = open_index(made("h264_flip_key"), cache_dir=tmp_path)
    assert not plain.verified
    assert not lost_frames(plain).size
    first = open_index(made("h264_flip_key"), cache_dir=tmp_path, verified=True)
    monkeypatch.setattr("seqpipe.video.index.open.verify", None)
    monkeypatch.setattr("seqpipe.video.index.build.build_index", None)
    again = open_index(made("h264_flip_key"), cache_dir=tmp_path, verified=True)
    assert again.verified
    assert np.array_equal(again.packets.damaged, first.packets.damaged)
    assert open_index(made("h264_flip_key"), cache_dir=tmp_path).verified


@pytest.mark.gpu
@pytest.mark.parametrize("name", DAMAGED)
def test_a_gpu_loses_the_same_frames_of_a_verified_video(name, tmp_path):
    open_index(made(name), cache_dir=tmp_path, verified=True)
    lost = lost_by_reading(made(name), cache_dir=tmp_path)
    assert lost
    assert lost_by_reading(made(name), cache_dir=tmp_path, device="cuda", decode="auto") == lost
