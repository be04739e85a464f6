"""``fn.decoders.*``: decoding of images and videos from bytes; and ``fn.io.file.read``, which reads files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ...array import Array, IntArray
from ...core.files.npy import array_of_npy
from ...core.padding import source_indices
from ...core.workers import Workers
from ...errors import UnreadableSourceError
from ...images import decode_image
from ...ops import REGISTRY, Run
from ...pipeline.executor import error_note
from ..call import BORDERS, DaliCall, Row
from ..data_node import DataNode, current, node_of
from ..dtypes import converted, dtype_name
from ..value import Value
from .images import crop
from .random_numbers import random_window
from .windows import slice_

__all__ = [
    "decode_crop",
    "decode_images",
    "decode_numpy",
    "decode_random_crop",
    "decode_slice",
    "decode_video",
    "file_bytes",
    "peek_shape",
]


def _decoded(
    call: DaliCall, function: Callable[..., Array], layout: str, summary: str, *settings: DataNode
) -> DataNode:
    """Return a node that calls a function for each sample, on threads."""
    count = current().num_threads or len(os.sched_getaffinity(0))
    workers = Workers(count, "seqpipe-decode")

    def compute(values: list[Value], run: Run) -> Value:
        value = values[0].on_host()
        sources = value.sources or ("",) * len(value)

        def one(number: int) -> Array:
            with error_note(f"sample {number} of the batch, {sources[number] or 'bytes without a name'}"):
                return function(
                    value[number], sources[number], run, number, *(setting[number] for setting in values[1:])
                )

        futures = [workers.submit(partial(one, number)) for number in range(len(value))]
        return Value.of([future.result() for future in futures], layout, value.sources)

    node = DataNode(call.name or call.row.name, [call.input().cpu(), *settings], compute, summary=summary)
    return node.gpu() if call.device == "gpu" else node


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
    return converted(image * (np.iinfo(kind).max / np.iinfo(image.dtype).max), kind)


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
    """``fn.decoders.video``: frames ``FHWC`` from the bytes of a video file; frames past its end are padded.

    ``start_frame``, ``end_frame``, ``sequence_length``, ``stride`` and ``frames`` may be nodes.
    """
    names = ("start_frame", "end_frame", "sequence_length", "stride", "frames")
    arguments = {name: value for name in names if (value := call.take(name)) is not None}
    mode, fill = call.take("pad_mode", "constant"), np.atleast_1d(call.take("fill_value", 0))
    call.done()
    if "end_frame" in arguments and "sequence_length" in arguments:
        raise call.wrong("end_frame and sequence_length are given", allowed="one of both, or none")
    if "frames" in arguments and len(arguments) > 1:
        raise call.wrong("frames is given, and a range of frames", allowed="one of both")
    mode = BORDERS.get(mode, mode)
    if mode not in ("none", "constant", "edge", "reflect", "symmetric"):
        allowed = "'none', 'constant', 'edge', 'repeat', 'reflect_101', 'reflect_1001'"
        raise call.wrong(f"pad_mode={mode!r}", allowed=allowed)

    def one(data: Array, source: str, _: Run, __: int, *numbers: Array) -> Array:
        from ...video.reader import VideoReader

        settings = {name: np.ravel(number) for name, number in zip(arguments, numbers, strict=True)}
        with VideoReader(np.ascontiguousarray(data).tobytes()) as video:
            wanted = _frame_numbers(settings, len(video))
            inside = wanted < len(video)
            if (
                not wanted.size
                or not inside.any()
                or (mode == "none" and "frames" in settings and not inside.all())
            ):
                raise UnreadableSourceError(
                    f"frames {wanted[:1].tolist()} and further of a video of {len(video)}",
                    source=source,
                    allowed="numbers of frames within the video",
                )
            if mode == "none":
                return video.frames(wanted[inside].tolist()).numpy()
            if mode == "constant":
                frames: Array = (
                    video.frames(np.where(inside, wanted, wanted[inside][0]).tolist()).numpy().copy()
                )
                frames[~inside] = converted(fill, frames.dtype.name)
                return frames
            numbers_of = source_indices(0, int(wanted.max()) + 1, len(video), mode)
            return video.frames(numbers_of[wanted].tolist()).numpy()

    return _decoded(
        call, one, "FHWC", f"{mode} {fill}", *(node_of(value).cpu() for value in arguments.values())
    )


def _frame_numbers(settings: Mapping[str, Array], count: int) -> IntArray:
    """Return the numbers of the frames that the arguments of ``fn.decoders.video`` ask for; those past the end too."""
    if "frames" in settings:
        numbers: IntArray = settings["frames"].astype(np.int64)
        return np.where(numbers < 0, numbers + count, numbers)
    start, stride = (
        int(settings[name][0]) if name in settings else n for name, n in (("start_frame", 0), ("stride", 1))
    )
    if "sequence_length" in settings:
        return start + stride * np.arange(int(settings["sequence_length"][0]))
    return np.arange(start, int(settings["end_frame"][0]) if "end_frame" in settings else count, stride)


def decode_numpy(call: DaliCall) -> DataNode:
    """``fn.decoders.numpy``: the arrays of ``.npy`` files from their bytes."""
    kind = call.take("dtype")
    kind = None if kind is None else dtype_name(kind)
    call.done()

    def one(data: Array, source: str, _: Run, __: int) -> Array:
        array = array_of_npy(data, source).copy()
        return np.ascontiguousarray(array if kind is None else converted(array, kind))

    return _decoded(call, one, "", f"{kind}")


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
