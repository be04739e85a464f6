"""Train a small 3-D network to classify actions, and evaluate it on views of held-out videos.

    python examples/train_action.py OUT [--videos FOLDER] [--epochs 4] [--device cuda] [--stop-after BATCHES]

FOLDER has a folder of videos for each class. Without it, videos of four directions of motion are generated, which no
single frame reveals. The state is saved after each epoch and by --stop-after. Started again, a run continues with the
batches and augmentations that would have followed, so that its losses equal those of an uninterrupted run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch  # noqa: TID253  it trains with torch
from torch import nn  # noqa: TID253  likewise

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for data_scripts

import seqpipe
from data_scripts.make_motion import make_motion
from seqpipe import Clip, OutputSpec, VideoScores, ops
from seqpipe.core.whole_file import replacing
from seqpipe.readers import Listing

SIZE, FRAMES, BATCH = (64, 64), 8, 8
NORMALIZE = ops.CropMirrorNormalize(mean=(124.0, 116.0, 104.0), std=(58.0, 57.0, 57.0), output_layout="CFHW")
# no flips: they would reverse the direction of the motion
TRAINING = ops.Chain(
    ops.RandomResizedCrop(size=SIZE, random_area=(0.5, 1.0)),
    ops.BrightnessContrast(brightness=(0.8, 1.2), contrast=(0.8, 1.2)),
    NORMALIZE,
)


def network(classes: int) -> nn.Module:
    """Two convolutions over frames, rows and columns, and a global mean."""
    return nn.Sequential(
        nn.Conv3d(3, 24, (3, 5, 5), (1, 2, 2), (1, 2, 2)),
        nn.BatchNorm3d(24),
        nn.ReLU(),
        nn.Conv3d(24, 48, 3, (1, 2, 2), 1),
        nn.BatchNorm3d(48),
        nn.ReLU(),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(48, classes),
    )


def validate(model: nn.Module, videos: Listing, device: str) -> float:
    """Return the share of videos whose class has the highest mean score over three clips by three crops."""
    scores = VideoScores()
    labels: dict[int, int] = {}
    model.eval()
    clips = seqpipe.videos(
        videos, Clip(FRAMES, per_video=3, starts="even"), output=OutputSpec(short_side=SIZE[0]), device=device
    )
    with clips.views(SIZE, count=3).map(NORMALIZE).batch(3 * BATCH) as views, torch.no_grad():
        for batch in views:
            scores.add(model(batch["image"].torch()), batch["video"])
            labels |= dict(zip(batch["video"].tolist(), batch["label"].tolist(), strict=True))
    model.train()
    return float(np.mean([mean.argmax() == labels[video] for video, mean in scores.mean().items()]))


def train(out: Path, videos: Listing, held_out: Listing, epochs: int, device: str, stop_after: int) -> None:
    """Train up to an epoch, from the state in a folder if one exists."""
    torch.manual_seed(0)
    model = network(len(videos.classes)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    clips = seqpipe.videos(videos, Clip(FRAMES, per_video=4), shuffle=True, seed=0, device=device)
    done, saved, state = 0, out / "state.pt", None
    with clips.map(TRAINING).batch(BATCH, last="drop") as ds:
        if saved.exists():
            loaded = torch.load(saved)
            model.load_state_dict(loaded["model"])
            optimizer.load_state_dict(loaded["optimizer"])
            state = loaded["batches"]
            print(f"goes on in epoch {state['epoch']} behind sample {state['history'][-1][1]}")
        for epoch in ds.epochs(epochs, resume=state):
            for batch in epoch:
                labels = torch.from_numpy(batch["label"]).to(device)
                loss = nn.functional.cross_entropy(model(batch["image"].torch()), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                done += 1
                state = batch.state
                print(f"epoch {epoch.number} sample {state['history'][-1][1]} loss {loss.item():.6f}")
                if done == stop_after:
                    save(saved, model, optimizer, state)
                    return
            accuracy = validate(model, held_out, device)
            print(f"epoch {epoch.number}: {accuracy:.0%} of {len(held_out)} held-out videos")
            save(saved, model, optimizer, state)


def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, state: Any) -> None:
    """Save everything that a run needs to continue, atomically."""
    whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "batches": state}
    with replacing(path) as part:
        torch.save(whole, part)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("out", type=Path, help="folder for the state, and for the made videos")
    parser.add_argument("--videos", type=Path, help="a folder with a folder of videos for each class")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--stop-after", type=int, default=0, metavar="BATCHES", help="stop, to go on later")
    options = parser.parse_args()
    folder = options.videos or options.out / "videos"
    if options.videos is None and not folder.exists():
        make_motion(folder)
    options.out.mkdir(parents=True, exist_ok=True)
    videos, held_out = seqpipe.listing(folder).split((0.75, 0.25), seed=0, stratified=True)
    print(f"{len(videos)} videos of {len(videos.classes)} classes: {', '.join(videos.classes)}")
    train(options.out, videos, held_out, options.epochs, options.device, options.stop_after)


if __name__ == "__main__":
    main()
