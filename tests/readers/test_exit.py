"""How programs end in the middle of their reading: at once, in quiet, and with nothing left; interrupted or not."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import seqpipe
from seqpipe import Clip, Dataset, videos
from tests.support.datasets import assert_true_frames, clips, files
from tests.support.deep import combined, deep, deep_but
from tests.support.media import ROOT, names

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
MANY = tuple(name for name in names("sound") if name.startswith(("h264", "hevc", "vp9")))[:24]
NAMES = ("h264", "vp9", "h264_open_gop", "odd_vp9", "h264_long_gop", "hevc_open_gop", "h264_high10")
# A program may take this long for what is under way. PATIENCE is for more programs at once than the machine has cores:
# the GPU's driver then makes the decoders of all of them one after another.
PATIENCE = float(os.environ.get("PATIENCE", "1"))
SOON_S, START_S = 8 * PATIENCE, 60 * PATIENCE
ROUNDS = 12
HEAD = """
import signal, sys, threading, time, traceback

def interrupt(_number, frame):
    interrupted[:] = traceback.format_stack(frame)
    raise KeyboardInterrupt

interrupted = []
signal.signal(signal.SIGINT, interrupt)  # a shell lets what it puts in the background ignore it
signal.signal(signal.SIGUSR1, lambda *_: print("last interrupted in", *interrupted, file=sys.stderr, flush=True))
import seqpipe
from seqpipe import Clip, Decode, ops
from seqpipe.video.bitstream.kind import classifier
from data_scripts.frame_code import find
from tests.support.datasets import assert_true_frames

# Python ends with 1 instead of by SIGINT if a thread imports a module after the interrupt, as a codec's first file does
for codec in ("h264", "hevc", "vp9"):
    classifier(codec, b"")

device, way, *paths = sys.argv[1:]
threads = paths.pop() if paths[-1] in ("started", "refused") else "started"

def begun(say=[True]):
    if say:
        print(say.pop() and "begun", flush=True)

def look(sequence):
    if sequence.layout == "FHWC":
        assert_true_frames(sequence)
    else:
        assert find(sequence.numpy())[0] == sequence.frames[0]

def make(ahead=2):
    take, decode = Clip(8, step=4), Decode(threads=2)
    return seqpipe.videos(paths, take, decode=decode, device=device, shuffle=True).prefetch(ahead)

dataset = make(ahead=6)
batches = iter(dataset.batch(4))
samples = iter(dataset)
computed = iter(dataset.map(ops.Flip(p=0.0), ops.GaussianBlur(sigma=1.0, p=0.0)).batch(4))
reader = seqpipe.open(paths[0], device=device)

def read():
    if way in ("batches", "computed"):
        yield from (sequence for batch in (batches if way == "batches" else computed) for sequence in batch["image"])
    elif way == "samples":
        yield from (sample["image"] for sample in samples)
    elif way == "frames":
        yield from (reader[start : start + 8 : 2] for start in range(0, len(reader) - 8, 3))
    else:
        yield from reader
"""
EVERY_WAY = ("batches", "computed", "samples", "frames", "stream")
WAYS = deep_but(("computed", "stream"), EVERY_WAY)

# Only the interpreter can end these: nobody closes anything.
FOREVER = """
while True:
    for number, sequence in enumerate(read()):
        look(sequence)
        if number == 2:
            begun()
"""
CAUGHT = """
for _ in range(int(sys.stdin.readline())):
    try:
        say = [True]
        while True:
            for sequence in read():
                look(sequence)
                begun(say)
    except KeyboardInterrupt:
        print("caught", flush=True)
for sequence, _ in zip(read(), range(30)):
    look(sequence)
dataset.close()
reader.close()
# the operators' threads are the process's
print(*(thread.name for thread in threading.enumerate() if not thread.name.startswith("seqpipe.ops")))
"""
ENDS = {
    "end": "",
    "exit": "sys.exit(3)",
    "error": "raise RuntimeError('enough')",
    "half closed": "dataset.close()",
}
ENDING = """
going = read()
for _ in range(3):
    next(going)
begun()
"""


@contextlib.contextmanager
def program(text: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python program; if the test does not see its end, it says where it hangs, and where an interrupt was lost."""
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", HEAD + text, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watch = threading.Timer(START_S + 2 * SOON_S, asked, [process])
    watch.start()
    try:
        yield process
    finally:
        watch.cancel()
        process.kill()
        process.communicate()


