"""``fn.decoders.*``: decoding of images and videos from bytes; and ``fn.io.file.read``, which reads files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from ...array import Array, IntArray
from ...core.files.npy import array_of_npy
from ...core.padding import source_indices
from ...core.workers import Workers
from ...errors import UnreadableSourceError
from ...images import decode_image
from ...ops import REGISTRY, Run
from ...pipeline.executor import error_note
from ..call import BORDERS
from ..data_node import DataNode, current
from ..declared import DaliCall, Kind, Row, Seed, built, operator
from ..dtypes import converted
from ..value import Value
from .random_numbers import random_window

__all__: list[str] = []

_ACCEPTS: Final = (
    *("affine", "cache_batch_copy", "cache_debug", "cache_size", "cache_threshold", "cache_type"),
    *("device_memory_padding", "device_memory_padding_jpeg2k", "host_memory_padding"),
    *("host_memory_padding_jpeg2k", "hw_decoder_load", "hybrid_huffman_threshold", "jpeg_fancy_upsampling"),
    *("preallocate_height_hint", "preallocate_width_hint", "use_fast_idct", "split_stages"),
    *("use_chunk_allocator", "memory_stats", "build_index"),
)
"""Arguments of decoders that are accepted and ignored."""


_WINDOWS: Final = {
    "crop": ("crop", "crop_h", "crop_w", "crop_pos_x", "crop_pos_y", "rounding"),
    "slice": (
        *("start", "end", "shape", "rel_start", "rel_end", "rel_shape", "axes", "axis_names"),
        *("normalized_anchor", "normalized_shape"),
    ),
}
"""The arguments of a window, by the operator that cuts it."""


def _decoded(call: DaliCall, function: Callable[..., Array], layout: str = "") -> DataNode:
    """Return a node that calls a function for each sample, on threads."""
    count = current().num_threads or len(os.sched_getaffinity(0))
    workers = Workers(count, "seqpipe-decode")

    def compute(values: list[Value], run: Run) -> Value:
        value = values[0].on_host()
        sources = value.sources or ("",) * len(value)

        def result(number: int) -> Array:
            with error_note(f"sample {number} of the batch, {sources[number] or 'bytes without a name'}"):
                settings = {
                    name: setting[number] for name, setting in zip(call.settings, values[1:], strict=True)
                }
                return function(value[number], sources[number], run.epoch, int(run.index[number]), **settings)

        futures = [workers.submit(partial(result, number)) for number in range(len(value))]
        return Value.of([future.result() for future in futures], layout, value.sources)

    return call.on_host(compute)


def _image_of(call: DaliCall) -> Callable[[Array, str], Array]:
    """Return the function that decodes an image, by arguments of all of ``fn.decoders.image*``."""
    output, oriented = call.take("output_type"), bool(call.take("adjust_orientation", True))
    color: Any = "RGB" if output is None else "any" if output.name == "ANY_DATA" else output.name
    call.summary += f" {color} {oriented}"
    return lambda data, source: decode_image(data, color, orient=oriented, source=source)


@operator("decoders.image", passes=True, accept=_ACCEPTS)
def _decode_images(call: DaliCall, *, dtype: Kind = "uint8") -> DataNode:
    """``fn.decoders.image``: uint8 ``HWC``; float dtypes have the range 0 to 1."""
    image_of = _image_of(call)
    call.done()
    return _decoded(call, lambda data, source, _, __: _scaled(image_of(data, source), dtype), "HWC")


def _scaled(image: Array, kind: str) -> Array:
    """Convert to another dtype, scaled by the ranges of the dtypes; the range of floats is 0 to 1."""
    if image.dtype.name == kind:
        return image
    if np.dtype(kind).kind == "f":
        return (image / np.iinfo(image.dtype).max).astype(kind)
    return converted(image * (np.iinfo(kind).max / np.iinfo(image.dtype).max), kind)


@operator("decoders.image_random_crop", passes=True, accept=_ACCEPTS)
def _decode_random_crop(
    call: DaliCall,
    *,
    dtype: Kind = "uint8",
    random_area: Any = (0.08, 1.0),
    random_aspect_ratio: Any = (3 / 4, 4 / 3),
    num_attempts: int = 10,
    seed: Seed,
) -> DataNode:
    """``fn.decoders.image_random_crop``: a window of each image with random area and aspect ratio."""
    image_of = _image_of(call)
    call.done()
    op: Any = REGISTRY["random.uniform"](range=(0.0, 1.0), seed=seed, per_frame=True)

    def decoded(data: Array, source: str, epoch: int, index: int) -> Array:
        image = image_of(data, source)
        drawn = op.drawn(epoch=epoch, index=index, frames=4 * num_attempts).reshape(-1, 4)
        height, width = image.shape[:2]
        top, left, rows, columns = random_window(height, width, random_area, random_aspect_ratio, drawn)
        return _scaled(np.ascontiguousarray(image[top : top + rows, left : left + columns]), dtype)

    return _decoded(call, decoded, "HWC")


@operator("decoders.image_crop", "decoders.image_slice", passes=True, accept=_ACCEPTS)
def _decode_window(call: DaliCall) -> Any:
    """``fn.decoders.image_crop`` and ``image_slice``: whole images are decoded, then crops or slices them."""
    window = call.row.name.removeprefix("decoders.image_")
    options = {name: call.args.pop(name) for name in _WINDOWS[window] if name in call.args}
    first, *more = call.inputs
    call.inputs = [first]
    images = built("decoders.image", call)
    return built(window, DaliCall(Row(window), [images, *more], options, call.device))


@operator("peek_image_shape")
def _peek_shape(
    call: DaliCall,
    *,
    adjust_orientation: bool = True,
    dtype: Kind = "int64",
    image_type: Any = None,  # noqa: ARG001  shapes do not depend on it
) -> DataNode:
    """``fn.peek_image_shape``: decodes images to get their shapes."""

    def computed(data: Array, source: str, _: int, __: int) -> Array:
        return np.asarray(decode_image(data, orient=adjust_orientation, source=source).shape, dtype)

    return _decoded(call, computed)


_FRAMES: Final = dict.fromkeys(("start_frame", "end_frame", "sequence_length", "stride", "frames"))


@operator("decoders.video", each=_FRAMES, accept=_ACCEPTS)
def _decode_video(call: DaliCall, *, pad_mode: Any = "constant", fill_value: Any = 0) -> DataNode:
    """``fn.decoders.video``: frames ``FHWC`` from the bytes of a video file; frames past its end are padded.

    ``start_frame``, ``end_frame``, ``sequence_length``, ``stride`` and ``frames`` may be nodes.
    """
    mode, fill, arguments = BORDERS.get(pad_mode, pad_mode), np.atleast_1d(fill_value), call.settings
    if "end_frame" in arguments and "sequence_length" in arguments:
        raise call.wrong("end_frame and sequence_length are given", allowed="one of both, or none")
    if "frames" in arguments and len(arguments) > 1:
        raise call.wrong("frames is given, and a range of frames", allowed="one of both")
    if mode not in ("none", "constant", "edge", "reflect", "symmetric"):
        allowed = "'none', 'constant', 'edge', 'repeat', 'reflect_101', 'reflect_1001'"
        raise call.wrong(f"pad_mode={mode!r}", allowed=allowed)

    def applied(data: Array, source: str, _: int, __: int, **numbers: Array) -> Array:
        from ...video.reader import VideoReader

        settings = {name: np.ravel(number) for name, number in numbers.items()}
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

    return _decoded(call, applied, "FHWC")


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


@operator("decoders.numpy")
def _decode_numpy(call: DaliCall, *, dtype: Kind = None) -> DataNode:
    """``fn.decoders.numpy``: the arrays of ``.npy`` files from their bytes."""

    def made(data: Array, source: str, _: int, __: int) -> Array:
        array = array_of_npy(data, source).copy()
        return np.ascontiguousarray(array if dtype is None else converted(array, dtype))

    return _decoded(call, made)


@operator("io.file.read", accept=("dont_use_mmap", "use_o_direct"))
def _file_bytes(call: DaliCall) -> DataNode:
    """``fn.io.file.read``: the bytes of the files whose paths are the samples."""

    def one(data: Array, _: str, __: int, ___: int) -> Array:
        path = data.astype(np.uint8).tobytes().decode().rstrip("\0")
        try:
            return np.fromfile(path, np.uint8)
        except OSError as error:
            raise UnreadableSourceError(f"cannot be read: {error.strerror}", source=path) from error

    return _decoded(call, one)
