"""Operators on volumes against SciPy and NumPy, and how they treat layouts, types, spaces and what they refuse."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from scipy.spatial.transform import Rotation

from seqpipe import fn, ops
from seqpipe.core.padding import FILL_MODES
from seqpipe.errors import ParameterError
from seqpipe.ops import REGISTRY, Chain
from seqpipe.ops.core.sampling import sampled
from seqpipe.ops.core.spec import Spec
from seqpipe.ops.core.types import Type
from seqpipe.ops.volume import history
from seqpipe.ops.volume.plan import SampledParameters, sampled_parameters
from seqpipe.ops.volume.state import VoxelGrid, state_of
from seqpipe.parts import Boxes, Image, Labels, Points, Sample
from seqpipe.resampling.mapping import Lattice, Mapping3, nodes_for
from seqpipe.sequence import Batch, Sequence
from tests.support.emulated import EmulatedDevice, missing_compiler

NAMES = sorted(
    name
    for name, cls in REGISTRY.items()
    if cls.traits.takes == "volumes" and cls.traits.is_builtin and not cls.traits.changes_channels
)
CASES = [(name, n) for name in NAMES for n in range(len(REGISTRY[name].traits.examples))]
GEOMETRY = [
    ops.RandomAffine3d(rotate=(-40, 40), scale=(0.8, 1.2), shear=(-10, 10), translate_mm=(-3, 3)),
    ops.Elastic3d(spacing=6, amplitude=0.3),
    ops.Zoom3d(factor=(0.7, 1.5)),
    ops.Flip3d(depth=True, width=True),
    ops.Rot90(turns=1, plane="dw"),
    ops.Crop3d(size=(9, 8, 7), position=(0, 1)),
    ops.Pad3d(before=(1, 2, 3), after=(3, 0, 1)),
    ops.Resample3d(spacing_mm=1.7),
]


def built(case):
    return REGISTRY[case[0]](**{**REGISTRY[case[0]].traits.examples[case[1]], "p": 1.0})


def small(rng, shape=(9, 10, 11)):
    return rng.random(shape).astype(np.float32)


def space(volume):
    return Sequence(volume, "DHWC"[: volume.ndim], affine=np.diag([2.0, 1.0, 1.5, 1.0]))


def test_operators_on_volumes_draw_only_what_is_random():
    """What is constant is resolved once for all samples."""
    assert not ops.RandomAffine3d(rotate=5.0).is_random
    assert ops.RandomAffine3d(rotate=5.0).is_constant
    assert ops.RandomAffine3d(rotate=(0, 5)).is_random
    assert ops.Elastic3d(amplitude=0.2).is_random, "it draws a key"


@pytest.mark.parametrize("layout", ["DHW", "DHWC", "CDHW"])
@given(
    st.tuples(*[st.tuples(st.integers(0, 2), st.sampled_from([-3, -1, 1, 2]))] * 4), st.permutations(range(4))
)
@settings(max_examples=30, deadline=None)
def test_parts_of_any_strides_are_views(layout, steps, order):
    """Of cropped, reversed, strided and transposed arrays, of which parts may have one voxel along an axis."""
    array = np.zeros((6, 5, 7, 6), np.float32).transpose(order)
    array = array[tuple(slice(first, None, step) for first, step in steps)]
    array = array[..., 0] if layout == "DHW" else array
    state = state_of("view", {"image": array}, layout)
    values = state.parts["image"].values
    axes = {"DHW": (0, 1, 2), "DHWC": (0, 1, 2, 3), "CDHW": (1, 2, 3, 0)}[layout]
    assert values.shape == (*[array.shape[axis] for axis in axes], 1)[:4]
    assert np.shares_memory(values, array)
    for stride, axis in zip(values.strides, axes, strict=False):
        assert stride == array.strides[axis] or array.shape[axis] == 1


@given(
    st.lists(st.floats(-80, 80), min_size=3, max_size=3),
    st.lists(st.floats(0.3, 3), min_size=3, max_size=3),
    st.lists(st.floats(-25, 25), min_size=6, max_size=6),
    st.lists(st.floats(-9, 9), min_size=3, max_size=3),
    st.lists(st.floats(0.3, 4), min_size=3, max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_an_affine_map_is_the_product_of_its_parts_in_mm(rotate, scale, shear, shift, spacing):
    """By NumPy and SciPy's rotations, of a corner of a volume whose voxels differ along each axis."""
    op = ops.RandomAffine3d(
        rotate=tuple(rotate), scale=tuple(scale), shear=tuple(shear), translate_mm=tuple(shift)
    )
    p = sampled_parameters(op, [Spec(5, 6, 7, 1, "float32")], 0, [0])[0]
    grid = VoxelGrid((5, 6, 7), np.diag([*spacing, 1.0]))
    made = op.moved(Mapping3(grid.size), p, grid).matrix
    a, b, c = (float(x) for x in np.float32(rotate))
    turn = Rotation.from_euler("xyz", [-c, b, -a], degrees=True).as_matrix()[::-1, ::-1]
    lean = np.eye(3)
    lean[~np.eye(3, dtype=bool)] = np.tan(np.deg2rad(np.float32(shear).astype(float)))
    forth = turn @ lean @ np.diag(np.float32(scale).astype(float))
    center, mm = (np.array(grid.size) - 1) / 2, np.array(spacing)
    place = np.array([0.3, 4.0, 2.5])
    moved = center + (forth @ ((place - center) * mm) + np.float32(shift)) / mm
    assert made[:3, :3] @ moved + made[:3, 3] == pytest.approx(place, abs=1e-4)


# ------------------------------------------------------------------------------------------ every operator


