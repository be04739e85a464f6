"""Stacks of 2-D images, one file per slice, decoded by OpenCV.

OpenCV multiplies the colors of a TIFF image by its alpha channel.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Seq

import numpy as np

from ...core.files.images import decode_pixels
from ...core.natural_order import natural_order
from ...errors import UnreadableSourceError
from ..info import VolumeInfo
from ..source import AnyArray, Box, Source, chosen_times, open_source
from .npy import plain_affine

__all__ = ["ImageStack", "open_images"]


def open_images(names: Iterable[str], folder: str) -> ImageStack:
    """Open the images of a folder as a stack, in the natural order of their names."""
    return ImageStack([open_source(name) for name in natural_order(names)], folder)


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
        self.info = VolumeInfo(
            source=name,
            format="stack",
            shape=(len(self._sources), *first.shape),
            layout="DHWC",
            dtype=first.dtype,
            affine=plain_affine(),
            space="assumed",
            compressed=True,
            notes=("images have no affine: 1 mm, right, anterior, superior is assumed",),
        )

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


def _decoded(source: Source) -> AnyArray:
    """Decode an image to ``HWC``; colors are RGB."""
    import cv2

    data = np.frombuffer(source.read([(0, source.size())])[0], dtype=np.uint8)
    try:
        image = decode_pixels(data, cv2.IMREAD_UNCHANGED, source.name)
    finally:
        source.close()
    return image[..., None] if image.ndim == 2 else image


def _describe(image: AnyArray) -> str:
    """Return the size and dtype of an image in words."""
    return f"{'×'.join(map(str, image.shape))} {image.dtype}"
