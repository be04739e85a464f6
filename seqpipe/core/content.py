"""Detection of volume file formats by their first bytes, before any decoder opens the file."""

from __future__ import annotations

import re
import zlib
from typing import Final

__all__ = ["HEAD", "VOLUME_KINDS", "volume_kind"]

HEAD: Final = 4096
"""Bytes at the start of a file that :func:`volume_kind` needs."""

VOLUME_KINDS: Final = {
    "nifti": "a NIfTI volume",
    "analyze": "an ANALYZE 7.5 header",
    "dicom": "a DICOM file",
    "nrrd": "an NRRD volume",
    "metaimage": "a MetaImage volume",
    "npy": "a NumPy array",
    "npz": "a NumPy archive",
    "tiff": "a TIFF file",
}
"""The volume file formats, and their names in messages."""

_META_KEY = re.compile(rb"\s*(?:ObjectType|NDims|ObjectSubType|Comment|TransformType)[ \t]*=")
_GZIP: Final = b"\x1f\x8b"
_NIFTI1: Final = (b"n+1\0", b"ni1\0")
_NIFTI2: Final = (b"n+2\0\r\n\x1a\n", b"ni2\0\r\n\x1a\n")
_ANALYZE: Final = (348).to_bytes(4, "little"), (348).to_bytes(4, "big")
_TIFF: Final = (b"II*\0", b"MM\0*", b"II+\0\x08\0\0\0", b"MM\0+\0\x08\0\0")


def volume_kind(head: bytes) -> str | None:
    """Return the format of a volume file, a key of :data:`VOLUME_KINDS`; None for other files.

    Args:
        head: the first :data:`HEAD` bytes of the file, or all of a shorter one. Gzip streams are inflated.
    """
    if head.startswith(_GZIP):
        try:
            inflated = zlib.decompressobj(31).decompress(head, HEAD)
        except zlib.error:
            return None
        return None if inflated.startswith(_GZIP) else volume_kind(inflated)
    if head[344:348] in _NIFTI1 or head[4:12] in _NIFTI2:
        return "nifti"
    if head[128:132] == b"DICM":
        return "dicom"
    if head.startswith(b"NRRD000"):
        return "nrrd"
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith(b"PK\x03\x04") and _first_name(head).endswith(b".npy"):
        return "npz"
    if head.startswith(_TIFF):
        return "tiff"
    if _META_KEY.match(head):
        return "metaimage"
    if len(head) >= 348 and head[:4] in _ANALYZE and head[344:348] == bytes(4):
        return "analyze"
    return None


def _first_name(head: bytes) -> bytes:
    """Return the name of a ZIP archive's first entry."""
    return head[30 : 30 + int.from_bytes(head[26:28], "little")]
