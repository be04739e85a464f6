"""Clips of one video side by side, and samples that come several times with other augmentation."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import ops
from seqpipe.errors import ParameterError
from tests.support.datasets import assert_resumes, clips, files, planned


def make(**options):
    options = {"length": 4, "shuffle": True, "seed": 2, **options}
    return clips(files("h264", "hevc", "vp9"), **options)


def test_clips_of_a_video_follow_one_another_and_share_its_decoding():
    counts = {}
    for together in (False, True):
        with make(per_video=4, length=16, together=together, ahead=0, batch=4) as dataset:
            batches = list(dataset)
            counts[together] = dataset.stats()["frames"]["cpu"]
        assert (max(len(set(batch["video"].tolist())) for batch in batches) == 1) is together
        counts[together, "samples"] = {
            int(index): frames.tolist()
            for batch in batches
            for index, frames in zip(batch["index"], batch["frames"], strict=True)
        }
    assert counts[True] < counts[False], "fewer frames are decoded"
    assert counts[True, "samples"] == counts[False, "samples"], "samples are the same, their order is not"


@pytest.mark.parametrize("world", [1, 2, 3])
def test_clips_that_stay_together_belong_to_one_rank(world):
    ranks = [planned(make(per_video=4, together=True, repeats=2, shard=(r, world))) for r in range(world)]
    assert sorted(one.index for rank in ranks for one in rank) == list(range(24))
    for rank in ranks:
        assert [one.video for one in rank] == [one.video for one in rank[::8] for _ in range(8)]


def test_a_sample_that_comes_again_has_the_same_frames_and_another_augmentation():
    once = {one.index: one.frames.tolist() for one in planned(make(per_video=2))}
    with make(per_video=2, repeats=3).map(ops.RandomResizedCrop(size=(32, 32))).batch(18) as dataset:
        assert (dataset.size, len(dataset)) == (18, 1)
        (batch,) = dataset
        assert dataset.stats()["frames"]["cpu"] <= 6 * 4, "each is decoded once"
    rows = batch["index"].reshape(-1, 3)
    assert (rows == rows[:, :1] + np.arange(3)).all()
    for index, frames in zip(batch["index"].tolist(), batch["frames"].tolist(), strict=True):
        assert frames == once[index // 3]
    assert len({sequence.numpy().tobytes() for sequence in batch["image"]}) == 18
    assert batch["video"].tolist() == (batch["index"] // 6).tolist()


def test_any_state_resumes_with_blocks():
    assert_resumes(lambda: make(per_video=2, together=True, repeats=2, batch=5))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"together": True}, "Clip: together=True has no meaning without per_video"),
        ({"together": 1, "per_video": 2}, "together=1 is not valid; allowed: True or False"),
        ({"repeats": 0}, "repeats=0 is not valid; allowed: a whole number from 1"),
    ],
)
def test_what_is_refused(options, said):
    with pytest.raises(ParameterError, match=said):
        make(**options)
