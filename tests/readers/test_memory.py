"""How much memory batches may hold that are read ahead, and what happens where there is less."""

from __future__ import annotations

import logging
import math
import os

import pytest

from seqpipe.core import limits
from seqpipe.errors import DamagedSourceError, DeviceMemoryError, ParameterError
from seqpipe.readers.params import device_bytes
from seqpipe.video.convert.output import OutputSpec
from seqpipe.video.device import Device
from seqpipe.video.engine.engine import PendingRead
from tests.support.datasets import assert_true_frames, clips, files, gist, gists, images
from tests.support.under_way import SmallDevice, UnderWay

GIB = 2**30
# pictures of 96×128, 65×97, 128×96 and 100×176
NAMES = ("h264", "odd_vp9", "rotated_90", "wide_h264")
BATCH = 4 * 6 * 96 * 128 * 3


def make(source=None, **options):
    options = {"length": 6, "step": 2, "shuffle": True, "threads": 2, "batch": 4, **options}
    return clips(files("h264", "vp9") if source is None else source, **options)


def single(**options):
    """Without batches."""
    return clips(files("h264", "vp9"), **{"length": 6, "step": 2, "shuffle": True, "threads": 2, **options})


@pytest.fixture
def under_way(monkeypatch):
    return UnderWay(monkeypatch)


def expected_gists():
    with make(ahead=0) as dataset:
        return gists(dataset)


@pytest.mark.parametrize(
    "options", [{}, {"dtype": "float32"}, {"size": (64, 48)}, {"size": (33, 21), "layout": "FCHW"}]
)
def test_the_size_of_a_batch_is_known_before_it_is_decoded(under_way, options):
    options = {"source": files(*NAMES), "length": 5, "shuffle": True, "batch": 3, **options}
    with clips(ahead=0, **options) as dataset:
        sizes = [sum(sequence.data.nbytes for sequence in image) for image in images(dataset)]
    several = sum(sizes[1:4])
    for bound, ahead in ((several, 3), (several - 1, 2)):
        under_way.clear()
        with clips(ahead=3, gib=bound / GIB, **options) as dataset:
            next(iter(dataset))
        assert len(under_way.begun) == 1 + ahead


@pytest.mark.parametrize(
    ("room", "waited_for", "after"),
    [(100, 4, 3), (4, 4, 3), (3.99, 3, 3), (2, 2, 2), (1.5, 1, 1), (1, 1, 1), (0.5, 1, 1), (0, 1, 0)],
)
def test_batches_ahead_stay_within_the_bound_but_one_is_always_under_way(under_way, room, waited_for, after):
    expected = expected_gists()[0]
    under_way.clear()
    with make(ahead=3, gib=room * BATCH / GIB) as dataset:
        running = iter(dataset)
        assert gist(next(running)) == expected
        assert under_way.seen[0] == [BATCH] * waited_for
        assert under_way.bytes == [BATCH] * after
        assert len(list(running)) == len(running) - 1
    assert max(map(sum, under_way.seen)) <= max(room, 1) * BATCH


@pytest.mark.parametrize("gib", [0, 1.7 * BATCH / GIB, 2.5 * BATCH / GIB, 100])
def test_the_bound_changes_no_batch(gib):
    with make(ahead=2, gib=gib) as dataset:
        assert gists(dataset) == expected_gists()


