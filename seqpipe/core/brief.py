"""Brief: a repr of dataclasses that shows what differs from the defaults."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

__all__ = ["Brief"]


class Brief:
    """Base of dataclasses, declared with ``repr=False``, whose repr leaves out fields that have their default."""

    def __repr__(self) -> str:
        own: Any = self
        given = [field.name for field in fields(own) if getattr(self, field.name) != field.default]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in given)})"
