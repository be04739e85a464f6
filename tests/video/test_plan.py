"""The planner against a model that knows what every frame is really predicted from."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqpipe.video.packet_index import PacketTable
from seqpipe.video.plan import damaged_by, make_plan


@dataclass(frozen=True)
class Picture:
    """A picture of the model: decoding it needs exactly the pictures in ``needs``."""

    display: int
    key: bool
    reference: bool
    needs: tuple[int, ...]
    radl: bool = False
    rasl: bool = False


@st.composite
def streams(draw: st.DrawFn) -> list[Picture]:
    """GOPs of an encoder: open or closed, with mini-GOPs of B-frames that may refer to one another."""
    pictures: list[Picture] = []
    display = 0
    last_anchor: int | None = None
    for number in range(draw(st.integers(1, 5))):
        leading = draw(st.integers(0, 3)) if number else 0
        open_gop = draw(st.booleans())
        key = len(pictures)
        pictures.append(Picture(display + leading, key=True, reference=True, needs=()))
        for place in range(leading):
            decodable = not open_gop
            needs = (key,) if decodable else (key, last_anchor)
            reference = draw(st.booleans())
            pictures.append(
                Picture(
                    display + place,
                    key=False,
                    reference=reference,
                    needs=needs,
                    radl=decodable,
                    rasl=not decodable,
                )
            )
        display += leading + 1
        anchor = key
        for _ in range(draw(st.integers(0, 4))):
            between = draw(st.integers(0, 3))
            p = len(pictures)
            pictures.append(Picture(display + between, key=False, reference=True, needs=(anchor,)))
            earlier: list[int] = []
            for place in range(between):
                reference = draw(st.booleans())
                b = len(pictures)
                pictures.append(
                    Picture(display + place, key=False, reference=reference, needs=(anchor, p, *earlier))
                )
                earlier += [b] if reference else []
            display += between + 1
            anchor = p
        last_anchor = anchor
    return pictures


def table_of(pictures: list[Picture], *, known_leading: bool) -> PacketTable:
    count = len(pictures)

    def column(values: list[bool]) -> np.ndarray:
        return np.array(values, dtype=bool)

    return PacketTable(
        pts=np.array([p.display * 512 for p in pictures], dtype=np.int64),
        size=np.ones(count, dtype=np.int32),
        offset=np.arange(count, dtype=np.int64),
        checksum=np.empty(0, dtype=np.uint32),
        key=column([p.key for p in pictures]),
        reference=column([p.reference for p in pictures]),
        shown=np.ones(count, dtype=bool),
        damaged=np.zeros(count, dtype=bool),
        undecodable=column([p.rasl and known_leading for p in pictures]),
        self_contained=column([p.radl and known_leading for p in pictures]),
    )


def decodable(pictures: list[Picture], fed: list[int]) -> set[int]:
    """What a decoder can show that was fed these packets, in this order, from nothing."""
    good: set[int] = set()
    for packet in fed:
        if all(need in good for need in pictures[packet].needs):
            good.add(packet)
    return good


@settings(max_examples=300)
@given(streams(), st.booleans(), st.data())
def test_every_wanted_frame_can_be_decoded_and_nothing_useless_is_fed(pictures, known_leading, data):
    table = table_of(pictures, known_leading=known_leading)
    wanted = data.draw(st.lists(st.integers(0, len(pictures) - 1), min_size=1, max_size=8))
    plan = make_plan(table, np.array(wanted), least_saved=data.draw(st.sampled_from([1, 1, 2, 4, 1000])))
    delivered: list[int] = []
    for segment in plan.segments:
        fed = segment.packets.tolist()
        assert fed == sorted(set(fed))
        assert pictures[fed[0]].key
        assert fed[-1] == segment.wanted[-1], "it goes on after the last wanted frame"
        good = decodable(pictures, fed)
        assert set(segment.wanted.tolist()) <= good
        useless = [p for p in fed if not pictures[p].reference and p not in wanted]
        assert not useless
        delivered += segment.wanted.tolist()
    assert sorted(delivered) == sorted(set(wanted))
    starts = [int(segment.packets[0]) for segment in plan.segments]
    assert starts == sorted(starts)


@settings(max_examples=100)
@given(streams(), st.booleans(), st.data())
def test_a_thorough_plan_decodes_each_frame_as_it_does_alone(pictures, known_leading, data):
    table, places = table_of(pictures, known_leading=known_leading), st.integers(0, len(pictures) - 1)
    wanted = data.draw(st.lists(places, min_size=1, max_size=8))
    refused = data.draw(st.sets(st.tuples(places, places), max_size=4))
    plan = make_plan(table, np.array(wanted), refused=refused, thorough=True)
    assert sorted(np.concatenate([segment.wanted for segment in plan.segments])) == sorted(set(wanted))
    for segment in plan.segments:
        for frame in segment.wanted.tolist():
            others = set(segment.wanted.tolist()) - {frame}
            (alone,) = make_plan(table, np.array([frame]), refused=refused, thorough=True).segments
            assert alone.packets[0] == segment.packets[0]
            fed = segment.packets[segment.packets <= frame]
            assert set(alone.packets) <= set(fed) <= set(alone.packets) | others


@settings(max_examples=200)
@given(streams(), st.data())
def test_no_cheaper_run_of_whole_reference_chains_exists(pictures, data):
    """For one frame: a start at any later key frame would not deliver it."""
    table = table_of(pictures, known_leading=True)
    wanted = data.draw(st.integers(0, len(pictures) - 1))
    (segment,) = make_plan(table, np.array([wanted])).segments
    start = int(segment.packets[0])
    for later in (k for k, p in enumerate(pictures) if p.key and start < k <= wanted):
        fed = [p for p in range(later, wanted + 1) if pictures[p].reference or p == wanted]
        assert wanted not in decodable(pictures, fed)


@given(streams(), st.data())
def test_damage_takes_all_that_depends_on_it(pictures, data):
    table = table_of(pictures, known_leading=True)
    broken = data.draw(st.integers(0, len(pictures) - 1))
    lost = set(damaged_by(table, broken).tolist())
    everything = [p for p in range(len(pictures)) if p != broken]
    truly_lost = {broken} | (set(everything) - decodable(pictures, everything))
    assert truly_lost <= lost
    assert not any(p in lost for p in range(broken)), "frames decoded before the damage are sound"
    if not pictures[broken].reference:
        assert lost == {broken}


def test_far_apart_frames_are_two_runs_and_neighbors_are_one():
    pictures = [
        Picture(i, key=i % 10 == 0, reference=True, needs=() if i % 10 == 0 else (i - 1,)) for i in range(40)
    ]
    table = table_of(pictures, known_leading=False)
    assert [s.packets.tolist() for s in make_plan(table, np.array([31, 2])).segments] == [[0, 1, 2], [30, 31]]
    (joined,) = make_plan(table, np.array([31, 2]), least_saved=1000).segments
    assert joined.packets.tolist() == list(range(32)), "a drain may cost more than what it leaves out"
    (through,) = make_plan(table, np.arange(5, 15)).segments
    assert through.packets.tolist() == list(range(15)), "a run goes on across a key frame without a flush"


def test_starting_earlier_takes_one_more_gop():
    pictures = [
        Picture(i, key=i % 10 == 0, reference=True, needs=() if i % 10 == 0 else (i - 1,)) for i in range(40)
    ]
    table = table_of(pictures, known_leading=False)
    (segment,) = make_plan(table, np.array([25]), earlier=1).segments
    assert segment.packets.tolist() == list(range(10, 26))
    (segment,) = make_plan(table, np.array([5]), earlier=3).segments
    assert segment.packets.tolist() == list(range(6))


def test_nothing_wanted_is_no_run():
    table = table_of([Picture(0, key=True, reference=True, needs=())], known_leading=False)
    plan = make_plan(table, np.array([], dtype=np.int64))
    assert plan.segments == ()
    assert plan.cost == 0


def test_the_model_notices_a_planner_that_forgets_open_gops():
    """The test of the test: without leading pictures the same check fails."""
    pictures = [
        Picture(0, key=True, reference=True, needs=()),
        Picture(1, key=False, reference=True, needs=(0,)),
        Picture(3, key=True, reference=True, needs=()),
        Picture(2, key=False, reference=False, needs=(1, 2), rasl=True),
    ]
    table = table_of(pictures, known_leading=True)
    forgetful = replace(table, self_contained=np.ones(4, dtype=bool))
    (right,) = make_plan(table, np.array([3])).segments
    (wrong,) = make_plan(forgetful, np.array([3])).segments
    assert 3 in decodable(pictures, right.packets.tolist())
    assert 3 not in decodable(pictures, wrong.packets.tolist())


@pytest.mark.parametrize("wanted", [[0], [3, 3, 1], [2, 0]])
def test_repeats_and_order_do_not_matter(wanted):
    pictures = [Picture(i, key=i == 0, reference=True, needs=() if i == 0 else (i - 1,)) for i in range(4)]
    table = table_of(pictures, known_leading=False)
    plan, again = make_plan(table, np.array(wanted)), make_plan(table, np.unique(wanted))
    assert [s.packets.tolist() for s in plan.segments] == [s.packets.tolist() for s in again.segments]
