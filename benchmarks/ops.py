"""Time of operators, beside one copy of their bytes and beside other libraries.

    python -m benchmarks.ops [--device cpu|cuda] [--job all|resize|chain|published|eager]... [--only NAME]...

- ``all``: each operator's first example on 8×16×256×340×3 bytes on a GPU, on 16×256×340×3 on a CPU; the last column is
  how many times as long as to move its bytes once. That is a copy of what is given into memory that is there; where the
  result is larger, what that copy takes for as many bytes as what is given and the result have together.
- ``resize``: 16 frames of 1080p to 224×224 by one thread, antialiased, beside torch and OpenCV's area filter.
- ``chain``: 8×16 frames of 1080p, and of 340×256: a random resized crop to 224×224, a flip, and normalization to
  float16 in NFCHW, beside torchvision where it is installed.
- ``published``: a comparison that a loader's authors published: 512 images of 300×300, of each the middle 200×200 cut
  out and rotated by 30 degrees, beside torchvision and DALI where they are installed.
- ``eager``: the host's time for a call of that chain, and of each operator's first example: in main memory on an 8×8×3
  image, and for a GPU, by a device that does nothing, on 8×16 frames of 24×28.

A figure is the median of several rounds, after two that do not count; of eager calls the least, in time of the process,
for others take turns on the machine. On a GPU it is the time of the device alone, and that of the host is beside it.
``--threads 1`` is the default: OpenCV and torch get one thread, as seqpipe does.
"""

from __future__ import annotations

import importlib
import sys
import time
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.frame import add_choice, is_here, parser_of, print_table, waiting_for
from benchmarks.ops_devices import Cpu, Cuda, NoDevice, clocked

__all__ = ["main"]

_LARGE, _SMALL, _SIDE = (1080, 1920), (256, 340), 224
_MEAN, _STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
_CALLS = 40  # of which an eager call's time is the mean

Row = tuple[Any, ...]


def _all(device: Cpu, only: list[str]) -> Iterator[Row]:
    x = device.images(device.samples, 16, *_SMALL, 3)
    copy = device.measure(device.copy(x))
    yield "a copy", *copy, "1.0"
    # axes that can be left out, and as many as are put in order
    others = {"squeeze": x[None], "transpose": x.reshape(-1, *x.shape[-2:])}
    for name, cls in _operators(only):
        if cls.traits.takes in ("boxes", "points") or "uint8" not in cls.traits.dtypes:
            continue
        images = others.get(name, x if not cls.traits.channels or 3 in cls.traits.channels else x[..., :1])
        try:
            op = cls(**_for_large(cls.traits.examples[0] if cls.traits.examples else {}))
            moved = images.nbytes + max(images.nbytes, _bytes_of(op(images)))
            once = copy.ms * moved / (2 * x.nbytes)
            cost = device.measure(partial(op, images))
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        yield repr(op), *cost, f"{cost.ms / once:.1f}"


def _bytes_of(result: Any) -> int:
    """Return the bytes of a result, which may be several arrays."""
    if isinstance(result, tuple):
        return sum(map(_bytes_of, result))
    return int(getattr(result, "nbytes", 0))


def _operators(only: list[str]) -> Iterator[tuple[str, Any]]:
    from seqpipe.ops import REGISTRY

    for name in sorted(only or REGISTRY):
        if REGISTRY[name].__module__.startswith("seqpipe.") and REGISTRY[name].traits.takes != "nothing":
            yield name, REGISTRY[name]


def _for_large(example: Any) -> dict[str, Any]:
    """Return an example with a size for large images; examples of the tests have a few pixels."""
    side = {"resize_x": _SIDE, "resize_y": _SIDE, "resize_shorter": 256, "resize_longer": 256}
    sizes = {"size": (_SIDE, _SIDE), "crop": (_SIDE, _SIDE), **side}
    return {name: sizes.get(name, value) for name, value in example.items()}