@pytest.mark.parametrize("case", CASES, ids=str)
def test_layouts_and_values_of_every_kind_agree(case, rng):
    op = built(case)
    volume = small(rng, (9, 10, 11, 2))
    sequence = space(volume)
    made = op(sequence, index=3)
    assert made.affine is not None
    if case[0] == "resample3d":
        return
    flat = op(volume, index=3)
    first = op(volume.transpose(3, 0, 1, 2), layout="CDHW", index=3)
    assert np.array_equal(first.transpose(1, 2, 3, 0), flat)
    assert first.flags.c_contiguous
    series = Sequence(volume.transpose(3, 0, 1, 2)[..., None], "FDHWC", affine=sequence.affine)
    moved = op(series, index=3)
    assert (moved.layout, moved.data.flags.c_contiguous) == ("FDHWC", True)
    assert np.array_equal(moved.data[..., 0].transpose(1, 2, 3, 0), made.data), "modalities are channels"
    assert np.array_equal(moved.affine, made.affine)
    several = op([volume, volume[::-1]], index=3)
    assert np.array_equal(several[0], flat)
    if several[0].shape == several[1].shape:
        both = op(np.stack([volume, volume[::-1]]), index=3)
        assert np.array_equal(both, np.stack(several))
        batch = op(Batch.of([space(volume), space(volume[::-1].copy())]), index=3)
        assert np.array_equal(batch[0].data, made.data)
    sample = op({"image": volume}, index=3)
    assert np.array_equal(sample["image"], flat)
    assert op(volume[..., 0], index=3).ndim == 3


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "float64"])
def test_types_are_kept_and_nothing_that_was_given_is_written(case, dtype, rng):
    volume = (small(rng) * 100).astype(dtype)
    before = volume.copy()
    op = built(case)
    found = op(space(volume))
    kept = volume.dtype.kind == "f" or not op.traits.to_float
    assert found.dtype == (volume.dtype if kept else np.float32)
    assert np.array_equal(volume, before)
    assert not np.shares_memory(found.data, volume)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_does_not_act_changes_nothing(case, rng):
    volume = small(rng)
    op = REGISTRY[case[0]](**{**REGISTRY[case[0]].traits.examples[case[1]], "p": 0.0})
    assert np.array_equal(op(volume), volume)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_parameters_are_those_that_the_sample_method_draws_from_the_stream_of_each_sample(case):
    specs = [Spec(9, 10, 11, 2, "float32")] * 3
    for p in (1.0, 0.5):
        op = REGISTRY[case[0]](**{**REGISTRY[case[0]].traits.examples[case[1]], "p": p})
        for epoch in range(3):
            found = sampled_parameters(op, specs, epoch, [4, 9, 2**40])
            for one, (values, acts) in zip(found, sampled(op, specs, epoch, [4, 9, 2**40]), strict=True):
                assert one.to_json() == SampledParameters.of(op, values, acts=acts).to_json()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_labels_stay_labels_and_replay_is_bit_equal(case, rng):
    labels = rng.integers(0, 4, (9, 10, 11)).astype(np.uint8) * 3
    sample = {"image": space(small(rng)), "label": Labels(space(labels), classes=(0, 3, 6, 9))}
    done = built(case)(sample, epoch=2, index=7)
    assert isinstance(done, Sample)
    assert set(np.unique(done["label"].array)) <= {0, 3, 6, 9}
    again = ops.replay(done.history, sample)
    assert np.array_equal(again["image"].data, done["image"].data)
    assert np.array_equal(again["label"].array, done["label"].array)
    assert again.history == done.history


# ------------------------------------------------------------------------------------------ space


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(range(len(GEOMETRY))), min_size=1, max_size=5), st.integers(0, 1000))
def test_landmarks_keep_their_place_in_the_world(numbers, index):
    """A point in voxels, through any chain, has the place that its voxel has: by the affine, or by the field."""
    chain = Chain(*(GEOMETRY[n] for n in numbers))
    volume = space(np.zeros((14, 15, 16), np.float32))
    inside = np.random.default_rng(index).uniform(4, 9, (5, 3))
    try:
        done = chain({"image": volume, "voxel": Points(inside)}, index=index)
    except ParameterError:  # the crop is larger than what a zoom has left
        return
    if any(GEOMETRY[n].warps for n in numbers):
        return
    world = inside @ volume.affine[:3, :3].T + volume.affine[:3, 3]
    after = done["image"].affine
    assert np.abs(done["voxel"].array @ after[:3, :3].T + after[:3, 3] - world).max() < 1e-6


def test_points_in_mm_stay_where_they_are_and_follow_a_field(sequence, rng):
    voxels = rng.uniform(3, 15, (6, 3))
    world = voxels @ sequence.affine[:3, :3].T + sequence.affine[:3, 3]
    sample = {"image": sequence, "voxel": Points(voxels), "mm": Points(world, unit="mm")}
    turned = ops.RandomAffine3d(rotate=30, translate_mm=4)(sample)
    assert np.abs(turned["mm"].array - world).max() < 1e-9
    warped = ops.Elastic3d(spacing=8)(sample)
    affine = warped["image"].affine
    assert (
        np.abs(warped["mm"].array - (warped["voxel"].array @ affine[:3, :3].T + affine[:3, 3])).max() < 1e-6
    )
    assert np.abs(warped["voxel"].array - voxels).max() > 0.1


def test_a_marked_voxel_goes_where_its_point_goes():
    volume = np.zeros((20, 20, 20), np.float32)
    volume[8, 9, 12] = 1
    chain = Chain(
        ops.RandomAffine3d(rotate=(-40, 40)), ops.Elastic3d(spacing=8), ops.Flip3d(depth=True, width=False)
    )
    done = chain(
        {"image": volume, "tip": Points([[8.0, 9, 12]]), "box": Boxes([[7.0, 8, 11, 9, 10, 13]])}, index=4
    )
    weights = done["image"] / done["image"].sum()
    center = [(np.indices(volume.shape)[a] * weights).sum() for a in range(3)]
    tip = done["tip"].array[0]
    assert np.abs(center - tip).max() < 0.5
    box = done["box"].array[0]
    assert (box[:3] < tip).all()
    assert (tip < box[3:]).all()


def test_angles_are_turned_in_millimeters():
    """A cube of 12 mm stays one when it is turned by a right angle, though its voxels are longer than wide."""
    volume = np.zeros((12, 24, 24), np.float32)
    volume[3:9, 6:18, 10:14] = 1  # 12 × 12 × 4 mm
    sequence = Sequence(volume, "DHW", affine=np.diag([2.0, 1, 1, 1]))
    turned = ops.RandomAffine3d(rotate=(0, 90, 0), interp="nearest")(sequence)
    extents = [np.ptp(where) + 1 for where in np.nonzero(turned.data)]
    assert extents == [2, 12, 12], "4 mm along slices and 12 along columns"


@pytest.mark.parametrize("antialias", [True, False])
def test_a_resampled_volume_is_that_of_scipy(sequence, antialias):
    found = ops.Resample3d(spacing_mm=(1.25, 1.6, 1.1), fill_value=None, antialias=antialias)(sequence)
    assert found.shape == (36, 11, 26)
    smooth = ndimage.gaussian_filter(sequence.data, (0, 0.5, 0), mode="reflect", truncate=6)
    given = smooth if antialias else sequence.data
    judged = ndimage.zoom(given, (2, 0.5, 1), order=1, mode="nearest", grid_mode=True)
    assert np.abs(found.data - judged).max() < 1e-5
    assert np.allclose(np.linalg.norm(found.affine[:3, :3], axis=0), (1.25, 1.6, 1.1))


