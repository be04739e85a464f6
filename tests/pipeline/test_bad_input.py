"""What users get wrong with pipelines, each an error by name with the way out; natively and by DALI's names."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe.dali.fn as dali_fn
from seqpipe import fn
from seqpipe.dali.pipeline import Pipeline as DaliPipeline
from seqpipe.dali.pipeline import pipeline_def
from seqpipe.errors import SeqpipeError
from seqpipe.pipeline import Input, Pipeline, external_source


def images(count=2):
    return np.zeros((count, 4, 5, 3), np.uint8)


def dali(*outputs):
    pipe = DaliPipeline(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(*(make() for make in outputs))
    return pipe


def node_of_another():
    with DaliPipeline(batch_size=2, num_threads=1, device_id=None):
        node = dali_fn.external_source(source=images, layout="HWC")
    dali(lambda: dali_fn.flip(node)).run()


def without_conditionals():
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def program():
        x = dali_fn.external_source(source=lambda: np.zeros(2, np.int32))
        return x if x else x + 1

    program().run()


def different_sizes():
    nodes = [external_source(lambda *, n=n: np.zeros((n, 3)), batch_size=n, name=f"s{n}") for n in (2, 3)]
    next(Pipeline(*nodes))


CASES = {
    "an operator without a source": (
        lambda: Pipeline(fn.flip(Input("x"))),
        r"the input 'x' belongs to no source; allowed: values of external_source\(\)",
    ),
    "an operator of nothing": (lambda: dali(dali_fn.flip), r"fn\.flip: .*the input is missing"),
    "a node of another pipeline": (
        node_of_another,
        "a node of another pipeline. Create all nodes of a pipeline within its own definition",
    ),
    "outputs before build": (
        lambda: dali(lambda: dali_fn.external_source(name="x")).outputs(),
        r"the pipeline is not built. Call build\(\) first",
    ),
    "a name that is not fed": (
        lambda: Pipeline(external_source(batch_size=2, name="x")).feed("y", images()),
        r"there is no source 'y' for feed\(\); allowed: 'x'",
    ),
    "nothing was fed": (
        lambda: next(Pipeline(external_source(batch_size=2, name="x"))),
        r"x: the source has no batch for this run.*feed\('x', batch\)",
    ),
    "batches of different sizes": (
        different_sizes,
        "sources gave batches of different sizes: s2 gave 2, s3 gave 3; allowed: as many samples from each",
    ),
    "if without conditionals": (
        without_conditionals,
        r"Declare the pipeline with @pipeline_def\(enable_conditionals",
    ),
    "if on a native node": (
        lambda: bool(external_source(images, batch_size=2)),
        "has no truth value yet, because it is a node. Pass it as a parameter",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_is_an_error_with_its_way_out(name):
    call, said = CASES[name]
    with pytest.raises(SeqpipeError, match=said):
        call()


def test_a_source_that_raises_and_one_that_ends_early():
    def source(number):
        if number == 1:
            raise ValueError("mine")
        if number == 3:
            raise StopIteration
        return images()

    with Pipeline(external_source(source, batch_size=2)) as pipe:
        next(pipe)
        with pytest.raises(ValueError, match="mine") as caught:
            next(pipe)
        assert any(
            "source external_source, epoch 0, samples from 2 on" in note for note in caught.value.__notes__
        )
        assert len(list(pipe)) == 1, "the batch behind it, and the end"


def test_shapes_that_differ_are_a_list_of_tensors():
    iterator = pytest.importorskip("torch") and __import__("seqpipe.torch").torch.Iterator
    node = external_source(lambda: [images()[0], images()[0, :3]], batch_size=2, layout="HWC")
    with Pipeline(node, names=("x",)) as pipe:
        values = next(iterator(pipe))["x"]
    assert [tuple(one.shape) for one in values] == [images()[0].shape, images()[0, :3].shape]
