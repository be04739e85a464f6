"""Space: marked voxels keep their places through orientation, windows and resampling; SciPy judges interpolation."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage, signal

import seqpipe
from data_scripts.make_volumes import AFFINE, phantom
from seqpipe import Grid, Sequence
from seqpipe.core.padding import FILL_MODES
from seqpipe.errors import ParameterError, UnreadableSourceError
from seqpipe.resampling.gather import gather
from seqpipe.resampling.mapping import Mapping3
from seqpipe.sequence import orientation_of, spacing_of
from seqpipe.volume import (
    reorient,
    resample,
    save,
    to_monai,
    to_nibabel,
    to_sitk,
    to_torchio,
)
from seqpipe.volume.patches import cutting
from seqpipe.volume.patches.cutting import WeightIndex, cut_patch
from seqpipe.volume.patches.grid import PatchSums, grid_starts, window_weights
from seqpipe.volume.space import Turn, check_orientation, grids_agree, to_axes, turn_to
from tests.support.volumes import assert_places, needs, phantom_path

ORIENTATIONS = ["RAS", "LPS", "PIR", "SLA", "IRP", "ASL"]
matrices = st.lists(st.floats(-3, 3), min_size=9, max_size=9).map(lambda v: np.array(v).reshape(3, 3))


def volume(**fields):
    return Sequence(phantom()[..., None], "DHWC", affine=AFFINE, **fields)


@settings(max_examples=200, deadline=None)
@given(matrices)
def test_orientation_is_nibabels(matrix):
    nibabel = needs("nibabel")
    lengths = np.linalg.norm(matrix, axis=0)
    if lengths.min() < 0.05 or abs(np.linalg.det(matrix / lengths)) < 0.05:
        return
    affine = np.eye(4)
    affine[:3, :3] = matrix
    assert orientation_of(affine[:, [2, 1, 0, 3]]) == "".join(nibabel.aff2axcodes(affine))


@pytest.mark.parametrize("codes", ORIENTATIONS)
def test_reorienting_is_exact_a_view_and_keeps_every_place(codes):
    before = volume()
    after = reorient(before, codes)
    assert after.orientation == codes
    assert np.shares_memory(after.data, before.data)
    assert_places(after.data[..., 0], after.affine)
    back = reorient(after, "LPS")
    assert np.array_equal(back.data, before.data)
    np.testing.assert_allclose(back.affine, before.affine, atol=1e-9)
    rng = np.random.default_rng(1)
    for voxel in rng.integers(0, after.shape[:3], (20, 3)):
        place = after.affine @ [*voxel, 1]
        old = np.rint(np.linalg.inv(before.affine) @ place)[:3].astype(int)
        assert after.data[tuple(voxel)] == before.data[tuple(old)]


@settings(max_examples=100, deadline=None)
@given(
    st.permutations([0, 1, 2]),
    st.tuples(*[st.booleans()] * 3),
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), min_size=3, max_size=3),
)
def test_a_window_of_a_turned_volume_is_read_from_the_right_box(axes, flips, spans):
    array = np.arange(10 * 11 * 12).reshape(10, 11, 12)
    turn = Turn(tuple(axes), flips)
    ranges = [(first, first + length) for first, length in spans]
    box = turn.box(ranges, array.shape)
    part = turn.array(array[tuple(slice(*span) for span in box)], 0)
    assert np.array_equal(part, turn.array(array, 0)[tuple(slice(*span) for span in ranges)])


def test_sequences_without_a_place_are_refused():
    with pytest.raises(ParameterError, match="cannot be reoriented: it has no affine"):
        reorient(Sequence(phantom()[..., None], "DHWC"), "RAS")
    with pytest.raises(ParameterError, match="has no affine"):
        resample(Sequence(phantom()[..., None], "DHWC"), 1.0)
    for bad in ("RA", "RRS", 5, "XAS"):
        with pytest.raises(ParameterError, match="three letters"):
            check_orientation(bad)
    assert check_orientation("lps") == "LPS"


@pytest.mark.parametrize("spacing", [1.0, (2.5, 1.0, 2.0), (5.0, 3.0, 2.5)])
@pytest.mark.parametrize("interp", ["linear", "nearest", "vote"])
def test_resampling_keeps_places(spacing, interp):
    after = resample(volume(), spacing, interp=interp)
    assert after.spacing_mm == pytest.approx((spacing,) * 3 if isinstance(spacing, float) else spacing)
    assert after.dtype == np.int16
    corner = after.affine @ [-0.5, -0.5, -0.5, 1]
    np.testing.assert_allclose(corner, AFFINE @ [-0.5, -0.5, -0.5, 1], atol=1e-9)
    if interp != "linear":
        assert set(np.unique(after.data)) <= set(np.unique(phantom()))
        if max(after.spacing_mm) < 3:
            assert_places(after.data[..., 0], after.affine, 1.0)


def judged(array, matrix, shape, order, fill=None):
    places = np.indices(shape).reshape(3, -1)
    source = matrix[:3, :3] @ places + matrix[:3, 3:]
    mode = "nearest" if fill is None else "grid-constant"
    return ndimage.map_coordinates(array, source, order=order, mode=mode, cval=fill or 0).reshape(shape)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("fill", [None, 0.0, -2.5])
@pytest.mark.parametrize("interp", ["linear", "nearest"])
def test_interpolation_is_scipys(diagonal, fill, interp):
    rng = np.random.default_rng(3)
    array = rng.normal(size=(9, 11, 13)).astype(np.float32)
    matrix = np.diag([0.7, 1.3, -0.9, 1.0])
    if not diagonal:
        matrix[:3, :3] += rng.normal(size=(3, 3)) * 0.2
    matrix[:3, 3] = [-1.13, 0.37, 12.23]
    shape = (14, 9, 15)
    found = gather(array[..., None], Mapping3(shape, matrix), interp, fill, double=True)[..., 0]
    judge = judged(array, matrix, shape, 1 if interp == "linear" else 0, fill)
    if interp == "linear":
        np.testing.assert_allclose(found, judge, atol=1e-5)
    else:
        assert (found == judge).mean() > 0.995  # SciPy rounds halves its own way


@pytest.mark.parametrize("interp", ["linear", "nearest", "vote"])
@pytest.mark.parametrize("fill", [None, 0.0, 3.0])
@pytest.mark.parametrize("kind", ["u1", "i1", "u2", ">i2", "u4", "i4", "i8", "f4", "f8"])
def test_c_and_numpy_give_the_same(interp, fill, kind):
    rng = np.random.default_rng(7)
    array = (rng.integers(0, 5, (8, 9, 10, 1)) * (20 if kind != "i1" else 9)).astype(kind)[::-1, :, 1:]
    matrix = np.eye(4)
    matrix[:3, :3] += rng.normal(size=(3, 3)) * 0.3
    matrix[:3, 3] = [-1.5, 2.25, 0.4]
    mapping = Mapping3((11, 7, 12), matrix)
    by_c = gather(array, mapping, interp, fill, double=True)
    assert np.array_equal(gather(array, mapping, interp, fill, double=True, reference=True), by_c)
    assert by_c.dtype == array.dtype


@pytest.mark.parametrize("interp", ["linear", "nearest", "cubic", "bspline"])
@pytest.mark.parametrize("fill", [None, 2.5])
@pytest.mark.parametrize("kind", ["u1", "f8"])
def test_parallel_axes_are_read_one_after_the_other_with_the_same_values(interp, fill, kind):
    rng = np.random.default_rng(8)
    array = (rng.integers(0, 50, (8, 9, 10, 2)) * 2).astype(kind)
    for scale, offset in ((0.7, 1.2), (-0.9, 8.4), (1.0, 40.0), (3.1, 0.0)):
        matrix = np.diag([1.2, scale, 0.8, 1.0])
        matrix[:3, 3] = [-1.5, offset, 0.25]
        mapping = Mapping3((9, 7, 12), matrix)
        by_c = gather(array, mapping, interp, fill, double=True).astype(np.float64)
        judge = gather(array, mapping, interp, fill, double=True, reference=True).astype(np.float64)
        # halves are rounded to even after sums in another order
        np.testing.assert_allclose(by_c, judge, atol=1 if kind == "u1" else 1e-11)


def test_long_volumes_need_double_precision_and_get_it():
    """Single precision places a voxel of column 3000 to 1e-4 voxel; SciPy and SimpleITK judge what files give."""
    rng = np.random.default_rng(9)
    array = rng.normal(size=(5, 6, 4000)) * 1000
    matrix = np.eye(4)
    matrix[:3, :3] += rng.normal(size=(3, 3)) * [[1e-3, 1e-3, 1e-5], [1e-3, 1e-3, 1e-5], [1e-3, 1e-3, 0.01]]
    shape = (5, 6, 3900)
    judge = judged(array, matrix, shape, 1)
    like = Sequence(np.zeros((*shape, 1), np.uint8), "DHWC", affine=AFFINE @ matrix)
    found = resample(Sequence(array[..., None], "DHWC", affine=AFFINE), like=like, antialias=False)
    assert np.abs(found.data[..., 0] - judge).max() < 1e-6
    single = gather(array[..., None].astype(np.float32), Mapping3(shape, matrix), "linear", None)[..., 0]
    assert 1e-3 < np.abs(single - judge).max() < 1.0
    itk = needs("SimpleITK")
    image = to_sitk(Sequence(array[..., None], "DHWC", affine=AFFINE))
    by_itk = itk.Resample(image, to_sitk(like), itk.Transform(), itk.sitkLinear, -1e6, itk.sitkFloat64)
    theirs = itk.GetArrayFromImage(by_itk)
    inside = theirs > -1e5
    assert inside.mean() > 0.5
    assert np.abs(theirs - found.data[..., 0])[inside].max() < 1e-3, (
        "ITK walks along lines, in its own rounding"
    )


def test_labels_by_vote_are_one_hot_argmax_but_for_ties():
    rng = np.random.default_rng(5)
    labels = ndimage.zoom(rng.integers(0, 6, (4, 4, 4)), 4, order=0).astype(np.uint8)
    matrix = np.eye(4)
    matrix[:3, :3] += rng.normal(size=(3, 3)) * 0.1
    matrix[:3, 3] = [0.3, 1.2, -0.4]
    shape = (15, 14, 16)
    found = gather(labels[..., None], Mapping3(shape, matrix), "vote", None, double=True)[..., 0]
    scores = np.stack([judged((labels == n).astype(np.float64), matrix, shape, 1) for n in range(6)])
    judge = scores.argmax(axis=0)
    top = np.sort(scores, axis=0)
    clear = top[-1] - top[-2] > 1e-6
    assert np.array_equal(found[clear], judge[clear])
    assert set(np.unique(found)) <= set(np.unique(labels))


def test_windows_of_a_resampled_reader_are_cuts_of_the_whole():
    with seqpipe.open(phantom_path("nii_gz")) as reader:
        for made in (
            reader.resample((4.0, 2.0, 3.0)),
            reader.reorient("PIR").resample(1.7, interp="vote"),
            reader.resample(1.5).reorient("RAS"),
            reader.resample(like=Sequence(np.zeros((9, 8, 7, 1)), "DHWC", affine=np.eye(4)), fill_value=0),
        ):
            whole = made.sequence()
            assert whole.shape == made.shape
            np.testing.assert_allclose(whole.affine, made.affine)
            d, h, w = (size // 3 for size in made.info.grid)
            part = made[d : 2 * d, h:, : 2 * w]
            assert np.array_equal(part.data, whole.data[d : 2 * d, h:, : 2 * w])
            np.testing.assert_allclose(part.affine @ [0, 0, 0, 1], made.affine @ [d, h, 0, 1], atol=1e-9)


def test_resampling_onto_another_grid_is_simpleitks_away_from_the_border():
    sitk = needs("SimpleITK")
    float_volume = Sequence(
        ndimage.gaussian_filter(phantom().astype(np.float32), 1)[..., None], "DHWC", affine=AFFINE
    )
    grid = np.eye(4)[:, [2, 1, 0, 3]] * 1.5
    grid[:3, 3], grid[3, 3] = (-9, -8, -10), 1
    target = Sequence(np.zeros((12, 11, 12, 1), np.float32), "DHWC", affine=grid)
    found = resample(float_volume, like=target, antialias=False).data[..., 0]
    image = sitk.Resample(to_sitk(float_volume), to_sitk(target), sitk.Transform(), sitk.sitkLinear)
    judge = sitk.GetArrayFromImage(image)
    assert np.abs(found - judge).max() < 1e-3 * float(np.ptp(float_volume.data))


def test_a_coarser_grid_is_smoothed_first():
    noise = Sequence(
        np.random.default_rng(0).normal(size=(40, 40, 40, 1)).astype(np.float32), "DHWC", affine=np.eye(4)
    )
    plain, smooth = (resample(noise, 4.0, antialias=a).data.std() for a in (False, True))
    assert smooth < plain / 2
    flat = Sequence(np.full((20, 20, 20, 1), 7, np.int16), "DHWC", affine=np.eye(4))
    assert (resample(flat, 3.0).data == 7).all()
    large = flat.with_pixels(np.full((20, 20, 20, 1), 2**30 + 1, np.int32), "DHWC")
    assert (resample(large, 3.0).data == 2**30 + 1).all(), "32-bit integers are not rounded to 32-bit floats"


def test_other_libraries_get_the_same_places():
    before = volume()
    place = before.affine @ [3, 5, 7, 1]
    nibabel = needs("nibabel")
    image = to_nibabel(before)
    np.testing.assert_allclose(nibabel.affines.apply_affine(image.affine, [7, 5, 3]), place[:3], atol=1e-9)
    assert image.get_fdata()[7, 5, 3] == before.data[3, 5, 7, 0]
    sitk = needs("SimpleITK")
    other = to_sitk(before)
    np.testing.assert_allclose(
        other.TransformIndexToPhysicalPoint((7, 5, 3)), place[:3] * [-1, -1, 1], atol=1e-9
    )
    assert other.GetPixel(7, 5, 3) == before.data[3, 5, 7, 0]
    sitk.GetArrayFromImage(other)
    for made, key in ((to_torchio(before), "tensor"), (to_monai(before), "x")):
        np.testing.assert_allclose(made["affine"] @ [7, 5, 3, 1], place, atol=1e-9)
        assert made[key].shape == (1, 32, 26, 18)
        assert made[key][0, 7, 5, 3] == before.data[3, 5, 7, 0]
    with pytest.raises(ParameterError, match="without an affine is not a volume"):
        to_sitk(Sequence(before.data, "DHWC"))


def test_monai_turns_what_it_is_given_as_we_do():
    data = pytest.importorskip("monai.data", reason="monai is not installed: it judges to_monai")
    before = volume()
    image = data.MetaTensor(**to_monai(before))
    turned = importlib.import_module("monai.transforms").Orientation(axcodes="LPS", labels=None)(image)
    ours = reorient(before, "LPS")
    np.testing.assert_allclose(np.asarray(turned.affine), to_monai(ours)["affine"], atol=1e-9)
    assert np.array_equal(np.asarray(turned), to_monai(ours)["x"])


def test_torchio_reads_what_it_is_given_as_we_do():
    torchio = pytest.importorskip("torchio", reason="torchio is not installed: it judges to_torchio")
    before = volume()
    image = torchio.ScalarImage(**to_torchio(before))
    assert "".join(image.orientation) == orientation_of(before.affine)
    np.testing.assert_allclose(image.spacing, spacing_of(before.affine)[::-1], atol=1e-9)
    turned = torchio.ToCanonical()(image)
    ours = to_torchio(reorient(before, "RAS"))
    np.testing.assert_allclose(turned.affine, ours["affine"], atol=1e-9)
    assert np.array_equal(np.asarray(turned.data), ours["tensor"])


def test_series_and_vectors_go_to_other_libraries():
    data = np.arange(2 * 3 * 4 * 5 * 2).reshape(2, 3, 4, 5, 2).astype(np.int16)
    series = Sequence(data, "FDHWC", affine=np.eye(4))
    assert to_nibabel(series).shape == (5, 4, 3, 2, 2) if needs("nibabel") else None
    assert to_sitk(series).GetSize() == (5, 4, 3, 2) if needs("SimpleITK") else None
    assert to_torchio(series)["tensor"].shape == (4, 5, 4, 3)
    for layout, cut in (("DHWC", data[0]), ("DHW", data[0, ..., 0]), ("FDHWC", data[..., :1])):
        one = Sequence(cut, layout, affine=AFFINE, scale=(2.0, 1.0))
        full = np.reshape(cut, (-1, 3, 4, 5, 2 if layout == "DHWC" else 1)) * 2 + 1
        image = np.asarray(to_nibabel(one).dataobj)
        assert np.array_equal(np.reshape(image, (5, 4, 3, *full.shape[::4])).transpose(3, 2, 1, 0, 4), full)
        assert image.ndim == {"DHWC": 5, "DHW": 3, "FDHWC": 4}[layout]
        itk = to_sitk(one)
        assert np.array_equal(needs("SimpleITK").GetArrayFromImage(itk).reshape(full.shape), full)
        assert itk.GetOrigin()[3:] == (0,) * (layout == "FDHWC")
        assert itk.GetSpacing()[3:] == (1,) * (layout == "FDHWC")
    for wrong in (Sequence(data[0], "DHWC"), Sequence(data[0], "FHWC", affine=np.eye(4))):
        with pytest.raises(
            ParameterError, match=r"an affine is not a volume; allowed: DHW, DHWC or FDHWC with"
        ):
            to_torchio(wrong)


def test_grids_are_the_same_up_to_a_hundredth_of_a_voxel():
    moved = AFFINE.copy()
    moved[0, 3] += 0.005
    assert grids_agree(AFFINE, moved, (18, 26, 32))
    moved[0, 3] += 0.02
    assert not grids_agree(AFFINE, moved, (18, 26, 32))
    assert spacing_of(AFFINE) == pytest.approx((2.5, 1.5, 1.25))
    axes, spacing, origin = to_axes(AFFINE)
    np.testing.assert_allclose(np.linalg.norm(axes, axis=0), 1)
    np.testing.assert_allclose(spacing, [1.25, 1.5, 2.5])
    assert origin.shape == (3,)
    assert turn_to(AFFINE, "LPS") == Turn()


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 60), st.integers(1, 30), st.floats(0, 0.95))
def test_a_grid_covers_every_voxel_with_the_overlap(size, patch, overlap):
    if patch > size:
        return
    starts = grid_starts(size, patch, overlap)
    assert starts[0] == 0
    assert starts[-1] == size - patch
    assert (np.diff(starts) >= 1).all()
    assert (np.diff(starts) <= max(1, int(patch * (1 - overlap)))).all()


def merged(path, grid, *, size=7, output=lambda batch: batch["image"], **options):
    """The only volume that is made of the output for its patches."""
    dataset = seqpipe.volumes(path, grid).batch(size)
    whole = seqpipe.Aggregate(dataset, **options)
    ((case, found),) = [done for batch in dataset for done in whole.add(batch, output(batch))]
    assert case.key == str(path)
    return found


@pytest.mark.parametrize("weights", ["constant", "gaussian", "hann"])
@pytest.mark.parametrize(("patch", "overlap"), [(8, 0.0), ((5, 9, 16), (0.5, 0.0, 0.5)), (40, 0.25)])
def test_patches_of_a_model_that_changes_nothing_make_the_volume(tmp_path, weights, patch, overlap):
    before = volume()
    found = merged(
        phantom_path("nii_gz"), Grid(patch, overlap, pad="reflect"), weights=weights, dtype=np.int16
    )
    assert np.array_equal(found.data, before.data)
    np.testing.assert_allclose(found.affine, AFFINE, atol=1e-5)
    floats = before.data.astype(np.float32) * 0.37
    save(Sequence(floats, "DHWC", affine=AFFINE), tmp_path / "floats.nii")
    found = merged(tmp_path / "floats.nii", Grid(patch, overlap, pad="edge"), weights=weights)
    assert np.abs(found.data - floats).max() <= 1e-6 * np.ptp(floats)


@pytest.mark.parametrize("mode", FILL_MODES)
def test_patches_are_padded_as_numpy_does(mode):
    before = volume()
    start, patch = (-7, 3, -40), (30, 40, 90)
    widths = [(7, 5), (0, 17), (40, 18), (0, 0)]
    wanted = np.pad(before.data, widths, mode)[:, 3:]
    found = cut_patch(before, start, patch, mode)
    assert np.array_equal(found.data, wanted)
    np.testing.assert_allclose(found.affine @ (7, -3, 40, 1), before.affine @ (0, 0, 0, 1))


def test_outputs_that_do_not_fit_are_refused():
    grid = seqpipe.volumes(phantom_path("nii_gz"), Grid(16)).batch(2)
    whole, (batch, later, *_) = seqpipe.Aggregate(grid), grid
    with pytest.raises(ParameterError, match=r"the output for 2 patches has the shape \(2, 8, 8, 8, 1\)"):
        whole.add(batch, np.zeros((2, 8, 8, 8, 1)))
    with pytest.raises(ParameterError, match=r"the output for 2 patches has the shape \(1, 16, 16, 16, 1\)"):
        whole.add(batch, np.zeros((1, 16, 16, 16, 1)))
    assert whole.add(batch, np.zeros((2, 16, 16, 16, 2))) == []
    assert whole.pending == (0,)
    with pytest.raises(ParameterError, match="the output has 1 channels, and that for patches before it 2"):
        whole.add(later, np.zeros((2, 16, 16, 16, 1)))
    with pytest.raises(ParameterError, match="weights='flat' is not valid"):
        seqpipe.Aggregate(grid, weights="flat")
    with pytest.raises(ParameterError, match=r"allowed: seqpipe.volumes\(…, seqpipe.Grid\(…\)\)"):
        seqpipe.Aggregate(seqpipe.volumes(phantom_path("nii_gz"), 8).batch(1))


def test_a_series_is_cut_into_patches_of_all_its_volumes(tmp_path):
    before = volume()
    series = np.stack([before.data, before.data * 2])
    save(Sequence(series, "FDHWC", affine=AFFINE), tmp_path / "series.nii")

    def second(batch):
        image = batch["image"]
        assert (image.layout, image.shape[1:]) == ("NFDHWC", (2, 30, 16, 16, 1))
        return image.data[:, 1]

    grid = Grid((30, 16, 16), 0.5, pad="edge")
    found = merged(tmp_path / "series.nii", grid, size=5, output=second, dtype=np.int16)
    assert np.array_equal(found.data, before.data * 2)
    np.testing.assert_allclose(found.affine, AFFINE, atol=1e-5)


def test_a_grid_of_prepared_volumes_is_merged_on_their_grid():
    prepare = seqpipe.Prepare(orientation="RAS", spacing_mm=2.0)
    grid = seqpipe.volumes(phantom_path("nii_gz"), Grid(9, 0.5), prepare=prepare).batch(4)
    whole = seqpipe.Aggregate(grid, dtype=np.int16)
    ((_, found),) = [done for batch in grid for done in whole.add(batch, batch["image"].data)]
    wanted = seqpipe.volumes(phantom_path("nii_gz"), prepare=prepare).sample(0)["image"]
    assert np.abs(found.data - wanted.data.astype(np.float32)).max() <= 1
    np.testing.assert_allclose(found.affine, wanted.affine)


@pytest.mark.parametrize("patch", [(8, 5, 12), (1, 7, 4)])
def test_weights_of_patches_are_the_windows_of_scipy(patch):
    judges = {
        "gaussian": lambda size: signal.windows.gaussian(size, size / 8),
        "hann": lambda size: signal.windows.cosine(size) ** 2,
        "constant": signal.windows.boxcar,
    }
    for weights, window in judges.items():
        d, h, w = (window(size) for size in patch)
        product = np.einsum("d,h,w->dhw", d, h, w)
        wanted = np.maximum(product / product.max(), 1e-3)
        np.testing.assert_allclose(window_weights(patch, weights), wanted, rtol=1e-6)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_weights_of_voxels_are_finite_and_not_negative(bad):
    weights = np.ones((2, 3, 4), np.float32)
    weights[1, 2, 3] = bad
    with pytest.raises(ParameterError, match=r"a\.nii: the map has weights that are negative or not finite"):
        WeightIndex.of(weights, "a.nii")


def test_one_slice_is_left_of_a_thin_volume():
    thin = Sequence(np.ones((3, 20, 30, 1), np.uint8), "DHWC", affine=np.eye(4)[:, [2, 1, 0, 3]])
    assert resample(thin, (10.0, 1.0, 1.0)).shape == (1, 20, 30, 1)


@pytest.mark.parametrize(("dtype", "wanted"), [(np.int16, [-2, 0, 2, 2, 300]), (np.uint8, [0, 0, 2, 2, 255])])
def test_aggregated_integers_are_rounded_half_to_even_and_saturate(dtype, wanted):
    sums = PatchSums((2, 2, 5), np.zeros((1, 3), np.int64), np.ones((2, 2, 5), np.float32))
    sums.add([0], np.broadcast_to(np.array([-1.5, 0.5, 1.5, 2.5, 300])[:, None], (1, 2, 2, 5, 1)))
    found = sums.result(dtype)
    assert found.dtype == dtype
    assert (found[..., 0] == wanted).all()


def test_more_channels_than_went_in_come_out():
    found = merged(
        phantom_path("nii_gz"),
        Grid(16, 0.5),
        output=lambda batch: np.concatenate([batch["image"].data * n for n in (1, 2, 3)], axis=-1),
        weights="hann",
    )
    assert found.shape == (18, 26, 32, 3)
    np.testing.assert_allclose(found.data, volume().data * [1, 2, 3], rtol=1e-5, atol=1e-3)


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(*[st.integers(1, 6)] * 3),
    st.sampled_from([(2, "u1"), (2, "?"), (40, "i8"), (256, "i2"), (257, "u2"), (4096, "i4")]),
    st.booleans(),
    st.booleans(),
)
def test_draws_count_through_the_voxels_of_a_class_and_of_a_map_in_order(shape, classes, channel, in_c):
    most, kind = classes
    rng = np.random.default_rng(shape)
    labels = (rng.integers(0, most, shape) * (rng.random(shape) < 0.5)).astype(kind)
    labels.flat[-1] = most - 1
    with pytest.MonkeyPatch.context() as patch:
        if not in_c:
            patch.setattr(cutting, "_functions", lambda: None)
        index = cutting.ClassIndex.of(labels[..., None] if channel else labels)
    numbers, counts = np.unique(labels, return_counts=True)
    assert index.present == dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    assert index.labels.dtype == (np.uint8 if most <= 256 else np.uint16)
    for number, count in index.present.items():
        found = [index.voxel(number, (n + 0.5) / count) for n in range(count)]
        assert found == [tuple(place) for place in np.argwhere(labels == number).tolist()]
    assert index.voxel(most - 1, np.nextafter(1, 0)) == tuple(n - 1 for n in shape)

    weights = labels.astype(np.float32)
    drawn = cutting.WeightIndex.of(weights[..., None] if channel else weights)
    ends = np.cumsum(weights.ravel(), dtype=np.float64)
    for draw in (0.0, *rng.random(5), np.nextafter(1, 0)):
        place = np.unravel_index(min(np.searchsorted(ends, draw * ends[-1], "right"), ends.size - 1), shape)
        assert drawn.voxel(draw) == tuple(map(int, place))
    assert cutting.WeightIndex.of(np.zeros(shape)).voxel(0.5) is None


@pytest.mark.parametrize(
    "numbers",
    [(-1, 0, 3), (0, 11101, 12175), (-40_000, 7), (0, 2**31), (-(2**40), 0, 2**62), (-128, 127), (5000,)],
)
def test_classes_may_have_any_numbers(numbers):
    rng = np.random.default_rng(0)
    for kind in ("i1", "i2", "i4", "i8"):
        if not all(np.iinfo(kind).min <= number <= np.iinfo(kind).max for number in numbers):
            continue
        labels = rng.choice(np.array(numbers, kind), (3, 4, 50))
        index = cutting.ClassIndex.of(labels)
        assert set(index.present) == set(labels.ravel().tolist())
        for number, count in index.present.items():
            found = [index.voxel(number, (n + 0.5) / count) for n in range(count)]
            assert found == [tuple(place) for place in np.argwhere(labels == number).tolist()]


def test_more_classes_than_can_be_counted_are_refused_by_the_name_of_their_file():
    labels = np.arange(70_000).reshape(1, 1, -1)
    with pytest.raises(UnreadableSourceError, match=r"a\.nii: there are 70,000 different labels"):
        cutting.ClassIndex.of(labels, "a.nii")
