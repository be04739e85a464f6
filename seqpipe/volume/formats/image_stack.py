"""Stacks of 2-D images: the pages of a TIFF file, or one file per slice, decoded by OpenCV.

OpenCV multiplies the colors of a TIFF image by its alpha channel.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from typing import Any, Final

import numpy as np

from ...array import FloatArray
from ...core.natural_order import natural_order
from ...errors import UnreadableSourceError
from ..info import VolumeInfo
from ..source import AnyArray, Box, Source, chosen_times, damaged, open_source
from .npy import plain_affine
from .start import Start

__all__ = ["ImageStack", "TiffStack", "open_images", "open_tiff"]

_SPACING = re.compile(rb"spacing=([0-9.eE+-]+)")
_NOTE: Final = "images have no affine: {spacing}, right, anterior, superior is assumed"


def open_images(names: Iterable[str], folder: str) -> ImageStack:
    """Open the images of a folder as a stack, in the natural order of their names."""
    return ImageStack([open_source(name) for name in natural_order(names)], folder)


def open_tiff(source: Source, start: Start) -> TiffStack:
    """Open the pages of a TIFF file as a stack.

    Args:
        source: the file.
        start: its first bytes.

    Raises:
        UnreadableSourceError: OpenCV cannot decode it.
    """
    del start
    return TiffStack(source)


class ImageStack:
    """A :class:`~seqpipe.volume.source.VolumeSource` with one image per slice.

    Args:
        sources: the images, in order.
        name: name of the stack.

    Raises:
        UnreadableSourceError: the first image cannot be decoded.
    """

    def __init__(self, sources: Seq[Source], name: str) -> None:
        self._sources = list(sources)
        first = _decoded(self._sources[0])
        self.info = _info(name, (len(self._sources), *first.shape), first.dtype, plain_affine(), 1.0)

    def read(self, box: Box, times: Seq[int] | None = None) -> AnyArray:
        """Read voxels in their stored dtype; see :class:`~seqpipe.volume.source.VolumeSource`."""
        box = box.checked(self.info)
        chosen_times(self.info, times)
        result = np.empty((*box.shape, self.info.channels), dtype=self.info.dtype)
        _, rows, columns = box.slices
        for target, source in zip(result, self._sources[box.d[0] : box.d[1]], strict=True):
            image = _decoded(source)
            if image.shape != self.info.shape[1:] or image.dtype != self.info.dtype:
                raise UnreadableSourceError(
                    f"the image is {_describe(image)}, but the first of the stack is "
                    f"{'×'.join(map(str, self.info.shape[1:]))} {self.info.dtype}",
                    source=source.name,
                    advice="All images of a stack must have the same size and dtype",
                )
            target[:] = image[rows, columns]
        return result

    @property
    def sources(self) -> Seq[Source]:
        """The files with the voxels."""
        return self._sources

    def close(self) -> None:
        """Close the files."""
        for source in self._sources:
            source.close()


class TiffStack:
    """A :class:`~seqpipe.volume.source.VolumeSource` with the pages of one file.

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
            listed = ", ".join(dict.fromkeys(_describe(page) for page in pages))
            raise UnreadableSourceError(
                f"the pages differ: {listed}",
                source=source.name,
                advice="All pages must have the same size and dtype",
            )
        self._pages: AnyArray | None = np.stack([_channels(page) for page in pages])
        # ImageJ writes the spacing of the pages into the description
        spacing = _spacing(bytes(data[:4096]))
        affine = plain_affine((spacing, 1.0, 1.0))
        self.info = _info(source.name, self._pages.shape, self._pages.dtype, affine, spacing)

    def read(self, box: Box, times: Seq[int] | None = None) -> AnyArray:
        """Read voxels in their stored dtype; see :class:`~seqpipe.volume.source.VolumeSource`."""
        box = box.checked(self.info)
        chosen_times(self.info, times)
        if self._pages is None:
            self._pages = TiffStack(self._source)._pages
        if self._pages is None:
            raise damaged(self.info.source, "the pages can no longer be decoded")
        return self._pages[box.slices].copy()

    @property
    def sources(self) -> Seq[Source]:
        """The files with the voxels."""
        return (self._source,)

    def close(self) -> None:
        """Close the file and release its pages."""
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


def _spacing(head: bytes) -> float:
    """Return the spacing of pages in mm that a description states; 1 if it states none that is valid."""
    match = _SPACING.search(head)
    try:
        spacing = float(match[1]) if match else 1.0
    except ValueError:  # such as "1e" or "."
        return 1.0
    return spacing if 0 < spacing < math.inf else 1.0


def _decoded(source: Source) -> AnyArray:
    """Decode an image to ``HWC``; colors are RGB."""
    cv2 = _cv2()
    data = np.frombuffer(source.read([(0, source.size())])[0], dtype=np.uint8)
    try:
        image = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    except cv2.error:
        image = None
    source.close()
    if image is None:
        raise UnreadableSourceError(
            "the image cannot be decoded",
            source=source.name,
            allowed="PNG, TIFF, JPEG, BMP, PGM, WebP",
            advice="The file is damaged, or of another format",
        )
    return _channels(image)


def _channels(image: AnyArray) -> AnyArray:
    if image.ndim == 2:
        return image[..., None]
    order = [2, 1, 0, 3][: image.shape[2]]  # OpenCV decodes to BGR
    return image if len(order) < 3 else image[..., order]


def _describe(image: AnyArray) -> str:
    return f"{'×'.join(map(str, image.shape))} {image.dtype}"


def _cv2() -> Any:
    import cv2

    return cv2
