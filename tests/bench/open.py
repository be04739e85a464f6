"""First touch: what it costs to open a video that was never seen, and to open it once more.

    python -m tests.bench.open [--folder DIR] [--minutes N] [--rounds N]

Videos are made with ffmpeg and kept in the folder: a film of N minutes (1080p, H.264, key frame about every 4 s) in
MP4, Matroska, MPEG-TS and fragmented MP4, and 100 clips of 300 frames. Each figure is the median of some rounds and the
fastest, contestants turn by turn; those that cannot be imported are left out. Requests and bytes are those of a source
that is far away.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import imageio_ffmpeg

import seqpipe
from seqpipe.video.index.open import open_index
from seqpipe.video.tables import facts

__all__ = ["main"]

_PIECE_S = 20
_CLIPS = 100

Open = Callable[[str], Any]


def main(arguments: list[str]) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.open", description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "seqpipe_bench_open")
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    films = _films(options.folder, options.minutes)
    clips = _clips(options.folder)
    rows = [
        *((f"open {film.name}, first time", *_timed(str(film), options.rounds)) for film in films),
        (f"open {films[0].name}, cached", {"seqpipe": _cached(films[0], options.rounds)}),
        ("open a clip, first of its kind", *_timed(str(clips[0]), options.rounds)),
        ("open a clip, others like it before", {"seqpipe": _alike(clips)}),
    ]
    names = list(dict.fromkeys(name for _, found in rows for name in found))
    sys.stdout.write(
        "| job (ms, fastest in brackets) | " + " | ".join(names) + " |\n|---" + "|---" * len(names) + "|\n"
    )
    for job, found in rows:
        cells = (_cell(found[name]) if name in found else "" for name in names)
        sys.stdout.write(f"| {job} | {' | '.join(cells)} |\n")
    for film in films[:1]:
        sys.stdout.write(_remote(film))


def _timed(path: str, rounds: int) -> Iterator[dict[str, list[float]]]:
    """Seconds of each contestant."""
    contestants = dict(_contestants())
    spent: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, use in contestants.items():
            facts.forget()
            began = time.perf_counter()
            use(path)
            spent[name].append(time.perf_counter() - began)
    yield spent


def _contestants() -> Iterator[tuple[str, Open]]:
    yield "seqpipe", _open_new
    yield "seqpipe, scanned", _scan
    for name, use in (("PyAV, open alone", _pyav), ("torchcodec approximate", _torchcodec("approximate"))):
        if _there(name.partition(",")[0].partition(" ")[0]):
            yield name, use
    if _there("torchcodec"):
        yield "torchcodec exact", _torchcodec("exact")
    if _there("decord"):
        yield "decord", lambda path: importlib.import_module("decord").VideoReader(path)
    if _there("cv2"):
        yield "OpenCV", lambda path: importlib.import_module("cv2").VideoCapture(path).release()


def _there(name: str) -> bool:
    try:
        importlib.import_module("av" if name == "PyAV" else name)
    except (ImportError, OSError, RuntimeError):
        return False
    return True


def _open_new(path: str) -> None:
    with tempfile.TemporaryDirectory() as cache, seqpipe.open(path, cache_dir=cache) as video:
        len(video)


def _scan(path: str) -> None:
    from seqpipe.video.index.build import build_index
    from seqpipe.video.source.source import open_source

    build_index(open_source(path))


def _pyav(path: str) -> None:
    importlib.import_module("av").open(path).close()


def _torchcodec(mode: str) -> Open:
    def use(path: str) -> None:
        importlib.import_module("torchcodec.decoders").VideoDecoder(path, seek_mode=mode).metadata  # noqa: B018

    return use


def _cached(film: Path, rounds: int) -> list[float]:
    with tempfile.TemporaryDirectory() as cache:
        open_index(film, cache_dir=cache)
        spent = []
        for _ in range(rounds):
            began = time.perf_counter()
            len(open_index(film, cache_dir=cache))
            spent.append(time.perf_counter() - began)
    return spent


def _alike(clips: list[Path]) -> list[float]:
    with tempfile.TemporaryDirectory() as cache:
        open_index(clips[0], cache_dir=cache)
        spent = []
        for clip in clips[1:]:
            began = time.perf_counter()
            open_index(clip, cache_dir=cache)
            spent.append(time.perf_counter() - began)
    return spent


def _cell(seconds: list[float]) -> str:
    return f"{median(seconds) * 1e3:.2f} ({min(seconds) * 1e3:.2f})"


def _remote(film: Path) -> str:
    """Requests and bytes for opening a film far away, and for a window of 16 frames in its middle."""
    import fsspec

    url = f"memory://seqpipe_bench/{film.name}"
    with fsspec.open(url, "wb") as target, film.open("rb") as source:
        shutil.copyfileobj(source, target)
    with tempfile.TemporaryDirectory() as cache, seqpipe.open(url, cache_dir=cache) as video:
        middle = len(video) // 2
        opened = video.stats()
        video.frames(range(middle, middle + 16))
        after = video.stats()
    window = {name: after[name] - opened[name] for name in after}
    return (
        f"\n{film.name} far away: opened by {opened['requests']} requests of {opened['bytes_read'] / 1e6:.2f} MB; "
        f"16 frames by {window['requests']} of {window['bytes_read'] / 1e6:.2f} MB, "
        f"of which {window['bytes_needed'] / 1e6:.2f} MB were needed\n"
    )


def _films(folder: Path, minutes: int) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"film_{minutes}_min"
    made = [folder / file for file in (f"{name}.mp4", f"{name}.mkv", f"{name}.ts", f"{name}_fragmented.mp4")]
    if not all(path.exists() for path in made):
        piece, listed = folder / "piece.mp4", folder / "pieces.txt"
        _ffmpeg(
            "-f", "lavfi", "-i", "testsrc2=s=1920x1080:r=25", "-t", str(_PIECE_S), "-crf", "36", *_X264, piece
        )
        listed.write_text(f"file '{piece.name}'\n" * (minutes * 60 // _PIECE_S))
        _ffmpeg("-f", "concat", "-safe", "0", "-i", listed, "-c", "copy", made[0])
        for other in made[1:3]:
            _ffmpeg("-i", made[0], "-c", "copy", other)
        _ffmpeg("-i", made[0], "-c", "copy", "-movflags", "frag_keyframe+empty_moov", made[3])
    return made


_X264 = ("-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-g", "107", "-pix_fmt", "yuv420p")


def _clips(folder: Path) -> list[Path]:
    clips = [folder / f"clip_{number:03d}.mp4" for number in range(_CLIPS)]
    long = folder / "clips.mp4"
    if not all(clip.exists() for clip in clips):
        size = "testsrc2=s=340x256:r=25"
        _ffmpeg("-f", "lavfi", "-i", size, "-t", "60", "-x264-params", "keyint=50:scenecut=0", *_X264, long)
        for number, clip in enumerate(clips):
            _ffmpeg("-ss", str(number % 20 * 2), "-i", long, "-frames:v", "300", "-c", "copy", clip)
    return clips


def _ffmpeg(*arguments: object) -> None:
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", *map(str, arguments)]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
