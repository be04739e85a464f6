"""A reader and a chain as one dataset: what the chain gives for the reader's batches, whoever does it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import seqpipe
from seqpipe import ops
from seqpipe.errors import ParameterError, StateError
from seqpipe.ops import Chain
from seqpipe.pipeline import Augmented
from seqpipe.readers import Video
from seqpipe.sequence import Batch
from tests.support.datasets import files, gist

MEAN, STD = (123.0, 116.0, 103.0), (58.0, 57.0, 56.0)
NORMALIZED = ops.CropMirrorNormalize(mean=MEAN, std=STD, dtype="float32", output_layout="CHW")
TRAIN = Chain(ops.RandomResizedCrop(size=(40, 48), seed=3), ops.Flip(p=0.5), NORMALIZED)
EVAL = Chain(
    ops.Resize(resize_shorter=50),
    ops.Crop(crop=(40, 44)),
    ops.Normalize(mean=MEAN, stddev=STD, dtype="float16"),
)
SEVERAL = Chain(
    ops.Crop(crop=(60, 80), crop_pos_x=(0.0, 1.0), crop_pos_y=(0.0, 1.0)),
    ops.Flip(p=0.5, seed=1),
    ops.ResizeCropMirror(size=(50, 60), crop=(40, 44), crop_pos_x=(0.0, 1.0), mirror=True),
    ops.Crop(crop=(33, 40), crop_pos_y=(0.0, 1.0), seed=4),
    ops.Flip(p=0.5, seed=2),
    NORMALIZED,
)
ENLARGED = Chain(ops.RandomResizedCrop(size=(150, 160), random_area=(0.1, 0.3)), ops.Cast(dtype="float32"))
CHAINS = {"train": TRAIN, "eval": EVAL, "several": SEVERAL, "enlarged": ENLARGED}
LEVEL = 1.001  # of 8 bits, and what float32 has rounded of values that are normalized
MEDIA = (
    "h264",
    "hevc_10",
    "h264_444",
    "rotated_90",
    "mirrored",
    "odd_vp9",
    "odd_h264_444",
    "colour_bt2020_10",
)


def reader(place: str, *names: str, **changes: Any) -> Video:
    """Some sequences of several files, in a new order in every epoch."""
    given = {"sequence_length": 4, "stride": 2, "shuffle": True, "seed": 5, "device": place, "threads": 2}
    labels = {} if "file_root" in changes else {"files": files(*names), "labels": list(range(len(names)))}
    return Video(**{**given, **labels, "prefetch_gib": 0.5, **changes})


def unfused(
    chain: Chain, place: str, *names: str, epoch: int = 2, size: int = 3, **changes: Any
) -> list[Batch]:
    """What the references of a chain's operators give for the reader's batches."""
    with reader(place, *names, **changes) as dataset:
        dataset.set_epoch(epoch)
        host = [in_main_memory(batch) for batch in dataset.batches(size)]
    return [chain(batch, epoch=epoch, backend="reference") for batch in host]


def in_main_memory(batch: Batch) -> Batch:
    sequences = [sequence.with_pixels(sequence.numpy(), sequence.layout) for sequence in batch]
    return Batch.of(sequences, labels=batch.labels, indices=batch.indices)


def fused(chain: Chain, place: str, *names: str, fuse: Any = "surface", **changes: Any) -> list[Batch]:
    with Augmented(reader(place, *names, **changes), chain, fuse=fuse) as dataset:
        dataset.set_epoch(2)
        return list(dataset.batches(3))


def assert_same_samples(found: list[Batch], wanted: list[Batch]) -> None:
    """All that a batch tells beside its pixels."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.indices.tolist() == other.indices.tolist()
        assert one.labels.tolist() == other.labels.tolist()
        assert one.sources == other.sources
        assert one.layout == other.layout
        assert one[0].dtype == other[0].dtype
        np.testing.assert_array_equal(one.frames, other.frames)
        np.testing.assert_array_equal(one.timestamps, other.timestamps)


def levels_apart(found: list[Batch], wanted: list[Batch], unit: Any = STD) -> NDArray[np.float64]:
    """How far values are apart, in levels.

    Args:
        found: one.
        wanted: the other.
        unit: what a value of 1 is in levels, for each channel.
    """
    parts = []
    for one, other in zip(found, wanted, strict=True):
        for left, right in zip(one, other, strict=True):
            apart = np.abs(left.numpy().astype(float) - right.numpy().astype(float))
            apart = np.moveaxis(apart, 1, -1) if left.layout == "FCHW" else apart
            parts.append((apart * unit).ravel())
    return np.concatenate(parts)


