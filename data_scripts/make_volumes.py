"""Phantom volumes with known geometry, in every format that is read, and damaged ones.

    python -m data_scripts.make_volumes DIR [NAME...]
    python -m data_scripts.make_volumes --sample DIR

A phantom holds three balls at known places in millimeters, each with a value of its own; so whatever a reader makes of
the file, the centers of the balls tell whether the space is right. The grid is oblique and anisotropic.
"""

from __future__ import annotations

import argparse
import gzip
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["AFFINE", "BALLS", "ITEMS", "LABELS", "SHAPE", "Item", "make", "phantom", "sample", "scan"]

SHAPE = (18, 26, 32)
"""Slices, rows, columns."""

BALLS = {300: (-9.0, 4.0, 12.0), 700: (8.0, -7.0, -9.0), 1200: (3.0, 11.0, 1.0)}
"""Value → center in RAS mm."""

LABELS = {300: 1, 700: 2, 1200: 3}
_RADIUS_MM = 5.0


def _affine() -> Any:
    turn, tip = np.radians(20), np.radians(-12)
    about_z = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    about_x = np.array([[1, 0, 0], [0, np.cos(tip), -np.sin(tip)], [0, np.sin(tip), np.cos(tip)]])
    # columns of (d, h, w): slices go up, rows to the back, columns to the left
    axes = (about_z @ about_x)[:, [2, 1, 0]] * np.array([2.5, -1.5, -1.25])
    affine = np.eye(4)
    affine[:3, :3] = axes
    affine[:3, 3] = -axes @ ((np.array(SHAPE) - 1) / 2)
    return affine


AFFINE = _affine()
"""From (d, h, w) to RAS mm; determinant below 0 in the order of the file."""


def phantom(affine: Any = AFFINE, shape: tuple[int, int, int] = SHAPE, *, labels: bool = False) -> Any:
    """Int16 ``DHW``: 0 to 9 around the balls, the balls' values in them; or uint8 labels."""
    places = np.indices(shape).reshape(3, -1)
    world = (affine @ np.vstack([places, np.ones(places.shape[1])]))[:3]
    values = (places.sum(axis=0) % 10) * (0 if labels else 1)
    for value, center in BALLS.items():
        inside = np.linalg.norm(world - np.array(center)[:, None], axis=0) <= _RADIUS_MM
        values[inside] = LABELS[value] if labels else value
    return values.reshape(shape).astype(np.uint8 if labels else np.int16)


def scan(shape: tuple[int, int, int] = (40, 48, 56)) -> tuple[Any, Any]:
    """A CT of a body, in Hounsfield units: int16 ``DHW``; and uint8 labels of its kidneys (1, 2) and spine (3)."""
    up, back, left = np.meshgrid(
        *(np.linspace(-1, 1, length) for length in shape), indexing="ij", sparse=True
    )
    noise = np.random.default_rng(0).normal(0, 12, shape)
    body = (back / 0.85) ** 2 + (left / 0.9) ** 2 <= 1
    kidneys = [
        ((up / 0.6) ** 2 + ((back - 0.2) / 0.3) ** 2 + ((left - x) / 0.2) ** 2) <= 1 for x in (-0.45, 0.45)
    ]
    spine = ((back - 0.55) / 0.2) ** 2 + (left / 0.16) ** 2 <= 1 + 0.2 * np.sin(14 * up)
    labels = np.zeros(shape, np.uint8)
    values = np.where(body, 40.0, -1000.0) * np.ones(shape)
    for number, (where, units) in enumerate(((kidneys[0], 180), (kidneys[1], 180), (spine, 700)), 1):
        labels[np.broadcast_to(where, shape)] = number
        values[np.broadcast_to(where, shape)] = units
    return np.rint(np.where(body, values + noise, values)).astype(np.int16), labels


def sample(folder: Path) -> list[Path]:
    """Write the scan of the documentation: ct.nii.gz and organs.nii.gz, with voxels of 2.5 × 1 × 1 mm."""
    from seqpipe import Sequence
    from seqpipe.volume import save

    space = np.array([[0, 0, 1.0, -28], [0, 1.0, 0, -24], [2.5, 0, 0, -50], [0, 0, 0, 1]])
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "ct.nii.gz", folder / "organs.nii.gz"]
    for path, voxels in zip(paths, scan(), strict=True):
        save(Sequence(voxels[..., None], "DHWC", affine=space), path)
    return paths


