"""Operators of one's own: a function made one, and a class with a kernel; random, per frame, repeatable.

python examples/own_operator.py [OUT.png]
"""

from __future__ import annotations

import sys
from typing import Any

import cv2
import numpy as np

import seqpipe
from seqpipe.ops import Body, Number, Op, param, per_frame
from seqpipe.parts import Boxes, Labels


# A function on images (F, H, W, C) in float32 is all that an operator needs. It runs wherever arrays are.
@seqpipe.operator(strength=param(0.5, "how dark the corners become", lo=0, hi=1, identity=0.0))
def vignette(x: Any, strength: Any) -> Any:
    """Darken the corners."""
    height, width = x.shape[1:3]
    # like=x: on a GPU, these arrays are there, too
    rows = (np.arange(0.5, height, dtype=np.float32, like=x) / height * 2 - 1).reshape(-1, 1, 1)
    columns = (np.arange(0.5, width, dtype=np.float32, like=x) / width * 2 - 1).reshape(1, -1, 1)
    return x * (1 - strength * (rows * rows + columns * columns) / 2)


# A class says more: bounds, examples for tests, and a body that runs as a CUDA kernel where there is a GPU.
class Duotone(Op):
    """Move every pixel towards a line between black and one color."""

    amount: Number = param(0.5, "how far", lo=0, hi=1, identity=0.0)
    tint: Number = param((1.0, 0.9, 0.7), "red, green and blue of the color", kind=float, size=3, lo=0, hi=1)

    channels = (3,)
    examples = ({"amount": 1.0}, {"amount": (0.0, 1.0), "seed": 2})
    errors = (({"amount": 2}, "amount=2 is not valid; allowed: a number from 0 to 1"),)

    def reference(self, x: Any, p: Any) -> Any:
        """The mean of red, green and blue, in the color of the tint."""
        gray = (x[..., 0:1] + x[..., 1:2] + x[..., 2:3]) / np.float32(3)
        return x + (gray * p.tint - x) * p.amount

    body = Body(
        "pixel",
        """
        const Real gray = (pixel[0] + pixel[1] + pixel[2]) / 3.0f;
        for (int c = 0; c < CHANNELS; c++) pixel[c] = pixel[c] + (gray * row.tint[c] - pixel[c]) * row.amount;
        """,
    )


def main() -> int:
    """Run both on a made clip, print what came of it; returns the exit code."""
    clip = np.random.default_rng(0).integers(0, 256, (4, 120, 160, 3), dtype=np.uint8)
    duotone = Duotone(amount=(0.2, 0.9), p=0.8, seed=7)
    print(duotone)

    # Draws depend on (seed, name, epoch, index) alone: sample 3 is the same alone and within a batch.
    batch = duotone(np.stack([clip] * 8), epoch=1, index=0)
    alone = duotone(clip, epoch=1, index=3)
    print("sample 3 alone and in a batch:", "equal" if (batch[3] == alone).all() else "different")

    fading = vignette(clip, strength=per_frame([0.0, 0.3, 0.6, 1.0]))
    print("mean level of each frame:", *(f"{frame.mean():.0f}" for frame in fading))

    # One draw for an image and for what belongs to it.
    boxes = np.array([[10.0, 20.0, 50.0, 60.0]])
    sample = {"clip": clip, "mask": Labels(clip[..., 0] > 128), "boxes": Boxes(boxes)}
    flipped = seqpipe.ops.Flip()(sample)
    print("box after a flip:", *flipped["boxes"].data[0])

    try:
        vignette(clip, strength=1.5)
    except seqpipe.ParameterError as error:
        print("refused:", error)
    if len(sys.argv) > 1:
        cv2.imwrite(sys.argv[1], np.hstack([*fading])[..., ::-1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
