"""One value of a voxel: readers, datasets, patches, pictures and files agree, for every slope and intercept."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

import seqpipe
from seqpipe import Grid, volume
from seqpipe.errors import ParameterError
from seqpipe.volume import VolumeReader, save
from tests.support.media import made, names
from tests.support.volumes import needs

# slope, intercept → dtype of the values of int16
SCALES = [
    (1.0, -1024.0, np.int32),
    (1.0, 0.0, np.int16),
    (2.0, 1.0, np.int32),
    (0.5, -3.0, np.float32),
    (-0.25, 7.5, np.float32),
    (1.0, 0.5, np.float32),
]


def _file(folder, scale):
    """Write int16 from 0 to 1999 with a scale in the header; return the file and nibabel's values ``DHWC``."""
    nibabel = needs("nibabel")
    stored = np.random.default_rng(0).integers(0, 2000, (20, 18, 16)).astype(np.int16)
    header = bytearray(nibabel.Nifti1Image(stored, np.eye(4)).header.binaryblock)
    header[108:120] = np.array([352, *scale], "<f4").tobytes()  # nibabel itself divides values by a slope
    path = folder / "v.nii.gz"
    path.write_bytes(gzip.compress(bytes(header) + bytes(4) + stored.tobytes(order="F"), 1))
    return path, nibabel.load(path).get_fdata().transpose(2, 1, 0)[..., None]


@pytest.mark.parametrize(("slope", "intercept", "dtype"), SCALES)
def test_every_door_gives_the_values_that_nibabel_gives(tmp_path, slope, intercept, dtype):
    path, meant = _file(tmp_path, (slope, intercept))
    with seqpipe.open(path) as reader:
        whole = reader.sequence()
        assert (whole.dtype, whole.scale) == (dtype, None)
        assert np.array_equal(whole.numpy(), meant)
        assert np.array_equal(reader[3:9, 2:7].data, meant[3:9, 2:7])
        assert np.array_equal(reader[4].data, meant[4])
        assert np.array_equal(reader.reorient("LPS").sequence().numpy(), volume.reorient(whole, "LPS").data)
        resampled = reader.resample(0.7).sequence()
        assert np.array_equal(resampled.data, volume.resample(whole, 0.7).data)
        assert np.array_equal(
            np.asarray(volume.to_nibabel(reader).dataobj)[..., None].transpose(2, 1, 0, 3), meant
        )
    for take, box in ((None, np.s_[:]), (Grid(8), np.s_[:8, :8, :8])):
        image = seqpipe.volumes(path, take).sample(0)["image"]
        assert np.array_equal(image.numpy(), meant[box])
        assert image.dtype == dtype


@pytest.mark.parametrize(("slope", "intercept", "dtype"), SCALES)
def test_stored_values_come_on_request_with_their_scale_and_give_the_same_values(
    tmp_path, slope, intercept, dtype
):
    path, meant = _file(tmp_path, (slope, intercept))
    with seqpipe.open(path, stored=True) as reader:
        found = reader.sequence()
        assert found.dtype == np.int16
        assert found.scale == (None if (slope, intercept) == (1, 0) else (slope, intercept))
        assert reader[2].scale == reader[2:4].scale == found.scale
        assert np.array_equal(found.scaled().data, meant)
        assert np.array_equal(reader.sequence(stored=False).data, meant)
    with VolumeReader(path) as reader:
        assert np.array_equal(reader.sequence(stored=True).data, found.data)


@pytest.mark.parametrize("ending", [".nii", ".nii.gz", ".npy", ".npz"])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(("slope", "intercept", "dtype"), SCALES)
def test_what_is_saved_is_read_again_with_the_same_values(tmp_path, ending, stored, slope, intercept, dtype):
    path, meant = _file(tmp_path, (slope, intercept))
    again = tmp_path / f"again{ending}"
    save(seqpipe.open(path, stored=stored).sequence(), again)
    found = seqpipe.open(again)
    assert np.array_equal(found.sequence().data, meant)
    kept = stored and ".nii" in ending and (slope, intercept) != (1, 0)
    assert found.info.scale == ((slope, intercept) if kept else None)
    assert found.info.dtype == (np.int16 if kept else dtype)


def test_the_identity_at_inference_is_the_volume(tmp_path):
    path, meant = _file(tmp_path, (1.0, -1024.0))
    grid = seqpipe.volumes(path, Grid(8, overlap=0.5)).batch(4)
    whole = seqpipe.Aggregate(grid, dtype=np.int16)
    ((_, found),) = [done for batch in grid for done in whole.add(batch, batch["image"])]
    assert np.array_equal(found.data, meant)


@pytest.mark.parametrize(
    ("stored", "scale", "dtype"),
    [
        (np.uint8, (1.0, -1024.0), np.int16),
        (np.uint16, (1.0, -1024.0), np.int32),
        (np.int32, (1.0, -1024.0), np.int64),
        (np.uint32, (1.0, 5.0), np.int64),
        (np.float32, (1.0, -1024.0), np.float32),
    ],
)
def test_integers_stay_exact_in_a_wider_type(stored, scale, dtype):
    top = 0.5 if np.dtype(stored).kind == "f" else np.iinfo(stored).max
    array = np.full((1, 2, 2, 1), top, stored)
    scaled = seqpipe.Sequence(array, "DHWC", scale=scale).scaled()
    assert scaled.dtype == dtype
    assert (scaled.data == type(top)(top + scale[1])).all()


def test_large_volumes_are_scaled_slice_by_slice_to_the_same_values():
    array = np.random.default_rng(1).integers(-3000, 3000, (9, 700, 600, 1)).astype(np.int16)
    for data in (array, array[:, ::-1].transpose(0, 2, 1, 3), array[None]):
        found = seqpipe.Sequence(data, "FDHWC" if data.ndim == 5 else "DHWC", scale=(0.37, -11.5)).scaled()
        assert np.array_equal(found.data, (data * 0.37 - 11.5).astype(np.float32))


def test_complex_values_keep_their_imaginary_part():
    array = np.array([1 + 2j, 3 - 1j], np.complex64).reshape(1, 1, 2, 1)
    found = seqpipe.Sequence(array, "DHWC", scale=(2.0, 1.0)).scaled()
    assert np.array_equal(found.data, array * 2 + 1)


def test_stored_is_for_volumes():
    with pytest.raises(ParameterError, match="series, key and stored are for volumes"):
        seqpipe.open(made(names()[0]), stored=True)