def test_what_becomes_coarser_is_smoothed_first_by_default_as_scikit_image_does():
    stripes = np.zeros((16, 16, 32), np.float32)
    stripes[..., ::2] = 1  # as fine as voxels are: taken every third, they would be stripes again
    labels = Labels((stripes > 0).astype(np.uint8))
    sizes = {"size": (16, 16, 11)}
    plain, smooth = (ops.Zoom3d(**sizes, antialias=on, fill_value=None)(stripes) for on in (False, True))
    assert np.ptp(plain[..., 2:-2]) > 0.5
    assert np.ptp(smooth[..., 2:-2]) < 0.1
    assert abs(smooth.mean() - 0.5) < 0.02
    given = ndimage.gaussian_filter(stripes, (0, 0, (32 / 11 - 1) / 2), mode="reflect", truncate=6)
    judged = ndimage.zoom(given, (1, 1, 11 / 32), order=1, mode="nearest", grid_mode=True)
    assert np.abs(smooth - judged).max() < 1e-5
    done = ops.Zoom3d(**sizes)({"image": stripes, "label": labels})
    alone = ops.Zoom3d(**sizes, antialias=False)({"image": stripes, "label": labels})
    assert np.array_equal(done["label"].data, alone["label"].data), "labels are not smoothed"
    for bigger in ({"factor": 1.5}, {"size": (16, 16, 32)}, {**sizes, "interp": "nearest"}):
        assert np.array_equal(ops.Zoom3d(**bigger)(stripes), ops.Zoom3d(**bigger, antialias=False)(stripes))


def test_what_smooths_begins_a_pass_and_its_followers_join_it(volume):
    turn, crop = ops.RandomAffine3d(rotate=(20, 30, 10)), ops.Crop3d(size=(4, 4, 4))
    chain = Chain(turn, ops.Zoom3d(factor=0.5), crop)
    lines = chain.explain(volume).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "1. random_affine3d", "2. zoom3d", "3. zoom3d → crop3d",
    ]  # fmt: skip
    assert lines[1].endswith("smoothed, since voxels become coarser")
    assert chain.explain() == "1. random_affine3d: one gather\n2. zoom3d → crop3d: one gather"
    apart = crop(ops.Zoom3d(factor=0.5)(turn(volume)))
    assert np.abs(chain(volume) - apart).max() < 1e-5
    sample = chain({"image": volume})
    assert np.array_equal(ops.replay(sample.history, {"image": volume})["image"], sample["image"])


@pytest.mark.parametrize("mode", FILL_MODES)
def test_crops_and_pads_fill_as_numpy_does(mode):
    x = np.arange(3 * 4 * 5, dtype=np.int16).reshape(3, 4, 5, 1)
    options = {"constant_values": 7} if mode == "constant" else {}
    fill = {"pad_mode": mode, "fill_value": 7}
    found = ops.Pad3d(before=(1, 0, 2), after=(0, 3, 1), **fill)(x, layout="DHWC")
    assert np.array_equal(found, np.pad(x, ((1, 0), (0, 3), (2, 1), (0, 0)), mode, **options))
    found = ops.Crop3d(size=(5, 4, 9), **fill)(x, layout="DHWC")
    judged = np.pad(x, ((1, 1), (0, 0), (2, 2), (0, 0)), mode, **options)
    assert np.array_equal(found, judged)
    assert np.array_equal(
        Chain(ops.Crop3d(size=(5, 4, 9), **fill))(x, layout="DHWC", backend="reference"), judged
    )
    flipped = Chain(ops.Crop3d(size=(5, 4, 9), **fill), ops.Flip3d(), ops.RandomAffine3d(rotate=90.0))
    turned = ops.RandomAffine3d(rotate=90.0)(judged[:, :, ::-1], layout="DHWC")
    if mode != "constant":
        assert np.array_equal(flipped(x, layout="DHWC"), turned)
    with pytest.raises(
        ParameterError, match=r"crop3d: size=\(5, 4, 9\) of a volume .*Choose pad_mode='constant' or"
    ):
        ops.Crop3d(size=(5, 4, 9))(x, layout="DHWC")


def test_what_is_composed_is_read_once(volume):
    crop = ops.Crop3d(size=(10, 10, 10))
    turn = ops.RandomAffine3d(rotate=(20, 30, 10))
    chain = Chain(turn, ops.RandomAffine3d(scale=1.2), crop)
    assert chain.explain() == "1. random_affine3d → random_affine3d → crop3d: one gather"
    assert "in three dimensions" in chain.explain(volume)
    inverse = Chain(ops.RandomAffine3d(rotate=(0, 0, 90)), ops.RandomAffine3d(rotate=(0, 0, -90)))
    assert np.allclose(inverse(volume), volume, atol=1e-6)
    flat = Chain(ops.RandomAffine3d(rotate=(20, 0, 0)), ops.Elastic3d(in_plane=True))
    assert "slice by slice, in the plane through an elastic field" in flat.explain(volume)
    relabeled = Chain(crop, ops.ReplaceLabel(label=1, by=2), ops.ZScore())
    assert relabeled.explain() == "1. crop3d: one gather\n2. replace_label: labels\n3. zscore: intensities"
    views = Chain(ops.Flip3d(width=True), ops.Rot90(), ops.Crop3d(size=(4, 5, 6)))
    assert "voxels are permuted" in views.explain(volume)
    assert np.array_equal(
        views(volume), np.rot90(volume[:, :, ::-1], 1, (1, 2))[7:11, 11:16][:, :, 8:14][:, :5]
    )


@pytest.mark.parametrize("numbers", [(0, 3, 4), (0, 1, 5), (7, 2), (1, 0, 1), (3, 6, 5)])
def test_geometry_is_taken_back(numbers):
    grid = np.indices((22, 24, 26)) / 6
    sequence = space(np.sin(grid).sum(axis=0).astype(np.float32))
    sample = {"image": sequence, "inside": np.ones_like(sequence.data)}
    done = Chain(*(GEOMETRY[n] for n in numbers))(sample, index=5)
    back = ops.invert_volume(done.history, done["image"])
    assert np.allclose(back.affine, sequence.affine)
    known = ops.invert_volume(done.history, done["inside"]) > 1 - 1e-5  # nothing from outside is mixed in
    assert known.sum() > 100
    if numbers == (7, 2):  # resized volumes repeat their edges, where this one has a slope
        known &= ndimage.binary_erosion(np.ones_like(known))
    assert np.abs(back.data - sequence.data)[known].max() < 0.05


