"""Outputs: an output specification for each sample, such as a random window, applied by the conversion."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from ..errors import ParameterError, SeqpipeError, described_type
from ..video.convert.output import DType, OutputSpec
from .selection import Catalog, SampleRequest

__all__ = ["Outputs", "SampleGroup", "fill_in", "group_of", "luma_of"]

Outputs: TypeAlias = Callable[[Seq[SampleRequest], int], Seq[OutputSpec]]
"""A function of sample requests and their epoch that returns one output specification for each request.

It must return equal values for equal arguments."""

_PEAKS: Final = {"uint8": 255, "uint16": 65535, "float16": 1, "float32": 1}


class SampleGroup(NamedTuple):
    """Samples that are read together, and their outputs.

    Attributes:
        samples: the samples.
        failed: errors of samples whose frames are not known, by position.
        outputs: output specification of each sample.
        shapes: shape of the frames of each sample; empty for failed samples.
        broken: the error that ``outputs`` raised, or None.
    """

    samples: tuple[SampleRequest, ...]
    failed: dict[int, SeqpipeError]
    outputs: tuple[OutputSpec, ...]
    shapes: tuple[tuple[int, ...], ...]
    broken: SeqpipeError | None = None

    @property
    def size(self) -> int:
        """Size of the samples' pixels in bytes."""
        parts = zip(self.samples, self.outputs, self.shapes, strict=True)
        return sum(
            len(sample.frames) * math.prod(shape) * np.dtype(output.dtype).itemsize
            for sample, output, shape in parts
        )

    @property
    def common(self) -> tuple[tuple[int, ...], str] | None:
        """Shape and dtype that all sequences have in common; None if they differ."""
        kinds = {
            ((len(sample.frames), *shape), output.dtype, output.layout)
            for sample, shape, output in zip(self.samples, self.shapes, self.outputs, strict=True)
        }
        if self.failed or self.broken or len(kinds) != 1:
            return None
        shape, dtype, _ = kinds.pop()
        return shape, dtype


def group_of(
    samples: tuple[SampleRequest, ...],
    failed: dict[int, SeqpipeError],
    catalog: Catalog,
    plain: OutputSpec,
    outputs: Outputs | None,
    epoch: int,
) -> SampleGroup:
    """Combine samples with their output specifications."""
    readable = [sample for number, sample in enumerate(samples) if number not in failed]
    specs = {}
    try:
        if outputs is not None:
            returned = _call_outputs(outputs, readable, epoch) if readable else ()
            specs = dict(zip((sample.index for sample in readable), returned, strict=True))
        shapes = tuple(
            () if number in failed else _shape(specs.get(sample.index, plain), catalog, sample)
            for number, sample in enumerate(samples)
        )
    except SeqpipeError as error:
        return SampleGroup(samples, failed, (plain,) * len(samples), ((),) * len(samples), error)
    return SampleGroup(samples, failed, tuple(specs.get(sample.index, plain) for sample in samples), shapes)


def _call_outputs(outputs: Outputs, samples: list[SampleRequest], epoch: int) -> tuple[OutputSpec, ...]:
    if not callable(outputs):
        raise ParameterError(
            f"outputs={outputs!r} is not valid",
            allowed="a function of samples and their epoch that returns an OutputSpec for each sample",
        )
    result = outputs(samples, epoch)
    specs = tuple(result) if isinstance(result, Iterable) else (result,)
    wrong = [described_type(one) for one in specs if not isinstance(one, OutputSpec)]
    if wrong or len(specs) != len(samples):
        raise ParameterError(
            f"outputs returned {wrong[0] if wrong else f'{len(specs)} values'} for {len(samples)} samples",
            allowed="an OutputSpec for each sample",
        )
    return specs


def _shape(output: OutputSpec, catalog: Catalog, sample: SampleRequest) -> tuple[int, ...]:
    try:
        return output.frame_shape(catalog.facts(sample.video))
    except ParameterError as error:
        error.source = error.source or sample.source
        raise


def luma_of(output: OutputSpec) -> OutputSpec:
    """Return the output of the luma of another output's frames: uint8, with its geometry and layout."""
    rounded: DType | None = None if output.rounded is None else "uint8"
    return replace(output, color="GRAY", dtype="uint8", mean=None, std=None, rounded=rounded)


def fill_in(value: float, plain: OutputSpec, output: OutputSpec) -> float | tuple[float, ...]:
    """Convert a fill value to the same color in the dtype, mean and std of another output."""
    if (plain.dtype, plain.mean, plain.std) == (output.dtype, output.mean, output.std):
        return value
    parts = [value] * plain.channels
    if plain.is_float:
        parts = [value * std + mean for mean, std in zip(*_statistics(plain), strict=True)]
    fractions = [part / _PEAKS[plain.dtype] for part in parts]
    if output.channels < plain.channels:
        fractions = [sum(fractions) / plain.channels]
    if output.is_float:
        kinds = zip(fractions, *_statistics(output), strict=True)
        fills = tuple((part - mean) / std for part, mean, std in kinds)
    else:
        peak = _PEAKS[output.dtype]
        fills = tuple(float(min(max(round(part * peak), 0), peak)) for part in fractions)
    return fills[0] if len(set(fills)) == 1 else fills


def _statistics(output: OutputSpec) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel."""
    mean, std = (
        value if isinstance(value, tuple) else (default,) * output.channels
        for value, default in ((output.mean, 0.0), (output.std, 1.0))
    )
    return mean, std
