"""Share of a training's time spent on waiting for clips: r3d_18 fed by seqpipe and by its peers.

    python -m benchmarks.training [--videos VIDEO... | --large] [--device cuda:0] [--limit 120] [--only NAME]...

A step is forward, backward and SGD for 32 clips of 16 frames, stride 4, at 112×112: torchvision's r3d_18 in bf16 with
channels last or first, whichever is faster; on the CPU a tiny network and 4 clips. Each contestant is a process of its
own, which first trains on one batch that is already there: that is the model's own rate, and the share of time lost to
the loader is 1 - rate / own rate. The row of a contestant that fails says why, or how far it came within ``--limit``
seconds; its messages, with the stacks of all threads at the limit, are kept in the folder of the benchmark's files.

``--videos`` are videos of 300 frames or more, by default four of 340×256 made here, or with ``--large`` those named
``large_30_*.mp4`` in ``--folder``: 1080p with a key frame every 30 frames; if there are none, two are made, which takes
about a minute. 320 hard links of them are read, so that no two windows of a batch share their decoding. Random windows
of them are decoded and resized to 112×112 by whatever the library has for it; torchcodec's by torch, on the device.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import itertools
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from . import media

__all__ = ["main"]

_FRAMES, _STRIDE, _SIDE, _LENGTH = 16, 4, 112, 300
_FILES, _CLASSES = 320, 400
_ROOT = Path(__file__).resolve().parents[1]
_GRACE_S = 15  # for a process to write its stacks
_STAGE = "stage:"
_BEGIN = time.perf_counter()

Clips = Iterator[Any]
"""Batches of pixels, uint8 ``NCFHW``, on the device."""


def _batch_size(device: str) -> int:
    return 4 if device == "cpu" else 32


def _seqpipe(decode: str) -> Callable[[list[str], str], Clips]:
    def clips(paths: list[str], device: str) -> Clips:
        import seqpipe
        from seqpipe import Clip, Decode, OutputSpec

        data = seqpipe.videos(
            paths,
            Clip(_FRAMES, stride=_STRIDE, per_video=4),
            output=OutputSpec(size=(_SIDE, _SIDE)),
            decode=Decode(decode),  # type: ignore[arg-type]  # from the table below
            device=device,
            shuffle=True,
        )
        with data.batch(_batch_size(device), last="drop") as data:
            batches = data.torch("NCFHW")
            for _ in batches.epochs(10**6):
                for batch in batches:
                    yield batch["image"]

    return clips


def _seqpipe_on_cpu(paths: list[str], device: str) -> Clips:
    """Read on the CPU, copied to the device from pinned memory."""
    import torch

    for pixels in _seqpipe("auto")(paths, "cpu"):
        yield pixels.pin_memory().to(device, non_blocking=True) if torch.cuda.is_available() else pixels


def _torchcodec(on_gpu: bool, threads: int) -> Callable[[list[str], str], Clips]:
    def clips(paths: list[str], device: str) -> Clips:
        import torch
        from torchcodec.decoders import VideoDecoder

        random = np.random.Generator(np.random.Philox(1))

        def one(path: str, start: int) -> Any:
            where = device if on_gpu else "cpu"
            decoder = VideoDecoder(path, device=where, seek_mode="approximate", num_ffmpeg_threads=1)
            decoded = decoder.get_frames_at([start + _STRIDE * n for n in range(_FRAMES)]).data
            frames = decoded.to(device).to(torch.float32)  # resizing on a GPU does not take whole numbers
            scaled = torch.nn.functional.interpolate(frames, (_SIDE, _SIDE), mode="bilinear", antialias=True)
            return scaled.round_().clamp_(0, 255).to(torch.uint8)

        count = _batch_size(device)
        with ThreadPoolExecutor(threads) as pool:
            pending: deque[list[Any]] = deque()
            while True:
                while len(pending) < 3:
                    chosen = random.integers(0, len(paths), count)
                    starts = random.integers(0, _LENGTH - (_FRAMES - 1) * _STRIDE, count)
                    pairs = zip(chosen.tolist(), starts.tolist(), strict=True)
                    pending.append([pool.submit(one, paths[n], start) for n, start in pairs])
                yield torch.stack([future.result() for future in pending.popleft()]).transpose(1, 2)

    return clips


def _dali(paths: list[str], device: str) -> Clips:
    """``readers.video_resize``, which draws its own windows."""
    import torch
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=_batch_size(device), num_threads=8, device_id=int(device.partition(":")[2] or 0))
    def pipeline() -> Any:
        frames = fn.readers.video_resize(
            device="gpu",
            filenames=paths,
            sequence_length=_FRAMES,
            stride=_STRIDE,
            random_shuffle=True,
            initial_fill=64,
            size=(_SIDE, _SIDE),
        )
        return fn.transpose(frames, perm=[3, 0, 1, 2])

    pipe = pipeline()
    pipe.build()
    while True:
        (batch,) = pipe.run()
        yield torch.from_dlpack(batch.as_tensor()).clone()  # DALI uses its memory for another batch


@dataclass(frozen=True)
class Contestant:
    """A loader.

    Attributes:
        clips: its batches, from paths and a device.
        needs: a module that must be importable.
    """

    clips: Callable[[list[str], str], Clips]
    needs: str


CONTESTANTS = {
    "seqpipe nvdec": Contestant(_seqpipe("nvdec"), "seqpipe"),
    "seqpipe mixed": Contestant(_seqpipe("mixed"), "seqpipe"),
    "seqpipe cpu": Contestant(_seqpipe_on_cpu, "seqpipe"),
    "torchcodec cuda, 7 threads": Contestant(_torchcodec(on_gpu=True, threads=7), "torchcodec.decoders"),
    "torchcodec cpu, 16 threads": Contestant(_torchcodec(on_gpu=False, threads=16), "torchcodec.decoders"),
    "DALI readers.video_resize": Contestant(_dali, "nvidia.dali.fn"),
}
_ON_CPU = ("seqpipe cpu", "torchcodec cpu, 16 threads")


class _Training:
    """A model, and its steps.

    Args:
        device: where it trains.
    """

    def __init__(self, device: str) -> None:
        import torch

        self._torch, self._device = torch, device
        torch.manual_seed(0)
        if device == "cpu":
            self.model: Any = _tiny(torch)
        else:
            from torchvision.models.video import r3d_18

            torch.backends.cudnn.benchmark = True
            torch.cuda.set_device(device)
            self.model = r3d_18(num_classes=_CLASSES)
        self.model = self.model.to(device)
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        count = _batch_size(device)
        self._labels = torch.randint(_CLASSES, (count,), device=device)
        self.resident = torch.randint(
            256, (count, 3, _FRAMES, _SIDE, _SIDE), dtype=torch.uint8, device=device
        )
        self._format: Any = torch.contiguous_format

    def step(self, pixels: Any) -> None:
        """Forward, backward, and an update."""
        torch = self._torch
        images = pixels.to(dtype=torch.float32, memory_format=self._format).sub_(118).mul_(1 / 58)
        with torch.autocast(self._device.partition(":")[0], torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(self.model(images), self._labels)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._optimizer.step()

    def rate(self, batches: Clips, seconds: float, warm: int = 4) -> float:
        """Frames in a second."""
        for _ in range(warm):
            self.step(next(batches))
        self._wait()
        steps, begin = 0, time.perf_counter()
        queued: deque[Any] = deque()
        while time.perf_counter() - begin < seconds:
            self.step(next(batches))
            steps += 1
            if self._device != "cpu":
                queued.append(self._torch.cuda.Event())
                queued[-1].record()
            if len(queued) > 2:  # the host must not run far ahead of what it measures
                queued.popleft().synchronize()
        self._wait()
        return steps * len(self._labels) * _FRAMES / (time.perf_counter() - begin)

    def own_rate(self, seconds: float, chosen: str | None = None) -> tuple[float, str]:
        """Return the rate with one batch that is on the device.

        Args:
            seconds: to measure each memory format for.
            chosen: the memory format, "first" or "last"; None for the faster one, which the model then keeps.
        """
        formats = {"first": self._torch.contiguous_format, "last": self._torch.channels_last_3d}
        names = [chosen] if chosen else ["first"] if self._device == "cpu" else list(formats)
        rates = {}
        for name in names:
            self._lay_out(formats[name])
            rates[name] = self.rate(itertools.repeat(self.resident), seconds)
        fastest = max(rates, key=lambda name: rates[name])
        self._lay_out(formats[fastest])
        return rates[fastest], fastest

    def _lay_out(self, memory_format: Any) -> None:
        self._format = memory_format
        self.model = self.model.to(memory_format=memory_format)

    def _wait(self) -> None:
        if self._device != "cpu":
            self._torch.cuda.synchronize()


def _tiny(torch: Any) -> Any:
    nn = torch.nn
    return nn.Sequential(
        nn.Conv3d(3, 8, (1, 7, 7), (1, 4, 4)),
        nn.ReLU(),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(8, _CLASSES),
    )


def _stage(what: str) -> None:
    """Print a stage that this process reached to stderr; the row of a process that does not end shows the last one."""
    print(f"{_STAGE} {what} after {time.perf_counter() - _BEGIN:.1f} s", file=sys.stderr, flush=True)


def _measure(
    name: str, paths: list[str], device: str, seconds: float, channels: str | None
) -> dict[str, Any]:
    """One contestant in this process."""
    contestant = CONTESTANTS[name]
    importlib.import_module(contestant.needs)  # fails before the model is built
    training = _Training(device)
    _stage("built the model")
    # before the loader begins: it would read ahead meanwhile, and its threads find the device set up
    own, channels = training.own_rate(min(1.5, seconds), channels)
    _stage("measured the model alone")
    batches = contestant.clips(paths, device)
    first, wanted = next(batches), training.resident
    if (first.shape, first.device.type) != (wanted.shape, wanted.device.type):
        raise ValueError(f"batches {tuple(first.shape)} on {first.device} instead of {tuple(wanted.shape)}")
    _stage("got the first batch")
    rate = training.rate(batches, seconds)
    _stage("measured")
    batches.close()  # type: ignore[attr-defined]  # a generator
    return {"rate": rate, "own": own, "channels": channels}


def main() -> int:
    """Run the contestants, each in a process of its own; print one table."""
    options = _options()
    device = "cuda:0" if options.device == "cuda" else options.device
    if options.measure:
        faulthandler.dump_traceback_later(options.limit, exit=True)
        result = _measure(options.measure, json.load(sys.stdin), device, options.seconds, options.channels)
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(result), flush=True)
        return 0
    sources = _sources(options)
    with tempfile.TemporaryDirectory(prefix="seqpipe-training-") as folder:
        os.environ["SEQPIPE_CACHE_DIR"] = str(Path(folder, "cache"))
        copies = [
            Path(shutil.copy(path, Path(folder, f"{n}{path.suffix}"))) for n, path in enumerate(sources)
        ]
        paths = list(map(str, media.named(copies, Path(folder), _FILES if device != "cpu" else 16)))
        names = options.only or (_ON_CPU if device == "cpu" else CONTESTANTS)
        _compare(names, paths, device, options)
    return 0


def _sources(options: argparse.Namespace) -> list[Path]:
    """Return the videos to read; made in parallel processes if they are not there."""
    if options.videos:
        return list(options.videos)
    if options.large and (existing := sorted(options.folder.glob("large_30_*.mp4"))):
        print(f"read {len(existing)} videos of 1080p in {options.folder}", file=sys.stderr, flush=True)
        return existing
    count = 2 if options.large else 4
    size = "1080p" if options.large else "340×256"
    print(f"make up to {count} videos of {size} in {options.folder}", file=sys.stderr, flush=True)
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
        make = partial(media.large, key_every=30) if options.large else media.small
        return list(pool.map(make, [options.folder] * count, range(count)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--videos", nargs="+", type=Path, help="of 300 frames or more; made if there are none"
    )
    parser.add_argument("--large", action="store_true", help="videos of 1080p, in --folder or made there")
    parser.add_argument("--device", default="cuda:0", help="cpu, or cuda:N")
    parser.add_argument("--seconds", type=float, default=5.0, help="that each contestant is measured for")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that each contestant may take")
    parser.add_argument("--only", action="append", choices=list(CONTESTANTS), help="may be repeated")
    parser.add_argument("--folder", type=Path, default=Path.home() / ".cache" / "seqpipe-bench")
    parser.add_argument("--measure", choices=list(CONTESTANTS), help=argparse.SUPPRESS)
    parser.add_argument("--channels", choices=["first", "last"], help=argparse.SUPPRESS)
    return parser.parse_args()


def _compare(names: Iterable[str], paths: list[str], device: str, options: argparse.Namespace) -> None:
    print(
        "| contestant | frames/s | the model alone | share lost to the loader |\n|---|---|---|---|",
        flush=True,
    )
    channels: list[str] = []  # known after the first contestant, whose model is that of all
    for name in names:
        words = ["--measure", name, "--device", device, "--seconds", str(options.seconds)]
        words += ["--limit", str(options.limit), *channels]
        command = [sys.executable, "-m", "benchmarks.training", *words]
        log = options.folder / f"training_{re.sub('[^a-z0-9]+', '_', name.lower())}.log"
        result, why = run_limited(command, json.dumps(paths), options.limit + _GRACE_S, log)
        if result is None:
            print(f"| {name} | not run: {why} ({log}) | | |", flush=True)
            continue
        channels = ["--channels", result["channels"]]
        share = 1 - result["rate"] / result["own"]
        print(f"| {name} | {result['rate']:.0f} | {result['own']:.0f} | {share:.1%} |", flush=True)


def run_limited(
    command: list[str], stdin: str, limit_s: float, log: Path
) -> tuple[dict[str, Any] | None, str]:
    """Run a command, and kill it and its children after a time limit.

    What it prints goes to files: a pipe would stay open while any of its children lives.

    Args:
        command: prints one line of JSON last.
        stdin: its standard input.
        limit_s: seconds after which it is ended.
        log: receives its standard error.

    Returns:
        The parsed line, or None and the reason, in one line.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile("w+") as into, tempfile.TemporaryFile("w+") as out, log.open("w+") as err:
        into.write(stdin)
        into.seek(0)
        child = subprocess.Popen(
            command, cwd=_ROOT, stdin=into, stdout=out, stderr=err, text=True, start_new_session=True
        )
        try:
            code: int | None = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        out.seek(0)
        err.seek(0)
        printed, lines = out.read().splitlines(), err.read().splitlines()
    if code == 0 and printed:
        return json.loads(printed[-1]), ""
    return None, _reason(code, lines)


def _reason(code: int | None, lines: list[str]) -> str:
    """Return why a process has no result: its exception, its signal, or the last stage that it reached."""
    stages = [line.removeprefix(_STAGE).strip() for line in lines if line.startswith(_STAGE)]
    came = f"it {stages[-1]}" if stages else "it was still starting"
    if code is None or any(line.startswith("Timeout (") for line in lines):
        return f"no result within the limit, {came}"
    if code < 0:
        return f"ended by {signal.Signals(-code).name}, {came}"
    errors = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)\b", line)]
    last = (errors or [line for line in lines if line.strip()] or ["no message"])[-1]
    return f"exit code {code}, {last.strip()[:300]}, {came}"


if __name__ == "__main__":
    sys.exit(main())
