"""Frames and sizes for Qwen's models, against numbers that the published qwen-vl-utils computed.

``qwen_vl_utils.json`` holds arguments of ``smart_nframes`` and ``torch.linspace`` as the package calls them, with the
number of frames and the CRC-32 of their numbers (int64, little-endian); and arguments and results of ``smart_resize``.
"""

from __future__ import annotations

import json
import zlib
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from seqpipe.errors import FrameRangeError, ParameterError
from seqpipe.sampling import QwenFrames, Sampler, Span, qwen_vl, smart_resize

TABLE = json.loads(Path(__file__).with_name("qwen_vl_utils.json").read_text(encoding="utf-8"))


def test_frames_are_those_of_the_published_package():
    for *arguments, count, checksum in TABLE["frames"]:
        frames = qwen_vl(*arguments)
        assert (len(frames), zlib.crc32(frames.astype("<i8").tobytes())) == (count, checksum), arguments


def test_sizes_are_those_of_the_published_package():
    for *arguments, height, width in TABLE["sizes"]:
        assert smart_resize(*arguments) == (height, width), arguments


@given(
    st.integers(2, 400_000), st.floats(1, 120), st.floats(0.1, 30), st.integers(1, 30), st.integers(2, 1000)
)
def test_frames_are_an_even_number_spread_from_the_first_to_the_last(total, rate, fps, least, most):
    frames = qwen_vl(total, rate, fps, least, most)
    assert len(frames) % 2 == 0
    assert 2 <= len(frames) <= min(total, most)
    assert len(frames) >= min(least, total // 2 * 2, most // 2 * 2)
    assert (frames[0], frames[-1]) == (0, total - 1)
    exact = [Fraction(i * (total - 1), len(frames) - 1) for i in range(len(frames))]
    slack = Fraction(1, 2) + Fraction(total, 2**22)  # the half step of rounding, and float32
    assert all(abs(f - e) <= slack for f, e in zip(frames.tolist(), exact, strict=True))


@given(st.integers(1, 5000), st.integers(1, 5000), st.sampled_from([14, 28, 32]))
def test_sizes_are_whole_tokens_within_the_bounds(height, width, factor):
    assume(max(height, width) <= 200 * min(height, width))
    high, wide = smart_resize(height, width, factor, 16 * factor**2, 4096 * factor**2)
    assert high % factor == wide % factor == 0
    assert 16 * factor**2 <= high * wide <= 4096 * factor**2


@given(
    st.integers(0, 50),
    st.integers(2, 3000),
    st.sampled_from([(24, 1), (30000, 1001), (25, 1), (60, 1), (10, 1)]),
    st.sampled_from([None, 1000, 90_000, 1_000_000]),
)
@example(0, 180, (60, 1), 1000)
def test_the_rate_of_a_video_is_exact_behind_a_rounded_clock(first, count, rate, ticks):
    fps, total = Fraction(*rate), first + count + 9
    exact = [i / fps for i in range(total)]
    times = np.array([float(t if ticks is None else Fraction(round(t * ticks), ticks)) for t in exact])
    sampler = QwenFrames(fps=2.0)
    assert isinstance(sampler, Sampler)
    clip = sampler.clip(Span(first, first + count, times), 0)
    np.testing.assert_array_equal(clip.frames, first + qwen_vl(count, float(fps)))


def test_errors_name_the_argument():
    with pytest.raises(FrameRangeError, match="total_frames=1 gives no pair"):
        qwen_vl(1, 30)
    with pytest.raises(ParameterError, match="video_fps=0"):
        qwen_vl(10, 0)
    with pytest.raises(ParameterError, match="max_frames=1"):
        qwen_vl(10, 30, max_frames=1)
    with pytest.raises(ParameterError, match="2010x10 is too narrow"):
        smart_resize(2010, 10)
    with pytest.raises(ParameterError, match="min_pixels=900 and max_pixels=100 are no range"):
        smart_resize(100, 100, 28, 900, 100)
    with pytest.raises(ParameterError, match="max_pixels=1000 has no room for 20x2000"):
        smart_resize(20, 2000, 28, 1, 1000)
