"""Sound of a file: tracks, their clock, decoding of any range to the sample, and resampling.

It imports what reads and probes a source, and nothing of frames. A packet's samples have a place on the track's clock
that follows from the packets alone, so any range equals the slice of the whole track, bit for bit.
"""

from __future__ import annotations

__all__: list[str] = []
