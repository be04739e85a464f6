"""The first batch of a dataset, in a process of its own that loads nothing else; see :mod:`benchmarks.gpu_memory`.

    python -m benchmarks.first_batch DEVICE LIST SPAWNED

``LIST`` is a file of paths, one a line; ``SPAWNED`` the time of the monotonic clock at which the process was spawned.
"""

from __future__ import annotations

import json
import sys
import time

__all__ = ["main"]

_BATCH, _LENGTH = 8, 16


def main(device: str, listed: str, spawned: float) -> dict[str, float]:
    """Return the seconds of each step up to the first batch."""
    times = [spawned, time.monotonic()]
    import seqpipe

    times.append(time.monotonic())
    with open(listed) as file:  # noqa: PTH123  pathlib is part of the imports that are timed
        paths = file.read().splitlines()
    with seqpipe.videos(paths, _LENGTH, shuffle=True, device=device).batch(_BATCH) as data:
        times.append(time.monotonic())
        batch = next(iter(data))["image"]
        times.append(time.monotonic())
        if len(batch) != _BATCH or batch.shape[1] != _LENGTH:
            raise ValueError(f"the first batch has the shape {batch.shape}")
    names = ("interpreter", "imports", "dataset", "first batch")
    spent = {name: later - sooner for name, sooner, later in zip(names, times[:-1], times[1:], strict=True)}
    return {**spent, "all": times[-1] - spawned}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], sys.argv[2], float(sys.argv[3]))) + "\n")
