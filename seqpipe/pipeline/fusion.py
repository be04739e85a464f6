"""Fusion: which operators at the head of a chain a reader's conversion does itself, and why it does no more."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

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
from ..video.convert.output import OutputSpec
from .framing import Framing, scales
from .levels import Levels

__all__ = ["Fuse", "Head", "Split", "split"]

Fuse: TypeAlias = Literal["exact", "surface", "planes", "none"]


@dataclass(frozen=True)
class Head:
    """Operators that are done by a reader's conversion: what each sample's pictures are to be.

    Attributes:
        ops: the operators, in their order.
        plain: what the reader makes without them.
        levels: what becomes of its values.
        layout: of the result.
        rounded: whether pixels are rounded before they are scaled, as operators find them.
        luma: the operator behind these that needs the luma alone, so that no colors are made; "" if there is none.
    """

    ops: tuple[Op, ...]
    plain: OutputSpec
    levels: Levels
    layout: str
    rounded: bool
    luma: str = ""

    def __call__(self, samples: Seq[SampleRequest], epoch: int) -> list[OutputSpec]:
        """The output of each of some samples, drawn as the operators draw when they are called.

        Raises:
            ParameterError: one of the operators does not take such pictures.
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
        return [framing.output(self.plain, rounded=self.rounded, **values) for framing in framings]

    def explain(self) -> str:
        """What is done, in a line."""
        resampled = ""
        if any("scaling" in op.traits.converted for op in self.ops):
            resampled = (
                "; colors are rounded, then resampled" if self.rounded else "; its planes are resampled"
            )
        names = " → ".join([*(op.name for op in self.ops), *(["luma"] if self.luma else [])])
        resampled += f"; {self.luma} needs the luma alone: no colors are made" if self.luma else ""
        return f"{names}: by the reader's conversion, straight from the decoded surface{resampled}"

    def _spec(self, sample: SampleRequest) -> Spec:
        """A sample as operators would be given it."""
        sides = dict(zip(self.plain.frame_layout, sample.shape, strict=True))
        return Spec(len(sample.frames), sides["H"], sides["W"], sides["C"], self.plain.dtype)


@dataclass(frozen=True)
class Split:
    """A chain in two parts.

    Attributes:
        head: what the conversion does; None if it does nothing.
        tail: what is done after it; None if nothing is left.
        reason: why the first operator of the tail is not part of the head.
    """

    head: Head | None
    tail: Chain | None
    reason: str


def split(chain: Chain, plain: OutputSpec, fuse: Fuse) -> Split:
    """What of a chain a reader's conversion does.

    Args:
        chain: the chain.
        plain: what the reader makes without it.
        fuse: how much may differ.
    """
    so_far = _SoFar(plain, fuse, Levels.of(plain), plain.layout)
    taken: list[Op] = []
    reason = "" if fuse != "none" else "fuse='none'"
    alone = leading(chain)
    for place, op in enumerate(chain.ops):
        composed = isinstance(op, Op) and place >= len(alone)
        reason = reason or ("it is one mapping with what follows it" if composed else "")
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
    """What the head comes to with the operators that it has."""

    plain: OutputSpec
    fuse: Fuse
    levels: Levels
    layout: str
    is_scaled: bool = False

    def after(self, op: Op) -> _SoFar:
        """The same with another operator."""
        levels = self.levels.after(op) if "levels" in op.traits.converted else self.levels
        layout = op.result_layout(self.layout)
        is_scaled = self.is_scaled or "scaling" in op.traits.converted
        return replace(self, levels=levels, layout=layout, is_scaled=is_scaled)

    def refusal(self, op: Op) -> str:
        """Why an operator cannot be part of it, in a clause; empty if it can."""
        if not op.traits.converted:
            return "a conversion does no such thing"
        if self.plain.window is not None or self.plain.part is not None:
            return "the reader's own output has a window or a part"
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
        """Why an operator that resamples cannot."""
        if self.fuse == "exact":
            return "it resamples what has been rounded, and conversions round once; fuse='surface' is within a level"
        if self.is_scaled or scales(self.plain):
            return "pictures are resampled already, and a conversion resamples once"
        if self.levels.changed:
            return "it resamples values that are changed already"
        if op.interp_type not in ("linear", "triangular") or not op.antialias:
            return "a conversion resamples by the antialiased linear filter only"
        if op.compat not in (None, "pillow"):
            return f"it has the conventions of compat={op.compat!r}"
        if op.dtype not in (None, self.plain.dtype):
            return f"its result is {op.dtype}"
        if getattr(op, "roi_start", None) is not None or getattr(op, "subpixel_scale", False):
            return "its window has parts of pixels"
        sides = ("resize_x", "resize_y", "resize_shorter", "resize_longer")
        if any(isinstance(getattr(op, side, None), Distribution) for side in sides):
            return "its size is drawn"
        return ""

    def moving(self, op: Any) -> str:
        """Why an operator that moves pixels cannot."""
        vertical = getattr(op, "vertical", False)
        if isinstance(vertical, Distribution) or vertical:
            return "it turns pictures upside down"
        return ""

    def values(self, op: Any) -> str:
        """Why an operator that changes values cannot."""
        if unknown := self.levels.unknown(op):
            return unknown
        if self.levels.after(op) == self.levels:
            return ""
        if self.fuse == "exact":
            return "it changes values that have been rounded, and conversions round once"
        return self.levels.refusal(op, self.plain)


def _in_general(op: Any) -> str:
    """What no operator of a head may have."""
    # a mapping that keeps the size is the identity where it does not act
    if 0 < op.p < 1 and not ("moving" in op.traits.converted and op.traits.keeps_size):
        return f"it acts on some samples only, with p={op.p:g}"
    if op.is_by_frame or any(isinstance(value, PerFrame) for value in op.settings().values()):
        return "its parameters are one for each frame"
    if op.tabled:
        return "its parameters are given for each sample of a call"
    return ""
