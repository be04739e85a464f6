"""Fusion of the first operators of a chain with a reader's color conversion.

:func:`split` divides a chain. The operators of the head become an output specification for each sample: their crops,
mirrors and scaling add up to a :class:`Framing`, their changes of values to a :class:`PixelAffine`.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ..ops import Chain, DataNode, Declaration, Distribution, Mapping, Op, PerFrame, Spec
from ..ops.compose.fused import leading, planned
from ..ops.core.spec import ValueMap
from ..readers.selection import SampleRequest
from ..video.convert.geometry import PixelBox
from ..video.convert.output import STD, FrameLayout, OutputSpec, transposed
from .graph import Numbers

__all__ = ["Framing", "Fuse", "Head", "PixelAffine", "Split", "scales", "split"]

Fuse: TypeAlias = Literal["exact", "surface", "none"]

_INTEGER_TOLERANCE = 1e-6  # pixels; tolerance for coordinates that are integers up to float64 rounding
_SAMPLED: Final = frozenset((*ValueMap._fields, "std"))  # parameters that maps of values depend on
_PEAKS: Final = {"uint8": 255, "uint16": 65535}


@dataclass(frozen=True)
class Head:
    """Operators that the reader's conversion applies, as an output specification for each sample.

    Attributes:
        ops: the operators, in order.
        plain: the reader's output without them.
        affine: dtype, mean and standard deviation of the result, where the operators change them.
        layout: layout of the result.
        luma: name of the remaining operator that needs luma alone, so that the conversion makes no colors; "" if none.
        numbers: values of the nodes among the operators' parameters; None if there are none.
    """

    ops: tuple[Op, ...]
    plain: OutputSpec
    affine: PixelAffine
    layout: str
    luma: str = ""
    numbers: Numbers | None = None

    def __call__(self, samples: Seq[SampleRequest], epoch: int) -> list[OutputSpec]:
        """Return the output of each sample, with the values that the operators would sample when called."""
        specs = [self._spec(sample) for sample in samples]
        framings = [Framing.of(self.plain, spec.height, spec.width) for spec in specs]
        indices = np.array([sample.index for sample in samples], np.int64)
        ops = self.ops if self.numbers is None else self.numbers.bound(self.ops, epoch, indices)
        for step in planned(ops, specs, epoch, indices):
            if step.mappings:
                resampled = "scaling" in step.op.traits.converted
                pairs = zip(framings, step.mappings, strict=True)
                framings = [framing.after(mapping, resampled=resampled) for framing, mapping in pairs]
        values: dict[str, Any] = {**self.affine.fields(self.plain), "layout": self.layout}
        if self.luma:
            values["color"] = "GRAY"
        outputs = {  # checked once for all samples of one framing
            framing: framing.output(self.plain, **values) for framing in set(framings)
        }
        return [outputs[framing] for framing in framings]

    def explain(self) -> str:
        """Describe the conversion in a line."""
        resampled = ""
        if any("scaling" in op.traits.converted for op in self.ops):
            resampled = "; colors are rounded, then resampled"
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
        head: the operators that a source applies while it reads, such as a :class:`Head`; or None.
        tail: the operators that run after it, or None.
        reason: why the first operator of the tail is not part of the head; "" if that needs no explanation.
    """

    head: Any
    tail: Chain | None
    reason: str


def split(chain: Chain, plain: OutputSpec, fuse: Fuse, numbers: Numbers | None = None) -> Split:
    """Divide a chain into the operators that a reader's conversion applies, and the rest."""
    conversion = _Conversion(plain, fuse, PixelAffine.of(plain), plain.layout)
    fused: list[Op] = []
    reason = "" if fuse != "none" else "fuse='none'"
    alone = leading(chain)
    for position, op in enumerate(chain.ops):
        composed = isinstance(op, Op) and position >= len(alone)
        reason = reason or ("it is composed with the next operators into one mapping" if composed else "")
        reason = reason or _pending_refusal(op, numbers) or conversion.refusal(op)
        if reason:
            break
        conversion = conversion.after(op)
        fused.append(op)
    rest = chain.ops[len(fused) :]
    tail = Chain.part(rest, chain.fuse) if rest else None
    luma = rest[0].name if rest and conversion.needs_luma_alone(rest[0]) else ""
    if not fused and not luma:
        return Split(None, chain, reason)
    pending = numbers if any(op.pending for op in fused) else None
    head = Head(tuple(fused), plain, conversion.affine, conversion.layout, luma, pending)
    return Split(head, tail, reason)


