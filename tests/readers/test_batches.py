"""Batches: stacked, as lists, padded with a mask; what becomes of the last one."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import Clip, Segments, videos
from seqpipe.errors import BackendError, ParameterError
from tests.support.datasets import assert_true_frames, clips, files, shown

SIZES = {"h264": (96, 128), "odd_vp9": (65, 97), "rotated_90": (128, 96), "wide_h264": (100, 176)}


def test_batches_of_one_shape_are_decoded_in_place():
    with clips(files("h264", "vp9"), labels=[4, 9], length=8) as dataset:
        batches = list(dataset.batch(4))
    assert [batch["image"].shape for batch in batches] == [(4, 8, 96, 128, 3)] * 3
    assert np.concatenate([batch["label"] for batch in batches]).tolist() == [4] * 6 + [9] * 6
    assert np.concatenate([batch["index"] for batch in batches]).tolist() == list(range(12))
    for batch in batches:
        image = batch["image"]
        assert "mask" not in batch
        assert image.layout == "NFHWC"
        assert batch["frames"].shape == (4, 8)
        for place, sequence in enumerate(image):
            assert np.shares_memory(sequence.data, image.data)
            assert np.array_equal(image.data[place], sequence.data)
            assert_true_frames(sequence)


def test_what_was_decoded_is_counted():
    with videos(files("h264", "vp9"), Clip(8)).prefetch(0) as dataset:
        assert dataset.stats() == {"frames": {}, "fallbacks": {}}
        assert sum(len(batch["index"]) for batch in dataset.batch(4)) == 12
        assert dataset.stats() == {"frames": {"cpu": 96}, "fallbacks": {}}


def test_sizes_that_differ_make_a_list():
    with videos(files(*SIZES), Segments(3)) as dataset:
        (batch,) = dataset.batch(4)
    image = batch["image"]
    assert image.stacked is None
    assert [sequence.shape for sequence in image] == [(3, *size, 3) for size in SIZES.values()]
    for sequence in image:
        assert_true_frames(sequence)
    with pytest.raises(ParameterError, match=r"different shapes .*ragged='pad'"):
        image.numpy()


def test_sizes_that_differ_are_padded_and_masked():
    with videos(files(*SIZES), Segments(3, where="center", fill=9)) as dataset:
        plain = next(iter(dataset.batch(4)))["image"]
        batch = next(iter(dataset.batch(4, ragged="pad")))
    image = batch["image"]
    assert image.shape == (4, 3, 128, 176, 3)
    assert batch["mask"].shape == (4, 3, 128, 176)
    for place, (rows, columns) in enumerate(SIZES.values()):
        expected = np.zeros((128, 176), bool)
        expected[:rows, :columns] = True
        assert (batch["mask"][place] == expected).all()
        assert np.array_equal(image.data[place][:, :rows, :columns], plain[place].data)
        assert (image.data[place][:, ~expected] == 9).all()
        assert np.shares_memory(image[place].data, image.data)
    assert batch["frames"].tolist() == plain.frames.tolist()


def test_padding_goes_by_the_letters_of_the_layout():
    options = {
        "length": 20,
        "step": 40,
        "pad": "constant",
        "dtype": "float32",
        "fill": -1.5,
    }
    with clips(files("odd_vp9", "wide_h264"), layout="FCHW", **options) as dataset:
        plain = next(iter(dataset.batch(4)))["image"]
        batch = next(iter(dataset.batch(4, ragged="pad")))["image"]
    rows, columns = (max(SIZES[name][axis] for name in ("odd_vp9", "wide_h264")) for axis in (0, 1))
    assert (batch.layout, batch.shape) == ("NFCHW", (4, 20, 3, rows, columns))
    assert batch.mask.shape == (4, 20, rows, columns)
    for place, sequence in enumerate(plain):
        rows, columns = sequence.shape[2:]
        real = int(np.count_nonzero(sequence.frames >= 0))
        assert np.array_equal(batch.data[place][..., :rows, :columns], sequence.data)
        assert (batch.data[place][..., rows:, :] == -1.5).all()
        assert (batch.data[place][..., columns:] == -1.5).all()
        assert batch.mask[place, :real, :rows, :columns].all()
        assert batch.mask[place].sum() == real * rows * columns
    assert plain.frames[1].min() == -1


def test_a_mask_is_there_whenever_it_is_asked_for_and_leaves_padding_out():
    options = {"length": 20, "step": 40, "pad": "edge"}
    with clips(files("h264"), **options) as dataset:
        batch = next(iter(dataset.batch(2, ragged="pad")))
    assert batch["frames"][1].tolist() == [*range(40, 48), *[-1] * 12]
    assert batch["mask"][0].all()
    assert batch["mask"][1, :8].all()
    assert not batch["mask"][1, 8:].any()


def test_a_size_makes_one_shape_of_all():
    with clips(files(*SIZES), count=2, size=(48, 64)) as dataset:
        (batch,) = dataset.batch(4)
    assert batch["image"].shape == (4, 2, 48, 64, 3)


@pytest.mark.parametrize(
    ("last", "sizes"),
    [("partial", [4, 4, 1]), ("drop", [4, 4]), ("fill", [4, 4, 4]), ("pad", [4, 4, 4])],
)
def test_the_last_batch(last, sizes):
    with videos(files("h264"), Clip(5)) as dataset:
        batches = dataset.batch(4, last=last)
        found = list(batches)
    assert len(batches) == len(batches.epoch(3)) == len(sizes)
    assert [len(batch["index"]) for batch in found] == sizes
    end = {"partial": [8], "drop": [4, 5, 6, 7], "fill": [8, 0, 1, 2], "pad": [8, 8, 8, 8]}[last]
    assert found[-1]["index"].tolist() == end
    if last == "fill":
        assert shown(found[-1]["image"][1]) == [0, 1, 2, 3, 4]
    assert found[-1].state["history"] == [[1, 8 if last == "drop" else 9]]


def test_ranks_of_unequal_length():
    dataset = videos(files("h264"), Clip(5))  # 9 samples
    for last, wanted in (("partial", [3, 2]), ("drop", [2, 2])):
        ranks = [dataset.batch(2, last=last).shard(rank, 2) for rank in range(2)]
        for epoch in range(3):
            assert [len(list(rank.epoch(epoch))) for rank in ranks] == wanted
        assert [len(rank) for rank in ranks] == [len(rank.epoch(2)) for rank in ranks] == wanted


def test_a_rank_without_samples_has_no_batches():
    dataset = videos(files("h264"), Segments(2)).shard(2, 5)
    assert list(dataset.batch(2)) == list(dataset) == []
    assert len(dataset) == len(dataset.batch(2)) == 0


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        (
            {"length": 0},
            ParameterError,
            r"length=0 is not valid; allowed: a whole number from 1 to 10000000",
        ),
        ({"length": 4, "stride": 0}, ParameterError, r"stride=0 is not valid"),
        ({"length": 4, "step": -1}, ParameterError, r"step=-1 is not valid"),
        ({"length": None}, ParameterError, r"Clip: length is missing"),
        (
            {"length": 4, "per_video": 2, "step": 3},
            ParameterError,
            r"per_video=2 and step=3 exclude",
        ),
        ({"length": 4, "together": True}, ParameterError, r"together=True has no meaning without per_video"),
        ({"length": 4, "fps": 0}, ParameterError, r"fps=0 is not valid"),
        ({"length": 4, "pad": "zero"}, ParameterError, r"pad='zero' is not valid"),
        (
            {"count": 2, "where": "middle"},
            ParameterError,
            r"where='middle' is not valid; .*'center'",
        ),
        ({"count": 2, "shard": (2, 2)}, ParameterError, r"shard=\(2, 2\) is not valid"),
        ({"count": 2, "shuffle": 1}, ParameterError, r"shuffle=1 is not valid; allowed: True or False"),
        ({"count": 2, "seed": "a"}, ParameterError, r"seed='a' is not valid"),
        ({"count": 2, "threads": 0}, ParameterError, r"threads=0 is not valid"),
        ({"count": 2, "ahead": -1}, ParameterError, r"batches=-1 is not valid"),
        (
            {"count": 2, "on_error": "ignore"},
            ParameterError,
            r"on_error='ignore' is not valid; .*'substitute'",
        ),
        ({"count": 2, "min_frames": 0}, ParameterError, r"min_frames=0 is not valid"),
        (
            {"count": 2, "fill": 0.5},
            ParameterError,
            r"fill=0\.5 is not valid; allowed: a whole number from 0 to 255",
        ),
        (
            {"count": 2, "fill": 1e5, "dtype": "float16"},
            ParameterError,
            r"fill=100000\.0 is not valid; allowed: a number from -65504 to 65504",
        ),
        (
            {"count": 2, "fill": 256},
            ParameterError,
            r"fill=256 is not valid; allowed: a whole number from 0 to 255",
        ),
        (
            {"count": 2, "size": (9, 9), "short_side": 4},
            ParameterError,
            r"size and short_side exclude one another",
        ),
        (
            {"count": 2, "crop": (0, 0, 999, 9)},
            ParameterError,
            r"h264\.mp4: crop of .* pixels at x=0, y=0 exceeds the frame",
        ),
        ({"count": 2, "output": "RGB"}, ParameterError, r"output='RGB' is not valid"),
        ({"count": 2, "device": "cuda:99"}, BackendError, "cupy is not installed|CUDA|cuda:99"),
        ({"count": 2, "device": "tpu"}, ParameterError, r"device='tpu' is unknown"),
        (
            {"count": 2, "shard": (0, 2), "even": True},
            ParameterError,
            r"1 samples cannot be shared evenly by 2",
        ),
        (
            {"count": 2, "even": "no"},
            ParameterError,
            r"even='no' is not valid; .*True or False",
        ),
        (
            {"length": 49},
            ParameterError,
            r"no video is long enough: the longest one has 48 frames, but .* 49 frames",
        ),
        (
            {"length": 13, "stride": 4},
            ParameterError,
            r"length=13 with stride=4 needs 49 frames.*pad='edge'",
        ),
        (
            {"length": 9, "fps": 4},
            ParameterError,
            r"length=9 with stride=1 at fps=4 needs more than 2 s",
        ),
        ({"count": 2, "min_frames": 49}, ParameterError, r"min_frames=49 are required"),
    ],
)
def test_bad_parameters(options, kind, said):
    with pytest.raises(kind, match=said):
        clips(files("h264"), **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": 0}, r"size=0 is not valid"),
        ({"size": 2, "last": "all"}, r"last='all' is not valid"),
        ({"size": 2, "ragged": "crop"}, r"ragged='crop' is not valid; allowed: 'list', 'pad'"),
    ],
)
def test_bad_parameters_of_batches(options, said):
    with pytest.raises(ParameterError, match=said):
        videos(files("h264"), Segments(1)).batch(**options)


@pytest.mark.parametrize("take", [None, "8", 2.5, [4]])
def test_what_is_no_take_is_refused(take):
    with pytest.raises(ParameterError, match=r"take is .*allowed: Clip\(length, …\), Segments"):
        videos(files("h264"), take)


def test_reprs_say_what_they_stand_for():
    dataset = videos(files("h264", "vp9"), Clip(8), shuffle=True, seed=3).shard(1, 2, even=True)
    said = "videos(2 videos, 12 samples, Clip(length=8), shuffle seed 3)\n    .shard(1, 2, even=True)"
    assert repr(dataset) == said
    batches = iter(dataset.batch(4))
    next(batches)
    assert repr(batches) == "Epoch(0 of videos; 4 samples of rank 1 returned)"
    assert repr(dataset.report()) == "Report(2 of 2 videos, 12 samples)"
