"""The test files that pydicom's package holds: voxels, refusals and the medium with its DICOMDIR."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import seqpipe
from seqpipe.errors import SeqpipeError
from seqpipe.readers import published_volumes
from seqpipe.volume.formats.dicom_tree import list_series
from tests.support.volumes import needs

pydicom = needs("pydicom")

from pydicom.fileset import FileSet  # noqa: E402  after the check that it is installed

FOLDER = Path(pydicom.__file__).parent / "data/test_files"
USUAL = ("CT_small", "MR_small_RLE", "MR_truncated", "SC_rgb_rle_16bit_2frame", "rtdose", "rtplan")
INCONSISTENT = ("liver_1frame", "liver_expb_1frame")
"""One frame with the descriptions of three."""
FILES = [
    pytest.param(path, id=path.stem, marks=() if path.stem in USUAL else pytest.mark.deep)
    for path in sorted(FOLDER.glob("*.dcm"))
]


def _pixels(path):
    """The pixels by pydicom, or None if it refuses them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pydicom.dcmread(path, force=True).pixel_array
    except (AttributeError, ValueError, RuntimeError, NotImplementedError):
        return None


@pytest.mark.parametrize("path", FILES)
def test_voxels_are_those_of_pydicom_and_what_it_refuses_is_refused_by_name(path):
    wanted = None if path.stem in INCONSISTENT else _pixels(path)
    if wanted is None:
        with pytest.raises(SeqpipeError, match=path.name):
            seqpipe.open(path).sequence()
        return
    with seqpipe.open(path) as volume:
        np.testing.assert_array_equal(volume.sequence(stored=True).data.ravel(), wanted.ravel())


def test_the_medium_has_the_series_of_its_dicomdir():
    directory = FOLDER / "dicomdirtests/DICOMDIR"
    if not directory.is_file():
        pytest.skip("this version of pydicom has no medium")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = {}
        medium = FileSet(directory)
        for record in medium:
            wanted.setdefault(record.SeriesInstanceUID, set()).add(record.path)
        medium._stage["t"].cleanup()  # else it warns at the end
    found = list_series(str(directory))
    assert {series.uid: set(series.files) for series in found} == wanted
    assert {series.uid for series in list_series(str(FOLDER / "dicomdirtests"))} >= set(wanted)
    listed = published_volumes.dicom(directory)
    assert set(listed.subjects) == {series.patient for series in found if series.modality in ("CT", "MR")}
    assert len(listed.files) == sum(series.modality in ("CT", "MR") for series in found)
