"""Operators on the frames of sequences: extract, rearrange, slice, reverse, subsample, difference.

What the result has of the frame numbers and the timestamps of a Sequence; padding (number -1, no time) stays padding:

| operator | its frames | numbers and times |
|---|---|---|
| ``element_extract(element_map=(0, -1, 0))`` | single ones, each a result without the axis F | of each, one |
| ``sequence_rearrange(new_order=(2, 0, 0))`` | any order; some may be left out or repeated | those of the frames |
| ``frame_slice(start=1, stop=-1, step=2)`` | a run of them, as Python's slices | those of the frames |
| ``subsample(stride=2, offset=(0, 1))`` | evenly spaced, from a first one that may be drawn | those of the frames |
| ``reverse()`` | from the last to the first | those of the frames, descending |
| ``temporal_jitter(offset=(-1, 1))`` | each, or one near it | those of the frames that were taken |
| ``frame_difference(lag=1)`` | F - lag: each minus the one before it | those of the later frames |
| ``optical_flow(stride=1)`` | F - stride: the motion from each to a later one | those of the earlier frames |
| ``stack(a, b, axis_name="F")`` | single frames as one sequence | one after the other |
| ``cat(a, b, axis_name="F")`` | sequences as one | one after the other |

The affine of a volume follows its slices, where those that are left are evenly spaced.

Imports `core`, `call`, `cuda`.
"""

from __future__ import annotations

__all__: list[str] = []
