"""What is known of a graph's values before anything runs, and what is refused then, with the user's line."""

from __future__ import annotations

import operator
import warnings
from dataclasses import fields, replace

import numpy as np
import pytest

import seqpipe
from seqpipe import fn, ops
from seqpipe.errors import ParameterError
from seqpipe.ops import Chain, OneOf, Type
from seqpipe.ops.core.arithmetic import computed, result_type
from seqpipe.ops.core.types import types_after
from seqpipe.pipeline import Graph, Input
from seqpipe.pipeline.source import BatchSource, nodes_of
from seqpipe.sources.items import ItemSource
from tests.support.media import made

CLIP = Type("images", "FHWC", "uint8", "cpu", (4, 20, 24, 3))


class Declared(BatchSource):
    """A source that says what it gives, and gives nothing."""

    name, parts, fingerprint = "declared", ("0",), {}

    def __init__(self, kind: Type) -> None:
        self.kind = kind

    def type_of(self, part: int) -> Type:
        assert part == 0
        return self.kind

    def begin(self) -> None:
        return None

    def finish(self, ticket: object) -> object:
        raise AssertionError(ticket)

    def go_to(self, epoch: int, position: int, state: object = None) -> None:
        pass


def node_of(kind: Type) -> ops.DataNode:
    return nodes_of(Declared(kind))[0]


# ---------------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        (ops.Flip(), "images FHWC uint8 (4×20×24×3) on cpu"),
        (ops.Crop(crop=(8, 10)), "images FHWC uint8 (4×8×10×3) on cpu"),
        (ops.Rotate(angle=(-9.0, 9.0)), "images FHWC uint8 (4×?×?×3) on cpu"),
        (ops.RandomResizedCrop(size=(8, 9)), "images FHWC uint8 (4×8×9×3) on cpu"),
        (ops.Subsample(stride=2), "images FHWC uint8 (2×20×24×3) on cpu"),
        (
            ops.CropMirrorNormalize(mean=100.0, std=50.0, dtype="float16", output_layout="CHW"),
            "images FCHW float16 (4×3×20×24) on cpu",
        ),
        (ops.Transpose(perm=(3, 0, 1, 2)), "images CFHW uint8 (3×4×20×24) on cpu"),
        (ops.ElementExtract(element_map=(1,)), "images HWC uint8 (20×24×3) on cpu"),
        (Chain(ops.Crop(crop=(8, 10)), OneOf([ops.Flip(), None]), ops.Cast(dtype="float32")), None),
        (OneOf([ops.Crop(crop=(8, 10)), None]), "images FHWC uint8 on cpu"),
    ],
)
def test_what_operators_make_is_what_is_said_of_it(op, wanted):
    (found,) = types_after(op, (CLIP,))
    assert wanted is None or str(found) == wanted
    found_by_call = (
        Chain(op)(np.zeros((2, 4, 20, 24, 3), np.uint8)) if found.shape and None not in found.shape else None
    )
    if found_by_call is not None:
        assert (found_by_call.dtype.name, found_by_call.shape[1:]) == (found.dtype, found.shape)


TYPES = (
    "bool",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
)


@pytest.mark.parametrize(
    ("sign", "before", "behind", "wanted"),
    [
        ("*", "uint8", 2, "int32"),
        ("*", "uint8", 2.0, "float32"),
        ("*", "float16", 2, "float16"),
        ("*", "float64", 2.0, "float64"),
        ("+", "uint8", "uint8", "uint8"),
        ("+", "uint8", "int8", "int16"),
        ("+", "uint32", "int32", "int64"),
        ("/", "int32", 2, "float32"),
        ("<", "uint8", 3, "bool"),
        ("*", "uint8", 2**40, "int64"),
    ],
)
def test_promotion(sign, before, behind, wanted):
    assert result_type(sign, before, behind) == wanted
    one, other = (np.ones(3, kind) if isinstance(kind, str) else kind for kind in (before, behind))
    assert computed(sign, one, other).dtype == wanted
    signs = {"*": operator.mul, "+": operator.add, "/": operator.truediv, "<": operator.lt}
    if not isinstance(other, np.ndarray):
        graph = Graph(signs[sign](Input("x"), other))
        assert graph(x=one)[0].dtype == wanted
        assert graph.types[0].dtype is None
        graph.infer_types({"x": Type(dtype=one.dtype.name)})
        assert graph.types[0].dtype == wanted


