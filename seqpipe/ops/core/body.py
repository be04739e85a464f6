"""Body: the CUDA C++ of an operator, inserted into a kernel skeleton that operators of its kind share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy.typing as npt

from .spec import KERNEL_DTYPES

__all__ = ["WORK", "Body", "KernelPass", "Work"]


@dataclass(frozen=True)
class Body:
    """The operator's part of a kernel.

    Attributes:
        kind: name of the skeleton, a file of ``ops/cuda`` without ``.cuh``. ``"value"``: statements that change
            ``Real value``, of channel ``int channel``; ``"pixel"``: statements that change ``Real pixel[CHANNELS]``;
            ``"gather"``: none, the mapping states where values are read. The other files document their requirements.
        text: the statements. ``row`` has the parameters and derived values. A ``Real`` is a float32 whose arithmetic is
            rounded after every operation, as NumPy's is.
        numbers: returns the integers that the skeleton includes as ``NUMBERS``; called at the first compilation.
    """

    kind: str
    text: str = ""
    numbers: Callable[[], Iterable[int]] = tuple


KernelPass: TypeAlias = tuple[str, int, int]
"""One launch of a kernel: its name, blocks for each image, and number of images."""


class Work(NamedTuple):
    """Division of a skeleton's work into launches and blocks.

    Attributes:
        tile: rows and columns of the pixels of a block, ``TALL`` and ``WIDE`` in the source; None for as many pixels as
            the block has threads, or a multiple, in memory order.
        kernels: the kernels; each processes all images before the next one starts.
        scratch: bytes of zeroed memory for each channel of each image, by dtype.
        pixels: most pixels of a thread, without tiles and with many blocks.
        tiles: most tiles of a block, with many blocks.
        fewer: factor of the number of blocks that count as many: greater if each block has a costly setup.
        choice: field of a row that holds the index of the kernel for an image; "" to run all kernels.
    """

    tile: tuple[int, int] | None = None
    kernels: tuple[str, ...] = ("each",)
    scratch: Mapping[str, int] = MappingProxyType({})
    pixels: int = 4
    tiles: int = 1
    fewer: int = 1
    choice: str = ""

    def launches(
        self, rows: npt.NDArray[Any], sizes: Collection[tuple[int, int]], images: int, threads: int
    ) -> list[KernelPass]:
        """Return the kernels that rows of parameters need, in order; each processes all images.

        Args:
            rows: the parameters.
            sizes: (height, width) of the results.
            images: number of images.
            threads: threads of a block.
        """
        blocks, names = 1, self.kernels
        for height, width in sizes:
            blocks = max(blocks, self.blocks(height, width, threads, images))
        if self.choice:
            chosen = set(rows[self.choice].tolist())
            names = tuple(name for number, name in enumerate(names) if number in chosen)
        return [(name, blocks, images) for name in names]

    def blocks(self, height: int, width: int, threads: int, images: int) -> int:
        """Return the number of blocks for each of some images."""
        if self.tile is not None:
            tall, wide = self.tile
            blocks, most = -(-height // tall) * -(-width // wide), self.tiles
        else:
            blocks, most = -(-height * width // threads), self.pixels
        # finding the image is half of a thread's work, so a thread computes several pixels if there are many
        return -(-blocks // max(1, min(most, blocks * images * self.fewer // _MANY)))


_MANY: Final = 1024  # blocks that occupy any GPU
_FOURS: Final = Work(pixels=16)
_BY_REACH: Final = Work(tile=(64, 256), kernels=("few", "near", "far"), tiles=2, fewer=2, choice="reach")
_SURVEYS: Final = Work(pixels=64, fewer=2)
_HISTOGRAM_BYTES: Final = {"uint8": 4 * 256 + 8, "uint16": 4 * 65536 + 8, "int16": 4 * 65536 + 8}
_TWO_NUMBERS: Final = MappingProxyType(dict.fromkeys(KERNEL_DTYPES, 16))
WORK: Final = MappingProxyType(
    {
        "canvas": _FOURS,
        "chain": _FOURS,
        "difference": _FOURS,
        "equalize": _SURVEYS._replace(kernels=("count", "each"), scratch=MappingProxyType(_HISTOGRAM_BYTES)),
        "erased": _FOURS,
        "filter": _BY_REACH,
        "gather": _FOURS,
        "gaussian": _BY_REACH._replace(kernels=(*_BY_REACH.kernels, "banded"), tiles=1),
        "jpeg": Work(tile=(64, 64), tiles=3, fewer=2),
        "mean": _BY_REACH,
        "median": _BY_REACH._replace(kernels=("few", "far")),
        "mixed": _FOURS,
        "moments": Work(tile=(1, 1), kernels=("add", "finish")),
        "one_hot": Work(tile=(1, 16384)),
        "order": _FOURS,
        "noise": Work(pixels=32),
        "pixel": _FOURS,
        "resample": Work(tile=(16, 256)),
        "separable": _BY_REACH,
        "shot": Work(pixels=256, fewer=3),
        "smoothed": _FOURS,
        "space": _FOURS,
        "statistics": Work(tile=(32, 256), kernels=("add", "spread", "each"), scratch=_TWO_NUMBERS),
        "surveyed": _SURVEYS._replace(kernels=("survey", "each"), scratch=_TWO_NUMBERS),
        "value": Work(pixels=32),
        "warp": Work(tile=(64, 64)),
    }
)
"""Work of the skeletons that use tiles, several kernels or several pixels for each thread."""