def _resize(device: Cpu, _only: list[str]) -> Iterator[Row]:
    from seqpipe import ops

    x = device.images(16, *_LARGE, 3)
    op = ops.Resize(size=(_SIDE, _SIDE))
    yield "seqpipe resize", *device.measure(lambda: op(x)), ""
    if device.name == "cpu":
        import cv2

        area = lambda: [cv2.resize(frame, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA) for frame in x]  # noqa: E731  a name for the table
        yield "OpenCV, area (another filter)", *device.measure(area), ""
    torch = _module("torch")
    if torch is not None:
        functional = torch.nn.functional
        planes = torch.as_tensor(x, device=device.name).permute(0, 3, 1, 2)
        size = {"size": (_SIDE, _SIDE), "mode": "bilinear", "antialias": True}
        pixels = planes if device.name == "cpu" else planes.float()
        yield "torch interpolate", *device.measure(lambda: functional.interpolate(pixels, **size)), ""


def _chain(device: Cpu, _only: list[str]) -> Iterator[Row]:
    chain = _usual(_SIDE)
    torch, vision = _module("torch"), _module("torchvision.transforms.v2")
    for size in (_LARGE, _SMALL):
        x = device.images(device.samples, 16, *size, 3)
        what = "{}×{}, {} kernels".format(*size, len(list(chain.groups())))
        ours = device.measure(lambda x=x: chain(x))
        yield f"seqpipe, {what}", *ours, ""
        if torch is None or vision is None:
            continue
        planes = torch.as_tensor(x, device=device.name).permute(0, 1, 4, 2, 3).contiguous()
        peer = vision.Compose(
            [
                vision.RandomResizedCrop((_SIDE, _SIDE), antialias=True),
                vision.RandomHorizontalFlip(),
                vision.ToDtype(torch.float16),
                vision.Normalize(_MEAN, _STD),
            ]
        )
        theirs = device.measure(lambda planes=planes, peer=peer: torch.stack([peer(clip) for clip in planes]))
        yield "torchvision v2, clip by clip", *theirs, f"{theirs.ms / ours.ms:.1f} × seqpipe"


def _usual(side: int) -> Any:
    """Return the most common chain of a training."""
    from seqpipe import ops

    last = ops.CropMirrorNormalize(mean=_MEAN, std=_STD, dtype="float16", output_layout="CHW")
    return ops.Chain(ops.RandomResizedCrop(size=(side, side)), ops.Flip(p=0.5), last)


def _published(device: Cpu, _only: list[str]) -> Iterator[Row]:
    from seqpipe import ops

    x = device.images(512, 1, 300, 300, 3)
    rotate = ops.Rotate(angle=30.0, keep_size=True, fill_value=0.0)
    chain = ops.Chain(ops.Crop(crop=(200, 200)), rotate)
    ours = device.measure(lambda: chain(x))
    finish = waiting_for(device.name)
    by_clock = clocked(lambda: chain(x), finish)
    yield "seqpipe", *ours, f"{by_clock:.3f} ms by the clock"
    torch, vision = _module("torch"), _module("torchvision.transforms.v2.functional")
    if torch is not None and vision is not None:
        planes = torch.as_tensor(x[:, 0], device=device.name).permute(0, 3, 1, 2).contiguous()
        bilinear = importlib.import_module("torchvision.transforms").InterpolationMode.BILINEAR

        def theirs() -> Any:
            return vision.rotate(vision.center_crop(planes, [200, 200]), 30.0, bilinear)

        cost, clock = device.measure(theirs), clocked(theirs, finish)
        yield (
            "torchvision v2, all at once",
            *cost,
            f"{clock:.3f} by the clock, {clock / by_clock:.1f} × seqpipe",
        )
    if device.name == "cuda" and _module("nvidia.dali") is not None:
        clock = clocked(_dali(x[:, 0]), finish)
        yield "DALI", clock, clock, f"by the clock, {clock / by_clock:.1f} × seqpipe"


