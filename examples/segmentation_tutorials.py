"""The segmentation tutorials of MONAI (spleen, BraTS) and TorchIO (patches of brains) as one program.

python -m data_scripts.make_sets decathlon DATA    # balls, if there is no other data
python examples/segmentation_tutorials.py spleen DATA/Task99_Balls OUT [--epochs 20] [--size 32] [--device cuda]

Folders are tasks of the Medical Decathlon: 9 for the spleen, 1 for BraTS (four modalities in a file, three regions that
overlap), any for brains. The network is small; replace it by that of the tutorial.
"""

import argparse
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import torch  # noqa: TID253  it trains with torch
from torch import nn  # noqa: TID253  likewise

import seqpipe
from seqpipe import Cache, Patch, Prepare, ops
from seqpipe.readers import published_volumes
from seqpipe.torch import dice_ce
from seqpipe.volume import LabelFiles, measure, save, write_table

FLIPS = [ops.Flip3d(**{axis: ops.Choice((True, False))}) for axis in ("depth", "height", "width")]
REGIONS = {"WT": (1, 2, 3), "TC": (2, 3), "ET": (2,)}  # each inside of the one before
TASKS = {
    "spleen": (
        Prepare(orientation="RAS", spacing_mm=(2.0, 1.5, 1.5), dtype="float32", crop_above=-57),
        ops.Window(lo=-57.0, hi=164.0),
        {"per_volume": 4, "around": "balanced"},
        ops.Chain(*FLIPS),
    ),
    "brats": (
        Prepare(orientation="RAS", spacing_mm=1.0, dtype="float32", series_as_channels=True),
        ops.ZScore(of="nonzero", keep_zeros=True),
        {},
        ops.Chain(
            *FLIPS,
            ops.BrightnessMultiplicative(factor=(0.9, 1.1)),
            ops.BrightnessAdditive(offset=(-0.1, 0.1)),
        ),
    ),
    "brain": (
        Prepare(orientation="RAS", spacing_mm=4.0, dtype="float32"),
        ops.Chain(ops.HistogramStandardize(), ops.ZScore(of="nonzero")),
        {"per_volume": 5},
        ops.Chain(ops.Anisotropy(p=0.25), ops.GaussianBlur3d(p=0.25), ops.GaussianNoise3d(p=0.25), *FLIPS),
    ),
}


def main() -> None:
    """Train on nine of ten cases, and predict and measure the others."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    prepare, head, take, augment = TASKS[options.task]
    found = published_volumes.decathlon(options.folder).checked()
    overlap, patch = options.task == "brats", Patch(options.size, pad="constant", **take)
    train, held_out = found.cases.fold(0, 5), found.cases.fold(0, 5, validation=True)
    listed = [dict(case.parts) for case in train]
    if overlap:
        listed = [{**parts, "label": LabelFiles(parts["label"], regions=REGIONS)} for parts in listed]
    ready = seqpipe.prepared(listed, options.out / "prepared", head, prepare=prepare)
    patches = (
        seqpipe.volumes(ready, patch, shuffle=True, cache=Cache(gib=4), device=options.device)
        .map(augment)
        .batch(2)
    )
    torch.manual_seed(0)
    sizes, layers = (patches.sample(0)["image"].shape[-1], 8, 16, 16), []
    for before, after in pairwise(sizes):
        layers += [nn.Conv3d(before, after, 3, padding=1), nn.InstanceNorm3d(after), nn.LeakyReLU()]
    outputs = len(REGIONS) if overlap else 1 + len(found.classes)
    model = nn.Sequential(*layers, nn.Conv3d(16, outputs, 3, padding=1)).to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for epoch in patches.epochs(options.epochs):
        for batch in epoch:
            scores, truth = model(batch["image"].torch().movedim(-1, 1)), batch["label"].torch()
            if overlap:
                loss = nn.functional.binary_cross_entropy_with_logits(scores.movedim(1, -1), truth.float())
            else:
                loss = dice_ce(scores, truth)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    table = []
    for case in held_out:
        labels = seqpipe.infer(
            model, case.parts["image"], patch.size, prepare=replace(prepare, crop_above=None), head=head,
            regions={1: 0.0, 3: 0.0, 2: 0.0} if overlap else None, device=options.device,
        )  # fmt: skip
        save(labels, options.out / f"{case.subject}.nii.gz")
        table += measure(labels, case.parts["label"], case=case.subject)
    write_table(table, options.out / "table.csv")
    print(f"{options.task}: Dice {sum(row.dice for row in table) / len(table):.3f}")


if __name__ == "__main__":
    main()
