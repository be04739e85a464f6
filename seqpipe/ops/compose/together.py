"""Together: one draw for images and for what belongs to them: masks, boxes, points, flow."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from ...array import device_of, namespace, to_numpy
from ...errors import ParameterError
from ...kernel import KernelDevice
from ...sequence import Batch, Sequence
from ..call.backends import check_backend
from ..call.dispatch import Call, apply
from ..call.inputs import Given, admitted, gathered, like, naming
from ..core.declaration import Declaration
from ..core.deferred import Maker, or_node
from ..core.nodes import DataNode, parts_of
from ..core.rounding import placed
from ..core.spec import MOVED, Backend
from ..geometry.base import Geometry
from ..geometry.mapping import Mapping
from ..motion.moved import moved_flow

__all__ = ["Moved", "Together"]

_MOVES: Final[dict[str, tuple[int, Callable[[Mapping, Any], Any]]]] = {
    "boxes": (4, Mapping.boxes),
    "points": (2, Mapping.points),
}


class Moved(NamedTuple):
    """What :class:`Together` gives back; None for what was not given."""

    image: Any
    mask: Any = None
    boxes: Any = None
    points: Any = None
    flow: Any = None

    def __repr__(self) -> str:
        given = ((name, value) for name, value in zip(self._fields, self, strict=True) if value is not None)
        return f"Moved({', '.join(f'{name}={_shown(value)}' for name, value in given)})"


def _shown(value: Any) -> str:
    """A value in short: of an array its shape, type and place."""
    if isinstance(value, (list, tuple)):
        return f"{len(value)} × {_shown(value[0])}" if value else repr(value)
    if not hasattr(value, "__dlpack_device__") or isinstance(value, (Sequence, Batch)):
        return repr(value)
    return f"<{value.dtype} {tuple(value.shape)} on {device_of(value)}>"


class Together(Maker):
    """An operator on images and on what belongs to them, with the same parameters for all of it.

    Args:
        op: the operator. Unless it moves pixels or frames, masks, boxes, points and flow stay as they are.

    Raises:
        ParameterError: this is no operator.
    """

    def __init__(self, op: Declaration) -> None:
        if not isinstance(op, Declaration):
            raise ParameterError(
                f"{op!r} is no operator",
                source="Together",
                allowed="an operator, such as ops.Flip()",
                advice="Take the operators of a chain one after the other, each on what the one before it gave",
            )
        self.op = op

    def __repr__(self) -> str:
        return f"Together({self.op!r})"

    @property
    def makers(self) -> tuple[Declaration, ...]:
        """The operator, of which parameters may be nodes."""
        return (self.op,)

    @property
    def title(self) -> str:
        """Its name."""
        return self.op.name

    def rebuilt(self, makers: Seq[Declaration]) -> Together:
        """The same with another operator."""
        return Together(*makers)

    def results(self, node: DataNode) -> Moved:
        """A node for each value; those of what is not given come to None."""
        return Moved(*parts_of(node, Moved._fields))

    @or_node
    def __call__(
        self,
        image: Any,
        *,
        mask: Any = None,
        boxes: Any = None,
        points: Any = None,
        flow: Any = None,
        layout: str | None = None,
        epoch: int = 0,
        index: Any = None,
        backend: Backend | None = None,
        device: KernelDevice | None = None,
    ) -> Moved:
        """The results.

        Args:
            image: an array, a Sequence, or a Batch of one shape.
            mask: labels for each pixel, moved to the nearest pixel, 0 outside; with the axes of the images, or without
                that of the channels.
            boxes: left, top, right and bottom in pixels, ``(K, 4)``; ``(F, K, 4)`` for each frame, and one more axis
                at the front for a batch, or a list with an array for each sample. They are not cut off at the borders,
                but whole numbers are at the bounds of their type: 0, for those without a sign; and so is what
                WarpPerspective sends to infinity, see there.
            points: x and y in pixels, ``(K, 2)``, likewise. The center of the first pixel is at (0.5, 0.5).
            flow: forward flow between the frames, ``(F - stride, h, w, 2)`` on a grid of 1, 2, 4 or 8 pixels, an array
                or a Sequence; one more axis at the front for a batch, or a Batch, or a list with one for each sample.
                It is unknown (NaN) where the result shows what was outside.
            layout: of the images.
            epoch: the epoch that random parameters are drawn for.
            index: as for the operator.
            backend: who does it to the images; None for the kernel on a GPU and the fast form on the CPU.
            device: what the kernel runs on; None for the GPU that holds the images.

        Returns:
            What was given, moved; nodes, if one of it or of the operator's parameters is a node.

        Raises:
            ParameterError: a mask, boxes, points or flow do not fit the images; or flow is given to an operator that
                moves frames.
        """
        if isinstance(image, (list, tuple)):
            raise ParameterError(
                "a list of images",
                source=self.op.name,
                allowed="an array, a Sequence, or a Batch of one shape",
            )
        check_backend(backend, self.op.name)
        how: dict[str, Any] = {"backend": backend, "device": device}
        call, result = self._images(image, layout, epoch, index, how)
        (part,) = call.parts
        return Moved(
            result,
            None if mask is None else self._mask(call, part, mask),
            None if boxes is None else self._places(call, part, boxes, "boxes"),
            None if points is None else self._places(call, part, points, "points"),
            None if flow is None else self._flow(call, part, flow),
        )

    def _images(
        self, image: Any, layout: str | None, epoch: int, index: Any, how: dict[str, Any]
    ) -> tuple[Call, Any]:
        if isinstance(image, Batch):
            index = image.indices if index is None else index
            call = Call.of(self.op, (image.data,), image.layout, epoch, index)
            return call, apply(self.op, image, layout=layout, epoch=epoch, index=index, **how)
        call = Call.of(self.op, (image,), layout, epoch, index)
        return call, call.finished(call.results(**how))[0]

    def _mask(self, call: Call, part: Given, mask: Any) -> Any:
        array, channels = admitted(self.op, mask), part.channels_axis
        flat = channels is not None and array.ndim == part.array.ndim - 1
        labels = namespace(array).expand_dims(array, channels) if flat else array
        fits = labels.ndim == part.array.ndim and part.view(labels).shape[:4] == part.five.shape[:4]
        if not fits or array.dtype.name not in MOVED or device_of(array) != device_of(part.array):
            raise ParameterError(
                f"a mask of {array.dtype} of shape {array.shape} on {device_of(array)}",
                source=self.op.name,
                allowed=f"one that fits images of shape {part.array.shape} on {device_of(part.array)}",
            )
        moved = self.op.moved_mask(part.view(labels), call.specs, call.block)
        out = namespace(array).empty(part.view.shape(moved.shape), array.dtype)
        part.view(out)[...] = moved
        return like(mask, out.squeeze(channels) if flat else out)

    def _flow(self, call: Call, part: Given, flow: Any) -> Any:
        def moved(sample: int, value: Any) -> Any:
            array, spec = (
                admitted(self.op, value.data if isinstance(value, Sequence) else value),
                call.specs[sample],
            )
            if device_of(array) != device_of(part.array):
                raise ParameterError(
                    f"flow on {device_of(array)} for images on {device_of(part.array)}", source=self.op.name
                )
            made = moved_flow(self.op, array, call.block.of(sample, spec.frames), spec)
            return replace(value, data=made) if isinstance(value, Sequence) else like(value, made)

        if not part.view.batched:
            return moved(0, flow)
        if len(flow) != part.samples:
            raise ParameterError(
                f"flow for {len(flow)} samples", source=self.op.name, allowed=f"{part.samples}"
            )
        made = [moved(sample, one) for sample, one in enumerate(flow)]
        if isinstance(flow, Batch):
            return Batch.of(made, labels=flow.labels, indices=flow.indices)
        if isinstance(flow, (list, tuple)):
            return gathered(flow, made)
        parts = [admitted(self.op, one) for one in made]
        return like(flow, namespace(parts[0]).stack(parts))

    def _places(self, call: Call, part: Given, value: Any, name: str) -> Any:
        if not part.view.batched:
            return self._of_sample(call, 0, value, name)
        if len(value) != part.samples:
            raise ParameterError(
                f"{name} for {len(value)} samples", source=self.op.name, allowed=f"{part.samples}"
            )
        moved = [self._of_sample(call, n, one, name) for n, one in enumerate(value)]
        if isinstance(value, (list, tuple)):
            return gathered(value, moved)
        return like(value, np.stack([to_numpy(one) for one in moved]))

    def _of_sample(self, call: Call, sample: int, value: Any, name: str) -> Any:
        numbers, move = _MOVES[name]
        array, spec = admitted(self.op, value), call.specs[sample]
        by_frame = array.ndim == 3
        if (
            device_of(array) != "cpu"
            or array.dtype.kind not in "iuf"
            or array.ndim not in (2, 3)
            or array.shape[-1] != numbers
            or (by_frame and array.shape[0] != spec.frames)
        ):
            raise ParameterError(
                f"{name} of {array.dtype} of shape {array.shape} on {device_of(array)}",
                source=self.op.name,
                allowed=f"numbers (K, {numbers}) or ({spec.frames}, K, {numbers}) in main memory for each sample",
            )
        rows = call.block.of(sample, spec.frames)
        if not isinstance(self.op, Geometry):
            moves = by_frame and not self.op.keeps_frames
            return like(value, array[self.op.frame_order(rows, spec)] if moves else array.copy())
        mappings = self.op.mappings(rows, spec).each()
        if len(mappings) > 1 and not by_frame:
            raise ParameterError(
                f"each frame is moved by itself, but {name} have the shape {array.shape}",
                source=self.op.name,
                allowed=f"({spec.frames}, K, {numbers})",
            )
        with naming(self.op):
            found = [move(mappings[0], array)] if len(mappings) == 1 else list(map(move, mappings, array))
        moved = found[0] if len(mappings) == 1 else np.stack(found)
        return like(value, placed(moved, array.dtype))
