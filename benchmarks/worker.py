"""One contestant in a process of its own: a task per line of JSON comes in, a result per line goes out."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contestants import CONTESTANTS, Contestant, Task, Window
from benchmarks.media import read_code

__all__ = ["main"]


def main() -> None:
    """Serve until the input ends. Answers have a descriptor of their own; output of libraries goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    contestant = CONTESTANTS[sys.argv[1]]()
    for line in sys.stdin:
        print(json.dumps(_answer(contestant, json.loads(line))), file=answers, flush=True)


def _answer(contestant: Contestant, order: dict[str, Any]) -> dict[str, Any]:
    # Whatever a contestant fails with is its result: the others go on.
    try:
        if order["do"] == "versions":
            return {"versions": contestant.versions()}
        if order["do"] == "variants":
            return {"variants": contestant.variants(order["threads"])}
        task = order["task"] | {"windows": tuple(Window(*fields) for fields in order["task"]["windows"])}
        return _timed(contestant, Task(**task), look=order["do"] == "look")
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _timed(contestant: Contestant, task: Task, *, look: bool) -> dict[str, Any]:
    seen: dict[int, Any] = {}
    count = 0

    def take(number: int, pixels: NDArray[np.uint8]) -> None:
        nonlocal count
        frames = pixels if pixels.ndim == 4 else pixels[None]
        count += len(frames)
        if look:
            seen[number] = [(read_code(frame), _blocks(frame)) for frame in frames]

    wall, cpu = time.perf_counter(), time.process_time()
    contestant.run(task, take)
    spent = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu, "frames": count}
    return spent | ({"seen": [seen[number] for number in sorted(seen)]} if look else {})


def _blocks(frame: NDArray[np.uint8]) -> list[float]:
    """Mean of each of 4 × 4 parts and 3 channels."""
    height, width = (side // 4 * 4 for side in frame.shape[:2])
    parts = frame[:height, :width].reshape(4, height // 4, 4, width // 4, 3)
    means: list[float] = parts.mean(axis=(1, 3)).ravel().tolist()
    return means


if __name__ == "__main__":
    main()
