"""Scripts that make the data of the tests and of the documentation."""

from __future__ import annotations

__all__: list[str] = []
