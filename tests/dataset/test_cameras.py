"""Several cameras and signals at the instants of one clock, against a search over all times."""

from __future__ import annotations

import pickle

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqpipe
from data_scripts.frame_code import draw, read
from seqpipe import Camera, Clip, ParameterError, Signal, SourceNotFoundError, UnreadableSourceError, ops
from seqpipe.sources.cameras import _Stream

RATE = 10.0
_UNITS = 1_000_000


def code(camera, number):
    return 100 * (camera + 1) + number


def write_video(path, camera, count, rate=10):
    from fractions import Fraction

    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate, options={"g": "2", "crf": "18", "threads": "1"})
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
        stream.time_base = Fraction(1, rate)
        for number in range(count):
            container.mux(
                stream.encode(av.VideoFrame.from_ndarray(draw(code(camera, number)), format="rgb24"))
            )
        container.mux(stream.encode(None))
    return path


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    """Two videos of 10 and 20 Hz, and a folder of images at 10 Hz that lacks the images 4 and 5."""
    folder = tmp_path_factory.mktemp("rig")
    left = folder / "CAM_LEFT"
    left.mkdir()
    for number in (0, 1, 2, 3, 6, 7, 8, 9, 10, 11):
        name = left / f"n015__CAM_LEFT__{round((100 + number / RATE) * _UNITS)}.png"
        cv2.imwrite(str(name), draw(code(2, number))[..., ::-1])
    return {
        "front": Camera(write_video(folder / "front.mp4", 0, 12), start_s=100.0),
        "wide": Camera(write_video(folder / "wide.mp4", 1, 24, 20), start_s=100.01),
        "left": Camera(left),
    }


def codes(sample, camera):
    return [read(frame) if frame.any() else None for frame in np.asarray(sample[camera])]


def test_frames_and_values_belong_to_the_instants_and_drop_outs_are_marked(rig):
    times = np.arange(99.9, 101.3, 0.04)
    signal = Signal(times, np.stack([times, 2 * times], axis=1))
    labels = Signal([100.0, 100.5], np.array([3, 4]), match="previous")
    recording = {**rig, "pose": signal, "gear": labels}
    with seqpipe.cameras(recording, Clip(3, stride=2, step=1), on_missing="mark", tolerance_s=0.06) as ds:
        assert ds.size == 12 - 4
        sample = ds.sample(1)
        rows = np.array([1, 3, 5])
        np.testing.assert_allclose(sample["timestamp"], 100 + rows / RATE)
        assert codes(sample, "front") == [code(0, n) for n in rows]
        assert codes(sample, "wide") == [code(1, 2 * n) for n in rows]  # 10 ms later, the other 40 ms earlier
        assert codes(sample, "left") == [code(2, 1), code(2, 3), None]
        assert sample["left_is_missing"].tolist() == [False, False, True]
        wanted = 100 + rows / RATE
        np.testing.assert_allclose(sample["pose"], np.stack([wanted, 2 * wanted], axis=1), rtol=1e-6)
        assert sample["gear_is_missing"].tolist() == [
            True,
            True,
            False,
        ]  # 0.1 and 0.3 s after 100.0, then 100.5
        assert sample["gear"].tolist() == [0, 0, 4]
        assert "'left' has nothing at 2 of 12 instants: at 100.400 to 100.500 s" in repr(ds.report())


def test_previous_frames_are_never_later(rig):
    with seqpipe.cameras(rig, match="previous", on_missing="skip") as ds:
        found = [int(codes(ds.sample(n), "wide")[0]) for n in range(ds.size)]
        instants = [float(ds.sample(n)["timestamp"][0]) for n in range(ds.size)]
    numbers = np.array(found) - code(1, 0)
    assert (100.01 + numbers / 20 <= np.array(instants) + 1e-6).all()
    assert 0.0 not in np.round(np.array(instants) - 100, 3)  # before the first frame of the second camera


