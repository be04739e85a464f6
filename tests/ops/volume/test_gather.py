"""One gather: against SciPy, one-hot votes and Pillow, in NumPy and in C."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Picture
from scipy import ndimage
from scipy.spatial.transform import Rotation

from seqpipe.errors import ParameterError
from seqpipe.resampling import gather as module
from seqpipe.resampling.gather import gather
from seqpipe.resampling.mapping import FOLD_LIMIT, IDENTITY, Lattice, Mapping3, nodes_for

BOTH = pytest.mark.parametrize("reference", [False, True])


def matrix_of(angles, scale, size, shift=(0, 0, 0)):
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.from_euler("xyz", angles, degrees=True).as_matrix() * scale
    center = (np.array(size) - 1) / 2
    matrix[:3, 3] = center - matrix[:3, :3] @ center + shift
    return matrix


def field_of(rng, size, distance=6.0, share=FOLD_LIMIT):
    nodes = nodes_for(size, (distance,) * 3)
    control = rng.uniform(-1, 1, (*nodes, 3)) * share * distance
    return Lattice(control.astype(np.float32), (distance,) * 3)


@BOTH
@pytest.mark.parametrize(
    ("fill", "mode"), [(0.0, "grid-constant"), (3.5, "grid-constant"), (None, "nearest")]
)
@pytest.mark.parametrize(("interpolation", "order"), [("nearest", 0), ("linear", 1), ("bspline", 3)])
def test_an_affine_map_is_that_of_scipy(volume, interpolation, order, fill, mode, reference):
    matrix = matrix_of((20, -35, 10), (0.8, 1.3, 1.0), volume.shape, (0.3, -2, 1))
    found = gather(
        volume[..., None], Mapping3(volume.shape, matrix), interpolation, fill, reference=reference
    )
    judged = ndimage.affine_transform(
        volume, matrix[:3, :3], matrix[:3, 3], order=order, mode=mode, cval=fill or 0
    )
    assert np.abs(found[..., 0] - judged).max() <= 1e-4 * np.ptp(volume)


@BOTH
@pytest.mark.parametrize("post", [None, (0, 0, 0), (12, 5, -30)])
def test_an_elastic_field_is_that_of_scipy(volume, rng, post, reference):
    """SciPy's spline of the control points, each axis, is the field; map_coordinates reads by it."""
    lattice = field_of(rng, volume.shape)
    matrix = matrix_of((5, 10, -15), 1.1, volume.shape)
    mapping = Mapping3(volume.shape, matrix).warped(lattice)
    places = np.indices(volume.shape).astype(float)
    if post is not None:
        after = matrix_of(post, 0.9, volume.shape)
        mapping = mapping.then(after, volume.shape)
        places = np.tensordot(after[:3, :3], places, 1) + after[:3, 3, None, None, None]
    nodes = np.array(lattice.control.shape[:3])
    at = (places / 6.0).clip(0, (nodes - 3)[:, None, None, None]) + 1
    moved = places + [
        ndimage.map_coordinates(lattice.control[..., a], at, order=3, mode="nearest", prefilter=False)
        for a in range(3)
    ]
    read = np.tensordot(matrix[:3, :3], moved, 1) + matrix[:3, 3, None, None, None]
    judged = ndimage.map_coordinates(volume, read, order=1, mode="grid-constant")
    found = gather(volume[..., None], mapping, "linear", 0.0, reference=reference)[..., 0]
    assert np.abs(found - judged).max() <= 1e-3 * np.ptp(volume)


@BOTH
def test_the_vote_is_the_greatest_of_one_hot_images(blocks, reference):
    matrix = matrix_of((20, -35, 10), (0.8, 1.3, 1.0), blocks.shape)
    found = gather(blocks[..., None], Mapping3(blocks.shape, matrix), "vote", 0, reference=reference)[..., 0]
    scores = np.stack([
        ndimage.affine_transform(
            (blocks == label).astype(float), matrix[:3, :3], matrix[:3, 3], order=1,
            mode="grid-constant", cval=float(label == 0),
        )
        for label in range(7)
    ])  # fmt: skip
    best = scores.max(axis=0)
    own = np.take_along_axis(scores, found[None].astype(int), axis=0)[0]
    assert (own >= best - 1e-5).all(), "no other label is worth more"
    ties = (np.abs(scores - best) < 1e-5).sum(axis=0) > 1
    assert (found == scores.argmax(axis=0))[~ties].all()


@BOTH
def test_of_labels_worth_the_same_the_nearest_wins_then_the_smallest(reference):
    labels = np.array([5, 2, 2, 5], np.uint8).reshape(1, 1, 4, 1)
    shift = IDENTITY.copy()
    shift[2, 3] = 0.5
    found = gather(labels, Mapping3((1, 1, 3), shift), "vote", None, reference=reference)
    assert found.ravel().tolist() == [2, 2, 5], "the voxel at 0.5 is nearest to the one behind it"
    corners = np.array([[3, 1], [1, 3]], np.int32).reshape(1, 2, 2, 1)
    shift[1, 3] = 0.5
    found = gather(corners, Mapping3((1, 1, 1), shift), "vote", None, reference=reference)
    assert found.item() == 3


