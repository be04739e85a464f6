"""Datasets of made videos: their samples as numbers read from the pixels, and the test that any state resumes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from data_scripts.frame_code import find, read
from seqpipe.readers import Video
from seqpipe.sequence import Batch, Sequence
from tests.support.media import entries, made

__all__ = ["assert_resumes", "assert_true_frames", "files", "gist", "shown"]


def files(*names: str) -> list[str]:
    """Paths of made items."""
    return [str(made(name)) for name in names]


def shown(sequence: Sequence) -> list[int]:
    """The numbers that the pictures of a sequence carry."""
    return [read(picture) for picture in sequence.numpy()]


def assert_true_frames(sequence: Sequence) -> None:
    """Every picture that is no padding is the frame that the sequence says it is, judged by its pixels."""
    known = _by_file()[Path(sequence.source).name].numbers
    assert sequence.frames is not None
    for frame, picture in zip(sequence.frames.tolist(), sequence.numpy(), strict=True):
        if frame >= 0:
            assert find(picture)[0] == known[frame], f"{sequence.source} frame {frame}"


def gist(batch: Batch) -> tuple[Any, ...]:
    """All that a batch consists of, comparable and small."""
    pixels = [hash(np.ascontiguousarray(sequence.numpy()).tobytes()) for sequence in batch]
    labels, indices = np.asarray(batch.labels).tolist(), np.asarray(batch.indices).tolist()
    return indices, labels, batch.sources, batch.frames.tolist(), pixels


def assert_resumes(make: Callable[[], Video], *, batch_size: int, epoch: int = 1, **options: Any) -> None:
    """From the state at every step of an epoch, a new dataset goes on with exactly the batches that would have come.

    Args:
        make: makes the dataset anew, with the same parameters.
        batch_size: samples in a batch.
        epoch: the epoch that is gone through.
        **options: for ``batches``.
    """
    dataset = make()
    dataset.set_epoch(epoch)
    batches = dataset.batches(batch_size, **options)
    states, delivered = [batches.state_dict()], []
    for batch in batches:
        delivered.append(gist(batch))
        states.append(batches.state_dict())
    dataset.close()
    assert len(delivered) == len(batches) > 1
    with make() as other:
        rest = other.batches(batch_size, **options)
        for step, state in enumerate(states):
            rest.load_state_dict(json.loads(json.dumps(state)))
            assert [gist(batch) for batch in rest] == delivered[step:], (
                f"resumed at step {step} of {len(delivered)}"
            )


def _by_file() -> dict[str, Any]:
    return {found.file: found for found in entries().values()}
