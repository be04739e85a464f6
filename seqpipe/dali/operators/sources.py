"""DALI's readers and external sources, as sources of pipelines."""

from __future__ import annotations

import logging
import math
import pickle
from collections.abc import Callable
from collections.abc import Sequence as Seq
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from ...array import Array
from ...dataset.source import SampleSource
from ...errors import (
    ManifestError,
    ParameterError,
    SourceNotFoundError,
    UnreadableSourceError,
)
from ...images import decode_image, image_extensions
from ...ops import Run
from ...pipeline.nodes import nodes_of
from ...pipeline.source import BatchSource
from ...readers import Listing, Range
from ...readers.listing import listing
from ...sampling import EpochOrder, Span
from ...sampling.clock import EQUAL_S, end_of
from ...sources.options import Decode
from ...sources.takes import Clip, Segments
from ...sources.videos import ClipSource, videos
from ...video.convert.output import OutputSpec
from ...video.index.shared import find_register
from ..call import BORDERS, DaliCall, Row
from ..data_node import DataNode, current, outputs_of
from ..dtypes import converted, dtype_name
from ..reading import Indexed, Items
from ..sources.external import External, external_spec
from ..sources.pushed import PushedBatches
from ..value import Value
from .resizing import resize

__all__ = [
    "READER_ACCEPTS",
    "bytes_of",
    "external_source",
    "file_reader",
    "file_rows",
    "lines_of",
    "sequence_reader",
    "source_name",
    "started",
    "video_reader",
    "video_resize_reader",
]

_Rounding = Callable[[float], int]

READER_ACCEPTS: Final = (
    *(
        "additional_decode_surfaces",
        "channels",
        "dont_use_mmap",
        "initial_fill",
        "lazy_init",
        "prefetch_queue_depth",
    ),
    *("read_ahead", "skip_cached_images", "skip_vfr_check", "tensor_init_bytes", "cache_header_information"),
    *("register_buffers", "use_o_direct"),
)
"""Arguments of readers that are accepted and ignored."""
_FRAME_NUMBERS: Final = {False: "none", True: "scalar"} | {one: one for one in ("none", "scalar", "sequence")}
_ROUNDING: Final[dict[str, tuple[_Rounding, _Rounding]]] = {
    "start_down_end_up": (math.floor, math.ceil),
    "start_up_end_down": (math.ceil, math.floor),
    "all_up": (math.ceil, math.ceil),
    "all_down": (math.floor, math.floor),
}
"""How ``file_list_rounding`` makes frame numbers of starts and ends that lie between frames."""

_log = logging.getLogger(__name__)


def started(call: DaliCall, source: SampleSource, parts: Seq[str]) -> list[Any]:
    """Return the nodes of a source's parts, and register it in the pipeline by its name."""
    pipe = current()
    again, own_seed = bool(call.take("shuffle_after_epoch", False)), call.take("shuffle_after_epoch_seed")
    shuffle = bool(call.take("random_shuffle", False)) | again
    shard = int(call.take("shard_id", 0)), int(call.take("num_shards", 1))
    seed = own_seed if own_seed is not None and again else call.seed
    # the processes that read the shards agree on one order; and pipelines do, with shuffle_after_epoch
    seed = pipe.seed_of(call.row.name, seed, shared=again or shard[1] > 1) if shuffle else 0
    sticks, pads = bool(call.take("stick_to_shard", False)), bool(call.take("pad_last_batch", False))
    call.done()
    order = EpochOrder(size=source.size, seed=seed, shuffle=shuffle, shard=shard, stick_to_shard=sticks)
    reader = Indexed(source, order, tuple(parts), pipe.batch_size, "pad" if pads else "fill")
    pipe.register_source(call.name, reader)
    return list(nodes_of(reader))


def _labels(call: DaliCall, node: Any) -> DataNode:
    result = DataNode(
        f"{call.row.name}.label",
        [node],
        lambda v, _: Value(np.asarray(v[0].data).astype(np.int32).reshape(-1, 1)),
    )
    result.device = "cpu"
    return result


# ---------------------------------------------------------------------- videos


