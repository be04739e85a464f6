"""Train a 3-D network with and without augmentation, write predictions for a viewer, and compare held-out Dice.

python -m data_scripts.make_sets hospitals DATA    # phantoms; the held-out ones are like those of another hospital
python examples/train_segmentation.py DATA/train.csv DATA/held_out.csv OUT [--epochs 60] [--device cuda]

Both lists may be anything that seqpipe.cases takes. Predictions of DICOM series are DICOM segmentations, others NIfTI.
"""

import argparse
from itertools import pairwise
from pathlib import Path

import torch  # noqa: TID253  it trains with torch
from torch import nn  # noqa: TID253  likewise

import seqpipe
from seqpipe import Patch, ops, recipes
from seqpipe.torch import dice_ce
from seqpipe.volume import measure, save, save_dicom_seg, write_table

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("train", type=seqpipe.cases)
parser.add_argument("held_out", type=seqpipe.cases)
parser.add_argument("out", type=Path)
parser.add_argument("--epochs", type=int, default=60)
parser.add_argument("--device", default="cpu")
options = parser.parse_args()
facts = seqpipe.fingerprint(options.train, options.out / "fingerprint.jsonl")
head, prepare = recipes.nnunet_normalization(facts), facts.prepare()
ready = seqpipe.prepared(options.train, options.out / "prepared", head, prepare=prepare)
patch, classes = Patch((24, 32, 32), per_volume=5, around="balanced"), {0, *facts.class_counts}
for name, augment in {"plain": ops.Flip3d(width=False), "augmented": recipes.nnunet(facts)}.items():
    torch.manual_seed(0)
    layers, sizes = [], (len(facts.channels), 12, 12, 12, 12, 12)
    for (before, after), step in zip(pairwise(sizes), (1, 2, 4, 8, 1), strict=True):
        layers += [
            nn.Conv3d(before, after, 3, padding=step, dilation=step),
            nn.InstanceNorm3d(after),
            nn.ReLU(),
        ]
    model = nn.Sequential(*layers, nn.Conv3d(12, 1 + max(classes), 1)).to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    patches = seqpipe.volumes(ready, patch, shuffle=True, device=options.device).map(augment).batch(2)
    for epoch in patches.epochs(options.epochs):
        for batch in epoch:
            loss = dice_ce(model(batch["image"].torch().movedim(-1, 1)), batch["label"].torch())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    table = []
    for case in options.held_out:
        image, file = case.parts["image"], options.out / f"{name}-{case.subject}"
        labels = seqpipe.infer(model, image, patch.size, prepare=prepare, head=head, device=options.device)
        if Path(image).is_dir():
            save_dicom_seg(labels, f"{file}.dcm", image, {n: f"class {n}" for n in classes - {0}})
        else:
            save(labels, f"{file}.nii.gz")
        table += measure(labels, case.parts["label"], case=case.subject)
    write_table(table, options.out / f"{name}.csv")
    print(f"{name}: held-out Dice {sum(row.dice for row in table) / len(table):.3f}")