@pytest.mark.parametrize("amplitude", [0.1, 0.4])
def test_positions_of_whole_volumes_through_fields_are_those_of_points(rng, amplitude, monkeypatch):
    """By a fixed-point iteration in C, also in blocks, and where a steep field needs Newton's method."""
    size, distance = (13, 14, 15), (4.0, 5.0, 6.0)
    control = rng.choice([-amplitude, amplitude], (*nodes_for(size, distance), 3)) * distance
    turn = np.array([[0.9, 0.1, 0, 1], [-0.1, 1.1, 0.2, 0], [0, -0.1, 1, -1], [0, 0, 0, 1]])
    mapping = Mapping3(size, turn).warped(Lattice(control.astype(np.float32), distance)).then(turn, size)
    places = np.moveaxis(np.indices((9, 8, 7), np.float64), 0, -1)
    judged = mapping.points(places)
    for name, value in (
        ("_POSITION_TOLERANCE", history._POSITION_TOLERANCE),
        ("_BLOCK", 100),
        ("_MOST_STEPS", 2),
    ):
        monkeypatch.setattr(history, name, value)
        found = history._inverse_positions([mapping], (9, 8, 7))
        assert np.abs(found - judged).max() < 5e-5


def test_geometry_by_splines_is_taken_back_more_exactly(volume):
    off = {}
    for interp in ("linear", "cubic", "bspline"):
        done = ops.RandomAffine3d(rotate=(12, -7, 20), interp=interp, fill_value=None)({"image": volume})
        back = ops.invert_volume(done.history, done["image"], interp=interp, fill_value=None)
        off[interp] = np.abs(back - volume)[6:-6, 6:-6, 6:-6].mean()
    assert off["bspline"] < off["cubic"] < off["linear"]


def test_flips_are_taken_back_to_the_bit(volume):
    done = Chain(ops.Flip3d(depth=True, width=False), ops.Rot90(turns=3))({"image": volume})
    assert np.array_equal(ops.invert_volume(done.history, done["image"]), volume)


# ------------------------------------------------------------------------------------------ intensities


def test_blur_is_that_of_scipy(volume):
    found = ops.GaussianBlur3d(sigma=(0.7, 1.0, 1.3))(volume)
    judged = ndimage.gaussian_filter(volume, (0.7, 1.0, 1.3), truncate=6, mode="reflect")
    assert np.abs(found - judged).max() < 1e-5
    wide = ops.GaussianBlur3d(sigma=5.0)(volume)
    assert np.abs(wide - ndimage.gaussian_filter(volume, 5.0, truncate=6, mode="reflect")).max() < 1e-4


def test_noise_has_its_deviation_and_depends_on_the_sample(volume):
    zeros = np.zeros((40, 40, 40), np.float32)
    noise = ops.GaussianNoise3d(sigma=2.0)(zeros, index=1)
    assert abs(noise.std() - 2) < 0.03
    assert abs(noise.mean()) < 0.03
    assert not np.array_equal(noise, ops.GaussianNoise3d(sigma=2.0)(zeros, index=2))
    assert np.array_equal(noise, ops.GaussianNoise3d(sigma=2.0)(zeros, index=1))
    rician = ops.RicianNoise(sigma=2.0)(zeros)
    assert abs(rician.mean() - 2 * np.sqrt(np.pi / 2)) < 0.03


def test_contrast_gamma_and_scales_are_their_formulas(volume):
    x, mean = volume.astype(float), volume.astype(float).mean()
    assert np.allclose(ops.BrightnessMultiplicative(factor=1.3)(volume), x * 1.3, atol=1e-6)
    assert np.allclose(
        ops.Contrast3d(factor=1.3)(volume), ((x - mean) * 1.3 + mean).clip(x.min(), x.max()), atol=1e-5
    )
    wide = np.ptp(x)
    power = ((x - x.min()) / wide) ** 0.7 * wide + x.min()
    assert np.allclose(ops.Gamma3d(gamma=0.7, range="minmax")(volume), power, atol=1e-5)
    inverted = -(((-x - (-x).min()) / wide) ** 0.7 * wide + (-x).min())
    assert np.allclose(ops.Gamma3d(gamma=0.7, range="minmax", invert=True)(volume), inverted, atol=1e-5)
    kept = ops.Gamma3d(gamma=0.7, range="minmax", retain_stats=True)(volume)
    assert np.allclose([kept.mean(), kept.std()], [x.mean(), x.std()], atol=1e-5)
    scored = ops.ZScore()(volume)
    assert np.allclose(scored, (x - mean) / x.std(), atol=1e-5)
    assert np.allclose(ops.Window(lo=0.0, hi=1.0)(volume), x.clip(0, 1), atol=1e-6)
    lo, hi = np.percentile(x, (1, 99))
    assert np.allclose(
        ops.PercentileRescale(lower=1, upper=99)(volume), ((x - lo) / (hi - lo)).clip(0, 1), atol=1e-5
    )


def test_scores_count_what_they_are_told(volume, blocks):
    zeros = np.where(blocks > 2, volume, 0).astype(np.float32)
    found = ops.ZScore(of="nonzero", keep_zeros=True)(zeros)
    assert abs(found[zeros != 0].mean()) < 1e-5
    assert (found[zeros == 0] == 0).all()
    masked = ops.ZScore(of="mask")({"image": volume, "mask": Labels(blocks)})["image"]
    assert abs(masked[blocks > 0].std() - 1) < 1e-5


def test_low_resolution_is_nearest_down_and_linear_up():
    torch = pytest.importorskip("torch")
    volume = np.random.default_rng(0).random((12, 13, 14)).astype(np.float32)
    few = [round(n * 0.6) for n in volume.shape]
    small = torch.nn.functional.interpolate(torch.from_numpy(volume)[None, None], few, mode="nearest-exact")
    judged = torch.nn.functional.interpolate(small, volume.shape, mode="trilinear")[0, 0].numpy()
    assert np.abs(ops.LowResolution(factor=0.6)(volume) - judged).max() < 1e-5


def test_sharpening_the_median_and_landmarks_are_those_of_scipy_and_numpy(volume):
    blurred = ndimage.gaussian_filter(volume, 1.0, truncate=6, mode="reflect")
    sharp = ops.Sharpen3d(amount=0.7, sigma=1.0)(volume)
    assert np.abs(sharp - (volume + 0.7 * (volume - blurred))).max() < 1e-4
    assert np.array_equal(ops.MedianBlur3d()(volume), ndimage.median_filter(volume, 3, mode="nearest"))
    percentiles, landmarks = (1, 25, 50, 75, 99), (0, 10, 40, 80, 100)
    found = ops.HistogramStandardize(landmarks=landmarks, percentiles=percentiles)(volume)
    ends = np.percentile(volume, percentiles)
    inside = (volume >= ends[0]) & (volume <= ends[-1])
    assert np.abs(found - np.interp(volume, ends, landmarks))[inside].max() < 1e-3
    assert found.min() < 0, "what is below the first percentile goes on along its line"
    with_nan = volume.copy()
    with_nan[0, 0, 0] = np.nan
    with pytest.warns(UserWarning, match="NaN"):
        assert np.isnan(ops.HistogramStandardize()(with_nan)[0, 0, 0])


