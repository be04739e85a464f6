"""Small data sets of volumes in the layouts of publishers: a task of the Medical Decathlon, a folder of BraTS.

python -m data_scripts.make_sets decathlon FOLDER [COUNT]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import seqpipe
from seqpipe.volume import save

__all__ = ["brats", "decathlon"]

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


def decathlon(folder: Path, count: int = 6) -> Path:
    """Write a task of the Decathlon with two classes, and return its folder."""
    root = folder / "Task99_Balls"
    for name in ("imagesTr", "labelsTr"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        labels = np.minimum(_labels(number), 2)
        image = seqpipe.Sequence(_image(labels, number, 1.0), "DHWC", affine=AFFINE)
        save(image, root / f"imagesTr/ball_{number}.nii.gz")
        save(
            seqpipe.Sequence(labels[..., None], "DHWC", affine=AFFINE),
            root / f"labelsTr/ball_{number}.nii.gz",
        )
    described = {
        "name": "Balls",
        "labels": {"0": "background", "1": "ball", "2": "core"},
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


if __name__ == "__main__":
    print({"brats": brats, "decathlon": decathlon}[sys.argv[1]](Path(sys.argv[2]), *map(int, sys.argv[3:])))
