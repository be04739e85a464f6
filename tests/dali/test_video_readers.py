"""``fn.readers.video``: which frames its sequences have; the figures are DALI 2.4's for videos of 48 and 24 frames."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe.dali import fn
from tests.dali.conftest import run
from tests.support.media import made


def frames_of(batch_size=1, videos=("h264", "h264_ts_second"), **options):
    """Frame numbers and timestamps of the sequences of a batch."""

    def reader():
        return fn.readers.video(
            filenames=[str(made(name)) for name in videos],
            enable_frame_num="sequence",
            enable_timestamps=True,
            **options,
        )[1:]

    numbers, times = run(reader, batch_size=batch_size)[0]
    assert numbers.dtype.name == "INT32"
    return np.asarray(numbers.as_array()).tolist(), np.asarray(times.as_array())


@pytest.mark.parametrize("step", [{}, {"step": -1}, {"step": 0}])
def test_sequences_follow_one_another_by_default(step):
    found, _ = frames_of(batch_size=4, sequence_length=4, stride=3, videos=("h264",), **step)
    assert [numbers[0] for numbers in found] == [0, 12, 24, 36]


@pytest.mark.parametrize(
    ("mode", "last"),
    [("constant", [45, 47, -1, -1]), ("edge", [45, 47, 47, 47]), ("repeat", [45, 47, 47, 47])],
)
def test_padded_frames_have_the_number_of_the_frame_that_they_repeat(mode, last):
    options = {"sequence_length": 4, "stride": 2, "step": 45, "pad_mode": mode, "videos": ("h264",)}
    found, times = frames_of(batch_size=2, **options)
    assert found == [[0, 2, 4, 6], last]
    assert times[1] == pytest.approx([-1 if number < 0 else times[0, 1] / 2 * number for number in last])


def test_uniform_samples_reach_from_the_first_to_the_last_frame():
    found, _ = frames_of(batch_size=2, sequence_length=5, uniform_sample=True, stride=7, step=3)
    assert found == [[0, 12, 24, 35, 47], [0, 6, 12, 17, 23]]
    found, _ = frames_of(batch_size=1, sequence_length=1, uniform_sample=True)
    assert found == [[0]]
