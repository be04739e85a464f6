"""Detection of volume file formats by their first bytes, before any decoder opens the file."""

from __future__ import annotations

import re
import zlib
from typing import Any, Final

__all__ = [
    "HEAD",
    "OTHER_VOLUMES",
    "VOLUME_ENDINGS",
    "VOLUME_KINDS",
    "UnpackError",
    "likely_kind",
    "packing_of",
    "unpack_errors",
    "unpacked_head",
    "unpacker",
    "volume_kind",
]

HEAD: Final = 4096
"""Bytes at the start of a file that :func:`volume_kind` needs."""

_PACKINGS: Final = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\0": "xz",
    **dict.fromkeys((b"BZh%d1AY&SY" % level for level in range(1, 10)), "bzip2"),
}
_SUFFIXES: Final = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz"}

_ARRAY: Final = "Read it with {}, and save the array as .npy, or with its affine by seqpipe.volume.save"
_UNKNOWN: Final = "Unpack it to see what it holds"

OTHER_VOLUMES: Final = {
    "mif": ("an MRtrix image", "Convert it: mrconvert volume.mif volume.nii.gz"),
    "interfile": ("an Interfile header", "Convert it to NIfTI or MetaImage with the tool that wrote it"),
    "matlab": ("a MATLAB file", _ARRAY.format("scipy.io.loadmat")),
    **{
        name: (f"{article} {name} stream that does not hold a volume that is known", _UNKNOWN)
        for article, name in (("a", "gzip"), ("a", "bzip2"), ("an", "xz"))
    },
    "packed": ("a file packed as a whole by zstd", "Unpack it first, or pack it by gzip"),
}
"""Formats that are recognized, but not read: their names, and what to do."""

VOLUME_KINDS: Final = {
    "nifti": "a NIfTI volume",
    "dicom": "a DICOM file",
    "nrrd": "an NRRD volume",
    "metaimage": "a MetaImage volume",
    "npy": "a NumPy array",
    "npz": "a NumPy archive",
    "tiff": "a TIFF file",
    "analyze": "an ANALYZE 7.5 header",
    "mgh": "an MGH volume of FreeSurfer",
    "hdf5": "an HDF5 file, such as .h5, MINC 2 or NetCDF 4",
    "netcdf": "a NetCDF file, such as MINC 1",
    "vtk": "a VTK file",
    "vti": "a VTK file of XML",
    "gipl": "a GIPL volume",
    "mrc": "an MRC map",
    "parrec": "a Philips PAR header",
    "afni": "an AFNI header",
    "ecat": "an ECAT 7 volume",
    "b2nd": "a Blosc2 array",
    "torch": "a file of torch.save",
    "zip": "a ZIP archive",
    **{kind: name for kind, (name, _) in OTHER_VOLUMES.items()},
}
"""The volume file formats, and their names in messages."""

_NIFTI1: Final = (b"n+1\0", b"ni1\0")
_NIFTI2: Final = (b"n+2\0\r\n\x1a\n", b"ni2\0\r\n\x1a\n")
_NIFTI_SIZES: Final = tuple(size.to_bytes(4, order) for size in (348, 540) for order in ("little", "big"))
_MAGIC: Final = {
    b"NRRD000": "nrrd",
    b"\x93NUMPY": "npy",
    **dict.fromkeys((b"II*\0", b"MM\0*", b"II+\0\x08\0\0\0", b"MM\0+\0\x08\0\0"), "tiff"),
    b"\x89HDF\r\n\x1a\n": "hdf5",
    **dict.fromkeys((b"CDF\1", b"CDF\2", b"CDF\5"), "netcdf"),
    b"# vtk DataFile": "vtk",
    b"mrtrix image": "mif",
    b"# === DATA DESCRIPTION FILE": "parrec",
    b"MATRIX7": "ecat",
    b"!INTERFILE": "interfile",
    b"\x9e\xa8b2frame\0": "b2nd",
    b"MATLAB 5.0 MAT-file": "matlab",
    b"\x28\xb5\x2f\xfd": "packed",
}
_META_KEY: Final = re.compile(rb"\s*(?:ObjectType|NDims|ObjectSubType|Comment|TransformType)[ \t]*=")
_VTK_XML: Final = re.compile(rb"\s*(?:<\?xml[^>]{0,200}>)?\s*(?:<!--.{0,500}?-->\s*)?<VTKFile\b", re.DOTALL)
_GIPL: Final = (b"\xef\xff\xe9\xb0", b"\x2a\xe3\x89\xb8")
_MGH_TYPES: Final = (0, 1, 3, 4)
_VRS: Final = frozenset(
    b"AE AS AT CS DA DS DT FD FL IS LO LT OB OD OF OL OV OW PN SH SL SQ SS ST SV TM UC UI UL UN UR US UT UV".split()
)
_LONG_VRS: Final = frozenset(b"OB OD OF OL OV OW SQ SV UC UN UR UT UV".split())
_ELEMENTS: Final = 3

