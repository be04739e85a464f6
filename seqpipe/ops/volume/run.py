"""Operators on volumes, done: neighbors that move voxels as one mapping, with a record of all that was drawn."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...array import Array, FloatArray, device_of, namespace
from ...errors import ParameterError, warn_caller
from ...kernel import KernelDevice
from ...parts import Boxes, Labels, Part, Sample
from ...sequence import Batch, Sequence
from ..call.backends import check_backend, cuda_device_of, on_device_of
from ..call.dispatch import indices_of
from ..call.inputs import admitted, gathered, like
from ..core.declaration import Declaration
from ..core.spec import Backend
from .drawn import Drawn
from .gather import gather
from .held import LAYOUTS, Grid, Held, State, state_of
from .mapping import Mapping3

__all__ = ["Doing", "invert", "replay", "run", "sample_done"]

_ALONE = "image"
_BATCHES = {3: "DHW", 4: "DHWC", 5: "NDHWC"}


@dataclass
class Doing:
    """How it is done, and what is found on the way.

    Attributes:
        backend: who does it; None for the kernel on a GPU and C on the CPU.
        device: what kernels run on; None for the GPU that holds the volume.
        drawn: in place of draws, the parameters of each operator.
        history: an entry for each operator.
        passes: for each pass over voxels its operators and what it does, in words.
    """

    backend: Backend | None = None
    device: KernelDevice | None = None
    drawn: Seq[Drawn] | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    passes: list[tuple[list[str], str]] = field(default_factory=list)

    def options(self, values: Array) -> dict[str, Any]:
        """What :func:`gather` is told for a volume."""
        by_kernel = self.backend == "cuda" or (self.backend is None and device_of(values) != "cpu")
        device = (self.device or cuda_device_of(values)) if by_kernel else None
        return {"reference": self.backend == "reference", "device": device}


@dataclass
class _Pending:
    """Geometry that is not done yet."""

    grid: Grid
    mapping: Mapping3
    how: dict[str, Any] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def takes(self, op: Any) -> bool:
        """Whether an operator can be done with the others, in one pass."""
        same = all(self.how.get(name, value) == value for name, value in op.how.items())
        return same and not (op.warps and self.mapping.lattice is not None)


def run(
    ops: Seq[Any],
    x: Any,
    *,
    layout: str | None,
    epoch: int,
    index: Any,
    backend: Backend | None = None,
    device: KernelDevice | None = None,
) -> Any:
    """What operators make of whatever the user holds.

    Args:
        ops: the operators.
        x: a volume, a sample, or several.
        layout: of arrays.
        epoch: the epoch that draws are for.
        index: of the samples.
        backend: who does it.
        device: what kernels run on.

    Raises:
        ParameterError: x is not what they take.
    """
    check_backend(backend, ops[0].name)

    def one(value: Any, number: int, letters: str | None) -> Any:
        doing = Doing(backend, device)
        alone = not isinstance(value, Mapping)
        done = sample_done(ops, {_ALONE: value} if alone else value, letters, epoch, number, doing)
        return _plain(value, done[_ALONE]) if alone else done

    if isinstance(x, Batch):
        indices = indices_of(ops[0], x.indices if index is None else index, len(x))
        made = [one(value, n, None) for value, n in zip(x.sequences, indices, strict=True)]
        return Batch.of(made, labels=x.labels, indices=x.indices)
    if isinstance(x, (list, tuple)):
        indices = indices_of(ops[0], index, len(x))
        return gathered(x, [one(value, n, layout) for value, n in zip(x, indices, strict=True)])
    if isinstance(x, (Mapping, Sequence, Part)):
        return one(x, indices_of(ops[0], index, 1)[0], layout)
    array = admitted(ops[0], x)
    letters = layout or _BATCHES.get(array.ndim, "")
    if letters not in LAYOUTS or len(letters) != array.ndim or not array.size:
        raise ParameterError(
            f"an array of shape {array.shape} and layout {layout or letters or 'unknown'}",
            source=ops[0].name,
            allowed=f"arrays of one voxel or more, of the layouts {', '.join(LAYOUTS)}",
        )
    if letters[0] != "N":
        return one(x, indices_of(ops[0], index, 1)[0], letters)
    numbers = indices_of(ops[0], index, len(array))
    made = [one(part, n, letters[1:]) for part, n in zip(array, numbers, strict=True)]
    return like(x, _stacked(ops[0], made))


def _plain(given: Any, done: Any) -> Any:
    """The result of one part as what was given: a part, or the data of one."""
    return done if isinstance(given, Part) else done.data if isinstance(done, Part) else done


def _stacked(op: Declaration, made: list[Array]) -> Array:
    if len({array.shape for array in made}) > 1:
        shapes = ", ".join(str(array.shape) for array in made[:4])
        raise ParameterError(
            f"results of different shapes, {shapes}", source=op.name, advice="Give the samples as a list"
        )
    return namespace(made[0]).stack(made)


def sample_done(
    ops: Iterable[Any], sample: Mapping[str, Any], layout: str | None, epoch: int, index: int, doing: Doing
) -> Sample:
    """What operators make of a sample, with its history.

    Args:
        ops: the operators.
        sample: parts by name.
        layout: of arrays.
        epoch: the epoch that draws are for.
        index: of the sample.
        doing: how it is done; what is found is written there.

    Raises:
        ParameterError: an operator does not take the sample.
    """
    ops = tuple(ops)
    state = state_of(ops[0].name, sample, layout)
    _tell_unfinite(state)
    pending: _Pending | None = None
    with on_device_of(state.reference.values):
        for number, op in enumerate(ops):
            state = replace(state, op=op.name)
            p = doing.drawn[number] if doing.drawn else Drawn.of(op, state.spec, epoch, index)
            doing.history.append(_entry(op, p, state.grid, epoch, index))
            if not p.acts:
                continue
            if not op.geometric:
                state, pending = _flushed(state, pending, doing), None
                state = _renamed(op, state, doing) if op.on_labels else _changed(op, p, state, doing)
                continue
            if pending is None or not pending.takes(op):
                state = _flushed(state, pending, doing)
                pending = _Pending(state.grid, Mapping3(state.grid.size))
            pending.mapping = op.moved(pending.mapping, p, state.grid)
            pending.how |= op.how
            pending.names.append(op.name)
            state = replace(state, grid=pending.grid.moved(pending.mapping.matrix, pending.mapping.size))
        state = _flushed(state, pending, doing)
        made = {name: _result(sample[name], held.back()) for name, held in state.parts.items()}
    return Sample(made, (*getattr(sample, "history", ()), *doing.history))


def _result(given: Any, part: Part) -> Any:
    return part if isinstance(given, Part) else part.data


def _entry(op: Any, p: Drawn, grid: Grid, epoch: int, index: int) -> dict[str, Any]:
    """What the history says of one operator."""
    affine = None if grid.affine is None else grid.affine.tolist()
    return {
        "op": op.state(),
        "epoch": int(epoch),
        "index": int(index),
        "drawn": p.to_json(),
        "size": [int(n) for n in grid.size],
        "affine": affine,
    }


def _flushed(state: State, pending: _Pending | None, doing: Doing) -> State:
    """The sample with pending geometry done: each part is read once."""
    if pending is None:
        return state
    mapping, how = pending.mapping, pending.how
    fill, label_fill = how.get("fill_value", 0.0), how.get("label_fill", 0)
    doing.passes.append((pending.names, f"one gather, {mapping.summary}"))
    parts = {}
    for name, held in state.parts.items():
        if not held.layout:
            move = mapping.boxes if isinstance(held.part, Boxes) else mapping.points
            values: Array = move(held.values) if len(held.values) else held.values
        elif isinstance(held.part, Labels):
            outside = None if fill is None else label_fill
            values = gather(
                _labels(held, outside), mapping, held.part.interp, outside, **doing.options(held.values)
            )
        else:
            values = gather(
                held.values, mapping, how.get("interp", "nearest"), fill, **doing.options(held.values)
            )
        parts[name] = replace(held, values=values, affine=state.grid.affine)
    return replace(state, parts=parts)


def _labels(held: Held, fill: int | None) -> Array:
    """Labels in a type that also holds what fills."""
    values = held.values
    if fill is not None and values.dtype.kind in "iub" and values.dtype != bool:
        info = np.iinfo(values.dtype)
        if not info.min <= fill <= info.max:
            return values.astype(np.int16 if info.bits <= 8 else np.int32 if info.bits <= 16 else np.int64)
    return values


def _changed(op: Any, p: Drawn, state: State, doing: Doing) -> State:
    """The sample with its intensities changed."""
    if not state.images:
        raise ParameterError(
            f"a sample of {', '.join(state.parts)}, none of which is an image",
            source=op.name,
            allowed="images",
        )
    missing = [name for name in op.only or () if name not in state.images]
    if missing:
        raise ParameterError(
            f"only has {missing[0]!r}",
            source=op.name,
            allowed=f"images of the sample: {', '.join(state.images)}",
        )
    doing.passes.append(([op.name], "intensities"))
    labels = next((one.values[..., 0] for one in state.parts.values() if isinstance(one.part, Labels)), None)
    more = {"spacing": state.grid.spacing_mm, "mask": None if labels is None else labels > 0}
    parts, place = dict(state.parts), 0
    for name, held in state.images.items():
        if op.only is None or name in op.only:
            parts[name] = replace(held, values=op.done_to(held.values, p, place, more))
        place += held.values.shape[3]
    return replace(state, parts=parts)


def _renamed(op: Any, state: State, doing: Doing) -> State:
    """The sample with its labels changed."""
    doing.passes.append(([op.name], "labels"))
    parts = {
        name: replace(held, values=op.reference(held.values, None)) if isinstance(held.part, Labels) else held
        for name, held in state.parts.items()
    }
    return replace(state, parts=parts)


def _tell_unfinite(state: State) -> None:
    """Say once that there are voxels that are no numbers; they are kept."""
    for name, held in state.images.items():
        values, xp = held.values, namespace(held.values)
        if values.dtype.kind == "f" and not bool(xp.isfinite(values.sum())):
            count = int((~xp.isfinite(values)).sum())
            if count:
                warn_caller(
                    f"{count} voxels of {name!r} are NaN or infinite: they are kept, and left out of statistics"
                )


# ------------------------------------------------------------------------------------------ histories


def _ops_of(history: Iterable[Mapping[str, Any]]) -> list[tuple[Any, Drawn, Mapping[str, Any]]]:
    """The operators of a history, with what each has drawn."""
    found = []
    for entry in history:
        op = Declaration.from_json(json.dumps(entry["op"]))
        if "size" not in entry:
            raise ParameterError(
                f"a history with {op.name}, which acts on images",
                source="replay",
                allowed="that of operators on volumes, such as ops.RandomAffine3d",
                advice="Call that operator again, with the epoch and the index of its entry",
            )
        found.append((op, Drawn.from_json(op, entry["drawn"]), entry))
    return found


def replay(
    history: Iterable[Mapping[str, Any]], x: Any, *, layout: str | None = None, backend: Backend | None = None
) -> Sample:
    """A sample with what was done to another one: the same parameters, to the last bit.

    Args:
        history: of a :class:`seqpipe.parts.Sample`, or read from JSON.
        x: a sample (a dictionary of parts), or one volume.
        layout: of arrays.
        backend: who does it; None for the kernel on a GPU and C on the CPU.

    Raises:
        ParameterError: the history is empty, or x is not what its operators take.
    """
    found = _ops_of(history)
    if not found:
        raise ParameterError("a history of no operators", source="replay", allowed="that of a sample")
    first = found[0][2]
    doing = Doing(backend, drawn=[p for _, p, _ in found])
    sample = x if isinstance(x, Mapping) else {_ALONE: x}
    return sample_done([op for op, _, _ in found], sample, layout, first["epoch"], first["index"], doing)


def invert(
    history: Iterable[Mapping[str, Any]],
    x: Any,
    *,
    layout: str | None = None,
    interp: str = "linear",
    fill_value: float | None = 0.0,
) -> Any:
    """A volume on the grid that a sample had before its geometry was changed, as predictions are wanted.

    Args:
        history: of the sample.
        x: an array or a Sequence on the sample's grid, or a part: :class:`seqpipe.parts.Labels` vote.
        layout: of an array.
        interp: how images between voxels are found.
        fill_value: where the sample has nothing.

    Returns:
        What came in. Positions through elastic fields are found to 1e-9 voxel.

    Raises:
        ParameterError: x is not of the size that the history ends with.
    """
    moves = [found for found in _ops_of(history) if found[0].geometric and found[1].acts]
    state = state_of("invert", {_ALONE: x}, layout)
    if not moves:
        return x
    first = moves[0][2]
    grid = Grid(tuple(first["size"]), None if first["affine"] is None else np.array(first["affine"]))
    mappings = [Mapping3(grid.size)]
    before = grid
    for op, p, entry in moves:
        before = Grid(tuple(entry["size"]), None if entry["affine"] is None else np.array(entry["affine"]))
        if op.warps and mappings[-1].lattice is not None:
            mappings.append(Mapping3(before.size))
        mappings[-1] = op.moved(mappings[-1], p, before)
    if state.grid.size != mappings[-1].size:
        raise ParameterError(
            f"a volume of {state.grid.size} voxels",
            source="invert",
            allowed=f"{mappings[-1].size}, as the sample has",
        )
    held = state.parts[_ALONE]
    how: Any = held.part.interp if isinstance(held.part, Labels) else interp
    if len(mappings) == 1 and mappings[0].lattice is None:
        back = Mapping3(grid.size, pre=_inverse(mappings[0].matrix))
        values = gather(held.values, back, how, fill_value)
    else:
        places = np.moveaxis(np.indices(grid.size, np.float64), 0, -1)
        for mapping in mappings:
            places = np.stack([mapping.points(slab) for slab in places])
        values = gather(
            held.values, Mapping3(grid.size), how, fill_value, positions=places.astype(np.float32)
        )
    return _plain(x, replace(held, values=values, affine=grid.affine).back())


def _inverse(matrix: FloatArray) -> FloatArray:
    """The inverse, exact where entries are whole numbers."""
    found: FloatArray = np.linalg.inv(matrix).astype(np.float64)
    whole: FloatArray = np.rint(found)
    return whole if np.abs(found - whole).max() < 1e-9 else found
