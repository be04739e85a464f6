"""DALI's operators on pictures whose arguments are others here, and its decoders."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..array import Array, namespace, to_numpy
from ..errors import ParameterError, UnreadableSourceError
from ..images import decode_image
from ..ops import REGISTRY, Run, cast_array
from ..ops import DataNode as NativeNode
from ..pipeline.nodes import noted
from ..pipeline.value import Value
from ..video.engine.workers import Workers
from .call import DaliCall, Row, native, plain
from .data_node import DataNode, current, outputs_of
from .types import dtype_name

__all__ = [
    "coord_flip",
    "crop",
    "crop_mirror_normalize",
    "decode_crop",
    "decode_images",
    "decode_random_crop",
    "decode_slice",
    "decode_video",
    "erase",
    "file_bytes",
    "of_type",
    "optical_flow",
    "peek_shape",
    "python_function",
    "random_choice",
    "random_numbers",
    "resize",
    "resize_crop_mirror",
    "torch_function",
]


def resize(call: DaliCall) -> Any:
    """``fn.resize``, also with sizes that are nodes, filters by direction, and ``save_attrs``."""
    size = call.take("size")
    if isinstance(size, NativeNode):
        call.args |= {"resize_y": size[0], "resize_x": size[1]}  # type: ignore[index]
    elif isinstance(size, (list, tuple)) and any(isinstance(one, NativeNode) for one in size):
        call.args |= {"resize_y": size[0], "resize_x": size[1]}
    elif size is not None:
        sides = [float(one) for one in np.atleast_1d(size)]
        sides = sides * 2 if len(sides) == 1 else sides
        given = {"resize_y": sides[0], "resize_x": sides[1]}
        if min(sides) <= 0:
            call.args |= {name: side for name, side in given.items() if side > 0}
        else:
            call.args["size"] = tuple(round(side) for side in sides)
    for name in ("resize_x", "resize_y", "resize_shorter", "resize_longer"):
        if isinstance(call.args.get(name), (int, float)) and not call.args[name]:
            call.args.pop(name)
    smaller, larger = call.take("min_filter"), call.take("mag_filter")
    if smaller is not None or larger is not None:
        if smaller is not None and larger is not None and smaller != larger:
            raise call.wrong(
                "min_filter and mag_filter differ", allowed="one filter for both directions: interp_type"
            )
        call.args["interp_type"] = larger if smaller is None else smaller
    saves = bool(call.take("save_attrs", False))
    if isinstance(call.args.get("max_size"), (list, tuple)):
        call.args["max_size"] = int(min(call.args["max_size"]))
    made = native(call, call.row.to or call.row.name)
    return (made, DataNode("sizes", [call.input()], _sizes)) if saves else made


def _sizes(values: list[Value], _: Run) -> Value:
    """Rows and columns of each picture, as ``save_attrs`` gives them."""
    layout = values[0].layout or {2: "HW", 3: "HWC", 4: "FHWC"}[values[0].ndim]
    sides = [[shape[layout.index(letter)] for letter in "HW"] for shape in values[0].shapes()]
    return Value(np.asarray(sides, np.int32))


def _window_size(call: DaliCall) -> None:
    """The window's size of ``crop``, ``crop_h`` and ``crop_w``."""
    rows, columns = call.take("crop_h"), call.take("crop_w")
    whole = call.args.get("crop")
    if isinstance(whole, (int, float)):
        call.args["crop"] = (round(whole), round(whole))
    elif whole is not None and not isinstance(whole, NativeNode):
        call.args["crop"] = tuple(round(float(one)) for one in whole)
    if rows is not None or columns is not None:
        if isinstance(rows, NativeNode) or isinstance(columns, NativeNode):
            raise call.wrong(
                "crop_h or crop_w is a node", advice="fn.slice takes windows of sizes that differ"
            )
        if rows is None or columns is None:
            raise call.wrong("crop_h and crop_w belong together", allowed="both, or crop=(height, width)")
        call.args["crop"] = (round(float(rows)), round(float(columns)))
    policy = call.take("out_of_bounds_policy", "error")
    fill = call.take("fill_values", 0)
    if policy not in ("error", "pad", "trim_to_shape"):
        raise call.wrong(f"out_of_bounds_policy={policy!r}", allowed="'error', 'pad', 'trim_to_shape'")
    if policy != "error" and call.args.get("crop") is not None:
        call.inputs[0] = _at_least(call, call.inputs[0], call.args["crop"], fill, pads=policy == "pad")


