"""Time of the conversion kernel for a frame, and the rate at which it reads and writes memory.

Run on a GPU: ``python -m benchmarks.gpu_convert``. Every launch reads and writes memory of its own, far more
than the cache can hold.

The last lines are about training: eight sequences of 16 frames to 224×224 float16 CHW, normalized, with one launch for
each sequence. Each has a crop and a mirror of its own, as RandomResizedCrop samples them: new in every call, as in
training, or always the same; or the whole frame. The last two lines are of new windows (the filter also reads pixels
around them, as operators do): of the planes, and of rounded colors (``fuse="surface"``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np

from benchmarks.ops_devices import Cuda
from seqpipe.ops.resize.resize import _CropWindows
from seqpipe.video.convert.output import OutputSpec, transposed
from seqpipe.video.cuda.conversion import FRAMES
from seqpipe.video.cuda.device_surface import DeviceSurface, SurfaceShape
from seqpipe.video.cuda.painter import Converters, DeviceConverter
from tests.support.pictures import frame_info, surface_format

HEIGHT, WIDTH = 1080, 1920
LAUNCHES = 20
SEQUENCES, LENGTH = 8, 16
NORMALIZED: dict[str, Any] = {
    "layout": "FCHW",
    "dtype": "float16",
    "size": (224, 224),
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
}
JOBS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("NV12 to uint8 HWC", 8, {}),
    ("NV12 to uint8 CHW", 8, {"layout": "FCHW"}),
    ("NV12 to float16 CHW", 8, {"layout": "FCHW", "dtype": "float16"}),
    ("NV12 to float32 CHW", 8, {"layout": "FCHW", "dtype": "float32"}),
    ("P016 to uint16 HWC", 10, {"dtype": "uint16"}),
    ("NV12 rotated by 90 degrees", 8, {"turn": 90}),
    ("NV12, crop at an odd position", 8, {"crop": (21, 33, 901, 1601)}),
    ("NV12 to 224x224 float16 CHW", 8, {"layout": "FCHW", "dtype": "float16", "size": (224, 224)}),
    ("NV12 to 455x256 uint8 HWC", 8, {"short_side": 256}),
    ("NV12 to 1280x720 uint8 HWC", 8, {"size": (720, 1280)}),
    ("NV12 to 3840x2160 uint8 HWC", 8, {"size": (2160, 3840)}),
)


def surfaces(bits: int, count: int = FRAMES) -> tuple[list[DeviceSurface], Any]:
    """Frame buffers in GPU memory, and the array that owns them."""
    # random numbers by NumPy: CuPy's need a library that seqpipe does not
    noise = np.random.default_rng(0).integers(16, 236, (HEIGHT * 3 // 2, 2048))
    samples = cupy.stack([cupy.asarray(noise.astype(np.uint8 if bits == 8 else np.uint16))] * count)
    pitch, form = samples.strides[1], surface_format("4:2:0", bits)
    starts = [samples.data.ptr + number * samples.strides[0] for number in range(count)]
    shape = SurfaceShape(pitch, WIDTH, HEIGHT, form, interleaved=True, shift=0 if bits == 8 else 6)
    buffers = [shape.surface(number, (start, start + HEIGHT * pitch)) for number, start in enumerate(starts)]
    return buffers, samples


def measured(bits: int, turn: int = 0, **output: Any) -> tuple[float, float, float]:
    """Microseconds of a frame in launches of 64, of one frame in a launch of its own, and MB of a frame."""
    frames, _owner = surfaces(bits)
    info = frame_info(WIDTH, HEIGHT, surface_format("4:2:0", bits), rotation_degrees=turn)
    convert = DeviceConverter(info, OutputSpec(**output), 0)
    batch = cupy.empty((FRAMES, *convert.shape), convert.dtype)
    outs = [int(batch[number].data.ptr) for number in range(FRAMES)]
    microseconds = []
    for count in (FRAMES, 1):
        convert(frames[:count], outs[:count])
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        for _ in range(LAUNCHES):
            convert(frames[:count], outs[:count])
        end.record()
        end.synchronize()
        microseconds.append(1e3 * cupy.cuda.get_elapsed_time(begin, end) / LAUNCHES / count)
    height, width = output.get("crop", (0, 0, HEIGHT, WIDTH))[2:]
    read = width * height * 3 / 2 * (1 if bits == 8 else 2)
    return microseconds[0], microseconds[1], (read + batch[0].nbytes) / 1e6


def windows() -> Iterator[list[dict[str, Any]]]:
    """Crop and mirror of each sequence of a call, sampled in advance."""
    distribution = _CropWindows((0.08, 1.0), (3 / 4, 4 / 3), 10)
    random = np.random.Generator(np.random.Philox(0))

    def sampled() -> dict[str, Any]:
        box = distribution.draw(random, HEIGHT, WIDTH, None)
        return {"crop": transposed(box), "mirror": random.random() < 0.5}

    return itertools.cycle([[sampled() for _ in range(SEQUENCES)] for _ in range(400)])


def sequences() -> Iterator[tuple[str, Callable[[], None]]]:
    """The jobs of eight sequences."""
    frames, _owner = surfaces(8, SEQUENCES * LENGTH)
    info, converters = frame_info(WIDTH, HEIGHT, surface_format("4:2:0", 8)), Converters(0)
    batch = cupy.empty((SEQUENCES * LENGTH, 3, 224, 224), np.float16)
    outs = [int(batch[number].data.ptr) for number in range(len(batch))]

    def convert(changes: list[dict[str, Any]]) -> None:
        for number, change in enumerate(changes):
            part = slice(number * LENGTH, (number + 1) * LENGTH)
            converters.get(info, OutputSpec(**NORMALIZED, **change))(frames[part], outs[part])

    new = windows()
    fixed = next(new)
    yield "new crops", lambda: convert(next(new))
    yield "the same crops", lambda: convert(fixed)
    yield "whole frames", lambda: convert([{}] * SEQUENCES)
    yield "new windows of the planes", lambda: convert(_within(next(new)))
    yield "new windows, colors rounded", lambda: convert(_within(next(new), rounded="uint8"))


def _within(crops: list[dict[str, Any]], **changes: Any) -> list[dict[str, Any]]:
    """The same rectangles as windows: the filter also reads pixels around them."""
    return [{"window": crop["crop"], "mirror": crop["mirror"], **changes} for crop in crops]


def main() -> None:
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    print(
        properties["name"].decode(), "| 1920x1080 | µs a frame, 64 in a launch | one alone | MB moved | GB/s"
    )
    for name, bits, output in JOBS:
        together, alone, megabytes = measured(bits, **output)
        print(f"{name:30} {together:8.2f} {alone:8.2f} {megabytes:8.2f} {megabytes / together * 1e3:8.0f}")
    print(f"{SEQUENCES} sequences of {LENGTH} frames to 224x224, normalized | ms of the GPU | ms of the host")
    for name, work in sequences():
        ms, host_ms = Cuda().measure(work)
        print(f"{name:30} {ms:8.3f} {host_ms:8.3f}")


if __name__ == "__main__":
    main()
