"""``fn.readers.video`` and ``video_resize``: sequences of frames, with labels, frame numbers and timestamps."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...errors import ManifestError
from ...ops import Run
from ...readers import Listing, Range
from ...readers.listing import listing
from ...sampling import Span
from ...sampling.clock import EQUAL_S, end_of
from ...sources.options import Decode
from ...sources.takes import Clip, Segments
from ...sources.videos import ClipSource, videos
from ...video.convert.output import OutputSpec
from ...video.index.shared import find_register
from ..call import BORDERS
from ..data_node import DataNode, current, outputs_of
from ..declared import DaliCall, Kind, Row, built, operator
from ..dtypes import converted
from ..value import Value
from .files import READER_ACCEPTS, label_node, lines_of, started

__all__: list[str] = []

_Rounding = Callable[[float], int]
_WINDOWS: Final = (
    "step=-1 is sequence_length * stride, as in DALI, whose documentation says sequence_length; a sequence fits if its "
    "last frame does, where DALI needs stride - 1 frames more; with a stride, 'edge', 'reflect' and 'symmetric' pad by "
    "the frames of the sequence, where DALI takes those of the video"
)
_FRAME_NUMBERS: Final = {False: "none", True: "scalar"} | {
    item: item for item in ("none", "scalar", "sequence")
}
_ROUNDING: Final[dict[str, tuple[_Rounding, _Rounding]]] = {
    "start_down_end_up": (math.floor, math.ceil),
    "start_up_end_down": (math.ceil, math.floor),
    "all_up": (math.ceil, math.ceil),
    "all_down": (math.floor, math.floor),
}
"""How ``file_list_rounding`` makes frame numbers of starts and ends that lie between frames."""


@operator(
    "experimental.readers.video",
    passes=True,
    accept=(*READER_ACCEPTS, "file_list_include_end"),
    note=_WINDOWS,
)
@operator("readers.video", passes=True, accept=READER_ACCEPTS, note=_WINDOWS)
def _video_reader(
    call: DaliCall,
    *,
    dtype: Kind = "uint8",
    normalized: bool = False,
    image_type: Any = None,
    enable_timestamps: bool = False,
) -> Any:
    """``fn.readers.video``: sequences; and labels, frame numbers and timestamps if enabled."""
    listed, labelled, register = _videos(call)
    numbering = _frame_numbering(call)
    if normalized and dtype != "float32":
        raise call.wrong("normalized=True gives values from 0 to 1", allowed="dtype=types.FLOAT with it")
    pipe = current()
    wants_gpu = call.requested_device in ("gpu", "mixed") and pipe.gpu_index() is not None
    source: ClipSource = videos(
        listed,
        _take(call),
        output=OutputSpec(color="RGB" if image_type is None else image_type.name),
        decode=Decode(threads=pipe.num_threads, register=register),
        device=f"cuda:{pipe.gpu_index()}" if wants_gpu else "cpu",
    ).source  # type: ignore[assignment]  # of videos
    image, label, index = started(call, source, ("image", "label", "index"))

    def pixels(values: list[Value], _: Run) -> Value:
        if normalized:
            return values[0].each(lambda array: array.astype(np.float32) / np.float32(255))
        return values[0] if dtype == "uint8" else values[0].each(lambda sample: converted(sample, dtype))

    frames = DataNode(call.name or call.row.name, [image], pixels, device="gpu" if wants_gpu else "cpu")
    outputs = [frames]
    if labelled:
        outputs.append(label_node(call, label))
    if numbering != "none" or enable_timestamps:
        frames_read, times = _frames_read(source, index)
        outputs += [_frame_numbers(frames_read, numbering)] if numbering != "none" else []
        outputs += [times] if enable_timestamps else []
    return tuple(outputs) if len(outputs) > 1 else frames


def _take(call: DaliCall) -> Clip | Segments:
    """Return which frames each sequence has."""
    length, stride, step = int(call.take("sequence_length")), call.take("stride", 1), call.take("step", -1)
    pads, pad_mode = call.take("pad_sequences", False), call.take("pad_mode", "none")
    fill = call.take("fill_value", 0)
    if call.take("uniform_sample", False):
        return Segments(length, where="linspace", fill=fill)
    padding: Any = "constant" if pads else BORDERS.get(pad_mode, pad_mode)
    return Clip(length, int(stride), step=int(step) if step > 0 else None, pad=padding, fill=fill)


def _frame_numbering(call: DaliCall) -> str:
    """Return which frame numbers a reader returns: ``"none"``, ``"scalar"`` (of the first frame) or ``"sequence"``."""
    value = call.take("enable_frame_num", False)
    if (numbering := _FRAME_NUMBERS.get(value)) is None:
        raise call.wrong(
            f"enable_frame_num={value!r} is not valid",
            allowed="'none' or False, 'scalar' or True, 'sequence'",
        )
    return numbering


def _frame_numbers(frames: DataNode, numbering: str) -> DataNode:
    count = 1 if numbering == "scalar" else None
    return DataNode(
        "frame_num", [frames], lambda v, _: Value(v[0].data[:, :count].astype(np.int32)), summary=numbering
    )


def _frames_read(source: ClipSource, index: Any) -> tuple[DataNode, DataNode]:
    """Return the nodes of frame numbers and timestamps in seconds.

    As in DALI, those of a padded frame are those of the frame that it repeats; -1 if it has ``fill_value``.
    """
    selection = source.fetcher.selection

    def compute(values: list[Value], _: Run) -> tuple[Value, Value]:
        samples = [selection.sample(int(number), 0) for number in values[0].data]
        times = [np.append(selection.clock.of(sample.source), -1.0)[sample.frames] for sample in samples]
        return Value(np.stack([item.frames for item in samples])), Value(np.stack(times))

    numbers, seconds = outputs_of(DataNode("frames", [index], compute), 2)
    return numbers, seconds


def _videos(call: DaliCall) -> tuple[Listing, bool, str | None]:
    """Return the listed files, whether there are labels, and the register of their indexes, if there is one."""
    names, labels = call.take("filenames"), call.args.pop("labels", None)
    root, table = call.take("file_root"), call.take("file_list")
    by_frame = bool(call.take("file_list_frame_num", False)) | (call.take("file_list_format") == "frames")
    rounding = _rounding(call, by_frame)
    if sum(item is not None for item in (names, root, table)) != 1:
        raise call.wrong("which videos?", allowed="exactly one of filenames, file_root and file_list")
    if names is not None:
        files = [str(path) for path in ([names] if isinstance(names, (str, Path)) else names)]
        if labels is None:
            return listing(files), False, None
        return listing(files, labels=list(labels) or list(range(len(files)))), True, None
    if root is not None:
        return listing(file_root=root), True, find_register(None, root)
    rows = [_video_row(table, n, line, by_frame, rounding) for n, line in lines_of(table)]
    files, numbers, ranges = (list(column) for column in zip(*rows, strict=True))
    return listing(files, labels=numbers, ranges=ranges), True, None


def _rounding(call: DaliCall, by_frame: bool) -> tuple[_Rounding, _Rounding]:
    """Return the rounding of starts and of ends that lie between frames, from the arguments of a reader."""
    if call.row.name.startswith("experimental."):
        name = call.take("file_list_rounding", "start_down_end_up")
    else:
        wider = bool(call.take("file_list_include_preceding_frame", False)) and not by_frame
        name = "start_down_end_up" if wider else "start_up_end_down"
    if name not in _ROUNDING:
        raise call.wrong(f"file_list_rounding={name!r} is not valid", allowed=", ".join(map(repr, _ROUNDING)))
    return _ROUNDING[name]


def _video_row(
    table: Any, number: int, line: str, by_frame: bool, rounding: tuple[_Rounding, _Rounding]
) -> tuple[str, int, Range | None]:
    """Parse a line ``path label [start [end]]``, in seconds or in frames; negative frames count from the end."""
    fields = line.split()
    allowed = "path label [start [end]]"
    try:
        path, label, bounds = fields[0], int(fields[1]), [float(item) for item in fields[2:4]]
    except (IndexError, ValueError) as error:
        raise ManifestError(f"line {number}: {line!r}", source=str(table), allowed=allowed) from error
    if len(fields) > 4:
        raise ManifestError(
            f"line {number}: {line!r} has {len(fields)} fields", source=str(table), allowed=allowed
        )
    if not bounds:
        return path, label, None
    if not by_frame:
        bounds = _frames_at(path, bounds)
    elif any(bound < 0 for bound in bounds):
        from ...video.reader import VideoReader

        with VideoReader(path) as video:
            count = len(video)
        bounds = [entry + count if entry < 0 else entry for entry in bounds]
    start, end = rounding[0](bounds[0]), rounding[1](bounds[1]) if len(bounds) > 1 else None
    if end is not None and end <= start:
        raise ManifestError(
            f"line {number}: {line!r} selects no frame: start {start}, end {end}",
            source=str(table),
            allowed="an end after the start",
        )
    return path, label, Range(start_frame=start, end_frame=end)


def _frames_at(path: str, bounds_s: list[float]) -> list[float]:
    """Return the frame numbers of times on the clock of a video; a time within frame n is n + 0.5.

    A start before the first frame is 0; an end that is negative, or after the video's end, is the number of frames.
    """
    from ...video.reader import VideoReader

    with VideoReader(path) as video:
        times = video.timestamps
    count = len(times)
    times = np.append(times, end_of(Span(0, count, times)))
    numbers = []
    for time_s in bounds_s:
        at = int(np.searchsorted(times, time_s - EQUAL_S))
        exact = at > count or times[at] - time_s <= EQUAL_S
        numbers.append(float(min(at, count)) if exact or not at else at - 0.5)
    return [
        numbers[0],
        *(count if time_s < 0 else at for at, time_s in zip(numbers[1:], bounds_s[1:], strict=True)),
    ]


@operator("readers.video_resize", passes=True, accept=READER_ACCEPTS, note=_WINDOWS)
def _video_resize_reader(call: DaliCall) -> Any:
    """``fn.readers.video_resize``: ``fn.readers.video`` with ``fn.resize``."""
    wanted = (
        *(
            "size",
            "resize_x",
            "resize_y",
            "resize_shorter",
            "resize_longer",
            "mode",
            "max_size",
            "subpixel_scale",
        ),
        *("interp_type", "antialias", "mag_filter", "min_filter", "roi_start", "roi_end", "roi_relative"),
    )
    options = {"subpixel_scale": True, **{name: call.args.pop(name) for name in wanted if name in call.args}}
    result = built("readers.video", call)
    first, *rest = result if isinstance(result, tuple) else (result,)
    resized = built("resize", DaliCall(Row("resize"), [first], options, first.device))
    return (resized, *rest) if rest else resized