def video_reader(call: DaliCall) -> Any:
    """``fn.readers.video``: sequences; and labels, frame numbers and timestamps if enabled."""
    listed, labelled, register = _videos(call)
    kind = dtype_name(call.take("dtype", "uint8"))
    normalized = bool(call.take("normalized", False))
    image_type = call.take("image_type")
    numbering, has_timestamps = _frame_numbering(call), bool(call.take("enable_timestamps", False))
    if normalized and kind != "float32":
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
            return values[0].each(lambda part: part.astype(np.float32) / np.float32(255))
        return values[0] if kind == "uint8" else values[0].each(lambda part: converted(part, kind))

    frames = DataNode(call.name or call.row.name, [image], pixels, device="gpu" if wants_gpu else "cpu")
    outputs = [frames]
    if labelled:
        outputs.append(_labels(call, label))
    if numbering != "none" or has_timestamps:
        frames_read, times = _frames_read(source, index)
        outputs += [_frame_numbers(frames_read, numbering)] if numbering != "none" else []
        outputs += [times] if has_timestamps else []
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
        times = [np.append(selection.clock.of(one.source), -1.0)[one.frames] for one in samples]
        return Value(np.stack([one.frames for one in samples])), Value(np.stack(times))

    numbers, seconds = outputs_of(DataNode("frames", [index], compute), 2)
    return numbers, seconds


def _videos(call: DaliCall) -> tuple[Listing, bool, str | None]:
    """Return the listed files, whether there are labels, and the register of their indexes, if there is one."""
    names, labels = call.take("filenames"), call.args.pop("labels", None)
    root, table = call.take("file_root"), call.take("file_list")
    by_frame = bool(call.take("file_list_frame_num", False)) | (call.take("file_list_format") == "frames")
    rounding = _rounding(call, by_frame)
    if sum(one is not None for one in (names, root, table)) != 1:
        raise call.wrong("which videos?", allowed="exactly one of filenames, file_root and file_list")
    if names is not None:
        files = [str(one) for one in ([names] if isinstance(names, (str, Path)) else names)]
        if labels is None:
            return listing(files), False, None
        return listing(files, labels=list(labels) or list(range(len(files)))), True, None
    if root is not None:
        return listing(file_root=root), True, find_register(None, root)
    rows = [_video_row(table, n, line, by_frame, rounding) for n, line in lines_of(table)]
    files, numbers, ranges = (list(column) for column in zip(*rows, strict=True))
    return listing(files, labels=numbers, ranges=ranges), True, None