def test_an_input_times_two_keeps_whole_numbers():
    (doubled,) = Graph(Input("x") * 2)(x=np.array([200, 3], np.uint8))
    assert doubled.dtype == np.int32
    np.testing.assert_array_equal(doubled, [400, 6])


# ---------------------------------------------------------------------- what is refused before anything runs


def refused(output, said, trail):
    with pytest.raises(ParameterError, match=said) as caught:
        Graph(output)
    assert any(trail in note for note in caught.value.__notes__)


def test_errors_name_the_line_and_the_nodes():
    clip = node_of(CLIP)
    flipped = fn.flip(clip)
    cropped = fn.crop(flipped, crop=(30, 5))  # this line
    where = r"test_inference.py:\d+ \(test_errors_name_the_line_and_the_nodes\)"
    refused(
        fn.invert(cropped),
        rf"^{where}: crop: crop=\(30, 5\) of images of 20×24 pixels",
        "nodes: declared.0 → flip → crop",
    )
    line = int(cropped.where.partition(":")[2].partition(" ")[0])
    from pathlib import Path

    assert "# this line" in Path(__file__).read_text().splitlines()[line - 1]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: fn.hue(node_of(Type("images", "FHWC", "uint8", "cpu", (4, 20, 24, 1))), hue=20.0),
            "hue: pixels of 1",
        ),
        (
            lambda: fn.flip(node_of(Type("images", "FHWC", "complex64", "cpu"))),
            "flip: values of type complex64",
        ),
        (
            lambda: fn.flip(node_of(Type("numbers", "", "int64", "cpu"))),
            "flip: numbers int64 on cpu; allowed: images",
        ),
        (
            lambda: fn.reverse(node_of(Type("images", "HWC", "uint8"))),
            "reverse: images HWC uint8, without frames",
        ),
        (lambda: fn.flip(node_of(Type("images", "FC", "uint8"))), "without rows and columns"),
        (
            lambda: OneOf([ops.Cast(dtype="float32"), None])(node_of(CLIP)),
            "one_of: parts return different dtypes, float32, uint8",
        ),
    ],
)
def test_what_an_operator_does_not_take(make, said):
    refused(make(), said, "nodes: declared.0")


def test_a_data_set_checks_its_first_graph_by_the_types_of_its_source():
    ds = seqpipe.videos([made("h264")], 4, output=seqpipe.OutputSpec(color="GRAY"))
    with pytest.raises(ParameterError, match=r"test_inference.py:\d+ \(<lambda>\): hue: pixels of 1"):
        ds.graph(lambda parts: {"image": fn.hue(fn.flip(parts["image"]), hue=30.0)})
    assert (
        "images FHWC uint8"
        in ds.graph(lambda parts: {"image": fn.flip(parts["image"])}).steps[0].graph.explain()
    )


# ---------------------------------------------------------------------- what waits for a GPU


def test_what_a_batch_waits_for_is_said():
    on_gpu = Type("images", "FHWC", "uint8", "cuda:0", (4, 20, 24, 3))

    class OnGpu(ItemSource):
        """Images on a GPU that nothing reads."""

        parts = {"image": on_gpu}  # noqa: RUF012

    ds = seqpipe.items([0])
    ds = replace(
        ds,
        source=OnGpu(
            **{field.name: getattr(ds.source, field.name) for field in fields(ds.source) if field.init}
        ),
    )

    def waiting(parts):
        mean = fn.reductions.mean(parts["image"], axis_names="FHWC", layout="NFHWC")
        return {"image": fn.brightness(parts["image"], brightness=mean)}

    with pytest.warns(UserWarning, match="brightness needs it in main memory: each batch waits for the GPU"):
        waits = ds.graph(waiting)
    assert "each batch waits for the GPU" in waits.explain()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = fn.random.uniform(range=(0.5, 1.5))
        ds.graph(lambda parts: {"image": fn.brightness(parts["image"], brightness=drawn)})
