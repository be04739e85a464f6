"""Encodings of one small film by every structure of prediction that encoders make: what decoders are compared on.

Run ``python -m data_scripts.encodings --out .media/encodings``. Each file is made once; the whole table takes about a
minute on sixteen cores.
"""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import av

from data_scripts.media_encode import FFmpegError, run_ffmpeg
from seqpipe.core.whole_file import replacing
from seqpipe.video.probe.probe import av_packet

__all__ = ["ENCODINGS", "Encoding", "make_encoding"]

_FILM = "mandelbrot=size={size}:rate=25"
_X264 = "-c:v libx264 -preset medium -pix_fmt yuv420p -threads 2 -g 30 -x264-params "
_X265 = (
    "-c:v libx265 -preset fast -pix_fmt yuv420p -threads 2 "
    "-x265-params log-level=error:info=0:pools=2:frame-threads=1:keyint=24:"
)
_VPX = "-threads 1 -b:v 300k -deadline realtime -cpu-used 5 -g 36 -lag-in-frames 25 "
_VP8, _VP9 = f"-c:v libvpx -pix_fmt yuv420p {_VPX}", f"-c:v libvpx-vp9 {_VPX}"
_HIDDEN = f"{_VP9}-pix_fmt yuv420p -auto-alt-ref 1"
_LAYERS = "ts_target_bitrate=100,200,300:ts_rate_decimator=4,2,1:ts_periodicity=4:ts_layer_id=0,2,1,2"
_SVT = "-c:v libsvtav1 -preset 10 -crf 38 -pix_fmt yuv420p -g 32 -svtav1-params lp=1:"
_AOM = "-c:v libaom-av1 -cpu-used 8 -crf 38 -pix_fmt yuv420p -g 36 -threads 1 -row-mt 0 "
_SHOW_EXISTING = 0x88  # of VP9 profile 0: frame marker, show_existing_frame; the slot follows


@dataclass(frozen=True)
class Encoding:
    """One file.

    Attributes:
        options: output options of ffmpeg.
        extension: of the file.
        film: more filters of the film.
        passes: of the encoder.
        size: of the film, as ffmpeg reads it.
        frames: how many.
        change: what is done to the file afterwards: (made, target).
    """

    options: str
    extension: str = "mkv"
    film: str = ""
    passes: int = 1
    size: str = "320x180"
    frames: int = 72
    change: Callable[[Path, Path], None] | None = None


def _split(made: Path, target: Path) -> None:
    """Hidden frames in packets of their own."""
    run_ffmpeg(
        *("-i", str(made), "-c", "copy", "-bsf:v", "vp9_superframe_split", "-fflags", "-autobsf", str(target))
    )


def _repeated(slots: tuple[int, ...], split: bool, kept: bool, made: Path, target: Path) -> None:
    """With packets that show a slot once more behind every fifth one, and behind those that hide a picture.

    These are split off before; if they are not kept so, they are merged with what shows their picture.
    """
    options = {"fflags": "-autobsf"} if kept else {}
    source = made
    if split:
        source = made.with_suffix(".split.mkv")
        _split(made, source)
    with av.open(str(source)) as original, av.open(str(target), "w", options=options) as changed:
        stream = original.streams.video[0]
        out = changed.add_stream_from_template(stream)
        time, step = 0, round(1 / (25 * stream.time_base))
        for number, packet in enumerate(original.demux(stream)):
            if not packet.size:
                continue
            data, key = bytes(packet), packet.is_keyframe
            hidden = split and not data[0] & 0x0A  # neither shown nor shown again
            again = number % 5 == 4 or hidden
            shown = [bytes([_SHOW_EXISTING | slot]) for slot in slots] if again else []
            for payload in (data, *shown):
                copy = av_packet(payload)
                copy.stream, copy.time_base, copy.is_keyframe = out, stream.time_base, key and payload is data
                copy.pts = copy.dts = time
                time += 0 if hidden and payload is data else step
                changed.mux(copy)


def _joined(options: str, made: Path, target: Path) -> None:
    """Behind it the same film of another size, with the same settings in front of all."""
    second = made.with_name(f"second_{made.name}")
    film = f"{_FILM.format(size='192x128')},trim=end_frame=24"
    run_ffmpeg("-f", "lavfi", "-i", film, *shlex.split(options), str(second))
    with av.open(str(made)) as first, av.open(str(target), "w") as changed:
        out = changed.add_stream_from_template(first.streams.video[0])
        time = 0
        for path in (made, second, made):
            with av.open(str(path)) as part:
                stream = part.streams.video[0]
                for packet in part.demux(stream):
                    if packet.size:
                        copy = av_packet(bytes(packet))
                        copy.stream, copy.time_base, copy.is_keyframe = (
                            out,
                            stream.time_base,
                            packet.is_keyframe,
                        )
                        copy.pts = copy.dts = time
                        time += round(1 / (25 * stream.time_base))
                        changed.mux(copy)


_FIELDS = "tinterlace=mode=interleave_top"
_BOTTOM = "tinterlace=mode=interleave_bottom"

