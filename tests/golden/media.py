"""The media of the golden jobs: lossless and without float arithmetic, so that they decode alike on every machine."""

from __future__ import annotations

import contextlib
import csv
import fcntl
from pathlib import Path

import cv2
import numpy as np

import seqpipe
from data_scripts import frame_code
from data_scripts.frame_code import draw
from data_scripts.media_encode import encode
from data_scripts.media_item import Encode
from seqpipe.volume import save
from tests.support.kept import kept_folder

__all__ = ["folder"]

_LOSSLESS = "qp=0:keyint={}:scenecut=0:bframes=2"
_VIDEOS = {
    "videos/0/a.mp4": Encode(encoder="libx264", size=(96, 64), frames=40, params=_LOSSLESS.format(12)),
    "videos/0/b.mp4": Encode(
        encoder="libx264", size=(96, 64), frames=25, first=100, rate="30", params=_LOSSLESS.format(5)
    ),
    "videos/1/c.mkv": Encode(
        encoder="libx264",
        size=(128, 96),
        frames=17,
        first=200,
        rate="24000/1001",
        matrix="bt709",
        params=_LOSSLESS.format(250),
    ),
}
_SHAPES = ((12, 20, 24), (14, 18, 22), (10, 24, 20))


def folder() -> Path:
    """The folder of the media, made if it is not there: ``videos``, ``frames``, ``volumes`` and ``train.csv``."""
    place = kept_folder("golden", [Path(file).read_text("utf-8") for file in (__file__, frame_code.__file__)])
    with (place / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not (place / ".made").is_file():
            _make(place)
            (place / ".made").touch()
    return place


def _make(place: Path) -> None:
    for name, spec in _VIDEOS.items():
        _parent(place / name)
        encode(spec, place / name)
    (place / "videos" / "1" / "broken.mp4").write_bytes(
        b"not a video, but more than a few bytes of text\n" * 40
    )
    for name, first, count in (("f0", 300, 20), ("f1", 400, 12)):
        for number in range(count):
            path = _parent(place / "frames" / name / f"img_{number + 1:05}.png")
            cv2.imwrite(str(path), draw(first + number, (96, 64))[..., ::-1])
    with (place / "train.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "label", "start_s", "end_s", "speed", "name"])
        rows.writerow(["videos/0/a.mp4", 2, 0, 1, 0.5, "one"])
        rows.writerow(["videos/0/b.mp4", 0, "", "", 1.25, "two"])
        rows.writerow(["videos/0/a.mp4", 1, 0.4, "", 2, "three"])
    for number, shape in enumerate(_SHAPES):
        _volumes(place / "volumes", number, shape)
    values = np.random.default_rng(9).integers(0, 2000, (2, *_SHAPES[0]), dtype=np.int16)
    stored = seqpipe.Sequence(values[0][..., None], "DHWC", affine=np.eye(4), scale=(0.5, -1000.0))
    save(stored, place / "volumes" / "stored.nii.gz")
    save(seqpipe.Sequence(values[..., None], "FDHWC", affine=np.eye(4)), place / "volumes" / "series.nii.gz")


def _volumes(place: Path, number: int, shape: tuple[int, int, int]) -> None:
    """Two images and labels of three classes: boxes on noise, oblong voxels, another position for each."""
    rng = np.random.default_rng(number)
    labels = np.zeros(shape, np.uint8)
    labels[2:6, 3:9, 4:11], labels[6:9, 9:15, 2:6], labels[3:5, 12:14, 14:18] = 1, 2, 3
    affine = np.diag([2.5, 1.0 + 0.25 * number, 1.0, 1.0])
    affine[:3, 3] = -10 * number, 5, -7.5
    affine = affine[[2, 1, 0, 3]]  # columns run along x, rows along y, slices along z
    values = rng.integers(-60, 60, shape) + 300 * labels.astype(int)
    other = rng.integers(0, 200, shape) + 100 * (labels == 2)
    files = {"t1": values.astype(np.int16), "t2": other.astype(np.int16), "label": labels}
    for name, array in files.items():
        save(_volume(array, affine), _parent(place / f"{name}_{number}.nii.gz"))
    weights = (labels == 2).astype(np.float32) + np.float32(0.125)
    save(_volume(weights, affine), place / f"weights_{number}.nii.gz")


def _volume(array: np.ndarray, affine: np.ndarray) -> seqpipe.Sequence:
    return seqpipe.Sequence(array[..., None], "DHWC", affine=affine)


def _parent(path: Path) -> Path:
    with contextlib.suppress(FileExistsError):
        path.parent.mkdir(parents=True)
    return path
