"""Data sets of every source, small, for tests that hold for all of them."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import seqpipe
from seqpipe import Clip, Dataset, Patch, Segments, Spread, Whole, fn, ops
from seqpipe.parts import Labels
from seqpipe.readers import Listing, Range
from seqpipe.volume import save
from tests.golden.media import folder

__all__ = ["MAKERS", "cases", "gist", "listed"]

_RNG = np.random.default_rng(7)
_PICTURES = [_RNG.integers(0, 255, (24, 32, 3), dtype=np.uint8) for _ in range(13)]
_MASKS = [(picture[..., :1] > 120).astype(np.uint8) for picture in _PICTURES]


@cache
def listed() -> Listing:
    """Three videos in two classes."""
    root = folder() / "videos"
    return seqpipe.listing(
        [root / "0/a.mp4", root / "0/b.mp4", root / "1/c.mkv"], labels=[0, 0, 1], classes=("0", "1")
    )


@cache
def parts_of() -> Listing:
    """Parts of these videos, of different lengths."""
    names = [entry.name for entry in listed().entries] * 3
    ranges = [Range(start_frame=n, end_frame=n + 4 + n % 4) for n in range(len(names))]
    return seqpipe.listing(names, ranges=ranges)


@cache
def cases() -> list[dict[str, str]]:
    """Five volumes with labels {0, 2}, of different sizes."""

    out = Path(tempfile.mkdtemp(prefix="seqpipe-cases"))
    atexit.register(shutil.rmtree, out, ignore_errors=True)
    rng = np.random.default_rng(3)
    for number in range(5):
        image = rng.integers(-1000, 1000, (12 + number, 16, 18, 1)).astype(np.int16)
        affine = np.diag([2.0, 1, 1, 1])
        save(seqpipe.Sequence(image, "DHWC", affine=affine), out / f"image{number}.nii.gz")
        labels = (image > 600).astype(np.uint8) * 2
        save(seqpipe.Sequence(labels, "DHWC", affine=affine), out / f"label{number}.nii.gz")
    return [
        {"image": str(out / f"image{n}.nii.gz"), "label": str(out / f"label{n}.nii.gz")} for n in range(5)
    ]


def _picture(index: int) -> dict[str, Any]:
    return {"image": _PICTURES[index], "mask": Labels(_MASKS[index]), "number": index}


def listed_pictures() -> list[Any]:
    """Pictures as a list of arrays."""
    return list(_PICTURES)


def _branches(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Nodes of two uses of the images, one of them drawn."""
    mirrored = fn.flip(parts["image"], horizontal=fn.random.coin_flip(seed=2))
    return {
        "image": fn.crop(mirrored, crop=(20, 24), crop_pos_x=0.2),
        "small": fn.resize(parts["image"], size=(9, 9)),
    }


_FLIPS = (ops.RandomResizedCrop(size=(16, 16)), ops.Flip(p=0.5))

MAKERS: dict[str, Callable[[], Dataset]] = {
    "windows": lambda: seqpipe.videos(listed(), Clip(4, step=3), shuffle=True).map(
        *_FLIPS, ops.BrightnessContrast(brightness=(0.8, 1.2))
    ),
    "unshuffled": lambda: seqpipe.videos(listed(), Clip(4, step=3)).map(ops.Flip(p=0.5)),
    "clips": lambda: seqpipe.videos(
        listed(), Clip(4, per_video=3, together=True, repeats=2), shuffle=True, seed=3
    ).map(*_FLIPS),
    "segments": lambda: seqpipe.videos(listed(), Segments(3), shuffle=True).map(*_FLIPS),
    "whole": lambda: seqpipe.videos(parts_of(), Whole(stride=2), shuffle=True).map(*_FLIPS),
    "spread": lambda: seqpipe.videos(parts_of(), Spread(fps=8.0, max_count=6), shuffle=True).map(*_FLIPS),
    "graph": lambda: seqpipe.videos(listed(), Clip(4, step=3), shuffle=True).graph(_branches),
    "views": lambda: seqpipe.videos(listed(), Clip(4, step=8)).views((32, 32), count=3).map(ops.Flip(p=0.5)),
    "patches": lambda: seqpipe.volumes(
        cases(), Patch((6, 8, 8), per_volume=4, around="balanced", mix=2), shuffle=True
    ).map(ops.RandomAffine3d(rotate=(-15.0, 15.0)), ops.GaussianBlur(sigma=(0.5, 1.0))),
    "items": lambda: seqpipe.items(_picture, size=13, shuffle=True).map(
        ops.Rotate(angle=(-20.0, 20.0), keep_size=True), ops.Brightness(brightness=(0.5, 1.5))
    ),
    "lists": lambda: seqpipe.items(
        {"image": _PICTURES, "mask": _MASKS}, parts={"mask": Labels}, shuffle=True, seed=2
    ).map(ops.Flip(p=0.5)),
    "zip": lambda: seqpipe.zip(
        left=seqpipe.items(_PICTURES, shuffle=True), right=seqpipe.items(_PICTURES)
    ).map(ops.Flip(p=0.5)),
}


def gist(samples: Any) -> list[tuple[Any, ...]]:
    """Index and content of each sample of a batch, comparable."""
    rows = []
    for number, index in enumerate(samples["index"].tolist()):
        parts = [
            (name, np.asarray(value[number].numpy()).tobytes())
            for name, value in samples.items()
            if isinstance(value, seqpipe.Batch)
        ]
        rows.append((index, *parts))
    return rows
