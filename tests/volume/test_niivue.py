"""The widget of ipyniivue, or a stand-in where it is not installed: what it is given of volumes and labels."""

from __future__ import annotations

import importlib.util
import sys
from types import SimpleNamespace

import nibabel
import numpy as np
import pytest

import seqpipe
from seqpipe.errors import BackendError, ParameterError
from seqpipe.parts import Labels, Points, Sample
from seqpipe.volume.space import in_file_order

AFFINE = np.array([[0, 0, -1.5, 10], [0, -1.25, 0, 20], [2.0, 0, 0, -30], [0, 0, 0, 1]])


class Volume(SimpleNamespace):
    def set_colormap_label(self, colors):
        self.colors = colors


class NiiVue(SimpleNamespace):
    def load_volumes(self, volumes):
        self.volumes = volumes


@pytest.fixture(params=["real", "stand-in"])
def library(request, monkeypatch):
    if request.param == "stand-in":
        monkeypatch.setitem(sys.modules, "ipyniivue", SimpleNamespace(Volume=Volume, NiiVue=NiiVue))
    elif importlib.util.find_spec("ipyniivue") is None:
        pytest.skip("ipyniivue is not installed")
    return request.param


def sample():
    values = np.arange(210, dtype=np.int16).reshape(5, 6, 7, 1)
    labels = (values % 4 == 1).astype(np.uint8) * 9
    parts = {
        "image": seqpipe.Sequence(values, "DHWC", affine=AFFINE, scale=(0.5, 3.0)),
        "label": Labels(seqpipe.Sequence(labels, "DHWC", affine=AFFINE)),
        "tip": Points([[1.0, 2.0, 3.0]]),
    }
    return Sample(parts)


def test_a_sample_has_its_voxels_its_place_and_its_labels_above(library):
    found = sample()
    image, label = found.show("niivue", names={9: "liver"}, opacity=0.3, height=200).volumes
    assert (image.name, label.name, label.opacity) == ("image.nii", "label.nii", 0.3)
    for volume, part in ((image, found["image"]), (label, found["label"].data)):
        read = nibabel.Nifti1Image.from_bytes(volume.data)
        assert np.array_equal(read.get_fdata(), part.scaled().numpy()[..., 0].transpose(2, 1, 0))
        assert np.allclose(read.affine, in_file_order(AFFINE))
    assert 3 <= image.cal_min < image.cal_max <= 108
    if library == "stand-in":
        assert label.colors["I"] == [0, 9]
        assert label.colors["A"] == [0, 255]
        assert label.colors["labels"] == ["", "liver"]
    else:
        table = label.colormap_label
        lut = np.array(table.lut).reshape(-1, 4)
        at = {int(table.min) + row: lut[row] for row in range(len(lut))}
        assert (at[0][3], at[9][3] > 0) == (0, True)


def test_one_volume_and_what_is_none(library):
    (one,) = sample()["image"].show("niivue", window=(1.0, 5.0)).volumes
    assert (one.cal_min, one.cal_max) == (1.0, 5.0)
    clip = seqpipe.Sequence(np.zeros((2, 4, 4, 3), np.uint8), "FHWC")
    with pytest.raises(ParameterError, match="no volume with an affine; allowed: DHW, DHWC or FDHWC"):
        clip.show("niivue")
    with pytest.raises(ParameterError, match="image is a batch of 2"):
        seqpipe.Batch((sample()["image"],) * 2).show("niivue")
    with pytest.raises(ParameterError, match="viewer='itk'"):
        clip.show("itk")


def test_without_the_library_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipyniivue", None)
    with pytest.raises(BackendError, match=r"ipyniivue is not installed.*pip install 'seqpipe\[niivue\]'"):
        sample().show("niivue")
