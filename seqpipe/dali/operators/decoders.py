"""``fn.decoders.*``: decoding of images and videos from bytes; and ``fn.io.file.read``, which reads files."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...array import Array
from ...errors import UnreadableSourceError
from ...images import decode_image
from ...ops import REGISTRY, Run, cast_array
from ...pipeline.nodes import error_note
from ...pipeline.value import Value
from ...video.engine.workers import Workers
from ..call import DaliCall, Row
from ..data_node import DataNode, current
from ..types import dtype_name
from .images import crop
from .random_numbers import random_window
from .windows import slice_

__all__ = [
    "decode_crop",
    "decode_images",
    "decode_random_crop",
    "decode_slice",
    "decode_video",
    "file_bytes",
    "peek_shape",
]


def _decoded(
    call: DaliCall, function: Callable[[Array, str, Run, int], Array], layout: str, summary: str
) -> DataNode:
    """Return a node that calls a function on the bytes of each sample, on threads."""
    count = current().num_threads or len(os.sched_getaffinity(0))
    workers = Workers(count, "seqpipe-decode")

    def compute(values: list[Value], run: Run) -> Value:
        value = values[0].on_host()
        sources = value.sources or ("",) * len(value)

        def one(number: int) -> Array:
            with error_note(f"sample {number} of the batch, {sources[number] or 'bytes without a name'}"):
                return function(value[number], sources[number], run, number)

        futures = [workers.submit(partial(one, number)) for number in range(len(value))]
        return Value.of([future.result() for future in futures], layout, value.sources)

    made = DataNode(call.name or call.row.name, [call.input().cpu()], compute, summary=summary)
    return made.gpu() if call.device == "gpu" else made


def _image_options(call: DaliCall) -> tuple[Any, bool, str]:
    output = call.take("output_type")
    color = "RGB" if output is None else "any" if output.name == "ANY_DATA" else output.name
    oriented, kind = bool(call.take("adjust_orientation", True)), dtype_name(call.take("dtype", "uint8"))
    return color, oriented, kind


def decode_images(call: DaliCall) -> DataNode:
    """``fn.decoders.image``: uint8 ``HWC``; float dtypes have the range 0 to 1."""
    color, oriented, kind = _image_options(call)
    call.done()

    def one(data: Array, source: str, _: Run, __: int) -> Array:
        return _scaled(decode_image(data, color, orient=oriented, source=source), kind)

    return _decoded(call, one, "HWC", f"{color} {oriented} {kind}")


def _scaled(image: Array, kind: str) -> Array:
    """Convert to another dtype, scaled by the ranges of the dtypes; the range of floats is 0 to 1."""
    if image.dtype.name == kind:
        return image
    if np.dtype(kind).kind == "f":
        return (image / np.iinfo(image.dtype).max).astype(kind)
    return cast_array(image * (np.iinfo(kind).max / np.iinfo(image.dtype).max), kind)


def decode_random_crop(call: DaliCall) -> DataNode:
    """``fn.decoders.image_random_crop``: a window of each image with random area and aspect ratio."""
    color, oriented, kind = _image_options(call)
    area, ratio = call.take("random_area", (0.08, 1.0)), call.take("random_aspect_ratio", (3 / 4, 4 / 3))
    attempts = int(call.take("num_attempts", 10))
    seed = call.drawing_seed
    call.done()
    op: Any = REGISTRY["random.uniform"](range=(0.0, 1.0), seed=seed, per_frame=True)

    def one(data: Array, source: str, run: Run, number: int) -> Array:
        image = decode_image(data, color, orient=oriented, source=source)
        drawn = op.drawn(epoch=run.epoch, index=int(run.index[number]), frames=4 * attempts)
        top, left, rows, columns = random_window(
            image.shape[0], image.shape[1], area, ratio, drawn.reshape(-1, 4)
        )
        return _scaled(np.ascontiguousarray(image[top : top + rows, left : left + columns]), kind)

    return _decoded(call, one, "HWC", f"{color} {oriented} {kind} {area} {ratio} {attempts} {seed}")


def decode_crop(call: DaliCall) -> DataNode:
    """``fn.decoders.image_crop``: decodes whole images, then crops them."""
    names = ("crop", "crop_h", "crop_w", "crop_pos_x", "crop_pos_y", "rounding")
    options = {name: call.args.pop(name) for name in names if name in call.args}
    return crop(DaliCall(Row("crop"), [decode_images(call)], options, call.device))


def decode_slice(call: DaliCall) -> DataNode:
    """``fn.decoders.image_slice``: decodes whole images, then slices them."""
    names = (
        *("start", "end", "shape", "rel_start", "rel_end", "rel_shape", "axes", "axis_names"),
        *("normalized_anchor", "normalized_shape"),
    )
    options = {name: call.args.pop(name) for name in names if name in call.args}
    first, *more = call.inputs
    call.inputs = [first]
    return slice_(DaliCall(Row("slice"), [decode_images(call), *more], options, call.device))


def peek_shape(call: DaliCall) -> DataNode:
    """``fn.peek_image_shape``: decodes images to get their shapes."""
    oriented, kind = bool(call.take("adjust_orientation", True)), dtype_name(call.take("dtype", "int64"))
    call.args.pop("image_type", None)
    call.done()
    return _decoded(
        call,
        lambda data, source, _, __: np.asarray(
            decode_image(data, orient=oriented, source=source).shape, kind
        ),
        "",
        kind,
    )


def decode_video(call: DaliCall) -> DataNode:
    """``fn.decoders.video``: frames ``FHWC`` from the bytes of a video file."""
    start, end, stride = call.take("start_frame"), call.take("end_frame"), int(call.take("stride", 1))
    length, numbers = call.take("sequence_length"), call.take("frames")
    if call.take("pad_mode", "none") != "none":
        raise call.wrong(
            "pad_mode", advice="Sequences of one length are made by seqpipe.readers.Video(pad_mode=…)"
        )
    call.done()

    def one(data: Array, source: str, _: Run, __: int) -> Array:
        from ...video.reader import VideoReader

        with VideoReader(np.ascontiguousarray(data).tobytes()) as video:
            if numbers is not None:
                return video.frames(np.atleast_1d(numbers).tolist()).numpy()
            last = len(video) if end is None else min(int(end), len(video))
            wanted = range(int(start or 0), last, stride)
            wanted = wanted if length is None else wanted[: int(length)]
            if not wanted or (length is not None and len(wanted) < int(length)):
                raise UnreadableSourceError(
                    f"frames from {start or 0} on, every {stride}, of a video of {len(video)}",
                    source=source,
                    allowed=f"ranges with {length or 'some'} frames",
                )
            return video.frames(wanted).numpy()

    return _decoded(call, one, "FHWC", f"{start} {end} {stride} {length} {numbers}")


def file_bytes(call: DaliCall) -> DataNode:
    """``fn.io.file.read``: the bytes of the files whose paths are the samples."""
    call.done()

    def one(data: Array, _: str, __: Run, ___: int) -> Array:
        path = data.astype(np.uint8).tobytes().decode().rstrip("\0")
        try:
            return np.fromfile(path, np.uint8)
        except OSError as error:
            raise UnreadableSourceError(f"cannot be read: {error.strerror}", source=path) from error

    return _decoded(call, one, "", "")
