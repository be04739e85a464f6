"""Train a 2-D network that labels the middle one of five slices ("2.5-D"), and print held-out Dice.

python -m data_scripts.make_sets hospitals DATA    # phantoms, if there is no other data
python examples/train_slices.py DATA/train.csv DATA/held_out.csv OUT [--epochs 6] [--device cuda]

``seqpipe.volumes`` cuts the stacks (``Patch((5, 48, 48))``), nnU-Net's recipe for slices augments them with one set of
parameters for each stack, and slices are the network's input channels. It takes a minute on a CPU.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch  # noqa: TID253  it trains with torch
from torch import nn  # noqa: TID253  likewise

import seqpipe
from seqpipe import Cache, Patch, ops, recipes
from seqpipe.torch import dice_ce
from seqpipe.volume import measure

STACK = (5, 48, 48)
MIDDLE = STACK[0] // 2


def main() -> None:
    """Train, and evaluate on the held-out cases."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("train", type=seqpipe.cases)
    parser.add_argument("held_out", type=seqpipe.cases)
    parser.add_argument("out", type=Path)
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
    normalized = ops.ZScore()
    ready = seqpipe.prepared(options.train, options.out / "prepared", normalized)
    stacks = seqpipe.volumes(ready, Patch(STACK, per_volume=64), shuffle=True, cache=Cache(gib=1))
    for epoch in stacks.batch(8).map(recipes.nnunet(dummy_2d=True)).epochs(options.epochs):
        for batch in epoch:
            image = batch["image"].torch()[..., 0].to(options.device)
            label = batch["label"].torch()[:, MIDDLE, :, :, 0].to(options.device)
            loss = dice_ce(model(image), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch.number}: loss {loss.item():.3f}", flush=True)
    border = ops.Pad3d(before=(MIDDLE, 0, 0), after=(MIDDLE, 0, 0), pad_mode="edge")
    rows = []
    for case in options.held_out:
        volume = normalized(seqpipe.open(case.parts["image"]).sequence())
        values = border(volume).torch()[..., 0].to(options.device)
        with torch.no_grad():
            labels = model(values.unfold(0, 5, 1).permute(0, 3, 1, 2)).argmax(dim=1).cpu().numpy()
        predicted = volume.with_pixels(labels.astype("uint8")[..., None], "DHWC")
        rows += measure(predicted, case.parts["label"], case=case.subject)
    print(f"held-out Dice {sum(row.dice for row in rows) / len(rows):.3f}")


if __name__ == "__main__":
    main()
