"""Resuming: from every step of an epoch a data set continues as if it had never stopped; epochs and states."""

from __future__ import annotations

import json

import numpy as np
import pytest

from seqpipe.errors import ParameterError, StateError
from seqpipe.readers import Range
from tests.support.datasets import assert_resumes, clips, files, gist, gists, images, planned

NAMES = ("h264", "vp9", "hevc_open_gop", "odd_mpeg4")


def make(source=None, **options):
    plain = {"labels": [0, 1, 2, 3], "length": 3, "stride": 2, "step": 9, "seed": 5}
    return clips(files(*NAMES) if source is None else source, **{**plain, **options})


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_every_step_of_a_shuffled_epoch_of_every_shard(rank, threads):
    assert_resumes(lambda: make(shuffle=True, shard=(rank, 3), threads=threads, batch=2))


@pytest.mark.parametrize("last", ["partial", "drop", "fill", "pad"])
@pytest.mark.parametrize("ragged", ["list", "pad"])
def test_every_step_with_every_kind_of_batch(last, ragged):
    assert_resumes(lambda: make(shuffle=True, batch=7, last=last, ragged=ragged))


@pytest.mark.parametrize(
    "options",
    [
        {"step": None, "per_video": 2},
        {"fps": 12.0, "step": 6},
        {"shuffle": True, "shard": (1, 2), "stick": True},
        {"shuffle": True, "shard": (1, 3), "even": True},
        {"pad": "reflect", "shuffle": True},
    ],
    ids=lambda options: "-".join(options),
)
def test_every_step_with_every_sampler_and_order(options):
    assert_resumes(lambda: make(**options, batch=3))


def test_every_step_of_segments():
    assert_resumes(lambda: clips(files(*NAMES), count=3, seed=5, batch=1))


@pytest.mark.parametrize("kind", [np.int64, float])
def test_equal_numbers_make_one_data_set_whatever_their_type(kind):
    """A seed or a rank that NumPy drew made a data set whose state could not be taken."""
    plain = {"length": 3, "stride": 2, "step": 9, "seed": 5, "shard": (0, 2)}
    given = {name: tuple(map(kind, v)) if name == "shard" else kind(v) for name, v in plain.items()}
    for more in ({}, {"fps": 12}, {"step": None, "per_video": 2}):
        options = {**given, **{name: value and kind(value) for name, value in more.items()}}
        state = json.loads(json.dumps(make(**options, batch=kind(2)).epoch(0).state_dict()))
        passed = make(**{**plain, **more}, batch=2).resume(state)
        assert len(passed) == len(make(**options, batch=kind(2)))


@pytest.mark.parametrize("policy", ["skip", "substitute"])
def test_every_step_with_losses(policy):
    damaged = files("h264_flip_reference", "h264", "h264_lost_key")
    assert_resumes(lambda: clips(damaged, length=4, shuffle=True, on_error=policy, batch=6))


def test_every_step_of_single_samples():
    running = make(shuffle=True, threads=3).epoch(0)
    states, given = [running.state_dict()], []
    for sample in running:
        given.append((sample.sources, sample["frames"].tolist()))
        states.append(sample.state)
        assert sample.state == running.state_dict()
        assert sample.state["history"] == [[1, len(given)]]
    assert len(given) == len(running) == 20
    other = make(shuffle=True, threads=1)
    for step, state in enumerate(states):
        rest = [(sample.sources, sample["frames"].tolist()) for sample in other.resume(state)]
        assert rest == given[step:]


def test_threads_prefetch_and_batch_size_change_nothing():
    expected = None
    for threads, ahead, size in ((1, 0, 1), (1, 3, 4), (2, 1, 3), (4, 5, 7), (4, 0, 20)):
        dataset = make(shuffle=True, threads=threads, ahead=ahead, batch=size)
        found = [one for given in gists(dataset) for one in zip(*given, strict=True)]
        expected = expected or found
        assert found == expected


def test_a_state_may_be_loaded_with_another_batch_size():
    running = make(shuffle=True, batch=4).epoch(0)
    first = [index for _ in range(2) for index in next(running)["index"].tolist()]
    other = make(shuffle=True, threads=2, ahead=0, batch=3)
    rest = [index for batch in other.resume(running.state_dict()) for index in batch["index"].tolist()]
    assert first + rest == [request.index for request in planned(make(shuffle=True))]


def test_prefetched_batches_do_not_count():
    running = make(ahead=4, batch=2).epoch(0)
    assert next(running).state["history"] == running.state_dict()["history"] == [[1, 2]]


def test_iterating_goes_on_after_a_break_and_begins_anew_after_the_end():
    running = make(batch=8).epoch(0)
    assert len(running) == 3
    for batch in running:
        assert batch["index"].tolist() == list(range(8))
        break
    assert [batch["index"].tolist()[0] for batch in running] == [8, 16]
    with pytest.raises(StopIteration):
        next(running)
    assert [batch["index"].tolist()[0] for batch in running] == [0, 8, 16]


