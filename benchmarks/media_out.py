"""Costs of what is written for training and found in films: copies, short GOPs, transcoding, scenes, sound.

    python -m benchmarks.media_out --job gop --device cuda      (a GPU: clips of copies beside a bare decode loop)
    python -m benchmarks.media_out --job copies [--device cuda] (clips of 1080p films and of their copies)
    python -m benchmarks.media_out --job transcode --job scenes --job audio

Rates on a GPU are frames in a second of wall clock; on the CPU, seconds of processor time count, of this process or of
the commands, the least of ``--repeat`` turns of each side.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from benchmarks import media
from benchmarks.frame import add_choice, in_turns, least, parser_of
from seqpipe.video.engine import gpu_backends
from seqpipe.video.plan import make_plan

__all__ = ["main"]

_GOPS: Final = (250, 16, 8, 2)
_ENGINES: Final = 7


def main() -> None:
    """Run the chosen jobs, and print a line for each figure."""
    parser = parser_of(__doc__)
    add_choice(parser, "--job", _JOBS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--videos", type=int, default=6)
    parser.add_argument("--clips", type=int, default=40)
    parser.add_argument("--least-saved", type=int, nargs="+", default=[1, 4, 1000])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "media_out")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.job or _JOBS:
        for what, value in _JOBS[name](options):
            print(f"{name:10s} {what:60s} {value}", flush=True)


def _least(
    sides: dict[str, Callable[[], Any]], options: argparse.Namespace
) -> dict[str, tuple[float, float]]:
    """Least (processor, wall) seconds of each side, which take turns."""
    spent = {name: least(rounds) for name, rounds in in_turns(sides, options.repeat).items()}
    return {name: (taken.cpu_ms / 1e3, taken.wall_ms / 1e3) for name, taken in spent.items()}


def _films(options: argparse.Namespace, make: Callable[..., Path]) -> list[Path]:
    return [make(options.folder, content, film=True) for content in range(options.videos)]


def _copies(options: argparse.Namespace, films: list[Path], gop: int) -> list[Path]:
    """Training copies of films."""
    from seqpipe.video.encode.transcode import CopySettings, transcode
    from seqpipe.video.index.open import open_index
    from seqpipe.video.source.source import open_source

    copies = []
    for film in films:
        copies.append(options.folder / f"{film.stem}_gop{gop}.mp4")
        if not copies[-1].exists():
            source = open_source(str(film))
            transcode(source, open_index(source), copies[-1], CopySettings(gop=gop))
    return copies


def _clips(paths: list[Path], length: int, stride: int, options: argparse.Namespace, **output: Any) -> Any:
    """A data set of random clips."""
    import seqpipe

    take = seqpipe.Clip(length, stride=stride, per_video=max(1, options.clips * 6 // len(paths)))
    spec = seqpipe.OutputSpec(**output)
    return seqpipe.videos(
        [str(path) for path in paths], take, output=spec, device=options.device, shuffle=True
    )


def _epoch(dataset: Any) -> None:
    """Read a whole epoch."""
    for _ in dataset.batch(8):
        pass


def _delivered(dataset: Any, frames: int) -> tuple[float, float]:
    """Delivered frames/s and decoded frames for each, of an epoch after one that warms up."""
    delivered = 0
    begin, decoded = time.perf_counter(), 0
    for number in range(2):
        begin, delivered = time.perf_counter(), 0
        decoded = sum(dataset.source.stats()["frames"].values())
        for batch in dataset.batch(8).epoch(number):
            delivered += len(batch["image"]) * frames
    decoded = sum(dataset.source.stats()["frames"].values()) - decoded
    return delivered / (time.perf_counter() - begin), decoded / max(1, delivered)


def _gop(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Random clips 16x4 at 340x256 of copies with several GOPs, beside decoding of the whole files and nothing else."""
    films = _films(options, media.small)
    for gop in _GOPS:
        copies = _copies(options, films, gop)
        size = sum(path.stat().st_size for path in copies) / len(copies) / media.FRAMES
        bare = _bare_nvdec(copies) if options.device.startswith("cuda") else _bare_cpu(copies)
        for saved in options.least_saved:
            with (
                patch.object(gpu_backends, "NVDEC_LEAST_SAVED", saved),
                _clips(copies, 16, 4, options) as dataset,
            ):
                rate, each = _delivered(dataset, 16)
                runs = _runs(copies[0], saved)
            yield (
                f"GOP {gop}, {size:,.0f} bytes a frame, skips that save {saved} frames",
                f"{rate:,.0f} delivered/s, {runs:.1f} runs a clip, {each:.2f} decoded each, {rate * each:,.0f}/s; "
                f"bare loop {bare:,.0f}",
            )