@pytest.mark.parametrize(
    "op",
    [
        ops.ZScore(),
        ops.Window(lo=-100.0, hi=300.0),
        ops.PercentileRescale(),
        ops.HistogramStandardize(landmarks=(0.0, 1.0), percentiles=(1.0, 99.0)),
    ],
    ids=lambda op: op.name,
)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32"])
def test_integers_on_a_new_scale_become_float32(rng, op, dtype):
    """Windows of CT in Hounsfield units were rounded to 0 and 1."""
    stored = (rng.random((9, 10, 11)) * 200).astype(dtype)
    later = ops.BrightnessAdditive(offset=0.25)
    found, judged = Chain(op, later)(stored), Chain(op, later)(stored.astype(np.float32))
    assert found.dtype == np.float32
    assert np.abs(found - judged).max() < 1e-5
    marked = Chain(op)({"image": stored, "label": Labels(stored)})
    assert marked["label"].data.dtype == stored.dtype, "labels have no scale"
    assert np.array_equal(marked["label"].data, stored)


SCALES = [
    ops.ZScore(p=0.5, seed=1),
    ops.Window(lo=0.0, hi=200.0, p=0.5, seed=1),
    ops.PercentileRescale(p=0.5, seed=1),
    ops.HistogramStandardize(p=0.5, seed=1),
]


@pytest.mark.parametrize("op", SCALES, ids=lambda op: op.name)
@pytest.mark.parametrize(
    "device",
    [
        None,
        pytest.param(
            EmulatedDevice(),
            marks=pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler()),
        ),
    ],
    ids=["cpu", "kernel"],
)
def test_the_dtype_does_not_depend_on_the_draw(rng, op, device):
    """Samples that a normalizing operator left unchanged stayed integers, beside others of float32."""
    stored = (rng.random((12, 5, 6, 7)) * 200).astype(np.int16)
    samples = [{"image": one, "other": one.astype(np.float64), "label": Labels(one)} for one in stored]
    for chain in (Chain(op), Chain(op, op), Chain(op, ops.Flip3d(width=True), ops.Flip3d(width=True), op)):
        found = chain(samples, **({} if device is None else {"backend": "cuda", "device": device}))
        unchanged = [
            not any(entry["drawn"]["acts"] for entry in one.history if entry["op"]["op"] == op.name)
            for one in found
        ]
        assert 0 < sum(unchanged) < len(samples)
        for one, before, same in zip(found, stored, unchanged, strict=True):
            assert [one["image"].dtype, one["other"].dtype] == [np.float32, np.float64]
            assert one["label"].data.dtype == np.int16
            assert np.array_equal(one["image"], before) == same, "converted, not rescaled"
            again = ops.replay(one.history, {"image": before})["image"]
            assert again.dtype == np.float32
            assert np.abs(again - one["image"]).max() < 1e-3
    assert chain(np.stack(stored), layout="NDHW").dtype == np.float32, "one array of all samples"
    kept = Chain(ops.Only("other", ops.ZScore(p=0.5, seed=1)))(samples)
    assert {one["image"].dtype.name for one in kept} == {"int16"}
    assert "conversion to float32" in Chain(ops.ZScore(p=0.0)).explain(stored[0])
    assert op.result_types((Type("images", "DHW", "int16"),))[0].dtype == "float32"


def test_a_gradient_is_a_gaussian_and_all_channels_share_it(rng):
    volume = rng.random((12, 14, 16, 2)).astype(np.float32)
    added = ops.BrightnessGradient(offset=0.8, centered=False)(volume, index=3) - volume
    assert np.abs(added[..., 0] - added[..., 1]).max() < 1e-6
    assert 0 < added.min() < added.max() <= 0.8 + 1e-6
    logs = np.log(added[..., 0].astype(float))
    for axis, n in enumerate(volume.shape[:3]):
        bends = np.diff(logs, 2, axis=axis) * n * n
        assert np.abs(bends - bends.mean()).max() < 0.02 * np.abs(bends.mean()), "a parabola along each axis"
    centered = ops.BrightnessGradient(offset=0.8)(volume, index=3) - volume
    assert np.abs(centered - (added - added.mean())).max() < 1e-5


def test_a_coarse_shuffle_moves_voxels_within_boxes_alone(rng):
    volume = np.stack([np.arange(12 * 13 * 14, dtype=np.float32).reshape(12, 13, 14)] * 2, axis=-1)
    found = ops.CoarseShuffle3d(holes=1, size=(4, 5, 6))(volume, index=1)
    moved = np.argwhere(found[..., 0] != volume[..., 0])
    box = tuple(slice(a, b + 1) for a, b in zip(moved.min(axis=0), moved.max(axis=0), strict=True))
    assert 100 < len(moved) <= 4 * 5 * 6
    assert [axis.stop - axis.start for axis in box] == [4, 5, 6]
    assert np.array_equal(np.sort(found[box].ravel()), np.sort(volume[box].ravel()))
    assert np.array_equal(found[..., 0], found[..., 1]), "channels stay together"


def test_anisotropy_changes_one_axis_and_local_gamma_one_place(volume):
    torch = pytest.importorskip("torch")
    found = ops.Anisotropy(factor=2.0, axis=0)(volume)
    given = torch.from_numpy(volume)[None, None]
    few = torch.nn.functional.interpolate(given, (9, *volume.shape[1:]), mode="nearest-exact")
    judged = torch.nn.functional.interpolate(few, volume.shape, mode="trilinear")[0, 0].numpy()
    assert np.abs(found - judged).max() < 1e-5
    strong = ops.LocalGamma(gamma=3.0, reach=0.2)(volume, index=2)
    assert strong.min() >= volume.min() - 1e-5
    assert strong.max() <= volume.max() + 1e-5
    changed = np.abs(strong - volume)
    place = np.unravel_index(changed.argmax(), volume.shape)
    far = np.linalg.norm(
        (np.indices(volume.shape).T - place).T / np.array(volume.shape)[:, None, None, None], axis=0
    )
    assert changed[far > 0.8].mean() < 0.1 * changed[far < 0.1].mean()


