"""Fusion of random crops, flips and normalization with the color conversion of decoded frames: time and difference.

    python examples/augment_while_decoding.py VIDEO [VIDEO …] [--device cuda]

Reads the same batches four times: with the whole chain after decoding, and with its first operators fused into the
color conversion, for each ``fuse``. Prints the passes over the pixels, the seconds of an epoch, and how far
values differ.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import seqpipe
from seqpipe import Clip, Dataset, ops

MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
CHAIN = ops.Chain(
    ops.RandomResizedCrop(size=(112, 112)),
    ops.Flip(p=0.5),
    ops.CropMirrorNormalize(mean=MEAN, std=STD, dtype="float32", output_layout="CHW"),
)


def epoch_of(dataset: Dataset) -> tuple[list[np.ndarray], float]:
    """Return all batches of an epoch in main memory, and the seconds that they took."""
    begin = time.perf_counter()
    batches = [batch["image"].numpy() for batch in dataset]
    return batches, time.perf_counter() - begin


def main() -> None:
    """Read the same epoch with each ``fuse``."""
    parser = argparse.ArgumentParser(description="A chain of operators by the reader's conversion.")
    parser.add_argument("videos", nargs="+")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:N or auto")
    options = parser.parse_args()

    clips = seqpipe.videos(options.videos, Clip(8, stride=2), shuffle=True, device=options.device)
    with clips.map(CHAIN).batch(4) as data:
        plain = None
        for fuse in ("none", "exact", "surface"):
            print(f"fuse={fuse!r}")
            print(data.fuse(fuse).explain())
            batches, seconds = epoch_of(data.fuse(fuse))
            if plain is None:
                plain = batches
            levels = np.reshape(STD, (3, 1, 1))
            apart = max(np.abs((a - b) * levels).max() for a, b in zip(batches, plain, strict=True))
            print(
                f"   {sum(map(len, batches))} sequences in {seconds:.2f} s, at most {apart:.2f} levels apart"
            )


if __name__ == "__main__":
    main()
