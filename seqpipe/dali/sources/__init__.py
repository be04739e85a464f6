"""External sources of DALI programs: the user's code, in processes where asked, and batches that are pushed."""

from __future__ import annotations

__all__: list[str] = []
