"""Resuming: from every step of an epoch a dataset goes on as if it had never stopped; epochs and states."""

from __future__ import annotations

import json

import numpy as np
import pytest

from seqpipe import Clip, Segments, videos
from seqpipe.errors import ParameterError, StateError
from seqpipe.readers import Range
from tests.support.datasets import assert_resumes, clips, files, gist

NAMES = ("h264", "vp9", "hevc_open_gop", "odd_mpeg4")


def make(**options):
    plain = {
        "files": files(*NAMES),
        "labels": [0, 1, 2, 3],
        "length": 3,
        "stride": 2,
        "step": 9,
        "seed": 5,
    }
    return clips(**{**plain, **options})


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_every_step_of_a_shuffled_epoch_of_every_shard(rank, threads):
    assert_resumes(lambda: make(shuffle=True, shard=(rank, 3), threads=threads), batch_size=2)


@pytest.mark.parametrize("last_batch", ["partial", "drop", "fill"])
@pytest.mark.parametrize("ragged", ["list", "pad"])
def test_every_step_with_every_kind_of_batch(last_batch, ragged):
    assert_resumes(lambda: make(shuffle=True), batch_size=7, last=last_batch, ragged=ragged)


@pytest.mark.parametrize(
    "options",
    [
        {"step": None, "per_video": 2},
        {"length": None, "stride": 1, "step": None, "count": 3},
        {"fps": 12.0, "step": 6},
        {"shuffle": True, "shard": (1, 2), "stick": True},
        {"shuffle": True, "shard": (1, 3), "even": True},
        {"pad": "reflect", "shuffle": True},
    ],
    ids=lambda options: "-".join(options),
)
def test_every_step_with_every_sampler_and_order(options):
    assert_resumes(lambda: make(**options), batch_size=3 if "segments" not in options else 1)


@pytest.mark.parametrize("kind", [np.int64, float])
def test_equal_numbers_make_one_dataset_whatever_their_type(kind):
    """A seed or a rank that NumPy drew made a dataset whose state could not be taken."""
    plain = {"length": 3, "stride": 2, "step": 9, "seed": 5, "shard": (0, 2)}
    given = {name: tuple(map(kind, v)) if name == "shard" else kind(v) for name, v in plain.items()}
    for more in ({}, {"fps": 12}, {"step": None, "per_video": 2}):
        options = {**given, **{name: value and kind(value) for name, value in more.items()}}
        state = json.loads(json.dumps(make(**options).batch(kind(2)).state_dict()))
        passed = make(**{**plain, **more}).batch(2)
        passed.load_state_dict(state)
        assert len(passed) == len(make(**options).batch(kind(2)))


def test_every_step_with_losses():
    for policy in ("skip", "substitute"):
        damaged = files("h264_flip_reference", "h264", "h264_lost_key")
        assert_resumes(
            lambda: videos(damaged, Clip(4), shuffle=True, on_error=policy),  # noqa: B023  called at once
            batch_size=6,
        )


def test_every_step_of_single_sequences():
    dataset = make(shuffle=True, threads=3)
    sequences = dataset.sequences()
    states, given = [sequences.state_dict()], []
    for sequence in sequences:
        given.append((sequence.source, sequence.frames.tolist()))
        states.append(sequences.state_dict())
        assert sequences.position == len(given)
    assert len(given) == len(sequences) == len(dataset) == 20
    rest = make(shuffle=True, threads=1).sequences()
    for step, state in enumerate(states):
        rest.load_state_dict(state)
        assert [(s.source, s.frames.tolist()) for s in rest] == given[step:]


def test_threads_prefetch_and_batch_size_change_nothing():
    expected = None
    for threads, prefetch, size in ((1, 0, 1), (1, 3, 4), (2, 1, 3), (4, 5, 7), (4, 0, 20)):
        dataset = make(shuffle=True, threads=threads, prefetch=prefetch)
        found = [
            (index, label, source, frames)
            for batch in dataset.batch(size)
            for index, label, source, frames, _ in zip(*gist(batch), strict=True)
        ]
        pixels = [digest for batch in dataset.batch(size) for digest in gist(batch)[-1]]
        expected = expected or (found, pixels)
        assert (found, pixels) == expected


def test_a_state_may_be_loaded_with_another_batch_size():
    batches = make(shuffle=True).batch(4)
    first = [index for _ in range(2) for index in next(batches).indices.tolist()]
    other = make(shuffle=True, threads=2, prefetch=0).batch(3)
    other.load_state_dict(batches.state_dict())
    rest = [index for batch in other for index in batch["index"].tolist()]
    assert first + rest == [request.index for request in make(shuffle=True).requests(0)]


def test_prefetched_batches_do_not_count():
    batches = make(prefetch=4).batch(2)
    next(batches)
    assert batches.position == batches.state_dict()["position"] == 2


