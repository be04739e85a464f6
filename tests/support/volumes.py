"""The test volumes: phantoms made here (data_scripts/make_volumes.py) and the shared real ones."""

from __future__ import annotations

import fcntl
import functools
import io
from pathlib import Path

import numpy as np
import pytest

from data_scripts.make_volumes import BALLS, make

from .media import MADE_DIR, shared_manifest, shared_media

__all__ = ["Watched", "assert_places", "centers", "needs", "phantom_path", "shared_volume", "shared_volumes"]

_NEEDS = {
    "nii": "nibabel",
    "nrrd": "SimpleITK",
    "nhdr": "SimpleITK",
    "mha": "SimpleITK",
    "mhd": "SimpleITK",
    "zarr": "zarr",
    "dicom": "pydicom",
    "two": "pydicom",
    "mixed": "pydicom",
    "missing": "pydicom",
    "doubled": "pydicom",
    "uneven": "pydicom",
}


class Watched(io.BytesIO):
    """A file that counts the bytes that are read of it."""

    taken = 0

    def read(self, size=-1):
        """Read, and count."""
        data = super().read(size)
        self.taken += len(data)
        return data


def needs(library: str):
    """The library; skips the test, with the reason, where it is not installed."""
    return pytest.importorskip(library, reason=f"{library} is not installed: it judges or writes volumes")


@functools.cache
def _made(name: str) -> Path:
    folder = MADE_DIR / "volumes"
    folder.mkdir(parents=True, exist_ok=True)
    with (MADE_DIR / ".volumes.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        return make(folder, [name])[name]


def phantom_path(name: str) -> Path:
    """The file or folder of a phantom, made if it must be."""
    library = _NEEDS.get(name.partition("_")[0])
    if library is not None:
        needs(library)
    return _made(name)


def shared_volumes() -> list[str]:
    """Paths of the real volumes below the shared media, for parametrizing; empty without them."""
    try:
        return [row["file"] for row in shared_manifest("volume")]
    except pytest.skip.Exception:
        return []


def shared_volume(name: str) -> str:
    """A real volume's path; skips without the media."""
    return str(shared_media() / name.rstrip("/"))


def centers(array, affine) -> dict[int, np.ndarray]:
    """The center of mass in mm of each of the phantom's balls in an array DHW."""
    result = {}
    for value in BALLS:
        indices = np.argwhere(array == value)
        result[value] = (
            (affine @ np.append(indices.mean(axis=0), 1.0))[:3] if len(indices) else np.full(3, np.nan)
        )
    return result


def assert_places(array, affine, tolerance_mm: float = 0.8) -> None:
    """Whether the balls lie where they are."""
    for value, place in centers(array, affine).items():
        assert np.linalg.norm(place - BALLS[value]) < tolerance_mm, (value, place)
