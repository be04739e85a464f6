"""Large arrays of NumPy files are mapped: results are the user's own, and equal those of arrays that are read."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe.dali import fn, types
from seqpipe.errors import UnreadableSourceError
from tests.dali.conftest import run

SHAPE = (70, 60, 80)


@pytest.fixture(params=["float32", "int16", "uint8", "float64", ">f4", "F"])
def volumes(request, tmp_path):
    """Two files of more than 1 MiB, and their arrays in native byte order."""
    kind = "float32" if request.param == "F" else request.param
    arrays = []
    for number in range(2):
        values = (np.random.default_rng(number).random((*SHAPE, 4)) * 200).astype(kind)
        values = np.asfortranarray(values) if request.param == "F" else values
        np.save(tmp_path / f"{number}.npy", values)
        arrays.append(values.astype(values.dtype.newbyteorder("=")))
    return [str(tmp_path / f"{number}.npy") for number in range(2)], arrays


def outputs(program):
    return run(program, batch_size=2)[0]


def test_whole_arrays_belong_to_the_user(volumes):
    files, arrays = volumes
    (found,) = outputs(lambda: fn.readers.numpy(files=files))
    assert found.is_dense_tensor()
    for n, wanted in enumerate(arrays):
        assert (found.at(n) == wanted).all()
        found.at(n)[...] = 0  # writable
    assert (np.load(files[0]) == arrays[0]).all()


def test_windows_and_flips(volumes):
    files, arrays = volumes

    def program():
        x = fn.reinterpret(fn.readers.numpy(files=files), layout="DHWC")
        x = fn.crop(x, crop=(20, 30, 40), crop_pos_z=0.0, crop_pos_y=1.0, crop_pos_x=0.5)
        flip = fn.flip(x, horizontal=1, vertical=fn.external_source(lambda: np.int32([0, 1])), depthwise=1)
        return x, flip, fn.flip(x, horizontal=1), fn.slice(x, start=[3], shape=[5], axes=[0]), x[2:4]

    cut, deep, flat, sliced, part = outputs(program)
    for n, whole in enumerate(arrays):
        wanted = whole[:20, 30:, 20:60]
        assert (cut.at(n) == wanted).all()
        assert (deep.at(n) == wanted[::-1, :: -1 if n else 1, ::-1]).all()
        assert (flat.at(n) == wanted[:, :, ::-1]).all()
        assert (sliced.at(n) == wanted[3:8]).all()
        assert (part.at(n) == wanted[2:4]).all()


def test_other_operators(volumes):
    files, arrays = volumes

    def program():
        x = fn.readers.numpy(files=files)
        writable = fn.python_function(x, function=lambda one: np.array(one.flags.writeable))
        region = fn.readers.numpy(files=files, roi_start=[3, 4], roi_shape=[5, 6], roi_axes=[0, 1])
        return (
            writable,
            fn.transpose(x, perm=[1, 0, 2, 3]),
            x + 1,
            fn.reductions.max(x),
            region,
            fn.cast(x, dtype=types.INT64),
        )

    writable, turned, more, largest, region, whole = outputs(program)
    for n, wanted in enumerate(arrays):
        assert writable.at(n)
        assert (turned.at(n) == wanted.transpose(1, 0, 2, 3)).all()
        assert np.allclose(more.at(n), wanted.astype(float) + 1)
        assert largest.at(n) == wanted.max()
        assert (region.at(n) == wanted[3:8, 4:10]).all()
        assert whole.at(n).shape == wanted.shape


def test_reading_without_a_map(volumes):
    files, arrays = volumes
    (found,) = outputs(lambda: fn.readers.numpy(files=files, dont_use_mmap=True))
    assert (found.at(1) == arrays[1]).all()


def test_a_cut_file(tmp_path):
    path = tmp_path / "cut.npy"
    np.save(path, np.zeros((100, 100, 100)))
    path.write_bytes(path.read_bytes()[:2_000_000])
    with pytest.raises(
        UnreadableSourceError, match=r"the header promises 8,000,128 bytes, but the file has 2,000,000"
    ):
        run(lambda: fn.readers.numpy(files=[str(path)]))
