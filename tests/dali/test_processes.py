"""External sources in processes: order, states, errors, and processes that die."""

from __future__ import annotations

import multiprocessing
import multiprocessing.context
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import pytest

from seqpipe.dali import fn as dali
from seqpipe.errors import BackendError, ParameterError, StateError, WorkerError
from tests.support.external import Program, program

BIG = (64, 64, 3)  # goes through shared memory


def made(source, batch_size=4, *, batch=True, **options):
    return program(source, batch_size, parallel=True, batch=batch, **options)


def pictures(info):
    """A sample of several values, slower for the first ones, so that processes overtake one another."""
    if info.idx_in_epoch >= 12:
        raise StopIteration
    time.sleep(0.02 if info.idx_in_epoch % 4 == 0 else 0)
    return np.full(BIG, info.idx_in_epoch, np.uint8), np.int32(os.getpid())


class Counting:
    """An iterable with a state."""

    def __init__(self, count=5):
        self.count, self.at = count, 0

    def __iter__(self):
        while self.at < self.count:
            self.at += 1
            yield np.full((2, *BIG), self.at - 1, np.uint8)
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def first_values(pipe, count=10):
    return [np.asarray(values[0])[:, 0, 0, 0].tolist() for _, values in zip(range(count), pipe, strict=False)]


def blocks():
    return {path.name for path in Path("/dev/shm").glob("psm_*")}


@pytest.mark.parametrize("workers", [1, 3])
def test_samples_keep_their_order_over_processes(workers):
    before = blocks()

    def define():
        node, process = dali.external_source(
            pictures, num_outputs=2, batch=False, layout=("HWC", ""), parallel=True
        )
        return dali.crop(node, crop=(8, 8)), process

    with Program(define, 4, py_num_workers=workers) as pipe:
        batches = list(pipe)
        assert [[int(one[0, 0, 0]) for one in pixels] for pixels, _ in batches] == [
            [0, 1, 2, 3],
            [4, 5, 6, 7],
            [8, 9, 10, 11],
        ]
        processes = {int(number) for _, numbers in batches for number in numbers}
        assert os.getpid() not in processes
        assert 1 <= len(processes) <= workers
        pipe.reset()
        assert len(list(pipe)) == 3, "the next epoch begins anew"
    assert blocks() == before, "no shared memory is left"


def test_batches_keep_their_order_and_a_state_goes_on():
    def batch(number):
        if number == 6:
            raise StopIteration
        time.sleep(0.03 * (number % 2 == 0))
        return np.full((2, *BIG), number, np.uint8)

    with made(batch, 2, workers=2) as pipe, made(batch, 2, workers=2) as other:
        assert first_values(pipe, 2) == [[0, 0], [1, 1]]
        other.load_state_dict(pipe.state_dict())
        assert first_values(other) == first_values(pipe) == [[n, n] for n in range(2, 6)]


def test_processes_begin_before_threads_and_end_with_the_pipeline():
    """A process that is forked beside a thread can inherit a lock that nobody releases."""
    began, threads = [], set(threading.enumerate())
    children = set(multiprocessing.active_children())

    class Context(multiprocessing.context.ForkContext):
        def Process(self, *args, **kwargs):
            began.append({one.name for one in set(threading.enumerate()) - threads})
            return super().Process(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multiprocessing, "get_context", lambda _: Context())
        pipe = made(lambda number: np.full((2, *BIG), number, np.uint8), 2, workers=2)
        assert first_values(pipe, 2) == [[0, 0], [1, 1]]
    assert not any(name.startswith("seqpipe-") for name in began[0])
    assert set(multiprocessing.active_children()) - children
    pipe.close()
    assert not set(multiprocessing.active_children()) - children
    assert first_values(pipe, 2) == [[2, 2], [3, 3]], "it goes on where it was"
    pipe.close()


def test_an_iterable_lives_in_one_process():
    with made(Counting(), 2, cycle="raise") as pipe, made(Counting(), 2, cycle="raise") as other:
        assert first_values(pipe, 2) == [[0, 0], [1, 1]]
        state = pipe.state_dict()
        assert state["sources"][0][2] == {"kind": "own", "state": {"at": 2}}
        assert first_values(pipe) == [[2, 2], [3, 3], [4, 4]]
        pipe.reset()
        assert first_values(pipe, 1) == [[0, 0]]
        other.load_state_dict(state)
        assert first_values(other) == [[2, 2], [3, 3], [4, 4]]


def test_generators_and_what_does_not_know_how_to_go_on():
    def numbers():
        for number in range(3):
            yield np.full((2, *BIG), number, np.uint8)

    with made(numbers, 2, cycle="quiet") as pipe:
        assert first_values(pipe, 4) == [[0, 0], [1, 1], [2, 2], [0, 0]]
    with made(list(numbers()), 2) as pipe, made(list(numbers()), 2) as other:
        assert first_values(pipe, 1) == [[0, 0]]
        with pytest.raises(StateError, match="state_dict"):
            other.load_state_dict(pipe.state_dict())


