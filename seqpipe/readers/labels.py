"""Parsing of labels into class numbers, sets of classes, numbers, vectors or strings.

============= ================================ =====================================================
label_type    a label is                       labels of a batch of N
============= ================================ =====================================================
``"class"``   a whole number or a class name   int64 ``(N,)``; -1 for none
``"classes"`` several of these                 float32 ``(N, classes)`` of 0 and 1; all 0 for none
``"number"``  a number                         float32 ``(N,)``; NaN for none
``"vector"``  numbers, as many in each label   float32 ``(N, numbers)``; NaN for none
``"text"``    a string                         an array of strings ``(N,)``; "" for none
============= ================================ =====================================================

In a CSV file, classes are separated by ``;`` or ``|`` (whole numbers also by commas or blanks), the numbers of a vector
by ``;``, ``|``, commas or blanks. In a JSONL file both are lists.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from numbers import Integral, Real
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ..core.keywords import nearest
from ..core.param import check_list, choice
from ..errors import ParameterError

__all__ = ["LABEL_TYPE", "NO_LABEL", "LabelParser", "LabelType", "tabulated"]

LabelType: TypeAlias = Literal["class", "classes", "number", "vector", "text"]

LABEL_TYPE: Final = choice("label_type", "Type of the labels", get_args(LabelType))

NO_LABEL: Final = -1
"""The label of a video without one."""

_NUMBER = re.compile(r"\s*[+-]?[0-9]+\s*")
_WHOLE = re.compile(r"[-+0-9\s,;|\[\]]*")
_BETWEEN_NUMBERS = re.compile(r"[\s,;|]+")
_BETWEEN_NAMES = re.compile(r"\s*[;|]\s*")
_LIMIT = 1 << 63
_MAX_NUMBER_LENGTH = 1000  # characters of a number; Python's int() refuses strings of more than 4300 digits


class LabelParser:
    """Converts integers, numeric strings and class names to integer labels.

    Args:
        classes: class names in the order of their labels; None if labels are plain integers.
        label_type: type of the labels.

    Attributes:
        classes: the class names; empty if labels are plain integers.
        label_type: type of the labels.

    Raises:
        ParameterError: ``classes`` is not a list of distinct names, or labels of this type have no classes.
    """

    def __init__(self, classes: Iterable[str] | None, label_type: LabelType = "class") -> None:
        self.label_type: LabelType = LABEL_TYPE.check(label_type)
        if classes is not None and label_type not in ("class", "classes"):
            raise ParameterError(
                f"classes and label_type={label_type!r} exclude one another", advice="Leave classes out"
            )
        allowed = "a list of class names"
        names = () if classes is None else tuple(check_list("classes", classes, allowed))
        if classes is not None and not names:
            raise ParameterError(f"classes={classes!r} is not valid", allowed=allowed)
        self._numbers: dict[str, int] = {}
        for name in names:
            if not isinstance(name, str):
                raise ParameterError(f"the class {name!r} is not valid", allowed="a string")
            if name in self._numbers:
                raise ParameterError(f"classes names {name!r} twice", allowed="each class once")
            self._numbers[name] = len(self._numbers)
        self.classes = names

    def __call__(self, value: Any) -> Any:
        """Return the label that ``value`` stands for; -1 stands for no label.

        Returns:
            An integer; for other label types a tuple of integers, a float, a tuple of floats, or a string.

        Raises:
            ParameterError: ``value`` is not a label of this type.
        """
        if self.label_type == "class":
            return self._number(value)
        if self.label_type == "text":
            return value if isinstance(value, str) else str(value)
        if self.label_type == "number":
            return _float(value)
        if self.label_type == "vector":
            return tuple(_float(item) for item in _split(value, _BETWEEN_NUMBERS))
        if isinstance(value, str) and value.strip() in self._numbers:
            return (self._numbers[value.strip()],)
        items = _split(value, _BETWEEN_NUMBERS if _WHOLE.fullmatch(str(value)) else _BETWEEN_NAMES)
        return tuple(self._number(item) for item in items)

    def _number(self, value: Any) -> int:
        """Return the number of the class named ``value``, else ``value`` as an integer; -1 stands for no label."""
        if isinstance(value, str) and (known := self._numbers.get(value.strip())) is not None:
            return known
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole and not (isinstance(value, str) and _NUMBER.fullmatch(value)):
            kind = "one of the classes" if self.classes else "a whole number"
            raise self._error(f"the label {value!r} is not {kind}", value)
        number = _LIMIT if isinstance(value, str) and len(value) > _MAX_NUMBER_LENGTH else int(value)
        if self.classes and not NO_LABEL <= number < len(self.classes):
            raise self._error(f"the label {value} is not the number of a class", value)
        if number < NO_LABEL:
            raise self._error(f"the label {value} is negative", value)
        if not number < _LIMIT:
            raise self._error(f"the label {value} does not fit into 64 bits", value)
        return number

    def _error(self, fact: str, value: Any) -> ParameterError:
        """Return the error for a label that is no class."""
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
            advice=f"Did you mean {meant!r}?" if meant else None,
        )


def _split(value: Any, separator: re.Pattern[str]) -> list[Any]:
    """Return the items of a list, or of a string of separated items."""
    if isinstance(value, str):
        return [part for part in separator.split(value.strip().strip("[]")) if part]
    return list(value) if isinstance(value, (list, tuple, np.ndarray)) and np.ndim(value) == 1 else [value]


def _float(value: Any) -> float:
    """Return a label as a finite float."""
    try:
        # float() also accepts 1_000 and the digits of all scripts
        is_text = isinstance(value, str) and value.isascii() and "_" not in value
        number = float(value) if is_text or isinstance(value, Real) else None
    except ValueError:
        number = None
    if number is None or isinstance(value, bool) or not math.isfinite(number):
        raise ParameterError(f"the label {value!r} is not a number", allowed="finite numbers")
    return number


def tabulated(labels: Seq[Any], label_type: LabelType, width: int) -> npt.NDArray[Any]:
    """Return labels as an array with an entry for each video; see the table of this module."""
    if label_type == "class":
        return np.array(labels, dtype=np.int64)
    if label_type == "text":
        return np.array(["" if label == NO_LABEL else label for label in labels], dtype=np.str_)
    if label_type == "number":
        return np.array([np.nan if isinstance(label, int) else label for label in labels], dtype=np.float32)
    none = np.nan if label_type == "vector" else 0
    table = np.full((len(labels), width), none, dtype=np.float32)
    for row, label in zip(table, labels, strict=True):
        if isinstance(label, tuple) and label_type == "classes":
            row[[number for number in label if number != NO_LABEL]] = 1
        elif label and isinstance(label, tuple):
            row[:] = label
    return table
