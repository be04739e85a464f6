"""Published augmentation policies: RandAugment, TrivialAugment, AutoAugment; sampled once for a sequence.

``policy.drawn(epoch=…, index=…)`` returns the steps of a sample.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any, Final

from ...core.cached import cached_property
from ...core.draws import Steps
from ...errors import ParameterError
from ..core.distributions import Number, Table
from ..core.parameters import ANY, param
from ..core.sampling import Outcome
from .base import DrawnStep, Policy, fields
from .published import AUTO, AUTO_BINS, FOUND, NARROW, WIDE

__all__ = ["AutoAugment", "DrawnStep", "RandAugment", "TrivialAugmentWide"]

_MOST: Final = 16  # steps of RandAugment
_PAIR: Final = 2  # steps of AutoAugment


class _Suite(Policy, register=False):
    """Base of policies that sample from a set of steps, some of which may be excluded."""

    num_magnitude_bins: int = param(31, "number of magnitudes of a step", lo=2, hi=1000, drawn=False)
    excluded: tuple[str, ...] | None = param(
        None, "steps to leave out", kind=str, choices=tuple(NARROW), size=ANY
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.names:
            raise ParameterError(
                "all steps are excluded", source=self.name, allowed=f"up to {len(NARROW) - 1} of them"
            )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The steps that are not excluded."""
        return tuple(name for name in self.ranges if name not in (self.excluded or ()))

    @property
    def count(self) -> int:
        """The parameter ``num_magnitude_bins``."""
        return self.num_magnitude_bins


