"""Windows of files: the right voxels, and of what is not compressed no more of the file than they need."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seqpipe
from seqpipe.errors import DamagedSourceError
from seqpipe.volume import VolumeReader
from tests.support.volumes import Watched, needs

SHAPES = {3: (7, 6, 5), 4: (3, 7, 6, 5), 5: (2, 3, 7, 6, 5)}  # of the stored array, the slowest axis first


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """NIfTI files of three, four and five axes, by the number of axes, with their arrays ``FDHWC``."""
    nibabel = needs("nibabel")
    folder, found = tmp_path_factory.mktemp("raw"), {}
    for axes, shape in SHAPES.items():
        array = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
        nibabel.save(nibabel.Nifti1Image(array.T, np.eye(4)), folder / f"{axes}.nii")
        full = array.reshape((1,) * (5 - axes) + shape)
        found[axes] = folder / f"{axes}.nii", np.moveaxis(full, 0, -1)
    return found


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_windows_are_those_of_the_array(files, data):
    path, array = files[data.draw(st.sampled_from(sorted(SHAPES)))]
    ends = [sorted(data.draw(st.sets(st.integers(0, n), min_size=2, max_size=2))) for n in array.shape[1:4]]
    box = tuple(slice(a, b) for a, b in ends)
    raw = path.read_bytes()
    origin = data.draw(st.sampled_from([path, raw, gzip.compress(raw)]))
    with VolumeReader(origin) as reader:
        window = reader[box]
        series = reader.info.layout == "FDHWC"
        expected = array[(slice(None), *box)]
        assert np.array_equal(window.data, expected if series else expected[0])
        assert window.data.flags.writeable
        if series:
            times = data.draw(st.lists(st.integers(0, len(array) - 1), min_size=1, max_size=4))
            assert np.array_equal(reader.sequence(times=times).data, array[times])


@pytest.mark.parametrize("ending", [".nii", ".npy", ".nrrd", ".mha"])
def test_a_window_reads_its_rows_alone(files, tmp_path, ending):
    path, array = files[3]
    if ending == ".npy":
        np.save(path := tmp_path / "v.npy", array[0, ..., 0])
    elif ending == ".nrrd":
        path = tmp_path / "v.nrrd"
        needs("nrrd").write(str(path), array[0, ..., 0].T, {"encoding": "raw"})
    elif ending == ".mha":
        sitk, path = needs("SimpleITK"), tmp_path / "v.mha"
        sitk.WriteImage(sitk.GetImageFromArray(array[0, ..., 0]), str(path), useCompression=False)
    file = Watched(path.read_bytes())
    with VolumeReader(file) as reader:
        before = file.taken
        window = reader[2:4, 1:3, 0:5]
        assert np.array_equal(window.data[..., 0], array[0, 2:4, 1:3, 0:5, 0])
        assert file.taken - before == 2 * 2 * 5 * 2


@pytest.mark.parametrize("ome", [True, False])
def test_a_window_of_zarr_reads_its_chunks_alone(tmp_path, ome):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed: it reads Zarr arrays")
    array = np.arange(8 * 12 * 10, dtype=np.int16).reshape(8, 12, 10)
    attributes = {}
    if ome:
        axes = [{"name": name, "type": "space", "unit": "millimeter"} for name in "zyx"]
        change = [{"type": "scale", "scale": [2.0, 1.0, 0.5]}]
        levels = [{"path": "0", "coordinateTransformations": change}]
        attributes = {"multiscales": [{"version": "0.4", "axes": axes, "datasets": levels}]}
    group = zarr.create_group(tmp_path / "v.zarr", zarr_format=2, attributes=attributes)
    group.create_array("0", data=array, chunks=(4, 6, 5))
    chunks = sorted((tmp_path / "v.zarr/0").glob("[0-9]*"))
    assert len(chunks) == 8
    for chunk in chunks:
        if chunk.name != "0.1.1":
            chunk.write_bytes(b"not a chunk")
    with VolumeReader(tmp_path / "v.zarr") as reader:
        assert reader.spacing_mm == ((2.0, 1.0, 0.5) if ome else (1.0, 1.0, 1.0))
        assert np.array_equal(reader[1:3, 7:12, 6:9].data[..., 0], array[1:3, 7:12, 6:9])
        with pytest.raises(DamagedSourceError, match="voxels cannot be read"):
            reader[1:3, 5:12, 6:9]


def test_a_file_that_was_cut_after_it_was_opened_is_damaged(tmp_path):
    path = tmp_path / "cut.nii"
    seqpipe.volume.save(
        seqpipe.Sequence(np.ones((6, 5, 4, 1), np.int16), "DHWC", affine=np.eye(4)[:, [2, 1, 0, 3]]), path
    )
    with VolumeReader(path) as reader:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - 10)
        assert reader[0:3, 0:2, 0:4].shape == (3, 2, 4, 1)
        with pytest.raises(DamagedSourceError, match="the file is 10 bytes too short"):
            reader[3:6, 2:5, 0:4]
        with pytest.raises(DamagedSourceError, match="the file is 10 bytes too short"):
            reader.sequence()