# ------------------------------------------------------------------------------------------ pixels


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("media", MEDIA)
def test_fused_is_unfused_within_a_level(place: str, media: str, name: str) -> None:
    chain = CHAINS[name]
    found, wanted = fused(chain, place, media), unfused(chain, place, media)
    assert_same_samples(found, wanted)
    apart = levels_apart(found, wanted, 1 if name == "enlarged" else STD)
    assert apart.max() <= LEVEL
    # each value is rounded once instead of twice or more: half a level, and what a float16 rounds
    assert np.quantile(apart, 0.99) <= 0.6
    assert all(batch.stacked is not None for batch in found)


@pytest.mark.parametrize("fuse", ["surface", "exact", "planes"])
def test_videos_of_different_sizes_in_a_batch(place: str, fuse: Any) -> None:
    names = ("h264", "wide_h264", "rotated_90")
    found, wanted = fused(TRAIN, place, *names, fuse=fuse), unfused(TRAIN, place, *names)
    assert_same_samples(found, wanted)
    assert all(batch.shape[1:] == (4, 3, 40, 48) for batch in found)
    apart = levels_apart(found, wanted)
    assert apart.max() <= (LEVEL if fuse != "planes" else 16)
    assert (apart > LEVEL).mean() < 0.02


@pytest.mark.parametrize("colour", ["BGR", "GRAY", "YCbCr"])
def test_other_colours(place: str, colour: Any) -> None:
    chain = Chain(ops.RandomResizedCrop(size=(40, 48)), ops.Flip(p=0.5))
    found = fused(chain, place, "h264", colour=colour)
    wanted = unfused(chain, place, "h264", colour=colour)
    assert_same_samples(found, wanted)
    assert levels_apart(found, wanted, 1).max() <= 1


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_other_types_of_the_reader(place: str, dtype: Any) -> None:
    chain = Chain(ops.RandomResizedCrop(size=(40, 48)), ops.Flip(p=0.5))
    found = fused(chain, place, "hevc_10", dtype=dtype, layout="FCHW")
    wanted = unfused(chain, place, "hevc_10", dtype=dtype, layout="FCHW")
    assert_same_samples(found, wanted)
    # which are rounded to 16 bits
    assert levels_apart(found, wanted, 1 if dtype == "uint16" else 65535).max() <= 1.5


def test_where_colours_are_cut_off_planes_differ_and_elsewhere_not(place: str) -> None:
    """Judged by the reader's own pictures: what is neither black nor white in any channel was not cut off."""
    chain = Chain(ops.RandomResizedCrop(size=(40, 48)), ops.Flip(p=0.5))
    found, wanted = fused(chain, place, "h264", fuse="planes"), unfused(chain, place, "h264")
    with reader(place, "h264", dtype="uint16") as dataset:
        dataset.set_epoch(2)
        cut = [in_main_memory(batch) for batch in dataset.batches(3)]
    reached = []
    for batch in cut:
        pixels = batch.numpy()
        lost = ((pixels == 0) | (pixels == 65535)).any(-1, keepdims=True).astype(np.float32)
        reached.append(chain(lost, layout="NFHWC", epoch=2, index=batch.indices, backend="reference") > 0)
    apart = levels_apart(found, wanted, 1)
    where = np.concatenate([np.broadcast_to(one, (*one.shape[:-1], 3)).ravel() for one in reached])
    assert 0.005 < where.mean() < 0.98
    # chroma is rounded at full size only, which counts where a window is enlarged
    assert apart[~where].max() <= 2
    assert 2 < apart[where].max() < 20


EXACT = {
    "cut": Chain(
        ops.Crop(crop=(40, 44), crop_pos_x=(0.0, 1.0), crop_pos_y=(0.0, 1.0)), ops.Flip(p=0.5), NORMALIZED
    ),
    "turned": Chain(
        ops.Flip(p=0.5), ops.Crop(crop=(33, 41), crop_pos_x=(0.0, 1.0)), ops.Brightness(brightness=1.3)
    ),
    "arranged": Chain(
        ops.CropMirrorNormalize(crop=(31, 30), mirror=True, dtype="uint8", output_layout="CHW")
    ),
    "scaled": TRAIN,
}


