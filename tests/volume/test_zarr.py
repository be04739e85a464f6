"""Zarr arrays and OME-Zarr images: axes in any order, steps and units, windows and times, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqpipe
from seqpipe.errors import DamagedSourceError, UnreadableSourceError
from tests.support.volumes import needs

zarr = needs("zarr")

SIZES = {"t": 3, "c": 2, "z": 4, "y": 6, "x": 5}
LETTERS = dict(zip("tczyx", "FCDHW", strict=True))
UNITS = {
    "millimeter": 1.0,
    "micrometer": 1e-3,
    "nanometer": 1e-6,
    "centimeter": 10.0,
    "meter": 1e3,
    None: 1.0,
}


def _group(folder, image, arrays, ome=False):
    attributes = {"multiscales": [image]}
    group = zarr.create_group(
        folder, zarr_format=3 if ome else 2, attributes={"ome": attributes} if ome else attributes
    )
    for name, array in arrays.items():
        group.create_array(name, data=array, chunks=tuple(max(1, n // 2) for n in array.shape))
    return folder


@settings(max_examples=12)
@given(st.data())
def test_images_of_any_axes_lie_where_their_steps_put_them(tmp_path_factory, data):
    kept = data.draw(st.sets(st.sampled_from("tcz")))
    axes = data.draw(st.permutations([*kept, "y", "x"]))
    unit = data.draw(st.sampled_from([*UNITS]))
    numbers = st.sampled_from([0.5, 2.0, 3.0])
    steps, more, places = (np.array([data.draw(numbers) for _ in axes]) for _ in range(3))
    array = np.random.default_rng(len(axes)).integers(0, 99, [SIZES[a] for a in axes]).astype(np.int16)
    named = [{"name": a.upper()} | ({"unit": unit} if unit and a in "xyz" else {}) for a in axes]
    changes = [{"type": "scale", "scale": [*steps]}, {"type": "translation", "translation": [*places]}]
    image = {
        "axes": [*axes] if unit is None and data.draw(st.booleans()) else named,
        "datasets": [{"path": "0", "coordinateTransformations": changes}],
        "coordinateTransformations": [{"type": "scale", "scale": [*more]}],
    }
    folder = tmp_path_factory.mktemp("zarr") / "v.zarr"
    with seqpipe.open(_group(folder, image, {"0": array}, ome=data.draw(st.booleans()))) as volume:
        full = array.transpose([axes.index(a) for a in "tzyxc" if a in axes])
        for place, a in enumerate("tzyxc"):
            full = full if a in axes or a == "t" else np.expand_dims(full, place - ("t" not in axes))
        assert volume.info.layout == ("FDHWC" if "t" in axes else "DHWC")
        assert np.array_equal(volume.sequence().data, full)
        window = np.s_[..., :1, 2:5, 1:4, :]
        assert np.array_equal(volume[:1, 2:5, 1:4].data, full[window])
        if "t" in axes:
            assert np.array_equal(volume.sequence(times=[2, 0, 2]).data, full[[2, 0, 2]])
            assert np.array_equal(volume.sequence(times=[1]).data, full[[1]])
        affine = np.diag([-1.0, -1.0, 1.0, 1.0])
        for row, a in enumerate("xyz"):
            step, shift = (steps * more, places * more) if a in axes else (np.ones(5), np.zeros(5))
            at = axes.index(a) if a in axes else 0
            column = np.eye(3)[2 - row] * (step[at] * (UNITS[unit] if a in axes else 1))
            affine[row] = (1 if a == "z" else -1) * np.array([*column, shift[at] * UNITS[unit]])
        np.testing.assert_allclose(volume.affine, affine)
        assert volume.info.space == "ome-zarr"
        assert any("has the unit None: mm is assumed" in note for note in volume.info.notes) == (
            unit is None or "z" not in axes
        )


def test_an_unknown_unit_is_said_and_read_as_mm(tmp_path):
    image = {"axes": [{"name": a, "unit": "parsec"} for a in "zyx"], "datasets": [{"path": "0"}]}
    with seqpipe.open(_group(tmp_path / "v.zarr", image, {"0": np.zeros((4, 6, 5))})) as volume:
        assert volume.spacing_mm == (1, 1, 1)
        assert "x has the unit 'parsec': mm is assumed" in volume.info.notes


def test_a_level_has_its_own_step(tmp_path):
    levels = [
        {"path": str(n), "coordinateTransformations": [{"type": "scale", "scale": [2.0**n] * 3}]}
        for n in range(2)
    ]
    arrays = {"0": np.zeros((4, 6, 8), np.int16), "1": np.ones((2, 3, 4), np.int16)}
    path = _group(tmp_path / "v.zarr", {"axes": [*"zyx"], "datasets": levels}, arrays)
    for key, n in ((None, 0), ("0", 0), ("1", 1)):
        with seqpipe.open(path, key=key) as volume:
            assert volume.spacing_mm == (2.0**n,) * 3
            assert (volume.sequence().data == n).all()


def test_plain_groups_and_truth_values(tmp_path):
    group = zarr.create_group(tmp_path / "v.zarr")
    array = np.random.default_rng(0).random((3, 4, 5)) < 0.5
    group.create_array("only", data=array)
    with seqpipe.open(tmp_path / "v.zarr") as volume:
        found = volume.sequence().data
        assert found.dtype == np.uint8
        assert np.array_equal(found[..., 0], array)
    group.create_array("other", data=array)
    with pytest.raises(UnreadableSourceError, match="the group has 2 arrays; allowed: only, other"):
        seqpipe.open(tmp_path / "v.zarr")
    with pytest.raises(UnreadableSourceError, match="the group has no array 'third'; allowed: only, other"):
        seqpipe.open(tmp_path / "v.zarr", key="third")
    with seqpipe.open(tmp_path / "v.zarr", key="other") as volume:
        assert volume.info.header["path"] == "other"


@pytest.mark.parametrize(
    ("axes", "array", "said"),
    [
        ([*"zyq"], np.zeros((3, 4, 5)), r"the axes are \['z', 'y', 'q'\]; allowed: t, c, z, y, x"),
        ([*"yx"], np.zeros((3, 4, 5)), r"the axes are \['y', 'x'\]"),
        ([*"yyx"], np.zeros((3, 4, 5)), r"the axes are \['y', 'y', 'x'\]"),
        (None, np.zeros((3, 4, 5), "M8[s]"), r"the array has the dtype datetime64\[s\]; allowed: numbers"),
        (None, np.zeros(3), "the array has 1 axes"),
    ],
)
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_axes_and_types_that_are_refused(tmp_path, axes, array, said):
    image = {"datasets": [{"path": "0"}]} | ({"axes": axes} if axes else {})
    with pytest.raises(UnreadableSourceError, match=said):
        seqpipe.open(_group(tmp_path / "v.zarr", image, {"0": array}))


def test_what_is_no_zarr_and_a_chunk_that_is_damaged(tmp_path):
    (tmp_path / "v.zarr").mkdir()
    with pytest.raises(UnreadableSourceError, match="zarr cannot open it"):
        seqpipe.open(tmp_path / "v.zarr")
    array = np.random.default_rng(0).integers(0, 99, (4, 6, 8)).astype(np.int16)
    path = _group(tmp_path / "w.zarr", {"axes": [*"zyx"], "datasets": [{"path": "0"}]}, {"0": array})
    chunk = next(p for p in sorted((path / "0").rglob("*")) if p.is_file() and not p.name.startswith("."))
    chunk.write_bytes(chunk.read_bytes()[:9])
    with seqpipe.open(path) as volume, pytest.raises(DamagedSourceError, match="voxels cannot be read"):
        volume.sequence()
