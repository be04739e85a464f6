"""The table of encodings (data_scripts/encodings.py) for tests, and how a GPU is compared with the CPU on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_scripts.encodings import ENCODINGS, make_encoding
from data_scripts.media_encode import FFmpegError
from seqpipe.sequence import Sequence
from seqpipe.video.convert.output import OutputSpec
from seqpipe.video.engine.engine import Engine
from seqpipe.video.index.open import open_index
from seqpipe.video.plan import Request
from tests.support.media import MADE_DIR

__all__ = ["SHOWN_AGAIN", "assert_all_frames_alike", "encoding", "encodings"]

_MOST_APART = 1  # a GPU rounds colors once at the end
_SCALED = {"vp8_sizes", "vp9_sizes"}  # to the size of the first picture: rounded once more on the CPU
_SCALED_APART = 4  # planes are rounded before the matrix, whose factors are up to 2
SHOWN_AGAIN = {
    "vp9_pyramid",
    "vp9_pyramid_split",
    "vp9_shown_again",
    "vp9_shown_twice_again",
    "vp9_hidden_shown",
    "vp9_hidden_shown_split",
}
"""Encodings with packets that show an earlier frame again, for which NVDEC's parser never calls back."""
_RUN = 24


def encodings(*prefixes: str) -> list[str]:
    """The names of the table, or those that begin so."""
    return [name for name in ENCODINGS if not prefixes or name.startswith(prefixes)]


def encoding(name: str) -> Path:
    """The file of an encoding, made if it is not there; skips the test where it cannot be made."""
    try:
        return make_encoding(name, MADE_DIR / "encodings")
    except FFmpegError as error:
        pytest.skip(str(error))


def assert_all_frames_alike(path: Path, cpu: Engine, gpu: Engine, *, single: int = 16, **output: Any) -> None:
    """Every frame in order, backwards, at random, and in runs with strides, is that of the CPU; some also alone.

    Args:
        path: the video.
        cpu: gives the frames that are right.
        gpu: the engine to compare.
        single: how many are asked for alone.
        output: of both, as :class:`OutputSpec` takes it.
    """
    spec = OutputSpec(**output)
    count = len(open_index(str(path)))
    order = np.arange(count)
    sequence = cpu.read([Request(str(path), order, output=spec)])[0]
    assert isinstance(sequence, Sequence), sequence
    wanted = np.asarray(sequence.data)
    random = np.random.default_rng(0)
    shuffled = random.permutation(count)
    strides = [
        random.integers(0, count) + np.arange(8) * stride for stride in (1, 1, 2, 3, 5) for _ in range(2)
    ]
    runs = [order, order[::-1], *np.split(order, range(_RUN, count, _RUN)), shuffled]
    runs += [frames[frames < count] for frames in strides]
    runs += [np.array([number]) for number in shuffled[:single]]
    scaled = path.stem in _SCALED
    for _ in range(2):  # the second time by sessions that have decoded such a stream before
        compare(path, gpu, spec, runs, wanted, most=_SCALED_APART if scaled else _MOST_APART)
    gray = replace(spec, color="GRAY")
    exact = cpu.read([Request(str(path), order, output=gray)])[0]
    compare(path, gpu, gray, [order, shuffled], exact.numpy(), most=_MOST_APART if scaled else 0)


def compare(
    path: Path,
    gpu: Engine,
    spec: OutputSpec,
    runs: list[np.ndarray],
    wanted: np.ndarray,
    *,
    most: int,
) -> None:
    """What a GPU gives for some runs of frames is within so many levels of all frames that are wanted."""
    requests = [Request(str(path), frames, output=spec) for frames in runs]
    for frames, got in zip(runs, gpu.read(requests), strict=True):
        what = f"{path.name}, asked for {frames.tolist()}"
        assert isinstance(got, Sequence), f"{what}: {got}"
        assert_alike(what, frames, wanted, got, most)


def assert_alike(what: str, frames: np.ndarray, wanted: np.ndarray, got: Sequence, most: int) -> None:
    """Frames are those of the CPU; it is told which are not, and whose picture came instead."""
    assert got.frames is not None
    assert got.frames.tolist() == frames.tolist(), what
    data = got.numpy().astype(np.int16)
    apart = np.abs(data - wanted[frames])
    wrong = np.flatnonzero(apart.max(axis=(1, 2, 3)) > most)
    if wrong.size:
        came = {
            int(frames[index]): int(np.abs(wanted - data[index]).mean(axis=(1, 2, 3)).argmin())
            for index in wrong[:12]
        }
        raise AssertionError(
            f"{what}: {wrong.size} of {len(frames)} frames are wrong by up to {apart.max()}; "
            f"most alike are {came} (wanted: came)"
        )
