"""Evaluation views: clips spread evenly, windows along the longer side, scores averaged by video."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqpipe
from seqpipe import Clip, VideoScores
from seqpipe.errors import ParameterError
from seqpipe.readers import Range
from seqpipe.sampling import EvenClips, Span
from tests.support.datasets import files, shown


@given(st.integers(0, 50), st.integers(1, 200), st.integers(1, 9), st.integers(1, 4), st.integers(1, 12))
def test_clips_are_spread_evenly(first, length, frames, stride, clips):
    sampler = EvenClips(sequence_length=frames, stride=stride, clips_per_video=clips)
    span = Span(first, first + length)
    reach = (frames - 1) * stride
    if length <= reach:
        assert sampler.count(span) == 0
        return
    starts = [int(sampler.clip(span, k).frames[0]) for k in range(sampler.count(span))]
    last = first + length - 1 - reach
    assert starts == sorted(starts)
    if clips == 1:
        assert abs(2 * starts[0] - (first + last)) <= 1
        return
    assert (starts[0], starts[-1]) == (first, last)
    wanted = np.linspace(first, last, clips)
    assert np.abs(np.array(starts) - wanted).max() <= 0.5


def test_views_of_real_videos():
    ds = seqpipe.videos(
        seqpipe.listing(files("h264", "hevc"), labels=[3, 4]), Clip(4, per_video=3, starts="even")
    )
    with ds.views((96, 96), count=3).batch(9) as views:
        whole = ds.read(range(6))["image"]
        assert views.size == 18
        scores = VideoScores()
        for number, batch in enumerate(views):
            assert [shown(whole[3 * number + k])[0] for k in range(3)] == [0, 22, 44]
            assert batch["image"].shape == (9, 4, 96, 96, 3)
            assert batch["label"].tolist() == [3 + number] * 9
            assert batch.index.tolist() == list(range(9 * number, 9 * number + 9))
            assert batch["view"].tolist() == [0, 1, 2] * 3
            for index, sequence in zip(batch.index.tolist(), batch["image"], strict=True):
                left = (0, 16, 32)[index % 3]
                assert np.array_equal(sequence.numpy(), whole[index // 3].numpy()[:, :, left : left + 96])
            scores.add(np.arange(18.0).reshape(9, 2), batch["video"])
        assert list(scores.counts().values()) == [9, 9]
        assert all(mean.tolist() == [8, 9] for mean in scores.mean().values())


def test_parts_of_one_file_are_videos_of_their_own_and_labels_may_be_vectors():
    listed = seqpipe.listing(
        files("h264", "h264"),
        labels=["0", "0 1"],
        label_type="classes",
        ranges=[Range(end_frame=20), Range(start_frame=20)],
    )
    scores = VideoScores()
    with seqpipe.videos(listed, Clip(4, per_video=2, starts="even")).views((96, 96)).batch(9) as views:
        for batch in views:
            assert batch.torch("NCFHW")["image"].shape[1:] == (3, 4, 96, 96)
            assert batch["label"].tolist() == [[[1, 0], [1, 1]][video] for video in batch["video"]]
            scores.add(np.stack([batch["video"], batch.index], axis=1), batch["video"])
    assert scores.counts() == {0: 6, 1: 6}
    assert {key: mean.tolist() for key, mean in scores.mean().items()} == {0: [0, 2.5], 1: [1, 8.5]}


def test_what_is_refused():
    with pytest.raises(ParameterError, match=r"scores of the shape \(3,\) for 2 views"):
        VideoScores().add(np.zeros(3), ("a", "b"))
    with seqpipe.videos(files("h264"), 4) as ds:
        with pytest.raises(ParameterError, match="count=0"):
            ds.views((8, 8), count=0)
        with pytest.raises(ParameterError, match=r"views\(\) after map\(\) or batch\(\)"):
            ds.batch(2).views((8, 8))
