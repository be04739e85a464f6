"""Overhead of a pipeline over its reader, and an external source of images beside DALI and torchvision.

    python -m benchmarks.pipelines overhead [--device cuda:0] [--batches 60] [--rounds 5]
    python -m benchmarks.pipelines external [--device cuda:0] [--images 512] [--batches 10] [--python NAME=PATH]...

``overhead``: batches of 8 clips of 16 frames, stride 4, of 340×256 H.264, from a data set, from a pipeline that gives
its pixels and labels, and from a data set with an operator that conversions do themselves. At most four clips are of
one file, so that few share their decoding, as in a training set. They take turns; medians of the rounds: frames in a
second, milliseconds of the processor for a batch, and what each takes more than the reader.

``external``: float32 images of 300×300×3 that a callable gives, 200×200 cut out of their middle and rotated by 30
degrees, on the device. The program of seqpipe.dali is that of DALI with another import. Each contestant runs in a
process of its own, ``--python dali=/venv/bin/python`` names the interpreter that has it; images in a second.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import media
from benchmarks.frame import ask_process, parser_of

__all__ = ["main"]

_CONTESTANTS = {"seqpipe": "seqpipe.dali", "dali": "nvidia.dali", "torchvision": ""}
_SIDE, _CROP, _ANGLE = 300, 200, 30.0
_BATCH, _CLIPS = 8, 4  # clips in a batch, and of a file


def _overhead(device: str, batches: int, rounds: int) -> None:
    import seqpipe
    from seqpipe import Clip, fn, ops

    folder = Path.home() / ".cache" / "seqpipe-bench"
    sources = [media.small(folder, number) for number in range(4)]
    paths = media.named(sources, folder, -(-batches * _BATCH // _CLIPS))

    def clips() -> seqpipe.Dataset:
        take = Clip(16, stride=4, per_video=_CLIPS)
        return seqpipe.videos(paths, take, shuffle=True, device=device).batch(_BATCH)

    @contextlib.contextmanager
    def bare() -> Iterator[Any]:
        with clips() as data:
            yield iter(data)

    @contextlib.contextmanager
    def piped() -> Iterator[Any]:
        with clips().graph(lambda parts: {"image": fn.flip(parts["image"], horizontal=True)}) as data:
            yield iter(data)

    @contextlib.contextmanager
    def augmented() -> Iterator[Any]:
        with clips().map(ops.Flip(p=0.5)) as data:
            yield iter(data)

    contestants = {"the reader": bare, "a graph": piped, "Augmented, fused": augmented}
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, make in contestants.items():
            with make() as source:
                spent, begin = time.process_time(), time.perf_counter()
                count = sum(1 for _ in source)  # a whole epoch: nothing is read ahead at its end
                rate = count / (time.perf_counter() - begin)
                rates[name].append((rate, (time.process_time() - spent) / count))
    middle = {
        name: [statistics.median(one) for one in zip(*measured, strict=True)]
        for name, measured in rates.items()
    }
    base, work = middle["the reader"]
    for name, (rate, spent) in middle.items():
        row = f"{_BATCH * 16 * rate:8.0f} frames/s {base / rate - 1:+7.1%}"
        print(f"{name:18s} {row}, {1e3 * spent:7.1f} ms of the processor {spent / work - 1:+7.1%}")


def _rate(call: Callable[[], Any], count: int, warm: int) -> float:
    """Return calls per second, after some warm-up calls."""
    for _ in range(warm):
        call()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return count / (time.perf_counter() - begin)


def _external(name: str, device: str, images: int, batches: int) -> dict[str, Any]:
    """Run one contestant in this process."""
    rng = np.random.default_rng(0)
    inputs = [rng.random((images, _SIDE, _SIDE, 3), dtype=np.float32) for _ in range(2)]
    call, version = (_torchvision if name == "torchvision" else _dali(_CONTESTANTS[name]))(inputs, device)
    return {"images/s": images * _rate(call, batches, warm=3), "version": version}


def _dali(package: str) -> Callable[[list[Any], str], tuple[Callable[[], Any], str]]:
    def build(batches: list[Any], device: str) -> tuple[Callable[[], Any], str]:
        fn, types = (importlib.import_module(f"{package}.{part}") for part in ("fn", "types"))
        pipeline_def = importlib.import_module(f"{package}.pipeline").pipeline_def
        on_gpu = device != "cpu"

        @pipeline_def(batch_size=len(batches[0]), num_threads=4, device_id=0 if on_gpu else None)  # type: ignore[untyped-decorator]  # DALI is not typed
        def program() -> Any:
            x = fn.external_source(
                source=lambda number: batches[number % 2], device="gpu" if on_gpu else "cpu", layout="HWC"
            )
            x = fn.crop(x, crop=(_CROP, _CROP))
            return fn.rotate(x, angle=_ANGLE, keep_size=True, fill_value=0, interp_type=types.INTERP_LINEAR)

        pipe = program()
        pipe.build()
        library = importlib.import_module(package.partition(".dali")[0] if package[0] == "s" else package)
        return pipe.run, str(getattr(library, "__version__", ""))

    return build


def _torchvision(batches: list[Any], device: str) -> tuple[Callable[[], Any], str]:
    torch, vision = importlib.import_module("torch"), importlib.import_module("torchvision")
    functional = importlib.import_module("torchvision.transforms.v2.functional")
    bilinear = importlib.import_module("torchvision.transforms").InterpolationMode.BILINEAR
    numbers = iter(range(10**9))

    def call() -> Any:
        batch = torch.from_numpy(batches[next(numbers) % 2])
        planes = (batch.pin_memory().to(device) if device != "cpu" else batch).permute(0, 3, 1, 2)
        rotated = functional.rotate(functional.center_crop(planes, [_CROP, _CROP]), _ANGLE, bilinear)
        if device != "cpu":
            torch.cuda.synchronize()
        return rotated

    return call, f"{vision.__version__}, torch {torch.__version__}"


def main() -> None:
    """Print the table, or run as the process of one contestant."""
    parser = parser_of(__doc__)
    parser.add_argument("job", choices=("overhead", "external"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--only", choices=_CONTESTANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job == "overhead":
        _overhead(options.device, options.batches, options.rounds)
        return
    if options.only:
        print(json.dumps(_external(options.only, options.device, options.images, options.batches)))
        return
    pythons = dict(one.split("=", 1) for one in options.python)
    base = 0.0
    for name in _CONTESTANTS:
        words = ("external", "--only", name, "--device", options.device, "--images", str(options.images))
        words = (*words, "--batches", str(options.batches))
        python = pythons.get(name, sys.executable)
        result, why = ask_process("benchmarks.pipelines", *words, python=python, limit_s=600)
        if result is None:
            print(f"{name}: not run: {why}")
            continue
        base = base or result["images/s"]
        rate = result["images/s"]
        print(f"{name:12s} {rate:8.0f} images/s, seqpipe {base / rate:.2f} × ({result['version']})")


if __name__ == "__main__":
    main()
