"""Stacks of pictures: the pages of a TIFF file, or one file a slice, decoded by OpenCV."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from typing import Any, Final

import numpy as np

from ...array import FloatArray
from ...errors import UnreadableSourceError
from ..info import VolumeInfo
from ..source import AnyArray, Box, Source, chosen_times, damaged, open_source
from .npy import plain_affine
from .start import Start

__all__ = ["PictureStack", "TiffStack", "natural_order", "open_pictures", "open_tiff"]

_DIGITS = re.compile(r"(\d+)")
_SPACING = re.compile(rb"spacing=([0-9.eE+-]+)")
_NOTE: Final = "pictures have no place in space: {spacing}, right, anterior, superior is assumed"


def natural_order(names: Iterable[str]) -> list[str]:
    """Names sorted as people sort them: ``slice_9`` before ``slice_10``."""
    return sorted(names, key=lambda name: [int(p) if p.isdigit() else p.lower() for p in _DIGITS.split(name)])


def open_pictures(names: Iterable[str], folder: str) -> PictureStack:
    """The stack of the pictures of a folder, in the natural order of their names."""
    return PictureStack([open_source(name) for name in natural_order(names)], folder)


def open_tiff(source: Source, start: Start) -> TiffStack:
    """The pages of a TIFF file.

    Args:
        source: the file.
        start: its first bytes.

    Raises:
        UnreadableSourceError: OpenCV cannot decode it.
    """
    if start.compression is not None:
        raise UnreadableSourceError(
            "the whole file is a gzip stream", source=source.name, advice="Unpack it first"
        )
    return TiffStack(source)


class PictureStack:
    """A :class:`~seqpipe.volume.source.VolumeSource` of one picture a slice.

    Args:
        sources: the pictures, in order.
        name: of all of them together.

    Raises:
        UnreadableSourceError: the first one cannot be decoded.
    """

    def __init__(self, sources: Seq[Source], name: str) -> None:
        self._sources = list(sources)
        first = _decoded(self._sources[0])
        self.info = _info(name, (len(self._sources), *first.shape), first.dtype, plain_affine(), 1.0)

    def read(self, box: Box, times: Seq[int] | None = None) -> AnyArray:
        """Voxels as they are stored; see :class:`~seqpipe.volume.source.VolumeSource`."""
        box = box.checked(self.info)
        chosen_times(self.info, times)
        made = np.empty((*box.shape, self.info.channels), dtype=self.info.dtype)
        _, rows, columns = box.slices
        for target, source in zip(made, self._sources[box.d[0] : box.d[1]], strict=True):
            picture = _decoded(source)
            if picture.shape != self.info.shape[1:] or picture.dtype != self.info.dtype:
                raise UnreadableSourceError(
                    f"the picture is {_what(picture)}, but the first of the stack is "
                    f"{'×'.join(map(str, self.info.shape[1:]))} {self.info.dtype}",
                    source=source.name,
                    advice="All pictures of a stack need one size and type",
                )
            target[:] = picture[rows, columns]
        return made

    @property
    def sources(self) -> Seq[Source]:
        """Files that hold the voxels."""
        return self._sources

    def close(self) -> None:
        """Give back the files."""
        for source in self._sources:
            source.close()


class TiffStack:
    """A :class:`~seqpipe.volume.source.VolumeSource` of the pages of one file.

    Args:
        source: the file.

    Raises:
        UnreadableSourceError: OpenCV cannot decode it, or its pages differ in size.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        cv2 = _cv2()
        data = np.frombuffer(source.read([(0, source.size())])[0], dtype=np.uint8)
        try:
            done, pages = cv2.imdecodemulti(data, cv2.IMREAD_UNCHANGED)
        except cv2.error:
            done, pages = False, ()
        if not done or not pages:
            raise UnreadableSourceError(
                "OpenCV cannot decode this TIFF file",
                source=source.name,
                advice="Convert it to plain pages of 8 or 16 bits, or 32-bit floats",
            )
        if len({(page.shape, page.dtype) for page in pages}) > 1:
            listed = ", ".join(dict.fromkeys(_what(page) for page in pages))
            raise UnreadableSourceError(
                f"the pages differ: {listed}", source=source.name, advice="All pages need one size and type"
            )
        self._pages: AnyArray | None = np.stack([_channels(page) for page in pages])
        # ImageJ writes the distance of pages into the description
        found = _SPACING.search(bytes(data[:4096]))
        spacing = float(found[1]) if found and float(found[1]) > 0 else 1.0
        affine = plain_affine((spacing, 1.0, 1.0))
        self.info = _info(source.name, self._pages.shape, self._pages.dtype, affine, spacing)

    def read(self, box: Box, times: Seq[int] | None = None) -> AnyArray:
        """Voxels as they are stored; see :class:`~seqpipe.volume.source.VolumeSource`."""
        box = box.checked(self.info)
        chosen_times(self.info, times)
        if self._pages is None:
            self._pages = TiffStack(self._source)._pages
        if self._pages is None:
            raise damaged(self.info.source, "the pages are gone")
        return self._pages[box.slices].copy()

    @property
    def sources(self) -> Seq[Source]:
        """Files that hold the voxels."""
        return (self._source,)

    def close(self) -> None:
        """Give back the file and its pages."""
        self._pages = None
        self._source.close()


def _info(
    name: str, shape: tuple[int, ...], dtype: np.dtype[Any], affine: FloatArray, spacing: float
) -> VolumeInfo:
    return VolumeInfo(
        source=name,
        format="stack",
        shape=shape,
        layout="DHWC",
        dtype=dtype,
        affine=affine,
        space="assumed",
        compressed=True,
        notes=(
            _NOTE.format(spacing="1 mm" if spacing == 1 else f"{spacing:g} mm between slices, 1 mm in them"),
        ),
    )


def _decoded(source: Source) -> AnyArray:
    """A picture, ``HWC``; colors are RGB."""
    cv2 = _cv2()
    data = np.frombuffer(source.read([(0, source.size())])[0], dtype=np.uint8)
    try:
        picture = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    except cv2.error:
        picture = None
    source.close()
    if picture is None:
        raise UnreadableSourceError(
            "this picture cannot be decoded",
            source=source.name,
            allowed="PNG, TIFF, JPEG, BMP, PGM, WebP",
            advice="It is damaged, or of another format",
        )
    return _channels(picture)


def _channels(picture: AnyArray) -> AnyArray:
    if picture.ndim == 2:
        return picture[..., None]
    order = [2, 1, 0, 3][: picture.shape[2]]  # OpenCV has blue first
    return picture if len(order) < 3 else picture[..., order]


def _what(picture: AnyArray) -> str:
    return f"{'×'.join(map(str, picture.shape))} {picture.dtype}"


def _cv2() -> Any:
    import cv2

    return cv2
