"""VTK images in files of XML (``.vti``): voxels as text, base64 or appended bytes, plain or packed by zlib or LZMA."""

from __future__ import annotations

import base64
import binascii
import lzma
import math
import re
import zlib
from dataclasses import dataclass
from typing import Any, Final, Literal
from xml.etree import ElementTree

import numpy as np

from ...errors import UnreadableSourceError
from ..source import AnyArray, Source, damaged
from ..space import from_axes
from .indexed import IndexedVolume, info_of_array
from .start import Start, bad_field, numbers, whole_numbers

__all__ = ["open_vti"]

_TYPES: Final = {
    f"{word}{bits}": np.dtype(f"{letter}{bits // 8}")
    for word, letter, sizes in (("Int", "i", (8, 16, 32, 64)), ("UInt", "u", (8, 16, 32, 64)), ("Float", "f", (32, 64)))
    for bits in sizes
}  # fmt: skip
_ORDERS: Final[dict[str, Literal["<", ">"]]] = {"LittleEndian": "<", "BigEndian": ">"}
_HEADERS: Final = {"UInt32": "u4", "UInt64": "u8"}
_PACKINGS: Final = {"vtkZLibDataCompressor": "zlib", "vtkLZMADataCompressor": "lzma"}
_APPENDED: Final = re.compile(rb"<AppendedData\s+encoding\s*=\s*[\"'](raw|base64)[\"']\s*>\s*_")
_TO_CORNER: Final = 0.5  # from the corner of a cell to its center


def open_vti(source: Source, start: Start, *, key: str | None = None) -> IndexedVolume:
    """Open an image of VTK's XML format; its voxels are in memory from the first read on.

    The array is the active scalars of the points, else the first array of the points or cells; ``key`` names another.
    The format does not name the directions of its axes: they count as LPS, as in ITK.
    """
    del start
    file = _File.of(source)
    image, pieces = file.image, [*file.image.iter("Piece")]
    name, of_cells = _chosen(pieces, key, source.name)
    extent = _extent(image.get("WholeExtent", ""), source.name, of_cells=of_cells)
    first = _array_of(pieces[0], name, source.name)
    dtype = _TYPES.get(first.get("type", ""))
    if dtype is None:
        raise bad_field("type", first.get("type", ""), ", ".join(_TYPES), source.name)
    channels = whole_numbers("NumberOfComponents", first.get("NumberOfComponents", "1"), 1, source.name)[0]
    spacing, origin, direction = (
        numbers(field, image.get(field, default), default.count(" ") + 1, source.name)
        for field, default in (("Spacing", "1 1 1"), ("Origin", "0 0 0"), ("Direction", "1 0 0 0 1 0 0 0 1"))
    )
    axes = direction.reshape(3, 3) * spacing
    corner = [low + _TO_CORNER * of_cells for low, _ in extent]
    shape = (*(high - low + 1 for low, high in reversed(extent)), channels)
    info = info_of_array(
        source.name, "vti", shape, dtype, "DHWC", from_axes(axes, origin + axes @ corner, lps=True), "vti",
        compressed=True, notes=("VTK does not name the directions of axes: LPS is assumed, as by ITK",),
    )  # fmt: skip
    kept: dict[str, AnyArray] = {}

    def window(cut: tuple[slice, ...]) -> Any:
        if "voxels" not in kept:
            voxels = np.zeros(shape, dtype)
            for piece in pieces:
                own = _extent(piece.get("Extent", ""), source.name, of_cells=of_cells)
                place = tuple(
                    slice(low - begin, high - begin + 1)
                    for (low, high), (begin, _) in zip(reversed(own), reversed(extent), strict=True)
                )
                into = voxels[place]
                found = file.voxels(_array_of(piece, name, source.name), dtype, into.size)
                into[...] = found.reshape(into.shape)
            kept["voxels"] = voxels
        return kept["voxels"][cut]

    return IndexedVolume(info, "DHWC", window, (source,), kept.clear)