def test_samples_with_drop_outs_are_left_out_and_batches_shuffle_resume_and_augment(rig):
    ds = seqpipe.cameras([rig, rig], Clip(2, step=1), clock=RATE, on_missing="skip", shuffle=True, seed=1)
    ds = ds.map(ops.Flip(p=0.5)).batch(3)
    with ds, pickle.loads(pickle.dumps(ds)) as copy:
        batches = list(ds.epoch(1))
        # frames 0-1, 1-2, 2-3, then 6-7 to 10-11, of each recording
        assert sum(len(batch["timestamp"]) for batch in batches) == 2 * 8 == ds.size
        assert batches[0]["front"].shape == (3, 2, 96, 128, 3)
        assert sorted(n for batch in batches for n in batch["recording"].tolist()) == [0] * 8 + [1] * 8
        rest = list(copy.resume(batches[0].state))
        assert len(rest) == len(batches) - 1
        for batch, other in zip(rest, batches[1:], strict=True):
            np.testing.assert_array_equal(batch["left"].numpy(), other["left"].numpy())


def test_drop_outs_are_errors_by_name(rig):
    said = r"CAM_LEFT: 'left' has nothing at 2 of 12 instants: at 100\.400 to 100\.500 s; .*on_missing='skip' or 'mark'"
    with pytest.raises(UnreadableSourceError, match=said):
        seqpipe.cameras(rig)


def test_cameras_of_unequal_length_are_named(rig, tmp_path):
    short = write_video(tmp_path / "short.mp4", 3, 5)
    recording = {"front": rig["front"], "short": Camera(short, start_s=100.0)}
    said = r"short\.mp4: 'short' has nothing at 7 of 12 instants: at 100\.500 to 101\.100 s; it has times from 100\.000"
    with pytest.raises(UnreadableSourceError, match=said):
        seqpipe.cameras(recording)
    with seqpipe.cameras(recording, 3, on_missing="mark") as ds:
        sample = ds.sample(3)
        assert sample["short_is_missing"].all()
        assert not np.asarray(sample["short"]).any()
        assert next(iter(ds.batch(4)))["short"].shape == (4, 3, 96, 128, 3)


@pytest.mark.parametrize(
    ("change", "options", "error", "said"),
    [
        ({"left": Camera("nowhere.mp4")}, {}, SourceNotFoundError, "camera 'left' does not exist"),
        (
            {"speed": Signal([1.0, 0.5], [1, 2])},
            {},
            ParameterError,
            "'speed' goes back in time, from 1.000000 s",
        ),
        ({"speed": Signal([1.0], [1, 2])}, {}, ParameterError, r"times of shape \(1,\); allowed: 2 finite"),
        ({"timestamp": Signal([1.0], [1])}, {}, ParameterError, "the name 'timestamp' is taken"),
        ({}, {"clock": "rear"}, ParameterError, "clock='rear' is no camera; allowed: front, wide, left"),
        ({}, {"match": "linear"}, ParameterError, "match='linear' is for signals"),
        ({}, {"take": Clip(2, fps=5)}, ParameterError, "allowed: length, stride and step, in instants"),
        (
            {},
            {"take": 40, "on_missing": "skip"},
            ParameterError,
            "no recording has 40 instants at a stride of 1",
        ),
    ],
)
def test_what_cannot_be_read_is_named(rig, change, options, error, said):
    with pytest.raises(error, match=said):
        seqpipe.cameras({**rig, **change}, **options)


def test_recordings_have_the_same_names(rig):
    with pytest.raises(
        ParameterError, match="recording 1 has front; allowed: as the first: front, wide, left"
    ):
        seqpipe.cameras([rig, {"front": rig["front"]}])


CLOCKS = st.lists(st.integers(0, 60), min_size=1, max_size=12, unique=True).map(sorted)


@settings(max_examples=60)
@given(
    clock=CLOCKS,
    instants=CLOCKS,
    tolerance=st.integers(0, 20),
    match=st.sampled_from(["nearest", "previous"]),
)
def test_what_belongs_to_an_instant_equals_a_search(clock, instants, tolerance, match):
    stream = _Stream("x", "x", np.array(clock, float), match, float(tolerance))
    found = stream.at(np.array(instants, float)).tolist()
    for instant, number in zip(instants, found, strict=True):
        able = [t for t in clock if abs(t - instant) <= tolerance and (match == "nearest" or t <= instant)]
        if match == "previous":
            able = able[-1:]
        wanted = min(able, key=lambda t: (abs(t - instant), t), default=None)
        assert (None if number < 0 else clock[number]) == wanted
