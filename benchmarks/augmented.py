"""Throughput and memory of a reader with a chain, with and without fusion of the chain with the conversion.

    python -m benchmarks.augmented [--device cuda:0] [--large VIDEO...] [--only NAME]... [--batches 40]

Batches of 8 sequences of 16 frames of 1080p, random resized crops to 224×224, mirrored, normalized, float16, NFCHW:
frames delivered in a second, and the most memory that was in use while a contestant ran, less what was in use before
it began; everything counts, context, kernels, decoders and results. Each contestant runs in a process of its own;
another one looks at the GPU every 5 ms, so nothing else may use it meanwhile. With ``--device cpu`` the memory is the
process's own; the processor time of a frame tells more than frames/s where other work uses the machine. ``unfused, no
prefetch`` reads no batch ahead, so that as few frames as possible are stored at full size.

``--large`` are 1080p videos of 300 frames or more; they are generated if they are not given.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from . import media
from .gpu_memory import build_indexes, run_measured

__all__ = ["main"]

_BATCH, _LENGTH, _SIDE = 8, 16, 224
_MEAN, _STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
CONTESTANTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "unfused": ("none", {}),
    "unfused, no prefetch": ("none", {"prefetch": 0}),
    "fuse='surface'": ("surface", {}),
    "the reader alone, 224×224": (None, {"size": (_SIDE, _SIDE), "dtype": "float16", "layout": "FCHW"}),
}


def _deliver(name: str, paths: list[str], device: str, count: int) -> dict[str, float]:
    """Read the batches of one contestant in this process."""
    import seqpipe
    from seqpipe import Clip, OutputSpec, ops

    fuse, changes = CONTESTANTS[name]
    ahead = changes.get("prefetch", 2)
    output = OutputSpec(**{name: value for name, value in changes.items() if name != "prefetch"})
    take = Clip(_LENGTH, per_video=-(-(count + 2) * _BATCH // len(paths)))
    clips = seqpipe.videos(paths, take, output=output, shuffle=True, device=device).prefetch(ahead)
    chain = ops.Chain(
        ops.RandomResizedCrop(size=(_SIDE, _SIDE)),
        ops.Flip(p=0.5),
        ops.CropMirrorNormalize(mean=_MEAN, std=_STD, dtype="float16", output_layout="CHW"),
    )
    dataset = (clips if fuse is None else clips.map(chain).fuse(fuse)).batch(_BATCH, last="drop")
    with dataset:
        print(dataset.explain(), file=sys.stderr)
        begin, cpu_begin, delivered = 0.0, 0.0, 0
        for number, batch in enumerate(dataset):
            if (shape := batch["image"].shape) != (_BATCH, _LENGTH, 3, _SIDE, _SIDE):
                raise ValueError(f"{name} gives {shape}")
            if number == 1:  # decoders and kernels are there
                begin, cpu_begin = time.perf_counter(), time.process_time()
            delivered += _BATCH * _LENGTH if number > 1 else 0
            if number == count + 1:
                break
            _wait(device)  # as a training step does
        seconds, cpu_s = time.perf_counter() - begin, time.process_time() - cpu_begin
    return {"frames": delivered, "frames_per_s": delivered / seconds, "cpu_ms": 1e3 * cpu_s / delivered}


def _wait(device: str) -> None:
    """Wait for the device."""
    if device != "cpu":
        import cupy

        cupy.cuda.Device(int(device.partition(":")[2] or 0)).synchronize()


def main() -> int:
    """Print the table, or run as the process of one contestant."""
    options = _options()
    if options.measure:
        name, listed, count = options.measure
        paths = Path(listed).read_text().splitlines()
        print(json.dumps(_deliver(name, paths, options.device, int(count))))
        return 0
    sources = options.large or [media.large(options.folder, content) for content in range(4)]
    paths = media.named(sources, options.folder, 24)
    build_indexes(paths)
    listed = options.folder / "large.txt"
    listed.write_text("\n".join(map(str, paths)))
    print(
        "| contestant | frames/s | processor ms a frame | greatest memory, GiB | frames |\n|---|---|---|---|---|"
    )
    for name in options.only or CONTESTANTS:
        words = ("benchmarks.augmented", "--device", options.device, "--measure", name)
        result, why = run_measured(options, *words, str(listed), str(options.batches))
        if result is None:
            print(f"{name} is left out: {why}", file=sys.stderr, flush=True)
            continue
        speed = f"{result['frames_per_s']:.0f} | {result['cpu_ms']:.2f}"
        print(f"| {name} | {speed} | {result['gib']:.2f} | {result['frames']:.0f} |", flush=True)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda:0", help="cuda:N or cpu")
    parser.add_argument("--large", nargs="*", type=Path, default=[], help="1080p videos")
    parser.add_argument("--only", action="append", choices=list(CONTESTANTS), help="may be repeated")
    parser.add_argument("--batches", type=int, default=40, help="for each contestant")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/augmented"), help="for files and indexes")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("SEQPIPE_CACHE_DIR", str(options.folder / "cache"))
    return options


if __name__ == "__main__":
    sys.exit(main())
