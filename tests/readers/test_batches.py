"""Batches: stacked, as lists, padded with a mask; what becomes of the last one."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe.errors import BackendError, ParameterError
from seqpipe.readers import Video
from tests.support.datasets import assert_true_frames, files, shown

SIZES = {"h264": (96, 128), "odd_vp9": (65, 97), "rotated_90": (128, 96), "wide_h264": (100, 176)}


def test_batches_of_one_shape_are_decoded_in_place():
    with Video(files=files("h264", "vp9"), labels=[4, 9], sequence_length=8) as dataset:
        batches = list(dataset.batches(4))
    assert [batch.shape for batch in batches] == [(4, 8, 96, 128, 3)] * 3
    assert np.concatenate([batch.labels for batch in batches]).tolist() == [4] * 6 + [9] * 6
    assert np.concatenate([batch.indices for batch in batches]).tolist() == list(range(12))
    for batch in batches:
        assert batch.mask is None
        assert batch.layout == "NFHWC"
        assert batch.frames.shape == (4, 8)
        for place, sequence in enumerate(batch):
            assert np.shares_memory(sequence.data, batch.data)
            assert np.array_equal(batch.data[place], sequence.data)
            assert_true_frames(sequence)


def test_what_was_decoded_is_counted():
    with Video(files=files("h264", "vp9"), sequence_length=8, prefetch=0) as dataset:
        assert dataset.stats() == {"frames": {}, "fallbacks": {}}
        assert sum(len(batch) for batch in dataset.batches(4)) == 12
        assert dataset.stats() == {"frames": {"cpu": 96}, "fallbacks": {}}


def test_sizes_that_differ_make_a_list():
    with Video(files=files(*SIZES), segments=3) as dataset:
        (batch,) = dataset.batches(4)
    assert batch.stacked is None
    assert [sequence.shape for sequence in batch] == [(3, *size, 3) for size in SIZES.values()]
    for sequence in batch:
        assert_true_frames(sequence)
    with pytest.raises(ParameterError, match=r"different shapes .*ragged='pad'"):
        batch.numpy()


def test_sizes_that_differ_are_padded_and_masked():
    with Video(files=files(*SIZES), segments=3, segment_mode="center", fill_value=9) as dataset:
        plain = next(dataset.batches(4))
        batch = next(dataset.batches(4, ragged="pad"))
    assert batch.shape == (4, 3, 128, 176, 3)
    assert batch.mask.shape == (4, 3, 128, 176)
    for place, (rows, columns) in enumerate(SIZES.values()):
        expected = np.zeros((128, 176), bool)
        expected[:rows, :columns] = True
        assert (batch.mask[place] == expected).all()
        assert np.array_equal(batch.data[place][:, :rows, :columns], plain[place].data)
        assert (batch.data[place][:, ~expected] == 9).all()
        assert np.shares_memory(batch[place].data, batch.data)
    assert batch.frames.tolist() == plain.frames.tolist()


def test_padding_goes_by_the_letters_of_the_layout():
    options = {
        "sequence_length": 20,
        "step": 40,
        "pad_mode": "constant",
        "dtype": "float32",
        "fill_value": -1.5,
    }
    with Video(files=files("odd_vp9", "wide_h264"), layout="FCHW", **options) as dataset:
        plain = next(dataset.batches(4))
        batch = next(dataset.batches(4, ragged="pad"))
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
    options = {"sequence_length": 20, "step": 40, "pad_mode": "edge"}
    with Video(files=files("h264"), **options) as dataset:
        batch = next(dataset.batches(2, ragged="pad"))
    assert batch.frames[1].tolist() == [*range(40, 48), *[-1] * 12]
    assert batch.mask[0].all()
    assert batch.mask[1, :8].all()
    assert not batch.mask[1, 8:].any()


def test_a_size_makes_one_shape_of_all():
    with Video(files=files(*SIZES), segments=2, size=(48, 64)) as dataset:
        (batch,) = dataset.batches(4)
    assert batch.shape == (4, 2, 48, 64, 3)


@pytest.mark.parametrize(
    ("last_batch", "sizes"), [("partial", [4, 4, 1]), ("drop", [4, 4]), ("fill", [4, 4, 4])]
)
def test_the_last_batch(last_batch, sizes):
    with Video(files=files("h264"), sequence_length=5) as dataset:
        batches = dataset.batches(4, last_batch=last_batch)
        found = list(batches)
    assert len(batches) == len(sizes)
    assert [len(batch) for batch in found] == sizes
    if last_batch == "fill":
        assert found[-1].indices.tolist() == [8, 0, 1, 2]
        assert shown(found[-1][1]) == [0, 1, 2, 3, 4]
    assert batches.position == (8 if last_batch == "drop" else 9)


def test_epochs_of_unequal_length():
    dataset = Video(files=files("h264"), sequence_length=5, shard=(0, 2))  # 9 samples
    batches = dataset.batches(1)
    lengths = []
    for epoch in range(3):
        dataset.set_epoch(epoch)
        assert len(batches) == len(dataset)
        lengths.append(len(list(batches)))
    assert sorted(set(lengths)) == [4, 5]


def test_a_rank_without_samples_has_no_batches():
    dataset = Video(files=files("h264"), segments=2, shard=(2, 5))
    assert [len(list(dataset.batches(2)))] == [0]
    assert list(dataset) == []


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        (
            {"sequence_length": 0},
            ParameterError,
            r"sequence_length=0 is not valid; allowed: a whole number from 1 to 10000000",
        ),
        ({"sequence_length": 4, "stride": 0}, ParameterError, r"stride=0 is not valid"),
        ({"sequence_length": 4, "step": -1}, ParameterError, r"step=-1 is not valid"),
        ({}, ParameterError, r"sequence_length is missing"),
        (
            {"segments": 3, "sequence_length": 4},
            ParameterError,
            r"segments=3 and sequence_length=4 exclude each other",
        ),
        (
            {"sequence_length": 4, "clips_per_video": 2, "step": 3},
            ParameterError,
            r"clips_per_video=2 and step=3 exclude",
        ),
        ({"segments": 3, "fps": 5.0}, ParameterError, r"segments=3 and fps=5\.0 exclude each other"),
        ({"sequence_length": 4, "fps": 0}, ParameterError, r"fps=0 is not valid"),
        ({"sequence_length": 4, "pad_mode": "zero"}, ParameterError, r"pad_mode='zero' is not valid"),
        (
            {"segments": 2, "segment_mode": "middle"},
            ParameterError,
            r"segment_mode='middle' is not valid; .*'center'",
        ),
        ({"segments": 2, "shard": (2, 2)}, ParameterError, r"shard=\(2, 2\) is not valid"),
        ({"segments": 2, "shuffle": 1}, ParameterError, r"shuffle=1 is not valid; allowed: True or False"),
        ({"segments": 2, "seed": "a"}, ParameterError, r"seed='a' is not valid"),
        ({"segments": 2, "threads": 0}, ParameterError, r"threads=0 is not valid"),
        ({"segments": 2, "prefetch": -1}, ParameterError, r"prefetch=-1 is not valid"),
        (
            {"segments": 2, "on_error": "ignore"},
            ParameterError,
            r"on_error='ignore' is not valid; .*'substitute'",
        ),
        ({"segments": 2, "min_frames": 0}, ParameterError, r"min_frames=0 is not valid"),
        (
            {"segments": 2, "fill_value": 0.5},
            ParameterError,
            r"fill_value=0\.5 is not valid; allowed: a whole number from 0 to 255",
        ),
        (
            {"segments": 2, "fill_value": 1e5, "dtype": "float16"},
            ParameterError,
            r"fill_value=100000\.0 is not valid; allowed: a number from -65504 to 65504",
        ),
        (
            {"segments": 2, "fill_value": 256},
            ParameterError,
            r"fill_value=256 is not valid; allowed: a whole number from 0 to 255",
        ),
        (
            {"segments": 2, "size": (9, 9), "short_side": 4},
            ParameterError,
            r"size and short_side exclude one another",
        ),
        (
            {"segments": 2, "crop": (0, 0, 999, 9)},
            ParameterError,
            r"h264\.mp4: crop of .* pixels at x=0, y=0 exceeds the frame",
        ),
        ({"segments": 2, "output": "RGB"}, ParameterError, r"output='RGB' is not valid"),
        ({"segments": 2, "device": "cuda:99"}, BackendError, "cupy is not installed|CUDA|cuda:99"),
        ({"segments": 2, "device": "tpu"}, ParameterError, r"device='tpu' is unknown"),
        (
            {"segments": 2, "shard": (0, 2), "even_shards": True},
            ParameterError,
            r"1 samples cannot be shared evenly by 2",
        ),
        (
            {"segments": 2, "even_shards": "no"},
            ParameterError,
            r"even_shards='no' is not valid; .*True or False",
        ),
        (
            {"sequence_length": 49},
            ParameterError,
            r"no video is long enough: the longest one has 48 frames, but .* 49 frames",
        ),
        (
            {"sequence_length": 13, "stride": 4},
            ParameterError,
            r"sequence_length=13 with stride=4 needs 49 frames.*pad_mode",
        ),
        (
            {"sequence_length": 9, "fps": 4},
            ParameterError,
            r"sequence_length=9 with stride=1 at fps=4 needs more than 2 s",
        ),
        ({"segments": 2, "min_frames": 49}, ParameterError, r"min_frames=49 are required"),
    ],
)
def test_bad_parameters(options, kind, said):
    with pytest.raises(kind, match=said):
        Video(files=files("h264"), **options)


def test_output_given_twice():
    from seqpipe import OutputSpec

    with pytest.raises(ParameterError, match=r"output and color, size exclude one another"):
        Video(files=files("h264"), segments=1, output=OutputSpec(), color="GRAY", size=(8, 8))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch_size": 0}, r"batch_size=0 is not valid"),
        ({"batch_size": 2, "last_batch": "pad"}, r"last_batch='pad' is not valid"),
        ({"batch_size": 2, "ragged": "crop"}, r"ragged='crop' is not valid; allowed: 'list', 'pad'"),
    ],
)
def test_bad_parameters_of_batches(options, said):
    with pytest.raises(ParameterError, match=said):
        Video(files=files("h264"), segments=1).batches(**options)


def test_reprs_say_what_they_stand_for():
    dataset = Video(files=files("h264", "vp9"), sequence_length=8, shuffle=True, seed=3, shard=(1, 2))
    assert repr(dataset) == (
        "Video(2 videos, 12 samples, Windows(sequence_length=8, stride=1, pad_mode='none', step=None), "
        "shuffle seed 3, shard 1 of 2)"
    )
    batches = dataset.batches(4)
    next(batches)
    assert (
        repr(batches)
        == "Batches(batch_size=4, last_batch='partial', ragged='list'; epoch 0, position 4 of 6)"
    )
    assert repr(dataset.sequences()) == "Sequences(epoch 0, position 0 of 6)"
    assert repr(dataset.report()) == "Report(2 of 2 videos, 12 samples)"