def asked(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGUSR1)
    time.sleep(1)  # signals of different kinds do not wait for each other
    process.send_signal(signal.SIGABRT)


def ended(process: subprocess.Popen[str], *, within_s: float = SOON_S) -> tuple[str, str]:
    """What it still has to say, if it ends soon."""
    try:
        return process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        asked(process)  # faulthandler tells where every thread is
        pytest.fail(f"it does not end within {within_s} s\n{process.communicate()[1]}")


def said(process: subprocess.Popen[str], line: str) -> None:
    read = b""  # by single bytes: communicate() does not see what a stream has read ahead
    while not read.endswith(b"\n") and (byte := os.read(process.stdout.fileno(), 1)):
        read += byte
    found = read.decode().strip()
    if found != line:
        process.kill()
        pytest.fail(f"{found!r} came instead of {line!r}\n{process.communicate()[1]}")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("way", WAYS)
def test_an_interrupted_program_ends_with_the_interrupt_alone(device, way):
    with program(FOREVER, device, way, *files(*NAMES)) as process:
        said(process, "begun")
        time.sleep(random.random() / 5)
        process.send_signal(signal.SIGINT)
        _, noise = ended(process)
    assert process.returncode == -signal.SIGINT, noise
    assert noise.endswith("\nKeyboardInterrupt\n")
    assert noise.count("Traceback") == 1, noise
    assert "Exception ignored" not in noise


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rounds", [2, deep(ROUNDS)])
def test_every_interrupt_arrives_and_reading_goes_on(device, way, rounds):
    with program(CAUGHT, device, way, *files(*NAMES)) as process:
        process.stdin.write(f"{rounds}\n")
        process.stdin.flush()
        for _ in range(rounds):
            said(process, "begun")
            time.sleep(random.random() / 20)
            process.send_signal(signal.SIGINT)
            said(process, "caught")
        last, noise = ended(process, within_s=2 * SOON_S)
    assert (process.returncode, noise) == (0, "")
    assert last.split() == ["MainThread"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("way", "end"),
    deep_but([("batches", "half closed"), ("frames", "error")], itertools.product(EVERY_WAY, ENDS)),
)
def test_a_program_may_end_at_any_time(device, way, end):
    with program(ENDING + ENDS[end], device, way, *files(*NAMES)) as process:
        said(process, "begun")
        rest, noise = ended(process)
    assert process.returncode == {"exit": 3, "error": 1}.get(end, 0), noise
    assert rest == ""
    if end == "error":
        assert noise.endswith("\nRuntimeError: enough\n")
        assert noise.count("Traceback") == 1, noise
    else:
        assert noise == ""


SLOW = """
import seqpipe.video.engine.engine
fill = seqpipe.video.engine.engine.fill
def slow(*given, **named):
    time.sleep(1)
    return fill(*given, **named)
seqpipe.video.engine.engine.fill = slow
dataset = make(ahead=40)
batches = iter(dataset.batch(4))
next(batches)
begun()
"""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("end", ["error", deep("end")])
@pytest.mark.deep
def test_what_was_only_read_ahead_is_not_decoded_before_the_end(device, end):
    with program(SLOW + ENDS[end], device, "batches", *files(*MANY)) as process:
        said(process, "begun")
        # 40 batches would take 80 s; a GPU that other processes use takes seconds to destroy the decoders of 24 files
        _, noise = ended(process, within_s=3 * SOON_S)
    assert process.returncode == {"end": 0, "error": 1}[end], noise


THREADED = """
def run():
    for number, batch in enumerate(dataset.batch(4)):
        for sequence in batch["image"]:
            assert_true_frames(sequence)
    print(number, flush=True)

thread = threading.Thread(target=run, daemon=way == "daemon")
next(batches)
thread.start()
begun()
"""


