"""Videos: what is in a file, which packets a frame needs, decoding them, and turning surfaces into pixels.

Bottom up: ``source`` (bytes) → ``probe`` (the stream) → ``build``/``index``/``cache`` (packets) → ``facts`` and
``register`` (what sampling needs of very many files) → ``plan`` (which to feed) → ``packets`` (their bytes) → ``cpu``
(a decoder) → ``decode`` (sound frames, lost ones named) → ``convert`` (pixels) → ``engine`` (threads) and ``reader``
(one video for a person).
"""

from __future__ import annotations

__all__: list[str] = []
