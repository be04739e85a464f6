"""nnU-Net's recipe in the place of MONAI's random transforms: ``python examples/drop_in_monai.py IMAGE LABEL``."""

import sys

from monai.data import DataLoader, Dataset
from monai.transforms import Compose, EnsureChannelFirstd, LoadImaged, NormalizeIntensityd

from seqpipe.recipes import DictionaryTransform, nnunet

image, label = sys.argv[1:]
both = ["image", "label"]
steps = [
    LoadImaged(both),
    EnsureChannelFirstd(both),
    NormalizeIntensityd("image"),
    DictionaryTransform(nnunet((32, 32, 32))),  # in place of RandAffined, RandGaussianNoised, RandFlipd, ...
]
dataset = Dataset([{"image": image, "label": label}] * 4, Compose(steps))
for batch in DataLoader(dataset, batch_size=2):
    print(tuple(batch["image"].shape), tuple(batch["label"].shape), batch["label"].unique().tolist())