def _runs(path: Path, least_saved: int) -> float:
    """Runs of a clip 16x4, each of which drains the decoder at its end, on average."""
    from seqpipe.video.index.open import open_index

    table = (index := open_index(str(path))).packets
    clips = [np.arange(start, start + 61, 4) for start in range(0, len(index) - 61, 7)]
    plans = (make_plan(table, table.frame_packet[one], least_saved=least_saved) for one in clips)
    return float(np.mean([len(found.segments) for found in plans]))


def _bare_nvdec(paths: list[Path]) -> float:
    """Frames/s of NVDEC alone: a PyNvVideoCodec decoder for each engine, whole files, frames are dropped."""
    import PyNvVideoCodec

    def decode(number: int) -> int:
        count = 0
        for turn in range(4):
            demuxer = PyNvVideoCodec.CreateDemuxer(filename=str(paths[(number + turn) % len(paths)]))
            decoder = PyNvVideoCodec.CreateDecoder(
                gpuid=0, codec=demuxer.GetNvCodecId(), usedevicememory=True
            )
            for packet in demuxer:
                count += len(decoder.Decode(packet))
        return count

    with ThreadPoolExecutor(_ENGINES) as pool:
        list(pool.map(decode, range(_ENGINES)))
        begin = time.perf_counter()
        count = sum(pool.map(decode, range(_ENGINES)))
        return count / (time.perf_counter() - begin)


def _bare_cpu(paths: list[Path]) -> float:
    """Frames/s of FFmpeg alone in one thread, by processor time."""
    import av

    begin, count = time.process_time(), 0
    for path in paths:
        with av.open(str(path)) as container:
            container.streams.video[0].thread_count = 1
            count += sum(1 for _ in container.decode(video=0))
    return count / (time.process_time() - begin)


