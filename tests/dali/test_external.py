"""External sources in each of their forms; the tables of what DALI does are the cases here."""

from __future__ import annotations

import functools
import time

import numpy as np
import pytest

from seqpipe import fn
from seqpipe.dali import fn as dali
from seqpipe.dali.types import BatchInfo, SampleInfo
from seqpipe.errors import ParameterError, StateError
from tests.support.external import Program
from tests.support.external import program as made


def batches(pipe, count=10):
    return [np.asarray(values[0]).ravel().tolist() for _, values in zip(range(count), pipe, strict=False)]


def by_batch(count):
    for number in range(count):
        yield np.full((3, 1), number, np.int32)


def test_a_callable_of_nothing_of_a_number_of_a_batch_and_of_a_sample():
    assert batches(made(lambda: np.arange(3)), 2) == [[0, 1, 2]] * 2
    assert batches(made(lambda number: np.full(3, number)), 2) == [[0] * 3, [1] * 3]
    seen = []

    def of_batch(info):
        seen.append(info)
        return np.zeros(3)

    batches(made(of_batch, batch_info=True), 2)
    assert seen[:2] == [BatchInfo(0, 0), BatchInfo(1, 0)]
    infos = []

    def of_sample(info):
        infos.append(info)
        if info.idx_in_epoch >= 7:
            raise StopIteration
        return np.int32(info.idx_in_epoch)

    assert batches(made(of_sample, batch=False)) == [[0, 1, 2], [3, 4, 5]], "what fills no batch is left out"
    assert infos[3] == SampleInfo(3, 0, 1, 0)


def test_a_single_argument_is_passed_even_if_it_has_a_default():
    """As in DALI, which refuses all the other callables with defaults."""

    class Called:
        def __call__(self, number=7):
            return [np.int32(number)] * 3

    for source in (lambda number=7: [np.int32(number)] * 3, Called(), Called().__call__):
        assert batches(made(source), 2) == [[0] * 3, [1] * 3]
    sample = lambda info=None: np.int32(info.idx_in_epoch)  # noqa: E731  with a default
    assert batches(made(sample, batch=False), 2) == [[0, 1, 2], [3, 4, 5]]


def test_several_arguments_with_defaults_are_left_to_the_callable():
    two = lambda a=3, b=4: [np.int32(a + b)] * 3  # noqa: E731  with defaults
    for source in (two, functools.partial(two, b=4), functools.partial(two, 3)):
        assert batches(made(source), 2) == [[7] * 3, [7] * 3]
    assert batches(made(lambda number, more=3: [np.int32(number + more)] * 3), 2) == [[3] * 3, [4] * 3]
    with pytest.raises(
        TypeError, match="the source takes 2 arguments; a callable takes none, the number of the batch"
    ):
        made(_of_two)


def tensor(array):
    return pytest.importorskip("torch").from_numpy(array)


