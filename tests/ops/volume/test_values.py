"""Operators on values, labels and parts of volumes, against SciPy and the rules that other libraries publish."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from seqpipe import ops
from seqpipe.errors import ParameterError
from seqpipe.ops.volume.base import generator
from seqpipe.ops.volume.percentiles import percentile_lines
from seqpipe.parts import Labels, Points
from seqpipe.sequence import Sequence
from tests.support.emulated import EmulatedDevice, missing_compiler


def test_limits_thresholds_and_masks_are_their_formulas(volume, blocks):
    np.testing.assert_array_equal(ops.Clamp(lo=-0.5, hi=1.0)(volume), volume.clip(-0.5, 1.0))
    np.testing.assert_array_equal(ops.Clamp(hi=1.0)(volume), np.minimum(volume, 1.0))
    ends = np.percentile(volume, (5, 90)).astype(np.float32)
    np.testing.assert_allclose(ops.PercentileClip(lower=5, upper=90)(volume), volume.clip(*ends))
    np.testing.assert_array_equal(
        ops.Threshold(threshold=0.3, fill_value=-1)(volume), np.where(volume > np.float32(0.3), volume, -1)
    )
    below = ops.Threshold(threshold=0.3, above=False)(volume)
    np.testing.assert_array_equal(below, np.where(volume < np.float32(0.3), volume, 0))
    sample = {"image": volume, "label": Labels(blocks)}
    np.testing.assert_array_equal(ops.Mask(fill_value=7)(sample)["image"], np.where(blocks > 0, volume, 7))
    np.testing.assert_array_equal(
        ops.Mask(of="above_mean")(volume), np.where(volume > volume.mean(), volume, 0)
    )
    for op in (ops.Mask(), ops.LabelsToImage()):
        with pytest.raises(ParameterError, match="of='labels', and the sample has no labels"):
            op(volume)


def test_a_histogram_shift_is_a_rising_curve_between_the_same_ends(volume):
    """MONAI's rule: each inner point is uniform between the moved point before and the one behind."""
    shifted = ops.HistogramShift(points=6)(volume, index=4)
    order = np.argsort(volume, axis=None)
    assert (np.diff(shifted.ravel()[order]) >= 0).all()
    assert shifted.min() == volume.min()
    assert shifted.max() == pytest.approx(volume.max(), abs=1e-6)
    key = ops.HistogramShift(points=6)({"image": volume}, index=4).history[0]["drawn"]["key"]
    rng, even = generator(key, 0, 2), np.linspace(0, 1, 6)
    curve = even.copy()
    for n in range(1, 5):
        curve[n] = rng.uniform(curve[n - 1], curve[n + 1])
    share = (volume - volume.min()) / np.ptp(volume)
    np.testing.assert_allclose(
        (shifted - volume.min()) / np.ptp(volume), np.interp(share, even, curve), atol=1e-5
    )


def test_smooth_contrast_raises_to_exponents_of_its_range(volume):
    share = (volume - volume.min()) / np.ptp(volume)
    share[(share < 0.05) | (share > 0.95)] = 0.5
    spread = volume.min() + share * np.ptp(volume)
    spread[0, 0, 0], spread[-1, -1, -1] = volume.min(), volume.max()
    found = (ops.SmoothContrast(gamma=(0.5, 2.0), cells=2)(spread, index=1) - spread.min()) / np.ptp(spread)
    exponents = (np.log(found[1:-1]) / np.log((spread - spread.min())[1:-1] / np.ptp(spread))).astype(float)
    assert exponents.min() >= 0.5 - 1e-3
    assert exponents.max() <= 2.0 + 1e-3
    assert np.ptp(exponents) > 0.2
    assert np.abs(np.diff(exponents, axis=2)).max() < 0.2, "it varies smoothly"


def test_local_contrast_and_blur_leave_what_is_far_away(rng):
    x = rng.random((60, 40, 40)).astype(np.float32)
    for op, whole in (
        (ops.LocalContrast(factor=3.0, reach=0.05), None),
        (ops.LocalBlur(sigma=1.0, amount=1.0, reach=0.05), ndimage.gaussian_filter(x, 1.0, truncate=6)),
    ):
        changed = np.abs(op(x, index=2) - x)
        place = np.unravel_index(changed.argmax(), x.shape)
        apart = np.linalg.norm((np.moveaxis(np.indices(x.shape), 0, -1) - place) / x.shape, axis=-1)
        assert changed[apart > 0.4].max() < 1e-5
        if whole is not None:
            assert (changed <= np.abs(whole - x) + 1e-5).all()


