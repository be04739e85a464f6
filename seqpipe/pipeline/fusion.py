"""Fusion of the first operators of a chain with a reader's color conversion."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from ..ops import (
    Chain,
    Declaration,
    Distribution,
    Op,
    PerFrame,
    Spec,
    leading,
    planned,
)
from ..readers import SampleRequest
from ..video.convert.output import FrameLayout, OutputSpec
from .framing import Framing, scales
from .levels import Levels

__all__ = ["Fuse", "Head", "Split", "split"]

Fuse: TypeAlias = Literal["exact", "surface", "planes", "none"]


@dataclass(frozen=True)
class Head:
    """Operators that the reader's conversion applies, as an output specification for each sample.

    Attributes:
        ops: the operators, in order.
        plain: the reader's output without them.
        levels: dtype, mean and standard deviation of the result, where the operators change them.
        layout: layout of the result.
        rounded: whether RGB values are rounded before they are resampled, as operators would receive them.
        luma: name of the remaining operator that needs luma alone, so that the conversion makes no colors; "" if none.
    """

    ops: tuple[Op, ...]
    plain: OutputSpec
    levels: Levels
    layout: str
    rounded: bool
    luma: str = ""

    def __call__(self, samples: Seq[SampleRequest], epoch: int) -> list[OutputSpec]:
        """Return the output of each sample, with the values that the operators would sample when called.

        Raises:
            ParameterError: an operator does not accept the frames.
        """
        specs = [self._spec(sample) for sample in samples]
        framings = [Framing.of(self.plain, spec.height, spec.width) for spec in specs]
        for step in planned(self.ops, specs, epoch, np.array([sample.index for sample in samples])):
            if step.mappings:
                resampled = "scaling" in step.op.traits.converted
                pairs = zip(framings, step.mappings, strict=True)
                framings = [framing.after(mapping, resampled=resampled) for framing, mapping in pairs]
        values: dict[str, Any] = {**self.levels.fields(self.plain), "layout": self.layout}
        if self.luma:
            values["color"] = "GRAY"
        made = {  # checked once for all samples of one framing
            framing: framing.output(self.plain, rounded=self.rounded, **values) for framing in set(framings)
        }
        return [made[framing] for framing in framings]

    def explain(self) -> str:
        """Describe the conversion in a line."""
        resampled = ""
        if any("scaling" in op.traits.converted for op in self.ops):
            resampled = (
                "; colors are rounded, then resampled" if self.rounded else "; its planes are resampled"
            )
        names = " → ".join([*(op.name for op in self.ops), *(["luma"] if self.luma else [])])
        resampled += f"; {self.luma} needs the luma alone: no colors are made" if self.luma else ""
        return f"{names}: by the reader's conversion, straight from the decoded surface{resampled}"

    def _spec(self, sample: SampleRequest) -> Spec:
        """Return the specification of a sample's frames before the operators."""
        sides = dict(zip(self.plain.frame_layout, sample.shape, strict=True))
        return Spec(len(sample.frames), sides["H"], sides["W"], sides["C"], self.plain.dtype)


@dataclass(frozen=True)
class Split:
    """A chain in two parts.

    Attributes:
        head: the operators that the conversion applies, or None.
        tail: the operators that run after it, or None.
        reason: why the first operator of the tail is not part of the head.
    """

    head: Head | None
    tail: Chain | None
    reason: str


def split(chain: Chain, plain: OutputSpec, fuse: Fuse, layout: str | None = None) -> Split:
    """Divide a chain into the operators that a reader's conversion applies, and the rest.

    Args:
        chain: the chain.
        plain: the reader's output without it.
        fuse: bound of the difference of pixel values; see :class:`seqpipe.pipeline.Augmented`.
        layout: layout of the reader's sequences, if its conversion writes another one: the first operators may not
            change it.
    """
    so_far = _SoFar(
        plain, fuse, Levels.of(plain), plain.layout, keeps_layout=layout not in (None, plain.layout)
    )
    taken: list[Op] = []
    reason = "" if fuse != "none" else "fuse='none'"
    alone = leading(chain)
    for place, op in enumerate(chain.ops):
        composed = isinstance(op, Op) and place >= len(alone)
        reason = reason or ("it is composed with the next operators into one mapping" if composed else "")
        reason = reason or so_far.refusal(op)
        if reason:
            break
        so_far = so_far.after(op)
        taken.append(op)
    rest = chain.ops[len(taken) :]
    tail = Chain.part(rest, chain.fuse) if rest else None
    luma = rest[0].name if rest and so_far.needs_luma_alone(rest[0]) else ""
    if not taken and not luma:
        return Split(None, chain, reason)
    head = Head(tuple(taken), plain, so_far.levels, so_far.layout, fuse == "surface", luma)
    return Split(head, tail, reason)