def _of_copies(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Random clips 32x5 of 1080p films, scaled to a short side of 256, and of copies of that size."""
    films = _films(options, media.large)
    copies = _copies(options, films, 16)
    sides = {"films": films, "copies": copies}
    sets = {name: _clips(paths, 32, 5, options, short_side=256) for name, paths in sides.items()}
    if options.device.startswith("cuda"):
        rates = {name: _delivered(dataset, 32)[0] for name, dataset in sets.items()}
        for name, rate in rates.items():
            yield name, f"{rate:,.0f} delivered frames/s"
        yield "copies beside films", f"{rates['copies'] / rates['films']:.2f} x"
        return

    found = _least({name: partial(_epoch, dataset) for name, dataset in sets.items()}, options)
    for name, dataset in sets.items():
        yield name, f"{1000 * found[name][0] / (dataset.size * 32):.2f} ms of processor a frame"
    ratios = [before / after for before, after in zip(found["films"], found["copies"], strict=True)]
    yield "copies beside films", f"{ratios[0]:.2f} x by processor, {ratios[1]:.2f} x by wall"


def _transcode(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """``seqpipe transcode`` of a folder beside xargs with two jobs of ffmpeg of the same settings."""
    import shutil

    films, base = _films(options, media.large), options.folder / "transcode"
    shutil.rmtree(base, ignore_errors=True)
    (base / "in").mkdir(parents=True)
    for film in films:
        shutil.copy(film, base / "in")
    settings = (
        "-c:v libx264 -preset veryfast -crf 18 -g 16 -threads 1 "
        "-x264-params mbtree=0:b-pyramid=none:scenecut=0:keyint=16:min-keyint=16"
    )
    filters = "-filter_threads 1 -vf scale=-2:256:flags=bicubic -pix_fmt yuv420p -movflags +faststart"
    line = (
        f"ls {base}/in/*.mp4 | xargs -P2 -I@ sh -c 'ffmpeg -v error -y -threads 1 -i @ -an {filters} {settings} "
        f"{base}/f_$(basename @)'"
    )

    def ours() -> None:
        shutil.rmtree(base / "out", ignore_errors=True)
        words = ("seqpipe", "transcode", base / "in", base / "out", "--jobs", "2")
        subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True)

    def theirs() -> None:
        subprocess.run(line, shell=True, check=True)

    found = _least({"seqpipe": ours, "xargs -P2 ffmpeg": theirs}, options)
    for name, (processor, wall) in found.items():
        yield name, f"{processor:.1f} s of processor, {wall:.1f} s"
    (first, second), (a, b) = found.values()
    yield "seqpipe beside ffmpeg", f"{a / first:.2f} x by processor, {b / second:.2f} x by wall"


def _scenes(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Scenes of a film by a first pass beside PySceneDetect, and the detectors alone."""
    import cv2
    from scenedetect import AdaptiveDetector, FrameTimecode, SceneManager, open_video

    import seqpipe
    from seqpipe.readers.frame_content import FrameContent, scene_starts
    from seqpipe.video.index.open import IndexOptions

    path = str(media.large(options.folder, 0, film=True))
    content = FrameContent(IndexOptions(None, None, None), options.device)

    def ours() -> None:
        with content._open(path) as video:
            scene_starts(content._compute(video)["change"])

    def theirs() -> None:
        manager = SceneManager()
        manager.add_detector(AdaptiveDetector())
        manager.detect_scenes(open_video(path))

    sides = {"seqpipe": ours, "PySceneDetect": theirs, "decoding alone": lambda: _bare_cpu([Path(path)])}
    for name, (processor, wall) in _least(sides, options).items():
        yield f"whole pass, {name}", f"{processor:.2f} s of processor, {wall:.2f} s"
    yield from _scene_files(path, options)
    with seqpipe.open(path, output=seqpipe.OutputSpec(max_side=256)) as video:
        frames = [frame.numpy() for frame in video.stream(range(len(video)))]
    bgr = [cv2.cvtColor(frame, cv2.COLOR_RGB2BGR) for frame in frames]

    def detect() -> None:
        detector = AdaptiveDetector()
        for number, frame in enumerate(bgr):
            detector.process_frame(FrameTimecode(number, 25.0), frame)

    def change() -> None:
        before = None
        for frame in frames:
            colors = cv2.cvtColor(frame, cv2.COLOR_RGB2HSV)
            before = colors if before is None or cv2.norm(colors, before, cv2.NORM_L1) >= 0 else None

    alone = _least({"seqpipe": change, "PySceneDetect": detect}, options)
    for name, (processor, _) in alone.items():
        yield f"detector alone, {name}", f"{1e6 * processor / len(frames):.0f} us of processor a frame"


def _scene_files(path: str, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """A video of each scene, by both programs, each of which decodes twice; and without scenes."""
    folder = options.folder / "scenes"
    export = [sys.executable, "-m", "seqpipe", "export", path, "--out", str(folder), "--format", "mp4"]
    export += ["--overwrite", "--quality", "57"]  # crf 22, as PySceneDetect
    split = [sys.executable, "-m", "scenedetect", "-q", "-i", path, "-o", str(folder), "detect-adaptive"]

    def run(command: list[str]) -> None:
        # without the cache, which keeps what the first pass computes
        with tempfile.TemporaryDirectory() as cache:
            cached = ["--cache-dir", cache] if "export" in command else []
            subprocess.run([*command, *cached], check=True, capture_output=True)

    sides = {
        "seqpipe --scenes": partial(run, [*export, "--scenes"]),
        "seqpipe without": partial(run, export),
        "PySceneDetect split-video": partial(run, [*split, "split-video"]),
    }
    for name, (processor, wall) in _least(sides, options).items():
        yield f"video of each scene, {name}", f"{processor:.2f} s of processor, {wall:.2f} s"


def _audio(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Random clips 16x4 at 340x256 with sound beside clips without."""
    import seqpipe

    paths = []
    for film in _films(options, media.small):
        paths.append(options.folder / f"{film.stem}_sound.mp4")
        if not paths[-1].exists():
            noise = np.random.default_rng(0).normal(0, 0.1, (2, 48_000 * 10)).astype(np.float32)
            with seqpipe.open(film) as video:
                frames = video.stream(range(len(video)))
                stacked = (
                    seqpipe.Sequence(one.data[None], "FHWC", timestamps=one.timestamps) for one in frames
                )
                seqpipe.write_video(
                    paths[-1], stacked, gop=250, audio=seqpipe.AudioSamples(noise, 48_000, 0.0)
                )
    take = seqpipe.Clip(16, stride=4, per_video=max(1, options.clips * 6 // len(paths)))
    made = partial(seqpipe.videos, [str(path) for path in paths], take, shuffle=True)
    sets = {"without": made(), "with": made(audio=seqpipe.AudioSpec(sample_rate=16_000, channels=1))}
    for dataset in sets.values():
        _epoch(dataset)
    found = _least({name: partial(_epoch, dataset) for name, dataset in sets.items()}, options)
    for name, (processor, _) in found.items():
        yield f"clips {name} sound", f"{1000 * processor / sets[name].size:.1f} ms of processor a clip"
    yield "with beside without", f"{found['with'][0] / found['without'][0]:.3f} x"


_JOBS: Final[dict[str, Callable[[argparse.Namespace], Iterator[tuple[str, str]]]]] = {
    "gop": _gop,
    "copies": _of_copies,
    "transcode": _transcode,
    "scenes": _scenes,
    "audio": _audio,
}

if __name__ == "__main__":
    main()
