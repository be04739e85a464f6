"""Windows of files that are not compressed: the right voxels, and no more of the file than they need."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seqpipe
from seqpipe.errors import DamagedSourceError
from seqpipe.volume import VolumeReader
from tests.support.volumes import needs

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
    origin = data.draw(st.sampled_from([path, path.read_bytes()]))
    with VolumeReader(origin) as reader:
        window = reader[box]
        series = reader.info.layout == "FDHWC"
        expected = array[(slice(None), *box)]
        assert np.array_equal(window.data, expected if series else expected[0])
        assert window.data.flags.writeable
        if series:
            times = data.draw(st.lists(st.integers(0, len(array) - 1), min_size=1, max_size=4))
            assert np.array_equal(reader.sequence(times=times).data, array[times])


def test_a_window_reads_its_rows_alone(files):
    path, array = files[3]

    class Watched(io.BytesIO):
        taken = 0

        def read(self, size=-1):
            data = super().read(size)
            self.taken += len(data)
            return data

    file = Watched(path.read_bytes())
    with VolumeReader(file) as reader:
        before = file.taken
        window = reader[2:4, 1:3, 0:5]
        assert np.array_equal(window.data[..., 0], array[0, 2:4, 1:3, 0:5, 0])
        assert file.taken - before == 2 * 2 * 5 * 2


def test_a_file_that_was_cut_after_it_was_opened_is_damaged(tmp_path):
    path = tmp_path / "cut.nii"
    seqpipe.volume.save(
        seqpipe.Sequence(np.ones((6, 5, 4, 1), np.int16), "DHWC", affine=np.eye(4)[:, [2, 1, 0, 3]]), path
    )
    with VolumeReader(path) as reader:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - 10)
        assert reader[0:3, 0:2, 0:4].shape == (3, 2, 4, 1)
        with pytest.raises(DamagedSourceError, match="the file ends 10 bytes too early"):
            reader[3:6, 2:5, 0:4]
        with pytest.raises(DamagedSourceError, match="the file ends 10 bytes too early"):
            reader.sequence()
