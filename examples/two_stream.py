"""A two-stream action classifier: one frame for appearance, optical flow for motion.

    python examples/two_stream.py [FOLDER] [--device cuda]

FOLDER has a folder of videos for each class. Without one, a small dataset is generated whose classes differ in motion
only, so that only the second stream can distinguish them. Training needs the extra ``torch``.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import seqpipe
from seqpipe import fn, ops
from seqpipe.parts import Flow

SIDE, FRAMES, EPOCHS = 56, 5, 3
CROP = ops.RandomResizedCrop(size=(SIDE, SIDE), random_area=(0.6, 1.0), seed=1)


def streams(batch: seqpipe.Batch, epoch: int) -> tuple[Any, Any]:
    """Return the first frame of each sample ``NHWC``, and the flow of all frames ``NFHWC``, with the same crop."""
    motion = fn.optical_flow(batch, preset="fast")
    cropped = CROP({"clip": batch, "flow": Flow(motion)}, epoch=epoch)
    (first,) = fn.element_extract(cropped["clip"], element_map=0)
    return first, cropped["flow"].data


def tensors(batch: seqpipe.Batch, epoch: int) -> tuple[Any, Any, Any]:
    """Return both streams as inputs of networks, ``NCHW``, and the labels."""
    import torch

    first, motion = streams(batch, epoch)
    frames = first.torch().permute(0, 3, 1, 2).float() / 127.5 - 1
    flow = motion.torch().permute(0, 1, 4, 2, 3).flatten(1, 2)  # x and y of each pair are channels
    flow = torch.nan_to_num(flow).clamp(-8, 8) / 4
    return frames, flow, torch.from_numpy(np.array(batch.labels)).to(frames.device)


def network(channels: int, classes: int) -> Any:
    """Return a small convolutional network with a score for each class."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(channels, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, classes),
    )


def train(train_set: seqpipe.Dataset, test_set: seqpipe.Dataset, classes: int, device: str) -> None:
    """Train both streams, and print the accuracy of each and of their sum."""
    import torch
    from torch.nn.functional import cross_entropy

    torch.manual_seed(0)
    nets = [network(3, classes).to(device), network(2 * (FRAMES - 1), classes).to(device)]
    optimizer = torch.optim.Adam([p for net in nets for p in net.parameters()], lr=4e-3)
    for epoch in range(EPOCHS):
        losses = []
        for batch in train_set.batch(16).epoch(epoch):
            *inputs, labels = tensors(batch["image"], epoch)
            loss = sum(cross_entropy(net(x), labels) for net, x in zip(nets, inputs, strict=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: loss {np.mean(losses):.3f}")

    right, count = np.zeros(3), 0
    with torch.no_grad():
        for batch in test_set.batch(16):
            *inputs, labels = tensors(batch["image"], 0)
            scores = [net(x).softmax(1) for net, x in zip(nets, inputs, strict=True)]
            for index, score in enumerate([*scores, sum(scores)]):
                right[index] += int((score.argmax(1) == labels).sum())
            count += len(labels)
    frame, flow, both = right / count
    print(f"of {count} samples right: by the frame {frame:.0%}, by the flow {flow:.0%}, by both {both:.0%}")


def clips(files: list[Path], device: str) -> seqpipe.Dataset:
    """Return short sequences of files, whose folders are their classes."""
    names = [path.parent.name for path in files]
    listed = seqpipe.listing(files, labels=names, classes=sorted(set(names)))
    output = seqpipe.OutputSpec(short_side=64)
    return seqpipe.videos(listed, FRAMES, output=output, shuffle=True, device=device)


def main() -> int:
    """Generate the dataset if none is given, print the streams, and train; returns the exit code."""
    parser = argparse.ArgumentParser(description="Two streams for an action classifier.")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder
        if folder is None:
            sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
            from data_scripts.make_motion import make_motion

            folder = Path(scratch)
            make_motion(folder)
        files = sorted(path for path in folder.glob("*/*") if path.is_file())
        classes = sorted({path.parent.name for path in files})
        held_out = files[3::4]
        training = [path for path in files if path not in held_out]
        sets = [clips(part, options.device) for part in (training, held_out)]
        print(f"{len(files)} videos of the classes {', '.join(classes)}")
        first, motion = streams(next(iter(sets[0].batch(4)))["image"], epoch=0)
        print(f"frames {first}\nflow {motion}")
        if importlib.util.find_spec("torch") is None:
            print("torch is not installed, so nothing is trained: pip install 'seqpipe[torch]'")
            return 0
        train(*sets, len(classes), options.device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
