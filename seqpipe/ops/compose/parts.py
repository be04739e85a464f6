"""One draw for all parts of a sample, by an operator or a chain: images, labels, boxes, points and flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from ...array import Array, FloatArray, device_of, namespace, to_numpy
from ...errors import ParameterError
from ...kernel import KernelDevice
from ...parts import Boxes, Flow, Image, Labels, Metadata, Part, Points, Sample, as_part
from ...sequence import Batch, Sequence
from ..call.dispatch import BoundCall, apply, moving_samples
from ..call.inputs import Given, admitted, gathered, like, naming
from ..core.blocks import Block
from ..core.call_options import CallOptions
from ..core.declaration import Declaration
from ..core.deferred import Maker, or_node
from ..core.nodes import DataNode, parts_of
from ..core.rounding import placed
from ..core.spec import MOVED, Backend, Spec
from ..core.views import DEFAULT_LAYOUTS, view_of
from ..geometry.base import Geometry
from ..geometry.canvas import Canvas
from ..geometry.mapping import Mapping as Map
from ..geometry.vote import voted
from ..motion.moved import moved_flow
from .samples import layout_of

__all__ = ["Sampled", "moved_sample"]

_SAME_GRID: Final = 0.01  # voxels that corners may be apart
_MOVES: Final[dict[type[Part], tuple[str, int, Callable[[Map, Any], Any]]]] = {
    Boxes: ("boxes", 4, Map.boxes),
    Points: ("points", 2, Map.points),
}


class Sampled(Maker):
    """An operator or a chain that is called with a sample of which parts, or parameters, are nodes.

    Args:
        maker: the operator, or the chain.
        parts: by their names; what they hold is what this is called with, in their order.
    """

    def __init__(self, maker: Any, parts: Mapping[str, Any]) -> None:
        self.maker, self.parts = maker, dict(parts)

    @property
    def makers(self) -> tuple[Any, ...]:
        """The operators, of which parameters may be nodes."""
        found: tuple[Any, ...] = self.maker.makers
        return found

    @property
    def title(self) -> str:
        """Their names."""
        return str(self.maker.title)

    def rebuilt(self, makers: Seq[Any]) -> Sampled:
        """The same with other operators."""
        return Sampled(self.maker.rebuilt(makers), self.parts)

    def results(self, node: DataNode) -> dict[str, Any]:
        """A node for each part."""
        return self._sample(parts_of(node, self.parts))

    def _sample(self, values: Seq[Any]) -> dict[str, Any]:
        pairs = zip(self.parts.items(), values, strict=True)
        return {name: one.with_data(v) if isinstance(one, Part) else v for (name, one), v in pairs}

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
        """What the parts hold, moved, in their order.

        Args:
            values: what they hold.
            layout: of arrays.
            epoch: the epoch that draws are for.
            index: the samples' indices.
            backend: who does it to the images.
            device: what kernels run on.
        """
        how: dict[str, Any] = {"layout": layout, "epoch": epoch, "index": index}
        found = moved_sample(self.maker, self._sample(values), backend=backend, device=device, **how)
        return tuple(one.data if isinstance(one, Part) else one for one in found.values())


@moving_samples
def moved_sample(
    maker: Any,
    sample: Mapping[str, Any],
    *,
    layout: str | None = None,
    epoch: int = 0,
    index: Any = None,
    backend: Backend | None = None,
    device: KernelDevice | None = None,
) -> Any:
    """A sample, or a batch of them in parts, moved by an operator or a chain.

    Images are what draws are for: each by the same. Labels are moved by the vote of the pixels around a place or to the
    nearest pixel, as they ask for; boxes, points and flow with their pixels. What moves nothing changes images alone.

    Args:
        maker: the operator, or the chain.
        sample: parts by name; a bare array or sequence is an image.
        layout: of arrays of images.
        epoch: the epoch that draws are for.
        index: the samples' indices, or that of the first.
        backend: who does it to the images.
        device: what kernels run on.

    Returns:
        A :class:`seqpipe.parts.Sample` with the names, the kinds and the types that were given; a dictionary of nodes,
        if a part or a parameter is one.

    Raises:
        ParameterError: there is no image, a part does not fit the images, or parts have different grids.
    """
    values = [one.data if isinstance(one, Part) else one for one in sample.values()]
    if maker.awaited or any(isinstance(one, DataNode) for one in values):
        given = {
            "layout": layout,
            "epoch": epoch or None,
            "index": index,
            "backend": backend,
            "device": device,
        }
        options = {name: value for name, value in given.items() if value is not None}
        return Sampled(maker, sample)(*values, **options)
    parts = {name: as_part(value) for name, value in sample.items()}
    first = next((one for one in parts.values() if isinstance(one, Image)), None)
    if first is None:
        kinds = ", ".join(f"{name} ({type(one).__name__})" for name, one in parts.items())
        raise ParameterError(
            f"a sample of {kinds or 'no parts'}",
            source=maker.title,
            allowed="one image at least, which draws are for",
        )
    where = _Where(epoch, index, {"backend": backend, "device": device})
    made = sample if isinstance(sample, Sample) else Sample({})
    for step in maker.passes() if hasattr(maker, "passes") else (maker,):
        if not hasattr(step, "operator") and not isinstance(step, Declaration):
            moved, layout = _by_itself(step, parts, layout, where)
            parts, made = dict(moved), made.with_parts({}, *moved.history)
            continue
        op = (
            step.operator(_reference(parts).data, layout, epoch, index) if hasattr(step, "operator") else step
        )
        taken = _Step.of(op, parts, layout, where)
        made = made.with_parts({}, partial(_entries, op, taken.call.specs, taken.call.block, where))
        parts, layout = taken.moved()
    bare = {name for name, value in sample.items() if not isinstance(value, Part)}
    found = {name: one.data if name in bare else one for name, one in parts.items()}
    return made.with_parts(found)


def _by_itself(
    step: Any, parts: Mapping[str, Part], layout: str | None, where: _Where
) -> tuple[Sample, str | None]:
    """Apply a choice or a chain to the parts; return them, and the layout of arrays of images then."""
    options = CallOptions(layout=layout, epoch=where.epoch, index=where.index, **where.how)
    done = step.done(parts, options) if hasattr(step, "done") else step(parts, **vars(options))
    moved = done if isinstance(done, Sample) else Sample(done)  # what nothing is done to comes back as it is
    before = layout_of(parts, layout)
    changes = before is not None and hasattr(step, "result_layout")
    if not changes or isinstance(_reference(moved).data, (Sequence, Batch)):
        return moved, layout
    return moved, step.result_layout(before)


def _reference(parts: Mapping[str, Part]) -> Part:
    """The first image."""
    return next(one for one in parts.values() if isinstance(one, Image))


def _known(value: Any) -> Any:
    """Values as JSON has them: NaN, which stands for a parameter that is not given, is None."""
    if isinstance(value, dict):
        return {name: _known(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_known(one) for one in value]
    return None if value != value else value


class _Where(NamedTuple):
    """Which draws are meant, and who does it to images."""

    epoch: int
    index: Any
    how: dict[str, Any]


def _entries(op: Declaration, specs: Seq[Spec], block: Block, where: _Where) -> list[dict[str, Any]]:
    """What the history says of an operator, for one sample; nothing of several, which have draws of their own.

    Parameters that are drawn for each frame are lists of their values.
    """
    if len(specs) != 1:
        return []
    rows = block.of(0, specs[0].frames)
    several = {name: rows[name].tolist() for name in rows.dtype.names or ()}
    drawn = {name: values[0] if len(rows) == 1 else values for name, values in several.items()}
    return [
        {
            "op": op.state(),
            "epoch": int(where.epoch),
            "index": 0 if where.index is None else int(np.ravel(where.index)[0]),
            "drawn": _known(drawn),
        }
    ]


class _Step(NamedTuple):
    """An operator that is about to move a sample.

    Attributes:
        op: the operator.
        parts: by name.
        layout: of arrays of images; None for the usual one.
        where: which draws are meant.
        call: the operator's call with the first image, whose parameters are those of all parts.
    """

    op: Any
    parts: Mapping[str, Part]
    layout: str | None
    where: _Where
    call: BoundCall

    @classmethod
    def of(cls, op: Any, parts: Mapping[str, Part], layout: str | None, where: _Where) -> _Step:
        """The step.

        Raises:
            ParameterError: the operator does not take the first image.
        """
        return cls(op, parts, layout, where, _call_of(op, _reference(parts).data, layout, where))

    @property
    def given(self) -> Given:
        """The first image."""
        return self.call.parts[0]

    @property
    def letters(self) -> str:
        """Its layout."""
        value = self.given.value
        known = value.layout if isinstance(value, (Sequence, Batch)) else self.layout
        return known or DEFAULT_LAYOUTS[self.given.array.ndim]

    @property
    def moves(self) -> bool:
        """Whether pixels or frames are moved."""
        return isinstance(self.op, Geometry) or not self.op.traits.keeps_frames

    def moved(self) -> tuple[dict[str, Part], str | None]:
        """The parts moved, and the layout of arrays of images then."""
        by_kind: dict[type[Part], Callable[[str, Any], Any]] = {
            Image: self._image,
            Labels: self._labels,
            Boxes: self._places,
            Points: self._places,
            Flow: self._flow,
            Metadata: lambda _, part: part.data,
        }
        for name, part in self.parts.items():
            if self.moves and isinstance(part, (Image, Labels)) and isinstance(part.data, Sequence):
                self._check_grid(name, part.data)
        found = {name: part.with_data(by_kind[type(part)](name, part)) for name, part in self.parts.items()}
        after = self.op.result_layout(self.letters)
        return found, (self.layout if after == self.letters else after)

    def _check_grid(self, name: str, data: Sequence) -> None:
        """See that a part lies where the first image does.

        Raises:
            ParameterError: it lies elsewhere; the message shows both.
        """
        own, wanted = data.affine, _affine_of(self.given.value)
        if own is None or wanted is None:
            return
        spec = self.call.specs[0]
        sides = np.array([spec.frames, spec.height, spec.width], np.float64)
        corners = np.array([[0, 0, 0], *np.diag(sides), sides]) - 0.5
        apart = _in(np.linalg.inv(wanted) @ own, corners) - corners
        if np.abs(apart).max() > _SAME_GRID:
            raise ParameterError(
                f"{name} has the affine {own.tolist()}, and the first image {wanted.tolist()}: "
                f"their corners are up to {np.abs(apart).max():.3g} voxels apart",
                source=self.op.name,
                allowed=f"one grid for all parts, to {_SAME_GRID} voxels",
                advice="seqpipe.volume.align(sample) resamples all parts onto the grid of the first image",
            )

    # ------------------------------------------------------------------ images

    def _image(self, name: str, part: Image) -> Any:
        if part is _reference(self.parts):
            call = self.call
        else:
            call = _call_of(self.op, part.data, self.layout, self.where)
            shapes = [one.parts[0].five.shape[:4] for one in (call, self.call)]
            if self.moves and shapes[0] != shapes[1]:
                raise self._misfit(name, "images", part.array)
            call = _told_apart(
                call, [one for one in self.parts.values() if isinstance(one, Image)].index(part)
            )
        if isinstance(part.data, Batch):
            index = part.data.indices if self.where.index is None else self.where.index
            how = {"layout": self.layout, "epoch": self.where.epoch, "index": index, **self.where.how}
            return apply(self.op, part.data, **how)
        return call.finished(call.results(**self.where.how))[0]

    def _misfit(self, name: str, what: str, array: Any) -> ParameterError:
        image, dtype = self.given.array, np.dtype(array.dtype).name
        return ParameterError(
            f"{name}, {what} of {dtype} of shape {tuple(array.shape)} on {device_of(array)}",
            source=self.op.name,
            allowed=f"what fits images of shape {tuple(image.shape)} and layout {self.letters} on {device_of(image)}",
        )

    # ------------------------------------------------------------------ labels

    def _labels(self, name: str, part: Labels) -> Any:
        value = part.data
        array = admitted(self.op, value.data if isinstance(value, (Sequence, Batch)) else value)
        own = value.layout if isinstance(value, (Sequence, Batch)) else self.letters
        channels = own.index("C") if array.ndim == len(own) - 1 and "C" in own else None
        full = array if channels is None else namespace(array).expand_dims(array, channels)
        if full.ndim != len(own):
            raise self._misfit(name, "labels", array)
        view = view_of(own, full.ndim)
        five = view(full)
        image, device = self.given.five, device_of(self.given.array)
        fits = five.shape[:4] == image.shape[:4] and array.dtype.name in MOVED
        if not fits or device_of(array) != device:
            raise self._misfit(name, "labels", array)
        moved = self._moved_labels(five, part)
        out = namespace(array).empty(view.shape(moved.shape), array.dtype)
        view(out)[...] = moved
        out = out if channels is None else out.squeeze(channels)
        if isinstance(value, Sequence):
            return self._sequence(value, out, 0)
        if isinstance(value, Batch):
            pairs = zip(value, out, strict=True)
            several = tuple(self._sequence(one, data, n) for n, (one, data) in enumerate(pairs))
            return replace(value, sequences=several, stacked=out)
        return like(value, out)

    def _moved_labels(self, five: Array, part: Labels) -> Array:
        op, call = self.op, self.call
        interpolates = (
            isinstance(op, Geometry) and op.traits.values == "computed" and not op.traits.whole_pixels
        )
        if part.interp == "nearest" or not interpolates or isinstance(op, Canvas):
            return op.moved_mask(five, call.specs, call.block)
        found = []
        for sample, x in enumerate(five):
            spec = call.specs[sample]
            maps = op.mappings(call.block.of(sample, spec.frames), spec).each()
            if len(maps) == 1:
                found.append(voted(x, maps[0]))
            else:
                frames = [voted(x[n : n + 1], one) for n, one in enumerate(maps)]
                found.append(namespace(x).concatenate(frames))
        return namespace(five).stack(found)

    def _sequence(self, given: Sequence, data: Array, sample: int) -> Sequence:
        """Labels with what their sequence knows, moved along."""
        spec = self.call.specs[sample]
        rows = self.call.block.of(sample, spec.frames)
        changed: dict[str, Any] = {"data": data}
        if given.affine is not None:
            changed["affine"] = self.op.moved_affine(rows, spec, given.affine)
        if not self.op.traits.keeps_frames and "D" not in given.layout:
            order = self.op.frame_order(rows, spec)
            clocks = {name: getattr(given, name) for name in ("frames", "timestamps")}
            changed |= {name: values[order] for name, values in clocks.items() if values is not None}
        return replace(given, **changed)

    # ------------------------------------------------------------------ boxes, points and flow

    def _flow(self, name: str, part: Flow) -> Any:
        given, flow = self.given, part.data

        def moved(sample: int, value: Any) -> Any:
            array = admitted(self.op, value.data if isinstance(value, Sequence) else value)
            if device_of(array) != device_of(given.array):
                where = f"{device_of(array)} for images on {device_of(given.array)}"
                raise ParameterError(f"{name}, flow on {where}", source=self.op.name)
            spec = self.call.specs[sample]
            made = moved_flow(self.op, array, self.call.block.of(sample, spec.frames), spec)
            return replace(value, data=made) if isinstance(value, Sequence) else like(value, made)

        if not given.view.batched:
            return moved(0, flow)
        self._check_samples(name, "flow", flow)
        made = [moved(sample, one) for sample, one in enumerate(flow)]
        if isinstance(flow, Batch):
            return Batch.of(made, labels=flow.labels, indices=flow.indices)
        if isinstance(flow, (list, tuple)):
            return gathered(flow, made)
        parts = [admitted(self.op, one) for one in made]
        return like(flow, namespace(parts[0]).stack(parts))

    def _check_samples(self, name: str, what: str, value: Any) -> None:
        if len(value) != self.given.samples:
            raise ParameterError(
                f"{name}, {what} for {len(value)} samples",
                source=self.op.name,
                allowed=f"{self.given.samples}",
            )

    def _places(self, name: str, part: Boxes | Points) -> Any:
        value = part.data
        if not self.given.view.batched:
            return self._of_sample(name, part, 0, value)
        self._check_samples(name, _MOVES[type(part)][0], value)
        moved = [self._of_sample(name, part, n, one) for n, one in enumerate(value)]
        if isinstance(value, (list, tuple)):
            return gathered(value, moved)
        return like(value, np.stack([to_numpy(one) for one in moved]))

    def _of_sample(self, name: str, part: Boxes | Points, sample: int, value: Any) -> Any:
        what, numbers, move = _MOVES[type(part)]
        array, spec = admitted(self.op, value), self.call.specs[sample]
        if array.shape[-1] == 3 * numbers // 2 and spec.volume:
            return like(value, self._in_space(name, part, array, sample))
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
            return like(value, array[self.op.frame_order(rows, spec)] if moves else array.copy())
        mappings = self.op.mappings(rows, spec).each()
        if len(mappings) > 1 and not by_frame:
            raise ParameterError(
                f"each frame is moved by itself, but {name}, {what}, have the shape {array.shape}",
                source=self.op.name,
                allowed=f"({spec.frames}, K, {numbers})",
            )
        with naming(self.op):
            found = [move(mappings[0], array)] if len(mappings) == 1 else list(map(move, mappings, array))
        moved = found[0] if len(mappings) == 1 else np.stack(found)
        return like(value, placed(moved, array.dtype))

    def _in_space(self, name: str, part: Boxes | Points, array: Array, sample: int) -> Array:
        """Places in a volume, ``(K, 3)`` or ``(K, 6)``, moved within their slices."""
        if isinstance(part, Points) and part.unit == "mm":
            if _affine_of(self.given.value, sample) is None:
                raise ParameterError(
                    f"{name} in mm, for a volume whose affine is not known",
                    source=self.op.name,
                    allowed="images that are sequences with an affine, or unit='voxel'",
                )
            return array.copy()  # the anatomy stays where it is: the affine of the result says so
        spec = self.call.specs[sample]
        rows = self.call.block.of(sample, spec.frames)
        values = to_numpy(array).astype(np.float64)
        if not self.op.traits.keeps_frames:
            order = np.asarray(self.op.frame_order(rows, spec))
            steps = order[1:] - order[:-1]
            if not steps.size or steps[0] == 0 or (steps != steps[0]).any():
                raise ParameterError(
                    f"{name} in a volume whose slices become {order.tolist()}, which are not evenly spaced",
                    source=self.op.name,
                    advice="Move the slices before, or give no places",
                )
            values[:, ::3] = (values[:, ::3] - order[0]) / steps[0]
        elif isinstance(self.op, Geometry):
            mappings = self.op.mappings(rows, spec).each()
            if len(mappings) > 1:
                raise ParameterError(
                    f"each slice is moved by itself, but {name} are places in the volume", source=self.op.name
                )
            with naming(self.op):
                values = _moved_in_plane(mappings[0], values)
        if isinstance(part, Boxes):
            values = np.concatenate(
                [np.minimum(values[:, :3], values[:, 3:]), np.maximum(values[:, :3], values[:, 3:])], axis=1
            )
        return placed(values, array.dtype)


def _call_of(op: Any, data: Any, layout: str | None, where: _Where) -> BoundCall:
    """An operator's call with an image.

    Raises:
        ParameterError: it is a list, or nothing that the operator takes.
    """
    if isinstance(data, (list, tuple)):
        allowed = "an array, a Sequence, or a Batch of one shape"
        raise ParameterError("a list of images", source=op.name, allowed=allowed)
    index = data.indices if isinstance(data, Batch) and where.index is None else where.index
    return BoundCall.of(op, (data,), layout, where.epoch, index)


def _told_apart(call: BoundCall, number: int) -> BoundCall:
    """The call with another image of a sample: noise is drawn anew for each, all else is the same."""
    rows = call.block.rows
    if "key" not in (rows.dtype.names or ()):
        return call
    rows = rows.copy()
    rows["key"][:, 0] ^= number * 0x3C6EF372
    return call._replace(block=call.block._replace(rows=rows))


def _affine_of(value: Any, sample: int = 0) -> FloatArray | None:
    """The affine of a sample of an image."""
    one = value[sample] if isinstance(value, Batch) else value
    return one.affine if isinstance(one, Sequence) else None


def _in(affine: FloatArray, places: FloatArray) -> FloatArray:
    """Places by an affine."""
    return np.asarray(places @ affine[:3, :3].T + affine[:3, 3], np.float64)


def _moved_in_plane(mapping: Map, values: FloatArray) -> FloatArray:
    """Places (slice, row, column), or boxes of two corners, moved within slices."""
    if values.shape[1] == 3:
        moved = mapping.points(values[:, :0:-1] + 0.5) - 0.5
        return np.concatenate([values[:, :1], moved[:, ::-1]], axis=1)
    flat = mapping.boxes(values[:, [2, 1, 5, 4]] + 0.5) - 0.5
    return np.stack([values[:, 0], flat[:, 1], flat[:, 0], values[:, 3], flat[:, 3], flat[:, 2]], axis=1)