@dataclass(frozen=True)
class _Conversion:
    """The conversion that combines the operators of the head."""

    plain: OutputSpec
    fuse: Fuse
    affine: PixelAffine
    layout: str
    is_scaled: bool = False

    def after(self, op: Op) -> _Conversion:
        """Return the conversion with another operator."""
        affine = self.affine.after(op) if "values" in op.traits.converted else self.affine
        layout = op.result_layout(self.layout)
        is_scaled = self.is_scaled or "scaling" in op.traits.converted
        return replace(self, affine=affine, layout=layout, is_scaled=is_scaled)

    def refusal(self, op: Op) -> str:
        """Return why the conversion cannot apply an operator, as a clause; "" if it can."""
        if not op.traits.converted:
            return "the conversion has no such step"
        if self.plain.window is not None or self.plain.part is not None:
            return "the reader's own output has a window or a part"
        if self.plain.transfer != "coded":
            return "the reader's own output changes the transfer function"
        result = op.result_layout(self.layout)
        if result != self.layout and result not in get_args(FrameLayout):
            return f"its result has the layout {result}, and conversions write frame by frame"
        refusals = {"scaling": self.scaling, "moving": self.moving, "values": self.values}
        return _general_refusal(op) or next(
            filter(None, (refusals[step](op) for step in op.traits.converted)), ""
        )

    def needs_luma_alone(self, member: Any) -> bool:
        """Whether what follows needs no colors, so that a conversion to full-range luma does instead."""
        if self.fuse != "surface" or self.affine.changed or not isinstance(member, Declaration):
            return False
        # code values of YCbCr are no colors: their luma is not that of GRAY
        coded = self.plain.transfer == "coded" and self.plain.dtype == "uint8"
        is_color = self.plain.color in ("RGB", "BGR") and coded
        return is_color and member.traits.luma_only and getattr(member, "image_type", "") == self.plain.color

    def scaling(self, op: Any) -> str:
        """Return why the conversion cannot apply an operator that resamples."""
        if self.fuse == "exact":
            return "it resamples rounded values, and the conversion rounds once; fuse='surface' allows that"
        if self.is_scaled or scales(self.plain):
            return "frames are already resampled, and the conversion resamples once"
        if self.affine.changed:
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
        if any(isinstance(getattr(op, side, None), (Distribution, DataNode)) for side in ("size", *sides)):
            return "its size is sampled"
        return ""

    def moving(self, op: Any) -> str:
        """Return why the conversion cannot apply an operator that moves pixels."""
        vertical = getattr(op, "vertical", False)
        if isinstance(vertical, (Distribution, DataNode)) or vertical:
            return "it mirrors frames top to bottom"
        return ""

    def values(self, op: Any) -> str:
        """Return why the conversion cannot apply an operator that changes values."""
        if variable := self.affine.variable(op):
            return variable
        if self.affine.after(op) == self.affine:
            return ""
        if self.fuse == "exact":
            return "it changes rounded values, and the conversion rounds once"
        return self.affine.refusal(op, self.plain)


def _pending_refusal(op: Any, numbers: Numbers | None) -> str:
    """Return why an operator with nodes among its parameters cannot be part of the head, as a clause; "" if it can."""
    pixels = [
        name for name, node in getattr(op, "nodes", {}).items() if not (numbers and numbers.knows(node))
    ]
    return (
        f"its {pixels[0]} is computed from values that are not known before frames are read" if pixels else ""
    )