def _at_least(call: DaliCall, node: DataNode, sides: tuple[int, int], fill: Any, *, pads: bool) -> DataNode:
    """Pictures padded evenly, so that a window of some size is within them."""
    if not pads:
        raise call.wrong("out_of_bounds_policy='trim_to_shape'", advice="fn.slice has it")
    level = float(fill if np.isscalar(fill) else fill[0])  # type: ignore[arg-type]  # NumPy's guard says too little

    def one(part: Array, layout: str) -> Array:
        widths = [(0, 0)] * part.ndim
        for letter, side in zip("HW", sides, strict=True):
            axis = layout.index(letter)
            missing = max(0, side - part.shape[axis])
            widths[axis] = (missing // 2, missing - missing // 2)
        return namespace(part).pad(part, widths, constant_values=level)

    def compute(values: list[Value], _: Run) -> Value:
        layout = values[0].layout or {2: "HW", 3: "HWC", 4: "FHWC"}[values[0].ndim]
        return values[0].each(lambda part: one(part, layout), layout)

    return DataNode("pad", [node], compute, told=f"{sides} {level}")


def crop(call: DaliCall) -> DataNode:
    """``fn.crop``."""
    _window_size(call)
    return native(call)  # type: ignore[no-any-return]


def crop_mirror_normalize(call: DaliCall) -> DataNode:
    """``fn.crop_mirror_normalize``: its result is ``CHW`` and float32 unless it is told otherwise."""
    _window_size(call)
    layout = call.take("output_layout", "CHW")
    call.args["output_layout"] = str(layout).replace("N", "").replace("F", "") or None
    return native(call)  # type: ignore[no-any-return]


def resize_crop_mirror(call: DaliCall) -> Any:
    """``fn.resize_crop_mirror``."""
    _window_size(call)
    return resize(call)


def erase(call: DaliCall) -> DataNode:
    """``fn.erase``: rectangles by rows and columns."""
    axes, names = call.take("axes", (0, 1)), call.take("axis_names", "HW")
    corner, size = call.args.get("anchor"), call.args.get("shape")
    if isinstance(corner, (list, tuple)) and isinstance(size, (list, tuple)) and len(corner) > 2:
        # further regions, each two numbers of the one and two of the other
        pairs = zip(range(0, len(corner), 2), range(0, len(size), 2), strict=True)
        first, *rest = [(*corner[a : a + 2], *size[b : b + 2]) for a, b in pairs]
        call.args |= {
            "anchor": first[:2],
            "shape": first[2:],
            "more": [one for region in rest for one in region],
        }
    if names not in ("HW",) or tuple(axes) not in ((0, 1),):
        raise call.wrong(f"axis_names={names!r}, axes={tuple(axes)}", allowed="'HW' and (0, 1)")
    return native(call)  # type: ignore[no-any-return]


def of_type(argument: str = "dtype") -> Callable[[DaliCall], DataNode]:
    """An operator on pictures of our own, with its arguments as DALI has them."""

    def build(call: DaliCall) -> DataNode:
        call.args.pop("image_type", None)
        if call.args.get(argument) is None:
            call.args.pop(argument, None)
        return native(call)  # type: ignore[no-any-return]

    return build


# ---------------------------------------------------------------------- decoders


def _decoded(
    call: DaliCall, function: Callable[[Array, str, Run, int], Array], layout: str, told: str
) -> DataNode:
    """Something of the bytes of each sample, on threads."""
    count = current().num_threads or len(os.sched_getaffinity(0))
    workers = Workers(count, "seqpipe-decode")

    def compute(values: list[Value], run: Run) -> Value:
        value = values[0].on_host()
        sources = value.sources or ("",) * len(value)

        def one(number: int) -> Array:
            with noted(f"sample {number} of the batch, {sources[number] or 'bytes without a name'}"):
                return function(value[number], sources[number], run, number)

        futures = [workers.submit(partial(one, number)) for number in range(len(value))]
        return Value.of([future.result() for future in futures], layout, value.sources)

    made = DataNode(call.name or call.row.name, [call.input().cpu()], compute, told=told)
    return made.gpu() if call.device == "gpu" else made


def _image_options(call: DaliCall) -> tuple[Any, bool, str]:
    output = call.take("output_type")
    color = "RGB" if output is None else "any" if output.name == "ANY_DATA" else output.name
    oriented, kind = bool(call.take("adjust_orientation", True)), dtype_name(call.take("dtype", "uint8"))
    return color, oriented, kind


def decode_images(call: DaliCall) -> DataNode:
    """``fn.decoders.image``: uint8 ``HWC``; floats are from 0 to 1."""
    color, oriented, kind = _image_options(call)
    call.done()

    def one(data: Array, source: str, _: Run, __: int) -> Array:
        return _scaled(decode_image(data, color, orient=oriented, source=source), kind)

    return _decoded(call, one, "HWC", f"{color} {oriented} {kind}")


def _scaled(image: Array, kind: str) -> Array:
    """Levels of another type: whole numbers by their range, floats from 0 to 1."""
    if image.dtype.name == kind:
        return image
    if np.dtype(kind).kind == "f":
        return (image / np.iinfo(image.dtype).max).astype(kind)
    return cast_array(image * (np.iinfo(kind).max / np.iinfo(image.dtype).max), kind)


def decode_random_crop(call: DaliCall) -> DataNode:
    """``fn.decoders.image_random_crop``: a random window of each image, of random area and shape."""
    color, oriented, kind = _image_options(call)
    area, ratio = call.take("random_area", (0.08, 1.0)), call.take("random_aspect_ratio", (3 / 4, 4 / 3))
    attempts = int(call.take("num_attempts", 10))
    seed = call.drawing_seed
    call.done()
    op: Any = REGISTRY["random.uniform"](range=(0.0, 1.0), seed=seed, per_frame=True)

    def one(data: Array, source: str, run: Run, number: int) -> Array:
        image = decode_image(data, color, orient=oriented, source=source)
        drawn = op.drawn(epoch=run.epoch, index=int(run.index[number]), frames=4 * attempts)
        top, left, rows, columns = _random_window(
            image.shape[0], image.shape[1], area, ratio, drawn.reshape(-1, 4)
        )
        return _scaled(np.ascontiguousarray(image[top : top + rows, left : left + columns]), kind)

    return _decoded(call, one, "HWC", f"{color} {oriented} {kind} {area} {ratio} {attempts} {seed}")


def _random_window(height: int, width: int, area: Any, ratio: Any, drawn: Any) -> tuple[int, int, int, int]:
    """Top, left, rows and columns: drawn until the window fits; after that the largest of an allowed shape."""
    low, high = (math.log(one) for one in ratio)
    for first, second, third, fourth in drawn.tolist():
        pixels = (area[0] + (area[1] - area[0]) * first) * height * width
        shape = math.exp(low + (high - low) * second)
        columns, rows = round(math.sqrt(pixels * shape)), round(math.sqrt(pixels / shape))
        if 0 < columns <= width and 0 < rows <= height:
            return round(third * (height - rows)), round(fourth * (width - columns)), rows, columns
    shape = min(max(width / height, ratio[0]), ratio[1])
    columns, rows = min(width, round(height * shape)), min(height, round(width / shape))
    return (height - rows) // 2, (width - columns) // 2, rows, columns


def decode_crop(call: DaliCall) -> DataNode:
    """``fn.decoders.image_crop``: an image is decoded whole, and then cropped."""
    names = ("crop", "crop_h", "crop_w", "crop_pos_x", "crop_pos_y")
    options = {name: call.args.pop(name) for name in names if name in call.args}
    return crop(DaliCall(Row("crop"), [decode_images(call)], options, call.device))


def decode_slice(call: DaliCall) -> DataNode:
    """``fn.decoders.image_slice``: an image is decoded whole, and then sliced."""
    from .arrays import slice_

    names = (
        *("start", "end", "shape", "rel_start", "rel_end", "rel_shape", "axes", "axis_names"),
        *("normalized_anchor", "normalized_shape"),
    )
    options = {name: call.args.pop(name) for name in names if name in call.args}
    first, *more = call.inputs
    call.inputs = [first]
    return slice_(DaliCall(Row("slice"), [decode_images(call), *more], options, call.device))


def peek_shape(call: DaliCall) -> DataNode:
    """``fn.peek_image_shape``: the image is decoded for it."""
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
    """``fn.decoders.video``: the bytes of a video file to its frames, ``FHWC``."""
    start, end, stride = call.take("start_frame"), call.take("end_frame"), int(call.take("stride", 1))
    length, numbers = call.take("sequence_length"), call.take("frames")
    if call.take("pad_mode", "none") != "none":
        raise call.wrong(
            "pad_mode", advice="Sequences of one length are made by seqpipe.readers.Video(pad_mode=…)"
        )
    call.done()

    def one(data: Array, source: str, _: Run, __: int) -> Array:
        from ..video.reader import VideoReader

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


# ---------------------------------------------------------------------- functions of the user


def python_function(call: DaliCall) -> Any:
    """``fn.python_function``: a function of the arrays of each sample, or of lists with those of all samples."""
    function, count = call.take("function"), int(call.take("num_outputs", 1))
    whole, layouts = bool(call.take("batch_processing", False)), call.take("output_layouts")
    if not callable(function):
        raise call.wrong(f"function={function!r} is not valid", allowed="a callable")
    call.done()
    each = [layouts] * max(count, 1) if layouts is None or isinstance(layouts, str) else list(layouts)

    def given(found: Any, what: str) -> tuple[Any, ...]:
        if count == 1 and not isinstance(found, tuple):
            return (found,)
        if not isinstance(found, (tuple, list)) or len(found) != count:
            got = f"{len(found)} values" if isinstance(found, (tuple, list)) else f"a {type(found).__name__}"
            raise ParameterError(
                f"{what} gave {got}", source="fn.python_function", allowed=f"{count} (num_outputs)"
            )
        return tuple(found)

    def compute(values: list[Value], run: Run) -> Any:
        name = getattr(function, "__name__", "the function")
        if whole:
            columns = given(function(*(list(value.data) for value in values)), name)
            parts = [list(column) for column in columns]
        else:
            rows = [
                given(function(*row), name)
                for row in (zip(*values, strict=True) if values else [()] * len(run.index))
            ]
            parts = [list(column) for column in zip(*rows, strict=True)]
        made = tuple(
            Value.of([one if hasattr(one, "dtype") else np.asarray(one) for one in column], each[n] or "")
            for n, column in enumerate(parts)
        )
        return made if count != 1 else made[0]

    node = call.node(compute, told=getattr(function, "__qualname__", repr(type(function))))
    return node if count == 1 else outputs_of(node, count)


def torch_function(call: DaliCall) -> Any:
    """``fn.torch_python_function``: the same with tensors of torch."""
    from ..array import to_torch

    function, whole = call.args.get("function"), bool(call.args.get("batch_processing", True))
    if not callable(function):
        raise call.wrong(f"function={function!r} is not valid", allowed="a callable")

    def back(found: Any) -> Any:
        if isinstance(found, (list, tuple)):
            return type(found)(back(one) for one in found)
        return to_numpy(found)

    def converted(*given: Any) -> Any:
        tensors = [
            [to_torch(one) for one in part] if isinstance(part, list) else to_torch(part) for part in given
        ]
        return back(function(*tensors))

    call.args |= {"function": converted, "batch_processing": whole}
    return python_function(call)


# ---------------------------------------------------------------------- random numbers


def random_numbers(name: str, kind: str) -> Callable[[DaliCall], DataNode]:
    """``fn.random.*``: one number for each sample, or an array of a shape, of a type."""

    def build(call: DaliCall) -> DataNode:
        shape, made = call.take("shape"), dtype_name(call.take("dtype", kind))
        wide = None if shape is None else tuple(np.atleast_1d(shape).astype(int).tolist())
        like = bool(call.inputs)
        settings, target, scale = _random_settings(call, name)
        op: Any = REGISTRY[target](seed=call.drawing_seed, per_frame=True, **settings)
        nodes = [node.cpu() for node in scale]
        call.done()

        def compute(values: list[Value], run: Run) -> Value:
            indices = [int(one) for one in np.asarray(run.index)]
            if like:
                pairs = zip(indices, values[0].shapes(), strict=True)
                parts = [op.drawn(epoch=run.epoch, index=n, frames=math.prod(s)).reshape(s) for n, s in pairs]
                found = Value.of(parts, values[0].layout)
            else:
                drawn = op.drawn(epoch=run.epoch, index=indices, frames=math.prod(wide or (1,)))
                found = Value(drawn.reshape(len(indices), *(wide or ())))
            if nodes:
                found = _stretched(found, name, values[1 if like else 0 :])
            return (
                found.each(lambda part: cast_array(part, made))
                if not found.dense
                else found.with_data(cast_array(found.data, made))
            )

        told = f"{settings} {op.seed} {wide} {made}"
        return call.node(compute, *nodes, told=told, inputs=call.inputs[:1])

    return build


def _random_settings(call: DaliCall, name: str) -> tuple[dict[str, Any], str, list[DataNode]]:
    """Arguments of our distribution, its name, and the nodes that what is drawn is stretched by."""
    args = {key: call.args.pop(key) for key in list(call.args) if key not in call.row.accept}
    args = {key: value for key, value in args.items() if value is not None}
    if name == "uniform":
        if (values := args.pop("values", None)) is not None:
            return {"of": tuple(float(one) for one in values)}, "random.choice", []
        limits = args.pop("range", (-1.0, 1.0))
        _none_left(call, args)
        if isinstance(limits, NativeNode):
            return {"range": (0.0, 1.0)}, "random.uniform", [limits]  # type: ignore[list-item]
        return {"range": tuple(float(one) for one in limits)}, "random.uniform", []
    if name == "normal":
        mean, spread = args.pop("mean", 0.0), args.pop("stddev", 1.0)
        _none_left(call, args)
        if isinstance(mean, NativeNode) or isinstance(spread, NativeNode):
            from .data_node import node_of

            return {"mean": 0.0, "stddev": 1.0}, "random.normal", [node_of(mean), node_of(spread)]
        return {"mean": float(mean), "stddev": float(spread)}, "random.normal", []
    if name == "coin_flip":
        chance = args.pop("probability", 0.5)
        _none_left(call, args)
        if isinstance(chance, NativeNode):
            return {"range": (0.0, 1.0)}, "random.uniform", [chance]  # type: ignore[list-item]
        return {"probability": float(chance)}, "random.coin_flip", []
    among, weights = args.pop("a"), args.pop("p", None)
    _none_left(call, args)
    choices = tuple(map(float, range(among) if isinstance(among, int) else among))
    return {"of": choices, "weights": None if weights is None else tuple(weights)}, "random.choice", []


def _none_left(call: DaliCall, args: dict[str, Any]) -> None:
    for name in args:
        raise call.wrong(f"there is no argument {name!r}")


def _stretched(found: Value, name: str, by: list[Value]) -> Value:
    rows = [one.on_host().stacked().reshape(len(found), -1) for one in by]

    def one(number: int) -> Any:
        drawn, at = found[number], [row[number] for row in rows]
        if name == "uniform":
            return at[0][0] + (at[0][1] - at[0][0]) * drawn
        return at[0][0] + at[1][0] * drawn if name == "normal" else (drawn < at[0][0]).astype(np.float64)

    return Value.of([np.asarray(one(number)) for number in range(len(found))], found.layout)


def random_choice(call: DaliCall) -> DataNode:
    """``fn.random.choice``: of whole numbers int32, otherwise float32."""
    if call.inputs:
        call.args["a"] = 0
        raise call.wrong("the elements are a node", allowed="a number, or a list of numbers")
    among = call.args.get("a")
    if among is None:
        raise call.wrong("the elements are missing", allowed="a=5 or a=[1.5, 2.5]")
    whole = np.asarray(among).dtype.kind in "iu"
    return random_numbers("choice", "int32" if whole else "float32")(call)


def coord_flip(call: DaliCall) -> DataNode:
    """``fn.coord_flip``: coordinates ``(…, 2)`` of pictures from 0 to 1 mirrored around centers."""
    layout = call.take("layout", "xy")
    flips = [
        (axis, call.take(f"flip_{axis}", int(axis == "x")), float(call.take(f"center_{axis}", 0.5)))
        for axis in layout
    ]
    call.args.pop("flip_z", None)
    call.args.pop("center_z", None)
    call.done()
    nodes = [one.cpu() for _, one, _ in flips if isinstance(one, DataNode)]

    def compute(values: list[Value], _: Run) -> Value:
        parts = []
        for n, part in enumerate(values[0]):
            found, more = part.copy(), iter(values[1:])
            for column, (_, flip, center) in enumerate(flips):
                acts = bool(next(more)[n].reshape(-1)[0]) if isinstance(flip, DataNode) else bool(flip)
                if acts:
                    found[..., column] = 2 * center - part[..., column]
            parts.append(found)
        return Value.of(parts, values[0].layout)

    return call.node(
        compute, *nodes, told=str([(a, b if not isinstance(b, DataNode) else "node", c) for a, b, c in flips])
    )


def optical_flow(call: DaliCall) -> DataNode:
    """``fn.optical_flow``: on a GPU by its engine, on a CPU by OpenCV; float32 ``FHWC``, x and then y, in pixels."""
    preset, kind = float(call.take("preset", 0.0)), call.take("image_type")
    if call.take("enable_external_hints", False) or len(call.inputs) > 1:
        raise call.wrong("enable_external_hints", advice="seqpipe.fn.optical_flow takes hints")
    names = ("slow", "medium", "fast")
    op: Any = REGISTRY["optical_flow"](
        preset=names[min(2, int(preset * 2))],
        output_grid=int(call.take("output_grid", call.take("out_grid_size", 4))),
        temporal_hints=bool(call.take("enable_temporal_hints", False)),
        image_type="RGB" if kind is None else plain("image_type", kind),
    )
    call.args.pop("hint_grid", None)
    call.args.pop("out_grid_size", None)
    call.done()

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0]
        if value.dense:
            return value.with_data(op(value.data, layout="NFHWC"), "FHWC")
        return Value.of(op(list(value.data), layout="FHWC"), "FHWC", value.sources)

    return call.node(compute, told=f"{op.changed()}")
