"""Damaged copies of volumes, and what reading one may never do: see :mod:`tests.support.fuzz`.

A file of a volume format, however it is damaged, is never called a video.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

import seqpipe
from data_scripts.make_volumes import ITEMS, make
from seqpipe.errors import SeqpipeError
from seqpipe.volume import VolumeReader

from .fuzz import Mutant, Verdict
from .media import MADE_DIR, ROOT, shared_of

__all__ = ["sources", "tried"]

_LARGEST = 1 << 26  # voxels


def sources(which: str) -> list[Path]:
    """Return the volumes to damage: ``"made"``, ``"shared"`` or ``"all"``; of a DICOM series, one file."""
    files: list[Path] = []
    if which != "shared":
        made = make(MADE_DIR / "volumes", [name for name, item in ITEMS.items() if not item.damage])
        files += [path / "IM00000" if path.is_dir() else path for path in made.values()]
    files = [
        path for path in files if path.is_file()
    ]  # images and chunks of Zarr are no volumes by themselves
    if which != "made":
        files += sorted(
            path for path in (ROOT.parent / "shared" / "cases" / "in").glob("V*") if path.is_file()
        )
        files = [path for path in files if path.suffix != ".npy"]
    return files + (shared_of("volume") if which != "made" else [])


def tried(subject: Mutant, folder: Path, *, device: str = "cpu", seed: int = 0) -> Verdict:
    """Open a mutant, and read a window of it alone and as a part of the whole.

    Args:
        subject: the mutant.
        folder: for its file.
        device: where its voxels are to be.
        seed: decides, with its number, which window is read.
    """
    verdict, rng = Verdict(), random.Random(f"windows {seed} {subject.number}")
    # a name without an ending, and first bytes that are damaged, leave nothing to tell the format by
    name = subject.name if "." in subject.name else f"{subject.name}.dcm"
    path = folder / f"{subject.number}-{name}"
    path.write_bytes(subject.data)
    try:
        with seqpipe.open(path, device=device) as volume:
            if isinstance(volume, VolumeReader):
                _read(volume, rng, verdict, str(subject))
            else:
                verdict.faults.append(f"{subject}: it is opened as a video")
    except SeqpipeError as error:
        verdict.errors[type(error).__name__] += 1
        verdict.counts["refused"] += 1
        if "video" in str(error).replace(str(path), ""):
            verdict.faults.append(f"{subject}: it is called a video: {error}")
    except Exception as error:
        verdict.faults.append(f"{subject}: raised {type(error).__name__}: {error}")
    finally:
        path.unlink()
    return verdict


def _read(volume: VolumeReader, rng: random.Random, verdict: Verdict, name: str) -> None:
    info = volume.info
    if np.prod(info.shape, dtype=float) > _LARGEST:
        verdict.counts["large"] += 1
        return
    cut = [slice(start := rng.randrange(size), rng.randrange(start, size) + 1) for size in info.grid]
    window, whole = volume[tuple(cut)].numpy(), volume.sequence().numpy()
    if whole.shape != info.shape or not np.isfinite(volume.affine).all():
        verdict.faults.append(f"{name}: {whole.shape} voxels of {info.shape}, or no finite affine")
    if not np.array_equal(window, whole[(..., *cut, slice(None))], equal_nan=whole.dtype.kind in "fc"):
        verdict.faults.append(f"{name}: a window differs from the same part of the whole")
    verdict.counts["read"] += 1