ENCODINGS: dict[str, Encoding] = {
    # H.264
    "h264_b_pyramid": Encoding(_X264 + "bframes=7:b-pyramid=normal:b-adapt=0"),
    "h264_b_pyramid_strict": Encoding(_X264 + "bframes=4:b-pyramid=strict:b-adapt=0"),
    "h264_b_without_pyramid": Encoding(_X264 + "bframes=3:b-pyramid=none:b-adapt=0", "mp4"),
    "h264_16_b": Encoding(_X264 + "bframes=16:b-adapt=0:b-pyramid=normal"),
    "h264_no_b": Encoding(_X264 + "bframes=0"),
    "h264_open_gop": Encoding(_X264 + "open-gop=1:bframes=3:b-adapt=0"),
    "h264_open_gop_ts": Encoding(_X264 + "open-gop=1:bframes=3:b-adapt=0", "ts"),
    "h264_intra_refresh": Encoding(_X264 + "intra-refresh=1:bframes=0:keyint=30"),
    "h264_weighted": Encoding(_X264 + "weightp=2:weightb=1:bframes=3", film="fade=out:0:72"),
    "h264_explicit_weights": Encoding(_X264 + "weightp=1:weightb=0:bframes=2", film="fade=in:0:48"),
    "h264_slices": Encoding(_X264 + "slices=5"),
    "h264_small_slices": Encoding(_X264 + "slice-max-size=400"),
    "h264_tff": Encoding(_X264 + "tff=1:bframes=3", film=_FIELDS),
    "h264_bff": Encoding(_X264 + "bff=1:bframes=3", film=_BOTTOM),
    "h264_mbaff_long": Encoding(_X264 + "tff=1:bframes=5:b-pyramid=normal:ref=8", film=_FIELDS),
    "h264_fake_interlaced": Encoding(_X264 + "fake-interlaced=1"),
    "h264_16_references": Encoding(_X264 + "ref=16:bframes=0:keyint=72"),
    "h264_references_and_b": Encoding(_X264 + "ref=12:bframes=5:b-pyramid=normal:keyint=72"),
    "h264_baseline": Encoding("-profile:v baseline " + _X264 + "ref=3"),
    "h264_cavlc": Encoding(_X264 + "cabac=0:8x8dct=0"),
    "h264_all_intra": Encoding(_X264 + "keyint=1"),
    "h264_scene_cuts": Encoding(_X264 + "scenecut=400:min-keyint=2"),
    "h264_constrained_intra": Encoding(_X264 + "constrained-intra=1"),
    "h264_lossless": Encoding("-profile:v high444 -qp 0 " + _X264 + "bframes=2", frames=24),
    "h264_odd_size": Encoding(_X264 + "bframes=2", size="322x182"),
    "h264_annex_b": Encoding(_X264 + "bframes=3", "h264"),
    # HEVC
    "hevc_temporal_layers": Encoding(_X265 + "temporal-layers=3:bframes=7:b-pyramid=1:b-adapt=0"),
    "hevc_two_layers": Encoding(_X265 + "temporal-layers=2:bframes=3:b-adapt=0", "mp4"),
    "hevc_rasl": Encoding(_X265 + "open-gop=1:bframes=4:b-adapt=0"),
    "hevc_radl": Encoding(_X265 + "open-gop=0:radl=3:bframes=4:b-adapt=0"),
    "hevc_closed": Encoding(_X265 + "open-gop=0:bframes=3"),
    "hevc_no_b": Encoding(_X265 + "bframes=0"),
    "hevc_8_b": Encoding(_X265 + "bframes=8:b-adapt=0"),
    "hevc_intra_refresh": Encoding(_X265 + "intra-refresh=1:bframes=0"),
    "hevc_weighted": Encoding(_X265 + "weightp=1:weightb=1:bframes=3", film="fade=out:0:72"),
    "hevc_slices": Encoding(_X265 + "slices=3:wpp=1"),
    "hevc_references": Encoding(_X265 + "ref=6:bframes=4"),
    "hevc_10": Encoding(_X265.replace("yuv420p", "yuv420p10le") + "bframes=4:b-adapt=0"),
    "hevc_12": Encoding(_X265.replace("yuv420p", "yuv420p12le") + "bframes=4:b-adapt=0"),
    "hevc_10_layers": Encoding(
        _X265.replace("yuv420p", "yuv420p10le") + "temporal-layers=3:bframes=4:b-adapt=0"
    ),
    "hevc_lossless": Encoding(_X265 + "lossless=1:bframes=2", frames=24),
    "hevc_fields": Encoding(_X265 + "bframes=2:interlace=tff"),
    "hevc_annex_b": Encoding(_X265 + "bframes=4:open-gop=1", "hevc"),
    # VP8
    "vp8_plain": Encoding(_VP8, "webm"),
    "vp8_hidden": Encoding(_VP8 + "-auto-alt-ref 1 -deadline good", "webm", passes=2),
    "vp8_resilient": Encoding(_VP8 + "-error-resilient default", "webm"),
    "vp8_layers": Encoding(f"{_VP8}-ts-parameters ts_number_layers=3:{_LAYERS}:ts_layering_mode=3", "webm"),
    "vp8_partitions": Encoding(_VP8 + "-slices 4", "webm"),
    "vp8_sizes": Encoding(_VP8, change=partial(_joined, _VP8)),
    # VP9
    "vp9_plain": Encoding(_VP9 + "-pix_fmt yuv420p -auto-alt-ref 0", "webm"),
    "vp9_hidden": Encoding(_HIDDEN, "webm"),
    "vp9_hidden_split": Encoding(_HIDDEN, change=_split),
    "vp9_hidden_10": Encoding(_VP9 + "-pix_fmt yuv420p10le -auto-alt-ref 1", "webm"),
    "vp9_hidden_10_split": Encoding(_VP9 + "-pix_fmt yuv420p10le -auto-alt-ref 1", change=_split),
    "vp9_hidden_12": Encoding(_VP9 + "-pix_fmt yuv420p12le -auto-alt-ref 1", "webm"),
    "vp9_hidden_mp4": Encoding(_HIDDEN, "mp4"),
    "vp9_two_passes": Encoding(_HIDDEN + " -deadline good", "webm", passes=2),
    "vp9_pyramid": Encoding(_HIDDEN + " -deadline good -auto-alt-ref 6", "webm", passes=2),
    "vp9_pyramid_split": Encoding(_HIDDEN + " -deadline good -auto-alt-ref 6", passes=2, change=_split),
    "vp9_shown_again": Encoding(_HIDDEN, change=partial(_repeated, (0,), False, False)),
    "vp9_shown_twice_again": Encoding(_HIDDEN, change=partial(_repeated, (1, 2), False, False)),
    "vp9_hidden_shown": Encoding(_HIDDEN, change=partial(_repeated, (2,), True, False)),
    "vp9_hidden_shown_split": Encoding(_HIDDEN, change=partial(_repeated, (2,), True, True)),
    "vp9_layers": Encoding(
        f"{_VP9}-pix_fmt yuv420p -lag-in-frames 0 -error-resilient default "
        f"-ts-parameters ts_number_layers=3:{_LAYERS}:ts_layering_mode=3",
        "webm",
    ),
    "vp9_parallel": Encoding(_HIDDEN + " -frame-parallel 1 -tile-columns 1 -error-resilient default", "webm"),
    "vp9_lossless": Encoding(_HIDDEN + " -lossless 1", "webm", frames=24),
    "vp9_sizes": Encoding(_HIDDEN, change=partial(_joined, _HIDDEN)),
    "vp9_444": Encoding(_VP9 + "-pix_fmt yuv444p -auto-alt-ref 1", "webm"),
    # AV1
    "av1_layers": Encoding(_SVT + "hierarchical-levels=4"),
    "av1_few_layers": Encoding(_SVT + "hierarchical-levels=2", "mp4"),
    "av1_low_delay": Encoding(_SVT + "pred-struct=1"),
    "av1_hidden": Encoding(_AOM + "-auto-alt-ref 1 -lag-in-frames 25"),
    "av1_10": Encoding(_AOM.replace("yuv420p", "yuv420p10le") + "-lag-in-frames 25"),
    "av1_grain": Encoding(_SVT + "film-grain=20"),
}


