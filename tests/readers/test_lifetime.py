"""Threads, processes and memory: when engines come and go, forks and pickles, bounds, ten thousand files."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import seqpipe.readers
from seqpipe import Segments, videos
from seqpipe.readers import frame_values
from seqpipe.readers.frame_values import Clock
from seqpipe.video.index.cache import save_index
from seqpipe.video.index.open import IndexOptions, open_index
from seqpipe.video.source.source import open_source
from tests.support.datasets import clips, files, gist
from tests.support.media import made


def our_threads():
    return {thread for thread in threading.enumerate() if thread.name.startswith("seqpipe")}


def make(**options):
    return clips(**{"files": files("h264", "vp9", "odd_vp9"), "length": 6, "shuffle": True, **options})


def test_closing_stops_the_threads_and_a_later_use_starts_them():
    with make() as other:
        expected = [gist(batch) for batch in other.batch(3)]
    before = our_threads()
    with make(threads=2) as dataset:
        batches = dataset.batch(3)
        first = gist(next(batches))
        ours = our_threads() - before
        assert len(ours) == 2
    assert not ours & our_threads()
    # what was read ahead is gone; the rest comes all the same
    rest = [gist(batch) for batch in batches]
    assert [first, *rest] == expected
    later = our_threads() - before - ours
    assert later
    dataset.close()
    dataset.close()
    assert not later & our_threads()


def test_an_interrupted_batch_comes_again(monkeypatch):
    dataset = make()
    batches = dataset.batch(4)
    expected = [gist(batch) for batch in make().batch(4)]
    given = [gist(next(batches))]
    result = seqpipe.video.engine.engine.PendingRead.result

    def interrupted(self):
        monkeypatch.setattr("seqpipe.video.engine.engine.PendingRead.result", result)
        raise KeyboardInterrupt

    monkeypatch.setattr("seqpipe.video.engine.engine.PendingRead.result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    assert batches.position == 4
    assert given + [gist(batch) for batch in batches] == expected


def test_a_dataset_names_its_device():
    with videos(files("h264"), Segments(1), device="cpu") as dataset:
        assert dataset.device == "cpu"


def test_a_dataset_can_be_pickled():
    dataset = make(on_error="skip", files=[*files("h264", "vp9"), "gone.mp4"])
    dataset.set_epoch(2)
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy.epoch == 2
    assert copy.report() == dataset.report()
    assert copy.fingerprint == dataset.fingerprint
    assert [gist(b) for b in copy.batch(4)] == [gist(b) for b in dataset.batch(4)]
    timed = make(fps=12.5)
    assert [gist(b) for b in pickle.loads(pickle.dumps(timed)).batch(4)] == [gist(b) for b in timed.batch(4)]


@pytest.mark.parametrize("kind", ["batches", "sequences"])
def test_a_pass_that_is_under_way_can_be_pickled(kind):
    given = make(shuffle=True, size=(16, 16))
    going = given.batch(2) if kind == "batches" else given.sequences()
    for _ in range(2):
        next(going)
    other = pickle.loads(pickle.dumps(going))
    assert other.state_dict() == going.state_dict()
    rest, expected = (
        [(one.frames.tolist(), one.numpy().tobytes()) for one in each] for each in (other, going)
    )
    assert rest == expected
    assert rest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_process_goes_on_with_threads_of_its_own():
    program = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads

dataset = Video(files=sys.argv[1:], sequence_length=6, shuffle=True, threads=2)
batches = dataset.batch(3)
next(batches)
child = os.fork()
rest = [batch["frames"].tolist() for batch in batches]
print(rest, flush=True)
if child:
    status = os.waitpid(child, 0)[1]
    dataset.close()
    sys.exit(os.waitstatus_to_exitcode(status))
dataset.close()
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, *files("h264", "vp9")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    one, other = done.stdout.splitlines()
    assert one == other
    assert len(one) > 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.parametrize("way", ["frames", "stream", "walk", "jump", "nothing"])
def test_a_forked_process_waits_for_no_threads_of_a_decoder_that_is_its_parents(way):
    """As a loader's workers have a video that their parent has read from: each of these waited for ever."""
    program = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
