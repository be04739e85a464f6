"""Our operators beside DALI 2.4, on the same arguments: where they agree, where not, and who says so."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from seqpipe import fn, ops
from seqpipe.ops import REGISTRY
from tests.peers import dali, drawn
from tests.peers.agreed import AGREED
from tests.peers.arguments import ABSENT, DEFAULTS, OF_ALL
from tests.peers.arrays import ARRAYS
from tests.peers.dali import Answers, Case, Gap
from tests.peers.differences import DIFFERENCES, REFUSED, Difference

pytestmark = pytest.mark.peers

_LEAST = 0.001  # how likely it must be that two lots of numbers are drawn alike
_ON_GPUS = {"median_blur", "optical_flow"}  # DALI has it there only


@pytest.mark.parametrize(("gap", "case"), [(gap, case) for gap, cases in AGREED for case in cases], ids=str)
def test_we_agree(answers: Answers, gap: Gap, case: Case):
    found, wanted = dali.ours(case), dali.theirs(answers, case)
    assert found.dtype == wanted.dtype
    measured = Gap.between(found, wanted)
    assert measured.within(gap), measured


@pytest.mark.parametrize("name", ARRAYS)
def test_we_agree_on_arrays(answers: Answers, name: str):
    found, ((wanted,),) = ARRAYS[name].ours(), answers.results[name]
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert Gap.between(found, wanted).within(Gap(2e-5 if name.startswith("coord") else 0, 0))


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda one: str(one.case))
def test_a_difference_is_as_large_as_is_said(answers: Answers, difference: Difference):
    measured = Gap.between(dali.ours(difference.case), dali.theirs(answers, difference.case))
    assert measured.worst == pytest.approx(difference.gap.worst, rel=0.02)
    assert measured.share == pytest.approx(difference.gap.share, rel=0.05)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda one: str(one.case))
def test_others_say_who_is_right(answers: Answers, difference: Difference):
    """A judge that agrees with one of us does not with the other: it can tell."""
    found, wanted = dali.ours(difference.case), dali.theirs(answers, difference.case)
    for mine, yours, by in ((found, wanted, difference.ours_by), (wanted, found, difference.theirs_by)):
        if by is not None:
            judge, near = by
            says = judge(difference.case, mine.shape)
            assert Gap.between(mine, says).within(near)
            assert not Gap.between(yours, says).within(near)


@pytest.mark.parametrize(("case", "says"), REFUSED, ids=str)
def test_dali_refuses_what_we_do(answers: Answers, case: Case, says: str):
    refusal = answers.results[case.label]
    assert isinstance(refusal, str)
    assert says in refusal
    assert dali.ours(case).size


def test_every_operator_that_dali_has_is_here(answers: Answers):
    cases = [*(case for _, some in AGREED for case in some), *(one.case for one in DIFFERENCES)]
    here = {case.operator for case in [*cases, *ARRAYS.values()]} | set(drawn.DRAWN) | _ON_GPUS
    assert sorted(set(_in_both(answers)) - here) == []
    assert sorted(here - set(REGISTRY)) == [], "an operator that is no longer there"


def test_arguments_have_the_same_defaults(answers: Answers):
    other, absent = set(), set()
    for name, theirs in _in_both(answers).items():
        ours = {q.name: q.default for q in REGISTRY[name].parameters}
        absent |= theirs.keys() - ours.keys()
        for argument in (theirs.keys() & ours.keys()) - OF_ALL:
            wanted, found = _plain(theirs[argument]), _plain(ours[argument])
            # 0 there may be what None is here; what has none there must be given
            if wanted not in (None, found) and (found is not None or wanted):
                other.add(f"{name}.{argument}")
    assert sorted(other) == sorted(DEFAULTS)
    assert sorted(absent - OF_ALL) == sorted(ABSENT)


def _in_both(answers: Answers) -> dict[str, Mapping[str, Any]]:
    """Our operators that DALI has, and its arguments."""
    found = {}
    for name, declared in REGISTRY.items():
        # random numbers are of another generator than DALI's: there is nothing to agree on
        if declared.__module__.startswith("seqpipe.") and declared.traits.takes != "nothing":
            for peer in (name, f"experimental.{name}", name.replace("noise_", "noise.")):
                if peer in answers.operators:
                    found.setdefault(name, answers.operators[peer])
    return found


def _plain(default: Any) -> Any:
    """A default; one value alone instead of a list with it, None instead of an empty one."""
    values = list(default) if isinstance(default, (list, tuple)) else [default]
    return tuple(values) if len(values) > 1 else values[0] if values else None


def _windows(resized):
    """Left, top, columns and rows of windows of :data:`drawn.COORDINATES`, from eight by eight pixels of each."""
    columns = (resized[:, 3, 5, 0] - resized[:, 3, 2, 0]) * 8 / 3
    rows = (resized[:, 5, 3, 1] - resized[:, 2, 3, 1]) * 8 / 3
    left, top = resized[:, 3, 3, 0] - columns * 3.5 / 8, resized[:, 3, 3, 1] - rows * 3.5 / 8
    return np.rint(np.stack([left, top, columns, rows], axis=1))


def _alike(one, other):
    assert stats.ks_2samp(one, other).pvalue > _LEAST


def test_random_resized_crop_draws_alike(answers: Answers):
    images = np.broadcast_to(drawn.COORDINATES, (drawn.MANY, 1, *drawn.COORDINATES.shape))
    mine = _windows(fn.random_resized_crop(images, **drawn.WINDOW)[:, 0])
    yours = _windows(np.stack(answers.results["random_resized_crop"][0]))
    for part in range(4):
        _alike(mine[:, part], yours[:, part])
    _alike(mine[:, 2] * mine[:, 3], yours[:, 2] * yours[:, 3])
    _alike(mine[:, 2] / mine[:, 3], yours[:, 2] / yours[:, 3])


def test_random_bbox_crop_draws_alike(answers: Answers):
    anchors, shapes, boxes = answers.results["random_bbox_crop"]
    given = dali.given("boxes")[:4]
    mine = ops.RandomBboxCrop(**drawn.CHOICES)([given] * drawn.MANY)
    _alike([len(left) for left in mine.boxes], [len(left) for left in boxes])
    for found, wanted in ((mine.anchor, np.stack(anchors)), (mine.shape, np.stack(shapes))):
        for axis in range(2):
            _alike(found[:, axis], wanted[:, axis])
    ratios = [shape[:, 0] / shape[:, 1] for shape in (mine.shape, np.stack(shapes))]
    _alike(*ratios)


def test_random_bbox_crop_leaves_the_same_boxes(answers: Answers):
    """Of DALI's windows: those whose center is within, and what is left of them."""
    given, rule = dali.given("boxes")[:4].astype(np.float64), ops.RandomBboxCrop().reference
    centers = (given[:, :2] + given[:, 2:]) / 2
    kept = 0
    for anchor, shape, boxes in zip(*answers.results["random_bbox_crop"], strict=True):
        window = np.concatenate([anchor, anchor + shape]).astype(np.float64)
        inside = ((centers >= window[:2]) & (centers <= window[2:])).all(axis=1)
        np.testing.assert_allclose(boxes, rule(given[inside], SimpleNamespace(window=window)), atol=2e-6)
        kept += len(boxes)
    assert drawn.MANY < kept < 4 * drawn.MANY


@pytest.mark.parametrize("name", [name for name in drawn.DRAWN if name.startswith("noise")])
def test_noise_is_drawn_alike(answers: Answers, name: str):
    mine = getattr(fn, name)(drawn.GRAY, **drawn.DRAWN[name]["arguments"])
    yours = answers.results[name][0][0]
    assert mine.dtype == yours.dtype
    _alike(mine.ravel(), yours.ravel())
    whole = [(one == one[..., :1]).all(axis=-1).mean() for one in (mine, yours)]
    assert whole[0] == pytest.approx(whole[1], abs=0.01), (
        "whether the channels of a pixel have the same noise"
    )
