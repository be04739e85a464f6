"""Several geometric operators as one mapping: each pixel of the result is interpolated once, from what was given."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import ParameterError
from ...sequence import Batch
from ..call.dispatch import BoundCall
from ..call.op import Op
from ..core.distributions import per_frame
from ..geometry.base import WHOLE_PIXELS, Geometry, Interpolated
from ..geometry.warp import WarpPerspective
from .fused import after

__all__ = ["Composed", "compositions"]


@dataclass(frozen=True)
class Composed:
    """Operators that are one mapping together.

    Attributes:
        ops: in their order, two or more.
        demand: what they agree on.
    """

    ops: tuple[Op, ...]
    demand: Interpolated

    def operator(self, x: Any, layout: str | None, epoch: int, index: Any) -> WarpPerspective:
        """One operator for all of them, with the mappings that they draw for what they are about to act on.

        Args:
            x: what that is, as operators are given it.
            layout: of arrays.
            epoch: the epoch that draws are for.
            index: the samples' indices, or that of the first.

        Raises:
            ParameterError: one of them does not take what it is given, or results differ in size.
        """
        values: Seq[Any] = x if isinstance(x, (list, tuple)) else (x,)
        if isinstance(x, Batch):
            index = x.indices if index is None else index
            values, layout = (x.sequences, None) if x.stacked is None else ((x,), layout)
        calls = [BoundCall.of(self.ops[0], values, layout, epoch, index)]
        for op in self.ops[1:]:
            calls.append(calls[-1].then(op, after(calls[-1]), epoch, index))
        sizes = {(spec.height, spec.width) for spec in after(calls[-1])}
        if len(sizes) > 1:
            raise ParameterError(
                f"results of different sizes, {sorted(sizes)}",
                source=" → ".join(op.name for op in self.ops),
                advice="Give the samples one by one, or fuse='exact'",
            )
        interp_type, fill_value = self.demand
        return WarpPerspective(
            matrix=_matrices(calls), size=sizes.pop(), interp_type=interp_type, fill_value=fill_value
        )


def compositions(ops: Seq[Op]) -> Iterator[Composed | Op]:
    """Operators in their order; where two or more neighbors can be one mapping, they are."""
    group: list[Op] = []
    agreed = WHOLE_PIXELS
    for op in ops:
        demand = _demand_of(op)
        both = None if demand is None else _agreed(agreed, demand)
        if group and both is None:
            yield from _closed(group, agreed)
            group, agreed = [], WHOLE_PIXELS
            both = demand
        if both is None:
            yield op
        else:
            group.append(op)
            agreed = both
    yield from _closed(group, agreed)


def _closed(group: list[Op], agreed: Interpolated) -> Iterator[Composed | Op]:
    """A group as one, if that changes anything: whole pixels are moved without interpolation anyway."""
    if len(group) > 1 and agreed is not WHOLE_PIXELS:
        yield Composed(tuple(group), agreed)
    else:
        yield from group


def _demand_of(op: Op) -> Interpolated | None:
    """What an operator asks of those that it is composed with; None if it is composed with none.

    One place cannot be the mean of many pixels, so what is antialiased stands alone; and so does what has no body, for
    its reference may be another one than its base's, whose mapping it has.
    """
    if not isinstance(op, Geometry) or op.traits.body is None or getattr(op, "dtype", None) is not None:
        return None
    return op.interpolation


def _agreed(one: Interpolated, other: Interpolated) -> Interpolated | None:
    if one is WHOLE_PIXELS or one == other:
        return other if other is not WHOLE_PIXELS else one
    return one if other is WHOLE_PIXELS else None


def _matrices(calls: Seq[BoundCall]) -> Any:
    """The product of the mappings, as a value of the parameter ``matrix``: for each sample, or for each frame."""
    specs, by_frame = calls[0].specs, any(call.block.step for call in calls)
    found: list[npt.NDArray[Any]] = []
    for sample, spec in enumerate(specs):
        product: npt.NDArray[Any] = np.eye(3)[None]
        for call in calls:
            op: Any = call.op
            rows = call.block.of(sample, spec.frames)
            product = product @ op.mappings(rows, call.specs[sample]).matrices
        found.append(np.broadcast_to(product, (spec.frames if by_frame else 1, 3, 3)).reshape(-1, 9))
    if not by_frame:
        return np.concatenate(found)
    if len({len(part) for part in found}) > 1:
        raise ParameterError(
            "frames with mappings of their own, in sequences of different lengths",
            source=" → ".join(call.op.name for call in calls),
            advice="Give the sequences one by one, or fuse='exact'",
        )
    return per_frame(np.stack(found))
