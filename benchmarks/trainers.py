"""Feeds of robots' recordings, of buckets, and of videos with many key frames, each beside what it is compared with.

    python -m benchmarks.trainers [--job robots] [--job buckets] [--job gops] [--device cuda] [--codec h264]

``robots``: a LeRobot data set of three cameras of 640×480 with a key frame every two frames, four times each: seqpipe
beside torchcodec driven as LeRobot's training script drives it (cached decoders with ``seek_mode="approximate"``, a
thread for each camera, ``--workers`` processes, uint8). ``buckets``: batches of three shapes of equal area, read as
they are and resized to the shapes of buckets, beside batches of one shape. ``gops``: random windows of 16×4 frames of
340×256 with a key frame every 2, 8 and 250 frames. Videos are made once. Each contestant runs in a process of its own,
in turns; the least of the rounds counts. A peer that is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import av
import numpy as np

from data_scripts.frame_code import draw
from data_scripts.make_robots import RobotSet, make_robots
from seqpipe.core.whole_file import replacing

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_CAMERAS = tuple(f"observation.images.{name}" for name in ("top", "left", "wrist"))
_FPS, _EPISODES, _LENGTH = 30, 8, 120
_DELTAS = [-3 / _FPS, -2 / _FPS, -1 / _FPS, 0.0]
_BATCH = 8
_CODECS = {
    "h264": ("libx264", {"crf": "23", "preset": "veryfast"}),
    "hevc": ("libx265", {"crf": "26", "preset": "veryfast", "x265-params": "log-level=error"}),
    "av1": ("libsvtav1", {"crf": "30", "preset": "10"}),
}
_SIDES = {"wide": (512, 128), "square": (256, 256), "tall": (128, 512)}  # (width, height), of equal area
_BUCKETED = 24  # videos of 64 frames
_GOPS = (2, 8, 250)


def _encoder(codec: str, gop: int) -> tuple[str, dict[str, str]]:
    name, options = _CODECS[codec]
    if codec == "hevc":
        return name, {**options, "x265-params": f"{options['x265-params']}:keyint={gop}:min-keyint={gop}"}
    return name, {**options, "g": str(gop), "keyint_min": str(gop)}


def _robots(folder: Path, codec: str, *, test: bool) -> Path:
    """Return a data set of robots: as long as a test needs, or a minute's making."""
    out = folder / f"robots_{codec}{'_test' * test}"
    if not (out / "meta/info.json").is_file():
        lengths, size = ((12, 9), (160, 96)) if test else ((_LENGTH,) * _EPISODES, (640, 480))
        half = len(lengths) // 2
        shards = tuple(range(half)), tuple(range(half, len(lengths)))
        name, options = _encoder(codec, 2)
        make_robots(out, "v3.0", RobotSet(lengths, shards, _CAMERAS, _FPS, size, name, options))
    return out


def _video(path: Path, size: tuple[int, int], first: int, frames: int, codec: str, gop: int) -> Path:
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    name, options = _encoder(codec, gop)
    with replacing(path) as part, av.open(part, "w", format="mp4") as container:
        stream: Any = container.add_stream(name, rate=_FPS, options=options)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        for number in range(first, first + frames):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(draw(number, size), format="rgb24")))
        container.mux(stream.encode(None))
    return path


# ---------------------------------------------------------------- contestants: (options) → counts of an epoch


def _counted(dataset: Any, parts: Iterable[str], device: str) -> Iterator[dict[str, float]]:
    """Yield the frames of a warm epoch, and those decoded for them, for each of two epochs."""
    with dataset:
        for epoch in range(2):
            before = sum(dataset.stats()["frames"].values())
            delivered = sum(
                int(np.prod(batch[part].shape[:-3])) for batch in dataset.epoch(epoch) for part in parts
            )
            if device != "cpu":
                import cupy

                cupy.cuda.Device(0).synchronize()
            yield {"frames": delivered, "decoded": sum(dataset.stats()["frames"].values()) - before}


def _seqpipe_robots(options: argparse.Namespace) -> Iterator[dict[str, float]]:
    import seqpipe

    dataset = seqpipe.lerobot(
        _robots(options.folder, options.codec, test=options.test),
        dict.fromkeys(_CAMERAS, _DELTAS),
        output=seqpipe.OutputSpec(layout="FCHW"),
        decode=seqpipe.Decode(threads=None if options.device != "cpu" else options.workers),
        device=options.device,
        shuffle=True,
    )
    yield from _counted(dataset.batch(_BATCH), _CAMERAS, options.device)