@dataclass(frozen=True)
class Item:
    """A phantom.

    Attributes:
        file: its name; of a folder if it ends in a slash.
        write: makes it at a path.
        damage: what is wrong with it, as a part of the message it is refused with; "" for a sound one.
    """

    file: str
    write: Callable[[Path], object]
    damage: str = ""


def make(folder: Path, names: list[str] | None = None) -> dict[str, Path]:
    """Write phantoms that are not there yet; all of them by default."""
    made = {}
    for name in names or list(ITEMS):
        item = ITEMS[name]
        path = folder / name / item.file.rstrip("/")
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            item.write(path)
        made[name] = path
    return made


def _nibabel(kind: str = "Nifti1Image", *, order: str = "<", data: Any = None) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        import nibabel

        array = (phantom() if data is None else data()).T
        header = getattr(nibabel, kind).header_class(endianness=order)
        header.set_data_dtype(array.dtype)
        image = getattr(nibabel, kind)(array, AFFINE[:, [2, 1, 0, 3]], header)
        image.set_qform(image.affine, 1)
        image.set_sform(image.affine, 1)
        nibabel.save(image, path)

    return write


def _sitk(*, compress: bool) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        import SimpleITK

        matrix = np.diag([-1, -1, 1, 1]) @ AFFINE[:, [2, 1, 0, 3]]
        spacing = np.linalg.norm(matrix[:3, :3], axis=0)
        image = SimpleITK.GetImageFromArray(phantom())
        image.SetSpacing(spacing.tolist())
        image.SetOrigin(matrix[:3, 3].tolist())
        image.SetDirection((matrix[:3, :3] / spacing).ravel().tolist())
        SimpleITK.WriteImage(image, str(path), compress)

    return write


def _npz(path: Path) -> None:
    np.savez_compressed(path, image=phantom(), affine=AFFINE)


def _objects(path: Path) -> None:
    np.save(path, np.array([{"not": "pixels"}], dtype=object), allow_pickle=True)


def _pngs(path: Path) -> None:
    import cv2

    path.mkdir()
    for number, pixels in enumerate(phantom()):
        cv2.imwrite(str(path / f"slice_{number}.png"), pixels.astype(np.uint16))


def _tiff(path: Path) -> None:
    import cv2

    cv2.imwritemulti(str(path), [pixels.astype(np.uint16) for pixels in phantom()])


def _zarr(path: Path) -> None:
    import zarr

    zarr.create_array(str(path), data=phantom(), chunks=(8, 8, 8))


def _dicom(change: Callable[[list[Any]], list[Any]] = list, affine: Any = AFFINE) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        from .volume_dicom import slices_of, write_slices

        write_slices(path, change(slices_of(phantom(affine), affine)))

    return write


def _multi_frame(path: Path) -> None:
    from .volume_dicom import multi_frame

    multi_frame(path, phantom(), AFFINE)


def _tilted() -> Any:
    affine = AFFINE.copy()
    affine[:3, 0] += affine[:3, 1] * 0.25  # each slice is shifted along its rows
    return affine


def _second_series(slices: list[Any]) -> list[Any]:
    from .volume_dicom import slices_of

    return slices + slices_of(phantom()[:5], AFFINE, uid="1.2.3.4", description="scout")


def _turned_slice(slices: list[Any]) -> list[Any]:
    slices[3].ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    return slices


def _slope(slices: list[Any]) -> list[Any]:
    for number, one in enumerate(slices):
        one.RescaleSlope = str(1 + number)
    return slices


def _doubled(slices: list[Any]) -> list[Any]:
    import copy

    again = copy.deepcopy(slices[4])
    again.SOPInstanceUID = "1.2.3.4.5"
    return [*slices, again]


def _uneven(slices: list[Any]) -> list[Any]:
    place = np.array(slices[5].ImagePositionPatient, dtype=float)
    step = np.array(slices[6].ImagePositionPatient, dtype=float) - place
    slices[5].ImagePositionPatient = [f"{x:.6f}" for x in place + 0.2 * step]
    return slices


def _patched(**changes: tuple[int, str, Any]) -> Callable[[Path], None]:
    """A sound .nii with fields of its header overwritten: offset, form, value."""

    def write(path: Path) -> None:
        data = bytearray(_nifti())
        for offset, form, value in changes.values():
            struct.pack_into("<" + form, data, offset, value)
        path.write_bytes(gzip.compress(bytes(data)) if path.name.endswith(".gz") else bytes(data))

    return write


def _cut(share: float) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        data = _nifti()
        data = gzip.compress(data, 1) if path.name.endswith(".gz") else data
        path.write_bytes(data[: int(len(data) * share)])

    return write


