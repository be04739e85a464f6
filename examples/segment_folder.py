"""From a folder of the Medical Decathlon to predictions and a table of their Dice and surface distances.

python -m data_scripts.make_sets decathlon DATA    # balls, if there is no other data
python examples/segment_folder.py DATA/Task99_Balls OUT [--epochs 20] [--device cuda]
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path

import torch  # noqa: TID253  it trains with torch
from torch import nn  # noqa: TID253  likewise

import seqpipe
from seqpipe import Patch, recipes
from seqpipe.readers import published_volumes
from seqpipe.volume import keep_largest, measure, save, write_table


def network(channels: int, classes: int) -> nn.Sequential:
    """Return five convolutions, which see 11 voxels along each axis."""
    sizes, layers = [channels, 8, 16, 16, 16], []
    for before, after in pairwise(sizes):
        layers += [nn.Conv3d(before, after, 3, padding=1), nn.InstanceNorm3d(after), nn.LeakyReLU()]
    return nn.Sequential(*layers, nn.Conv3d(16, classes, 3, padding=1))


def main() -> None:
    """Fingerprint, prepare, train on four of five folds, predict the fifth, measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    cases = published_volumes.decathlon(options.folder).checked().cases
    facts = seqpipe.fingerprint(cases.fold(0, 5), options.out / "fingerprint.jsonl")
    head, prepare = recipes.nnunet_normalization(facts), facts.prepare()
    ready = seqpipe.prepared(cases.fold(0, 5), options.out / "prepared", head, prepare=prepare)
    patch = Patch(facts.patch_size, per_volume=2, around="balanced", pad="constant")
    patches = seqpipe.volumes(ready, patch, shuffle=True, device=options.device)
    torch.manual_seed(0)
    model = network(len(facts.channels), 1 + len(facts.class_counts)).to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for epoch in patches.map(recipes.nnunet(facts)).batch(2).epochs(options.epochs):
        for batch in epoch:
            scores = model(batch["image"].torch().movedim(-1, 1))
            loss = nn.functional.cross_entropy(scores, batch["label"].torch()[..., 0].long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    table = []
    for case in cases.fold(0, 5, validation=True):
        image = case.parts["image"]
        labels = seqpipe.infer(
            model, image, facts.patch_size, prepare=prepare, head=head, device=options.device
        )
        save(keep_largest(labels), options.out / f"{case.subject}.nii.gz")
        table += measure(keep_largest(labels), case.parts["label"], case=case.subject)
    write_table(table, options.out / "table.csv")
    print(
        "\n".join(
            f"{row.case}, class {row.label}: Dice {row.dice:.3f}, {row.hd95_mm:.1f} mm" for row in table
        )
    )


if __name__ == "__main__":
    main()
