"""Where volumes come from: URLs as paths, and headers that are read without voxels."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe.errors import SourceNotFoundError
from seqpipe.volume import VolumeReader, save
from tests.support.volumes import Watched

VALUES = np.random.default_rng(0).integers(-1000, 1000, (40, 64, 64, 1)).astype(np.int16)
VOLUME = seqpipe.Sequence(VALUES, "DHWC", affine=np.diag([-2.0, 1.0, 1.0, 1.0])[:, [2, 1, 0, 3]])
ENDINGS = (".nii", ".nii.gz", ".npy", ".npz")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("origins")
    for ending in ENDINGS:
        save(VOLUME, folder / f"v{ending}")
    return folder


@pytest.mark.parametrize("ending", ENDINGS)
def test_urls_open_as_paths_do(files, ending):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: it opens URLs")
    url = f"memory://origins/v{ending}"
    fsspec.filesystem("memory").pipe("/origins/v" + ending, (files / f"v{ending}").read_bytes())
    with seqpipe.open(url) as volume:
        assert isinstance(volume, VolumeReader)
        assert volume.info.source == url
        assert np.array_equal(volume[3:9, 5:60, 7:30].data, VALUES[3:9, 5:60, 7:30])
    with seqpipe.volumes(url, 8) as dataset:
        assert dataset.sample(0)["image"].shape == (8, 8, 8, 1)
    with pytest.raises(SourceNotFoundError, match="memory://origins/none"):
        seqpipe.open(f"memory://origins/none{ending}")


@pytest.mark.parametrize("ending", ENDINGS)
def test_opening_reads_no_voxels(files, ending):
    data = (files / f"v{ending}").read_bytes()
    assert len(data) > 200_000
    file = Watched(data)
    with VolumeReader(file) as volume:
        assert volume.shape == VALUES.shape
        assert volume.spacing_mm == ((1.0, 1.0, 2.0) if ending != ".npy" else (1.0, 1.0, 1.0))
        assert file.taken < 100_000
