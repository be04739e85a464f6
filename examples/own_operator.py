"""Custom operators: a decorated function, and a class with a CUDA kernel; random, per frame, repeatable.

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


# A function of float32 images (F, H, W, C) is enough for an operator. It runs on the device of its arrays.
@seqpipe.operator(strength=param(0.5, "how dark the corners become", lo=0, hi=1, identity=0.0))
def vignette(x: Any, strength: Any) -> Any:
    """Darken the corners."""
    height, width = x.shape[1:3]
    # like=x creates the arrays on the device of x
    rows = (np.arange(0.5, height, dtype=np.float32, like=x) / height * 2 - 1).reshape(-1, 1, 1)
    columns = (np.arange(0.5, width, dtype=np.float32, like=x) / width * 2 - 1).reshape(1, -1, 1)
    return x * (1 - strength * (rows * rows + columns * columns) / 2)


# A class also declares bounds, examples for tests, and the body of a CUDA kernel.
class Duotone(Op):
    """Blend every pixel with its gray value in the color of the tint."""

    amount: Number = param(0.5, "how far", lo=0, hi=1, identity=0.0)
    tint: Number = param((1.0, 0.9, 0.7), "red, green and blue of the color", kind=float, size=3, lo=0, hi=1)

    channels = (3,)
    examples = ({"amount": 1.0}, {"amount": (0.0, 1.0), "seed": 2})
    errors = (({"amount": 2}, "amount=2 is not valid; allowed: a number from 0 to 1"),)

    def reference(self, x: Any, p: Any) -> Any:
        """Compute the result with NumPy; tests compare the kernel with it."""
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
    """Run both on a generated clip, and print the results; returns the exit code."""
    clip = np.random.default_rng(0).integers(0, 256, (4, 120, 160, 3), dtype=np.uint8)
    duotone = Duotone(amount=(0.2, 0.9), p=0.8, seed=7)
    print(duotone)

    # Sampled values depend only on (seed, name, epoch, index): sample 3 is the same alone and in a batch.
    batch = duotone(np.stack([clip] * 8), epoch=1, index=0)
    alone = duotone(clip, epoch=1, index=3)
    print("sample 3 alone and in a batch:", "equal" if (batch[3] == alone).all() else "different")

    fading = vignette(clip, strength=per_frame([0.0, 0.3, 0.6, 1.0]))
    print("mean level of each frame:", *(f"{frame.mean():.0f}" for frame in fading))

    # Parameters are sampled once for an image and its other parts.
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