def test_an_error_has_the_traceback_of_the_worker_and_the_next_batch_comes():
    def source(number):
        if number == 1:
            raise KeyError(f"no batch {number}")
        return np.full((2, *BIG), number, np.uint8)

    with made(source, 2, workers=2) as pipe:
        assert first_values(pipe, 1) == [[0, 0]]
        with pytest.raises(KeyError, match="no batch 1") as caught:
            next(pipe)
        told = "".join(traceback.format_exception(caught.value))
        assert 'raise KeyError(f"no batch {number}")' in told
        assert "source external_source 'source', epoch 0, samples from 2 on" in told
        assert first_values(pipe, 1) == [[2, 2]]


def test_a_process_that_dies_is_replaced_and_its_batch_made_again(tmp_path):
    def source(number):
        if number == 1 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 4:
            raise StopIteration
        return np.full((2, *BIG), number, np.uint8)

    with made(source, 2, workers=2) as pipe:
        assert first_values(pipe) == [[n, n] for n in range(4)]


ENDED = """
import threading
import numpy as np
import seqpipe
from tests.dali.test_processes import made, picture

begun = made(picture, 2), seqpipe.items(picture, size=2, workers=1).batch(2)

def run():
    threading.main_thread().join()
    for batches in begun:
        try:
            next(iter(batches))
        except seqpipe.BackendError as error:
            print(error, flush=True)

threading.Thread(target=run).start()
"""


def picture(number):
    return np.full((2, 4, 4, 3), number, np.uint8)


def test_processes_that_cannot_start_as_the_program_ends_are_named():
    done = subprocess.run([sys.executable, "-c", ENDED], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert done.stdout.count("no work can be started in another process") == 2
    assert done.stdout.count("let it wait for the threads that read") == 2


def test_a_process_that_always_dies_is_an_error():
    def source(number):
        if number == 1:
            os._exit(3)
        return np.full((2, *BIG), number, np.uint8)

    with made(source, 2) as pipe:
        assert first_values(pipe, 1) == [[0, 0]]
        with pytest.raises(BackendError, match="has died twice at the same batch"):
            next(pipe)
        assert first_values(pipe, 1) == [[2, 2]]


@pytest.mark.deep
def test_sources_that_are_pickled():
    with made(pictures, batch=False, num_outputs=2, workers=2, start_method="spawn") as pipe:
        assert first_values(pipe) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"source": lambda: 0}, "a callable without arguments, which processes cannot divide"),
        ({"workers": 0}, "workers=0 is not valid; allowed: a whole number from 1"),
        (
            {"start_method": "thread"},
            "start_method='thread' is not valid; allowed: 'fork', 'spawn', 'forkserver'",
        ),
    ],
)
def test_what_is_refused(options, said):
    with pytest.raises(ParameterError, match=said):
        made(**{"source": pictures, "batch": False} | options)


class Locked(Exception):  # noqa: N818  a user's name
    """Holds what cannot be pickled."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


class TwoArguments(Exception):  # noqa: N818
    """Is pickled, and cannot be unpickled."""

    def __init__(self, path, line):
        super().__init__(f"{path}, line {line}")


class Lengthening(Exception):  # noqa: N818
    """Is another one after it was pickled."""

    def __init__(self, path):
        super().__init__(f"cannot read {path}")


class Whole(Exception):  # noqa: N818
    """Comes as it is."""


def an_error(kind):
    class Local(Exception):  # noqa: N818
        pass

    return {
        "Locked": lambda: Locked("file 5 is bad"),
        "TwoArguments": lambda: TwoArguments("file 5 is bad", 3),
        "Lengthening": lambda: Lengthening("file 5 is bad"),
        "Local": lambda: Local("file 5 is bad"),
        "Whole": lambda: Whole("file 5 is bad"),
        "SystemExit": lambda: SystemExit("file 5 is bad"),
    }[kind]()


class Failing:
    """A source that fails at its second batch, as a callable or as an iterable with a state."""

    def __init__(self, kind):
        self.kind = kind

    def __call__(self, info):
        if info == 1:
            raise an_error(self.kind)
        return np.zeros((2, 3), np.uint8)


class FailingIterable(Failing):
    __call__ = None

    def __iter__(self):
        yield np.zeros((2, 3), np.uint8)
        raise an_error(self.kind)


class FailingState(FailingIterable):
    def state_dict(self):
        raise an_error(self.kind)

    def load_state_dict(self, state):  # noqa: ARG002
        raise an_error(self.kind)


@pytest.mark.parametrize("kind", ["Locked", "TwoArguments", "Lengthening", "Local", "Whole", "SystemExit"])
@pytest.mark.parametrize("source", [Failing, FailingIterable])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_users_error_arrives_whatever_its_type(source, kind):
    """It was replaced by that of pickle, or ended the process pool."""
    pipe = made(source(kind), batch_size=2)
    next(pipe)
    with pytest.raises(BaseException, match="file 5 is bad") as caught:
        next(pipe)
    passes = kind in ("Whole", "SystemExit")
    assert type(caught.value).__name__ == (kind if passes else "WorkerError")
    assert kind in str(caught.value) or passes
    assert "an_error" in "".join(traceback.format_exception(caught.value))
    pipe.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_users_error_in_a_state_arrives():
    pipe = made(FailingState("TwoArguments"), batch_size=2)
    with pytest.raises(WorkerError, match="TwoArguments: file 5 is bad, line 3"):
        next(pipe)
    pipe.close()