@pytest.mark.parametrize("scale", [2 / 3, 4 / 3, 0.6])
def test_rounding_decides_no_vote(rng, scale):
    """Places at thirds and fifths make many sums of weights equal, but for the last bits."""
    labels = rng.integers(0, 4, (16, 20, 24, 1)).astype(np.uint8)
    mapping = Mapping3((23, 29, 35), matrix_of((0, 0, 0), scale, (16, 20, 24), (1 / 3, 0, 0.2)))
    found = gather(labels, mapping, "vote", 0)
    assert np.array_equal(found, gather(labels, mapping, "vote", 0, reference=True))


@pytest.mark.parametrize("interpolation", ["vote", "nearest"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "int32", "int64"])
def test_labels_are_alike_in_c_and_numpy(blocks, rng, interpolation, dtype):
    mapping = Mapping3(blocks.shape, matrix_of((3, 4, 50), 0.7, blocks.shape)).warped(
        field_of(rng, blocks.shape)
    )
    labels = blocks[..., None].astype(dtype)
    for fill in (0, None):
        found = gather(labels, mapping, interpolation, fill)
        judged = gather(labels, mapping, interpolation, fill, reference=True)
        assert found.dtype == labels.dtype
        assert (found != judged).mean() < 1e-3, "but for places that rounding moves"
        assert set(np.unique(found)) <= set(np.unique(labels)) | {0}


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "uint16", "int16", "float16", "int32", "float32", "float64"]
)
@pytest.mark.parametrize("interpolation", ["linear", "cubic"])
def test_images_are_alike_in_c_and_numpy(volume, rng, interpolation, dtype):
    high = {"uint8": 255, "int8": 127, "float16": 8}.get(dtype, 9000)
    values = ((volume - volume.min()) / np.ptp(volume) * high).astype(dtype)
    both = np.stack([values, values[::-1]], axis=-1)
    mapping = Mapping3(volume.shape, matrix_of((3, 40, 50), 0.7, volume.shape)).warped(
        field_of(rng, volume.shape)
    )
    for fill in (0.0, None):
        found = gather(both, mapping, interpolation, fill)
        judged = gather(both, mapping, interpolation, fill, reference=True)
        assert found.dtype == both.dtype
        off = np.abs(found.astype(float) - judged.astype(float)).max()
        assert off <= (1 if values.dtype.kind in "iu" else 1e-3 * high)


def test_cubic_is_the_bicubic_of_pillow(rng):
    picture = rng.random((12, 14)).astype(np.float32)
    judged = np.asarray(Picture.fromarray(picture).resize((28, 24), Picture.Resampling.BICUBIC))
    matrix = np.diag([1, 0.5, 0.5, 1.0])
    matrix[1:3, 3] = -0.25
    found = gather(picture[None, ..., None], Mapping3((1, 24, 28), matrix), "cubic", None)[0, ..., 0]
    assert np.abs(found - judged)[4:-4, 4:-4].max() < 1e-5


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "int32"])
@pytest.mark.parametrize("planar", [False, True])
def test_a_spline_of_every_type_and_order_of_axes_is_that_of_scipy(rng, dtype, planar):
    values = (rng.random((9, 10, 11, 2)) * 100).astype(dtype)
    given = np.moveaxis(np.ascontiguousarray(np.moveaxis(values, 3, 0)), 0, 3) if planar else values
    matrix = matrix_of((10, 20, -15), 0.9, values.shape[:3])
    found = gather(given, Mapping3((8, 9, 10), matrix), "bspline", 5.0)
    assert found.dtype == dtype
    assert np.moveaxis(found, 3, 0).flags.c_contiguous == planar
    for channel in range(2):
        judged = ndimage.affine_transform(
            values[..., channel].astype(float), matrix[:3, :3], matrix[:3, 3], output_shape=(8, 9, 10),
            order=3, mode="grid-constant", cval=5.0,
        )  # fmt: skip
        if dtype[0] != "f":
            info = np.iinfo(dtype)
            assert np.abs(found[..., channel] - judged.round().clip(info.min, info.max)).max() <= 1
        assert np.abs(found[..., channel] - judged.clip(0 if dtype == "uint8" else None)).max() <= (
            1e-3 if dtype[0] == "f" else 0.51
        )


@pytest.mark.parametrize("fill", [3.0, None])
def test_voxels_of_slices_read_eight_at_a_time_are_those_read_one_by_one(rng, fill):
    """To the last bit: of one channel rows lie close together, of two they do not."""
    values = rng.random((40, 61, 67, 2)).astype(np.float32)
    for matrix in (
        matrix_of((20, 0, 0), 0.8, values.shape[:3]),
        matrix_of((100, 0, 0), 1.7, values.shape[:3]),
    ):
        matrix[0] = [1, 0, 0, -2]
        mapping = Mapping3(values.shape[:3], matrix)
        assert mapping.in_plane
        both = gather(values, mapping, "linear", fill)
        for channel in range(2):
            alone = gather(np.ascontiguousarray(values[..., channel, None]), mapping, "linear", fill)
            assert np.array_equal(alone[..., 0], both[..., channel])


