"""The input of a training loop: two epochs of shuffled, augmented batches, interrupted and resumed once.

    python examples/train_loop.py VIDEO [VIDEO …] [--device cuda]

Uses torch if it is installed, else NumPy; pixels are not copied.
"""

from __future__ import annotations

import argparse
import importlib.util

import seqpipe
from seqpipe import Clip, OutputSpec, ops

AUGMENT = ops.Chain(
    ops.RandomResizedCrop(size=(112, 112), random_area=(0.5, 1.0)),
    ops.Flip(p=0.5),
    ops.BrightnessContrast(brightness=(0.8, 1.2), contrast=(0.8, 1.2)),
)

HAS_TORCH = importlib.util.find_spec("torch") is not None


def train(epoch: int, batch: seqpipe.dataset.Samples) -> None:
    """Stand in for the step of a model on a batch (N, F, H, W, C): print the mean of its pixels, scaled to 0…1."""
    clips = batch["image"]
    mean = float(clips.torch().float().mean() if HAS_TORCH else clips.numpy().mean()) / 255
    print(f"epoch {epoch} {clips.shape}, first frames {batch['frames'][:, 0]}, mean {mean:.4f}")


def clips_of(videos: list[str], device: str) -> seqpipe.Dataset:
    """Return sequences of every second frame, 8 each, scaled while decoding, in a new order in every epoch."""
    output = OutputSpec(short_side=128)
    return seqpipe.videos(videos, Clip(8, stride=2), output=output, device=device, shuffle=True).map(AUGMENT)


def main() -> None:
    """Train for two epochs; in the second one, restart from a saved state after the first batch."""
    parser = argparse.ArgumentParser(description="Two epochs of shuffled batches.")
    parser.add_argument("videos", nargs="+")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:N or auto")
    options = parser.parse_args()

    clips = clips_of(options.videos, options.device)
    print(f"{clips.size} sequences, {'torch' if HAS_TORCH else 'NumPy'}")
    for epoch in clips.batch(2).epochs(2):
        for batch in epoch:
            train(epoch.number, batch)
            state = batch.state  # plain values, to be stored with the model's weights
            if epoch.number == 1:
                break

    print("starting over from the saved state")
    for epoch in clips_of(options.videos, options.device).batch(2).epochs(2, resume=state):
        for batch in epoch:
            train(epoch.number, batch)


if __name__ == "__main__":
    main()