import seqpipe
video, way = seqpipe.open(sys.argv[1], threads=3), sys.argv[2]
first = video.frames(range(60))
stream = video.stream(range(60))
begun = [next(stream).numpy() for _ in range(3)]
for number in range(3):
    video[number]
child = os.fork()
if child:
    status = os.waitpid(child, 0)[1]
    begun += [frame.numpy() for frame in stream]
    assert all((here == there).all() for here, there in zip(begun, first.numpy(), strict=True))
    os._exit(os.waitstatus_to_exitcode(status))
if way == "frames":
    assert (video.frames(range(60)).numpy() == first.numpy()).all()
elif way == "stream":
    begun += [frame.numpy() for frame in stream]
    assert all((here == there).all() for here, there in zip(begun, first.numpy(), strict=True))
elif way == "walk":
    assert all((video[number].numpy() == first.numpy()[number]).all() for number in range(3, 60))
elif way == "jump":
    assert (video[50].numpy() == first.numpy()[50]).all()
"""
    given = [sys.executable, "-c", program, *files("h264_long_gop"), way]
    done = subprocess.run(given, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_two_iterators_in_two_threads_share_a_dataset():
    dataset = make(threads=2)
    expected = [gist(batch) for batch in dataset.batch(3)]
    found = {}

    def run(name):
        found[name] = [gist(batch) for batch in dataset.batch(3)]

    threads = [threading.Thread(target=run, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == dict.fromkeys(range(3), expected)


def test_the_clock_keeps_a_bounded_number_of_timestamps(monkeypatch):
    monkeypatch.setattr(frame_values, "_MAX_FRAMES", 100)
    clock = Clock(IndexOptions())
    for name in files("h264", "vp9", "av1", "hevc", "h264", "h264_long_gop"):
        times = clock.of(name)
        assert np.array_equal(times, open_index(name).timestamps)
        assert clock.cached_frames <= 100
    assert clock.of(name) is times


def test_names_are_fetched_lazily():
    assert sorted(seqpipe.readers.__all__) == dir(seqpipe.readers)
    for name in seqpipe.readers.__all__:
        assert getattr(seqpipe.readers, name).__name__.rpartition(".")[2] == name
    with pytest.raises(AttributeError, match=r"'seqpipe\.readers' has no attribute 'Audio'"):
        _ = seqpipe.readers.Audio
    out = subprocess.run(
        [
            sys.executable,
            "-c",
            "import seqpipe.readers, sys; print('av' in sys.modules, 'cv2' in sys.modules)",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert out.split() == ["False", "False"]


@pytest.mark.deep
def test_ten_thousand_indexed_files(tmp_path):
    """The memory of making a dataset from cached indexes; how long it takes is for tests/bench to say."""
    folder, cache = tmp_path / "videos" / "class", tmp_path / "cache"
    folder.mkdir(parents=True)
    index = open_index(str(made("h264")))
    original = tmp_path / "original.mp4"
    original.write_bytes(made("h264").read_bytes())
    for number in range(10_000):
        path = folder / f"{number:05d}.mp4"
        path.hardlink_to(original)
        save_index(cache, open_source(str(path)).stamp(), index)
    program = """
import sys
import seqpipe.readers
from tests.support.memory import peak_kib
dataset = seqpipe.readers.Video(file_root=sys.argv[1], cache_dir=sys.argv[2], sequence_length=8, shuffle=True)
print(dataset.size, len(planned(dataset, 1, [5])), peak_kib() / 1024)
"""
    command = [sys.executable, "-c", program, str(folder.parent), str(cache)]
    out = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2]
    ).stdout
    samples, requested, megabytes = map(float, out.split())
    assert (samples, requested) == (60_000, 1)
    assert megabytes < 200