@pytest.mark.parametrize(
    "reading", [{}, {"short_side": 60}, {"size": (70, 51), "crop": (3, 5, 90, 58), "mirror": True}]
)
@pytest.mark.parametrize("media", ["h264", "hevc_10", "rotated_90", "odd_vp9"])
@pytest.mark.parametrize("name", EXACT)
def test_exact_is_exact(place: str, name: str, media: str, reading: dict[str, Any]) -> None:
    chain = EXACT[name]
    if place == "cuda" and name == "scaled" and media != "h264":
        pytest.skip("nothing of it is fused: once is enough")
    with Augmented(reader(place, media, **reading), chain, fuse="exact") as dataset:
        dataset.set_epoch(2)
        found = list(dataset.batches(3))
    with reader(place, media, **reading) as dataset:
        dataset.set_epoch(2)
        wanted = [chain(batch, epoch=2) for batch in dataset.batches(3)]
    assert_same_samples(found, wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("fuse", ["surface", "exact", "planes", "none"])
def test_padding_goes_through_the_chain(place: str, fuse: Any) -> None:
    padded = {"sequence_length": 7, "stride": 20, "pad_mode": "constant", "fill_value": 40}
    found, wanted = fused(TRAIN, place, "h264", fuse=fuse, **padded), unfused(TRAIN, place, "h264", **padded)
    assert_same_samples(found, wanted)
    places = np.concatenate([batch.frames < 0 for batch in wanted])
    assert 0 < places.sum() < places.size
    left, right = (
        np.concatenate([batch.numpy() for batch in batches])[places] for batches in (found, wanted)
    )
    np.testing.assert_allclose(left, right, rtol=1e-6)
    np.testing.assert_allclose(
        left[:, :, 0, 0], np.broadcast_to((40 - np.array(MEAN)) / STD, left.shape[:2]), rtol=1e-6
    )


def test_no_picture_of_full_size_is_made(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Augmented(reader(place, "h264"), TRAIN) as dataset:
        engine, made = dataset.reader._engine.get(), []
        allocate = engine.allocate
        monkeypatch.setattr(
            engine, "allocate", lambda shape, dtype: made.append(shape) or allocate(shape, dtype)
        )
        given = next(dataset.batches(3))
    assert set(made) == {given.shape} == {(3, 4, 3, 40, 48)}


# ------------------------------------------------------------------------------------------ the dataset


@pytest.mark.parametrize("fuse", ["surface", "exact"])
def test_a_state_goes_on_with_exactly_what_would_have_come(place: str, fuse: Any) -> None:
    chain = Chain(*TRAIN.ops[:2], ops.Brightness(brightness=(0.5, 1.5)))

    def made() -> Augmented:
        return Augmented(reader(place, "h264", "h264_many_b"), chain, fuse=fuse)

    with made() as dataset:
        dataset.set_epoch(1)
        batches = dataset.batches(4)
        states, given = [batches.state_dict()], []
        for batch in batches:
            given.append(gist(batch))
            states.append(batches.state_dict())
        assert len(given) == len(batches) > 2
        one_by_one = [sequence.numpy() for sequence in dataset]
    with made() as other:
        rest, sequences = other.batches(4), other.sequences()
        for step, state in enumerate(states):
            rest.load_state_dict(json.loads(json.dumps(state)))
            assert other.epoch == 1
            assert [gist(batch) for batch in rest] == given[step:]
        sequences.load_state_dict(states[1])
        np.testing.assert_array_equal(next(sequences).numpy(), one_by_one[4])


def test_a_state_goes_with_the_chain_and_not_with_how_it_is_done() -> None:
    with Augmented(reader("cpu", "h264"), TRAIN) as dataset:
        batches = dataset.batches(2)
        next(batches)
        state = batches.state_dict()
        again = Augmented(dataset.reader, TRAIN, fuse="none").batches(2)
        again.load_state_dict(state)
        assert again.position == 2
        other = Augmented(dataset.reader, Chain(*TRAIN.ops[:2]))
        with pytest.raises(StateError, match="does not belong to this dataset: chain differs"):
            other.batches(2).load_state_dict(state)
        with pytest.raises(StateError, match="does not belong to this dataset: chain differs"):
            dataset.reader.batches(2).load_state_dict(state)
        with pytest.raises(StateError, match="chain differs"):
            batches.load_state_dict(dataset.reader.batches(2).state_dict())


@pytest.mark.parametrize("fuse", ["surface", "none"])
def test_every_way_to_a_sample_gives_the_same(fuse: Any) -> None:
    chain = Chain(*TRAIN.ops[:2], ops.Brightness(brightness=(0.5, 1.5)))
    with Augmented(reader("cpu", "h264", "wide_h264"), chain, fuse=fuse) as dataset:
        dataset.set_epoch(3)
        in_batches = [
            (index, sequence)
            for batch in dataset.batches(4)
            for index, sequence in zip(batch.indices, batch, strict=True)
        ]
        order = [sample.index for sample in dataset.requests()]
        assert [int(index) for index, _ in in_batches] == order
        for (index, one), other in zip(in_batches, dataset.sequences(), strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
            np.testing.assert_array_equal(one.numpy(), dataset.sample(int(index)).numpy())
        assert len(dataset) == dataset.epoch_length(3) == len(order) == dataset.total
        assert len(dataset.batches(4)) == -(-len(order) // 4)
        assert dataset.epoch == 3
        assert (np.array(dataset.sample(order[0], 4).numpy()) != in_batches[0][1].numpy()).any()


def test_it_has_what_its_reader_has() -> None:
    with reader("cpu", "h264", "vp9") as plain, Augmented(plain, TRAIN) as dataset:
        assert dataset.reader is plain
        assert dataset.chain is TRAIN
        assert dataset.classes == plain.classes
        assert dataset.report() == plain.report()
        next(dataset.batches(2))
        assert dataset.stats()["frames"]["cpu"] > 0
        assert repr(dataset) == f"Augmented({plain!r}, {TRAIN!r}, fuse='surface')"
        assert repr(dataset.batches(2)).startswith("AugmentedBatches(Batches(batch_size=2")
        assert Augmented(plain, ops.Flip()).chain == Chain(ops.Flip())


def test_padded_batches_are_not_fused() -> None:
    """Their windows are drawn in pictures that are filled up."""
    with reader("cpu", "h264", "wide_h264") as plain, Augmented(plain, TRAIN) as dataset:
        (wanted,) = [TRAIN(batch) for batch in plain.batches(30, ragged="pad")]
        (found,) = dataset.batches(30, ragged="pad")
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())
        np.testing.assert_array_equal(found.mask, wanted.mask)


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("fuse", ["surface", "none"])
def test_what_does_not_fit_is_raised_in_its_turn(fuse: Any, on_error: Any) -> None:
    """As the chain would raise it: whatever becomes of samples that cannot be read, and once for a batch."""
    chain = Chain(ops.Crop(crop=(98, 100)), ops.Flip())
    given = reader(
        "cpu", "wide_h264", "h264", "wide_h264", shuffle=False, on_error=on_error, sequence_length=8
    )
    with Augmented(given, chain, fuse=fuse) as dataset:
        each = len(dataset) // 3
        batches, found = dataset.batches(each), []
        for number in range(3):
            if number == 1:
                with pytest.raises(ParameterError, match=r"crop=\(98, 100\) of images of 96×128 pixels"):
                    next(batches)
            else:
                found.append(next(batches).shape)
        with pytest.raises(StopIteration):
            next(batches)
        assert found == [(each, 8, 98, 100, 3)] * 2
        assert not dataset.report().losses


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((None, TRAIN), "Augmented: reader is a NoneType; allowed: a seqpipe.readers.Video"),
        ((None, "flip"), "Augmented: reader is a NoneType"),
    ],
)
def test_what_is_no_dataset(given: tuple[Any, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Augmented(*given)


def test_what_is_no_chain_or_no_way_to_fuse() -> None:
    with reader("cpu", "h264") as dataset:
        with pytest.raises(ParameterError, match="chain is a list; allowed: a Chain or an operator"):
            Augmented(dataset, [ops.Flip()])  # type: ignore[arg-type]
        with pytest.raises(
            ParameterError, match="fuse='all' is not valid; allowed: 'exact', 'surface', 'planes', 'none'"
        ):
            Augmented(dataset, TRAIN, fuse="all")  # type: ignore[arg-type]
    assert seqpipe.pipeline.Augmented is Augmented
