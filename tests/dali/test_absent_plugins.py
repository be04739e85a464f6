"""DALI's plugins for frameworks that are not installed here, or that are retired."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from seqpipe.dali import fn, pipeline_def
from seqpipe.dali.plugin import mxnet, tf
from seqpipe.dali.plugin.triton import autoserialize
from seqpipe.errors import BackendError, ParameterError
from tests.dali.conftest import ON_CPU


@pytest.mark.parametrize(
    ("plugin", "name", "said"),
    [
        (mxnet, "DALIClassificationIterator", "no DALIClassificationIterator for MXNet.*MXNet is retired"),
        (tf, "DALIIterator", r"no DALIIterator for TensorFlow.*DALIDataset\(pipeline"),
    ],
)
def test_a_plugin_that_is_absent_says_what_to_use(plugin, name, said):
    with pytest.raises(BackendError, match=f"(?s){said}"):
        getattr(plugin, name)
    assert not hasattr(plugin, "__path__")


def test_a_definition_that_triton_serializes_stays_one():
    @autoserialize
    @pipeline_def(batch_size=2, **ON_CPU)
    def model():
        return fn.external_source(name="INPUT")

    pipe = model()
    (batch,) = pipe.run(INPUT=np.arange(2))
    assert batch.as_array().tolist() == [0, 1]
    with pytest.raises(TypeError, match="Only `@pipeline_def` can be decorated"):
        autoserialize(pipe.run)


class Spec(NamedTuple):
    shape: Any
    dtype: Any


class Generated:
    """The part of ``tf.data.Dataset.from_generator`` that is used: it checks each element as TensorFlow does."""

    def __init__(self, generator: Any, output_signature: Any) -> None:
        self.generator, self.signature = generator, output_signature

    @classmethod
    def from_generator(cls, generator: Any, output_signature: Any) -> Generated:
        return cls(generator, output_signature)

    def __iter__(self) -> Any:
        for element in self.generator():
            several = not isinstance(self.signature, Spec)
            pairs = zip(element, self.signature, strict=True) if several else [(element, self.signature)]
            for array, spec in pairs:
                assert array.dtype == spec.dtype
                sides = array.shape if spec.shape is None else spec.shape
                assert len(sides) == array.ndim
                assert all(side in (None, own) for side, own in zip(sides, array.shape, strict=True))
            yield element


@pytest.fixture
def tensorflow(monkeypatch):
    made = SimpleNamespace(data=SimpleNamespace(Dataset=Generated), TensorSpec=Spec)
    monkeypatch.setitem(sys.modules, "tensorflow", made)


def pairs(count=4):
    source = iter(range(count))

    @pipeline_def(batch_size=2, **ON_CPU)
    def pipe():
        return fn.external_source(
            source=lambda: (np.full((2, 3), next(source), np.float32), np.zeros((2, 1), np.int32)),
            num_outputs=2,
        )

    return pipe()


def test_a_tensorflow_dataset_has_the_batches_of_a_pipeline(tensorflow):
    options = {"output_shapes": ((2, 3), 2), "output_dtypes": ("float32", "int32"), "batch_size": 2}
    found = list(tf.DALIDataset(pairs(), **options, num_threads=4, device_id=0))
    assert [int(images[0, 0]) for images, _ in found] == [0, 1, 2, 3]
    assert [labels.shape for _, labels in found] == [(2,)] * 4  # as stated, without the last axis


def test_one_output_and_unknown_shapes(tensorflow):
    pipe = pipeline_def(lambda: fn.constant(fdata=[1.0, 2.0]), batch_size=3, **ON_CPU)()
    first = next(iter(tf.DALIDataset(pipeline=pipe, output_dtypes="float32")))
    assert first.tolist() == [[1.0, 2.0]] * 3


def test_what_a_tensorflow_dataset_refuses(tensorflow, monkeypatch):
    for options, said in (
        ({}, "output_dtypes is missing"),
        ({"output_dtypes": "int32"}, "1 types and 1 shapes for 2 outputs; allowed: one for each"),
        ({"output_dtypes": "int32", "input_datasets": {}}, r"input_datasets.*fn\.external_source"),
    ):
        with pytest.raises(ParameterError, match=said):
            tf.DALIDataset(pairs(), **options)
    with pytest.raises(ParameterError, match="pipeline=3; allowed: a Pipeline"):
        tf.DALIDataset(3, output_dtypes="int32")
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(BackendError, match="tensorflow is not installed"):
        tf.DALIDataset(pairs(), output_dtypes=("float32", "int32"))