def _general_refusal(op: Any) -> str:
    """Return why an operator of any kind cannot be part of the head, as a clause; "" if it can."""
    # a mapping that keeps the size is the identity for samples that p leaves alone
    if 0 < op.p < 1 and not ("moving" in op.traits.converted and op.traits.keeps_size):
        return f"it applies to some samples only, with p={op.p:g}"
    if op.is_by_frame or any(isinstance(value, PerFrame) for value in op.settings().values()):
        return "its parameters have one value for each frame"
    if op.tabled:
        return "its parameters have one value for each sample of a call"
    return ""


class _Scaling(NamedTuple):
    """Scaling of one axis, in integers.

    Attributes:
        begin: first pixel of the window.
        length: length of the window.
        size: number of pixels that the window is scaled to.
        first: first output pixel among these.
        pixels: number of output pixels.
    """

    begin: int
    length: int
    size: int
    first: int
    pixels: int


@dataclass(frozen=True)
class Framing:
    """Geometry of an output frame.

    Attributes:
        crop: (x, y, width, height) in the oriented frame; in the reader's output, if the reader scales.
        mirror: whether the result is mirrored left to right.
        window: part of the crop to scale; None if nothing is scaled.
        size: (width, height) that the window is scaled to.
        part: crop of the scaled frame; None for all of it.
    """

    crop: PixelBox
    mirror: bool = False
    window: PixelBox | None = None
    size: tuple[int, int] | None = None
    part: PixelBox | None = None

    @classmethod
    def of(cls, output: OutputSpec, height: int, width: int) -> Framing:
        """Return the geometry of a reader's output."""
        y, x, *_ = (0, 0) if output.crop is None or scales(output) else output.crop
        return cls((x, y, width, height), output.mirror)

    def after(self, mapping: Mapping, *, resampled: bool) -> Framing:
        """Return the geometry with an operator applied after it."""
        return self._scaled(mapping) if resampled else self._moved(mapping)

    def output(self, plain: OutputSpec, **values: Any) -> OutputSpec:
        """Return the output specification of this geometry; colors are rounded before they are resampled."""
        fields: dict[str, Any] = {"mirror": self.mirror, **values}
        if scales(plain):
            fields["part"] = transposed(self.crop)
        else:
            boxes = {"crop": self.crop, "window": self.window, "size": self.size, "part": self.part}
            fields |= {name: transposed(box) for name, box in boxes.items()}
        if self.window is not None:
            fields["rounded"] = "uint16" if plain.is_float else plain.dtype
        return replace(plain, **fields)

    @property
    def _shown(self) -> PixelBox:
        """The box that further crops are relative to, in its own coordinates."""
        if self.size is None:
            return self.crop
        return self.part or (0, 0, *self.size)

    def _moved(self, mapping: Mapping) -> Framing:
        x, y, width, _ = self._shown
        (across, _, begin), (_, _, top), _ = mapping.matrix.tolist()
        mirrored, left = across < 0, round(begin)
        left -= mapping.width if mirrored else 0
        if self.mirror:
            left = width - left - mapping.width
        box = (x + left, y + round(top), mapping.width, mapping.height)
        mirror = self.mirror != mirrored
        if self.size is None:
            return Framing(box, mirror)
        return replace(self, part=box, mirror=mirror)

    def _scaled(self, mapping: Mapping) -> Framing:
        *_, width, height = self.crop
        (zoom_x, _, left), (_, zoom_y, top), _ = mapping.matrix.tolist()
        across = _scaling(zoom_x, left, mapping.width, width)
        down = _scaling(zoom_y, top, mapping.height, height)
        if self.mirror:
            begin, first = width - across.begin - across.length, across.size - across.first - across.pixels
            across = across._replace(begin=begin, first=first)
        size = across.size, down.size
        part = (across.first, down.first, across.pixels, down.pixels)
        return replace(
            self,
            mirror=self.mirror != (zoom_x < 0),
            window=(across.begin, down.begin, across.length, down.length),
            size=size,
            part=None if part == (0, 0, *size) else part,
        )