class _LikeLeRobot:
    """What LeRobot's ``__getitem__`` does of a sample: frames near times, from decoders that each worker keeps."""

    def __init__(self, root: Path) -> None:
        import pyarrow.parquet as pq

        info = json.loads((root / "meta/info.json").read_text())
        episodes = pq.read_table(root / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
        self._rows = [
            (camera_files, first, int(episode["length"]))
            for episode in episodes
            for camera_files in [
                {
                    camera: (
                        str(
                            root
                            / info["video_path"].format(
                                video_key=camera,
                                chunk_index=0,
                                file_index=episode[f"videos/{camera}/file_index"],
                            )
                        ),
                        float(episode[f"videos/{camera}/from_timestamp"]),
                    )
                    for camera in _CAMERAS
                }
            ]
            for first in range(int(episode["length"]))
        ]
        self._decoders: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        files, frame, length = self._rows[index]
        times = [min(max(frame + round(delta * _FPS), 0), length - 1) / _FPS for delta in _DELTAS]
        with ThreadPoolExecutor(len(files)) as pool:
            read = {
                name: pool.submit(self._frames, path, [start + time_s for time_s in times])
                for name, (path, start) in files.items()
            }
            return {name: one.result() for name, one in read.items()}

    def _frames(self, path: str, times: list[float]) -> Any:
        import torch
        from torchcodec.decoders import VideoDecoder

        if path not in self._decoders:
            self._decoders[path] = VideoDecoder(path, seek_mode="approximate")
        decoder = self._decoders[path]
        read = decoder.get_frames_at([round(time_s * decoder.metadata.average_fps) for time_s in times])
        distance = torch.cdist(torch.tensor(times)[:, None], read.pts_seconds[:, None].float(), p=1)
        least, nearest = distance.min(1)
        if not (least <= 1e-4).all():
            raise ValueError(f"frames of {path} are too far away from {times}")
        return torch.stack([read.data[number] for number in nearest])


def _torchcodec_robots(options: argparse.Namespace) -> Iterator[dict[str, float]]:
    import torch

    items: Any = _LikeLeRobot(_robots(options.folder, options.codec, test=options.test))
    loader = torch.utils.data.DataLoader(
        items, _BATCH, shuffle=True, num_workers=options.workers, persistent_workers=True, prefetch_factor=2
    )
    for _ in range(2):
        delivered = 0
        for batch in loader:
            for value in batch.values():
                delivered += int(np.prod(value.to(options.device).shape[:-3]))
        if options.device != "cpu":
            torch.cuda.synchronize()
        yield {"frames": delivered, "decoded": float("nan")}


def _bucketed(mixed: bool, shapes: Any = None) -> Callable[[argparse.Namespace], Iterator[dict[str, float]]]:
    def read(options: argparse.Namespace) -> Iterator[dict[str, float]]:
        import seqpipe

        files = []
        for number in range(6 if options.test else _BUCKETED):
            side = list(_SIDES)[number % 3] if mixed else "square"
            path = options.folder / f"buckets/{side}_{number:02d}.mp4"
            files.append(_video(path, _SIDES[side], 64 * number, 64, "h264", 30))
        dataset = seqpipe.videos(
            files,
            seqpipe.Clip(16, step=8),
            shuffle=True,
            device=options.device,
            decode=seqpipe.Decode(threads=None if options.device != "cpu" else options.workers),
        )
        bucket = seqpipe.Bucket(shapes=shapes) if mixed or shapes else None
        yield from _counted(dataset.batch(_BATCH, bucket=bucket), ["image"], options.device)

    return read


def _gop(gop: int) -> Callable[[argparse.Namespace], Iterator[dict[str, float]]]:
    def read(options: argparse.Namespace) -> Iterator[dict[str, float]]:
        import seqpipe

        folder = options.folder / f"gops_{options.codec}"

        def made(n: int) -> Path:
            first = 300 * n % 60000
            return _video(folder / f"{gop}_{n:02d}.mp4", (340, 256), first, 300, options.codec, gop)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            files = list(pool.map(made, range(2 if options.test else options.videos)))
        dataset = seqpipe.videos(
            files,
            seqpipe.Clip(16, stride=4, per_video=8),
            shuffle=True,
            device=options.device,
            decode=seqpipe.Decode(threads=None if options.device != "cpu" else options.workers),
        )
        yield from _counted(dataset.batch(32), ["image"], options.device)

    return read


_RESIZED = [(96, 384), (192, 192), (384, 96)]
JOBS: dict[str, dict[str, Callable[[argparse.Namespace], Iterator[dict[str, float]]]]] = {
    "robots": {"seqpipe": _seqpipe_robots, "torchcodec as LeRobot": _torchcodec_robots},
    "buckets": {
        "one shape": _bucketed(mixed=False),
        "three shapes": _bucketed(mixed=True),
        "one shape, resized": _bucketed(mixed=False, shapes=[(192, 192)]),
        "three shapes, resized": _bucketed(mixed=True, shapes=_RESIZED),
    },
    "gops": {f"GOP {gop}": _gop(gop) for gop in _GOPS},
}


def _measure(options: argparse.Namespace) -> dict[str, float]:
    """Run one contestant in this process: the second epoch counts."""
    job, name = options.measure
    epochs = JOBS[job][name](options)
    next(epochs)
    begin, processor = time.perf_counter(), _processor_s()
    counts = next(epochs)
    took = time.perf_counter() - begin
    used = _processor_s() - processor
    epochs.close()
    return {**counts, "wall_s": took, "cpu_s": used}


def _processor_s() -> float:
    """Return the processor time of this process and its running children (Linux)."""
    own = os.getpid()
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if own in (int(stat.parent.name), int(fields[1])):
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _run(job: str, name: str, options: argparse.Namespace) -> dict[str, float] | None:
    command = [sys.executable, "-m", "benchmarks.trainers", "--measure", job, name]
    for option in ("codec", "device", "workers", "videos", "folder"):
        command += [f"--{option}", str(getattr(options, option))]
    done = subprocess.run(
        [*command, *["--test"] * options.test], cwd=_ROOT, capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        print(f"{job}, {name}: {' '.join(done.stderr.split()[-60:])}", file=sys.stderr)
        return None
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> int:
    """Run the contestants of each job in turns; print one table."""
    options = _options()
    if options.measure:
        print(json.dumps(_measure(options)))
        return 0
    print(
        "| job | contestant | frames/s | processor ms a frame | decoded per delivered frame | beside the first |"
    )
    print("|---|---|---|---|---|---|")
    for job in options.job or JOBS:
        best: dict[str, dict[str, float]] = {}
        for _ in range(options.rounds):
            for name in options.only or JOBS[job]:
                result = _run(job, name, options)
                if result and result["wall_s"] < best.get(name, {}).get("wall_s", np.inf):
                    best[name] = {**result, "cpu_s": min(result["cpu_s"], best.get(name, result)["cpu_s"])}
        rates = {name: one["frames"] / one["wall_s"] for name, one in best.items()}
        costs = {name: 1000 * one["cpu_s"] / one["frames"] for name, one in best.items()}
        title = f"{job}, {options.device}" + f", {options.codec}" * (job != "buckets")
        for name, one in best.items():
            first = next(iter(best))
            beside = f"{rates[name] / rates[first]:.2f} × (processor {costs[first] / max(costs[name], 1e-9):.2f} ×)"
            decoded = one["decoded"] / one["frames"]
            print(
                f"| {title} | {name} | {rates[name]:.0f} | {costs[name]:.2f} | {decoded:.2f} | {beside} |",
                flush=True,
            )
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--job", action="append", choices=list(JOBS), help="may be repeated")
    parser.add_argument("--codec", choices=list(_CODECS), default="av1", help="of robots and gops")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="threads, or worker processes"
    )
    parser.add_argument("--videos", type=int, default=64, help="of gops")
    parser.add_argument("--only", action="append", help="a contestant; may be repeated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/trainers"), help="for the videos")
    parser.add_argument("--test", action="store_true", help="a few small videos, to show that it runs")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.setdefault("SEQPIPE_CACHE_DIR", str(options.folder / "cache"))
    return options


if __name__ == "__main__":
    sys.exit(main())
