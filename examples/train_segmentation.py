"""Train a small 3-D U-Net on phantoms, with and without augmentation, and write a prediction that a viewer opens.

    python examples/train_segmentation.py OUT [--epochs 12] [--seeds 3] [--device cuda]

Phantoms are bright and dark ellipsoids in a noisy volume; held-out ones are turned, scaled and of another contrast, as
those of another scanner are. A run that is stopped goes on where it was when it is started again: what an epoch draws
depends on its number alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch  # noqa: TID253  it trains with torch
from torch import nn  # noqa: TID253  likewise

from seqpipe import ops, recipes
from seqpipe.parts import Labels
from seqpipe.sequence import Sequence
from seqpipe.volume import GridAggregator, GridSampler, save

SIZE, PATCH, CLASSES, AFFINE = (40, 48, 48), (32, 32, 32), 3, np.diag([2.0, 1.5, 1.5, 1.0])
PLAIN = ops.VolumeChain(ops.Crop3d(size=PATCH, place=(0.0, 1.0)))
AUGMENTED = ops.VolumeChain(
    *(op for op in recipes.nnunet() if op.name == "random_affine3d"),
    ops.Elastic3d(spacing=12, amplitude=(0.0, 0.3), p=0.5, label_fill=-1),
    ops.Crop3d(size=PATCH, place=(0.0, 1.0)),
    *(op for op in recipes.nnunet() if op.name != "random_affine3d"),
)


def phantom(number: int, *, other: bool) -> tuple[Sequence, Sequence]:
    """An image and its labels; ``other`` is that of another scanner."""
    rng = np.random.default_rng([number, other])
    places = np.moveaxis(np.indices(SIZE, np.float32), 0, -1)
    labels = np.zeros(SIZE, np.uint8)
    for label in (1, 2):
        radii = rng.uniform(5, 8, 3) * ([1, 1, 1] if not other else [1.3, 0.8, 1.2])
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0] if other else np.eye(3)
        offset = (places - rng.uniform(10, np.array(SIZE) - 10)) @ turn
        labels[((offset / radii) ** 2).sum(axis=-1) < 1] = label
    image = np.array([0.0, 1.0, -1.0], np.float32)[labels]
    image = np.sign(image) * np.abs(image) ** (0.6 if other else 1) * (0.7 if other else 1)
    image = image + rng.normal(0, 0.45 if other else 0.3, SIZE).astype(np.float32)
    return Sequence(image[..., None], "DHWC", affine=AFFINE), Sequence(
        labels[..., None], "DHWC", affine=AFFINE
    )


class UNet(nn.Module):
    """Two levels, eight channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.low = self._block(1, 8), self._block(8, 16)
        self.up, self.last = nn.ConvTranspose3d(16, 8, 2, 2), self._block(16, 8)
        self.out = nn.Conv3d(8, CLASSES, 1)

    @staticmethod
    def _block(channels: int, made: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv3d(channels, made, 3, padding=1), nn.InstanceNorm3d(made, affine=True), nn.ReLU()
        )

    def forward(self, x: Any) -> Any:
        """Scores of the classes."""
        fine = self.first(x)
        coarse = self.up(self.low(nn.functional.max_pool3d(fine, 2)))
        return self.out(self.last(torch.cat([fine, coarse], dim=1)))


def train(chain: ops.VolumeChain, seed: int, asked: argparse.Namespace, state: Path) -> UNet:
    """A network, trained on; its state after each epoch lies in a file."""
    torch.manual_seed(seed)
    model = UNet().to(asked.device)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    begin = 0
    if state.exists():
        saved = torch.load(state, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        begin = saved["epoch"] + 1
    pairs = [phantom(number, other=False) for number in range(asked.volumes)]
    for epoch in range(begin, asked.epochs):
        model.train()
        for first in range(0, len(pairs), 2):
            numbers = range(first, min(first + 2, len(pairs)))
            samples = [{"image": pairs[n][0], "label": Labels(pairs[n][1])} for n in numbers]
            done = chain(samples, epoch=epoch, index=[1000 * seed + n for n in numbers])
            image = torch.stack([one["image"].torch().permute(3, 0, 1, 2) for one in done]).to(asked.device)
            label = torch.stack([one["label"].data.torch()[..., 0].long() for one in done]).to(asked.device)
            loss = nn.functional.cross_entropy(model(image), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, state)
    return model


def predicted(model: UNet, volume: Sequence, device: str) -> Sequence:
    """The class of each voxel, by patches that overlap."""
    sampler = GridSampler(volume, PATCH, overlap=0.5)
    whole = GridAggregator(sampler)
    model.eval()
    with torch.no_grad():
        for numbers, batch in sampler.batches(4):
            scores = model(torch.from_numpy(batch.numpy()).permute(0, 4, 1, 2, 3).to(device))
            whole.add(numbers, scores.permute(0, 2, 3, 4, 1).cpu().numpy())
    labels = whole.result().data.argmax(axis=-1).astype(np.uint8)
    return Sequence(labels[..., None], "DHWC", affine=volume.affine)


def dice(found: Any, truth: Any) -> float:
    """The mean over the classes but the background."""
    parts = [
        2 * ((found == c) & (truth == c)).sum() / max(1, (found == c).sum() + (truth == c).sum())
        for c in (1, 2)
    ]
    return float(np.mean(parts))


def main() -> None:
    """Train, evaluate, and write a prediction."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--volumes", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    held_out = [phantom(100 + number, other=True) for number in range(4)]
    for seed in range(asked.seeds):
        for name, chain in (("plain", PLAIN), ("augmented", AUGMENTED)):
            model = train(chain, seed, asked, asked.out / f"{name}-{seed}.pt")
            found = [predicted(model, image, asked.device) for image, _ in held_out]
            score = np.mean(
                [dice(one.data, label.data) for one, (_, label) in zip(found, held_out, strict=True)]
            )
            print(f"seed {seed}, {name}: held-out Dice {score:.3f}", flush=True)
    save(held_out[0][0], asked.out / "image.nii.gz")
    save(found[0], asked.out / "prediction.nii.gz")
    print(f"{asked.out / 'prediction.nii.gz'} opens beside {asked.out / 'image.nii.gz'} in a viewer")


if __name__ == "__main__":
    main()
