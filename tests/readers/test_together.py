"""Clips of one video side by side, and samples that come several times with other augmentation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe import ops
from seqpipe.errors import ParameterError
from seqpipe.pipeline import Augmented
from seqpipe.sampling import EpochOrder
from tests.support.datasets import assert_resumes, clips, files


def reader(**options):
    options = {
        "files": files("h264", "hevc", "vp9"),
        "length": 4,
        "shuffle": True,
        "seed": 2,
    } | options
    return clips(**options)


@given(
    blocks=st.integers(1, 30),
    block=st.integers(1, 6),
    world=st.integers(1, 5),
    epoch=st.integers(0, 3),
    stick=st.booleans(),
    shuffle=st.booleans(),
)
def test_blocks_stay_whole_and_every_sample_comes_once(blocks, block, world, epoch, stick, shuffle):
    size = blocks * block
    ranks = [
        EpochOrder(size=size, block=block, shuffle=shuffle, seed=4, shard=(rank, world), stick_to_shard=stick)
        for rank in range(world)
    ]
    parts = [order.samples(epoch) for order in ranks]
    assert sorted(np.concatenate(parts).tolist()) == list(range(size))
    for order, part in zip(ranks, parts, strict=True):
        assert order.shortest <= len(part) <= order.longest
        assert len(part) % block == 0
        rows = part.reshape(-1, block)
        assert (rows == rows[:, :1] + np.arange(block)).all()
        assert (rows[:, 0] % block == 0).all()


def test_even_shards_repeat_a_whole_block():
    ranks = [EpochOrder(size=9, block=3, shard=(rank, 2), even=True) for rank in range(2)]
    assert [order.samples(0).tolist() for order in ranks] == [[0, 1, 2, 0, 1, 2], [3, 4, 5, 6, 7, 8]]
    with pytest.raises(ParameterError, match="10 samples are not whole blocks of 3"):
        EpochOrder(size=10, block=3)


def test_clips_of_a_video_follow_one_another_and_share_its_decoding():
    counts = {}
    for together in (False, True):
        with reader(clips_per_video=4, sequence_length=16, clips_together=together, prefetch=0) as videos:
            batches = list(videos.batch(4))
            counts[together] = videos.stats()["frames"]["cpu"]
            sources = [len(set(batch.sources)) for batch in batches]
            samples = {int(i): f.tolist() for b in batches for i, f in zip(b.indices, b.frames, strict=True)}
        assert (max(sources) == 1) is together
        counts[together, "samples"] = samples
    assert counts[True] < counts[False], "fewer frames are decoded"
    assert counts[True, "samples"] == counts[False, "samples"], "samples are the same, their order is not"


def test_a_sample_that_comes_again_has_the_same_frames_and_another_augmentation():
    chain = ops.RandomResizedCrop(size=(32, 32))
    with reader(clips_per_video=2, repeats=3) as videos, reader(clips_per_video=2) as once:
        assert (videos.size, len(videos)) == (18, 18)
        with Augmented(videos, chain) as dataset:
            (batch,) = dataset.batch(18)
            decoded = videos.stats()["frames"]["cpu"]
        assert decoded <= 6 * 4, "each is decoded once"
        rows = batch["index"].reshape(-1, 3)
        assert (rows == rows[:, :1] + np.arange(3)).all()
        frames = batch["frames"].reshape(-1, 3, 4)
        assert (frames == frames[:, :1]).all()
        assert {int(i) // 3: f.tolist() for i, f in zip(batch["index"], batch["frames"], strict=True)} == {
            int(i): f.tolist() for b in once.batch(6) for i, f in zip(b.indices, b.frames, strict=True)
        }
        pixels = [sequence.numpy().tobytes() for sequence in batch]
        assert len(set(pixels)) == 18
        assert videos.videos(batch["index"]).tolist() == (batch["index"] // 6).tolist()


def test_any_state_resumes_with_blocks():
    assert_resumes(lambda: reader(clips_per_video=2, clips_together=True, repeats=2), batch_size=5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"together": True}, "clips_together=True has no meaning without clips_per_video"),
        (
            {"together": 1, "per_video": 2},
            "clips_together=1 is not valid; allowed: True or False",
        ),
        ({"repeats": 0}, "repeats=0 is not valid; allowed: a whole number from 1"),
    ],
)
def test_what_is_refused(options, said):
    with pytest.raises(ParameterError, match=said):
        reader(**options)
