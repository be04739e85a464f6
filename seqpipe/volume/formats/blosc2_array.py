"""Blosc2 arrays (.b2nd), by the package blosc2; those of nnU-Net's preprocessed folders with their spacing."""

from __future__ import annotations

import io
import json
import os
import pickle
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...array import FloatArray
from ...errors import BackendError, UnreadableSourceError
from ..source import Source
from ..space import from_axes, from_file_order, in_file_order
from .indexed import IndexedVolume, info_of_array, library_errors
from .npy import npy_letters
from .start import Start

__all__ = ["open_blosc2"]

_PROPERTIES: Final = frozenset(
    {
        ("builtins", "slice"),
        ("collections", "OrderedDict"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
        ("numpy.core.numeric", "_frombuffer"),
    }
)
"""What the properties of nnU-Net's cases are made of; nothing else is unpickled."""


def open_blosc2(source: Source, start: Start) -> IndexedVolume:
    """Open a Blosc2 array; a window is read by chunks.

    Beside a file ``case.pkl``, as nnU-Net writes it, ``case.b2nd`` and ``case_seg.b2nd`` are ``CDHW``, and their affine
    follows from the properties in it: the grid that the case was cropped and resampled to.

    Args:
        source: the file.
        start: its first bytes.

    Raises:
        UnreadableSourceError: blosc2 cannot read it, or it does not hold numbers.
        BackendError: blosc2 is not installed.
    """
    del start
    try:
        import blosc2
    except ImportError as error:
        raise BackendError(
            "blosc2 is not installed", source=source.name, advice="Install it: pip install 'seqpipe[blosc2]'"
        ) from error

    def opened() -> Any:
        if source.path is not None:
            return blosc2.open(source.path, mode="r")
        return blosc2.ndarray_from_cframe(source.read([(0, source.size())])[0])

    with library_errors(source, "blosc2"):
        array = opened()
        shape, dtype, chunks = tuple(array.shape), array.dtype, list(array.chunks)
    properties = _properties_of(source.path)
    affine, space = None, "assumed"
    if properties is None or len(shape) != 4:
        letters = npy_letters(shape, source.name)
    else:
        letters = "CDHW"
        affine, space = _affine(properties, shape[1:], source), "nnunet"
    info = info_of_array(
        source.name, "b2nd", shape, dtype, letters, affine, space, header={"chunks": chunks}, compressed=True
    )
    # an array that is opened again is closed between reads
    return IndexedVolume(info, letters, lambda cut: opened()[cut], (source,))


class _Properties(pickle.Unpickler):
    """Unpickles containers, numbers and arrays, and no other object."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _PROPERTIES:
            raise pickle.UnpicklingError(f"{module}.{name} is not read")
        return super().find_class(module, name)


def _properties_of(path: str | None) -> dict[str, Any] | None:
    """Return nnU-Net's properties of a case, from the file beside it; None without one."""
    if path is None:
        return None
    stem = os.fspath(path).removesuffix(".b2nd")
    for name in dict.fromkeys((stem, stem.removesuffix("_seg"))):
        file = Path(f"{name}.pkl")
        if not file.is_file():
            continue
        try:
            found = _Properties(io.BytesIO(file.read_bytes())).load()
        except Exception as error:
            # damaged pickles raise many types of errors
            raise UnreadableSourceError(
                f"the properties of the case cannot be read ({type(error).__name__}: {error})",
                source=str(file),
                advice="Run nnUNetv2_preprocess again",
            ) from error
        if isinstance(found, dict) and "spacing" in found:
            return found
    return None


def _affine(properties: dict[str, Any], grid: tuple[int, ...], source: Source) -> FloatArray:
    """Return the affine over (d, h, w) of a case that was transposed, cropped and resampled to a grid."""
    order = _transposed(source.path or "")
    spacing = np.array(properties["spacing"], dtype=np.float64)
    itk = properties.get("sitk_stuff") or {}
    if "direction" in itk and "origin" in itk and len(itk["direction"]) == 9:
        axes = np.array(itk["direction"], dtype=np.float64).reshape(3, 3) * itk["spacing"]
        stored = from_axes(axes, itk["origin"], lps=True)
    elif "nibabel_stuff" in properties and "original_affine" in properties["nibabel_stuff"]:
        stored = from_file_order(properties["nibabel_stuff"]["original_affine"])
    else:
        stored = in_file_order(np.diag([*spacing[::-1], 1.0]))
    turned = np.eye(4)
    turned[:3, :3] = np.eye(3)[:, order]
    box = np.array(properties.get("bbox_used_for_cropping", [[0, 0]] * 3), dtype=np.float64)
    before = properties.get("shape_after_cropping_and_before_resampling", grid)
    factor = np.array(before, dtype=np.float64) / grid
    # voxels are resampled so that the borders of the volume stay
    local = np.diag([*factor, 1.0])
    local[:3, 3] = (factor - 1) / 2 + box[:, 0]
    affine: FloatArray = stored @ turned @ local
    return affine


def _transposed(path: str) -> list[int]:
    """Return the axis of the file for d, h and w, from the plans beside the folder: nnU-Net's ``transpose_forward``."""
    folder = Path(path).parent
    plans = folder.parent / f"{folder.name.rpartition('_')[0].rpartition('_')[0] or folder.name}.json"
    for file in (plans, folder.parent / "nnUNetPlans.json"):
        if file.is_file():
            order = json.loads(file.read_text(encoding="utf-8")).get("transpose_forward", [0, 1, 2])
            if sorted(order) == [0, 1, 2]:
                return [int(axis) for axis in order]
    return [0, 1, 2]