_SIGNS: Final = {
    "dicom": re.compile(rb"(?s)DICM|\x02\0\0\0UL\x04\0|\x02\0\x02\0UI.\0|\x02\0\x10\0UI.\0"),
    "nrrd": re.compile(rb"NRRD000|\n(?:space )?(?:directions|dimension|encoding|sizes): ?"),
    "metaimage": re.compile(rb"\n?(?:NDims|DimSize|ElementType|ElementDataFile|TransformMatrix) *= "),
    "npy": re.compile(rb"NUMPY|'fortran_order': "),
    "nifti": re.compile(rb"(?s)\A.{344}n[+i][12]\0|\A.{4}n[+i]2\0\r\n"),
}
_NAMES: Final = {
    "nifti": (".nii", ".hdr"),
    "dicom": (".dcm", ".dicom", ".ima"),
    "nrrd": (".nrrd", ".nhdr"),
    "metaimage": (".mha", ".mhd"),
    "npy": (".npy",),
    "npz": (".npz",),
    "tiff": (".tif", ".tiff"),
    "mgh": (".mgh", ".mgz"),
    "hdf5": (".h5", ".hdf5", ".nc"),
    "netcdf": (".mnc",),
    "mrc": (".mrc", ".map"),
    "parrec": (".par",),
    "ecat": (".v",),
    "zip": (".zip",),
    "vtk": (".vtk",),
    "vti": (".vti",),
    "gipl": (".gipl",),
    "mif": (".mif", ".mih"),
    "afni": (".head", ".brik"),
    "b2nd": (".b2nd",),
    "torch": (".pt", ".pth"),
}


VOLUME_ENDINGS: Final = tuple(
    dict.fromkeys(
        ending for kind, endings in _NAMES.items() for ending in endings if kind not in OTHER_VOLUMES
    )
)
"""File name extensions of the formats that are read, without those of packings."""


class UnpackError(Exception):
    """The beginning of a compressed stream is damaged."""


def volume_kind(head: bytes) -> str | None:
    """Return the format of a volume file, a key of :data:`VOLUME_KINDS`; None for other files."""
    packing = packing_of(head)
    if packing is not None:
        try:
            inner = unpacked_head(head, HEAD)
        except UnpackError:
            return packing
        return (None if packing_of(inner) else volume_kind(inner)) or packing
    if head[344:348] in _NIFTI1 or head[4:12] in _NIFTI2:
        return "nifti"
    if head[128:132] == b"DICM" or _is_bare_dicom(head):
        return "dicom"
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    if head.startswith(b"PK\x03\x04"):
        name = _first_name(head)
        return "npz" if name.endswith(b".npy") else "torch" if name.endswith(b"/data.pkl") else "zip"
    if _META_KEY.match(head):
        return "metaimage"
    if _VTK_XML.match(head):
        return "vti"
    return _kind_without_magic(head)


def _kind_without_magic(head: bytes) -> str | None:
    """Return the format of a file whose first bytes are numbers or text: by what follows."""
    if len(head) >= 348 and head[:4] in _NIFTI_SIZES[:2] and head[344:348] == bytes(4):
        return "analyze"
    if b"DATASET_RANK" in head and b"type" in head[:64]:
        return "afni"
    if head[252:256] in _GIPL:
        return "gipl"
    if head[208:212] == b"MAP " and head[212:214] in (b"DD", b"DA", b"\x11\x11"):
        return "mrc"
    return "mgh" if _is_mgh(head) else None


