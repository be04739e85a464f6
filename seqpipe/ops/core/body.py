"""Body: what an operator does on a GPU, as CUDA C++ that goes into a skeleton shared by all of its kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy.typing as npt

from .spec import FAST

__all__ = ["WORK", "Body", "KernelPass", "Work"]


@dataclass(frozen=True)
class Body:
    """The part of a kernel that is an operator's own.

    Attributes:
        kind: the skeleton, a file of ``kernels`` without its ``.cuh``. ``"value"``: statements that change
            ``Real value``, which is that of ``int channel``; ``"pixel"``: statements that change
            ``Real pixel[CHANNELS]``; ``"gather"``: none, values are fetched from where the mapping says. What others
            need, their files say.
        text: the statements. ``row`` has the parameters and derived fields. A ``Real`` is a float32 whose
            arithmetic is rounded after every operation, as NumPy's is.
        numbers: what gives the whole numbers that the skeleton asks for by ``NUMBERS``; made when first compiled.
    """

    kind: str
    text: str = ""
    numbers: Callable[[], Iterable[int]] = tuple


KernelPass: TypeAlias = tuple[str, int, int]
"""A kernel that is done with images before the next one begins: its name, blocks for each, and how many images."""


class Work(NamedTuple):
    """How the work of a skeleton is cut into launches and blocks.

    Attributes:
        tile: rows and columns of the pixels that a block makes, ``TALL`` and ``WIDE`` in the source; None for as many
            pixels as it has threads, in the order of reading, or some times as many.
        passes: the kernels, each of which is done with all images before the next one begins.
        scratch: for types of values, bytes of memory for each channel of each image, at first 0.
        pixels: how many a thread makes, where it is not by tiles and there are very many.
        tiles: how many a block makes where there are very many, if it goes on until there are no more.
        fewer: a factor by which fewer blocks are very many already: for each has something to make first, or some
            would have nothing to make.
        choice: the field of a row that says by its number which one of the passes an image needs; "" for all of them.
    """

    tile: tuple[int, int] | None = None
    passes: tuple[str, ...] = ("each",)
    scratch: Mapping[str, int] = MappingProxyType({})
    pixels: int = 4
    tiles: int = 1
    fewer: int = 1
    choice: str = ""

    def launches(
        self, rows: npt.NDArray[Any], sizes: Collection[tuple[int, int]], images: int, threads: int
    ) -> list[KernelPass]:
        """Return the passes that rows of parameters need, in order; each is for all images.

        Args:
            rows: the parameters.
            sizes: (height, width) of the results.
            images: number of images.
            threads: threads of a block.
        """
        blocks, names = 1, self.passes
        for height, width in sizes:
            blocks = max(blocks, self.blocks(height, width, threads, images))
        if self.choice:
            chosen = set(rows[self.choice].tolist())
            names = tuple(name for number, name in enumerate(names) if number in chosen)
        return [(name, blocks, images) for name in names]

    def blocks(self, height: int, width: int, threads: int, images: int) -> int:
        """How many blocks each of some images takes."""
        if self.tile is not None:
            tall, wide = self.tile
            blocks, most = -(-height // tall) * -(-width // wide), self.tiles
        else:
            blocks, most = -(-height * width // threads), self.pixels
        # to find its image is half of a thread's work, so that they make several pixels if there are many
        return -(-blocks // max(1, min(most, blocks * images * self.fewer // _MANY)))


_MANY: Final = 1024  # blocks, which any GPU has enough to do with
_FOURS: Final = Work(pixels=16)
_BY_REACH: Final = Work(tile=(64, 256), passes=("few", "near", "far"), tiles=2, fewer=2, choice="reach")
_SURVEYS: Final = Work(pixels=64, fewer=2)
_LEVELS: Final = {"uint8": 4 * 256 + 8, "uint16": 4 * 65536 + 8, "int16": 4 * 65536 + 8}
_TWO_NUMBERS: Final = MappingProxyType(dict.fromkeys(FAST, 16))
WORK: Final = MappingProxyType(
    {
        "canvas": _FOURS,
        "chain": _FOURS,
        "difference": _FOURS,
        "equalize": _SURVEYS._replace(passes=("count", "each"), scratch=MappingProxyType(_LEVELS)),
        "erased": _FOURS,
        "filter": _BY_REACH,
        "gather": _FOURS,
        "gaussian": _BY_REACH._replace(passes=(*_BY_REACH.passes, "banded"), tiles=1),
        "jpeg": Work(tile=(64, 64), tiles=3, fewer=2),
        "mean": _BY_REACH,
        "median": _BY_REACH._replace(passes=("few", "far")),
        "mixed": _FOURS,
        "moments": Work(tile=(1, 1), passes=("add", "finish")),
        "one_hot": Work(tile=(1, 16384)),
        "order": _FOURS,
        "noise": Work(pixels=32),
        "pixel": _FOURS,
        "resample": Work(tile=(16, 256)),
        "separable": _BY_REACH,
        "shot": Work(pixels=256, fewer=3),
        "smoothed": _FOURS,
        "space": _FOURS,
        "statistics": Work(tile=(32, 256), passes=("add", "spread", "each"), scratch=_TWO_NUMBERS),
        "surveyed": _SURVEYS._replace(passes=("survey", "each"), scratch=_TWO_NUMBERS),
        "value": Work(pixels=32),
        "warp": Work(tile=(64, 64)),
    }
)
"""The work of the skeletons that have not one thread for a pixel, or for a few."""
