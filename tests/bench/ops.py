"""What operators cost, beside moving their bytes once and beside other libraries.

    python -m tests.bench.ops [--device cpu|cuda] [--job all|resize|chain|eager]... [--only NAME]...

- ``all``: each operator's first example on 8×16×256×340×3 bytes on a GPU, on 16×256×340×3 on a CPU; the last column is
  how many times as long as a copy of the same bytes.
- ``resize``: 16 frames of 1080p to 224×224 by one thread, antialiased, beside torch and OpenCV's area filter.
- ``chain``: 8×16 frames of 1080p, a random resized crop to 224×224, a flip, and brightness and contrast, beside
  torchvision where it is installed.
- ``eager``: the time of a call on an 8×8×3 image.

A figure is the median of several rounds, after two that do not count; on a GPU by events, so the host's part counts
where it is longer. ``--threads 1`` is the default: OpenCV and torch get one thread, as seqpipe does.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["main"]

_WARM_UP, _ROUNDS = 2, 7
_LARGE, _SIDE = (1080, 1920), 224

Row = tuple[str, float, str]


class _Cpu:
    """Times by the clock."""

    name, samples = "cpu", 1

    def images(self, *shape: int) -> Any:
        return np.random.Generator(np.random.Philox(1)).integers(0, 256, shape, dtype=np.uint8)

    def milliseconds(self, work: Callable[[], Any]) -> float:
        found = []
        for _ in range(_WARM_UP + _ROUNDS):
            begin = time.perf_counter()
            work()
            found.append(1e3 * (time.perf_counter() - begin))
        return statistics.median(found[_WARM_UP:])

    def copied(self, x: Any) -> Any:
        return x.copy()


class _Cuda(_Cpu):
    """Times by events."""

    name, samples = "cuda", 8

    def __init__(self) -> None:
        self._cupy = importlib.import_module("cupy")

    def images(self, *shape: int) -> Any:
        return self._cupy.asarray(super().images(*shape))

    def milliseconds(self, work: Callable[[], Any]) -> float:
        events = [(self._cupy.cuda.Event(), self._cupy.cuda.Event()) for _ in range(_WARM_UP + _ROUNDS)]
        for begin, end in events:
            begin.record()
            work()
            end.record()
            end.synchronize()
        return statistics.median(self._cupy.cuda.get_elapsed_time(*pair) for pair in events[_WARM_UP:])


def _all(device: _Cpu, only: list[str]) -> Iterator[Row]:
    from seqpipe.ops import REGISTRY

    x = device.images(device.samples, 16, 256, 340, 3)
    copy = device.milliseconds(lambda: device.copied(x))
    yield "a copy", copy, "1.0 × a copy"
    for name in sorted(only or REGISTRY):
        cls = REGISTRY[name]
        if not cls.__module__.startswith("seqpipe.") or "uint8" not in cls.dtypes:
            continue
        given = x if not cls.channels or 3 in cls.channels else x[..., :1]
        op = cls(**_for_large(cls.examples[0] if cls.examples else {}))
        try:
            found = device.milliseconds(lambda op=op, given=given: op(given))
        except Exception as error:
            print(f"{op!r}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        yield repr(op), found, f"{found / copy:.1f} × a copy"


def _for_large(example: Any) -> dict[str, Any]:
    """An example with a size that large images can have: those of the tests are a few pixels."""
    sizes = {"size": (224, 224), "crop": (224, 224), "resize_x": 224, "resize_y": 224}
    return {name: sizes.get(name, value) for name, value in example.items()}


def _resize(device: _Cpu, _only: list[str]) -> Iterator[Row]:
    from seqpipe import ops

    x = device.images(16, *_LARGE, 3)
    op = ops.Resize(size=(_SIDE, _SIDE))
    yield "seqpipe resize", device.milliseconds(lambda: op(x)), ""
    if device.name == "cpu":
        import cv2

        area = lambda: [cv2.resize(frame, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA) for frame in x]  # noqa: E731  a name for the table
        yield "OpenCV, area (another filter)", device.milliseconds(area), ""
    torch = _module("torch")
    if torch is not None:
        functional = torch.nn.functional
        planes = torch.as_tensor(x, device=device.name).permute(0, 3, 1, 2)
        size = {"size": (_SIDE, _SIDE), "mode": "bilinear", "antialias": True}
        given = planes if device.name == "cpu" else planes.float()
        yield "torch interpolate", device.milliseconds(lambda: functional.interpolate(given, **size)), ""


def _chain(device: _Cpu, _only: list[str]) -> Iterator[Row]:
    from seqpipe import ops

    x = device.images(device.samples, 16, *_LARGE, 3)
    chain = ops.Chain(
        ops.RandomResizedCrop(size=(_SIDE, _SIDE)),
        ops.Flip(p=0.5),
        ops.BrightnessContrast(brightness=(0.8, 1.2), contrast=(0.8, 1.2)),
    )
    found = device.milliseconds(lambda: chain(x))
    yield f"seqpipe, {len(list(chain.groups()))} kernels", found, ""
    torch, vision = _module("torch"), _module("torchvision.transforms.v2")
    if torch is not None and vision is not None:
        planes = torch.as_tensor(x, device=device.name).permute(0, 1, 4, 2, 3)
        peer = vision.Compose(
            [
                vision.RandomResizedCrop((_SIDE, _SIDE), antialias=True),
                vision.RandomHorizontalFlip(),
                vision.ColorJitter(brightness=0.2, contrast=0.2),
            ]
        )
        yield "torchvision v2", device.milliseconds(lambda: [peer(clip) for clip in planes]), ""


def _eager(device: _Cpu, only: list[str]) -> Iterator[Row]:
    from seqpipe import ops

    x = device.images(8, 8, 3)
    for op in (
        ops.Flip(),
        ops.BrightnessContrast(contrast=1.5),
        ops.Crop(crop=(4, 4)),
        ops.Resize(size=(4, 4)),
    ):
        if not only or op.name in only:
            repeated = device.milliseconds(lambda op=op: [op(x) for _ in range(200)]) / 200
            yield repr(op), repeated, f"{1e3 * repeated:.0f} µs"


_JOBS = {"all": _all, "resize": _resize, "chain": _chain, "eager": _eager}


def main() -> int:
    """Print a table for each job."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--job", action="append", choices=list(_JOBS), help="may be repeated; by default all")
    parser.add_argument("--only", action="append", default=[], help="operators by name; may be repeated")
    parser.add_argument("--threads", type=int, default=1, help="of OpenCV and torch")
    options = parser.parse_args()
    import cv2

    cv2.setNumThreads(options.threads)
    if (torch := _module("torch")) is not None:
        torch.set_num_threads(options.threads)
    device = _Cuda() if options.device == "cuda" else _Cpu()
    for job in options.job or _JOBS:
        print(f"\n| {job}, {device.name} | ms | |\n|---|---|---|")
        for name, found, note in _JOBS[job](device, options.only):
            print(f"| {name} | {found:.3f} | {note} |", flush=True)
    return 0


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


if __name__ == "__main__":
    sys.exit(main())
