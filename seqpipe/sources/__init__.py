"""What data sets are made of: videos, folders of frames, volumes, the user's own items and iterables, LeRobot's data.

Each function returns a :class:`seqpipe.Dataset`, whose model is :mod:`seqpipe.dataset`; ``takes`` says what is taken of
each video or volume, ``options`` how it is decoded, prepared and cached. All names are exported by ``seqpipe``.
"""

from __future__ import annotations

__all__: list[str] = []
