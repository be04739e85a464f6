"""The history of a sample that operators on images have moved: what was drawn, as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from seqpipe import ops
from seqpipe.errors import ParameterError
from seqpipe.parts import Labels
from seqpipe.view import compare


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (4, 24, 30, 3), np.uint8)
    return {"image": image, "mask": Labels((image[..., :1] > 99).astype(np.uint8))}


def test_a_history_says_what_was_drawn(sample):
    rotate = ops.Rotate(angle=(-30.0, 30.0), keep_size=True)
    done = ops.Chain(rotate, ops.Flip(horizontal=1, p=0.5))(sample, epoch=2, index=5)
    history = json.loads(json.dumps(done.history))
    assert [entry["op"]["op"] for entry in history] == ["rotate", "flip"]
    assert all((entry["epoch"], entry["index"]) == (2, 5) for entry in history)
    angle, acts = history[0]["drawn"]["angle"], history[1]["drawn"]["acts"]
    fixed = ops.Rotate(angle=angle, keep_size=True)(sample)
    fixed = ops.Flip(horizontal=1)(fixed) if acts else fixed
    assert np.array_equal(fixed["image"], done["image"])
    assert np.array_equal(fixed["mask"].data, done["mask"].data)


def test_draws_of_frames_are_lists_and_histories_go_on(sample):
    gamma = ops.Gamma(gamma=(0.5, 2.0), per_frame=True)
    first = gamma(sample)
    done = ops.Crop(crop=(8, 8))(first)
    assert [entry["op"]["op"] for entry in done.history] == ["gamma", "crop"]
    assert len(set(done.history[0]["drawn"]["gamma"])) == 4
    assert first.history == done.history[:1]
    batch = {"image": np.stack([sample["image"]] * 2)}
    assert gamma(batch).history == []


def test_replay_refuses_operators_on_images_by_name(sample):
    done = ops.Flip(horizontal=1)(sample)
    with pytest.raises(ParameterError, match="a history with flip, which acts on images"):
        ops.replay(done.history, sample)


def test_pages_show_what_was_drawn_for_frames(sample):
    before, after = compare(ops.Chain(ops.Rotate(angle=(-30.0, 30.0)), ops.Flip(horizontal=1)), sample).panels
    assert before.history == []
    assert after.history[0].startswith("rotate: angle = ")
    assert after.history[1] == "flip: horizontal = 1, vertical = 0"
    assert 'class="mask"' in after.body