def test_motion_leaves_the_middle_of_the_frequencies_as_it_is(volume):
    still = ops.Motion(rotate=0.0, translate_mm=0.0)(volume)
    assert np.abs(still - volume).max() < 1e-4
    moved = ops.Motion(movements=2, rotate=8.0, translate_mm=3.0, axis=1)(volume, index=4)
    given, found = (np.fft.fftshift(np.fft.fft(one, axis=1), axes=1) for one in (volume, moved))
    # the inverse keeps the real part: of each line the mean of it and of the mirrored line's conjugate
    off = np.abs(found - given).mean(axis=(0, 2)) / np.abs(given).mean()
    assert off[volume.shape[1] // 2] < 1e-4
    assert off.max() > 0.01
    held = ops.Motion(movements=2, rotate=8.0, translate_mm=3.0)(
        {"image": space(volume), "m": Labels(volume > 0)}
    )
    assert np.array_equal(held["m"].array, volume > 0)


def test_motion_brings_no_zeros_into_the_air_around_a_head():
    air = np.full((12, 14, 16), -1000, np.float32)
    moved = ops.Motion(movements=3, rotate=8.0, translate_mm=5.0)(air, index=1)
    assert np.allclose(moved, -1000, atol=0.01)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8])
def test_gibbs_removes_the_highest_frequencies_and_at_0_none(rng, alpha):
    noise = small(rng)
    far = np.linalg.norm(np.meshgrid(*[np.fft.fftfreq(n) * n for n in noise.shape], indexing="ij"), axis=0)
    kept = far <= (1 - alpha) * np.linalg.norm([n / 2 for n in noise.shape])
    wanted = np.fft.ifftn(np.fft.fftn(noise) * kept).real
    assert kept.all() == (alpha == 0)
    np.testing.assert_allclose(ops.Gibbs(alpha=alpha)(noise), wanted, atol=1e-5)


def test_acquisitions_leave_the_mean(volume):
    for op in (ops.Ghosting(), ops.Gibbs(alpha=0.5), ops.Spike(strength=0.3)):
        found = op(volume, index=3)
        assert np.isfinite(found).all()
        assert 0 < np.abs(found - volume).max() < 10
        assert abs(found.mean() - volume.mean()) < 0.05
    assert np.allclose(ops.BiasField(strength=0.0)(volume), volume)
    field = ops.BiasField(strength=0.5)(np.ones_like(volume), index=1)
    assert 0.05 < field.std() < 3
    assert np.abs(np.diff(np.log(field), n=4, axis=0)).max() < 1e-4, "a cubic along each axis"


def test_channels_have_draws_of_their_own(rng):
    volume = np.ones((4, 4, 4, 6), np.float32)
    joint = ops.BrightnessMultiplicative(factor=(0.5, 2.0))(volume)
    assert len(np.unique(joint)) == 1
    apart = ops.BrightnessMultiplicative(factor=(0.5, 2.0), per_channel=True)(volume)
    assert len(np.unique(apart)) == 6
    some = ops.BrightnessMultiplicative(factor=(0.5, 2.0), per_channel=True, p_channel=0.5)(volume, index=1)
    assert 1 <= (some != 1).any(axis=(0, 1, 2)).sum() < 6


# ------------------------------------------------------------------------------------------ bad input


def test_what_is_no_number_is_kept_and_said_once(volume):
    broken = volume.copy()
    broken[3, 4, 5], broken[6, 7, 8] = np.nan, np.inf
    with pytest.warns(UserWarning, match="2 voxels of 'image' are NaN or infinite: they are kept") as said:
        found = Chain(ops.ZScore(), ops.Contrast3d(factor=1.2), ops.Gamma3d(gamma=1.2, range="minmax"))(
            broken
        )
    assert len(said) == 1
    assert np.isnan(found[3, 4, 5])
    assert (
        np.isfinite(np.delete(found.ravel(), [np.ravel_multi_index((3, 4, 5), found.shape)])).mean() > 0.999
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ops.ZScore()(volume)


@pytest.mark.parametrize("op", [ops.Gibbs(alpha=0.5), ops.Ghosting(), ops.Motion(), ops.Spike()])
def test_one_nan_does_not_reach_every_voxel_through_the_frequencies(volume, op):
    broken = volume.copy()
    broken[3, 4, 5], broken[6, 7, 8] = np.nan, np.inf
    with pytest.warns(UserWarning, match="2 voxels of 'image' are NaN or infinite: they are kept") as said:
        found = op(broken, index=2)
    assert len(said) == 1, "NumPy warns of nothing"
    assert np.array_equal(np.argwhere(~np.isfinite(found)), [[3, 4, 5], [6, 7, 8]])
    filled = np.where(np.isfinite(broken), broken, broken[np.isfinite(broken)].mean())
    assert np.nanmax(np.abs(np.where(np.isfinite(found), found - op(filled, index=2), 0))) < 1e-5


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda x: ops.RandomAffine3d(translate_mm=3.0)(x),
            "random_affine3d: translate_mm is in mm, but the volume has no spacing.*affine",
        ),
        (
            lambda x: ops.Resample3d(spacing_mm=1)(x),
            "resample3d: spacing_mm is in mm, but the volume has no spacing",
        ),
        (
            lambda x: ops.RandomAffine3d(shear=(45.0, 0.0, 45.0, 0.0, 0.0, 0.0))(x),
            r"random_affine3d: shear=\(45.0, 0.0, 45.0, 0.0, 0.0, 0.0\) makes a volume flat",
        ),
        (
            lambda x: ops.Elastic3d(amplitude_mm=3.0)(x),
            "elastic3d: amplitude_mm is in mm, but the volume has no spacing",
        ),
        (
            lambda x: ops.GaussianBlur3d(unit="mm")(x),
            "gaussian_blur3d: unit='mm', but the volume has no spacing",
        ),
        (
            lambda x: ops.Gamma3d(gamma=1.2)(x),
            r"gamma3d: the range of intensities is required, and a volume does not define it; allowed: range=",
        ),
        (lambda x: ops.ZScore(of="mask")(x), "zscore: of='mask', and the sample has no labels"),
        (
            lambda x: ops.Crop3d(size=(1, 99, 1))(x),
            r"crop3d: size=\(1, 99, 1\) of a volume of 18 × 22 × 26 voxels; allowed: no more",
        ),
        (
            lambda x: ops.Flip3d(width=True)({"a": x, "b": x[1:]}),
            "flip3d: b has 17 × 22 × 26 voxels, and the part before it 18 × 22 × 26; allowed: one grid",
        ),
        (
            lambda x: ops.Flip3d(width=True)({"a": space(x), "b": Sequence(x, "DHW", affine=np.eye(4))}),
            "flip3d: b is shifted by up to .* voxels against the part before it",
        ),
        (
            lambda x: ops.Flip3d(width=True)({"a": x, "m": Labels((x > 0) * 7, classes=3)}),
            "Labels: the label 7 in .* voxels of 'm' is of no declared class; allowed: 0, 1, 2",
        ),
        (
            lambda x: ops.Flip3d(width=True)({"m": Labels(x)}),
            "flip3d: m has the label .*; allowed: whole numbers",
        ),
        (
            lambda _: ops.Flip3d(width=True)({"p": Points([[1, 2, 3]])}),
            "flip3d: a sample of p; allowed: one image or labels",
        ),
        (
            lambda x: ops.Flip3d(width=True)({"a": x, "p": Points([[1.0, 2, 3]], unit="mm")}),
            "flip3d: p is in mm, and the images have no affine",
        ),
        (
            lambda x: ops.Flip3d(width=True)(x[0]),
            r"flip3d: an array of shape \(22, 26\) and layout unknown; allowed: .*DHW",
        ),
        (lambda x: ops.Flip3d(width=True)(x, layout="CDHW"), "flip3d: an array of shape .* and layout CDHW"),
        (
            lambda x: ops.BrightnessAdditive(offset=1)({"m": Labels(x > 0)}),
            "brightness_additive: a sample of m, none of which is an image",
        ),
        (lambda _: Points([1.0, 2.0]), r"Points: numbers of float64 of shape \(2,\); allowed: \(K, 3\)"),
        (lambda x: Labels(x, classes=0), "Labels: classes=0 is not valid"),
        (lambda x: Labels(x, interp="linear"), "interp='linear' is not valid; allowed: 'vote', 'nearest'"),
    ],
)
def test_it_is_refused_by_name(volume, call, said):
    with pytest.raises(ParameterError, match=said):
        call(volume)