class RandAugment(_Suite):
    """Apply ``n`` steps, each sampled from 14, of magnitude ``m``.

    The policy of E. D. Cubuk and others, 2020, with torchvision's ranges: steps are sampled with replacement, and
    translations, shears, rotations and changes of brightness, color, contrast and sharpness have a random sign.
    ``m`` may be a range.

    Steps are defined as in Pillow, which torchvision follows: contrast changes around the mean luma of a frame,
    sharpness blends with Pillow's ``SMOOTH`` filter, translations are by whole pixels. Results are rounded, where
    Pillow truncates. Two steps differ: color is ``fn.saturation``, whose grays differ by up to 0.7, and equalize is
    ``fn.equalize``, OpenCV's as in DALI; Pillow's rounds the number of pixels per value, so that small images become
    about 4 % brighter. ``interp_type="nearest", fill_value=0`` are torchvision's defaults.
    """

    n: int = param(2, "number of steps", lo=1, hi=_MOST, drawn=False)
    m: Number = param(9, "magnitude of all steps, from 0 to num_magnitude_bins - 1", kind=int, lo=0)

    ranges = NARROW
    derived = (("steps", _MOST), ("signs", _MOST))
    examples = (
        {"n": 2, "m": 9, "seed": 1},
        {"n": 3, "m": (3, 12), "num_magnitude_bins": 13, "interp_type": "nearest", "fill_value": 0.0},
        {"excluded": ("equalize", "auto_contrast"), "max_translate_rel": 0.2, "p": 0.8, "seed": 7},
    )
    errors = (
        ({"n": 0}, "n=0 is not valid; allowed: a whole number from 1 to 16"),
        ({"m": 31}, "m=31 is not valid; allowed: a whole number from 0 to 30, less than num_magnitude_bins"),
        ({"m": (5, 40)}, "m=40 is not valid; allowed: a whole number from 0 to 30"),
        ({"excluded": ("blur",)}, "excluded='blur' is not valid; allowed: 'identity', 'shear_x'"),
        ({"excluded": tuple(NARROW)}, "rand_augment: all steps are excluded; allowed: up to 13 of them"),
        ({"per_frame": True}, "per_frame asks for a value for each frame; allowed: one for a sequence"),
        (
            {"max_translate_abs": 9.0, "max_translate_rel": 0.1},
            "max_translate_abs and max_translate_rel given; allowed: one of max_translate_abs, max_translate_rel",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        most = self.num_magnitude_bins - 1
        if (greatest := _greatest(self.m)) > most:
            raise ParameterError(
                f"m={greatest:g} is not valid",
                source=self.name,
                allowed=f"a whole number from 0 to {most}, less than num_magnitude_bins",
            )

    @cached_property
    def steps(self) -> Steps:
        """Random numbers for the steps and signs, for the maximum of steps, so that they do not depend on ``n``."""
        some: Steps = (0,) * self.n
        some = some if self.n == _MOST else (*some, self.n - _MOST)
        return some * 2

    def outcome(self, numbers: Seq[float]) -> Outcome:
        """Return steps and signs."""
        n, count = self.n, len(self.names)
        steps = [int(number * count) for number in numbers[:n]]
        return tuple(steps), tuple([-1 if number < 0.5 else 1 for number in numbers[n:]])

    def _bins(self, p: Any) -> list[float]:
        """Return the one bin of all steps."""
        return [min(p.m, self.num_magnitude_bins - 1)] * self.n


class TrivialAugmentWide(_Suite):
    """Apply one step, sampled from 14, of a sampled magnitude.

    The policy of S. G. Müller and F. Hutter, 2021, with the wide ranges, whose translations are up to 32 pixels
    whatever the size of the image. Steps are defined as for :class:`RandAugment`.
    """

    ranges = WIDE
    relative = False
    derived = fields(1)
    examples = (
        {"seed": 3},
        {"num_magnitude_bins": 11, "max_translate_rel": 0.4, "fill_value": None, "seed": 5},
        {"excluded": ("solarize", "posterize"), "max_translate_abs": 3.0},
    )
    errors = (
        (
            {"num_magnitude_bins": 1},
            "num_magnitude_bins=1 is not valid; allowed: a whole number from 2 to 1000",
        ),
        ({"interp_type": "area"}, "interp_type='area' is not valid; allowed: 'nearest', 'linear', 'cubic'"),
    )

    @cached_property
    def steps(self) -> Steps:
        """Random numbers for the step, its bin and its sign."""
        return len(self.names), self.num_magnitude_bins, 2

    def outcome(self, numbers: Seq[float]) -> Outcome:
        """Return step, bin and sign."""
        step, bin_index, sign = numbers
        return (step,), (bin_index,), (1 - 2 * sign,)


class AutoAugment(Policy):
    """Apply a pair of steps, sampled from 25 that were found by search, each with its probability and magnitude.

    The policies of E. D. Cubuk and others, 2019, for ImageNet, CIFAR-10 and SVHN, with torchvision's ranges of ten
    magnitudes; geometric steps and changes of brightness, color, contrast and sharpness have a random sign. Steps are
    defined as for :class:`RandAugment`.
    """

    policy: str = param("imagenet", "name of the published policy", choices=tuple(FOUND))

    ranges = AUTO
    derived = fields(_PAIR)
    examples = (
        {"seed": 2},
        {"policy": "cifar10", "interp_type": "nearest", "seed": 4},
        {"policy": "svhn", "max_translate_abs": 2.0, "seed": 4},
    )
    errors = (({"policy": "coco"}, "policy='coco' is not valid; allowed: 'imagenet', 'cifar10', 'svhn'"),)
    names = tuple(ranges)
    count = AUTO_BINS

    @cached_property
    def steps(self) -> Steps:
        """Random numbers for the pair, whether each of its steps acts, and their signs."""
        return len(FOUND[self.policy]), *[0] * _PAIR, *[2] * _PAIR

    def outcome(self, numbers: Seq[float]) -> Outcome:
        """Return the steps of the pair that act, their bins, and their signs."""
        pair = self._pairs[int(numbers[0])]
        steps = [
            step if number < probability else -1
            for (step, probability, _), number in zip(pair, numbers[1:], strict=False)
        ]
        return (
            tuple(steps),
            tuple([bin_index for _, _, bin_index in pair]),
            tuple([1 - 2 * sign for sign in numbers[1 + _PAIR :]]),
        )

    @cached_property
    def _pairs(self) -> list[list[tuple[int, float, int]]]:
        """The published pairs: index, probability and bin of each step."""
        number = self.names.index
        return [
            [(number(name), share, bin_index) for name, share, bin_index in pair]
            for pair in FOUND[self.policy]
        ]


def _greatest(value: Any) -> float:
    """Return the greatest value of a parameter, as far as it is known."""
    if isinstance(value, Table):
        return float(value.values.max(initial=0))
    if isinstance(value, (int, float)):
        return value
    support = value.support()
    return 0 if support is None or support[1] is None else float(support[1])
