"""``dice_ce`` against its formula in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe.errors import ParameterError

torch = pytest.importorskip("torch")


def judged(scores, labels, known):
    """Cross entropy minus the mean soft Dice of the classes from 1, of the known voxels."""
    power = np.exp(scores - scores.max(axis=1, keepdims=True))
    probability = np.moveaxis(power / power.sum(axis=1, keepdims=True), 1, -1)[known]
    truth = np.eye(scores.shape[1])[labels[known]]
    entropy = -np.log((probability * truth).sum(axis=1)).mean()
    dice = (2 * (probability * truth).sum(axis=0) + 1) / ((probability + truth).sum(axis=0) + 1)
    return entropy - dice[1:].mean()


def test_it_is_its_formula_and_leaves_out_what_is_not_annotated():
    from seqpipe.torch import dice_ce

    rng = np.random.default_rng(2)
    scores, labels = rng.normal(size=(2, 3, 4, 5, 6)), rng.integers(0, 3, (2, 4, 5, 6))
    given = torch.from_numpy(scores)
    assert float(dice_ce(given, torch.from_numpy(labels))) == pytest.approx(
        judged(scores, labels, labels >= 0), abs=1e-5
    )
    labels[labels == 2] = np.where(rng.random((labels == 2).sum()) < 0.5, 255, 2)
    some = torch.from_numpy(labels.astype(np.uint8))
    want = judged(scores, labels, labels != 255)
    for one in (some, some[..., None], some[:, None]):
        assert float(dice_ce(given, one, ignore=255)) == pytest.approx(want, abs=1e-5)
    coarse = rng.normal(size=(2, 3, 2, 5, 3))
    fewer = labels[:, [1, 3]][..., [1, 3, 5]]
    both = (want + 0.5 * judged(coarse, fewer, fewer != 255)) / 1.5
    several = [given, torch.from_numpy(coarse), torch.zeros(2, 3, 1, 1, 1)]
    assert float(dice_ce(several, some, ignore=255)) == pytest.approx(both, abs=1e-5)
    nothing = dice_ce(given.requires_grad_(), torch.full((2, 4, 5, 6), 255), ignore=255)
    nothing.backward()
    assert torch.isfinite(given.grad).all()
    with pytest.raises(ParameterError, match=r"labels \(2, 4, 5\) do not fit"):
        dice_ce(given, some[..., 0])