@dataclass(frozen=True, eq=False)
class _File:
    """A parsed file.

    Attributes:
        name: name of the source.
        image: its element ``ImageData``.
        order: ``<`` or ``>``.
        header: dtype of the sizes in front of voxels.
        packing: ``"zlib"``, ``"lzma"``, or "" for none.
        appended: bytes of the appended voxels; empty without any.
        encoding: ``"raw"`` or ``"base64"``, of these.
    """

    name: str
    image: ElementTree.Element
    order: Literal["<", ">"]
    header: np.dtype[Any]
    packing: str
    appended: memoryview
    encoding: str

    @classmethod
    def of(cls, source: Source) -> _File:
        """Parse a file; appended bytes are not XML, so they are cut out first."""
        text, appended, encoding = source.read([(0, source.size())])[0], memoryview(b""), "raw"
        if found := _APPENDED.search(text):
            encoding, appended = found[1].decode(), memoryview(text)[found.end() :]
            text = text[: found.start()] + b"</VTKFile>"
        try:
            root = ElementTree.fromstring(text)
        except ElementTree.ParseError as error:
            raise UnreadableSourceError(
                f"the XML is damaged ({error})", source=source.name, advice="Fetch or write the file again"
            ) from error
        kind, packing = root.get("type", ""), root.get("compressor", "")
        image = root.find("ImageData")
        if root.tag != "VTKFile" or image is None or image.find("Piece") is None:
            raise UnreadableSourceError(
                f"this is VTK's {kind or 'file'} without an image", source=source.name, allowed="ImageData"
            )
        for field, value, known in (
            ("byte_order", root.get("byte_order", "LittleEndian"), _ORDERS),
            ("header_type", root.get("header_type", "UInt32"), _HEADERS),
            ("compressor", packing, {**_PACKINGS, "": ""}),
        ):
            if value not in known:
                raise bad_field(field, value, " or ".join(filter(None, known)), source.name)
        order = _ORDERS[root.get("byte_order", "LittleEndian")]
        header = np.dtype(order + _HEADERS[root.get("header_type", "UInt32")])
        return cls(source.name, image, order, header, _PACKINGS.get(packing, ""), appended, encoding)

    def voxels(self, array: ElementTree.Element, dtype: np.dtype[Any], count: int) -> AnyArray:
        """Return the values of an array in native byte order."""
        form, text = array.get("format", "ascii"), (array.text or "").encode()
        if form == "ascii":
            try:
                values = np.array(text.split(), dtype)
            except (ValueError, OverflowError) as error:
                raise damaged(self.name, f"the voxels are not numbers ({error})") from error
        else:
            if form == "appended":
                (offset,) = whole_numbers("offset", array.get("offset", ""), 1, self.name)
                stream, is_text = self.appended[max(0, offset) :], self.encoding == "base64"
            elif form == "binary":
                stream, is_text = memoryview(b"".join(text.split())), True
            else:
                raise bad_field("format", form, "ascii, binary, appended", self.name)
            data = self._content(stream, count * dtype.itemsize, is_text=is_text)
            whole = len(data) - len(data) % dtype.itemsize
            values = np.frombuffer(data[:whole], dtype.newbyteorder(self.order)).astype(dtype)
        if len(values) != count:
            raise damaged(self.name, f"the extent promises {count} values, and there are {len(values)}")
        return values

    def _content(self, stream: memoryview, size: int, *, is_text: bool) -> bytes:
        """Return the bytes behind their header: their size, or of blocks their number, sizes and packed sizes."""
        if not self.packing:
            whole = _decoded(stream, self.header.itemsize + size, self.name, is_text=is_text)
            if (stated := self._sizes(whole, 1)[0]) != size:
                raise damaged(self.name, f"the voxels have {stated} bytes, and the extent needs {size}")
            return whole[self.header.itemsize :]
        count, block, last = self._sizes(
            _decoded(stream, 3 * self.header.itemsize, self.name, is_text=is_text), 3
        )
        if count * block > size + block:
            raise damaged(self.name, f"{count} blocks of {block} bytes are more than the extent's {size}")
        head = (3 + count) * self.header.itemsize
        packed = self._sizes(_decoded(stream, head, self.name, is_text=is_text), 3 + count)[3:]
        behind = stream[4 * math.ceil(head / 3) if is_text else head :]
        data, begin, parts = _decoded(behind, sum(packed), self.name, is_text=is_text), 0, []
        for number, length in enumerate(packed):
            most = last if last and number == count - 1 else block
            parts.append(self._unpacked(data[begin : begin + length], most))
            begin += length
        return b"".join(parts)

    def _sizes(self, data: bytes, count: int) -> list[int]:
        """Return numbers of the header's integer type."""
        if len(data) < count * self.header.itemsize:
            raise damaged(self.name, "the file ends before the voxels")
        return [int(n) for n in np.frombuffer(data, self.header, count)]

    def _unpacked(self, data: bytes, most: int) -> bytes:
        """Return a decompressed block."""
        try:
            if self.packing == "zlib":
                return zlib.decompressobj().decompress(data, max(1, most))
            return lzma.LZMADecompressor().decompress(data, max(1, most))
        except (zlib.error, lzma.LZMAError) as error:
            raise damaged(self.name, f"the compressed voxels are damaged ({error})") from error


def _decoded(stream: memoryview, size: int, name: str, *, is_text: bool) -> bytes:
    """Return the first bytes of a stream, fewer if it is shorter."""
    if not is_text:
        return bytes(stream[:size])
    try:
        return base64.b64decode(bytes(stream[: 4 * math.ceil(size / 3)]))[:size]
    except binascii.Error as error:
        raise damaged(name, f"the base64 text is damaged ({error})") from error


def _extent(text: str, name: str, *, of_cells: bool) -> list[tuple[int, int]]:
    """Return the first and the last index of columns, rows and slices."""
    ends = whole_numbers("Extent", text, 6, name)
    pairs = [(low, high - of_cells) for low, high in zip(ends[::2], ends[1::2], strict=True)]
    if any(high < low for low, high in pairs):
        raise bad_field("Extent", text, "a first index of at most the last one", name)
    return pairs


def _chosen(pieces: list[ElementTree.Element], key: str | None, source: str) -> tuple[str, bool]:
    """Return the name of the array to read, and whether it belongs to cells."""
    groups = [(kind, pieces[0].find(kind)) for kind in ("PointData", "CellData")]
    every = [
        (element.get("Name", ""), kind == "CellData", group.get("Scalars"))
        for kind, group in groups
        if group is not None
        for element in group.iter("DataArray")
    ]
    if key is not None:
        every = [entry for entry in every if entry[0] == key]
    if not every:
        raise UnreadableSourceError(
            "there is no array of voxels" if key is None else f"there is no array {key!r}", source=source
        )
    active = [entry for entry in every if entry[0] == entry[2]]
    return (active or every)[0][:2]


def _array_of(piece: ElementTree.Element, name: str, source: str) -> ElementTree.Element:
    """Return the element of the named array."""
    for element in piece.iter("DataArray"):
        if element.get("Name", "") == name:
            return element
    raise UnreadableSourceError(f"a piece has no array {name!r}", source=source)
