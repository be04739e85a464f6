"""Volumes in the operator model: their layouts and types, the range of their intensities, their space."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import Batch, Sequence, fn, ops
from seqpipe.errors import ParameterError
from seqpipe.ops import REGISTRY, Chain, Op, Percentiles, apply
from seqpipe.ops.call.op import Ranged
from tests.support.operators import built, compare, names

RNG = np.random.default_rng(0)
CT = RNG.integers(-1024, 2000, (5, 8, 9), dtype=np.int16)


# ------------------------------------------------------------------------------------------ layouts and types


def test_channels_of_volumes_may_come_first():
    x = RNG.integers(0, 255, (2, 4, 3, 6, 7), dtype=np.uint8)
    wanted = np.moveaxis(fn.flip(np.moveaxis(x, 1, -1), layout="NDHWC"), -1, 1)
    compare(fn.flip(x, layout="NCDHW"), wanted)
    compare(fn.flip(x[0], layout="CDHW"), wanted[0])
    compare(fn.flip(x[:, 0], layout="NDHW"), wanted[:, 0])
    assert Sequence(x[0], "CDHW").shape == (4, 3, 6, 7)
    assert len(Sequence(x[0], "CDHW")) == 3


def test_the_time_points_of_a_series_of_volumes_are_drawn_for_together():
    x = RNG.integers(0, 255, (6, 3, 8, 9, 1), dtype=np.uint8)
    op = ops.Rotate(angle=(-40.0, 40.0), keep_size=True)
    compare(op(x, layout="FDHWC", index=3), np.stack([op(one, layout="DHWC", index=3) for one in x]))
    series = Sequence(x, "FDHWC", timestamps=np.arange(6.0), affine=np.diag([3.0, 2, 1, 1]))
    found = Chain(op, ops.Flip(horizontal=1))([series, series], index=[3, 4])
    assert [result.timestamps.tolist() for result in found] == [list(range(6))] * 2
    compare(found[0].data[:, :, :, ::-1], op(series, index=3).data)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "float64"])
def test_values_of_wide_types_are_computed_and_saturate(dtype):
    info = np.finfo(dtype) if dtype == "float64" else np.iinfo(dtype)
    ends = (-1e200, 1e200) if dtype == "float64" else (info.min / 2, info.max / 2)
    x = np.array([[ends[0], 1, 2, 100, ends[1]]]).astype(dtype)
    compare(fn.brightness(x, brightness=1.0, brightness_shift=0.0), x)
    found = fn.brightness(x, brightness=4.0)
    wanted = (
        x.astype(np.float64) * 4 if dtype == "float64" else np.clip(x.astype(object) * 4, info.min, info.max)
    )
    compare(found, np.asarray(wanted).astype(dtype))


def test_a_value_that_float32_does_not_hold_is_kept():
    x = np.array([[2**24 + 1, 2**30 + 3]], np.int32)
    compare(fn.brightness(x, brightness=1.0, brightness_shift=0, p=0.999), x)
    compare(fn.invert(fn.invert(x)), x)
    y = np.array([[1 / 3, 1e200]])
    compare(fn.invert(fn.invert(y, range=(0, 1)), range=(0, 1))[:, :1], 1 - (1 - y[:, :1]))


def test_a_chain_on_the_cpu_takes_wide_types():
    x = RNG.integers(-(2**30), 2**30, (4, 6, 7), dtype=np.int32)
    chain = Chain(ops.Flip(horizontal=1), ops.Resize(size=(9, 11)), ops.Brightness(brightness=0.5))
    found = chain(x, layout="DHW")
    near = chain(x.astype(np.float32), layout="DHW")
    assert np.abs(found - near.astype(np.float64)).max() < 1e-4 * 2**30


def test_a_kernel_is_refused_by_name_for_wide_types():
    with pytest.raises(
        ParameterError, match=r"brightness: a kernel for int32; allowed: uint8, .*backend=None"
    ):
        apply(ops.Brightness(brightness=2.0), np.zeros((2, 2), np.int32), backend="cuda")


# ------------------------------------------------------------------------------------------ range of intensities

RANGED = [name for name in names() if issubclass(REGISTRY[name], Ranged)]
CASES = [(name, n) for name in RANGED for n in range(len(REGISTRY[name].traits.examples))]


def test_the_operators_on_intensities_have_one_parameter_for_it():
    wanted = {"gamma", "contrast", "brightness", "brightness_contrast", "invert", "solarize", "posterize"}
    assert wanted <= {*RANGED}
    assert {name for name in names() if any(q.name == "range" for q in REGISTRY[name].parameters)} == {
        *RANGED
    }


@pytest.mark.parametrize("name", ["gamma", "invert", "solarize", "posterize", "auto_contrast"])
def test_a_volume_without_a_range_is_refused_and_a_picture_is_not(name):
    op = REGISTRY[name](**REGISTRY[name].traits.examples[0])
    said = (
        rf"{name}: a volume without a range .* allowed: range= \(least, greatest\), \'minmax\', .*\'dtype\'"
    )
    for volume in (CT, Sequence(CT, "DHW")):
        with pytest.raises(ParameterError, match=said):
            op(volume, layout="DHW")
    assert op(CT, layout="FHW").shape == CT.shape
    assert (
        REGISTRY[name](**REGISTRY[name].traits.examples[0], range="dtype")(CT, layout="DHW").shape == CT.shape
    )


def test_what_does_not_ask_for_the_range_needs_none():
    compare(fn.brightness(CT, brightness=2.0, layout="DHW"), CT * 2)
    compare(fn.contrast(CT, contrast=2.0, contrast_center=0.0, layout="DHW"), CT * 2)
    with pytest.raises(ParameterError, match="contrast: a volume without a range"):
        fn.contrast(CT, contrast=2.0, layout="DHW")
    with pytest.raises(ParameterError, match="brightness: a volume without a range"):
        fn.brightness(CT, brightness_shift=0.1, layout="DHW")


def test_formulas_in_a_window():
    x = CT.astype(np.float32)
    at = {"layout": "DHW", "range": (-1000, 3000)}
    unit = (x.astype(np.float64) + 1000) / 4000
    near = {"rtol": 1e-4, "atol": 0.05}
    np.testing.assert_allclose(fn.gamma(x, gamma=2.0, **at), np.copysign(unit**2, unit) * 4000 - 1000, **near)
    np.testing.assert_allclose(fn.invert(x, **at), 2000 - x, **near)
    np.testing.assert_allclose(fn.contrast(x, contrast=0.5, **at), (x - 1000) * 0.5 + 1000, **near)
    np.testing.assert_allclose(fn.brightness(x, brightness_shift=0.25, **at), x + 1000, **near)
    np.testing.assert_allclose(fn.solarize(x, **at), np.where(x >= 1000, 2000 - x, x), **near)
    levels = np.clip(np.floor(unit * 8), 0, 7) * 500 - 1000
    np.testing.assert_allclose(fn.posterize(x, bits=3, **at), levels, **near)


@pytest.mark.parametrize("wanted", ["minmax", Percentiles(5, 95), Percentiles()])
def test_a_range_may_follow_from_the_values_of_each_sample(wanted):
    x = np.stack([CT, CT // 3 + 50])
    found = fn.gamma(x, gamma=0.5, layout="NDHW", range=wanted)
    for result, given in zip(found, x, strict=True):
        ends = (
            (given.min(), given.max()) if wanted == "minmax" else np.percentile(given, [wanted.lo, wanted.hi])
        )
        compare(result, fn.gamma(given, gamma=0.5, layout="DHW", range=tuple(map(float, ends))))
    compare(np.stack(fn.gamma(list(x), gamma=0.5, layout="DHW", range=wanted)), found)
    assert len(np.unique(fn.invert(np.full_like(CT, 7), layout="DHW", range=wanted))) == 1


def test_what_is_no_number_has_no_part_in_the_range():
    x = CT.astype(np.float32)
    x[0, 0, :2] = np.nan, np.inf
    found = fn.invert(x, layout="DHW", range="minmax")
    rest = x[np.isfinite(x)]
    compare(found[np.isfinite(x)], rest.min() + rest.max() - rest)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
@pytest.mark.parametrize("wanted", [(-150.0, 250.0), "minmax", "dtype"], ids=str)
def test_backends_agree_on_volumes(place, case, wanted):
    op = built(case, range=wanted)
    if not place.takes(op):
        pytest.skip("it has no kernel")
    volume = RNG.integers(-1024, 2000, (2, 3, 8, 9, (op.traits.channels or (1,))[0]), dtype=np.int16)
    volume = volume.astype(op.traits.dtypes[0]) if "int16" not in op.traits.dtypes else volume
    wanted = apply(op, volume, layout="NDHWC", backend="reference", index=3)
    compare(place(op, volume, layout="NDHWC", index=3), wanted, place.tolerance(op))


@pytest.mark.parametrize("wanted", [(5.0, 5.0), (5, 1), (1,), "window", "ab", 7, (0, np.inf), Percentiles])
def test_a_range_of_no_form_is_refused(wanted):
    with pytest.raises(
        ParameterError, match=r"gamma: range=.* is not valid; allowed: \(least, greatest\), 'minmax'"
    ):
        ops.Gamma(gamma=2.0, range=wanted)


def test_percentiles_are_checked():
    for lo, hi in ((5, 2), (-1, 5), (0, 101)):
        with pytest.raises(ParameterError, match=r"Percentiles|is not valid"):
            Percentiles(lo, hi)


@pytest.mark.parametrize("wanted", [None, "minmax", "dtype", (-1.0, 2.5), Percentiles(1, 99)])
def test_a_range_survives_json(wanted):
    op = ops.Gamma(gamma=2.0, range=wanted)
    assert Op.from_json(op.to_json()) == op


# ------------------------------------------------------------------------------------------ space

OBLIQUE = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]


def affine_of(spacing, origin=(-30.0, 12.0, 7.0)):
    """An oblique affine with a spacing."""
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = OBLIQUE * spacing, origin
    return affine


def blob(place, size=(24, 64, 60)):
    """A volume with a smooth spot."""
    grid = np.stack(np.meshgrid(*map(np.arange, size), indexing="ij"), axis=-1)
    return (100 * np.exp(-((grid - place) ** 2).sum(-1) / 8)).astype(np.float32)


def seen(volume):
    """The place of the spot in voxels: its center of gravity."""
    values = np.array(volume.data, np.float64)
    grid = np.stack(np.meshgrid(*map(np.arange, values.shape), indexing="ij"), axis=-1)
    return (grid * values[..., None]).sum((0, 1, 2)) / values.sum()


def world(volume, voxels):
    """Where voxels are in millimeters."""
    return voxels @ volume.affine[:3, :3].T + volume.affine[:3, 3]


MOVES = {
    "rotate": ops.Rotate(angle=25.0, keep_size=True, fill_value=0.0),
    "rotate to all": ops.Rotate(angle=-70.0, fill_value=0.0),
    "rotate to a size": ops.Rotate(angle=180.0, size=(70, 80), fill_value=0.0),
    "mm": ops.WarpAffine(
        matrix=(0.8, -0.6, 16.0, 0.6, 0.8, -38.0), unit="mm", size=(140, 150), fill_value=0.0
    ),
    "flip": ops.Flip(horizontal=1, vertical=1),
    "crop": ops.Crop(crop=(50, 40), crop_pos_x=0.4),
    "resize": ops.Resize(size=(90, 55)),
    "reverse": ops.Reverse(),
    "chain": Chain(ops.Flip(horizontal=1), ops.Resize(size=(90, 70)), ops.Rotate(angle=33.0, fill_value=0.0)),
    "composed": Chain(
        ops.Resize(size=(90, 70), antialias=False), ops.Rotate(angle=33.0, fill_value=None), fuse="compose"
    ),
}
SPOTS = np.array([[12.0, 26.0, 30.0], [11.0, 38.0, 25.0]])


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("spacing", [(3.0, 2.0, 1.0), (1.0, 1.0, 1.0), (2.0, 0.5, 0.8)], ids=str)
def test_marked_voxels_keep_their_place_in_the_world(name, spacing):
    for spot in SPOTS:
        volume = Sequence(blob(spot), "DHW", affine=affine_of(spacing))
        found = MOVES[name](volume)
        assert np.abs(world(found, seen(found)) - world(volume, spot)).max() < 0.03 * max(spacing)


@pytest.mark.parametrize(
    "op", [MOVES["rotate"], MOVES["rotate to all"], MOVES["mm"]], ids=["keep", "all", "mm"]
)
def test_rotating_slices_of_oblong_pixels_does_not_shear_the_anatomy(op):
    volume = Sequence(blob(SPOTS[0]), "DHW", affine=affine_of((3.0, 2.0, 1.0)))
    moved = op(volume).affine
    gram = moved[:3, :3].T @ moved[:3, :3]
    np.testing.assert_allclose(gram, np.diag([9.0, 4.0, 1.0]), atol=1e-5)
    stacked = op(Batch.of([volume] * 3))
    np.testing.assert_allclose(stacked[2].affine, moved)
    compare(stacked[1].data, op(volume).data)
    bare = op(volume.data, layout="DHW") if getattr(op, "unit", "pixel") == "pixel" else None
    assert bare is None or not np.array_equal(bare, op(volume).data)


def test_masks_and_kernels_follow_the_spacing(place):
    volume = Sequence(blob([3, 10, 16], (6, 21, 33)), "DHW", affine=affine_of((3.0, 2.0, 1.0)))
    op = ops.Rotate(angle=40.0, interp_type="nearest", fill_value=0.0)
    if place.name == "gpu":
        pytest.skip("a sequence there is another test's")
    found = place(op, volume)
    wanted = apply(op, volume, backend="reference")
    compare(found.data, wanted.data, op.traits.tolerance)
    np.testing.assert_array_equal(found.affine, wanted.affine)


def test_millimeters_without_a_spacing_are_refused():
    op = ops.WarpAffine(matrix=(1, 0, 2, 0, 1, 3), unit="mm")
    for x in (np.zeros((4, 5)), Sequence(np.zeros((4, 5, 6)), "DHW")):
        with pytest.raises(
            ParameterError,
            match=r"warp_affine: matrix in mm, for images whose spacing .* allowed: sequences with an affine",
        ):
            op(x)
    flat = Sequence(np.zeros((4, 5, 6)), "DHW", affine=np.diag([1.0, 0, 2, 1]))
    with pytest.raises(
        ParameterError, match=r"rotate: an affine with a spacing of 1 × 0 × 2 mm; allowed: numbers above"
    ):
        ops.Rotate(angle=10.0)(flat)