@pytest.mark.parametrize("fill", [0.0, 2.0, None])
@pytest.mark.parametrize("flip", [False, True])
def test_slices_that_stay_are_read_by_one_table(volume, rng, fill, flip):
    volume = np.ascontiguousarray(volume[:8, :13, :14])
    matrix = matrix_of((20, 0, 0), 1.0, volume.shape)
    matrix[0] = [-1, 0, 0, volume.shape[0] + 1] if flip else [1, 0, 0, -2]
    control = field_of(rng, volume.shape).control.copy()
    control[..., 0], control[...] = 0, control[:1] * [0, 1, 1]
    for mapping in (
        Mapping3(volume.shape, matrix),
        Mapping3(volume.shape, matrix).warped(Lattice(control, (6.0,) * 3)),
    ):
        assert mapping.in_plane
        for values in (volume, (volume * 30).astype(np.int16)):
            found = gather(values[..., None], mapping, "linear", fill)
            judged = gather(values[..., None], mapping, "linear", fill, reference=True)
            assert np.abs(found - judged).max() <= (1 if values.dtype == np.int16 else 1e-4)
    apart = Mapping3(volume.shape, matrix @ np.diag([1, 1, 1, 1.0]))
    object.__setattr__(apart, "pre", matrix + np.array([[0, 0, 0, 1e-6]] + [[0] * 4] * 3))
    assert not apart.in_plane
    near = gather(volume[..., None], apart, "linear", fill)
    same = gather(volume[..., None], Mapping3(volume.shape, matrix), "linear", fill)
    assert np.abs(near - same).max() < 1e-4, "flattened slices are the same volume"


@given(
    st.permutations(range(3)),
    st.tuples(*[st.booleans()] * 3),
    st.tuples(*[st.integers(-3, 6)] * 3),
    st.booleans(),
)
def test_voxels_that_change_places_are_copied(order, flips, shift, edge):
    values = np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6, 1)
    matrix = np.zeros((4, 4))
    for r, axis in enumerate(order):
        matrix[r, axis] = -1 if flips[r] else 1
        matrix[r, 3] = shift[r]
    matrix[3, 3] = 1
    mapping = Mapping3((4, 3, 5), matrix)
    assert mapping.permutation is not None
    fill = None if edge else -1
    found = gather(values, mapping, "linear", fill)
    assert (found == gather(values, mapping, "nearest", fill, positions=_all(mapping))).all()


def _all(mapping):
    return mapping.positions(np.moveaxis(np.indices(mapping.size, float), 0, -1)).astype(np.float32)


def test_without_a_compiler_it_is_the_reference(volume, monkeypatch):
    mapping = Mapping3(volume.shape, matrix_of((3, 4, 50), 0.7, volume.shape))
    judged = gather(volume[..., None], mapping, "linear", 0.0, reference=True)
    monkeypatch.setattr(module, "_in_c", lambda _: None)
    assert (gather(volume[..., None], mapping, "linear", 0.0) == judged).all()


def test_points_go_where_voxels_go(volume, rng):
    mapping = Mapping3(volume.shape, matrix_of((3, 40, 50), 0.7, volume.shape)).warped(
        field_of(rng, volume.shape)
    )
    mapping = mapping.then(matrix_of((9, 0, 3), 1.2, volume.shape), volume.shape)
    points = rng.uniform(2, 16, (200, 3))
    assert np.abs(mapping.positions(mapping.points(points)) - points).max() < 1e-6


def test_the_greatest_amplitude_does_not_fold(rng):
    """The least determinant over many places of fields whose points move as far as is allowed, to all sides."""
    size = (25, 25, 25)
    for _ in range(4):
        nodes = nodes_for(size, (6.0,) * 3)
        control = rng.choice([-1.0, 1.0], (*nodes, 3)) * FOLD_LIMIT * 6.0
        lattice = Lattice(control.astype(np.float32), (6.0,) * 3)
        assert np.linalg.det(lattice.jacobian(rng.uniform(0, 24, (4000, 3)))).min() > 0


def test_errors_name_the_operator():
    from seqpipe.ops import Elastic3d
    from seqpipe.sequence import Sequence

    volume = Sequence(np.zeros((8, 8, 8), np.float32), "DHW", affine=np.diag([2.0, 1, 1, 1]))
    with pytest.raises(
        ParameterError,
        match=r"elastic3d: amplitude_mm=5 with control points 8 mm apart could fold; allowed: up to 3.2 mm",
    ):
        Elastic3d(spacing_mm=8.0, amplitude_mm=5.0)(volume)