def test_epochs_differ_in_their_order_and_are_the_same_again():
    dataset = make(shuffle=True, batch=20)

    def order(epoch):
        return [index for batch in dataset.epoch(epoch) for index in batch["index"].tolist()]

    zero, one = order(0), order(1)
    assert order(0) == zero != one == order(1)
    assert sorted(one) == sorted(zero)
    assert [[i for b in epoch for i in b["index"].tolist()] for epoch in dataset.epochs(2)] == [zero, one]
    assert [batch["index"].tolist() for batch in dataset] == [zero]
    with pytest.raises(ParameterError, match=r"epoch=-1 is not valid"):
        dataset.epoch(-1)


def test_a_usual_training_loop_resumes_in_its_epoch():
    def train(state=None, stop=None):
        seen = []
        for epoch in make(shuffle=True, batch=6).epochs(3, resume=state):
            for batch in epoch:
                seen.append((epoch.number, batch.epoch, batch["index"].tolist()))
                if len(seen) == stop:
                    return seen, batch.state
        return seen, None

    whole, _ = train()
    assert len(whole) == 12
    for stop in (1, 4, 5, 11):
        begun, state = train(stop=stop)
        assert begun + train(json.dumps(state))[0] == whole


def test_a_state_tells_what_differs():
    state = make(shuffle=True, batch=4).epoch(0).state_dict()
    others = {
        "seed": {"seed": 6},
        "shuffle": {"shuffle": False},
        "sampler": {"stride": 1},
        "files": {"source": files("h264", "vp9", "hevc", "odd_mpeg4")},
        "files, frames": {
            "source": files("h264", "vp9", "hevc_open_gop", "wide_h264", "gif"),
            "labels": [0] * 5,
        },
        "frames": {"ranges": [Range(end_frame=40), None, None, None]},
    }
    for names, options in others.items():
        said = rf"the state does not belong to this data set: {names} differs?\."
        with pytest.raises(StateError, match=said):
            make(**{"shuffle": True, **options}, batch=4).resume(state)
    same = {"threads": 3, "ahead": 0, "size": (32, 32), "labels": [0] * 4, "on_error": "skip"}
    same |= {"shard": (0, 2), "even": True, "batch": 9}
    assert len(list(make(shuffle=True, **same).resume(state))) == 2


def test_the_end_of_a_range_in_seconds_differs_where_samples_are_chosen_by_time():
    def state(end_s, **options):
        return clips(files("h264"), ranges=[Range(end_s=end_s)], length=4, **options).epoch(0).state_dict()

    assert state(0.97) == state(1.0), "of 25 frames per second, 25 are used"
    assert state(0.97, fps=10) != state(1.0, fps=10)


def test_states_that_are_none():
    dataset = make(batch=4)
    state = dataset.epoch(0).state_dict()
    for wrong, said in (
        ({**state, "history": [[1, 21]]}, "21 samples of a rank in epoch 0.*allowed: 0 to 20"),
        ({"epoch": 0, "history": [[1, 0]]}, "fingerprint"),
        ({**state, "epoch": -1}, "epoch=-1"),
        ({**state, "version": 1}, "version"),
        ({**state, "history": [[0, 4]]}, "history"),
        (5, "state"),
        ("no json", "state"),
    ):
        with pytest.raises(StateError, match=said):
            dataset.resume(wrong)


def test_a_state_at_the_end_gives_nothing_more_and_then_the_epoch_anew():
    running = make(batch=10).epoch(0)
    assert len(list(running)) == 2
    other = make(batch=10).resume(running.state_dict())
    assert list(other) == []
    assert len(list(other)) == 2


@pytest.mark.parametrize("worlds", [(1, 3), (3, 2), (2, 3, 1)])
def test_a_state_of_some_ranks_continues_on_others(worlds):
    """Each remaining sample comes once, whatever the number of ranks and the batch size are."""
    seen, state = [], None
    for number, world in enumerate(worlds):
        states, last = [], number == len(worlds) - 1
        for rank in range(world):
            dataset = make(shuffle=True, shard=(rank, world), batch=2)
            running = dataset.epoch(1) if state is None else dataset.resume(state)
            given = gists(running) if last else [gist(next(running))]
            seen += [one for batch in given for one in zip(*batch, strict=True)]
            states.append(running.state_dict())
        assert all(one == states[0] for one in states)
        state = states[0]
    whole = [one for batch in gists(make(shuffle=True, batch=7).epoch(1)) for one in zip(*batch, strict=True)]
    assert sorted(seen) == sorted(whole)


def test_a_data_set_that_moved_as_a_whole_goes_on(tmp_path):
    states = []
    for name in ("here", "there"):
        folder = tmp_path / name / "dog"
        folder.mkdir(parents=True)
        for path in files("h264", "vp9"):
            (folder / path.rpartition("/")[2]).symlink_to(path)
        dataset = clips(tmp_path / name, count=2)
        assert {image.label for image in images(dataset)} == {0}
        states.append(dataset.epoch(0).state_dict())
    assert states[0] == states[1]
