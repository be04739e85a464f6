"""One draw for an image and what belongs to it: a sample of several parts, by arguments and attributes."""

from __future__ import annotations

from typing import Any, NamedTuple

from seqpipe.ops import apply
from seqpipe.parts import Boxes, Flow, Labels, Points

__all__ = ["together"]


class Moved(NamedTuple):
    """What comes of it; None for what was not given."""

    image: Any
    mask: Any = None
    boxes: Any = None
    points: Any = None
    flow: Any = None


def together(op: Any) -> Any:
    """A call of an operator with a sample, whose mask takes the nearest pixel.

    Args:
        op: the operator.
    """

    def call(image: Any, **options: Any) -> Moved:
        kinds = {"boxes": Boxes, "points": Points, "flow": Flow}
        sample: dict[str, Any] = {"image": image}
        if (mask := options.pop("mask", None)) is not None:
            sample["mask"] = Labels(mask, interp="nearest")
        for name, kind in kinds.items():
            if (value := options.pop(name, None)) is not None:
                sample[name] = kind(value)
        moved = apply(op, sample, **options) if {"backend", "device"} & {*options} else op(sample, **options)
        values = {name: one if name == "image" else one.data for name, one in moved.items()}
        return Moved(**values)

    return call