def make_encoding(name: str, folder: Path) -> Path:
    """The file of an encoding, made if it is not there.

    Args:
        name: of the encoding.
        folder: where it lies; it is made.

    Raises:
        FFmpegError: ffmpeg is missing, lacks the encoder, or failed.
    """
    spec = ENCODINGS[name]
    target = folder / f"{name}.{spec.extension}"
    if target.is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="seqpipe_encoding_") as work:
        made = Path(work, target.name)
        _encode(spec, made, Path(work, "log"))
        if spec.change is not None:
            changed = Path(work, f"changed.{spec.extension}")
            spec.change(made, changed)
            made = changed
        with replacing(target) as beside:
            Path(beside).write_bytes(made.read_bytes())
    return target


def _encode(spec: Encoding, target: Path, log: Path) -> None:
    film = ",".join(part for part in (_FILM.format(size=spec.size), spec.film) if part)
    given = ["-f", "lavfi", "-i", film, *shlex.split(spec.options), "-frames:v", str(spec.frames)]
    for number in range(1, spec.passes + 1):
        statistics = ["-pass", str(number), "-passlogfile", str(log)] if spec.passes > 1 else []
        end = ["-f", "null", "-"] if number < spec.passes else [str(target)]
        run_ffmpeg(*given, *statistics, *end)


def main() -> None:
    """Make them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder that the files go to")
    parser.add_argument("--jobs", type=int, default=8, help="how many are made at once")
    given = parser.parse_args()

    def made(name: str) -> str:
        try:
            return f"{make_encoding(name, given.out).stat().st_size:8} {name}"
        except FFmpegError as error:
            return f"  failed {name}: {error}"

    with ThreadPoolExecutor(given.jobs) as pool:
        for line in pool.map(made, ENCODINGS):
            print(line, flush=True)


if __name__ == "__main__":
    main()