class Shared:
    """An array of another library: all that is known of it is DLPack."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("layout", ["HWC", None])
@pytest.mark.parametrize("library", [np.asarray, tensor, Shared, list])
def test_one_array_of_pictures_is_a_batch_of_samples(library, layout):
    pictures = np.random.default_rng(0).integers(0, 256, (3, 12, 40, 3), dtype=np.uint8)

    def define():
        place = dali.random.uniform(range=(0.0, 1.0))
        node = dali.external_source(lambda: library(pictures), layout=layout)
        return dali.crop(node, crop=(8, 8), crop_pos_x=place), place

    with Program(define, 3) as pipe:
        found, places = next(pipe)
    assert found.shape == (3, 8, 8, 3)
    assert len(set(places.tolist())) == 3, "one draw for each picture"
    wanted = [fn.crop(one, crop=(8, 8), crop_pos_x=at) for one, at in zip(pictures, places, strict=True)]
    np.testing.assert_array_equal(found, wanted)


def test_pictures_with_channels_first_keep_that_layout():
    pictures = [np.full((3, height, 9), height, np.uint8) for height in (5, 6)]

    def define():
        node = dali.external_source(lambda: pictures, layout="CHW")
        return dali.flip(node), node

    with Program(define, 2) as pipe:
        turned, plain = pipe.run()
    assert turned.shape() == plain.shape() == [(3, 5, 9), (3, 6, 9)]
    assert turned.layout() == plain.layout() == "CHW"


def test_what_can_be_iterated_and_called_is_iterated():
    class Both:
        def __call__(self):
            return [np.int32(1)] * 3

        def __iter__(self):
            return iter([[np.int32(9)] * 3])

    assert batches(made(Both())) == [[9, 9, 9]]


@pytest.mark.parametrize(
    ("cycle", "wanted"),
    [
        (None, [[[0] * 3, [1] * 3], []]),
        (False, [[[0] * 3, [1] * 3], []]),
        ("no", [[[0] * 3, [1] * 3], []]),
        ("raise", [[[0] * 3, [1] * 3], [[0] * 3, [1] * 3]]),
    ],
)
@pytest.mark.parametrize("form", ["list", "function"])
def test_what_ends(cycle, wanted, form):
    source = list(by_batch(2)) if form == "list" else lambda: by_batch(2)
    if form == "function":

        def source():
            yield from by_batch(2)

    pipe = made(source, cycle=cycle)
    first = batches(pipe)
    pipe.reset()
    assert [first, batches(pipe)] == wanted


@pytest.mark.parametrize("cycle", [True, "quiet"])
def test_what_begins_anew_unnoticed_crosses_the_seam(cycle):
    assert batches(made(list(by_batch(2)), cycle=cycle), 5) == [[0] * 3, [1] * 3, [0] * 3, [1] * 3, [0] * 3]
    samples = [np.int32(number) for number in range(7)]
    assert batches(made(samples, batch=False, cycle=cycle), 4) == [[0, 1, 2], [3, 4, 5], [6, 0, 1], [2, 3, 4]]


def test_what_cannot_be_cycled_through():
    with pytest.raises(TypeError, match="a source that can restart, and a generator cannot"):
        made(by_batch(2), cycle=True)
    with pytest.raises(ValueError, match="cycle='quiet' is for iterables, and this source is a callable"):
        made(lambda: np.zeros((3, 1)), cycle="quiet")
    with pytest.raises(
        ParameterError, match="cycle='round' is not valid; allowed: None, 'no', 'quiet', 'raise'"
    ):
        made([], cycle="round")


def test_several_values():
    pipe = made(lambda: (np.zeros((3, 1)), [np.int32(1)] * 3), num_outputs=2)
    one, other = next(pipe)
    assert (one.shape, other.tolist()) == ((3, 1), [1, 1, 1])
    (only,) = next(made(lambda: (np.zeros((3, 1)),), num_outputs=1))
    assert only.shape == (3, 1)
    pipe = made(lambda: (np.zeros((3, 1)),), num_outputs=2)
    with pytest.raises(
        ParameterError, match=r"the source returned 1 values; allowed: a tuple of 2 \(num_outputs=2\)"
    ):
        next(pipe)


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (lambda: [np.int32(1)] * 4, {}, "a batch of 4 samples; allowed: up to batch_size=3"),
        (lambda: [], {}, "the source returned an empty batch"),
        (lambda: None, {}, "the source returned None"),
        (lambda: np.float32(3), {}, "the source returned a single number for a whole batch"),
        (
            lambda: [np.float32(1), np.int32(1)],
            {},
            "samples of a batch differ: float32 of 0 axes, int32 of 0 axes",
        ),
        (
            lambda: np.zeros((3, 2)),
            {"dtype": "float32"},
            "the source returned samples whose type is float64; allowed: float32, .*not cast",
        ),
        (lambda: np.zeros((3, 2)), {"layout": "HWC"}, "samples of 1 axes do not have the layout 'HWC'"),
        (lambda: np.array(["a"] * 3), {}, "an array of dtype <U1; allowed: arrays of numbers"),
        (lambda: [object()], {}, "an object of type object is not an array"),
    ],
)
def test_what_is_refused(source, options, said):
    with pytest.raises(ParameterError, match=f"external_source 'source': {said}"):
        next(made(source, **options))


def test_type_and_axes_stay_those_of_the_first_batch():
    pipe = made([np.zeros((3, 2)), np.zeros((3, 2), np.int32), np.zeros((3, 2, 2)), np.ones((3, 2))])
    assert next(pipe)[0].dtype == np.float64
    with pytest.raises(ParameterError, match="a batch of int32 with 1 axes after one of float64 with 1"):
        next(pipe)
    with pytest.raises(ParameterError, match="a batch of float64 with 2 axes after one of float64 with 1"):
        next(pipe)
    assert next(pipe)[0].tolist() == [[1, 1]] * 3


def test_what_is_taken_beyond_dali():
    assert batches(made(lambda: [1, 2, 3]), 1) == [[1, 2, 3]]
    assert batches(made(lambda: [[1, 2], [3, 4]]), 1) == [[1, 2, 3, 4]]
    assert batches(made(lambda: np.asfortranarray(np.arange(6.0).reshape(3, 2))), 1) == [[0, 1, 2, 3, 4, 5]]
    ragged = next(made(lambda: [np.zeros(n + 1) for n in range(3)]))[0]
    assert [part.shape for part in ragged] == [(1,), (2,), (3,)]
    assert batches(made(iter([[np.int32(1)] * 2, [np.int32(2)] * 3, [np.int32(3)]]))) == [
        [1, 1],
        [2, 2, 2],
        [3],
    ]


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    assert batches(made(lambda: torch.ones(3, 1)), 1) == [[1, 1, 1]]
    assert batches(made(lambda: [torch.tensor(n) for n in range(3)]), 1) == [[0, 1, 2]]


@pytest.mark.parametrize("whole", [True, False])
def test_memory_that_the_source_uses_again_is_copied(whole):
    buffer = np.zeros((2, 1), np.int32)

    def source(number):
        buffer[:] = number
        return buffer if whole else list(buffer)

    assert batches(made(source, 2), 4) == [[n, n] for n in range(4)]


class Counting:
    """An iterable that knows where it stands."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.at += 1
        return np.full((3, 1), self.at)

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def test_states():
    for source in (lambda info: np.int32(info.idx_in_epoch), Counting()):
        options = {"batch": False} if callable(source) else {}
        pipe = made(source, **options)
        batches(pipe, 2)
        state = pipe.state_dict()
        wanted = batches(pipe, 2)
        pipe.close()
        other = made(Counting() if not options else source, **options)
        other.load_state_dict(state)
        assert batches(other, 2) == wanted

    def generator():
        yield from by_batch(9)

    pipe = made(generator)
    batches(pipe, 2)
    with pytest.raises(StateError, match="a function cannot continue from batch 2 of epoch 0"):
        made(generator).load_state_dict(pipe.state_dict())


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_closed_pipeline_goes_on_where_it_was(prefetch):
    """What had been read ahead was lost."""
    made_again = {
        "callable": lambda number: np.full((3, 1), number + 1),
        "own state": Counting(),
        "list": [np.full((3, 1), number) for number in range(1, 9)],
    }
    for name, source in made_again.items():
        pipe = made(source, prefetch=prefetch)
        first = [int(next(pipe)[0][0, 0]) for _ in range(2)]
        state = pipe.state_dict()
        pipe.close()
        assert pipe.state_dict() == state
        if name == "list" and prefetch:
            with pytest.raises(StateError, match="a list cannot continue from batch 2 of epoch 0"):
                next(pipe)
        else:
            assert [*first, *(int(next(pipe)[0][0, 0]) for _ in range(2))] == [1, 2, 3, 4]
        pipe.close()


