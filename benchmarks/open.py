"""Cost of opening a video for the first time and again, on a local disk and in an object store.

    python -m benchmarks.open [--folder DIR] [--minutes N] [--rounds N] [--peers DIR] [--far]

Videos are made with ffmpeg and kept in the folder: a film of N minutes (1080p, H.264, key frame about every 4 s) in
MP4, Matroska, MPEG-TS and fragmented MP4, and clips of 300 frames. Each figure is the least of some rounds, contestants
turn by turn: milliseconds on the clock, and in brackets of processor time, which other work on the machine disturbs
less. Contestants that cannot be imported are left out; ``--peers`` names a folder that they were installed into
(``pip install --no-deps --target DIR torchcodec decord2``). With ``--far`` requests and bytes are counted at a local S3
server (moto).
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np

import seqpipe
from seqpipe.video.index.open import open_index
from seqpipe.video.tables import facts

from .frame import Spent, in_turns, is_here, least, parser_of, print_table
from .object_server import BUCKET, object_server

__all__ = ["main"]

_PIECE_S = 20
_CLIPS, _FAR_CLIPS = 1000, 1000

Open = Callable[[str], Any]


def main() -> None:
    """Measure, and print the tables."""
    parser = parser_of(__doc__)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "seqpipe_bench_open")
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--far", action="store_true")
    options = parser.parse_args()
    if options.peers is not None:
        sys.path.append(str(options.peers))
    films, clips = _films(options.folder, options.minutes), _clips(options.folder)
    if options.far:
        _far(films, clips[:_FAR_CLIPS])
        return
    rows: list[tuple[str, dict[str, Spent]]] = [
        *((f"open {film.name}, first time", _timed(str(film), options.rounds)) for film in films),
        (f"open {films[0].name}, cached", {"seqpipe": _cached(films[0], options.rounds)}),
        ("open a clip, first of its kind", _timed(str(clips[0]), options.rounds)),
        (f"open {_CLIPS} clips, each", {"seqpipe": _alike(clips, options.rounds)}),
        *_programs(films[0], options.rounds),
    ]
    names = list(dict.fromkeys(name for _, costs in rows for name in costs))
    texts = [
        {name: f"{spent.wall_ms:.2f} ({spent.cpu_ms:.2f})" for name, spent in costs.items()}
        for _, costs in rows
    ]
    cells = (
        [job, *(text.get(name, "") for name in names)] for (job, _), text in zip(rows, texts, strict=True)
    )
    print_table(["job (ms)", *names], cells)


def _least(use: Callable[[], Any], rounds: int, before: Callable[[], Any] = facts.forget) -> Spent:
    """Return the least wall-clock time and processor time of a call."""
    return least(in_turns({"": use}, rounds, before=before)[""])


def _timed(path: str, rounds: int) -> dict[str, Spent]:
    """Return the time of each contestant to open a file, in turns."""
    sides = {name: partial(use, path) for name, use in _contestants()}
    return {name: least(spent) for name, spent in in_turns(sides, rounds, before=facts.forget).items()}


def _contestants() -> Iterator[tuple[str, Open]]:
    yield "seqpipe", _open_new
    yield "seqpipe, scanned", _scan
    yield "PyAV, open alone", _pyav
    if is_here("torchcodec.decoders"):
        for mode in ("approximate", "exact"):
            yield f"torchcodec {mode}", _torchcodec(mode)
    if is_here("decord"):
        yield "decord2", lambda path: importlib.import_module("decord").VideoReader(path)
    if is_here("cv2"):
        yield "OpenCV", lambda path: importlib.import_module("cv2").VideoCapture(path).release()


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


def _cached(film: Path, rounds: int) -> Spent:
    with tempfile.TemporaryDirectory() as cache:
        open_index(film, cache_dir=cache)
        return _least(lambda: len(open_index(film, cache_dir=cache)), rounds)


def _alike(clips: list[Path], rounds: int) -> Spent:
    """Return the time of each clip of a dataset when it is opened for the first time."""

    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "cache")

        def use() -> None:
            for clip in clips:
                open_index(clip, cache_dir=cache)

        spent = _least(use, rounds, lambda: shutil.rmtree(cache, ignore_errors=True))
    return Spent(*(ms / len(clips) for ms in spent))


def _programs(film: Path, rounds: int) -> Iterator[tuple[str, dict[str, Spent]]]:
    """Measure exports from the start of the process, beside ffmpeg's, and the time of imports."""
    with tempfile.TemporaryDirectory() as folder:
        out, cache, ffmpeg = Path(folder, "out"), Path(folder, "cache"), imageio_ffmpeg.get_ffmpeg_exe()
        export = (sys.executable, "-m", "seqpipe", "export", film, "--out", out, "--cache-dir", cache)
        clear = partial(shutil.rmtree, out, ignore_errors=True)
        run = partial(subprocess.run, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        least = partial(_least, rounds=2 * rounds)
        with seqpipe.open(film, cache_dir=cache) as video:
            key = str(video.index.key_frames[len(video.index.key_frames) // 2])
            times = [str((number + 0.5) * video.index.end_s / 10) for number in range(10)]
        one = least(partial(run, [*export, "--frames", key]), before=clear)
        imports = (sys.executable, "-c", "import numpy, av, cv2, click")
        yield (
            "export one key frame, cached, from process start; importing numpy, av, cv2, click alone",
            {"seqpipe": one, "imports": least(partial(run, imports))},
        )

        def anew() -> None:
            clear()
            shutil.rmtree(cache, ignore_errors=True)

        def by_ffmpeg() -> None:
            for at in times:
                run([ffmpeg, "-y", "-ss", at, "-i", film, "-frames:v", "1", f"{folder}/{at}.jpg"])

        ten = least(partial(run, [*export, "--num", "10"]), before=anew)
        yield "export --num 10, first time", {"seqpipe": ten, "ffmpeg, ten times": least(by_ffmpeg)}


def _far(films: list[Path], clips: list[Path]) -> None:
    """Requests and bytes for opening videos in an object store, for windows of 16 frames, and for an epoch."""
    with object_server() as client:

        def put(path: Path) -> str:
            client.upload_file(str(path), BUCKET, path.name)
            return f"s3://{BUCKET}/{path.name}"

        mp4, mkv = (put(film) for film in films[:2])
        for what, url, by_time in (
            ("by number", mp4, False),
            ("by time", mkv, True),
            ("by number", mkv, False),
        ):
            with tempfile.TemporaryDirectory() as cache, seqpipe.open(url, cache_dir=cache) as video:
                opened = dict(video.stats())
                if by_time:
                    video.at(1800 + np.arange(16) / 25)
                else:
                    video.frames(range(len(video) // 2, len(video) // 2 + 16))
                after = video.stats()
            sys.stdout.write(
                f"{Path(url).name}, 16 frames {what}: opened by 1 + {opened['requests']} requests of "
                f"{opened['bytes_read'] / 1e6:.2f} MB, then {after['requests'] - opened['requests']} of "
                f"{(after['bytes_read'] - opened['bytes_read']) / 1e6:.2f} MB, of which "
                f"{after['bytes_needed'] / 1e6:.2f} MB were needed\n"
            )
        urls = [put(clip) for clip in clips]
        with tempfile.TemporaryDirectory() as cache:
            _epoch(urls, cache)


def _epoch(urls: list[str], cache: str) -> None:
    """Random windows of 16 frames from each clip: bytes that were read, against those of the spans decoded."""
    read: Counter[str] = Counter()
    remote = importlib.import_module("seqpipe.video.source.source")._Remote
    fetch = remote._fetch

    def counted(self: Any, runs: list[tuple[int, int]]) -> list[bytes]:
        read["requests"] += len(runs)
        read["bytes"] += sum(end - begin for begin, end in runs)
        return fetch(self, runs)  # type: ignore[no-any-return]

    remote._fetch = counted
    try:
        take, decode = seqpipe.Clip(16, per_video=1), seqpipe.Decode(cache_dir=cache)
        data = seqpipe.videos(urls, take, decode=decode, shuffle=True, seed=3)
        opened, spans = Counter(read), 0
        for sample in data:
            sequence = sample["image"]
            assert sequence.frames is not None
            table = open_index(sequence.source, cache_dir=cache).packets
            packets = table.frame_packet[sequence.frames]
            spans += int(table.size[table.gop[packets].min() : packets.max() + 1].sum())
    finally:
        remote._fetch = fetch
    sys.stdout.write(
        f"an epoch of {len(data)} windows over {len(urls)} clips: opened by {opened['requests']} requests of "
        f"{opened['bytes'] / 1e6:.2f} MB, then {(read - opened)['requests']} of "
        f"{(read - opened)['bytes'] / 1e6:.2f} MB, {(read - opened)['bytes'] / spans:.3f} x the bytes of the spans\n"
    )


def _films(folder: Path, minutes: int) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"film_{minutes}_min"
    paths = [folder / file for file in (f"{name}.mp4", f"{name}.mkv", f"{name}.ts", f"{name}_fragmented.mp4")]
    if not all(path.exists() for path in paths):
        piece, listed = folder / "piece.mp4", folder / "pieces.txt"
        _ffmpeg(
            "-f", "lavfi", "-i", "testsrc2=s=1920x1080:r=25", "-t", str(_PIECE_S), "-crf", "36", *_X264, piece
        )
        listed.write_text(f"file '{piece.name}'\n" * (minutes * 60 // _PIECE_S))
        _ffmpeg("-f", "concat", "-safe", "0", "-i", listed, "-c", "copy", paths[0])
        for other in paths[1:3]:
            _ffmpeg("-i", paths[0], "-c", "copy", other)
        _ffmpeg("-i", paths[0], "-c", "copy", "-movflags", "frag_keyframe+empty_moov", paths[3])
    return paths


_X264 = ("-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-g", "107", "-pix_fmt", "yuv420p")


def _clips(folder: Path) -> list[Path]:
    """Return clips of 300 frames; every tenth is a file of its own, the others are hard links."""
    clips = [folder / f"clip_{number:04d}.mp4" for number in range(_CLIPS)]
    long = folder / "clips.mp4"
    if not all(clip.exists() for clip in clips):
        size = "testsrc2=s=340x256:r=25"
        _ffmpeg("-f", "lavfi", "-i", size, "-t", "60", "-x264-params", "keyint=50:scenecut=0", *_X264, long)
        for number, clip in enumerate(clips):
            if number < _CLIPS // 10:
                _ffmpeg("-ss", str(number % 20 * 2), "-i", long, "-frames:v", "300", "-c", "copy", clip)
            elif not clip.exists():
                os.link(clips[number % (_CLIPS // 10)], clip)
    return clips


def _ffmpeg(*arguments: object) -> None:
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", *map(str, arguments)]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