def likely_kind(head: bytes, name: str = "") -> str | None:
    """Return the format of a volume file whose first bytes are damaged, by what else it begins with, or by its name."""
    packing = packing_of(head)
    if packing is not None:
        try:
            head = unpacked_head(head, HEAD)
        except UnpackError:
            head = b""
    if head[:4] in _NIFTI_SIZES:
        return "nifti"
    by_content = next((kind for kind, sign in _SIGNS.items() if sign.search(head)), None)
    ending = name.lower()
    for suffix in _SUFFIXES:
        ending = ending.removesuffix(suffix)
    by_name = next((kind for kind, endings in _NAMES.items() if ending.endswith(endings)), None)
    return (
        by_content
        or by_name
        or next((p for suffix, p in _SUFFIXES.items() if name.lower().endswith(suffix)), None)
    )


def packing_of(head: bytes) -> str | None:
    """Return the compression that packs a file as a whole: "gzip", "bzip2" or "xz"; None for other files."""
    return next((name for magic, name in _PACKINGS.items() if head.startswith(magic)), None)


def unpacked_head(data: bytes, size: int) -> bytes:
    """Unpack the first bytes of a gzip, bzip2 or xz stream, over all of its members, as far as its beginning suffices.

    Raises:
        UnpackError: the stream is damaged before the first byte of its content.
    """
    found = b""
    while len(found) < size and (packing := packing_of(data)) is not None:
        stream = unpacker(packing)
        try:
            found += stream.decompress(data, size - len(found))
        except unpack_errors() as error:
            if not found:
                raise UnpackError(str(error)) from error
            break
        data = stream.unused_data
    return found


def unpack_errors() -> tuple[type[Exception], ...]:
    """Return what the standard library's decompressors raise for damaged data."""
    usual = (zlib.error, OSError, EOFError, ValueError)
    try:
        from lzma import LZMAError  # absent from a Python that was built without it
    except ImportError:
        return usual
    return (*usual, LZMAError)


def unpacker(packing: str) -> Any:
    """Return the standard library's decompressor of a stream: "gzip", "zlib", "bzip2" or "xz"."""
    if packing == "bzip2":
        import bz2

        return bz2.BZ2Decompressor()
    if packing == "xz":
        import lzma

        return lzma.LZMADecompressor()
    return zlib.decompressobj(15 if packing == "zlib" else 31)


def _first_name(head: bytes) -> bytes:
    """Return the name of a ZIP archive's first entry."""
    return head[30 : 30 + int.from_bytes(head[26:28], "little")]


def _is_mgh(head: bytes) -> bool:
    """Whether a file begins as MGH: version 1, four positive sizes, a type, and zeros or ones behind."""
    if len(head) < 32 or head[:4] != b"\0\0\0\1":
        return False
    *sizes, kind, _, good = (int.from_bytes(head[at : at + 4], "big") for at in (4, 8, 12, 16, 20, 24, 28))
    return all(0 < size < 1 << 20 for size in sizes) and kind in _MGH_TYPES and good >> 16 in (0, 1)


def _is_bare_dicom(head: bytes) -> bool:
    """Whether a file begins with data elements of DICOM: without the preamble, in explicit or implicit form."""
    offset, last = 0, (0, 0)
    for number in range(_ELEMENTS):
        tag = (
            int.from_bytes(head[offset : offset + 2], "little"),
            int.from_bytes(head[offset + 2 : offset + 4], "little"),
        )
        if tag <= last or tag[0] not in ((2, 8) if not number else range(2, 0x30)):
            return False
        last, vr = tag, head[offset + 4 : offset + 6]
        if vr in _VRS:
            begin, width = (offset + 8, 4) if vr in _LONG_VRS else (offset + 6, 2)
        elif vr.isalpha():
            return False
        else:
            begin, width = offset + 4, 4
        length = int.from_bytes(head[begin : begin + width], "little")
        if length == 0xFFFFFFFF and number:
            return True  # a sequence of unknown length
        if length > len(head) or length % 2:
            return False
        offset = begin + width + length
    return offset <= len(head)
