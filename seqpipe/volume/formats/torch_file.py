"""Tensors that torch.save wrote, by torch; no other object is unpickled."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...errors import BackendError, UnreadableSourceError
from ..source import AnyArray, Source
from .indexed import IndexedVolume, info_of_array, library_errors
from .npy import AFFINE_KEY, chosen_array, npy_letters
from .start import Start

__all__ = ["open_torch"]

_LETTERS: Final = {4: "CDHW", 5: "FCDHW"}


def open_torch(source: Source, start: Start, key: str | None = None) -> IndexedVolume:
    """Open a tensor, or one of a mapping of names to tensors; ``affine`` in it (4×4, over d, h, w) is its affine.

    Axes are those of torch: ``HW``, ``DHW``, ``CDHW`` or ``FCDHW``. The tensor is in memory, or mapped from the file.

    Args:
        source: the file.
        start: its first bytes.
        key: name of the tensor; by default the only one, or the one named ``image`` or ``data``.

    Raises:
        UnreadableSourceError: the tensor is missing, or the file holds other objects.
        BackendError: torch is not installed.
    """
    del start
    try:
        import torch
    except ImportError as error:
        raise BackendError(
            "torch is not installed", source=source.name, advice="Install it: pip install 'seqpipe[torch]'"
        ) from error
    kept: dict[str, AnyArray] = {}

    def loaded() -> dict[str, AnyArray]:
        if not kept:
            file: Any = source.path if source.path is not None else source.for_demuxer()
            found = torch.load(file, map_location="cpu", weights_only=True, mmap=source.path is not None)
            tensors = found if isinstance(found, dict) else {"data": found}
            kept.update(
                (str(name), _array(one)) for name, one in tensors.items() if isinstance(one, torch.Tensor)
            )
        return kept

    with library_errors(source, "torch"):
        arrays = loaded()
        if not arrays:
            raise UnreadableSourceError(
                "the file holds no tensor",
                source=source.name,
                allowed="a tensor, or a mapping of names to tensors",
            )
        name = chosen_array([*arrays], key, source.name, "torch file")
        array, affine = arrays[name], arrays.get(AFFINE_KEY)
    letters = _LETTERS.get(array.ndim) or npy_letters(array.shape, source.name)
    matrix = affine.astype(np.float64) if affine is not None and affine.shape == (4, 4) else None
    info = info_of_array(source.name, "torch", array.shape, array.dtype, letters, matrix, "torch")
    return IndexedVolume(info, letters, lambda cut: loaded()[name][cut], (source,), kept.clear)


def _array(tensor: Any) -> AnyArray:
    """Return a tensor as an array; bfloat16, which NumPy does not have, as float32."""
    plain = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
    array: AnyArray = plain.detach().numpy()
    return array
