"""``fn.experimental.inputs.video``: sequences of videos that are fed as bytes."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import VideoReader
from seqpipe.dali import fn, pipeline_def
from seqpipe.errors import ParameterError, UnreadableSourceError
from tests.dali.conftest import ON_CPU
from tests.support.media import made


@pytest.fixture(scope="module")
def videos():
    """Bytes and frames of two videos."""
    paths = [made("h264"), made("hevc")]
    return [(np.fromfile(path, np.uint8), VideoReader(path).frames(range(48)).data) for path in paths]


def pipe_of(length, batch_size=2, depth=2, more=lambda: (), **options):
    def sequences():
        video = fn.experimental.inputs.video(name="V", sequence_length=length, **options)
        return video, *more()

    pipe = pipeline_def(sequences, batch_size=batch_size, prefetch_queue_depth=depth, **ON_CPU)()
    pipe.build()
    return pipe


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_batches_follow_one_another_and_end_with_the_video(videos, depth):
    pipe = pipe_of(7, batch_size=3, depth=depth)
    for encoded, _ in videos:
        pipe.feed_input("V", [encoded])
    for _, frames in videos:
        batches = [pipe.run()[0] for _ in range(3)]
        assert [batch.shape() for batch in batches[:2]] == [[(7, *frames.shape[1:])] * 3] * 2
        assert batches[2].shape() == [(6, *frames.shape[1:])]
        assert all(batch.layout() == "FHWC" for batch in batches)
        found = np.concatenate([np.asarray(batch.at(n)) for batch in batches for n in range(len(batch))])
        assert np.array_equal(found, frames)
    with pytest.raises(IndexError, match=r"V: the source has no video for this run\. Pass one"):
        pipe.run()
    pipe.feed_input("V", videos[0][0])
    assert np.array_equal(pipe.run()[0].at(0), videos[0][1][:7])
    pipe.close()


def test_black_frames_complete_the_last_sequence(videos):
    encoded, frames = videos[0]
    pipe = pipe_of(20, last_sequence_policy="pad")
    pipe.feed_input("V", encoded[None])
    pipe.run()
    (last,) = pipe.run()
    assert last.shape() == [(20, *frames.shape[1:])]
    assert np.array_equal(last.at(0)[:8], frames[40:])
    assert not last.at(0)[8:].any()


def test_frames_return_to_the_queue_if_another_source_has_nothing(videos):
    encoded, frames = videos[0]
    pipe = pipe_of(24, more=lambda: (fn.external_source(name="X"),))
    pipe.feed_input("V", encoded.tobytes())
    for _ in range(2):
        with pytest.raises(IndexError, match="X: the source has no batch"):
            pipe.run()
    pipe.feed_input("X", np.zeros((2, 1), np.float32))
    assert np.array_equal(pipe.run()[0].as_array(), frames.reshape(2, 24, *frames.shape[1:]))


def test_a_file_that_is_no_video_costs_its_own_run_only(videos):
    pipe = pipe_of(48, batch_size=1)
    pipe.feed_input("V", [np.arange(1000).astype(np.uint8)])
    pipe.feed_input("V", [videos[1][0]])
    with pytest.raises(UnreadableSourceError, match="not a video that FFmpeg can open"):
        pipe.run()
    assert np.array_equal(pipe.run()[0].at(0), videos[1][1])


def test_refusals(videos):
    pipe = pipe_of(4)
    for batch in ([videos[0][0], videos[1][0]], [np.zeros(10, np.float32)], np.zeros((2, 3, 4), np.uint8)):
        with pytest.raises(
            ParameterError, match=r"V: a batch of \d samples: .*a list with one array of uint8"
        ):
            pipe.feed_input("V", batch)
    with pytest.raises(ParameterError, match=r"last_sequence_policy='edge' is not valid; allowed: 'partial'"):
        pipe_of(4, last_sequence_policy="edge")
    with pytest.raises(ParameterError, match="sequence_length is missing"):
        pipe_of(None)
    with pytest.raises(ParameterError, match=r"sequence_length=0"):
        pipe_of(0)
