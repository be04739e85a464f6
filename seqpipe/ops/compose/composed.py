"""Composition of geometric operators into one mapping, so that pixels are interpolated once."""

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
from .fused import result_specs

__all__ = ["Composed", "compositions"]


@dataclass(frozen=True)
class Composed:
    """Operators that form one mapping.

    Attributes:
        ops: the operators in order, two or more.
        interpolation: their common interpolation.
    """

    ops: tuple[Op, ...]
    interpolation: Interpolated

    def operator(self, x: Any, layout: str | None, epoch: int, index: Any) -> WarpPerspective:
        """Return one operator with the product of the mappings that the operators sample for an input."""
        values: Seq[Any] = x if isinstance(x, (list, tuple)) else (x,)
        if isinstance(x, Batch):
            index = x.indices if index is None else index
            values, layout = (x.sequences, None) if x.stacked is None else ((x,), layout)
        calls = [BoundCall.of(self.ops[0], values, layout, epoch, index)]
        for op in self.ops[1:]:
            calls.append(calls[-1].then(op, result_specs(calls[-1]), epoch, index))
        sizes = {(spec.height, spec.width) for spec in result_specs(calls[-1])}
        if len(sizes) > 1:
            raise ParameterError(
                f"results of different sizes, {sorted(sizes)}",
                source=" → ".join(op.name for op in self.ops),
                advice="Pass the samples one by one, or fuse='exact'",
            )
        interp_type, fill_value = self.interpolation
        return WarpPerspective(
            matrix=_matrices(calls), size=sizes.pop(), interp_type=interp_type, fill_value=fill_value
        )


def compositions(ops: Seq[Op]) -> Iterator[Composed | Op]:
    """Yield the operators in order, with neighbors that can form one mapping composed."""
    group: list[Op] = []
    common = WHOLE_PIXELS
    for op in ops:
        own = _interpolation_of(op)
        both = None if own is None else _common(common, own)
        if group and both is None:
            yield from _closed(group, common)
            group, common = [], WHOLE_PIXELS
            both = own
        if both is None:
            yield op
        else:
            group.append(op)
            common = both
    yield from _closed(group, common)


def _closed(group: list[Op], common: Interpolated) -> Iterator[Composed | Op]:
    """Yield a group as one, unless it only moves whole pixels, which needs no interpolation."""
    if len(group) > 1 and common is not WHOLE_PIXELS:
        yield Composed(tuple(group), common)
    else:
        yield from group


def _interpolation_of(op: Op) -> Interpolated | None:
    """Return the interpolation of an operator that can be composed, else None.

    An antialiased result averages many pixels, so a mapping of points cannot express it. An operator without a body is
    not composed, because it may replace the reference of the base whose mapping it inherits.
    """
    if not isinstance(op, Geometry) or op.traits.body is None or getattr(op, "dtype", None) is not None:
        return None
    return op.interpolation


def _common(one: Interpolated, other: Interpolated) -> Interpolated | None:
    if one is WHOLE_PIXELS or one == other:
        return other if other is not WHOLE_PIXELS else one
    return one if other is WHOLE_PIXELS else None


def _matrices(calls: Seq[BoundCall]) -> Any:
    """Return the product of the mappings as the parameter ``matrix``, for each sample or for each frame."""
    specs, by_frame = calls[0].specs, any(call.block.step for call in calls)
    result: list[npt.NDArray[Any]] = []
    for sample, spec in enumerate(specs):
        product: npt.NDArray[Any] = np.eye(3)[None]
        for call in calls:
            op: Any = call.op
            rows = call.block.of(sample, spec.frames)
            product = product @ op.mappings(rows, call.specs[sample]).matrices
        result.append(np.broadcast_to(product, (spec.frames if by_frame else 1, 3, 3)).reshape(-1, 9))
    if not by_frame:
        return np.concatenate(result)
    if len({len(part) for part in result}) > 1:
        raise ParameterError(
            "different mappings for frames, in sequences of different lengths",
            source=" → ".join(call.op.name for call in calls),
            advice="Pass the sequences one by one, or fuse='exact'",
        )
    return per_frame(np.stack(result))
