"""Damaged copies of images, and what reading one may never do: see :mod:`tests.support.fuzz`.

A small file takes no more memory than the pixels that its bytes can hold.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

import seqpipe
from seqpipe.images import decode_image
from tests.support.fuzz import Mutant, Verdict
from tests.support.media import MADE_DIR

__all__ = ["sources", "tried"]

_MOST_MIB = 1100  # what the limit of pixels allows, with a copy
_PILLOW: dict[str, tuple[str, dict[str, Any]]] = {
    "plain.jpg": ("RGB", {}),
    "progressive.jpg": ("RGB", {"progressive": True}),
    "gray.jpg": ("L", {}),
    "cmyk.jpg": ("CMYK", {}),
    "restart.jpg": ("RGB", {"restart_marker_rows": 1}),
    "plain.png": ("RGB", {}),
    "alpha.png": ("RGBA", {}),
    "palette.png": ("P", {}),
    "bits.png": ("1", {}),
    "deep.png": ("I;16", {}),
    "plain.bmp": ("RGB", {}),
    "palette.bmp": ("P", {}),
    "plain.tif": ("RGB", {}),
    "lzw.tif": ("RGB", {"compression": "tiff_lzw"}),
    "deflate.tif": ("L", {"compression": "tiff_adobe_deflate"}),
    "packed.tif": ("L", {"compression": "packbits"}),
    "jpeg.tif": ("RGB", {"compression": "jpeg"}),
    "lossy.webp": ("RGB", {}),
    "lossless.webp": ("RGBA", {"lossless": True}),
    "plain.jp2": ("RGB", {}),
    "plain.ppm": ("RGB", {}),
    "plain.pgm": ("L", {}),
    "plain.pbm": ("1", {}),
}


def sources(which: str) -> list[Path]:
    """Return the images to damage; there are none among the shared files."""
    folder = MADE_DIR / "images"
    folder.mkdir(parents=True, exist_ok=True)
    rows, columns = np.mgrid[:52, :68]
    picture = np.stack([rows * 4, columns * 3, (rows * columns) % 251], -1).astype(np.uint8)
    orientation = Image.Exif()
    orientation[0x112] = 6
    for name, (mode, options) in _PILLOW.items():
        image = Image.fromarray(picture)
        image = Image.fromarray(rows.astype(np.uint16) * 999) if mode == "I;16" else image.convert(mode)
        image.save(folder / name, **options)
    Image.fromarray(picture).save(folder / "turned.jpg", exif=orientation)
    Image.fromarray(picture).save(folder / "turned.png", exif=orientation)
    cv2.imwrite(str(folder / "text.ppm"), picture, [cv2.IMWRITE_PXM_BINARY, 0])
    return sorted(folder.iterdir()) if which != "shared" else []


def tried(subject: Mutant, folder: Path, *, device: str = "cpu", seed: int = 0) -> Verdict:
    """Decode a mutant in several forms, and read it as a frame of a folder and as a stack of slices.

    Args:
        subject: the mutant.
        folder: for its file.
        device: where frames are to be.
        seed: decides, with its number, which forms come first.
    """
    verdict, rng = Verdict(), random.Random(f"images {seed} {subject.number}")
    frames = folder / f"{subject.number}"
    frames.mkdir()
    path = frames / f"1{Path(subject.name).suffix}"
    ways = [
        lambda color=color: decode_image(subject.data, color) for color in ("RGB", "GRAY", "any", "YCbCr")
    ]
    ways += [lambda: seqpipe.open(frames, device=device)[:], lambda: seqpipe.open(path, device=device)]
    shapes = set()
    with verdict.bounded(subject, _MOST_MIB):
        path.write_bytes(subject.data)
        for number, way in rng.sample(list(enumerate(ways)), len(ways)):
            with verdict.judged(subject):
                result = way()
                if number < 4:
                    shapes.add(result.shape[:2])
        shutil.rmtree(frames)
    if len(shapes) > 1:
        verdict.faults.append(f"{subject}: its size is {shapes}")
    return verdict
