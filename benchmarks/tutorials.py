"""Dice of MONAI's spleen tutorial and TorchIO's patch pipeline beside examples/segmentation_tutorials.py.

python -m data_scripts.make_sets decathlon DATA
python -m benchmarks.tutorials spleen DATA/Task99_Balls [--epochs 20] [--size 32] [--seed 0]
python examples/segmentation_tutorials.py spleen DATA/Task99_Balls OUT [--epochs 20] [--size 32]

The transforms are those of the notebooks ``spleen_segmentation_3d`` of MONAI and ``TorchIO tutorial`` of TorchIO; the
network, the loss, the optimizer, the number of patches and the split are those of the example, so that pipelines alone
differ. MONAI and TorchIO are not dependencies: pip install monai torchio.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import seqpipe
from seqpipe.readers import published_volumes
from seqpipe.torch import dice_ce
from seqpipe.volume import measure

_BATCH = 2


def _monai(train: list[dict[str, str]], size: int) -> tuple[Any, Any]:
    """Return an endless iterator of patches (NCDHW images, labels), and a function from a case to its labels."""
    from monai import transforms as mt
    from monai.data import CacheDataset, list_data_collate
    from monai.inferers import sliding_window_inference

    both = ["image", "label"]
    head = [
        mt.LoadImaged(keys=both),
        mt.EnsureChannelFirstd(keys=both),
        mt.ScaleIntensityRanged(keys=["image"], a_min=-57, a_max=164, b_min=0.0, b_max=1.0, clip=True),
        mt.CropForegroundd(keys=both, source_key="image", allow_smaller=True),
        mt.Orientationd(keys=both, axcodes="RAS"),
        mt.Spacingd(keys=both, pixdim=(1.5, 1.5, 2.0), mode=("bilinear", "nearest")),
    ]
    crop = [
        mt.SpatialPadd(keys=both, spatial_size=(size,) * 3),
        mt.RandCropByPosNegLabeld(
            keys=both, label_key="label", spatial_size=(size,) * 3, pos=1, neg=1, num_samples=4
        ),
        *(mt.RandFlipd(keys=both, prob=0.5, spatial_axis=axis) for axis in range(3)),
    ]
    dataset = CacheDataset(train, mt.Compose([*head, *crop]), num_workers=0, progress=False)
    whole = mt.Compose([one for one in head if not isinstance(one, mt.CropForegroundd)])
    back = mt.Invertd(keys="pred", transform=whole, orig_keys="image", nearest_interp=False, to_tensor=True)

    def patches() -> Iterator[Any]:
        while True:
            order = np.random.permutation(len(dataset)).tolist()  # noqa: NPY002  MONAI's own generator is seeded alike
            crops = [each for index in order for each in dataset[index]]
            random.shuffle(crops)
            for pair in _pairs(crops):
                batch = list_data_collate(list(pair))
                yield batch["image"].as_tensor(), batch["label"].as_tensor()

    def predict(model: Any, case: dict[str, str]) -> Any:
        found = whole(dict(case))
        found["pred"] = sliding_window_inference(found["image"][None], (size,) * 3, 4, model, overlap=0.5)[0]
        return np.asarray(back(found)["pred"]).argmax(0).transpose(2, 1, 0)

    return patches(), predict


def _torchio(train: list[dict[str, str]], size: int) -> tuple[Any, Any]:
    """As :func:`_monai`, of TorchIO's tutorial."""
    import torchio as tio

    landmarks = tio.HistogramStandardization.train([case["image"] for case in train])
    head = [
        tio.ToCanonical(),
        tio.Resample(4),
        tio.HistogramStandardization({"image": landmarks}),
        tio.ZNormalization(masking_method=tio.ZNormalization.mean),
    ]
    augment = [
        tio.RandomAnisotropy(p=0.25),
        tio.RandomBlur(p=0.25),
        tio.RandomNoise(p=0.25),
        tio.RandomFlip(axes=(0, 1, 2)),
    ]

    def prepared(subject: Any) -> Any:
        found = tio.Compose(head)(subject)
        return tio.CropOrPad([max(size, side) for side in found.spatial_shape])(found)

    subjects = [
        tio.Subject(image=tio.ScalarImage(case["image"]), label=tio.LabelMap(case["label"])) for case in train
    ]
    ready = [prepared(subject) for subject in subjects]
    sampler, chain = tio.UniformSampler(size), tio.Compose(augment)

    def patches() -> Iterator[Any]:
        while True:
            cuts = [cut for each in random.sample(ready, len(ready)) for cut in sampler(chain(each), 5)]
            random.shuffle(cuts)
            for pair in _pairs(cuts):
                yield (
                    torch.stack([each["image"].data for each in pair]).float(),
                    torch.stack([each["label"].data for each in pair]),
                )

    def predict(model: Any, case: dict[str, str]) -> Any:
        subject = prepared(tio.Subject(image=tio.ScalarImage(case["image"])))
        grid = tio.GridSampler(subject, size, size // 2 // 2 * 2)
        sums = tio.GridAggregator(grid, overlap_mode="hann")
        for cut in grid:
            sums.add_batch(model(cut["image"].data[None].float()), cut[tio.LOCATION][None])
        labels = tio.LabelMap(
            tensor=sums.get_output_tensor().argmax(0, keepdim=True), affine=subject["image"].affine
        )
        found = tio.Resample(tio.ScalarImage(case["image"]))(labels).data[0].numpy()
        return found.transpose(2, 1, 0)

    return patches(), predict


def _pairs(values: list[Any]) -> Iterator[list[Any]]:
    for first in range(0, len(values), _BATCH):
        yield values[first : first + _BATCH]


def main() -> None:
    """Train with the peer's pipeline, and print the mean Dice of the held-out cases."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=("spleen", "brain"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = published_volumes.decathlon(options.folder).checked()
    train = [dict(case.parts) for case in found.cases.fold(0, 5)]
    held_out = found.cases.fold(0, 5, validation=True)
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(options.seed)
    peer, per_volume = (_monai, 4) if options.task == "spleen" else (_torchio, 5)
    patches, predict = peer(train, options.size)
    torch.manual_seed(options.seed)
    sizes, layers = (1, 8, 16, 16), []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Conv3d(before, after, 3, padding=1), nn.InstanceNorm3d(after), nn.LeakyReLU()]
    model = nn.Sequential(*layers, nn.Conv3d(16, 1 + len(found.classes), 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for images, labels in itertools.islice(patches, options.epochs * len(train) * per_volume // _BATCH):
        loss = dice_ce(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    rows = []
    with torch.no_grad():
        for case in held_out:
            with seqpipe.open(case.parts["label"]) as truth:
                labels = predict(model, dict(case.parts)).astype(np.uint8)[..., None]
                given = seqpipe.Sequence(labels, "DHWC", affine=truth.affine).of_kind("labels")
                rows += measure(given, case.parts["label"], case=case.subject)
    print(f"{options.task} by {peer.__name__[1:]}: Dice {sum(row.dice for row in rows) / len(rows):.3f}")


if __name__ == "__main__":
    main()
