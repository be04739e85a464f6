"""Files of video out: encoding of sequences, cuts and training copies, by FFmpeg through PyAV.

It may import all that reads videos.
"""

from __future__ import annotations

__all__: list[str] = []
