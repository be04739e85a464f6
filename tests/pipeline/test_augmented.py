"""The pixels of a data set with operators: what the chain gives for the batches without them, whoever does it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seqpipe import ops
from seqpipe.ops import Chain
from seqpipe.sequence import Batch
from seqpipe.video.nvdec.feeder import native
from seqpipe.video.nvdec.session import Session
from tests.support.augmented import (
    LEVEL,
    MEAN,
    NORMALIZED,
    STD,
    TRAIN,
    assert_same_samples,
    clips,
    fused,
    images,
    levels_apart,
    unfused,
)
from tests.support.deep import combined, deep
from tests.support.under_way import on_allocation

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
MEDIA = (
    "h264",
    "hevc_10",
    "h264_444",
    "rotated_90",
    "mirrored",
    "odd_vp9",
    "odd_h264_444",
    "color_bt2020_10",
)


@pytest.mark.parametrize(("media", "name"), combined(MEDIA, [*CHAINS]))
def test_fused_is_unfused_within_a_level(place: str, media: str, name: str) -> None:
    chain = CHAINS[name]
    found, wanted = fused(chain, place, media), unfused(chain, place, media)
    assert_same_samples(found, wanted)
    apart = levels_apart(found, wanted, 1 if name == "enlarged" else STD)
    assert apart.max() <= LEVEL
    # each value is rounded once instead of twice or more: half a level, and what a float16 rounds
    assert np.quantile(apart, 0.99) <= 0.6
    assert all(batch.stacked is not None for batch in found)


@pytest.mark.parametrize("fuse", ["surface", deep("exact")])
def test_videos_of_different_sizes_in_a_batch(place: str, fuse: Any) -> None:
    names = ("h264", "wide_h264", "rotated_90")
    found, wanted = fused(TRAIN, place, *names, fuse=fuse), unfused(TRAIN, place, *names)
    assert_same_samples(found, wanted)
    assert all(batch.shape[1:] == (4, 3, 40, 48) for batch in found)
    apart = levels_apart(found, wanted)
    assert apart.max() <= LEVEL
    assert (apart > LEVEL).mean() < 0.02


@pytest.mark.parametrize("color", ["BGR", "GRAY", "YCbCr"])
def test_other_colors(place: str, color: Any) -> None:
    chain = Chain(ops.RandomResizedCrop(size=(40, 48)), ops.Flip(p=0.5))
    found = fused(chain, place, "h264", color=color)
    wanted = unfused(chain, place, "h264", color=color)
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
    ("name", "media", "reading"),
    combined(
        [*EXACT],
        ["h264", "hevc_10", "rotated_90", "odd_vp9"],
        [{}, {"short_side": 60}, {"size": (51, 70), "crop": (5, 3, 58, 90), "mirror": True}],
    ),
)
def test_exact_is_exact(place: str, name: str, media: str, reading: dict[str, Any]) -> None:
    chain = EXACT[name]
    if place == "cuda" and name == "scaled" and media != "h264":
        pytest.skip("nothing of it is fused: once is enough")
    found = fused(chain, place, media, fuse="exact", **reading)
    wanted = [chain(batch, epoch=2) for batch in images(clips(place, media, **reading).batch(3))]
    assert_same_samples(found, wanted)
    for result, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(result.numpy(), other.numpy())


@pytest.mark.parametrize("place", ["gpu", pytest.param("cuda", marks=pytest.mark.gpu)], indirect=True)
@pytest.mark.parametrize("name", ["cut", deep("train")])
@pytest.mark.deep
def test_overlapping_windows_with_crops_of_their_own_take_the_fused_loop(
    place: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives the pixels of the step-by-step path; of crops and flips alone, those of the unfused chain."""
    if native() is None:
        pytest.skip("step by step without a C compiler")
    chain = {"cut": Chain(*EXACT["cut"].ops[:2]), "train": TRAIN}[name]
    several: list[bool] = []
    fused_run = Session.fused_run

    def counted(session: Session, *given: Any) -> tuple[bool, bool]:
        done = fused_run(session, *given)
        several.append(done[0] and given[-1].params.count > 1)
        return done

    def batches(fuse: Any) -> list[Batch]:
        options = {"length": 8, "stride": 1, "step": 3, "backend": "nvdec", "shuffle": False}
        with clips(place, "h264", **options).map(chain).batch(6).fuse(fuse) as ds:
            return [batch["image"] for _ in range(3) for batch in ds]

    monkeypatch.setattr(Session, "fused_run", counted)
    found = batches("surface")
    assert sum(several) > len(several) // 2, "of the runs, those of new sessions aside"
    whole = batches("none") if name == "cut" else []
    monkeypatch.setattr(Session, "can_fuse", property(lambda _: False))
    before = len(several)
    wanted = batches("surface")
    assert len(several) == before
    for others in filter(None, (wanted, whole)):
        assert_same_samples(found, others)
        for result, other in zip(found, others, strict=True):
            np.testing.assert_array_equal(result.numpy(), other.numpy())


@pytest.mark.parametrize("fuse", ["surface", "exact", "none"])
def test_flips_of_head_and_tail_draw_as_those_of_the_chain(place: str, fuse: Any) -> None:
    """Some are done by the conversion, and others after it: each is the occurrence that it is in the chain."""
    flip = ops.Flip(p=0.5)
    chain = Chain(flip, ops.Crop(crop=(40, 44)), flip, ops.Flip(vertical=True), flip)
    found, wanted = fused(chain, place, "h264", fuse=fuse), unfused(chain, place, "h264")
    assert_same_samples(found, wanted)
    assert levels_apart(found, wanted, 1).max() == 0
    with clips(place, "h264") as ds:
        assert ds.map(chain).fingerprint == ds.map(*chain.ops[:2]).map(*chain.ops[2:]).fingerprint
        assert ds.map(chain).fingerprint != ds.map(flip).fingerprint


@pytest.mark.parametrize("fuse", ["surface", "exact", "none"])
def test_padding_goes_through_the_chain(place: str, fuse: Any) -> None:
    padded = {"length": 7, "stride": 20, "pad": "constant", "fill": 40}
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
    made: list[tuple[int, ...]] = []
    on_allocation(monkeypatch, lambda allocate, shape, dtype: [allocate(shape, dtype), made.append(shape)][0])
    with clips(place, "h264").map(TRAIN).batch(3) as ds:
        given = next(iter(ds))["image"]
    assert set(made) == {given.shape} == {(3, 4, 3, 40, 48)}