def test_images_of_labels_have_a_normal_distribution_for_each_class(rng):
    labels = rng.integers(0, 4, (30, 30, 30)).astype(np.uint8)
    sample = {"image": labels, "label": Labels(labels)}
    found = ops.LabelsToImage(mean=(10, 20), std=(0.5, 1.0))(sample, index=3)["image"]
    assert found.dtype == np.float32
    means = [found[labels == n].mean() for n in range(4)]
    assert all(9.9 < mean < 20.1 for mean in means)
    assert all(0.45 < found[labels == n].std() < 1.05 for n in range(4))
    fewer = ops.LabelsToImage(mean=(10, 20), std=(0.5, 1.0))(
        {"image": labels, "label": Labels(np.minimum(labels, 2))}, index=3
    )["image"]
    np.testing.assert_array_equal(fewer[labels < 3], found[labels < 3])


def test_distances_are_those_of_scipy(blocks, affine):
    x = Sequence(blocks[..., None], "DHWC", affine=affine)
    inside, spacing = blocks > 0, np.linalg.norm(affine[:3, :3], axis=0)
    there, back = (ndimage.distance_transform_edt(m, sampling=spacing) for m in (inside, ~inside))
    np.testing.assert_allclose(ops.DistanceMap()(x).data[..., 0], there, rtol=1e-5)
    np.testing.assert_allclose(ops.DistanceMap(signed=True)(x).data[..., 0], there - back, rtol=1e-5)
    assert not ops.DistanceMap()(np.ones((3, 3, 3), np.float32)).any()


def test_labels_are_renumbered_at_once_and_outlined_as_by_scipy(blocks, volume):
    sample = {"image": volume, "label": Labels(blocks)}
    swapped = ops.RemapLabels(labels=(1, 2, 6), by=(2, 1, 300))(sample)["label"].array
    np.testing.assert_array_equal(swapped, np.array([0, 2, 1, 3, 4, 5, 300])[blocks])
    found = ops.LabelOutline()(sample)["label"].array
    want = np.zeros_like(blocks)
    for n in range(1, 7):
        want[(blocks == n) & ~ndimage.binary_erosion(blocks == n)] = n
    np.testing.assert_array_equal(found, want)
    assert found.dtype == np.uint8


def test_a_swap_keeps_every_value(volume):
    found = ops.Swap3d(holes=5, size=(3, 4, 5))(volume, index=1)
    np.testing.assert_array_equal(np.sort(found, axis=None), np.sort(volume, axis=None))
    assert 0 < (found != volume).sum() <= 10 * 60


def test_misalignment_moves_all_channels_but_the_first(volume, blocks):
    two = np.stack([volume, volume, volume], axis=-1)
    done = ops.ChannelMisalignment(rotate=0.0, scale=0.0, translate_mm=3.0)(
        {"image": two, "label": Labels(blocks)}
    )
    np.testing.assert_array_equal(done["image"][..., 0], volume)
    np.testing.assert_array_equal(done["label"].array, blocks)
    assert (done["image"][..., 1] != done["image"][..., 2]).any()
    key = done.history[0]["drawn"]["key"]
    shift = generator(key, 1, 2).uniform(-1, 1, (3, 3))[2] * 3
    want = ndimage.shift(volume, shift, order=1, mode="nearest")
    np.testing.assert_allclose(done["image"][..., 1], want, atol=1e-4)


@pytest.mark.parametrize("cells", [1, 3, 7])
def test_a_distorted_grid_has_its_borders_where_the_factors_put_them_and_does_not_fold(cells):
    d, h, w = np.indices((22, 29, 36)).astype(np.float32)
    op = ops.GridDistortion3d(cells=cells, amplitude=0.3, fill_value=None)
    for index in range(6):
        done = op(
            {"image": np.stack([d, h, w], axis=-1), "tips": Points(np.array([[7.3, 11.0, 20.0]]))},
            index=index,
        )
        places = [done["image"][:, 5, 5, 0], done["image"][5, :, 5, 1], done["image"][5, 5, :, 2]]
        rng = generator(done.history[0]["drawn"]["key"], 0, 2)
        factors = 1 + rng.uniform(-1, 1, (3, cells)) * 0.3
        for along, row in zip(places, factors, strict=True):
            borders = np.concatenate([[0], np.cumsum(row / row.sum())]) * (len(along) - 1)
            at = np.linspace(0, len(along) - 1, cells + 1)
            np.testing.assert_allclose(np.interp(at, np.arange(len(along)), along), borders, atol=0.15)
            assert (np.diff(along) > 0).all(), "the field folds"
        moved = done["tips"].array[0]
        back = [
            np.interp(place, np.arange(len(along)), along) for place, along in zip(moved, places, strict=True)
        ]
        np.testing.assert_allclose(back, [7.3, 11.0, 20.0], atol=0.1)


@pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler())
@pytest.mark.parametrize("size", [1, 2, 7, 500])
def test_percentile_lines_of_the_kernel_are_those_of_numpy(rng, size):
    values, ends = (rng.normal(size=(size, 3, 2)) * 10).astype(np.float32)[:, ::2], (0, 1.5, 50, 99, 100)
    results, device = (0, 1, 3, 4, 9), EmulatedDevice()
    for value in (0.0, np.nan, np.inf, -np.inf):
        values[0, 0, 0] = value
        judged = np.percentile(values[np.isfinite(values)], ends)
        found = percentile_lines(values, ends, results, device)
        np.testing.assert_allclose(found[:5], judged, rtol=1e-6)
        np.testing.assert_allclose(found[5:], np.diff(results) / np.maximum(np.diff(judged), 1e-7), rtol=1e-5)
    unknown = np.full((2, 3), np.nan, np.float32)
    np.testing.assert_allclose(percentile_lines(unknown, ends, results, device)[:5], np.linspace(0, 1, 5))


def test_principal_components_are_those_of_the_covariance(rng, affine):
    mixed = rng.normal(size=(5, 6, 7, 2)) @ rng.normal(size=(2, 4)) + rng.normal(size=(5, 6, 7, 4)) / 10 + 3
    values = mixed.astype(np.float32)
    found = ops.PrincipalComponents(components=2)(Sequence(values, "DHWC", affine=affine)).data
    flat = values.reshape(-1, 4).astype(np.float64)
    _, _, rows = np.linalg.svd(flat - flat.mean(0), full_matrices=False)
    judged = (flat - flat.mean(0)) @ rows[:2].T
    for n in range(2):
        one, other = found[..., n].ravel(), judged[:, n]
        np.testing.assert_allclose(one * np.sign(one @ other), other, atol=1e-4)
    white = ops.PrincipalComponents(components=2, whiten=True)(values, layout="DHWC")
    np.testing.assert_allclose(white.std((0, 1, 2)), 1, rtol=1e-4)
    with pytest.raises(ParameterError, match=r"components=5 of an image of 4 channels; allowed: 1 to 4"):
        ops.PrincipalComponents(components=5)(values, layout="DHWC")
    values[0, 0, 0, 1] = np.nan
    with pytest.warns(UserWarning, match="1 voxels of 'image' are NaN"):
        kept = ops.PrincipalComponents(components=1)(values, layout="DHWC")
    assert np.isnan(kept).sum() == 1


def test_classes_of_labels_become_channels_of_the_image(volume, blocks):
    sample = {"image": volume[..., None], "label": Labels(blocks), "first_stage": Labels(blocks % 3)}
    found = ops.LabelsToChannels(classes=(2, 5))(sample)["image"]
    for n, judged in enumerate((volume, blocks == 2, blocks == 5)):
        np.testing.assert_array_equal(found[..., n], judged)
    chain = ops.Chain(ops.LabelsToChannels(part="first_stage"), ops.GaussianBlur3d(sigma=0.5))
    assert chain(sample)["image"].shape == (*volume.shape, 2)
    for part in ("first", None):
        with pytest.raises(ParameterError, match="labels_to_channels: no labels for an image of"):
            ops.LabelsToChannels(part=part)({"image": volume} if part is None else sample)
    with pytest.raises(ParameterError, match=r"2 channels for an image of the layout DHW; allowed: DHWC"):
        ops.LabelsToChannels()({**sample, "image": volume})
    with pytest.raises(ParameterError, match=r"p=0.5; allowed: 1, so that all samples have"):
        ops.LabelsToChannels(p=0.5)
