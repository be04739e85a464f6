"""Zarr arrays and OME-Zarr images: axes in any order, steps and units, windows and times, and what is refused."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqpipe
from seqpipe.errors import DamagedSourceError, UnreadableSourceError
from tests.support.volumes import needs

zarr, numcodecs = needs("zarr"), needs("numcodecs")

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


CODECS = zarr.codecs
CHECKED = {
    "v2, CRC32": {"zarr_format": 2, "filters": [numcodecs.CRC32()], "compressors": None},
    "v2, Adler-32": {"zarr_format": 2, "filters": [numcodecs.Adler32()], "compressors": None},
    "v2, Zlib": {"zarr_format": 2, "compressors": numcodecs.Zlib()},
    "CRC32C": {"compressors": [CODECS.Crc32cCodec()]},
    "shards of CRC32C": {"shards": (4, 5, 6), "compressors": [CODECS.Crc32cCodec()]},
    "Zstandard": {"compressors": [CODECS.ZstdCodec(checksum=True)]},
}
UNCHECKED = {
    "plain": {"compressors": None},
    "v2, Blosc": {"zarr_format": 2, "compressors": numcodecs.Blosc()},
    "Blosc": {"compressors": [CODECS.BloscCodec()]},
    "shards": {"shards": (4, 5, 6), "compressors": None},
    "shards of Blosc": {"shards": (4, 5, 6), "compressors": [CODECS.BloscCodec()]},
}
BEGIN_WITH_INDEX = {
    "shards": {"shape": (4, 5, 6), "index_location": "start"},
    "compressors": [CODECS.BloscCodec()],
}


def _chunk_of(folder, options):
    """A small array with the fill value 99, and the file of its first chunk or shard."""
    values = np.random.default_rng(0).integers(0, 50, (4, 5, 6)).astype(np.int16)
    options = {"zarr_format": 3, **options}
    array = zarr.create_array(
        folder, shape=values.shape, dtype="i2", chunks=(2, 5, 3), fill_value=99, **options
    )
    array[:] = values
    return values, min(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith((".", "zarr")))


def _read(folder, *, part=False):
    with seqpipe.open(folder) as volume:
        return (volume[:2, :, :2] if part else volume.sequence()).data[..., 0]


@pytest.mark.parametrize(
    ("form", "part"),
    [(form, False) for form in [*CHECKED, *UNCHECKED]] + [("shards", True), ("shards of Blosc", True)],
)
def test_a_truncated_chunk_is_an_error_and_a_missing_one_the_fill_value(form, part, tmp_path):
    values, chunk = _chunk_of(tmp_path / "v.zarr", CHECKED.get(form) or UNCHECKED[form])
    whole = chunk.read_bytes()
    for length in {0, 1, 15, *range(16, len(whole), max(1, len(whole) // 5)), len(whole) - 1}:
        chunk.write_bytes(whole[:length])
        with pytest.raises(DamagedSourceError, match=r"v\.zarr: voxels cannot be read \("):
            _read(tmp_path / "v.zarr", part=part)
    chunk.unlink()
    found = _read(tmp_path / "v.zarr", part=part)
    sound = values[:2, :, :2] if part else values
    assert (found[:2, :, :2] == 99).all()
    assert ((found == sound) | (found == 99)).all()


@pytest.mark.parametrize("form", CHECKED)
def test_a_flipped_bit_of_a_chunk_with_a_checksum_is_never_given_as_voxels(form, tmp_path):
    values, chunk = _chunk_of(tmp_path / "v.zarr", CHECKED[form])
    whole = chunk.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 12)):
        chunk.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with contextlib.suppress(DamagedSourceError):
            assert np.array_equal(_read(tmp_path / "v.zarr"), values), "a bit that no decoder reads"


def test_a_truncated_shard_that_begins_with_its_index_is_an_error_where_a_chunk_is_lost(tmp_path):
    values, chunk = _chunk_of(tmp_path / "v.zarr", BEGIN_WITH_INDEX)
    chunk.write_bytes(chunk.read_bytes()[:-1])
    for window in (np.s_[:, :, :], np.s_[2:, :, 3:]):
        with (
            seqpipe.open(tmp_path / "v.zarr") as volume,
            pytest.raises(DamagedSourceError, match="truncated"),
        ):
            volume[window]
    assert np.array_equal(_read(tmp_path / "v.zarr", part=True), values[:2, :, :2])
