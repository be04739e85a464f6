"""A training feed, from `.nii.gz` to augmented patches, beside MONAI's: ``python -m benchmarks.volume_feed``.

Volumes of 160³ int16 with labels lie on disk; after one epoch that fills the caches, epochs of batches of 2 patches of
128³ are measured, with the probabilities of nnU-Net's recipe: seqpipe's ``volumes`` and ``recipes.nnunet``, and
MONAI's ``CacheDataset`` with its transforms for the same steps, on the CPU, as its tutorials have it. ``--device cuda``
puts seqpipe's patches, and the work for them, on a GPU: its caches are in main memory, and then in the GPU's. MONAI is
left out where it is not installed.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

import seqpipe
from seqpipe import Cache, Prepare, ops, recipes
from seqpipe.sequence import Sequence
from seqpipe.volume import save

from .frame import in_turns, least, medians, parser_of, print_table, waiting_for

__all__ = ["main"]

SIZE, PATCH = (160, 160, 160), (128, 128, 128)


def main() -> None:
    """Measure, and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--volumes", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument(
        "--threads", type=int, default=2, help="threads of seqpipe, processes of MONAI's loader"
    )
    options = parser.parse_args()
    ops.set_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        files = _written(Path(folder), options.volumes)
        feeds = {"seqpipe": _seqpipe(files, options, "cpu")}
        if options.device == "cuda":
            feeds["seqpipe, volumes on the GPU"] = _seqpipe(files, options, "cuda")
        feeds |= _monai(files, options)
        batches = -(-options.volumes // 2)
        columns = f"{options.device}, {options.threads} threads", "ms a batch of 2, median", "least"
        print_table(columns, (_row(name, feed, options.epochs, batches) for name, feed in feeds.items()))


def _row(name: str, feed: Callable[[int], Iterator[Any]], epochs: int, batches: int) -> tuple[str, str, str]:
    """Return the milliseconds of a batch in each epoch after the first."""
    numbers = itertools.count()
    epoch: Callable[[], Any] = lambda: [None for _ in feed(next(numbers))]  # noqa: E731  as short as it is
    spent = in_turns({name: epoch}, epochs, warm_up=1)[name]
    return name, *(f"{of(spent).wall_ms / batches:.1f}" for of in (medians, least))


def _written(folder: Path, count: int) -> list[dict[str, Path]]:
    """Write volumes that compress like scans: smooth, with noise in the last bits."""
    rng = np.random.default_rng(0)
    pairs = []
    for number in range(count):
        smooth = ops.Zoom3d(size=SIZE)(rng.normal(size=(20, 20, 20)).astype(np.float32)) * 300
        image = (smooth + rng.normal(0, 10, SIZE)).astype(np.int16)
        pair = {"image": folder / f"{number}.nii.gz", "label": folder / f"{number}-label.nii.gz"}
        for values, path in ((image, pair["image"]), ((smooth > 150).astype(np.uint8), pair["label"])):
            save(Sequence(values[..., None], "DHWC", affine=np.eye(4)), path)
        pairs.append(pair)
    return pairs


def _seqpipe(
    files: list[dict[str, Path]], options: argparse.Namespace, cache_device: Literal["cpu", "cuda"]
) -> Callable[[int], Iterator[Any]]:
    recipe = recipes.nnunet()
    crop = ops.Crop3d(size=PATCH, position=(0.0, 1.0), label_fill=-1)
    chain = recipe[:2] + ops.Chain(crop) + recipe[2:]
    volumes = seqpipe.volumes(
        files,
        prepare=Prepare(dtype="float32"),
        cache=Cache(gib=4, device=cache_device, threads=options.threads),
        device=options.device,
        shuffle=True,
    )
    feeding, wait = volumes.batch(2).map(chain), waiting_for(options.device)

    def feed(epoch: int) -> Iterator[Any]:
        yield from feeding.epoch(epoch)
        wait()

    return feed


def _monai(
    files: list[dict[str, Path]], options: argparse.Namespace
) -> dict[str, Callable[[int], Iterator[Any]]]:
    try:
        from monai import transforms as of
        from monai.data import CacheDataset, DataLoader
    except ImportError:
        return {}
    both = ("image", "label")
    steps = of.Compose([
        of.LoadImaged(both), of.EnsureChannelFirstd(both), of.EnsureTyped(both),
        of.RandAffined(
            both, prob=0.36, rotate_range=(0.52,) * 3, scale_range=(0.4,) * 3, spatial_size=SIZE,
            mode=("bilinear", "nearest"), padding_mode="zeros",
        ),
        of.RandSpatialCropd(both, PATCH, random_size=False),
        of.RandGaussianNoised("image", prob=0.1, std=0.1),
        of.RandGaussianSmoothd("image", (0.5, 1.0), (0.5, 1.0), (0.5, 1.0), prob=0.2),
        of.RandScaleIntensityd("image", 0.25, prob=0.15), of.RandAdjustContrastd("image", 0.15, (0.75, 1.25)),
        of.RandSimulateLowResolutiond("image", prob=0.25, zoom_range=(0.5, 1.0)),
        of.RandAdjustContrastd("image", 0.4, (0.7, 1.5)),
        *(of.RandFlipd(both, prob=0.5, spatial_axis=axis) for axis in range(3)),
    ])  # fmt: skip
    dataset = CacheDataset([{name: str(path) for name, path in pair.items()} for pair in files], steps)
    loader = DataLoader(
        dataset, batch_size=2, shuffle=True, num_workers=options.threads, persistent_workers=True
    )
    return {"MONAI CacheDataset": lambda _: iter(loader)}


if __name__ == "__main__":
    main()
