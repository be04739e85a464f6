"""Batches of buckets: one shape each, every sample once, and the same after every interruption."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

import seqpipe
from seqpipe import Bucket, Clip, ParameterError, StateError, ops
from tests.dataset.sources import gist, listed, parts_of
from tests.support.media import made

SHAPES = [(32, 32), (24, 48)]


def _clips(size=3, bucket=None, fuse="surface", **options):
    dataset = seqpipe.videos(listed(), Clip(4, step=3), shuffle=True, seed=4).map(ops.Flip(p=0.5)).fuse(fuse)
    return dataset.batch(size, bucket=bucket or Bucket(), **options)


def _indices(batches):
    return sorted(int(index) for batch in batches for index in batch.index)


def test_every_sample_comes_once_in_batches_of_one_shape():
    dataset = _clips()
    batches = list(dataset.epoch(1))
    assert _indices(batches) == list(range(dataset.size))
    assert len(batches) == len(dataset)
    assert all(batch["image"].stacked is not None for batch in batches)
    assert len({batch["image"].shape[1:] for batch in batches}) == 2
    plain = seqpipe.videos(listed(), Clip(4, step=3), shuffle=True, seed=4).map(ops.Flip(p=0.5))
    for batch in batches:
        for sequence, index in zip(batch["image"], batch.index.tolist(), strict=True):
            assert np.array_equal(sequence.numpy(), plain.sample(index, 1)["image"].numpy())


@pytest.mark.parametrize("fuse", ["surface", "none"])
def test_samples_are_resized_to_cover_their_shape_and_cropped(fuse):
    dataset = _clips(bucket=Bucket(shapes=SHAPES), fuse=fuse)
    raw = seqpipe.videos(listed(), Clip(4, step=3))
    seen = set()
    for batch in dataset.epoch(0):
        height, width = batch["image"].shape[2:4]
        seen.add((height, width))
        fit = ops.Chain(
            ops.Resize(size=(height, width), mode="not_smaller"),
            ops.Crop(crop=(height, width)),
            ops.Flip(p=0.5),
        )
        for sequence, index in zip(batch["image"], batch.index.tolist(), strict=True):
            meant = fit(raw.sample(index)["image"], epoch=0, index=index).numpy()
            most = 0 if fuse == "none" else 1
            assert np.abs(meant.astype(int) - sequence.numpy()).max() <= most
    assert seen <= set(SHAPES)
    assert ("by the reader's conversion" in dataset.explain()) == (fuse == "surface")


def test_a_budget_limits_a_batch_and_its_report_tells_the_fill():
    dataset = _clips(size=100, bucket=Bucket(token_budget=100, token=(1, 32, 32), shapes=[(32, 64)]))
    sizes = [len(batch.index) for batch in dataset]
    assert max(sizes) == 12  # 8 tokens a clip
    (row,) = dataset.buckets.report()
    assert row["batches"] == len(sizes) == -(-dataset.size // 12)
    assert row["fill"] == pytest.approx(dataset.size * 8 / (100 * len(sizes)), abs=1e-3)


@pytest.mark.parametrize("shapes", [None, SHAPES])
def test_states_of_the_first_a_middle_and_the_last_step_continue(shapes):
    dataset = _clips(bucket=Bucket(shapes=shapes))
    batches = list(dataset.epoch(1))
    for number in (0, len(batches) // 2, len(batches) - 2):
        rest = list(dataset.resume(batches[number].state))
        assert [gist(batch) for batch in rest] == [gist(batch) for batch in batches[number + 1 :]]


def test_ranks_that_come_and_go_share_the_batches():
    dataset = _clips(size=2)
    whole = sorted(tuple(batch.index) for batch in dataset.epoch(2))
    first = [next(dataset.shard(rank, 2).epoch(2)) for rank in range(2)]
    rest = [batch for rank in range(3) for batch in dataset.shard(rank, 3).resume(first[0].state)]
    assert sorted(tuple(batch.index) for batch in [*first, *rest]) == whole


def test_incomplete_batches_follow_the_policy():
    full = {last: list(_clips(size=4, last=last)) for last in ("partial", "drop", "fill", "pad")}
    assert {len(batch.index) for last in ("drop", "fill", "pad") for batch in full[last]} == {4}
    assert len(full["drop"]) < len(full["partial"]) == len(full["fill"]) == len(full["pad"])


def test_videos_of_different_lengths_share_no_batch():
    dataset = seqpipe.videos(parts_of(), seqpipe.Whole(), shuffle=True).batch(2, bucket=Bucket())
    batches = list(dataset)
    assert all(batch["image"].stacked is not None for batch in batches)
    assert _indices(batches) == list(range(dataset.size))


def test_samples_keep_the_first_frames_of_their_bucket_and_no_more_are_decoded():
    whole = seqpipe.videos(parts_of(), seqpipe.Whole(), shuffle=True)
    lengths = [len(whole.sample(n)["frames"]) for n in range(whole.size)]
    counts = min(lengths), max(lengths) - 1
    with whole.batch(2, bucket=Bucket(frames=counts)) as dataset:
        batches = list(dataset)
        assert _indices(batches) == list(range(whole.size))
        for batch in batches:
            for n, frames in zip(batch.index.tolist(), batch["frames"], strict=True):
                kept = max(count for count in counts if count <= lengths[n])
                assert np.array_equal(frames, whole.sample(n)["frames"][:kept])
                assert batch["image"].shape[1] == kept
        state = batches[0].state
        assert [gist(batch) for batch in dataset.resume(state)] == [gist(batch) for batch in batches[1:]]


def test_packed_batches_become_one_sequence_of_tokens():
    dataset = seqpipe.videos(listed(), Clip(4, step=3), shuffle=True, seed=4)
    dataset = dataset.batch(9, bucket=Bucket(token_budget=256, token=(2, 16, 16), pack=True))
    batches = list(dataset.epoch(1))
    assert _indices(batches) == list(range(dataset.size))
    assert any(isinstance(batch["image"].stacked, type(None)) for batch in batches)  # of several shapes
    for batch in batches:
        packed = seqpipe.packed(batch["image"], (2, 16, 16), budget=256)
        assert packed.tokens.shape == (256, 2 * 16 * 16 * 3)
        assert (
            packed.mask.sum() == packed.lengths.sum() == packed.bounds[-1] == packed.grid.prod(axis=1).sum()
        )
        assert not packed.tokens[~packed.mask].any()
        clips = list(batch["image"])
        for at in (0, int(packed.bounds[-1]) - 1):
            t, row, column = packed.positions[at]
            clip = clips[packed.sample[at]].numpy()
            cut = clip[2 * t : 2 * t + 2, 16 * row : 16 * row + 16, 16 * column : 16 * column + 16]
            assert np.array_equal(packed.tokens[at], cut.reshape(-1))
    rest = list(dataset.resume(batches[0].state))
    assert [gist(batch) for batch in rest] == [gist(batch) for batch in batches[1:]]


def test_images_and_clips_alternate_in_a_packed_sequence():
    rng = np.random.default_rng(0)
    image, clip = rng.integers(0, 256, (32, 16, 3), np.uint8), rng.integers(0, 256, (3, 16, 16, 3), np.uint8)
    packed = seqpipe.packed([image, clip, image], (2, 16, 16))
    assert packed.grid.tolist() == [[1, 2, 1], [2, 1, 1], [1, 2, 1]]
    assert packed.bounds.tolist() == [0, 2, 4, 6]
    assert np.array_equal(packed.tokens[3].reshape(2, 16, 16, 3), clip[[2, 2]])  # the last frame is repeated
    assert np.array_equal(packed.tokens[1].reshape(2, 16, 16, 3), image[None, 16:].repeat(2, axis=0))


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (
            [np.zeros((20, 16, 3), np.uint8)],
            "image 0 has 20×16 pixels; allowed: multiples of the token's 16×16",
        ),
        (
            [np.zeros((16, 16, 3), np.uint8), np.zeros((16, 16, 1), np.uint8)],
            "with 1 channels, uint8 with 3 chan",
        ),
        ([np.zeros((64, 64, 3), np.uint8)], "16 tokens; allowed: at most budget=8"),
        ([np.zeros(4)], "image 0 has the layout C; allowed: FHWC or HWC"),
        ("clip.mp4", "images is a str; allowed: a batch"),
    ],
)
def test_images_that_cannot_be_packed_are_named(images, said):
    with pytest.raises(ParameterError, match=said):
        seqpipe.packed(images, (2, 16, 16), budget=8)


def test_images_and_clips_of_a_list_are_interleaved_with_their_texts(tmp_path):
    rows = ["path,start_frame,end_frame,text"]
    for number, name in enumerate(("one.png", "two.png")):
        cv2.imwrite(str(tmp_path / name), np.full((96, 128, 3), 40 * number, np.uint8))
        rows.append(f"{tmp_path / name},,,picture {number}")
    rows.insert(2, f"{made('h264')},3,8,a clip")
    (tmp_path / "list.csv").write_text("\n".join(rows))
    dataset = seqpipe.videos(seqpipe.listing(str(tmp_path / "list.csv")), seqpipe.Whole())
    (batch,) = dataset.batch(8, bucket=Bucket(token_budget=512, token=(2, 16, 16), pack=True))
    assert list(batch["text"]) == ["picture 0", "a clip", "picture 1"]
    packed = seqpipe.packed(batch["image"], (2, 16, 16), budget=512)
    assert packed.grid.tolist() == [[1, 6, 8], [3, 6, 8], [1, 6, 8]]
    assert packed.mask.sum() == 5 * 48


def test_a_bucket_without_samples_is_named():
    with pytest.warns(UserWarning, match="no sample goes to the bucket of 32×512"):
        _clips(bucket=Bucket(shapes=[*SHAPES, (32, 512)]))


def test_items_tell_their_sizes_and_are_resized():
    rng = np.random.default_rng(0)
    sides = [(40, 60), (60, 40), (48, 48)] * 3
    pictures = [rng.integers(0, 256, (*side, 3), np.uint8) for side in sides]
    bucket = Bucket(shapes=[(32, 48), (48, 32)], sizes=[(1, *side) for side in sides])
    dataset = seqpipe.items({"image": pictures}, shuffle=True).batch(2, bucket=bucket)
    for batch in dataset:
        for sequence, index in zip(batch["image"], batch.index.tolist(), strict=True):
            height, width = sequence.shape[:2]
            fit = ops.Chain(
                ops.Resize(size=(height, width), mode="not_smaller"), ops.Crop(crop=(height, width))
            )
            assert np.array_equal(sequence.numpy(), fit(pictures[index]))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: seqpipe.items([np.zeros((4, 4, 3), np.uint8)]).batch(2, bucket=Bucket()),
            "does not know the sizes",
        ),
        (
            lambda: seqpipe.feed([np.zeros((4, 4, 3), np.uint8)]).batch(2, bucket=Bucket()),
            "bucket= of a feed",
        ),
        (lambda: _clips(bucket=(32, 32)), r"bucket is a tuple; allowed: seqpipe.Bucket\(…\)"),
        (
            lambda: _clips(bucket=Bucket(pack=True, token_budget=999), last="pad"),
            "last='pad' of packed samples; allowed: 'partial'",
        ),
        (
            lambda: seqpipe.items([np.zeros((4, 4, 3), np.uint8)]).batch(
                2, bucket=Bucket(frames=1, sizes=[(1, 4, 4)])
            ),
            "items cannot leave out the last frames of samples",
        ),
        (lambda: _clips(bucket=Bucket(sizes=[(1, 2, 3)])), r"sizes of shape \(1, 3\); allowed: \(26, 3\)"),
        (lambda: _clips(bucket=Bucket(shapes=SHAPES)).read(range(26)), "samples of 2 buckets in one batch"),
    ],
)
def test_buckets_that_cannot_be_are_named(make, said):
    with pytest.raises(ParameterError, match=said):
        make()


def test_a_state_of_other_buckets_is_refused():
    state = next(iter(_clips())).state
    with pytest.raises(StateError, match="bucket"):
        _clips(size=4).resume(state)