def lines_of(table: Any) -> list[tuple[int, str]]:
    """Return the lines of a text file that are not empty, with their numbers."""
    path = Path(table)
    if not path.is_file():
        raise SourceNotFoundError("there is no such file_list", source=str(path))
    lines = path.read_text(encoding="utf-8").splitlines()
    numbered = [(n, line) for n, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise ManifestError("the file_list has no lines", source=str(path))
    return numbered


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
        path, label, bounds = fields[0], int(fields[1]), [float(one) for one in fields[2:4]]
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
    elif any(one < 0 for one in bounds):
        from ...video.reader import VideoReader

        with VideoReader(path) as video:
            count = len(video)
        bounds = [one + count if one < 0 else one for one in bounds]
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


def video_resize_reader(call: DaliCall) -> Any:
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
    result = video_reader(call)
    first, *rest = result if isinstance(result, tuple) else (result,)

    resized = resize(DaliCall(Row("resize"), [first], options, first.device, None, None, None))
    return (resized, *rest) if rest else resized


# ---------------------------------------------------------------------- files


def file_rows(call: DaliCall, patterns: tuple[str, ...]) -> tuple[list[str], list[int], list[str]]:
    """Return paths, labels and ``source_info`` of a folder of class folders, a list of paths, or a ``file_list``.

    As in DALI, ``source_info`` is relative to ``file_root``, and paths of a list without one to the list's folder.
    """
    root, files, table = call.take("file_root"), call.take("files"), call.take("file_list")
    labels = call.args.pop("labels", None)
    own, folders = call.take("file_filters"), call.take("dir_filters")
    exact = bool(call.take("case_sensitive_filter", False))
    if files is not None:
        paths = [str(one) for one in ([files] if isinstance(files, (str, Path)) else files)]
        numbers = list(range(len(paths))) if labels is None else [int(one) for one in labels]
        if len(numbers) != len(paths):
            raise call.wrong(f"{len(numbers)} labels for {len(paths)} files", allowed="one for each")
    elif table is not None:
        pairs = [_file_row(table, n, line) for n, line in lines_of(table)]
        paths, numbers = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    elif root is not None:
        paths, numbers = _class_folders(call, Path(root), own or patterns, folders, exact)
        return paths, numbers, [str(Path(path).relative_to(root)) for path in paths]
    else:
        raise call.wrong("which files?", allowed="one of file_root, files and file_list")
    described = paths
    if root is not None or (files is None and table is not None):
        folder = Path(table).parent if root is None else Path(root)
        paths = [str(folder / path) for path in paths]
    _check_there(paths)
    return paths, numbers, described


def _file_row(table: Any, number: int, line: str) -> tuple[str, int]:
    path, _, label = line.strip().rpartition(" ")
    try:
        return path.strip(), int(label)
    except ValueError as error:
        raise ManifestError(f"line {number}: {line!r}", source=str(table), allowed="path label") from error


def _class_folders(
    call: DaliCall, root: Path, patterns: Any, folders: Any, exact: bool
) -> tuple[list[str], list[int]]:
    if not root.is_dir():
        raise SourceNotFoundError("there is no such folder", source=str(root))

    def fits(name: str, some: Any) -> bool:
        each = [some] if isinstance(some, str) else some
        return any(fnmatch(name, one) if exact else fnmatch(name.lower(), one.lower()) for one in each)

    classes = sorted(
        one for one in root.iterdir() if one.is_dir() and (not folders or fits(one.name, folders))
    )
    paths, numbers = [], []
    for number, folder in enumerate(classes):
        for path in sorted(folder.iterdir()):
            if path.is_file() and fits(path.name, patterns):
                paths.append(str(path))
                numbers.append(number)
    if not paths:
        raise SourceNotFoundError(
            f"no files in the folders of {root}",
            source=f"fn.{call.row.name}",
            allowed="a folder of class folders, with files such as " + ", ".join(list(patterns)[:4]),
            advice="Give files=[…] for a folder without class folders",
        )
    return paths, numbers


def _check_there(paths: list[str]) -> None:
    if not paths:
        raise ParameterError("no files are given", allowed="one path or more")
    for path in paths:
        if not Path(path).is_file():
            raise SourceNotFoundError("there is no such file", source=path)


def bytes_of(path: str) -> Array:
    """The bytes of a file, uint8.

    Raises:
        UnreadableSourceError: it cannot be read.
    """
    try:
        return np.fromfile(path, np.uint8)
    except OSError as error:
        raise UnreadableSourceError(f"cannot be read: {error.strerror}", source=path) from error


def _values(items: list[Any], sources: tuple[str, ...]) -> Value:
    return Value.of(items, "", sources)


def file_reader(call: DaliCall) -> tuple[DataNode, DataNode]:
    """``fn.readers.file``: the bytes of files, and labels."""
    paths, labels, described = file_rows(call, tuple(f"*{ending}" for ending in image_extensions))
    dataset = Items.of(
        lambda n: (bytes_of(paths[n]), np.int64(labels[n])),
        "file",
        ("bytes", "label"),
        {"files": paths, "labels": labels},
        described,
        _values,
    )
    data, label = started(call, dataset, dataset.names)
    return DataNode(call.name or call.row.name, [data], lambda v, _: v[0]), _labels(call, label)


def sequence_reader(call: DaliCall) -> DataNode:
    """``fn.readers.sequence``: sequences of the images in each subfolder, sorted by name."""
    file_root, wanted = call.take("file_root"), call.take("sequence_length")
    if file_root is None or wanted is None:
        raise call.wrong("file_root or sequence_length is missing")
    root, length = Path(file_root), int(wanted)
    stride, step = int(call.take("stride", 1)), int(call.take("step", 1))
    color = call.take("image_type")
    if not root.is_dir():
        raise SourceNotFoundError("there is no such folder", source=str(root))
    if min(length, stride, step) < 1:
        raise call.wrong(f"sequence_length={length}, stride={stride}, step={step}", allowed="1 or more each")
    windows: list[tuple[Path, ...]] = []
    for folder in sorted(one for one in root.iterdir() if one.is_dir()):
        frames = sorted(one for one in folder.iterdir() if one.suffix.lower() in image_extensions)
        reach = (length - 1) * stride + 1
        windows += [tuple(frames[n : n + reach : stride]) for n in range(0, len(frames) - reach + 1, step)]
    if not windows:
        raise SourceNotFoundError(
            f"no folder of {root} has a sequence of {length} images", source=f"fn.{call.row.name}"
        )

    def load(number: int) -> tuple[Any, ...]:
        name: Any = "RGB" if color is None else color.name
        images = [decode_image(bytes_of(str(path)), name, source=str(path)) for path in windows[number]]
        if len({image.shape for image in images}) > 1:
            raise UnreadableSourceError(
                "the images of a sequence differ in size",
                source=str(windows[number][0].parent),
                allowed="one size",
            )
        return (np.stack(images),)

    described = [str(window[0]) for window in windows]
    facts = {"windows": [[str(path) for path in window] for window in windows]}

    def gathered(items: list[Any], sources: tuple[str, ...]) -> Value:
        return Value.of(items, "FHWC", sources)

    dataset = Items.of(load, "sequence", ("frames",), facts, described, gathered)
    (node,) = started(call, dataset, dataset.names)
    return DataNode(call.name or call.row.name, [node], lambda v, _: v[0])


# ---------------------------------------------------------------------- external sources


def source_name(call: DaliCall, kind: str) -> str:
    """Return the name of a call's source: the argument ``name``, or a kind with a number."""
    pipe = current()
    number, pipe.anonymous = pipe.anonymous, pipe.anonymous + 1
    return call.name or f"{kind}_{number}"


def external_source(call: DaliCall) -> Any:
    """``fn.external_source`` in all its forms; a list of nodes with ``num_outputs``."""
    pipe = current()
    source = call.take("source")
    if call.inputs:
        raise call.wrong("external_source acts on no node", advice="Give the source by name: source=…")
    name = source_name(call, "external_source")
    dtype, layout = call.take("dtype"), call.take("layout")
    kinds = [dtype_name(one) for one in dtype] if isinstance(dtype, (list, tuple)) else dtype
    kind = dtype_name(kinds) if kinds is not None and not isinstance(kinds, list) else kinds
    parallel = bool(call.take("parallel", False))
    form = external_spec(
        f"external_source {name!r}", call.take("num_outputs"), kind, layout, call.take("ndim")
    )
    by_batch = not parallel or not callable(source)  # iterables give batches, also with parallel=True
    batch = call.take("batch", by_batch)
    copies = not call.take("no_copy", False)
    repeats, infos, cycle = (
        bool(call.take("repeat_last", False)),
        bool(call.take("batch_info", False)),
        call.take("cycle"),
    )
    for accepted in ("cuda_stream", "use_copy_kernel", "blocking", "prefetch_queue_depth"):
        call.args.pop(accepted, None)
    call.done()
    result: BatchSource
    if source is None:
        result = PushedBatches(form, pipe.batch_size, name=name, repeat_last=repeats, copies=copies)
    else:
        options: dict[str, Any] = {"batch": bool(batch), "cycle": cycle, "batch_info": infos}
        options["name"] = f"external_source {name!r}"
        if parallel:
            from ..sources.processes import ParallelExternal

            result = ParallelExternal(
                source,
                form,
                pipe.batch_size,
                workers=pipe.py_num_workers,
                start_method=_start_method(source, pipe.py_start_method),
                **options,
            )
        else:
            result = External(source, form, pipe.batch_size, copies=copies, **options)
    pipe.register_source(name, result)
    nodes = [DataNode(name, [node], lambda v, _: v[0], passes=True) for node in nodes_of(result)]
    if call.device == "gpu":
        nodes = [node.gpu() for node in nodes]
    return nodes if form.several else nodes[0]


def _start_method(source: Any, requested: Literal["fork", "spawn"]) -> Literal["fork", "spawn"]:
    """Return the start method of a source's processes: "fork" for one that cannot be pickled, with a log message."""
    if requested == "spawn":
        try:
            pickle.dumps(source)
        except Exception as error:  # pickling runs the user's code, which may raise anything
            _log.warning("py_start_method='spawn' becomes 'fork', as the source cannot be pickled: %s", error)
            return "fork"
    return requested
