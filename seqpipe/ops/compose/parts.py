"""Operators and chains applied to samples of several parts, which share their sampled parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import DEFAULT_LAYOUTS, Array, FloatArray, device_of, namespace, to_numpy
from ...core.kernel import KernelDevice
from ...errors import ParameterError
from ...parts import (
    Boxes,
    Flow,
    Image,
    Labels,
    Metadata,
    Part,
    Points,
    Sample,
    as_part,
    unmarked_labels,
)
from ...sequence import Batch, Sequence
from ..call.inputs import (
    CallInput,
    affine_of,
    as_array,
    check_marked,
    error_source,
    history_entry,
    images_of,
    is_sample,
    layout_of,
    like_container,
    like_library,
    zeros_like,
)
from ..call.op import BoundCall, apply, handles_samples, is_pending
from ..core.blocks import Block
from ..core.declaration import Declaration
from ..core.deferred import Deferrable, or_node
from ..core.nodes import DataNode, parts_of
from ..core.sampling import indices_of
from ..core.spec import MOVED_DTYPES, Backend, CallOptions, Spec, cast_coordinates, view_of
from ..core.types import Type
from ..geometry.base import Canvas, Geometry
from ..geometry.mapping import Mapping as Map
from ..geometry.warped import voted
from ..motion.moved import moved_flow
from ..volume.state import VoxelGrid, check_position
from .fused import Composed

__all__ = ["DeferredSampleCall", "apply_to_sample"]

_MOVES: Final[dict[type[Part], tuple[str, int, Callable[[Map, Any], Any]]]] = {
    Boxes: ("boxes", 4, Map.boxes),
    Points: ("points", 2, Map.points),
}


class DeferredSampleCall(Deferrable):
    """Call of an operator or a chain with a sample whose parts, or whose parameters, are nodes.

    Args:
        target: the operator or chain.
        parts: parts by name; the call takes their data, in their order.
    """

    def __init__(self, target: Any, parts: Mapping[str, Any]) -> None:
        self.target, self.parts = target, dict(parts)

    @property
    def operators(self) -> tuple[Any, ...]:
        """See :attr:`Deferrable.operators`."""
        result: tuple[Any, ...] = self.target.operators
        return result

    @property
    def title(self) -> str:
        """See :attr:`Deferrable.title`."""
        return str(self.target.title)

    def rebuilt(self, operators: Seq[Any]) -> DeferredSampleCall:
        """Return the same call with other operators."""
        return DeferredSampleCall(self.target.rebuilt(operators), self.parts)

    def results(self, node: DataNode) -> dict[str, Any]:
        """Return a node for each part."""
        return self._sample(parts_of(node, self.parts))

    def result_types(self, inputs: Seq[Type]) -> tuple[Type, ...]:  # noqa: ARG002  parts have unknown types
        """See :meth:`Deferrable.result_types`; one for each part."""
        return (Type(),) * len(self.parts)

    def _sample(self, values: Seq[Any]) -> dict[str, Any]:
        pairs = zip(self.parts.items(), values, strict=True)
        return {name: part.with_data(v) if isinstance(part, Part) else v for (name, part), v in pairs}

    @or_node
    def __call__(
        self,
        *values: Any,
        layout: str | None = None,
        epoch: int = 0,
        index: Any = None,
        backend: Backend | None = None,
        device: KernelDevice | None = None,
    ) -> tuple[Any, ...]:
        """Return the data of the parts after the operators, in their order."""
        options: dict[str, Any] = {"layout": layout, "epoch": epoch, "index": index}
        result = apply_to_sample(self.target, self._sample(values), backend=backend, device=device, **options)
        return tuple(part.data if isinstance(part, Part) else part for part in result.values())


@handles_samples
def apply_to_sample(
    target: Any,
    sample: Any,
    *,
    layout: str | None = None,
    epoch: int = 0,
    index: Any = None,
    backend: Backend | None = None,
    device: KernelDevice | None = None,
) -> Any:
    """Apply an operator or a chain to a sample, or to a batch of samples in parts.

    All images get the same sampled parameters. Labels follow the pixels, by a vote of neighboring pixels or by the
    nearest pixel, as the part states; boxes, points and flow follow them, too. Operators that move nothing change
    images only.

    Args:
        target: the operator or chain.
        sample: parts by name; a bare array or sequence is an image, if it is not marked as labels; or a list of such
            samples. Or labels alone: a sequence, a batch, or a list of sequences that is marked so.
        layout: layout of arrays of images.
        epoch: epoch that parameters are sampled for.
        index: indices of the samples, or the index of the first.
        backend: implementation for images.
        device: device that kernels run on.

    Returns:
        A :class:`seqpipe.parts.Sample` with the names, kinds and types of the input; a dictionary of nodes, if a part
        or a parameter is one.
    """
    steps = target.composed_ops() if hasattr(target, "composed_ops") else (target,)
    on_volumes = getattr(steps[0], "run_volumes", None) if len(steps) == 1 else None
    options = CallOptions(layout=layout, epoch=epoch, index=index, backend=backend, device=device)
    if not isinstance(sample, Mapping):
        if on_volumes is not None:
            return on_volumes(sample, options)
        own = {"layout": layout, "epoch": epoch, "backend": backend, "device": device}
        if not is_sample(sample):
            return _labels_alone(target, sample, index, own)
        numbers = indices_of(target.operators[0], index, len(sample))
        pairs = zip(sample, numbers, strict=True)
        return like_container(
            sample, [apply_to_sample(target, element, index=n, **own) for element, n in pairs]
        )
    if is_pending(target, sample):
        values = [part.data if isinstance(part, Part) else part for part in sample.values()]
        given = {k: v for k, v in vars(options).items() if v is not None and (k, v) != ("epoch", 0)}
        return DeferredSampleCall(target, sample)(*values, **given)
    if on_volumes is not None:
        return on_volumes(sample, options)
    parts = {name: as_part(value) for name, value in sample.items()}
    _check_has_image(parts, target.title)
    unmarked = unmarked_labels(sample)
    result = sample if isinstance(sample, Sample) else Sample({})
    for step in steps:
        op = (
            step.operator(_reference(parts).data, options.layout, epoch, index)
            if isinstance(step, Composed)
            else step
        )
        if unmarked:
            check_marked(op, unmarked)
        if isinstance(op, Declaration):
            call = _SampleCall.of(op, parts, options)
            result = result.with_parts({}, partial(_entries, op, call.call.specs, call.call.block, options))
            parts, layout = call.results()
        else:
            moved, layout = _run_member(op, parts, options)
            parts, result = dict(moved), result.with_parts({}, *moved.history)
        options = replace(options, layout=layout)
    bare = {name for name, value in sample.items() if not isinstance(value, Part)}
    return result.with_parts({name: part.data if name in bare else part for name, part in parts.items()})


def _labels_alone(target: Any, x: Any, index: Any, options: dict[str, Any]) -> Any:
    """Apply an operator or a chain to a sequence, a batch or a list of sequences that is marked as labels."""
    is_batch = isinstance(x, Batch)
    if isinstance(x, Sequence) or (is_batch and x.stacked is not None):
        sample = {"image": zeros_like(x), "labels": x}  # parameters are sampled for an image
        return apply_to_sample(target, sample, index=index, **options)["labels"]
    numbers = indices_of(target.operators[0], x.indices if is_batch and index is None else index, len(x))
    moved = [_labels_alone(target, element, n, options) for element, n in zip(x, numbers, strict=True)]
    return Batch.of(moved, labels=x.labels, indices=x.indices) if is_batch else like_container(x, moved)


def _check_has_image(parts: Mapping[str, Part], source: str) -> None:
    """Check that a sample has an image."""
    if not any(isinstance(part, Image) for part in parts.values()):
        kinds = ", ".join(f"{name} ({type(part).__name__})" for name, part in parts.items())
        raise ParameterError(
            f"a sample of {kinds or 'no parts'}",
            source=source,
            allowed="one image at least, whose shape the sampled parameters depend on",
        )


def _run_member(step: Any, parts: Mapping[str, Part], options: CallOptions) -> tuple[Sample, str | None]:
    """Apply a choice or a nested chain to the parts; return them, and the layout of arrays of images."""
    layout = options.layout
    output = step.run(parts, options) if hasattr(step, "run") else step(parts, **vars(options))
    moved = output if isinstance(output, Sample) else Sample(output)  # a part None returns its input
    before = layout_of(parts, layout)
    changes = before is not None and hasattr(step, "result_layout")
    if not changes or isinstance(_reference(moved).data, (Sequence, Batch)):
        return moved, layout
    after = step.result_layout(before)
    # without a change the next member chooses its own default: DHWC for volumes, FHWC for images
    return moved, layout if after == before else after


def _reference(parts: Mapping[str, Part]) -> Part:
    """Return the first image."""
    return next(part for part in parts.values() if isinstance(part, Image))


def _json_values(value: Any) -> Any:
    """Return values as JSON types; NaN, which means that an optional parameter is not set, becomes None."""
    if isinstance(value, dict):
        return {name: _json_values(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_json_values(entry) for entry in value]
    return None if value != value else value


def _entries(op: Declaration, specs: Seq[Spec], block: Block, options: CallOptions) -> list[dict[str, Any]]:
    """Return the history entry of an operator for one sample; none for several, which have different parameters.

    Parameters that are sampled for each frame are lists of values.
    """
    if len(specs) != 1:
        return []
    rows = block.of(0, specs[0].frames)
    several = {name: rows[name].tolist() for name in rows.dtype.names or ()}
    drawn = {name: values[0] if len(rows) == 1 else values for name, values in several.items()}
    index = 0 if options.index is None else int(np.ravel(options.index)[0])
    return [history_entry(op, options.epoch, index, _json_values(drawn))]


class _SampleCall(NamedTuple):
    """A call of one operator with a sample.

    Attributes:
        op: the operator.
        parts: parts by name.
        options: options of the call; the layout is that of arrays of images.
        images: names of the images that the operator changes.
        call: the operator bound to the first of them; its parameters apply to all parts.
    """

    op: Any
    parts: Mapping[str, Part]
    options: CallOptions
    images: tuple[str, ...]
    call: BoundCall

    @classmethod
    def of(cls, op: Any, parts: Mapping[str, Part], options: CallOptions) -> _SampleCall:
        """Bind an operator to a sample."""
        images = images_of(op, {name: part for name, part in parts.items() if isinstance(part, Image)})
        call = _bind(op, parts[images[0]].data, options)
        return cls(op, parts, options, images, call)

    @property
    def image(self) -> CallInput:
        """The first image."""
        return self.call.parts[0]

    @property
    def letters(self) -> str:
        """Layout of the first image."""
        value = self.image.value
        known = value.layout if isinstance(value, (Sequence, Batch)) else self.options.layout
        return known or DEFAULT_LAYOUTS[self.image.array.ndim]

    @property
    def moves(self) -> bool:
        """Whether the operator moves pixels or frames."""
        return isinstance(self.op, Geometry) or not self.op.traits.keeps_frames

    def results(self) -> tuple[dict[str, Part], str | None]:
        """Return the transformed parts, and the layout of arrays of images."""
        by_kind: dict[type[Part], Callable[[str, Any], Any]] = {
            Image: self._image,
            Labels: self._labels,
            Boxes: self._coordinates,
            Points: self._coordinates,
            Flow: self._flow,
            Metadata: lambda _, part: part.data,
        }
        sides, wanted = self.call.specs[0][:3], affine_of(self.image.value)
        for name, part in self.parts.items():
            if self.moves and isinstance(part, (Image, Labels)) and isinstance(part.data, Sequence):
                check_position(
                    self.op.name, name, VoxelGrid(sides, wanted), VoxelGrid(sides, part.data.affine)
                )
        result = dict(self.parts)
        for name in self.parts if self.op.image_names is None else self.images:
            part = self.parts[name]
            result[name] = part.with_data(by_kind[type(part)](name, part))
        after = self.op.result_layout(self.letters)
        return result, (self.options.layout if after == self.letters else after)

    # ------------------------------------------------------------------ images

    def _image(self, name: str, part: Image) -> Any:
        number = self.images.index(name)
        if not number:
            call = self.call
        else:
            call = _bind(self.op, part.data, self.options)
            shapes = [bound.parts[0].nfhwc.shape[:4] for bound in (call, self.call)]
            if self.moves and shapes[0] != shapes[1]:
                raise self._misfit(name, "images", part.array)
            call = _with_own_noise(call, number)
        if isinstance(part.data, Batch):
            return apply(self.op, part.data, **vars(self.options))
        return call.wrap_results(call.results(self.options.backend, self.options.device))[0]

    def _misfit(self, name: str, what: str, array: Any) -> ParameterError:
        image, dtype = self.image.array, np.dtype(array.dtype).name
        return ParameterError(
            f"{name}, {what} of {dtype} of shape {tuple(array.shape)} on {device_of(array)}",
            source=self.op.name,
            allowed=f"a shape that fits images of {tuple(image.shape)} and layout {self.letters} on {device_of(image)}",
        )

    # ------------------------------------------------------------------ labels

    def _labels(self, name: str, part: Labels) -> Any:
        value = part.data
        array = as_array(self.op, value.data if isinstance(value, (Sequence, Batch)) else value)
        own = value.layout if isinstance(value, (Sequence, Batch)) else self.letters
        channels = own.index("C") if array.ndim == len(own) - 1 and "C" in own else None
        full = array if channels is None else namespace(array).expand_dims(array, channels)
        if full.ndim != len(own):
            raise self._misfit(name, "labels", array)
        view = view_of(own, full.ndim)
        nfhwc = view(full)
        image, device = self.image.nfhwc, device_of(self.image.array)
        fits = nfhwc.shape[:4] == image.shape[:4] and array.dtype.name in MOVED_DTYPES
        if not fits or device_of(array) != device:
            raise self._misfit(name, "labels", array)
        moved = self._moved_labels(nfhwc, part)
        out = namespace(array).empty(view.shape(moved.shape), array.dtype)
        view(out)[...] = moved
        out = out if channels is None else out.squeeze(channels)
        if isinstance(value, Sequence):
            return self._sequence(value, out, 0)
        if isinstance(value, Batch):
            pairs = zip(value, out, strict=True)
            several = tuple(self._sequence(sequence, data, n) for n, (sequence, data) in enumerate(pairs))
            return replace(value, sequences=several, stacked=out)
        return like_library(value, out)

    def _moved_labels(self, nfhwc: Array, part: Labels) -> Array:
        op, call = self.op, self.call
        interpolates = (
            isinstance(op, Geometry) and op.traits.values == "computed" and not op.traits.whole_pixels
        )
        if part.interp == "nearest" or not interpolates or isinstance(op, Canvas):
            return op.moved_mask(nfhwc, call.specs, call.block)
        result = []
        for sample, x in enumerate(nfhwc):
            spec = call.specs[sample]
            maps = op.mappings(call.block.of(sample, spec.frames), spec).each()
            if len(maps) == 1:
                result.append(voted(x, maps[0]))
            else:
                frames = [voted(x[n : n + 1], mapping) for n, mapping in enumerate(maps)]
                result.append(namespace(x).concatenate(frames))
        return namespace(nfhwc).stack(result)

    def _sequence(self, source: Sequence, data: Array, sample: int) -> Sequence:
        """Return labels as a sequence with transformed metadata."""
        return replace(source, data=data, **self.call.metadata(source, sample))

    # ------------------------------------------------------------------ boxes, points and flow

    def _flow(self, name: str, part: Flow) -> Any:
        image, flow = self.image, part.data

        def moved(sample: int, value: Any) -> Any:
            array = as_array(self.op, value.data if isinstance(value, Sequence) else value)
            if device_of(array) != device_of(image.array):
                where = f"{device_of(array)} for images on {device_of(image.array)}"
                raise ParameterError(f"{name}, flow on {where}", source=self.op.name)
            spec = self.call.specs[sample]
            moved_array = moved_flow(self.op, array, self.call.block.of(sample, spec.frames), spec)
            return (
                replace(value, data=moved_array)
                if isinstance(value, Sequence)
                else like_library(value, moved_array)
            )

        if not image.view.batched:
            return moved(0, flow)
        self._check_samples(name, "flow", flow)
        result = [moved(sample, field) for sample, field in enumerate(flow)]
        if isinstance(flow, Batch):
            return Batch.of(result, labels=flow.labels, indices=flow.indices)
        if isinstance(flow, (list, tuple)):
            return like_container(flow, result)
        parts = [as_array(self.op, field) for field in result]
        return like_library(flow, namespace(parts[0]).stack(parts))

    def _check_samples(self, name: str, what: str, value: Any) -> None:
        if len(value) != self.image.samples:
            raise ParameterError(
                f"{name}, {what} for {len(value)} samples",
                source=self.op.name,
                allowed=f"{self.image.samples}",
            )

    def _coordinates(self, name: str, part: Boxes | Points) -> Any:
        value = part.data
        if not self.image.view.batched:
            return self._coordinates_of_sample(name, part, 0, value)
        self._check_samples(name, _MOVES[type(part)][0], value)
        moved = [
            self._coordinates_of_sample(name, part, n, coordinates) for n, coordinates in enumerate(value)
        ]
        if isinstance(value, (list, tuple)):
            return like_container(value, moved)
        return like_library(value, np.stack([to_numpy(coordinates) for coordinates in moved]))

    def _coordinates_of_sample(self, name: str, part: Boxes | Points, sample: int, value: Any) -> Any:
        what, numbers, move = _MOVES[type(part)]
        array, spec = as_array(self.op, value), self.call.specs[sample]
        if array.shape[-1] == 3 * numbers // 2 and spec.volume:
            return like_library(value, self._in_volume(name, part, array, sample))
        by_frame = array.ndim == 3
        fits = array.shape[-1] == numbers and array.ndim in (2, 3) and array.dtype.kind in "iuf"
        if device_of(array) != "cpu" or not fits or (by_frame and array.shape[0] != spec.frames):
            raise ParameterError(
                f"{name}, {what} of {array.dtype} of shape {array.shape} on {device_of(array)}",
                source=self.op.name,
                allowed=f"numbers (K, {numbers}) or ({spec.frames}, K, {numbers}) in main memory for each sample",
            )
        rows = self.call.block.of(sample, spec.frames)
        if not isinstance(self.op, Geometry):
            moves = by_frame and not self.op.traits.keeps_frames
            return like_library(value, array[self.op.frame_order(rows, spec)] if moves else array.copy())
        mappings = self.op.mappings(rows, spec).each()
        if len(mappings) > 1 and not by_frame:
            raise ParameterError(
                f"each frame is moved independently, but {name}, {what}, have the shape {array.shape}",
                source=self.op.name,
                allowed=f"({spec.frames}, K, {numbers})",
            )
        with error_source(self.op):
            frames = [move(mappings[0], array)] if len(mappings) == 1 else list(map(move, mappings, array))
        moved = frames[0] if len(mappings) == 1 else np.stack(frames)
        return like_library(value, cast_coordinates(moved, array.dtype))

    def _in_volume(self, name: str, part: Boxes | Points, array: Array, sample: int) -> Array:
        """Return coordinates ``(K, 3)`` or ``(K, 6)`` in a volume, moved within their slices."""
        if isinstance(part, Points) and part.unit == "mm":
            if affine_of(self.image.value, sample) is None:
                raise ParameterError(
                    f"{name} in mm, for a volume whose affine is not known",
                    source=self.op.name,
                    allowed="images that are sequences with an affine, or unit='voxel'",
                )
            return array.copy()  # world coordinates do not move: the affine of the result accounts for it
        spec = self.call.specs[sample]
        rows = self.call.block.of(sample, spec.frames)
        values = to_numpy(array).astype(np.float64)
        if not self.op.traits.keeps_frames:
            first, step = self._slice_order(name, rows, spec)
            values[:, ::3] = (values[:, ::3] - first) / step
        elif isinstance(self.op, Geometry):
            mappings = self.op.mappings(rows, spec).each()
            if len(mappings) > 1:
                raise ParameterError(
                    f"each slice is moved independently, but {name} has coordinates in the volume",
                    source=self.op.name,
                )
            with error_source(self.op):
                values = _moved_in_plane(mappings[0], values)
        if isinstance(part, Boxes):
            values = np.concatenate(
                [np.minimum(values[:, :3], values[:, 3:]), np.maximum(values[:, :3], values[:, 3:])], axis=1
            )
        return cast_coordinates(values, array.dtype)

    def _slice_order(self, name: str, rows: npt.NDArray[Any], spec: Spec) -> tuple[int, int]:
        """Return the first slice of the input that the result shows, and the step to the next."""
        order = np.asarray(self.op.frame_order(rows, spec))
        steps = order[1:] - order[:-1]
        if not steps.size or steps[0] == 0 or (steps != steps[0]).any():
            raise ParameterError(
                f"{name} in a volume whose slices become {order.tolist()}, which are not evenly spaced",
                source=self.op.name,
                advice="Rearrange the slices before, or leave out this part",
            )
        return order[0], steps[0]


def _bind(op: Any, data: Any, options: CallOptions) -> BoundCall:
    """Bind an operator to an image."""
    if isinstance(data, (list, tuple)):
        allowed = "an array, a Sequence, or a Batch of one shape"
        raise op.refusal("a list of images", allowed=allowed)
    index = data.indices if isinstance(data, Batch) and options.index is None else options.index
    return BoundCall.of(op, (data,), options.layout, options.epoch, index)


def _with_own_noise(call: BoundCall, number: int) -> BoundCall:
    """Return the call with independent noise for another image of a sample, and all other parameters unchanged."""
    rows = call.block.rows
    if "key" not in (rows.dtype.names or ()):
        return call
    rows = rows.copy()
    rows["key"][:, 0] ^= number * 0x3C6EF372
    return call._replace(block=call.block._replace(rows=rows))


def _moved_in_plane(mapping: Map, values: FloatArray) -> FloatArray:
    """Move points (slice, row, column), or boxes of two corners, within slices."""
    if values.shape[1] == 3:
        moved = mapping.points(values[:, :0:-1] + 0.5) - 0.5
        return np.concatenate([values[:, :1], moved[:, ::-1]], axis=1)
    flat = mapping.boxes(values[:, [2, 1, 5, 4]] + 0.5) - 0.5
    return np.stack([values[:, 0], flat[:, 1], flat[:, 0], values[:, 3], flat[:, 3], flat[:, 2]], axis=1)