@pytest.mark.parametrize("device", DEVICES)
def test_a_thread_may_read_on_when_the_main_thread_has_ended(device):
    with program(THREADED, device, "thread", *files(*NAMES)) as process:
        said(process, "begun")
        rest, noise = ended(process, within_s=2 * SOON_S)
    with videos(files(*NAMES), Clip(8, step=4)) as dataset:
        batches = -(-len(dataset) // 4)
    assert noise == ""
    assert int(rest) + 1 == batches


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.deep
def test_a_thread_that_need_not_end_ends_with_the_program(device):
    with program(THREADED, device, "daemon", *files(*NAMES)) as process:
        said(process, "begun")
        ended(process)
    assert process.returncode == 0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.deep
def test_readers_and_passes_of_many_threads_give_true_frames(device):
    paths = files(*NAMES)
    options = {"length": 6, "step": 5, "shuffle": True, "device": device}
    found: dict[str, int | BaseException] = {}

    def go_through(name: str, dataset: Dataset) -> None:
        for number, batch in enumerate(dataset.batch(3)):
            for sequence in batch["image"]:
                assert_true_frames(sequence)
            found[name] = number

    def look(name: str, path: str) -> None:
        random_frames = np.random.Generator(np.random.Philox(len(name)))
        with seqpipe.open(path, device=device) as reader:
            for number in range(8):
                assert_true_frames(reader.frames(random_frames.integers(0, len(reader), 6)))
                found[name] = number

    def kept(run, name: str, argument: object) -> None:
        try:
            run(name, argument)
        except BaseException as error:
            found[name] = error

    with clips(paths, threads=2, **options) as dataset:
        jobs = [(go_through, f"pass {n}", dataset) for n in range(3)]
        jobs += [(look, f"reader {n}", paths[n % len(paths)]) for n in range(4)]
        threads = [threading.Thread(target=kept, args=job) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        batches = len(dataset.batch(3))
    assert found == {name: (batches if run is go_through else 8) - 1 for run, name, _ in jobs}


FORKED = """
import faulthandler, os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads
next(batches), reader[3]
asked = lambda: next(batches), lambda: reader[5], lambda: seqpipe.open(paths[0], device=device)[5]
child = os.fork()
if not child:
    faulthandler.dump_traceback_later(20, exit=True)
    for ask in asked:
        try:
            ask()
            print("frames came", flush=True)
        except seqpipe.BackendError as error:
            print(error, flush=True)
    os._exit(0)
status = os.waitpid(child, 0)[1]
for ask in asked:
    ask()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.parametrize("device", DEVICES)
def test_a_forked_process_reads_on_a_cpu_and_is_refused_a_gpu(device):
    with program(FORKED, device, "batches", *files(*NAMES)) as process:
        lines, noise = ended(process, within_s=START_S)
    assert (process.returncode, noise) == (0, "")
    said = (
        "frames came" if device == "cpu" else "a forked process cannot use the GPU that its parent has used"
    )
    assert [said in line for line in lines.splitlines()] == [True] * 3, lines


FORGOTTEN = """
import cv2
dataset.close()
reader.close()
cv2.setNumThreads(3)
batches = iter(make().batch(2))
next(batches)
begun()
del batches
end = time.monotonic() + 60
while len(threading.enumerate()) > 1 and time.monotonic() < end:
    time.sleep(0.05)
print(*(thread.name for thread in threading.enumerate()), cv2.getNumThreads())
"""


@pytest.mark.parametrize("device", DEVICES)
def test_a_dataset_that_is_forgotten_leaves_nothing(device):
    """No threads, and OpenCV's setting is back."""
    with program(FORGOTTEN, device, "batches", *files(*NAMES)) as process:
        said(process, "begun")
        rest, noise = ended(process)
    assert (process.returncode, noise) == (0, "")
    assert rest.split() == ["MainThread", "3"]


LATE = """
import numpy as np
from seqpipe import ops

x = np.random.default_rng(0).integers(0, 256, (2, 4, 512, 512, 3), np.uint8)

def first():
    with make() as late:
        return sum(1 for _ in late) == len(late)

def operators():
    ops.set_threads(4)
    return ops.GaussianBlur(sigma=3.0)(x).shape == x.shape

def run():
    threading.main_thread().join()
    print({"first": first, "operators": operators}[way](), flush=True)

if threads == "refused":
    # as Python 3.12.0 to 3.12.2 do, and any system at its limit
    start = threading._start_new_thread
    def refuse(*given, **named):
        if not threading.main_thread().is_alive():
            raise RuntimeError("can't create new thread at interpreter shutdown")
        return start(*given, **named)
    threading._start_new_thread = threading._start_joinable_thread = refuse
begun()
threading.Thread(target=run).start()
"""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("way", "threads"), combined(["first", "operators"], ["refused", "started"]))
@pytest.mark.deep
def test_a_thread_may_begin_to_read_when_the_main_thread_has_ended(device, way, threads):
    """A ThreadPoolExecutor takes no more calls by then."""
    with program(LATE, device, way, *files(*NAMES), threads) as process:
        said(process, "begun")
        rest, noise = ended(process, within_s=2 * SOON_S)
    assert (process.returncode, rest, noise) == (0, "True\n", "")
