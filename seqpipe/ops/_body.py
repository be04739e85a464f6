"""Body: what an operator does on a GPU, as CUDA C++ that goes into a skeleton shared by all of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from ._spec import COMPUTED

__all__ = ["WORK", "Body", "Work"]


@dataclass(frozen=True)
class Body:
    """The part of a kernel that is an operator's own.

    Attributes:
        kind: the skeleton, a file of this package without its ``.cuh``. ``"value"``: statements that change
            ``Real value``, which is that of ``int channel``; ``"placed"``: the same, and they look at where it is,
            ``int y`` and ``int x``, so that they cannot join others in a chain; ``"pixel"``: statements that change
            ``Real pixel[CHANNELS]``; ``"gather"``: none, values are fetched from where the mapping says. What others
            need, their files say.
        text: the statements. ``row`` has the parameters and derived fields. A ``Real`` is a float32 whose
            arithmetic is rounded after every operation, as NumPy's is.
    """

    kind: str
    text: str = ""

    @property
    def skeleton(self) -> str:
        """The file that the statements go into, without its ``.cuh``."""
        return "value" if self.kind == "placed" else self.kind


class Work(NamedTuple):
    """How the work of a skeleton is cut into launches and blocks.

    Attributes:
        tile: rows and columns of the pixels that a block makes, ``TALL`` and ``WIDE`` in the source; None for as many
            pixels as it has threads, in the order of reading, or some times as many.
        passes: the kernels, each of which is done with all images before the next one begins.
        scratch: for types of values, bytes of memory for each channel of each image, at first 0.
    """

    tile: tuple[int, int] | None = None
    passes: tuple[str, ...] = ("each",)
    scratch: Mapping[str, int] = MappingProxyType({})

    def blocks(self, height: int, width: int, threads: int, images: int) -> int:
        """How many blocks each of some images takes."""
        if self.tile is not None:
            tall, wide = self.tile
            return -(-height // tall) * -(-width // wide)
        blocks = -(-height * width // threads)
        # to find its image is half of a thread's work, so that they make several pixels if there are many
        return blocks if blocks * images < _MANY else -(-blocks // _PIXELS)


_MANY: Final = 4096  # blocks, which any GPU has enough to do with
_PIXELS: Final = 4
_LEVELS: Final = {"uint8": 4 * 256 + 8, "uint16": 4 * 65536 + 8, "int16": 4 * 65536 + 8}
_TWO_NUMBERS: Final = MappingProxyType(dict.fromkeys(COMPUTED, 16))
WORK: Final = MappingProxyType(
    {
        "equalize": Work(tile=(32, 256), passes=("count", "each"), scratch=MappingProxyType(_LEVELS)),
        "filter": Work(tile=(32, 32)),
        "jpeg": Work(tile=(32, 32)),
        "median": Work(tile=(32, 32)),
        "resample": Work(tile=(16, 256)),
        "separable": Work(tile=(64, 32)),
        "statistics": Work(tile=(32, 256), passes=("add", "spread", "each"), scratch=_TWO_NUMBERS),
        "surveyed": Work(tile=(32, 256), passes=("survey", "each"), scratch=_TWO_NUMBERS),
    }
)
"""The work of the skeletons that have not one thread for each pixel."""
