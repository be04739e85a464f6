"""Programs of DALI on a CPU, or a feed of videos on a GPU, under DALI and under seqpipe.

    python -m benchmarks.dali_programs [--job NAME]... [--seconds 3] [--rounds 3] --dali /venv/bin/python
    python -m benchmarks.dali_programs --job video --videos FOLDER --seconds 6 --rounds 2 --dali /venv/bin/python

The feed is clips of 16 × 4 frames of the folder's ``*.mp4`` at 224×224, as PyTorch tensors of the device.
Each program has two threads and is that of DALI with another import; what it reads is made beforehand. Both sides take
turns, each time in a process of its own. The best rate of the rounds, in samples a second, and the least milliseconds
of the processor for a sample, which are less affected by other work of the machine.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import time
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

__all__ = ["main"]

_PACKAGES: Final = {"seqpipe": "seqpipe.dali", "dali": "nvidia.dali"}
_BATCHES: Final = {"jpeg": 32, "external": 32, "webdataset": 32, "volumes": 4, "mel": 16, "video": 8}


def _write(folder: Path) -> None:
    """Write 64 JPEG images of 500×375, a tar archive of them, 8 volumes of 100×160×160, and 16 sounds of 2 s."""
    import cv2

    rng = np.random.default_rng(0)
    with tarfile.open(folder / "images.tar", "w") as archive:
        for number in range(64):
            image = cv2.resize(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8), (500, 375))
            data = cv2.imencode(".jpg", image)[1].tobytes()
            (folder / f"{number:02d}.jpg").write_bytes(data)
            for name, part in ((f"{number:02d}.jpg", data), (f"{number:02d}.cls", b"%d" % (number % 10))):
                entry = tarfile.TarInfo(name)
                entry.size = len(part)
                archive.addfile(entry, io.BytesIO(part))
    for number in range(8):
        np.save(folder / f"{number}.npy", rng.normal(size=(100, 160, 160)).astype(np.float32))
    for number in range(16):
        with wave.open(str(folder / f"{number:02d}.wav"), "wb") as sound:
            sound.setparams((1, 2, 16000, 0, "NONE", ""))
            sound.writeframes(rng.integers(-9000, 9000, 32000, dtype=np.int16).tobytes())


def _program(job: str, folder: Path, fn: Any, types: Any) -> Any:
    """Return the outputs of a program."""
    images = {"files": sorted(map(str, folder.glob("*.jpg"))), "random_shuffle": True, "name": "Reader"}

    def position() -> Any:
        return fn.random.uniform(range=(0.0, 1.0))

    if job == "jpeg":
        pixels = fn.resize(fn.decoders.image(fn.readers.file(**images)[0]), resize_shorter=256)
        return fn.crop_mirror_normalize(
            pixels,
            crop=(224, 224),
            mean=[123.0, 116.0, 103.0],
            std=[58.0, 57.0, 57.0],
            mirror=fn.random.coin_flip(),
            dtype=types.FLOAT,
            output_layout="CHW",
        )
    if job == "external":
        pool = np.random.default_rng(0).integers(0, 256, (64, 300, 300, 3), dtype=np.uint8)
        pixels = fn.external_source(
            source=lambda sample: pool[sample.idx_in_epoch % 64],
            batch=False,
            layout="HWC",
            dtype=types.UINT8,
        )
        pixels = fn.crop(pixels, crop=(256, 256), crop_pos_x=position(), crop_pos_y=position())
        return fn.rotate(pixels, angle=fn.random.uniform(range=(-30.0, 30.0)), keep_size=True, fill_value=0)
    if job == "webdataset":
        archive = {"paths": [str(folder / "images.tar")], "ext": ["jpg", "cls"], "random_shuffle": True}
        data, label = fn.readers.webdataset(missing_component_behavior="error", **archive)
        return fn.resize(fn.decoders.image(data), size=(224, 224)), label
    if job == "volumes":
        files = sorted(map(str, folder.glob("*.npy")))
        volumes = fn.readers.numpy(files=files, random_shuffle=True, name="Reader")
        volumes = fn.reshape(volumes, layout="DHWC", shape=[100, 160, 160, 1])
        places = {f"crop_pos_{axis}": position() for axis in "xyz"}
        sides = {name: fn.random.coin_flip() for name in ("horizontal", "vertical", "depthwise")}
        return fn.flip(fn.crop(volumes, crop=(64, 96, 96), **places), **sides)
    if job == "video":
        clips = fn.readers.video(
            device="gpu",
            filenames=sorted(map(str, folder.glob("*.mp4"))),
            sequence_length=16,
            stride=4,
            step=16,
            random_shuffle=True,
            initial_fill=16,
            name="Reader",
        )
        return fn.crop_mirror_normalize(
            fn.resize(clips, size=(224, 224)),
            mean=[123.7, 116.3, 103.5],
            std=[58.4, 57.1, 57.4],
            dtype=types.FLOAT,
            output_layout="FCHW",
        )
    data, _ = fn.readers.file(files=sorted(map(str, folder.glob("*.wav"))), random_shuffle=True)
    sound, _ = fn.decoders.audio(data, dtype=types.FLOAT, downmix=True)
    bands = fn.spectrogram(sound, nfft=512, window_length=320, window_step=160)
    return fn.to_decibels(fn.mel_filter_bank(bands, sample_rate=16000, nfilter=80))


def _measured(package: str, job: str, folder: Path, seconds: float) -> dict[str, float]:
    """Return samples a second, and milliseconds of the processor for a sample, of a program in this process."""
    fn, types = (importlib.import_module(f"{package}.{part}") for part in ("fn", "types"))
    size, on_gpu = _BATCHES[job], job == "video"
    make: Callable[..., Any] = importlib.import_module(f"{package}.pipeline").pipeline_def
    device = {"num_threads": 8, "device_id": 0} if on_gpu else {"num_threads": 2, "device_id": None}
    pipe = make(_program, batch_size=size, seed=1, **device)(job, folder, fn, types)
    pipe.build()
    step = _batches(package, pipe).__next__ if on_gpu else pipe.run
    for _ in range(40 if on_gpu else 3):
        step()
    count, begin, spent = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < seconds:
        step()
        count += size
    elapsed, spent = time.perf_counter() - begin, time.process_time() - spent
    return {"rate": count / elapsed, "ms": 1e3 * spent / count}


def _batches(package: str, pipe: Any) -> Iterator[Any]:
    """Yield the tensors of DALI's iterator for PyTorch, epoch after epoch, each when the device has it."""
    import torch

    plugin = importlib.import_module(f"{package}.plugin.pytorch")
    policy = plugin.LastBatchPolicy.DROP
    feed = plugin.DALIGenericIterator(
        [pipe], ["data"], reader_name="Reader", auto_reset=True, last_batch_policy=policy
    )
    while True:
        for batch in feed:
            torch.cuda.synchronize()
            yield batch[0]["data"]


