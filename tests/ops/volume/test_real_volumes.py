"""Geometry and blur on real scans, against SimpleITK on the grid that the result says it lies on, and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

import seqpipe
from seqpipe import ops
from seqpipe.parts import Labels, Points
from seqpipe.volume import to_sitk
from tests.support.media import shared_media

SCANS = ["pair_t1/t1w.nii.gz", "mha_pair/3DCT_lung.mha", "nrrd_pair/brain1_image.nrrd"]
GEOMETRY = {
    "affine": ops.RandomAffine3d(rotate=(12.0, -20.0, 8.0), scale=1.15, translate_mm=(3.0, -2.0, 5.0)),
    "resample": ops.Resample3d(spacing_mm=(2.0, 1.1, 1.7), antialias=False),
    "views": ops.Chain(
        ops.Flip3d(depth=True, width=False), ops.Rot90(turns=1, plane="dw"), ops.Pad3d(before=(2, 0, 3))
    ),
    "recipe": ops.Chain(
        ops.RandomAffine3d(rotate=(-30, 30), scale=(0.8, 1.2), isotropic=True),
        ops.Crop3d(size=(20, 40, 40), position=(0.0, 1.0), pad_mode="constant"),
        ops.Flip3d(width=True),
    ),
}


def scan(name):
    with seqpipe.open(shared_media() / "volume" / name) as volume:
        sequence = volume.sequence()
    return ops.Crop3d(size=tuple(min(n, 90) for n in sequence.shape[:3]))(
        seqpipe.Sequence(sequence.data.astype(np.float32), "DHWC", affine=sequence.affine)
    )


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("kind", GEOMETRY)
@pytest.mark.parametrize("interp", ["linear", "bspline"])
def test_geometry_is_simpleitks_away_from_the_border(name, kind, interp):
    sitk = pytest.importorskip("SimpleITK")
    given, op = scan(name), GEOMETRY[kind]
    members = op if isinstance(op, ops.Chain) else [op]
    chain = ops.Chain(
        *(
            type(one)(**{**one.settings(), "interp": interp}) if "interp" in one.settings() else one
            for one in members
        )
    )
    done = chain(given, index=3)
    how = sitk.sitkLinear if interp == "linear" else sitk.sitkBSpline
    grid = to_sitk(done)

    def on_grid(values, kernel):
        return sitk.GetArrayFromImage(
            sitk.Resample(
                to_sitk(seqpipe.Sequence(values, "DHWC", affine=given.affine)),
                grid,
                sitk.Transform(),
                kernel,
                0.0,
            )
        )

    judged = on_grid(given.data, how)
    inner = np.zeros_like(given.data)
    margin = 1 if interp == "linear" else 6  # ITK mirrors the volume for its spline
    inner[tuple(slice(margin, -margin) for _ in range(3))] = 1
    inside = on_grid(inner, sitk.sitkLinear) > 0.999
    assert inside.mean() > 0.02
    off = np.abs(done.data[..., 0].reshape(judged.shape) - judged)[inside]
    assert off.max() <= 1e-3 * np.ptp(given.data)


@pytest.mark.parametrize("name", SCANS)
def test_a_blurred_scan_is_that_of_scipy(name):
    given = scan(name)
    found = ops.GaussianBlur3d(sigma=(0.6, 1.0, 1.7))(given)
    judged = ndimage.gaussian_filter(
        given.data[..., 0].astype(float), (0.6, 1.0, 1.7), mode="reflect", truncate=6
    )
    assert np.abs(found.data[..., 0] - judged).max() <= 1e-3 * np.ptp(given.data)


@pytest.mark.parametrize("name", SCANS)
def test_landmarks_of_a_scan_keep_their_place_in_the_world_through_a_recipe(name):
    given = scan(name)
    voxels = np.random.default_rng(1).uniform(0, np.array(given.shape[:3]) - 1, (20, 3))
    places = voxels @ given.affine[:3, :3].T + given.affine[:3, 3]
    done = GEOMETRY["recipe"](
        {"image": given, "tips": Points(voxels), "mm": Points(places, unit="mm")}, index=5
    )
    affine = done["image"].affine
    assert np.abs(done["tips"].array @ affine[:3, :3].T + affine[:3, 3] - places).max() < 1e-4
    assert np.abs(done["mm"].array - places).max() < 1e-4


def test_labels_of_a_scan_have_only_values_that_they_had():
    with seqpipe.open(shared_media() / "volume" / "pair_t2/t2_seg_labeled.nii.gz") as volume:
        labels = volume.sequence()
    known = set(np.unique(labels.data).tolist())
    bent = ops.Chain(GEOMETRY["affine"], ops.Elastic3d(spacing=10, amplitude=0.3), ops.Zoom3d(factor=1.4))
    found = set(np.unique(bent(Labels(labels)).array).tolist())
    assert found <= known
    assert len(found) > 2
