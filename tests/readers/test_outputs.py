"""Operators that decoding takes over: each sample's own window, padding, errors, substitutes and sizes."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import Clip, OutputSpec, ops, videos
from seqpipe.errors import DamagedSourceError, ParameterError
from tests.support.datasets import assert_resumes, clips, files, gists, images, planned
from tests.support.under_way import UnderWay

MEAN, STD = (120.0, 110.0, 100.0), (60.0, 58.0, 57.0)
WINDOW = ops.Crop(crop=(24, 40), crop_pos_x=(0.0, 1.0), crop_pos_y=(0.0, 1.0), seed=4)
CHAIN = ops.Chain(WINDOW, ops.Flip(p=0.5, seed=5))
SIZES = ("h264", "odd_vp9", "rotated_90", "wide_h264")


@pytest.mark.parametrize("names", [("h264", "vp9"), SIZES])
def test_each_sample_has_a_window_of_its_own(names):
    """The same one in batches, alone and by index, and the one that the operators draw for the whole pictures."""
    with videos(files(*names), Clip(6), shuffle=True, seed=3) as whole:
        cut = whole.map(CHAIN)
        assert cut.explain().startswith("1. crop → flip: by the reader's conversion")
        for epoch in (0, 2):
            plain = {one["index"]: one["image"] for one in whole.epoch(epoch)}
            batches = images(cut.batch(4).epoch(epoch))
            assert all(batch.stacked is not None for batch in batches)
            found = [sequence for batch in batches for sequence in batch]
            for one, alone in zip(found, cut.epoch(epoch), strict=True):
                wanted = CHAIN(plain[one.index], epoch=epoch, index=one.index)
                np.testing.assert_array_equal(one.numpy(), wanted.numpy())
                np.testing.assert_array_equal(alone["image"].numpy(), wanted.numpy())
                np.testing.assert_array_equal(cut.sample(one.index, epoch)["image"].numpy(), wanted.numpy())
                assert (one.source, one.frames.tolist()) == (wanted.source, wanted.frames.tolist())
                assert one.timestamps.tolist() == wanted.timestamps.tolist()
            assert len({one.numpy().tobytes() for one in found}) == len(found)


def test_a_state_continues_with_the_same_windows():
    assert_resumes(lambda: clips(files("h264", "vp9"), length=6, shuffle=True, seed=1).map(CHAIN).batch(4))


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_padding_is_normalized_as_pixels_are(layout):
    """Not the same number for all channels: it goes through each channel's own mean and std."""
    normalize = ops.CropMirrorNormalize(mean=MEAN, std=STD, output_layout=layout)
    take = Clip(7, stride=20, pad="constant", fill=51)
    with videos(files("h264"), take).map(normalize).batch(4) as dataset:
        (batch,) = dataset
        assert len(dataset.explain().splitlines()) == 2, "one pass over the pixels"
    padded, pixels = batch["frames"] < 0, batch["image"].numpy()
    pixels = pixels if layout == "HWC" else np.moveaxis(pixels, 2, -1)
    assert 0 < padded.sum() < padded.size
    wanted = (51 - np.array(MEAN)) / STD
    np.testing.assert_allclose(pixels[padded], np.broadcast_to(wanted, pixels[padded].shape), rtol=1e-5)
    assert (np.abs(pixels[~padded] - wanted) > 0.1).any()


@pytest.mark.parametrize(
    ("value", "output", "wanted"),
    [
        (51, {"color": "BGR"}, 51),
        (51 * 257, {"dtype": "uint16"}, 51 * 257),
        (0.2, {"dtype": "float16"}, 0.2),
        (-1.5, {"dtype": "float32", "mean": 0.2, "std": 0.5}, -1.5),
    ],
)
def test_the_fill_value_is_on_the_scale_of_the_result(value, output, wanted):
    with clips(files("h264"), length=2, step=47, pad="constant", fill=value, **output, batch=2) as dataset:
        (batch,) = dataset
    assert batch["frames"][1].tolist() == [47, -1]
    colors = batch["image"].numpy()[1, 1].reshape(-1, 3)
    assert (colors == colors[0]).all()
    assert colors[0].tolist() == pytest.approx([wanted] * 3, rel=1e-3)


@pytest.mark.parametrize("on_error", ["raise", "skip", "substitute"])
def test_what_pictures_do_not_have_is_raised_in_its_turn(on_error):
    """It is no sample's fault, so none is left out for it; the next batch comes all the same."""
    paths = files("wide_h264", "h264", "wide_h264")  # 100, 96 and 100 rows
    too_large = ops.Crop(crop=(100, 120))
    with videos(paths, Clip(12), on_error=on_error).map(too_large).batch(4) as dataset:
        running, found = iter(dataset), []
        for number in range(len(running)):
            if number == 1:
                with pytest.raises(ParameterError, match=r"100.*96|96.*100"):
                    next(running)
            else:
                found.append(next(running)["index"].tolist())
        with pytest.raises(StopIteration):
            next(running)
        assert found == [[0, 1, 2, 3], [8, 9, 10, 11]]
        for read in (dataset.sample, lambda index: dataset.read([0, index])):
            with pytest.raises(ParameterError, match=r"100.*96|96.*100"):
                read(5)
        assert not dataset.report().losses