def _dali(images: Any) -> Callable[[], Any]:
    """DALI's pipeline for the published comparison; the batch is on the GPU before the measurement."""
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=len(images), num_threads=4, device_id=0)
    def pipeline() -> Any:
        x = fn.external_source(lambda: images, device="gpu", layout="HWC", no_copy=True)
        x = fn.crop(x, crop=(200, 200))
        return fn.rotate(x, angle=30.0, keep_size=True, fill_value=0, interp_type=types.INTERP_LINEAR)

    built = pipeline()
    built.build()
    return built.run  # type: ignore[no-any-return]  # DALI is not typed


def _eager(_device: Cpu, only: list[str]) -> Iterator[Row]:
    from seqpipe.ops import apply

    images, nothing = Cpu().images, NoDevice()
    tiny, frames = images(8, 8, 3), images(8, 16, 24, 28, 3)
    yield "NumPy adds two such images", _quickest(lambda: np.add(tiny, tiny)), ""
    usual = _usual(16)
    queued = partial(usual, frames, backend="cuda", device=nothing)
    yield "the chain, to 16×16", _quickest(partial(usual, tiny)), _quickest(queued)
    for name, cls in _operators(only):
        op = cls(**(cls.traits.examples[0] if cls.traits.examples else {}))
        dtype = "uint8" if "uint8" in cls.traits.dtypes else cls.traits.dtypes[0]
        own = (
            slice(None)
            if not cls.traits.channels or 3 in cls.traits.channels
            else slice(cls.traits.channels[0])
        )
        small, batch = tiny.astype(dtype)[..., own], frames.astype(dtype)[..., own]
        pixels = small if op.traits.keeps_frames else np.stack([small] * 3)
        if cls.traits.takes == "batches":
            pixels = np.stack([small, small])[:, None]
        elif cls.traits.takes in ("boxes", "points"):
            pixels = np.array([[0.1, 0.2, 0.3, 0.4]])[:, : 4 if cls.traits.takes == "boxes" else 2]
        try:
            here = _quickest(partial(op, pixels))
            there = ""
            if cls.traits.takes == "batches":
                there = _quickest(partial(op.mixed, batch, backend="cuda", device=nothing))
            elif cls.traits.body is not None or cls.traits.composed:
                there = _quickest(partial(apply, op, batch, backend="cuda", device=nothing))
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        yield repr(op), here, there


def _quickest(call: Callable[[], Any]) -> str:
    """Return the microseconds of a call."""
    call()
    times = timeit.repeat(call, number=_CALLS, repeat=9, timer=time.process_time)
    return f"{1e6 * min(times) / _CALLS:.1f}"


_MS = ("ms", "ms of the host", "")
_JOBS: dict[str, tuple[tuple[str, ...], Callable[[Cpu, list[str]], Iterator[Row]]]] = {
    "all": (("ms", "ms of the host", "× its bytes moved once"), _all),
    "resize": (_MS, _resize),
    "chain": (_MS, _chain),
    "published": (_MS, _published),
    "eager": (("µs", "µs of the host for a GPU"), _eager),
}


def main() -> None:
    """Print a table for each job."""
    parser = parser_of(__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    add_choice(parser, "--job", _JOBS)
    parser.add_argument("--only", action="append", default=[], help="operators by name; may be repeated")
    parser.add_argument("--threads", type=int, default=1, help="of OpenCV and torch")
    options = parser.parse_args()
    import cv2

    cv2.setNumThreads(options.threads)
    if (torch := _module("torch")) is not None:
        torch.set_num_threads(options.threads)
    device = Cuda() if options.device == "cuda" else Cpu()
    for job in options.job or _JOBS:
        columns, rows = _JOBS[job]
        print()
        cells = (
            (f"{cell:.3f}" if isinstance(cell, float) else cell for cell in row)
            for row in rows(device, options.only)
        )
        print_table((f"{job}, {device.name}", *columns), cells)


def _module(name: str) -> Any:
    return importlib.import_module(name) if is_here(name) else None


if __name__ == "__main__":
    main()
