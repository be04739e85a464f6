"""Operators on the frames of sequences: extract, rearrange, slice, reverse, subsample, difference.

Frame numbers and timestamps of the result of a Sequence; padding (number -1, no timestamp) stays padding:

| operator | frames of the result | numbers and timestamps |
|---|---|---|
| ``element_extract(element_map=(0, -1, 0))`` | single frames, each a result without the axis F | one of each frame |
| ``sequence_rearrange(new_order=(2, 0, 0))`` | any order, with omissions and repetitions | those of the frames |
| ``frame_slice(start=1, stop=-1, step=2)`` | a slice, as in Python | those of the frames |
| ``subsample(stride=2, offset=(0, 1))`` | evenly spaced, from a first frame that may be sampled | those of the frames |
| ``reverse()`` | from the last to the first | those of the frames, descending |
| ``temporal_jitter(offset=(-1, 1))`` | each frame or a close one | those of the frames taken |
| ``frame_difference(lag=1)`` | F - lag differences | those of the later frames |
| ``optical_flow(stride=1)`` | F - stride: the motion from each to a later frame | those of the earlier frames |
| ``stack(a, b, axis_name="F")`` | single frames as one sequence | concatenated |
| ``cat(a, b, axis_name="F")`` | sequences as one | concatenated |

The affine of a volume follows its slices, if those of the result are evenly spaced.

Imports `core`, `call`, `cuda`.
"""

from __future__ import annotations

__all__: list[str] = []