def _bomb(path: Path) -> None:
    """A sound header, and 64 MiB of zeros instead of 30 kB of voxels."""
    path.write_bytes(gzip.compress(_nifti() + bytes(64 << 20), 9))


def _nifti() -> bytes:
    """A small .nii by hand: no library is asked to write what it would refuse."""
    data = bytearray(352)
    struct.pack_into("<i", data, 0, 348)
    struct.pack_into("<8h", data, 40, 3, *reversed(SHAPE), 1, 1, 1, 1)
    struct.pack_into("<2h", data, 70, 4, 16)
    struct.pack_into("<8f2f", data, 76, 1, 1.25, 1.5, 2.5, 0, 0, 0, 0, 352, 0)
    struct.pack_into("<2h", data, 252, 0, 1)
    struct.pack_into("<12f", data, 280, *AFFINE[:3, [2, 1, 0, 3]].ravel())
    struct.pack_into("<4s", data, 344, b"n+1\0")
    return bytes(data) + phantom().tobytes()


ITEMS = {
    "nii": Item("phantom.nii", _nibabel()),
    "nii_gz": Item("phantom.nii.gz", _nibabel()),
    "nii_big_endian": Item("phantom.nii", _nibabel(order=">")),
    "nii2": Item("phantom.nii.gz", _nibabel("Nifti2Image")),
    "nii_pair": Item("phantom.img", _nibabel("Nifti1Pair")),
    "nii_labels": Item("phantom.nii.gz", _nibabel(data=lambda: phantom(labels=True))),
    "nrrd": Item("phantom.nrrd", _sitk(compress=True)),
    "nrrd_raw": Item("phantom.nrrd", _sitk(compress=False)),
    "nhdr": Item("phantom.nhdr", _sitk(compress=False)),
    "mha": Item("phantom.mha", _sitk(compress=True)),
    "mhd": Item("phantom.mhd", _sitk(compress=False)),
    "npy": Item("phantom.npy", lambda path: np.save(path, phantom())),
    "npz": Item("phantom.npz", _npz),
    "png": Item("phantom/", _pngs),
    "tiff": Item("phantom.tif", _tiff),
    "zarr": Item("phantom.zarr/", _zarr),
    "dicom": Item("phantom/", _dicom()),
    "dicom_tilted": Item("phantom/", _dicom(affine=_tilted())),
    "dicom_multi_frame": Item("phantom.dcm", _multi_frame),
    "dicom_slopes": Item("phantom/", _dicom(_slope)),
    "cut_nii": Item("phantom.nii", _cut(0.6), "the header promises"),
    "cut_nii_gz": Item("phantom.nii.gz", _cut(0.6), "the file ends after"),
    "bomb": Item("phantom.nii.gz", _bomb, "holds more than the"),
    "wrong_magic": Item("phantom.nii", _patched(magic=(344, "4s", b"no\0\0")), "not a volume"),
    "promises_more": Item("phantom.nii.gz", _patched(dim=(46, "h", 30000)), "the header promises"),
    "no_slices": Item("phantom.nii.gz", _patched(dim=(46, "h", 0)), "states the shape"),
    "nan_affine": Item("phantom.nii.gz", _patched(a=(280, "f", float("nan"))), "NaN or infinite"),
    "float128": Item("phantom.nii.gz", _patched(a=(70, "h", 1536)), "the NIfTI type 1536 (float128)"),
    "objects": Item("phantom.npy", _objects, "not unpickled"),
    "two_series": Item("phantom/", _dicom(_second_series), "there are 2 series"),
    "mixed_orientations": Item("phantom/", _dicom(_turned_slice), "slices have 2 orientations"),
    "missing_slice": Item("phantom/", _dicom(lambda s: s[:6] + s[7:]), "slices are missing at"),
    "doubled_slice": Item("phantom/", _dicom(_doubled), "positions have more than one slice"),
    "uneven_slices": Item("phantom/", _dicom(_uneven), "unevenly spaced"),
}


def main() -> None:
    """Write phantoms, and say where."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("names", nargs="*", choices=[[], *ITEMS], default=[], metavar="NAME")
    parser.add_argument("--sample", action="store_true", help="write ct.nii.gz and organs.nii.gz instead")
    given = parser.parse_args()
    if given.sample:
        print("\n".join(f"wrote {path}" for path in sample(given.folder)))
        return
    for name, path in make(given.folder, given.names).items():
        print(f"{name:20} {path}" + (f"   (damaged: {ITEMS[name].damage})" if ITEMS[name].damage else ""))


if __name__ == "__main__":
    main()
