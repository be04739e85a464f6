"""Pipelines as text: the same batches after reading, and refusals of what text cannot hold."""

from __future__ import annotations

import json

import numpy as np
import pytest

from seqpipe.dali import Pipeline, fn, math, pipeline_def, types
from seqpipe.errors import ParameterError, StateError
from tests.dali.conftest import ON_CPU

IMAGES = np.random.default_rng(0).integers(0, 255, (3, 10, 12, 3)).astype(np.uint8)


@pipeline_def(batch_size=3, seed=5, **ON_CPU)
def program():
    images = fn.resize(
        fn.external_source(name="x", layout="HWC"), size=[6, 8], interp_type=types.INTERP_LINEAR
    )
    one, other = fn.random.uniform(range=(0, 1)), fn.random.uniform(range=(0, 1))
    turned = fn.rotate(images, angle=one * 30, fill_value=0)
    table = types.Constant(np.array([1, 2.5], np.float32))
    return (
        turned[:, 1:, ...] * 2 + types.Constant(1).uint8(),
        fn.crop(images, crop=(2, 2), crop_pos_x=other),
        fn.cast(table, dtype=types.INT32),
        *(math.sqrt(other), math.max(one, other), -one, images.shape()),
    )


def outputs(pipe):
    for _ in range(3):
        pipe.feed_input("x", IMAGES)
    return [output.as_array() for output in pipe.run()]


def test_a_pipeline_that_is_read_gives_the_same(tmp_path):
    pipe, path = program(), tmp_path / "pipe.json"
    text = pipe.serialize(filename=str(path))
    assert json.loads(text)["format"] == "seqpipe.dali pipeline 1"
    for again in (Pipeline.deserialize(text), Pipeline.deserialize(filename=str(path))):
        assert again.serialize() == text
        for found, wanted in zip(outputs(again), outputs(program()), strict=True):
            assert np.array_equal(found, wanted)
    assert Pipeline.deserialize(text.encode(), batch_size=2).batch_size == 2


def test_other_formats_and_functions_are_refused():
    for data in (b"\x0a\x03abc", "{}", ""):
        with pytest.raises(StateError, match=r"no pipeline that seqpipe.dali has serialized; .* NVIDIA DALI"):
            Pipeline.deserialize(data)
    with pytest.raises(ParameterError, match="mutually exclusive"):
        Pipeline.deserialize()
    with pytest.raises(TypeError, match="`define_graph` is 42; allowed: a callable"):
        program().serialize(42)

    @pipeline_def(batch_size=1, **ON_CPU)
    def calls(conditional):
        image = fn.external_source(name="x")
        return fn.copy(image) if conditional else fn.python_function(image, function=np.flip)

    with pytest.raises(ParameterError, match=r"python_function has an? .* no plain value"):
        calls(False).serialize()

    @pipeline_def(batch_size=1, enable_conditionals=True, **ON_CPU)
    def chosen():
        image = fn.external_source(name="x")
        if fn.random.coin_flip():
            image = fn.copy(image)
        return image

    with pytest.raises(ParameterError, match=r"no call that is recorded; .* without conditionals"):
        chosen().serialize()