@pytest.mark.parametrize(
    "op",
    [
        ops.Zoom3d(size=(100_000, 100_000, 100_000)),
        ops.Zoom3d(size=(10_000_000,) * 3, p=0.5, seed=2),
        ops.Pad3d(size=(100_000, 100_000, 100_000)),
        ops.Resample3d(spacing_mm=0.001),
    ],
    ids=lambda op: op.name,
)
def test_a_result_larger_than_the_memory_is_refused_by_name(op):
    said = (
        rf"^{op.name}: a result of \d+ × \d+ × \d+ voxels \(\S+ GiB\); allowed: up to \S+ GiB, the memory of the"
        " machine. Choose a smaller size"
    )
    with pytest.raises(ParameterError, match=said):
        op([space(np.zeros((40, 40, 40, 1), np.float32))] * 8)


@pytest.mark.parametrize(
    "op",
    [
        ops.Zoom3d(factor=(2.0, 1.5, 1.0)),
        ops.Zoom3d(size=(18, 15, 11)),
        ops.Resample3d(spacing_mm=(1.0, 2 / 3, 1.5)),
    ],
)
def test_finer_voxels_repeat_the_edge_voxels(op, rng, torch):
    """As torch interpolates: a CT does not get a border between its air and 0."""
    ct = space(small(rng) - 1000)
    wanted = torch.nn.functional.interpolate(
        torch.from_numpy(ct.data)[None, None], size=(18, 15, 11), mode="trilinear"
    )
    for backend in ("reference", None):
        np.testing.assert_allclose(Chain(op)(ct, backend=backend).data, wanted[0, 0], atol=1e-3)
    labels = space(np.ones((9, 10, 11), np.uint8))
    assert (Chain(op)({"image": ct, "label": Labels(labels)})["label"].data.data == 1).all()
    both = Chain(op, ops.RandomAffine3d(rotate=30.0, fill_value=-9.0, label_fill=5))
    assert len(both.explain().splitlines()) == 1, "one pass"
    sample = both({"image": ct, "label": Labels(labels)})
    assert (sample["image"].data.max(), sample["label"].data.data.max()) == (-9, 5)


@pytest.mark.parametrize("factor", [0.5, (0.5, 1.0, 0.7), 2.0])
def test_the_inverse_of_a_changed_spacing_has_no_border_of_the_fill_value(factor, rng, torch):
    """As torch interpolates; what a crop left out gets the value."""
    chain = Chain(
        ops.Rot90(turns=1, plane="dw"), ops.Zoom3d(factor=factor), ops.Flip3d(height=True, width=False)
    )
    sample = chain({"image": space(small(rng)), "label": Labels(space(np.ones((9, 10, 11), np.uint8)))})
    moved = sample["image"].data
    back = ops.invert_volume(sample.history, sample["image"], fill_value=-1.0).data
    turned = torch.from_numpy(moved[:, ::-1].copy())[None, None]
    wanted = torch.nn.functional.interpolate(turned, size=(11, 10, 9), mode="trilinear")[0, 0]
    np.testing.assert_allclose(np.rot90(back, 1, (0, 2)), wanted, atol=1e-5)
    assert (ops.invert_volume(sample.history, sample["label"]).data.data == 1).all()
    cropped = Chain(ops.Crop3d(size=(9, 10, 5)), ops.Zoom3d(factor=2.0))
    sample = cropped({"image": space(small(rng) + 1)})
    back = ops.invert_volume(sample.history, sample["image"], fill_value=-1.0).data
    assert ((back == -1) == (np.abs(np.arange(11) - 5) > 2)).all()


def test_a_series_of_volumes_of_several_values_keeps_its_axes_and_its_inverse(rng):
    """The modalities of a 4-D file with their labels, one sample and a batch of two."""
    values = rng.random((3, 6, 7, 8, 2)).astype(np.float32)
    series = Sequence(values, "FDHWC", affine=np.diag([2.0, 1.0, 1.5, 1.0]))
    labels = Sequence((values[0, ..., :1] > 0.5).astype(np.uint8), "DHWC", affine=series.affine)
    chain = Chain(
        ops.Flip3d(depth=True, width=False), ops.Rot90(turns=1, plane="dw"), ops.Crop3d(size=(5, 6, 4))
    )
    sample = chain({"image": series, "label": Labels(labels)})
    one = chain({"image": Sequence(values[1], "DHWC", affine=series.affine)})["image"]
    assert np.array_equal(sample["image"].data[1], one.data)
    assert np.array_equal(sample["label"].data.data, chain(labels).data)
    batch = chain(Batch.of([series, series]))
    assert (batch.layout, batch.shape) == ("NFDHWC", (2, 3, 5, 6, 4, 2))
    back = ops.invert_volume(sample.history, sample["image"], fill_value=np.nan).data
    known = np.isfinite(back)
    assert known.mean() == 5 * 6 * 4 / (6 * 7 * 8)
    assert np.array_equal(back[known], values[known])


