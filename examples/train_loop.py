"""The data side of a training loop: two epochs of shuffled batches, stopped once and continued where it was.

    python examples/train_loop.py VIDEO [VIDEO …] [--device cuda]

Uses torch if it is installed, else NumPy; the pixels are shared with it, not copied.
"""

from __future__ import annotations

import argparse
import importlib.util

import seqpipe

HAS_TORCH = importlib.util.find_spec("torch") is not None


def train(epoch: int, number: int, batch: seqpipe.Batch) -> None:
    """What a model would do with a batch (N, F, H, W, C); here, the mean of its pixels scaled to 0…1."""
    if HAS_TORCH:
        mean = float(batch.torch().float().div(255).mean())
    else:
        mean = float((batch.numpy().astype("float32") / 255).mean())
    print(f"epoch {epoch} batch {number}: {batch.shape}, first frames {batch.frames[:, 0]}, mean {mean:.4f}")


def reader_of(videos: list[str], device: str) -> seqpipe.readers.Video:
    """Sequences of 8 frames, every second frame, small and in a new order in every epoch."""
    return seqpipe.readers.Video(
        files=videos,
        sequence_length=8,
        stride=2,
        output=seqpipe.OutputSpec(size=(112, 112)),
        shuffle=True,
        seed=0,
        device=device,
    )


def main() -> None:
    """Train for two epochs; in the second one, start over from a saved state after the first batch."""
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
    state = batches.state_dict()  # plain values: store them beside the model's weights

    print("starting over from the saved state")
    batches = reader_of(videos, device).batches(2)
    batches.load_state_dict(state)
    for number, batch in enumerate(batches, start=1):
        train(1, number, batch)


if __name__ == "__main__":
    main()