@pytest.mark.parametrize("repeat", [False, True])
def test_fed_batches_that_were_read_ahead_stay_in_the_queue(repeat):
    """They were lost where another epoch began, a state was loaded, or the pipeline was closed."""
    with Program(lambda: dali.external_source(name="fed", repeat_last=repeat), 2, prefetch=3) as pipe:
        for number in range(4):
            pipe.feed_input("fed", np.full((2, 1), number))
        found = []
        for change in (
            pipe.reset,
            lambda: pipe.load_state_dict(pipe.state_dict()),
            pipe.close,
            lambda: pipe.feed_input("fed", np.full((2, 1), 4)),
        ):
            found.append(int(next(pipe)[0][0, 0]))
            time.sleep(0.01)  # what is read ahead is finished
            change()
        assert [*found, int(next(pipe)[0][0, 0])] == [0, 1, 2, 3, 3 if repeat else 4]


def _of_two(one, other):
    return one, other


def test_a_source_that_was_not_fed_takes_no_batch_from_the_others():
    """What the first source had begun was lost when the second one had nothing."""

    def define():
        numbers = dali.external_source(lambda number: np.full((2, 1), number), name="numbers")
        return numbers, dali.external_source(name="fed")

    with Program(define, 2) as pipe:
        for step in range(3):
            with pytest.raises(
                IndexError, match=r"fed: the source has no batch for this run.*feed_input\('fed'"
            ):
                next(pipe)
            pipe.feed_input("fed", np.full((2, 1), step))
            assert [int(one[0, 0]) for one in next(pipe)] == [step, step]
        for step in range(3, 6):  # nothing was read ahead of what is fed now
            pipe.feed_input("fed", np.full((2, 1), step))
            assert [int(one[0, 0]) for one in next(pipe)] == [step, step]


def test_sources_of_different_sizes_are_refused_by_name():
    def define():
        return [dali.external_source(lambda *, n=n: np.zeros((n, 1)), name=f"s{n}") for n in (2, 1)]

    with (
        Program(define, 2) as pipe,
        pytest.raises(ParameterError, match=r"different sizes: .*gave 2, .*gave 1"),
    ):
        next(pipe)
