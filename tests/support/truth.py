"""What made files show, so that a sequence of them can be judged: by the CPU's pictures, or by their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

import seqpipe
from data_scripts.frame_code import find, read
from seqpipe.array import IntArray
from seqpipe.errors import DamagedSourceError
from seqpipe.sequence import Sequence
from seqpipe.video.convert.output import OutputSpec
from tests.support.media import entries, made, made_all

__all__ = ["DAMAGED", "PLAIN", "Known", "known_file", "known_files", "unlike"]

DAMAGED: Final = ("h264_flip_disposable", "h264_lost_reference", "hevc_lost_reference", "h264_lost_key")
"""Files whose damage every decoder notices."""
PLAIN: Final = OutputSpec()
"""The output that :class:`Known` has pictures of."""


@dataclass(frozen=True, eq=False)
class Known:
    """A file and the truth about it.

    Attributes:
        path: of the file.
        codec: its codec.
        numbers: what its frames show.
        pictures: (frames, rows, columns, 3), as the CPU gives them; black where a frame is lost.
        lost: frames that cannot be decoded.
        turns: quarter turns of its pictures, as :func:`data_scripts.frame_code.read` takes them.
        mirrored: whether they are mirrored, likewise.
    """

    path: str
    codec: str
    numbers: tuple[int, ...]
    pictures: NDArray[np.uint8]
    lost: frozenset[int]
    turns: int
    mirrored: bool

    def __len__(self) -> int:
        """How many frames it has."""
        return len(self.numbers)

    def __str__(self) -> str:
        return Path(self.path).name

    def number(self, picture: NDArray[Any]) -> int:
        """What a picture of it shows.

        Raises:
            ValueError: no number.
        """
        return read(picture, turns=self.turns, mirrored=self.mirrored)


def known_files(count: int = 0) -> list[Known]:
    """So many of the made files that are whole, of all kinds, or all of them; then the damaged ones."""
    whole = [*made_all("sound"), *made_all("mixed")]
    indices = np.linspace(0, len(whole) - 1, min(count or len(whole), len(whole))).round().astype(int)
    return [known_file(name) for name in (*(whole[i].name for i in indices), *DAMAGED)]


def known_file(name: str) -> Known:
    """An item, read as a whole on the CPU, each of whose pictures shows its number."""
    entry, path = entries()[name], str(made(name))
    with seqpipe.open(path) as reader:
        every, lost = range(len(reader)), frozenset[int]()
        try:
            reader.frames(every)
        except DamagedSourceError as error:
            lost = frozenset(error.lost)
        sound = [number for number in every if number not in lost]
        some = reader.frames(sound).numpy()
        pictures = np.zeros((len(every), *some.shape[1:]), np.uint8)
        pictures[sound] = some
        _, turns, mirrored = find(some[0])
        known = Known(path, reader.info.codec, entry.numbers, pictures, lost, turns, mirrored)
    if [known.number(picture) for picture in some] != [entry.numbers[i] for i in sound]:
        raise AssertionError(f"{path}: the CPU gives other frames than were drawn")
    return known


def unlike(sequence: Sequence, frames: IntArray, output: OutputSpec, known: Known, tolerance: float) -> str:
    """What is wrong with a sequence that was to be of these frames of a file; "" if it is right.

    Args:
        sequence: what came.
        frames: what was asked for.
        output: how it was asked for; pictures of PLAIN are held against the CPU's as a whole.
        known: the file.
        tolerance: the most that the values of a picture may be from the CPU's on average, in levels.
    """
    if sequence.frames is None or sequence.frames.tolist() != frames.tolist():
        return f"frames {sequence.frames} came"
    if sequence.source != known.path:
        return f"it is said to be of {sequence.source}"
    pixels = sequence.numpy()
    pixels = pixels if pixels.ndim == 4 else pixels[None]
    if output.layout == "FCHW":
        pixels = pixels.transpose(0, 2, 3, 1)
    if output.mirror:
        pixels = pixels[:, :, ::-1]
    if output == PLAIN:
        apart = [_apart(picture, known.pictures[i]) for i, picture in zip(frames, pixels, strict=True)]
        wrong = [index for index, levels in enumerate(apart) if levels > tolerance]
    else:
        apart = []
        wrong = np.flatnonzero(
            (_cells(pixels, known) != _cells(known.pictures[frames], known)).any(1)
        ).tolist()
    for index in wrong:
        frame = int(frames[index])
        levels = f", {apart[index]:.2f} levels from it" if apart else ""
        return f"frame {frame} should show {known.numbers[frame]}{levels}: {_shown(pixels[index], known)}"
    return ""


def _apart(picture: NDArray[np.uint8], other: NDArray[np.uint8]) -> float:
    """Mean distance of the values; infinite where shapes differ."""
    return cv2.norm(picture, other, cv2.NORM_L1) / picture.size if picture.shape == other.shape else np.inf


def _cells(pictures: NDArray[Any], known: Known) -> NDArray[np.bool_]:
    """Which cells of each picture's frame code are white, (frames, 36)."""
    planes = np.rot90(pictures[..., 0].astype(np.float32), known.turns, axes=(1, 2))  # cells are gray
    planes = planes[:, :, ::-1] if known.mirrored else planes
    means = _middles(8, planes.shape[1])[:3] @ planes @ _middles(12, planes.shape[2]).T
    flat = means.reshape(len(pictures), -1)
    white: NDArray[np.bool_] = flat > (flat.max(1, keepdims=True) + flat.min(1, keepdims=True)) / 2
    return white


@cache
def _middles(cells: int, length: int) -> NDArray[np.float32]:
    """(cells, length): what the middle half of each of so many cells weighs."""
    positions = (np.arange(length) + 0.5) * cells / length - np.arange(cells)[:, None]
    weights = ((positions > 0.25) & (positions < 0.75)).astype(np.float32)
    weights /= weights.sum(1, keepdims=True)
    return weights


def _shown(picture: NDArray[Any], known: Known) -> str:
    try:
        return f"it shows {known.number(picture)}"
    except ValueError as error:
        return str(error)
