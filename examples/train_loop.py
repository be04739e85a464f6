"""The input of a training loop: two epochs of shuffled, augmented batches, interrupted and resumed once.

    python examples/train_loop.py VIDEO [VIDEO …] [--device cuda]

Uses torch if it is installed, else NumPy; pixels are not copied.
"""

from __future__ import annotations

import argparse
import importlib.util

import seqpipe
from seqpipe import ops

AUGMENT = ops.Chain(
    ops.RandomResizedCrop(size=(112, 112), random_area=(0.5, 1.0)),
    ops.Flip(p=0.5),
    ops.BrightnessContrast(brightness=(0.8, 1.2), contrast=(0.8, 1.2)),
)

HAS_TORCH = importlib.util.find_spec("torch") is not None


def train(epoch: int, number: int, batch: seqpipe.Batch) -> None:
    """Stand in for the step of a model on a batch (N, F, H, W, C): return the mean of its pixels, scaled to 0…1.

    Augmentation depends only on the epoch and the sample, so it is the same after a restart.
    """
    batch = AUGMENT(batch, epoch=epoch)
    if HAS_TORCH:
        mean = float(batch.torch().float().div(255).mean())
    else:
        mean = float((batch.numpy().astype("float32") / 255).mean())
    print(f"epoch {epoch} batch {number}: {batch.shape}, first frames {batch.frames[:, 0]}, mean {mean:.4f}")


def reader_of(videos: list[str], device: str) -> seqpipe.readers.Video:
    """Return sequences of every second frame, 8 each, scaled while decoding, in a new order in every epoch."""
    return seqpipe.readers.Video(
        files=videos,
        sequence_length=8,
        stride=2,
        short_side=128,
        shuffle=True,
        seed=0,
        device=device,
    )


def main() -> None:
    """Train for two epochs; in the second one, restart from a saved state after the first batch."""
    parser = argparse.ArgumentParser(description="Two epochs of shuffled batches.")
    parser.add_argument("videos", nargs="+")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:N or auto")
    options = parser.parse_args()
    videos, device = options.videos, options.device

    reader = reader_of(videos, device)
    print(f"{len(reader)} sequences, {'torch' if HAS_TORCH else 'NumPy'}")
    for epoch in range(2):
        reader.set_epoch(epoch)
        batches = reader.batches(2)
        for number, batch in enumerate(batches):
            train(epoch, number, batch)
            if epoch == 1 and number == 0:
                break
    state = batches.state_dict()  # plain values, to be stored with the model's weights

    print("starting over from the saved state")
    batches = reader_of(videos, device).batches(2)
    batches.load_state_dict(state)
    for number, batch in enumerate(batches, start=1):
        train(1, number, batch)


if __name__ == "__main__":
    main()
