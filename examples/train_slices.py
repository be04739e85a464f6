"""Train a 2-D network that labels the middle one of five slices ("2.5-D"), and print held-out Dice.

    python examples/train_slices.py [--epochs 6] [--device cuda]

``seqpipe.volumes`` cuts the stacks (``Patch((5, 48, 48))``), nnU-Net's recipe for slices augments them with one set of
parameters for each stack, and slices are the network's input channels. It takes a minute on a CPU.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch  # noqa: TID253  it trains with torch
from torch import nn  # noqa: TID253  likewise
from train_segmentation import dice, loss_of, phantom

import seqpipe
from seqpipe import Cache, Patch, ops, recipes
from seqpipe.volume import save

STACK = (5, 48, 48)
MIDDLE = STACK[0] // 2


def main() -> None:
    """Train, and evaluate on phantoms of the held-out distribution."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.manual_seed(0)
    layers = [nn.Conv2d(5, 16, 3, padding=1), nn.InstanceNorm2d(16), nn.ReLU()]
    for dilation in (2, 4, 1):
        layers += [
            nn.Conv2d(16, 16, 3, padding=dilation, dilation=dilation),
            nn.InstanceNorm2d(16),
            nn.ReLU(),
        ]
    model = nn.Sequential(*layers, nn.Conv2d(16, 3, 1)).to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number in range(6):
            pair = {name: Path(folder) / f"{number}-{name}.nii.gz" for name in ("image", "label")}
            for part, path in zip(phantom(number, other=False), pair.values(), strict=True):
                save(part, path)
            files.append(pair)
        stacks = seqpipe.volumes(files, Patch(STACK, per_volume=32), shuffle=True, cache=Cache(gib=1))
        for epoch in stacks.batch(8).map(recipes.nnunet(dummy_2d=True)).epochs(options.epochs):
            for batch in epoch:
                image = batch["image"].torch()[..., 0].to(options.device)
                label = batch["label"].torch()[:, MIDDLE, :, :, 0].long().to(options.device)
                loss = loss_of(model(image)[:, :, None], label[:, None])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch.number}: loss {loss.item():.3f}", flush=True)
    scores = []
    for image, label in (phantom(number, other=True) for number in range(4)):
        border = ops.Pad3d(before=(MIDDLE, 0, 0), after=(MIDDLE, 0, 0), pad_mode="edge")
        values = torch.from_numpy(border(image).data[..., 0].copy()).to(options.device)
        with torch.no_grad():
            labels = model(values.unfold(0, 5, 1).permute(0, 3, 1, 2)).argmax(dim=1).cpu().numpy()
        scores.append(dice(labels, label.data[..., 0]))
    print(f"held-out Dice {np.mean(scores):.3f}")


if __name__ == "__main__":
    main()