def test_iterating_goes_on_after_a_break_and_begins_anew_after_the_end():
    dataset = make()
    batches = dataset.batch(8)
    assert len(batches) == 3
    for batch in batches:
        assert batch["index"].tolist() == list(range(8))
        break
    assert [batch["index"].tolist()[0] for batch in batches] == [8, 16]
    with pytest.raises(StopIteration):
        next(batches)
    assert [batch["index"].tolist()[0] for batch in batches] == [0, 8, 16]


def test_the_epoch_changes_by_set_epoch_only():
    dataset = make(shuffle=True)
    batches = dataset.batch(20)

    def order():
        return [index for batch in batches for index in batch["index"].tolist()]

    zero = order()
    assert order() == zero
    dataset.set_epoch(1)
    one = order()
    assert one != zero
    assert sorted(one) == sorted(zero)
    dataset.set_epoch(0)
    assert order() == zero
    # chosen anew in the middle of an epoch: from its start
    half = dataset.batch(10)
    next(half)
    dataset.set_epoch(1)
    assert [index for batch in half for index in batch["index"].tolist()] == one
    with pytest.raises(ParameterError, match=r"epoch=-1 is not valid"):
        dataset.set_epoch(-1)


def test_a_usual_training_loop_resumes_in_its_epoch():
    def train(dataset, batches, stop=None):
        seen = []
        for epoch in range(dataset.epoch, 3):
            dataset.set_epoch(epoch)
            for batch in batches:
                seen.append((epoch, batch["index"].tolist()))
                if len(seen) == stop:
                    return seen, batches.state_dict()
        return seen, batches.state_dict()

    dataset = make(shuffle=True)
    whole, _ = train(dataset, dataset.batch(6))
    assert len(whole) == 12
    for stop in range(1, 12):
        dataset = make(shuffle=True)
        begun, state = train(dataset, dataset.batch(6), stop)
        dataset = make(shuffle=True)
        batches = dataset.batch(6)
        batches.load_state_dict(state)
        rest, _ = train(dataset, batches)
        assert begun + rest == whole


def test_a_state_tells_what_differs():
    state = make(shuffle=True).batch(4).state_dict()
    others = {
        "seed": {"seed": 6},
        "shuffle": {"shuffle": False},
        "sampler": {"stride": 1},
        "shard": {"shard": (0, 2)},
        "even_shards, shard": {"shard": (0, 2), "even": True},
        "files": {"files": files("h264", "vp9", "hevc", "odd_mpeg4")},
        "files, frames": {"files": files("h264", "vp9", "hevc_open_gop", "wide_h264", "gif"), "labels": None},
        "frames": {"ranges": [Range(end_frame=40), None, None, None]},
    }
    for names, options in others.items():
        with pytest.raises(
            StateError, match=rf"the state does not belong to this dataset: {names} differs?\."
        ):
            make(**{"shuffle": True, **options}).batch(4).load_state_dict(state)
    same = make(shuffle=True, threads=3, prefetch=0, size=(32, 32), labels=None, on_error="skip").batch(9)
    same.load_state_dict(state)


def test_the_end_of_a_range_in_seconds_differs_where_samples_are_chosen_by_time():
    def state(end_s, **options):
        ranges = [Range(end_s=end_s)]
        return clips(files("h264"), ranges=ranges, length=4, **options).batch(1).state_dict()

    assert state(0.97) == state(1.0), "of 25 frames per second, 25 are used"
    assert state(0.97, fps=10) != state(1.0, fps=10)


def test_states_that_are_none():
    batches = make().batch(4)
    state = batches.state_dict()
    with pytest.raises(StateError, match=r"position=21 is past the end of epoch 0; allowed: 0 to 20"):
        batches.load_state_dict({**state, "position": 21})
    with pytest.raises(StateError, match=r"the state has no fingerprint"):
        batches.load_state_dict({"epoch": 0, "position": 0})
    with pytest.raises(StateError, match=r"epoch=-1"):
        batches.load_state_dict({**state, "epoch": -1})


def test_a_state_at_the_end_gives_nothing_more_and_then_the_epoch_anew():
    batches = make().batch(10)
    assert len(list(batches)) == 2
    other = make().batch(10)
    other.load_state_dict(batches.state_dict())
    assert list(other) == []
    assert len(list(other)) == 2


def test_a_dataset_that_moved_as_a_whole_goes_on(tmp_path):
    states = []
    for name in ("here", "there"):
        folder = tmp_path / name / "dog"
        folder.mkdir(parents=True)
        for path in files("h264", "vp9"):
            (folder / path.rpartition("/")[2]).symlink_to(path)
        states.append(videos(tmp_path / name, Segments(2)).batch(1).state_dict())
    assert states[0] == states[1]