def scales(output: OutputSpec) -> bool:
    """Return whether an output scales frames."""
    return any(side is not None for side in (output.size, output.short_side, output.max_side))


def _scaling(across: float, begin: float, pixels: int, length: int) -> _Scaling:
    """Return the integer scaling of an axis: a window of whole pixels, or a crop of the scaled axis in whole pixels."""
    step = abs(float(across))
    start = float(begin) if across > 0 else float(begin) - step * pixels
    if _is_whole(start) and _is_whole(step * pixels):
        return _Scaling(round(start), round(step * pixels), pixels, 0, pixels)
    return _Scaling(0, length, round(length / step), round(start / step), pixels)


def _is_whole(coordinate: float) -> bool:
    return abs(coordinate - round(coordinate)) < _INTEGER_TOLERANCE


@dataclass(frozen=True)
class PixelAffine:
    """Map of pixel values that operators add up to: ``out = gain * in + offset`` for each channel.

    Attributes:
        gain: factor of each channel.
        offset: offset of each channel.
        dtype: dtype of the result.
        plain: dtype of the reader's values.
    """

    gain: tuple[float, ...]
    offset: tuple[float, ...]
    dtype: str
    plain: str

    @classmethod
    def of(cls, output: OutputSpec) -> PixelAffine:
        """Return the identity, for the output of a reader."""
        return cls((1.0,) * output.channels, (0.0,) * output.channels, output.dtype, output.dtype)

    @property
    def changed(self) -> bool:
        """Whether values or their dtype differ from the reader's."""
        return self != replace(
            self, gain=(1.0,) * len(self.gain), offset=(0.0,) * len(self.gain), dtype=self.plain
        )

    def variable(self, op: Any) -> str:
        """Return why the map of an operator is not constant, as a clause; "" if it is."""
        sampled = [
            name for name in (*(q.name for q, _, _ in op.distributions), *op.nodes) if name in _SAMPLED
        ]
        if sampled:
            return f"its {sampled[0]} is sampled"
        result: ValueMap | None = op.value_map()
        if result is None:
            return "it computes statistics of its input"
        counts = {len(result.mean), len(result.stddev)}
        if not counts <= {1, len(self.gain)}:
            return f"its mean and std are not those of {len(self.gain)} channels"
        return ""

    def after(self, op: Any) -> PixelAffine:
        """Return the map with that of an operator applied after it."""
        result: ValueMap = op.value_map()
        mean, stddev = (np.resize(values, len(self.gain)) for values in (result.mean, result.stddev))
        factor = float(result.scale) / np.sqrt(np.square(stddev) + result.epsilon)
        gain = factor * self.gain
        offset = (np.array(self.offset) - mean) * factor + float(result.shift)
        return replace(self, gain=_numbers(gain), offset=_numbers(offset), dtype=result.dtype)

    def refusal(self, op: Any, output: OutputSpec) -> str:
        """Return why a conversion cannot apply an operator after this map, as a clause; "" if it can."""
        result = self.after(op)
        if output.color == "YCbCr":
            return "the conversion does not normalize YCbCr"
        if self.plain not in _PEAKS:
            return "the reader's values are floats already"
        if result.dtype not in ("float16", "float32"):
            return f"its result is {result.dtype}, and the conversion gives changed values as floats"
        if self.dtype == "float16":
            return "another operator has rounded values to float16"
        least = 1 / (_PEAKS[self.plain] * float(STD.lo or 1e-6))
        if not all(0 < gain <= least for gain in result.gain):
            return "its factor is not in the range of the conversion"
        return ""

    def fields(self, output: OutputSpec) -> dict[str, Any]:
        """Return the fields of an output specification that apply this map."""
        if not self.changed:
            return {"dtype": output.dtype}
        peak = _PEAKS[self.plain]
        pairs = list(zip(self.gain, self.offset, strict=True))
        mean = tuple(-offset / (gain * peak) for gain, offset in pairs)
        return {"dtype": self.dtype, "mean": mean, "std": tuple(1 / (gain * peak) for gain, _ in pairs)}


def _numbers(values: Iterable[Any]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