@dataclass(frozen=True)
class _SoFar:
    """The conversion that combines the operators of the head."""

    plain: OutputSpec
    fuse: Fuse
    levels: Levels
    layout: str
    is_scaled: bool = False
    keeps_layout: bool = False

    def after(self, op: Op) -> _SoFar:
        """Return the conversion with another operator."""
        levels = self.levels.after(op) if "levels" in op.traits.converted else self.levels
        layout = op.result_layout(self.layout)
        is_scaled = self.is_scaled or "scaling" in op.traits.converted
        return replace(self, levels=levels, layout=layout, is_scaled=is_scaled)

    def refusal(self, op: Op) -> str:
        """Return why the conversion cannot apply an operator, as a clause; "" if it can."""
        if not op.traits.converted:
            return "the conversion has no such step"
        if self.plain.window is not None or self.plain.part is not None:
            return "the reader's own output has a window or a part"
        made = op.result_layout(self.layout)
        if made != self.layout and (self.keeps_layout or made not in get_args(FrameLayout)):
            return f"its result has the layout {made}, and conversions write frame by frame"
        ask = {"scaling": self.scaling, "moving": self.moving, "levels": self.values}
        return _in_general(op) or next(filter(None, (ask[what](op) for what in op.traits.converted)), "")

    def needs_luma_alone(self, member: Any) -> bool:
        """Whether what follows needs no colors, so that a conversion to full-range luma does instead."""
        if self.fuse in ("exact", "none") or self.levels.changed or not isinstance(member, Declaration):
            return False
        # code values of YCbCr are no colors: their luma is not that of GRAY
        is_color = self.plain.color in ("RGB", "BGR") and self.plain.dtype == "uint8"
        return is_color and member.traits.luma_only and getattr(member, "image_type", "") == self.plain.color

    def scaling(self, op: Any) -> str:
        """Return why the conversion cannot apply an operator that resamples."""
        if self.fuse == "exact":
            return "it resamples rounded values, and the conversion rounds once; fuse='surface' allows that"
        if self.is_scaled or scales(self.plain):
            return "frames are already resampled, and the conversion resamples once"
        if self.levels.changed:
            return "it resamples values that another operator has changed"
        if op.interp_type not in ("linear", "triangular") or not op.antialias:
            return "the conversion resamples with the antialiased linear filter only"
        if op.compat not in (None, "pillow"):
            return f"it has the conventions of compat={op.compat!r}"
        if op.dtype not in (None, self.plain.dtype):
            return f"its result is {op.dtype}"
        if getattr(op, "roi_start", None) is not None or getattr(op, "subpixel_scale", False):
            return "its window does not consist of whole pixels"
        sides = ("resize_x", "resize_y", "resize_shorter", "resize_longer")
        if any(isinstance(getattr(op, side, None), Distribution) for side in sides):
            return "its size is sampled"
        return ""

    def moving(self, op: Any) -> str:
        """Return why the conversion cannot apply an operator that moves pixels."""
        vertical = getattr(op, "vertical", False)
        if isinstance(vertical, Distribution) or vertical:
            return "it mirrors frames top to bottom"
        return ""

    def values(self, op: Any) -> str:
        """Return why the conversion cannot apply an operator that changes values."""
        if unknown := self.levels.unknown(op):
            return unknown
        if self.levels.after(op) == self.levels:
            return ""
        if self.fuse == "exact":
            return "it changes rounded values, and the conversion rounds once"
        return self.levels.refusal(op, self.plain)


def _in_general(op: Any) -> str:
    """Return why an operator of any kind cannot be part of the head, as a clause; "" if it can."""
    # a mapping that keeps the size is the identity for samples that p leaves alone
    if 0 < op.p < 1 and not ("moving" in op.traits.converted and op.traits.keeps_size):
        return f"it applies to some samples only, with p={op.p:g}"
    if op.is_by_frame or any(isinstance(value, PerFrame) for value in op.settings().values()):
        return "its parameters have one value for each frame"
    if op.tabled:
        return "its parameters have one value for each sample of a call"
    return ""
