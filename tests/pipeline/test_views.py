"""Evaluation views: clips spread evenly, windows along the longer side, scores averaged by video."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.errors import ParameterError
from seqpipe.pipeline import VideoScores, crop_views
from seqpipe.readers import Range, Video
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
    with Video(
        files=files("h264", "hevc"), labels=[3, 4], sequence_length=4, clips_per_video=3, clip_mode="even"
    ) as reader:
        assert len(reader) == 6
        scores = VideoScores()
        for batch in reader.batches(3):
            assert [shown(sequence)[0] for sequence in batch] == [0, 22, 44]
            views = crop_views(batch, (96, 96), count=3)
            assert views.shape == (9, 4, 96, 96, 3)
            assert views.labels.tolist() == [batch.labels[0]] * 9
            assert views.indices.tolist() == np.repeat(batch.indices, 3).tolist()
            for number, sequence in enumerate(views):
                left = (0, 16, 32)[number % 3]
                assert np.array_equal(sequence.numpy(), batch[number // 3].numpy()[:, :, left : left + 96])
            scores.add(np.arange(18.0).reshape(9, 2), views.sources)
        assert list(scores.counts().values()) == [9, 9]
        assert all(mean.tolist() == [8, 9] for mean in scores.mean().values())


def test_parts_of_one_file_are_videos_of_their_own_and_labels_may_be_vectors():
    parts = [Range(end_frame=20), Range(start_frame=20)]
    with Video(
        files=files("h264", "h264"),
        labels=["0", "0 1"],
        label_type="classes",
        ranges=parts,
        sequence_length=4,
        clips_per_video=2,
        clip_mode="even",
        layout="CFHW",
    ) as reader:
        scores = VideoScores()
        for batch in reader.batches(3):
            views = crop_views(batch, (96, 96), count=3)
            assert views.layout == "NCFHW"
            assert views.labels.tolist() == np.repeat(batch.labels, 3, axis=0).tolist()
            videos = reader.videos(views.indices)
            scores.add(np.stack([videos, views.indices], axis=1), videos)
        assert scores.counts() == {0: 6, 1: 6}
        assert {key: mean.tolist() for key, mean in scores.mean().items()} == {0: [0, 0.5], 1: [1, 2.5]}


def test_what_is_refused():
    with pytest.raises(ParameterError, match="clip_mode='even' has no meaning without clips_per_video"):
        Video(files=files("h264"), sequence_length=4, clip_mode="even")
    with pytest.raises(ParameterError, match="clips_per_video=2 and fps=10 exclude each other"):
        Video(files=files("h264"), sequence_length=4, clips_per_video=2, clip_mode="even", fps=10)
    with pytest.raises(ParameterError, match=r"scores of the shape \(3,\) for 2 views"):
        VideoScores().add(np.zeros(3), ("a", "b"))
    with (
        Video(files=files("h264"), sequence_length=4) as reader,
        pytest.raises(ParameterError, match="count=0"),
    ):
        crop_views(next(reader.batches(1)), (8, 8), count=0)
