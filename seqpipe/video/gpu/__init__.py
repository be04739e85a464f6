"""Surfaces in device memory become pictures there. Light: CuPy is loaded when the first converter is made."""

from __future__ import annotations

__all__: list[str] = []
