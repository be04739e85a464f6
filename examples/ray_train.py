"""Train on the ranks of Ray Train, each of which reads its own share; a run continues on any number of ranks.

    python examples/ray_train.py VIDEOS OUT [--ranks 2] [--epochs 4] [--device cuda]

VIDEOS is a folder with a folder of videos for each class, or a manifest, that all nodes see; OUT a folder that they
share, or a URL. Started again, on any number of ranks, it goes on behind the last saved batch: each sample
of the epoch comes once. Needs seqpipe[ray,torch].
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import torch  # noqa: TID253  it trains with torch
from ray import train
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn  # noqa: TID253  likewise

import seqpipe
from seqpipe import Clip, ops

SIZE, FRAMES, BATCH, SAVED_EVERY = (64, 64), 8, 8, 20
TRAINING = ops.Chain(
    ops.RandomResizedCrop(size=SIZE, random_area=(0.5, 1.0)),
    ops.CropMirrorNormalize(mean=(124.0, 116.0, 104.0), std=(58.0, 57.0, 57.0), output_layout="CFHW"),
)


def train_rank(config: dict[str, Any]) -> None:
    """Train one rank, from the last checkpoint if there is one."""
    context, device = train.get_context(), config["device"]
    torch.manual_seed(0)
    layers = (nn.Conv3d(3, 16, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten())
    model = nn.Sequential(*layers, nn.Linear(16, config["classes"]))
    state = None
    if checkpoint := train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder, "state.pt"))
            model.load_state_dict(saved["model"])
            state = saved["batches"]
    model = prepare_model(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    clips = seqpipe.videos(config["videos"], Clip(FRAMES), shuffle=True, seed=0, device=device).map(TRAINING)
    share = clips.shard(context.get_world_rank(), context.get_world_size(), even=True).batch(BATCH)
    for epoch in share.epochs(config["epochs"], resume=state):
        for number, batch in enumerate(epoch, 1):
            labels = torch.from_numpy(batch["label"]).to(device)
            loss = nn.functional.cross_entropy(model(batch["image"].torch()), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if number % SAVED_EVERY == 0 or number == len(epoch):
                report(context.get_world_rank(), model, epoch.number, loss.item(), batch.state)


def report(rank: int, model: nn.Module, epoch: int, loss: float, state: Any) -> None:
    """Report to Ray; rank 0 adds a checkpoint, whose position holds for all ranks, which go in lockstep."""
    with tempfile.TemporaryDirectory() as folder:
        if rank == 0:
            weights = getattr(model, "module", model).state_dict()
            torch.save({"model": weights, "batches": state}, Path(folder, "state.pt"))
        checkpoint = train.Checkpoint.from_directory(folder) if rank == 0 else None
        train.report({"epoch": epoch, "loss": loss}, checkpoint=checkpoint)


def main() -> None:
    """Start the ranks; Ray starts them again if one dies."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("videos")
    parser.add_argument("out")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options = parser.parse_args()
    out = options.out if "://" in options.out else os.path.abspath(options.out)  # noqa: PTH100  may be a URL
    listed = seqpipe.listing(options.videos)
    config = {"videos": listed, "classes": len(listed.classes), "epochs": options.epochs}
    trainer = TorchTrainer(
        train_rank,
        train_loop_config={**config, "device": options.device},
        scaling_config=train.ScalingConfig(num_workers=options.ranks, use_gpu=options.device == "cuda"),
        run_config=train.RunConfig(
            name="training", storage_path=out, failure_config=train.FailureConfig(max_failures=3)
        ),
    )
    print(trainer.fit().metrics)


if __name__ == "__main__":
    main()
