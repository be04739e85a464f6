"""Labels: integers or class names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from numbers import Integral
from typing import Any, Final

from ..errors import ParameterError
from ..param import listed

__all__ = ["NO_LABEL", "LabelParser", "nearest"]

NO_LABEL: Final = -1
"""The label of a video without one."""

_NUMBER = re.compile(r"\s*[+-]?[0-9]+\s*")
_LIMIT = 1 << 63
_LONGEST = 1000  # characters of a number; Python refuses to read some thousands


class LabelParser:
    """Turns what a user wrote into a label: a whole number.

    Args:
        classes: the names of the classes in the order of their numbers; None if labels are just numbers.

    Attributes:
        classes: the names; none where labels are just numbers.

    Raises:
        ParameterError: the classes are not a list of different names.
    """

    def __init__(self, classes: Iterable[str] | None) -> None:
        allowed = "a list of class names"
        names = () if classes is None else tuple(listed("classes", classes, allowed))
        if classes is not None and not names:
            raise ParameterError(f"classes={classes!r} is not valid", allowed=allowed)
        self._numbers: dict[str, int] = {}
        for name in names:
            if not isinstance(name, str):
                raise ParameterError(f"the class {name!r} is not valid", allowed="a text")
            if name in self._numbers:
                raise ParameterError(f"classes names {name!r} twice", allowed="each class once")
            self._numbers[name] = len(self._numbers)
        self.classes = names

    def __call__(self, value: Any) -> int:
        """The number of a class named ``value``, else ``value`` as a number; -1 stands for no label.

        Raises:
            ParameterError: it is neither, or no class has that number.
        """
        if isinstance(value, str) and (known := self._numbers.get(value.strip())) is not None:
            return known
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole and not (isinstance(value, str) and _NUMBER.fullmatch(value)):
            raise self._error(f"the label {value!r} is not a whole number", value)
        number = _LIMIT if isinstance(value, str) and len(value) > _LONGEST else int(value)
        if self.classes and not NO_LABEL <= number < len(self.classes):
            raise self._error(f"the label {value} is the number of no class", value)
        if number < NO_LABEL:
            raise self._error(f"the label {value} is negative", value)
        if not number < _LIMIT:
            raise self._error(f"the label {value} does not fit into 64 bits", value)
        return number

    def _error(self, fact: str, value: Any) -> ParameterError:
        if not self.classes:
            return ParameterError(
                fact,
                allowed="whole numbers, -1 for no label",
                advice="If labels are class names, give classes=[…]",
            )
        some = ", ".join(repr(name) for name in self.classes[:10]) + (", …" if len(self.classes) > 10 else "")
        meant = nearest(str(value), self.classes)
        return ParameterError(
            fact,
            allowed=f"{some}, or 0 to {len(self.classes) - 1}, or -1 for no label",
            advice=f"Perhaps {meant!r} was meant" if meant else None,
        )


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant, or ""."""
    folded = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.strip().lower(), folded, n=1, cutoff=0.7)
    return folded[close[0]] if close else ""
