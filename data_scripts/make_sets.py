"""Small data sets of volumes: a task of the Medical Decathlon, a folder of BraTS, and lists of two hospitals.

python -m data_scripts.make_sets decathlon FOLDER [COUNT]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import seqpipe
from seqpipe import ops
from seqpipe.volume import save

__all__ = ["brats", "decathlon", "hospitals", "phantom"]

SHAPE = (24, 32, 32)
AFFINE = np.array([[0, 0, 1.0, -16], [0, 1.0, 0, -16], [1.5, 0, 0, -18], [0, 0, 0, 1]])
LEVELS = (0.0, 1.0, 2.0, 3.0)


def _labels(number: int) -> Any:
    """Return a ball of 1, with a ball of 2 in it and 3 in that, uint8 ``DHW``."""
    rng = np.random.default_rng(number)
    places = np.moveaxis(np.indices(SHAPE), 0, -1) - np.array(SHAPE) / 2 - rng.uniform(-3, 3, 3)
    distance = np.linalg.norm(places * [1.5, 1, 1], axis=-1)
    return sum((distance < radius).astype(np.uint8) for radius in (11, 7, 4))


def _image(labels: Any, number: int, contrast: float) -> Any:
    """Return intensities of labels with noise, float32 ``DHW1``."""
    noise = np.random.default_rng([number, 1]).normal(0, 0.2, SHAPE)
    return (np.array(LEVELS, np.float32)[labels] * contrast + noise).astype(np.float32)[..., None] * 100


def decathlon(folder: Path, count: int = 6, *, modalities: int = 1) -> Path:
    """Write a task of the Decathlon with two classes, or three for several modalities, and return its folder."""
    root = folder / "Task99_Balls"
    for name in ("imagesTr", "labelsTr"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        labels = np.minimum(_labels(number), 2 if modalities == 1 else 3)
        images = [_image(labels, number, 1.0 + n) for n in range(modalities)]
        series = {"layout": "DHWC"} if modalities == 1 else {"layout": "FDHWC"}
        image = seqpipe.Sequence(images[0] if modalities == 1 else np.stack(images), affine=AFFINE, **series)
        save(image, root / f"imagesTr/ball_{number}.nii.gz")
        save(
            seqpipe.Sequence(labels[..., None], "DHWC", affine=AFFINE),
            root / f"labelsTr/ball_{number}.nii.gz",
        )
    described = {
        "name": "Balls",
        "labels": {"0": "background", "1": "ball", "2": "core"}
        | ({} if modalities == 1 else {"3": "center"}),
        "numTraining": count,
        "numTest": 0,
        "training": [
            {"image": f"./imagesTr/ball_{n}.nii.gz", "label": f"./labelsTr/ball_{n}.nii.gz"}
            for n in range(count)
        ],
        "test": [],
    }
    (root / "dataset.json").write_text(json.dumps(described), encoding="utf-8")
    return root


def brats(folder: Path, count: int = 4) -> Path:
    """Write a folder of BraTS 2021 with four modalities and the labels 1, 2 and 4, and return it."""
    root = folder / "BraTS2021"
    for number in range(count):
        name = f"BraTS2021_{number:05d}"
        (root / name).mkdir(parents=True, exist_ok=True)
        depth = _labels(number)
        for factor, modality in enumerate(("t1", "t1ce", "t2", "flair"), 1):
            image = seqpipe.Sequence(_image(depth, number, factor), "DHWC", affine=AFFINE)
            save(image, root / name / f"{name}_{modality}.nii.gz")
        labels = np.array([0, 2, 1, 4], np.uint8)[depth]
        save(seqpipe.Sequence(labels[..., None], "DHWC", affine=AFFINE), root / name / f"{name}_seg.nii.gz")
    return root


def phantom(number: int, *, other: bool, shape: tuple[int, int, int] = (40, 48, 48)) -> tuple[Any, Any]:
    """Return an image, float32, and its labels, uint8: an organ, 1, with a lesion, 2, next to a vessel as bright.

    Args:
        number: number of the phantom.
        other: whether it is rotated, scaled, and of another contrast, noise and bias field, as from another hospital.
        shape: slices, rows and columns.
    """
    rng = np.random.default_rng([number, other])
    offsets = np.moveaxis(np.indices(shape), 0, -1) - np.array(shape) / 2 - rng.uniform(-5, 5, 3)
    size = 1.0
    if other:
        axis = rng.normal(size=3)
        turn = np.deg2rad(30) * rng.uniform(0.3, 1) * axis / np.linalg.norm(axis)
        offsets, size = _rotated(offsets, turn), rng.uniform(0.75, 1.35)

    def ellipsoid(center: Any, radii: Any) -> Any:
        return (((offsets - center) / (np.array(radii) * size)) ** 2).sum(axis=-1) < 1

    labels = ellipsoid(0, (10, 6, 8)).astype(np.uint8)
    labels[ellipsoid(rng.uniform(-0.4, 0.4, 3) * (10, 6, 8), (4, 4, 4)) & (labels == 1)] = 2
    vessel = ellipsoid((0, -15 * size, 0), (60, 3, 3))
    tissue = ops.Zoom3d(size=shape, interp="cubic", fill_value=None)(rng.random((6, 7, 7)).astype(np.float32))
    image = np.select([labels == 1, labels == 2, vessel], [1.0, 0.6, 1.0], 0.8 * tissue.clip(0, 1))
    if other:
        bias = np.exp(offsets / shape @ rng.uniform(-0.6, 0.6, 3))
        image = bias * image ** rng.uniform(0.6, 1.6)
    image = image + rng.normal(0, rng.uniform(0.05, 0.12) if other else 0.05, shape)
    return image.astype(np.float32), labels


def _rotated(offsets: Any, turn: Any) -> Any:
    """Rotate vectors about an axis by an angle, both in one vector (Rodrigues)."""
    angle = np.linalg.norm(turn)
    x, y, z = turn / angle
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return offsets @ (np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross)


def hospitals(folder: Path, count: int = 3, held_out: int = 8) -> Path:
    """Write phantoms to train on as NIfTI, others as DICOM series, and a list of each; return their folder."""
    from .volume_dicom import slices_of, write_slices  # here, as the other sets need no pydicom

    affine = np.diag([2.0, 1.5, 1.5, 1.0])[:, [2, 1, 0, 3]]
    folder.mkdir(parents=True, exist_ok=True)
    for name, number, other in (("train", count, False), ("held_out", held_out, True)):
        rows = ["image,label"]
        for n in range(number):
            image, labels = phantom(n, other=other)
            path, label = f"{name}{n}" if other else f"{name}{n}.nii.gz", f"{name}{n}_label.nii.gz"
            if other:
                slices = slices_of(
                    (image * 1000).round().astype(np.int16), affine, uid=f"1.2.826.0.1.{n + 1}"
                )
                write_slices(folder / path, slices)
            else:
                save(seqpipe.Sequence(image[..., None] * 1000, "DHWC", affine=affine), folder / path)
            save(seqpipe.Sequence(labels[..., None], "DHWC", affine=affine), folder / label)
            rows.append(f"{path},{label}")
        (folder / f"{name}.csv").write_text("\n".join([*rows, ""]), encoding="utf-8")
    return folder


if __name__ == "__main__":
    sets = {"brats": brats, "decathlon": decathlon, "hospitals": hospitals}
    print(sets[sys.argv[1]](Path(sys.argv[2]), *map(int, sys.argv[3:])))
