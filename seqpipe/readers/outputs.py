"""Outputs: an output specification for each sample, such as a random window, applied by the conversion."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from ..errors import ParameterError, SeqpipeError
from ..video.convert.output import OutputSpec
from .selection import Catalog, SampleRequest

__all__ = ["Outputs", "SampleGroup", "fill_in", "group_of"]

Outputs: TypeAlias = Callable[[Seq[SampleRequest], int], Seq[OutputSpec]]
"""What the pictures of some samples of an epoch are to be, one value for each; asked again for the same ones it must
answer the same."""

_PEAKS: Final = {"uint8": 255, "uint16": 65535, "float16": 1, "float32": 1}


class SampleGroup(NamedTuple):
    """Samples that are read together, and what is made of them.

    Attributes:
        samples: all of them.
        failed: by place, why a sample cannot be read at all.
        outputs: for each sample.
        shapes: of the pictures of each; empty of those that failed.
        broken: why no output could be said.
    """

    samples: tuple[SampleRequest, ...]
    failed: dict[int, SeqpipeError]
    outputs: tuple[OutputSpec, ...]
    shapes: tuple[tuple[int, ...], ...]
    broken: SeqpipeError | None = None

    @property
    def size(self) -> int:
        """The bytes that their pixels will hold."""
        parts = zip(self.samples, self.outputs, self.shapes, strict=True)
        return sum(
            len(sample.frames) * math.prod(shape) * np.dtype(output.dtype).itemsize
            for sample, output, shape in parts
        )

    @property
    def common(self) -> tuple[tuple[int, ...], str] | None:
        """The shape of all pictures, and the type of their values; None if they have no common one."""
        kinds = {
            (shape, output.dtype, output.layout)
            for shape, output in zip(self.shapes, self.outputs, strict=True)
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
    """Samples with what is made of them.

    Args:
        samples: all of them.
        failed: by place, why a sample cannot be read at all.
        catalog: the dataset's videos.
        plain: the dataset's own output.
        outputs: what is made instead.
        epoch: theirs.
    """
    sound = [sample for place, sample in enumerate(samples) if place not in failed]
    specs = {}
    try:
        if outputs is not None:
            made = _asked(outputs, sound, epoch) if sound else ()
            specs = dict(zip((sample.index for sample in sound), made, strict=True))
        shapes = tuple(
            () if place in failed else _shape(specs.get(sample.index, plain), catalog, sample)
            for place, sample in enumerate(samples)
        )
    except SeqpipeError as error:
        return SampleGroup(samples, failed, (plain,) * len(samples), ((),) * len(samples), error)
    return SampleGroup(samples, failed, tuple(specs.get(sample.index, plain) for sample in samples), shapes)


def _asked(outputs: Outputs, samples: list[SampleRequest], epoch: int) -> tuple[OutputSpec, ...]:
    if not callable(outputs):
        raise ParameterError(
            f"outputs={outputs!r} is not valid",
            allowed="a function of samples and their epoch, which gives an OutputSpec for each",
        )
    given = outputs(samples, epoch)
    made = tuple(given) if isinstance(given, Iterable) else (given,)
    wrong = [type(one).__name__ for one in made if not isinstance(one, OutputSpec)]
    if wrong or len(made) != len(samples):
        raise ParameterError(
            f"outputs gave {f'a {wrong[0]}' if wrong else f'{len(made)} values'} for {len(samples)} samples",
            allowed="an OutputSpec for each of them",
        )
    return made


def _shape(output: OutputSpec, catalog: Catalog, sample: SampleRequest) -> tuple[int, ...]:
    try:
        return output.frame_shape(catalog.facts(sample.video))
    except ParameterError as error:
        error.source = error.source or sample.source
        raise


def fill_in(value: float, plain: OutputSpec, output: OutputSpec) -> float | tuple[float, ...]:
    """A fill value of one output as another one has it: the same color, as its dtype, mean and std make it.

    Args:
        value: of the pixels that no video has.
        plain: the output in which that is meant.
        output: the one in which it is wanted.

    Returns:
        One number, or one for each channel where these differ.
    """
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
        made = tuple((part - mean) / std for part, mean, std in kinds)
    else:
        peak = _PEAKS[output.dtype]
        made = tuple(float(min(max(round(part * peak), 0), peak)) for part in fractions)
    return made[0] if len(set(made)) == 1 else made


def _statistics(output: OutputSpec) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation for each channel."""
    mean, std = (
        given if isinstance(given, tuple) else (absent,) * output.channels
        for given, absent in ((output.mean, 0.0), (output.std, 1.0))
    )
    return mean, std