def test_files_of_different_sizes_count_by_theirs(under_way):
    small, large = 65 * 97 * 3, 100 * 176 * 3
    options = {"length": 1, "ahead": 9, "batch": 1}
    with clips(files("odd_vp9", "wide_h264"), gib=2.5 * large / GIB, **options) as dataset:
        running = iter(dataset)
        assert next(running)["image"].shape[2:4] == (65, 97)
        assert under_way.bytes == [small] * math.floor(2.5 * large / small)
        running.close()
        later = dataset.resume({**running.state_dict(), "history": [[1, len(dataset) // 2]]})
        assert next(later)["image"].shape[2:4] == (100, 176)
        assert under_way.bytes == [large] * 2


def test_batches_larger_than_the_bound_are_told_once(caplog):
    with caplog.at_level(logging.WARNING), make(gib=0.25 * BATCH / GIB) as dataset:
        assert len(list(dataset)) == len(dataset) > 2
        list(dataset)
        list(dataset.epoch(1))
    (record,) = caplog.records
    assert "a batch takes 0.000824 GiB, and prefetch(gib=…) allows 0.000206 GiB" in record.message
    caplog.clear()
    for bound in (BATCH / GIB, 0):  # 0 asks for nothing to be read ahead
        with make(gib=bound) as dataset:
            list(dataset)
    assert not caplog.records


@pytest.mark.deep
def test_groups_of_single_samples_are_cut_to_the_bound(under_way):
    one = BATCH // 4
    with single() as dataset:
        expected = [image.frames.tolist() for image in images(dataset)]
    for room, group in ((0, 1), (3, 1), (4, 2), (7.9, 3), (8, 4), (99, 8)):
        under_way.clear()
        with single(gib=room * one / GIB) as dataset:
            assert [image.frames.tolist() for image in images(dataset)] == expected
        assert set(under_way.begun[:-1]) == {group}


@pytest.mark.parametrize("room", [2, 3, 4])
@pytest.mark.deep
def test_where_there_is_less_room_less_is_read_ahead(monkeypatch, caplog, room):
    expected, device = expected_gists(), SmallDevice(monkeypatch, room)
    with caplog.at_level(logging.WARNING), make(ahead=5) as dataset:
        found = []
        batch = None
        for batch in dataset:
            found.append(gist(batch))
    assert found == expected
    assert 1 <= device.refused <= room + 1
    assert all("less is read ahead from now on: no room" in record.message for record in caplog.records)


@pytest.mark.parametrize("on_error", ["raise", "skip", "substitute"])
def test_a_full_device_is_no_samples_fault(monkeypatch, on_error):
    expected, device = expected_gists(), SmallDevice(monkeypatch, 1)
    with make(on_error=on_error, gib=2 * BATCH / GIB) as dataset:
        running = iter(dataset)
        found = [next(running)]  # as long as it is held, there is no room
        for _ in range(2):
            with pytest.raises(
                DeviceMemoryError,
                match=r"^no room\. A batch takes 0\.000824 GiB, batches read ahead up to 0\.00165 GiB: "
                r"use smaller .* prefetch\(gib=…\)\. End other programs\.$",
            ):
                next(running)
        assert running.state_dict()["history"] == [[1, 4]]
        device.room = 99
        found += running
    assert gists(found) == expected
    assert dataset.report().losses == ()


@pytest.mark.parametrize("on_error", ["raise", "skip", "substitute"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_device_that_is_full_while_it_decodes_loses_nothing(monkeypatch, on_error, times):
    with single(on_error=on_error) as dataset:
        expected = [image.frames.tolist() for image in images(dataset)]
    with single(on_error=on_error) as dataset:
        running = iter(dataset)
        result, left = PendingRead.result, [times]

        def full(self):
            found = result(self)
            if left[0]:
                left[0] -= 1
                found[-1] = DeviceMemoryError("no room", advice="End other programs")
            return found

        monkeypatch.setattr(PendingRead, "result", full)
        if times == 2:  # the first time it is tried once more, with nothing read ahead
            with pytest.raises(DeviceMemoryError, match=r"prefetch\(gib=…\)"):
                next(running)
        found = []
        for sequence in images(running):
            assert_true_frames(sequence)
            found.append(sequence.frames.tolist())
    assert found == expected
    assert dataset.report().losses == ()


def test_nothing_is_substituted_by_a_device_that_is_full(monkeypatch):
    expected = expected_gists()
    result, answers = PendingRead.result, [DamagedSourceError("lost"), DeviceMemoryError("no room")]

    def failing(self):
        found = result(self)
        if answers:  # the first sample is lost, and then its substitute finds no room
            found[0] = answers.pop(0)
        return found

    monkeypatch.setattr(PendingRead, "result", failing)
    with make(on_error="substitute", gib=0) as dataset:
        running = iter(dataset)
        with pytest.raises(DeviceMemoryError, match="no room"):
            next(running)
        assert not answers
        assert gists(running) == expected
        assert dataset.report().losses == ()


@pytest.mark.parametrize("value", [-1, float("nan"), "2", True])
def test_a_bound_that_is_no_size_is_refused(value):
    with pytest.raises(ParameterError, match=r"gib=.*allowed: a number of at least 0 GiB or None"):
        make(gib=value)


def test_a_quarter_of_the_memory_is_the_default(monkeypatch, tmp_path):
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(limits, "_CGROUP_LIMIT", limit)
    assert device_bytes(Device("cpu")) == physical
    limit.write_text("max\n")
    assert device_bytes(Device("cpu")) == physical
    limit.write_text(f"{physical + 1}\n")
    assert device_bytes(Device("cpu")) == physical
    limit.write_text(f"{1 << 20}\n")
    assert device_bytes(Device("cpu")) == 1 << 20
    with make() as dataset:
        assert dataset.dealt().limit_bytes == 1 << 18
    with make(gib=0.5, output=OutputSpec(size=(32, 32))) as dataset:
        assert dataset.dealt().limit_bytes == GIB // 2


@pytest.mark.parametrize(
    "options", [{"length": 10_000_000, "pad": "wrap", "step": 10**9}, {"count": 10_000_000}]
)
def test_a_batch_larger_than_main_memory_is_refused_by_name(monkeypatch, options, tmp_path):
    """Linux promises the memory, and ends the process once it is written to."""
    (tmp_path / "memory.max").write_text(f"{GIB}\n")
    monkeypatch.setattr(limits, "_CGROUP_LIMIT", tmp_path / "memory.max")
    options = {"source": files("h264"), "size": (16, 16), "ahead": 0, "batch": 1, **options}
    with clips(**options) as dataset:
        said = r"an array \(.*10000000, 16, 16, 3\) uint8 of 7\.15 GiB does not fit into main memory; allowed: 1 GiB"
        with pytest.raises(DeviceMemoryError, match=said):
            next(iter(dataset))
        with pytest.raises(DeviceMemoryError, match=said):
            dataset.sample(0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"length": 10**12, "pad": "edge"}, "length=1000000000000 is not valid"),
        ({"count": 10**12}, "count=1000000000000 is not valid"),
        (
            {"length": 2, "per_video": 10**20},
            "per_video=100000000000000000000 is not valid",
        ),
        ({"length": 2, "dtype": "float32", "std": 1e300}, r"std=1e\+300 is not valid"),
        ({"length": 2, "dtype": "float32", "mean": -1e300}, r"mean=-1e\+300 is not valid"),
    ],
)
def test_numbers_that_no_array_counts_are_refused(options, said):
    with pytest.raises(ParameterError, match=said):
        clips(files("h264"), **options)


def test_a_batch_of_absurdly_many_samples_is_refused():
    with single(gib=1e300) as dataset, pytest.raises(ParameterError, match=r"size=10.* from 1 to 10000000"):
        dataset.batch(10**12, last="fill")
