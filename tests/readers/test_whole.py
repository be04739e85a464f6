"""Whole segments of videos, each as long as it is: frames by their pixels, batches, memory, states, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe import OutputSpec, Patch, Spread, Whole, ops
from seqpipe.errors import FrameRangeError, ParameterError
from seqpipe.sampling import qwen_vl
from tests.support.datasets import assert_resumes, files, shown

ROWS = (("h264", 0, 3, 9, "a"), ("h264", 1, 10, 15, "b"), ("hevc", 2, 0, 7, "c"), ("h264", 3, 4, 24, "d"))


@pytest.fixture(scope="module")
def segments(tmp_path_factory):
    """A manifest of segments of videos of 24 frames per second, whose ends are given in seconds."""
    path = tmp_path_factory.mktemp("segments") / "segments.csv"
    lines = ["path,label,start_s,end_s,name"]
    for name, label, first, end, text in ROWS:
        times = seqpipe.open(files(name)[0]).timestamps
        ends = [*times.tolist(), times[-1] + 1]
        lines.append(f"{files(name)[0]},{label},{ends[first]},{ends[end]},{text}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def whole(segments, **options):
    more = {name: options.pop(name) for name in ("shuffle", "on_error", "output") if name in options}
    return seqpipe.videos(segments, Whole(**options), **more)


def test_each_row_is_a_sample_with_all_its_frames(segments):
    with whole(segments) as ds:
        assert ds.size == len(ROWS)
        assert ds.types["image"].shape[0] is None
        for index, (_, label, first, end, text) in enumerate(ROWS):
            sample = ds.sample(index)
            wanted = list(range(first, end))
            assert sample["frames"].tolist() == shown(sample["image"]) == wanted
            assert (sample["label"], sample["name"], len(sample["timestamps"])) == (label, text, len(wanted))


@pytest.mark.parametrize("stride", [2, 5])
def test_every_so_manieth_frame(segments, stride):
    with whole(segments, stride=stride) as ds:
        for index, (_, _, first, end, _) in enumerate(ROWS):
            assert shown(ds.sample(index)["image"]) == list(range(first, end, stride))


def test_at_another_rate_frames_are_those_on_screen(segments):
    with whole(segments, fps=10.0) as ds:
        for index, (name, _, first, end, _) in enumerate(ROWS):
            sample, times = ds.sample(index), seqpipe.open(files(name)[0]).timestamps
            duration = (times[end] if end < len(times) else times[-1] + 1 / 24) - times[first]
            grid = times[first] + np.arange(np.ceil(duration * 10 - 1e-6)) / 10
            wanted = np.searchsorted(times, grid + 1e-6, side="right") - 1
            assert shown(sample["image"]) == sample["frames"].tolist() == wanted.tolist()


def test_batches_are_lists_or_padded(segments):
    with whole(segments, fill=9) as ds:
        (batch,) = ds.map(ops.Flip(horizontal=False)).batch(4)
        assert [len(one) for one in batch["image"]] == [6, 5, 7, 20]
        assert batch["image"].stacked is None
        assert batch["frames"].shape == (4, 20)
        assert (batch["frames"] >= 0).sum(axis=1).tolist() == [6, 5, 7, 20]
        (padded,) = ds.batch(4, ragged="pad")
        pixels = padded["image"].numpy()
        assert pixels.shape[:2] == padded["mask"].shape[:2] == (4, 20)
        assert padded["mask"].any(axis=(2, 3)).sum(axis=1).tolist() == [6, 5, 7, 20]
        assert (pixels[~padded["mask"]] == 9).all()
        for one, other in zip(batch["image"], padded["image"], strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy()[: len(one)])


def test_operators_are_fused_and_draw_as_ever(segments):
    chain = ops.Chain(ops.RandomResizedCrop(size=(24, 32), seed=1), ops.Flip(p=0.5))
    with whole(segments, shuffle=True) as ds:
        fused, plain = (ds.map(chain).batch(2).fuse(how).epoch(1) for how in ("exact", "none"))
        for one, other in zip(fused, plain, strict=True):
            for left, right in zip(one["image"], other["image"], strict=True):
                np.testing.assert_array_equal(left.numpy(), right.numpy())
                assert left.shape[1:3] == (24, 32)


def test_a_plan_counts_the_bytes_of_each(segments):
    with whole(segments, output=OutputSpec(size=(10, 20))) as ds:
        for indices in ([0], [3], [0, 1, 3]):
            lengths = [ROWS[one][3] - ROWS[one][2] for one in indices]
            assert ds.source.plan(0, np.array(indices)).nbytes == sum(lengths) * 10 * 20 * 3


def test_states_and_samples_by_index(segments):
    assert_resumes(lambda: whole(segments, shuffle=True, repeats=2).batch(3))
    with whole(segments, shuffle=True) as ds:
        by_index = ds.read([3, 0])
        assert [shown(one) for one in by_index["image"]] == [list(range(4, 24)), list(range(3, 9))]


def test_sequences_that_are_too_long(segments):
    with pytest.raises(
        FrameRangeError,
        match="the frames 4 to 23 has 20 frames; allowed: max_frames=10",
    ):
        whole(segments, max_frames=10)
    with whole(segments, max_frames=10, on_error="skip") as ds:
        assert ds.size == 3
        assert "the sequence of the frames 4 to 23 has 20 frames" in str(ds.report())
    assert whole(segments, max_frames=10, stride=2).size == 4


def test_what_is_refused(segments, tmp_path):
    for options, said in (
        ({"stride": 0}, "stride=0 is not valid"),
        ({"fps": -1.0}, "fps=-1.0 is not valid"),
        ({"max_frames": 0}, "max_frames=0 is not valid"),
        ({"repeats": 0}, "repeats=0 is not valid"),
    ):
        with pytest.raises(ParameterError, match=said):
            whole(segments, **options)
    np.save(tmp_path / "a.npy", np.zeros((4, 4, 4), np.uint8))
    with pytest.raises(ParameterError, match=r"Whole\(stride=2\) has fields of videos; allowed: Whole\(\)"):
        seqpipe.volumes(tmp_path / "a.npy", Whole(stride=2))
    with pytest.raises(ParameterError, match=r"allowed: Clip\(length, …\), .*, Whole\(\)"):
        seqpipe.videos(segments, Patch(4))


def test_folders_of_frames(tmp_path):
    import cv2

    for folder, count in (("a", 3), ("b", 5)):
        (tmp_path / folder).mkdir()
        for number in range(count):
            cv2.imwrite(str(tmp_path / folder / f"{number}.png"), np.full((8, 9, 3), 10 * number, np.uint8))
    with seqpipe.folders([tmp_path / "a", tmp_path / "b"], Whole(stride=2)).batch(2) as ds:
        (batch,) = ds
    assert [one.numpy()[:, 0, 0, 0].tolist() for one in batch["image"]] == [[0, 20], [0, 20, 40]]


def test_frames_spread_by_the_duration_are_those_of_the_published_rule(segments):
    with seqpipe.videos(segments, Spread(fps=12.0, max_count=8)) as ds:
        for index, (_, _, first, end, _) in enumerate(ROWS):
            wanted = (first + qwen_vl(end - first, 24.0, 12.0, max_frames=8)).tolist()
            assert shown(ds.sample(index)["image"]) == ds.sample(index)["frames"].tolist() == wanted
        assert sorted(len(one["frames"]) for one in map(ds.sample, range(4))) == [4, 4, 4, 8]
    with pytest.raises(ParameterError, match=r"min_count=0 is not valid; allowed: a whole number"):
        seqpipe.videos(segments, Spread(min_count=0))


def test_one_frame_is_too_few_to_be_spread(tmp_path):
    (tmp_path / "one.csv").write_text(f"path,start_s,end_s\n{files('h264')[0]},0,0.04\n")
    with pytest.raises(ParameterError, match="the longest one has 1 frame, but a sample needs 2 frames"):
        seqpipe.videos(tmp_path / "one.csv", Spread())