def test_results_of_several_sizes_are_asked_for_as_a_list(rng):
    with pytest.raises(
        ParameterError, match=r"zoom3d: results of different shapes.*Give the samples as a list"
    ):
        ops.Zoom3d(factor=(0.5, 2.0))(rng.random((3, 8, 8, 8)).astype(np.float32), layout="NDHW")


def test_a_dictionary_of_batches_is_as_many_samples(rng, torch):
    chain = Chain(ops.RandomAffine3d(rotate=(-20, 20)), ops.GaussianNoise3d(sigma=(0.0, 1.0)))
    images = rng.random((3, 6, 7, 8, 1)).astype(np.float32)
    labels = rng.integers(0, 3, (3, 6, 7, 8, 1)).astype(np.uint8)
    each = [{"image": i, "label": Labels(m)} for i, m in zip(images, labels, strict=True)]
    wanted = chain(each, index=[5, 1, 9])
    stacked = chain({"image": images, "label": Labels(labels)}, index=[5, 1, 9])
    first = {"image": np.moveaxis(images, 4, 1), "label": Labels(np.moveaxis(labels, 4, 1))}
    tensors = {
        name: torch.from_numpy(part.copy()) if name == "image" else part for name, part in first.items()
    }
    moved = chain(tensors, layout="NCDHW", index=[5, 1, 9])
    batches = {
        name: Batch.of([space(one) for one in array], indices=[5, 1, 9])
        for name, array in (("image", images), ("label", labels))
    }
    placed = chain({"image": batches["image"], "label": Labels(batches["label"])})
    assert isinstance(placed["image"], Batch)
    assert isinstance(moved["image"], torch.Tensor)
    for n, one in enumerate(wanted):
        assert np.array_equal(stacked["image"][n], one["image"])
        assert np.array_equal(stacked["label"].data[n], one["label"].data)
        assert np.array_equal(moved["image"][n, 0].numpy(), one["image"][..., 0])
    alone = chain({"image": batches["image"][1], "label": Labels(batches["label"][1])}, index=1)
    assert np.array_equal(placed["image"][1].data, alone["image"].data)
    assert np.array_equal(placed["label"].data[1].data, alone["label"].data.data)
    assert np.allclose(placed["image"][1].affine, alone["image"].affine)
    with pytest.raises(ParameterError, match="a batch with image of 3, label of 2; allowed: the same number"):
        chain({"image": images, "label": Labels(labels[:2])})


def test_a_dictionary_of_lists_is_as_many_samples_of_any_shapes(rng):
    images = [rng.random((6, 7, 8)).astype(np.float32), rng.random((5, 9, 4)).astype(np.float32)]
    labels = [(one > 0.5).astype(np.uint8) for one in images]
    op = ops.RandomAffine3d(rotate=(-20, 20), seed=1)
    found = op({"image": images, "label": Labels(labels)}, index=[4, 7])
    for n, index in enumerate((4, 7)):
        alone = op({"image": images[n], "label": Labels(labels[n])}, index=index)
        assert np.array_equal(found["image"][n], alone["image"])
        assert np.array_equal(found["label"].data[n], alone["label"].data)
    with pytest.raises(ParameterError, match="random_affine3d: a batch with image of 2, label of 1"):
        op({"image": images, "label": Labels(labels[:1])})
    with pytest.raises(ParameterError, match="random_affine3d: an object of type list is not an array"):
        op({"image": [[1, 2], [3, 4]]})


def test_a_tensor_of_a_subclass_comes_back_as_a_tensor(volume):
    """MONAI's MetaTensor came back as a NumPy array."""
    torch = pytest.importorskip("torch")

    class Scan(torch.Tensor):
        pass

    Scan.__module__ = "scans"
    scan = torch.from_numpy(volume)[None].as_subclass(Scan)
    chain = Chain(ops.Flip3d(width=True))
    sample = chain({"image": scan}, layout="CDHW")
    assert isinstance(sample["image"], torch.Tensor)
    assert isinstance(ops.invert_volume(sample.history, scan, layout="CDHW"), torch.Tensor)
    assert isinstance(ops.Flip(horizontal=True)(scan, layout="CDHW"), torch.Tensor)


def test_chains_print_and_go_to_json(volume):
    chain = Chain(
        ops.RandomAffine3d(rotate=(-30, 30), p=0.2),
        ops.RandomAffine3d(scale=ops.Reciprocal(0.7, 1.4), isotropic=True, p=0.2),
        ops.Gamma3d(gamma=ops.TwoSided(0.7, 1.5), range="minmax", p=0.3),
    )
    assert eval(repr(chain), vars(ops)) == chain
    assert Chain.from_json(chain.to_json()) == chain
    assert np.array_equal(chain(volume, index=4), Chain.from_json(chain.to_json())(volume, index=4))
    assert [op.name for op in chain.without("gamma3d")] == ["random_affine3d"] * 2
    draws = {op.stream_name for op in chain}
    assert draws == {"random_affine3d", "random_affine3d#1", "gamma3d"}
    with pytest.raises(
        ParameterError, match="there is no 'hue' in the chain; allowed: gamma3d, random_affine3d"
    ):
        chain.without("hue")


def test_torch_tensors_come_back_as_such(volume):
    torch = pytest.importorskip("torch")
    found = fn.flip3d(torch.from_numpy(volume), width=True)
    assert isinstance(found, torch.Tensor)
    assert np.array_equal(found.numpy(), volume[:, :, ::-1])
    sample = ops.Flip3d(width=True)(
        {"image": torch.from_numpy(volume), "label": Labels(torch.from_numpy(volume > 0))}
    )
    assert isinstance(sample["image"], torch.Tensor)
    assert isinstance(sample["label"].data, torch.Tensor)


def test_stored_integers_are_scaled_before_they_are_used(rng):
    stored = rng.integers(0, 4096, (6, 7, 8, 1)).astype(np.uint16)
    sequence = Sequence(stored, "DHWC", affine=np.eye(4), scale=(0.5, -10.25))
    found = ops.BrightnessMultiplicative(factor=2.0)(sequence)
    assert found.scale is None
    assert np.allclose(found.data, stored * 1.0 - 20.5)
    hounsfield = ops.Flip3d(width=True)(Sequence(stored, "DHWC", affine=np.eye(4), scale=(1, -1024)))
    assert np.array_equal(hounsfield.data, stored[:, :, ::-1].astype(np.int16) - 1024)


def test_parts_of_images_are_images(volume):
    done = ops.Flip3d(width=True)({"image": Image(volume)})
    assert isinstance(done["image"], Image)
    assert isinstance(ops.Flip3d(width=True)(Labels(volume > 0)), Labels)