@pytest.mark.parametrize("fuse", ["surface", "none"])
def test_samples_are_padded_after_the_operators_before_the_batch(fuse):
    chain = ops.Chain(ops.Resize(resize_shorter=24), ops.Flip(p=0.5))
    with videos(files(*SIZES), Clip(4)).fuse(fuse) as whole:
        dataset = whole.map(chain)
        plain = {one["index"]: one["image"].numpy() for one in dataset}
        for batch in dataset.batch(8, ragged="pad"):
            for index, pixels, mask in zip(
                batch["index"].tolist(), batch["image"].numpy(), batch["mask"], strict=True
            ):
                rows, columns = plain[index].shape[1:3]
                np.testing.assert_array_equal(pixels[:, :rows, :columns], plain[index])
                assert mask[:, :rows, :columns].all()
                assert mask.sum() == 4 * rows * columns


def test_operators_behind_the_batch_act_on_padded_pixels_with_the_same_draws():
    """As if all operators stood before the batch, of which those of one name draw differently."""
    flips = [ops.Flip(p=0.5), ops.Flip(p=0.5)]
    with videos(files(*SIZES), Clip(4)) as whole:
        one, other = whole.map(*flips).batch(8), whole.map(flips[0]).batch(8, ragged="pad").map(flips[1])
        assert one.fingerprint == other.fingerprint
        same = whole.map(flips[0]).batch(8).map(flips[1])
        for batch, padded, again in zip(images(one), images(other), images(same), strict=True):
            assert {sequence.shape for sequence in padded} == {padded.shape[1:]}
            for sequence, pixels, equal in zip(batch, padded, again, strict=True):
                np.testing.assert_array_equal(equal.numpy(), sequence.numpy())
                rows, columns = sequence.shape[1:3]
                found = [pixels.numpy()[:, :rows, :columns], pixels.numpy()[:, :rows, -columns:]]
                assert any((window == sequence.numpy()).all() for window in found)


def test_a_substitute_has_the_window_of_its_own():
    names = ("h264_lost_reference", "h264", "vp9")
    with videos(files(*names), Clip(6)) as whole:
        cut, plain = whole.map(CHAIN), {}
        for request in planned(whole):
            try:
                plain[request.index] = cut.sample(request.index)["image"].numpy()
            except DamagedSourceError:
                continue
    with videos(files(*names), Clip(6), on_error="substitute").map(CHAIN).batch(4) as dataset:
        batches = list(dataset)
        assert any("substituted" in loss.fate for loss in dataset.report().losses)
    assert sum(len(batch["index"]) for batch in batches) == dataset.size > len(plain)
    for batch in batches:
        for pixels, index in zip(batch["image"].numpy(), batch["index"].tolist(), strict=True):
            np.testing.assert_array_equal(pixels, plain[index])


def test_what_batches_hold_is_known_beforehand(monkeypatch):
    """The size of what decoding makes of them, not of whole pictures."""
    under_way = UnderWay(monkeypatch)
    options = {"source": files("h264", "wide_h264"), "length": 4}

    def small(**more):
        return clips(**options, **more).map(ops.Resize(resize_shorter=20))

    with small() as dataset:
        sizes = [image.data.nbytes for image in images(dataset)]
    assert sizes[0] != sizes[-1]
    several = sum(sizes[2:6])  # two batches of two that follow the first
    for bound, ahead in ((several, 2), (several - 1, 1)):
        under_way.clear()
        with small(ahead=2, gib=bound / 2**30) as dataset:
            next(iter(dataset.batch(2)))
        assert len(under_way.begun) == 1 + ahead
    for bound, group in ((100 * sum(sizes[:8]), 8), (2 * sum(sizes[:8]) // 8 * 3, 3)):
        under_way.clear()
        with small(gib=bound / 2**30) as dataset:
            next(iter(dataset))
        assert under_way.begun[0] == group


def test_an_output_of_the_data_set_goes_before_its_operators():
    output = OutputSpec(size=(48, 64), color="BGR")
    with videos(files("h264"), Clip(6), output=output) as dataset:
        batch = dataset.map(ops.Crop(crop=(24, 24), crop_pos_x=0.0, crop_pos_y=0.0)).batch(8)
        plain, cut = gists(dataset.batch(8)), images(batch)
        whole = images(dataset.batch(8))
    assert plain
    np.testing.assert_array_equal(cut[0].numpy(), whole[0].numpy()[:, :, :24, :24])
