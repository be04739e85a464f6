"""Threads, processes and memory: when engines come and go, forks and pickles, bounds, ten thousand files."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import seqpipe.readers
from seqpipe import Segments, ops, videos
from seqpipe.readers import frame_values
from seqpipe.readers.frame_values import Clock
from seqpipe.video.index.cache import save_index
from seqpipe.video.index.open import IndexOptions, open_index
from seqpipe.video.source.source import open_source
from tests.support.datasets import clips, files, gist, gists
from tests.support.deep import deep
from tests.support.media import made


def our_threads():
    return {thread for thread in threading.enumerate() if thread.name.startswith("seqpipe")}


def make(source=None, **options):
    given = {"length": 6, "shuffle": True, "batch": 3, **options}
    return clips(files("h264", "vp9", "odd_vp9") if source is None else source, **given)


def test_closing_stops_the_threads_and_a_later_use_starts_them():
    with make() as other:
        expected = gists(other)
    before = our_threads()
    with make(threads=2) as dataset:
        running = iter(dataset)
        first = gist(next(running))
        ours = our_threads() - before
        assert len(ours) == 2, "nothing is computed: there is no thread but the decoders'"
    assert not ours & our_threads()
    # what was read ahead is gone; the rest comes all the same
    assert [first, *gists(running)] == expected
    later = our_threads() - before - ours
    assert later
    dataset.close()
    dataset.close()
    assert not later & our_threads()


@pytest.mark.parametrize(
    "steps", [(), (ops.Flip(p=0.5), ops.GaussianBlur(sigma=1.0))], ids=["plain", "computed"]
)
def test_closing_any_description_while_it_is_iterated_loses_nothing(steps):
    whole = make(size=(32, 32))
    whole = whole.map(*steps) if steps else whole
    expected, before = gists(whole.epoch(1)), our_threads()
    found, running = [], whole.epoch(1)
    for number, batch in enumerate(running):
        found.append(gist(batch))
        if number % 2:
            with whole.prefetch(1).shard(1, 2):  # another description of the same source
                pass
            assert not our_threads() - before
    assert found == expected
    whole.close()
    assert not our_threads() - before


@pytest.mark.parametrize("where", ["PendingRead.result", "Engine.submit"])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_an_interrupted_batch_comes_again(monkeypatch, where, at):
    """While a batch is waited for, or while the next ones are begun."""
    expected = gists(make())
    engine = import_module("seqpipe.video.engine.engine")
    kind, name = where.split(".")
    plain, calls = getattr(getattr(engine, kind), name), []

    def interrupted(*given):
        calls.append(given)
        if len(calls) == at:
            raise KeyboardInterrupt
        return plain(*given)

    monkeypatch.setattr(f"seqpipe.video.engine.engine.{where}", interrupted)
    running, found = iter(make()), []
    with pytest.raises(KeyboardInterrupt):
        found.extend(map(gist, running))
    assert sum(count for _, count in running.state_dict()["history"]) == sum(len(one[0]) for one in found)
    assert found + gists(running) == expected


def test_a_data_set_names_its_device():
    with videos(files("h264"), Segments(1), device="cpu") as dataset:
        assert dataset.device == "cpu"


def test_a_data_set_can_be_pickled():
    dataset = make([*files("h264", "vp9"), "gone.mp4"], on_error="skip", per_video=2, batch=4)
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy.report() == dataset.report()
    assert copy.fingerprint == dataset.fingerprint
    assert repr(copy) == repr(dataset)
    assert gists(copy.epoch(2)) == gists(dataset.epoch(2))
    timed = make(fps=12.5).map(ops.Flip(p=0.5))
    assert gists(pickle.loads(pickle.dumps(timed))) == gists(timed)


@pytest.mark.parametrize("batch", [{"batch": 2}, {}], ids=["batches", "samples"])
def test_an_epoch_that_is_under_way_can_be_pickled(batch):
    running = clips(files("h264", "vp9"), length=6, shuffle=True, size=(16, 16), **batch).epoch(1)
    for _ in range(2):
        next(running)
    other = pickle.loads(pickle.dumps(running))
    assert other.state_dict() == running.state_dict()
    rest, expected = (
        [(one.index, one["frames"].tolist(), one["image"].numpy().tobytes()) for one in each]
        for each in (other, running)
    )
    assert [one[1:] for one in rest] == [one[1:] for one in expected]
    assert rest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.parametrize("way", [deep("plain"), "computed"])
def test_a_forked_process_goes_on_with_threads_of_its_own(way):
    program = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads
from seqpipe import Clip, Decode, ops, videos
dataset = videos(sys.argv[2:], Clip(6), decode=Decode(threads=2), shuffle=True).batch(3)
if sys.argv[1] == "computed":
    dataset = dataset.map(ops.GaussianBlur(sigma=1.0))
running = iter(dataset)
next(running)
child = os.fork()
rest = [(batch["frames"].tolist(), int(batch["image"].numpy().sum())) for batch in running]
print(rest, flush=True)
if child:
    status = os.waitpid(child, 0)[1]
    dataset.close()
    sys.exit(os.waitstatus_to_exitcode(status))
dataset.close()
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, way, *files("h264", "vp9")],
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
@pytest.mark.parametrize("way", ["stream", "jump", *map(deep, ["frames", "walk", "nothing"])])
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


def test_iterators_of_several_threads_share_a_data_set():
    dataset = make(threads=2)
    expected = gists(dataset)
    found = {}

    def run(name):
        found[name] = gists(dataset)

    threads = [threading.Thread(target=run, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == dict.fromkeys(range(3), expected)


@pytest.mark.parametrize("batch", [{"batch": 2}, {}], ids=["batches", "samples"])
def test_threads_that_share_an_epoch_get_each_item_once(batch):
    dataset = clips(files("h264", "vp9"), length=4, **batch)
    running, found = iter(dataset), []

    def run():
        # not a for loop: one that begins after the end begins anew
        found.extend(np.atleast_1d(one["index"]).tolist() for one in iter(lambda: next(running, None), None))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(index for one in found for index in one) == list(range(24))


def test_the_clock_keeps_a_bounded_number_of_timestamps(monkeypatch):
    monkeypatch.setattr(frame_values, "_MAX_FRAMES", 100)
    clock = Clock(IndexOptions())
    cached = []
    for name in files("h264", "vp9", "av1", "hevc", "h264", "h264_long_gop"):
        cached.append((name, clock.of(name)))
        assert np.array_equal(cached[-1][1], open_index(name).timestamps)
    assert clock.of(name) is cached[-1][1]
    assert clock.of(cached[1][0]) is not cached[1][1], "it was dropped, and is loaded again"


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
    """The memory of making a dataset from cached indexes; how long it takes is for benchmarks/ to say."""
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
import seqpipe
from tests.support.memory import peak_kib
decode = seqpipe.Decode(cache_dir=sys.argv[2])
dataset = seqpipe.videos(sys.argv[1], seqpipe.Clip(8), decode=decode, shuffle=True)
print(dataset.size, dataset.dealt().steps(1).share.indices([5]).size, peak_kib() / 1024)
"""
    command = [sys.executable, "-c", program, str(folder.parent), str(cache)]
    out = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2]
    ).stdout
    samples, chosen, megabytes = map(float, out.split())
    assert (samples, chosen) == (60_000, 1)
    assert megabytes < 200