def main() -> None:
    """Print the table, or run as the process of one side."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--job", action="append", choices=_BATCHES)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dali", required=True, help="interpreter that has nvidia.dali")
    parser.add_argument("--videos", type=Path, help="folder of the job video, which needs a GPU")
    parser.add_argument("--side", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        side, folder = options.side
        print(json.dumps(_measured(_PACKAGES[side], options.job[0], Path(folder), options.seconds)))
        return
    pythons = {"seqpipe": sys.executable, "dali": options.dali}
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder))
        for job in options.job or [name for name in _BATCHES if name != "video"]:
            read = str(options.videos) if job == "video" else folder
            found: dict[str, list[dict[str, float]]] = {side: [] for side in pythons}
            for _ in range(options.rounds):
                for side, python in pythons.items():
                    words = [python, __file__, "--job", job, "--seconds", str(options.seconds)]
                    words += ["--dali", python, "--side", side, read]
                    done = subprocess.run(words, capture_output=True, text=True, check=True)
                    found[side].append(json.loads(done.stdout.splitlines()[-1]))
            rate = {side: max(one["rate"] for one in rows) for side, rows in found.items()}
            work = {side: min(one["ms"] for one in rows) for side, rows in found.items()}
            print(
                f"{job:10s} {rate['seqpipe']:7.1f} samples/s, DALI {rate['dali']:7.1f}: "
                f"{rate['seqpipe'] / rate['dali']:.2f} ×; {work['seqpipe']:6.2f} ms of the processor, "
                f"DALI {work['dali']:6.2f}: {work['dali'] / work['seqpipe']:.2f} ×",
                flush=True,
            )


if __name__ == "__main__":
    main()
