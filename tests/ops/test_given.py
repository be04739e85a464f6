"""What comes in goes out: arrays of every library, sequences, batches, lists; with their metadata."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from seqpipe import Batch, Sequence, fn
from seqpipe.errors import ParameterError
from seqpipe.ops import AutoContrast, Brightness, BrightnessContrast, Chain, Flip, Mixup, Resize, apply
from tests.support.operators import compare, cupy, images

BRIGHTER = BrightnessContrast(brightness=(0.2, 3.0), seed=4)


def sequence(seed=0, size=(5, 7), layout="FHWC"):
    data = images(Flip(), "uint8", layout, size=size, seed=seed)
    return Sequence(
        data, layout, source=f"{seed}.mp4", frames=np.arange(3) + 10, timestamps=np.arange(3) / 25
    )


@pytest.mark.parametrize("layout", ["FHWC", "FCHW", "FHW"])
def test_a_sequence_keeps_what_it_knows(layout):
    given = sequence(layout=layout)
    found = BRIGHTER(given, index=3)
    compare(found.data, BRIGHTER(given.data, layout=layout, index=3))
    assert (found.layout, found.source) == (layout, "0.mp4")
    assert found.frames.tolist() == [10, 11, 12]
    assert found.timestamps.tolist() == given.timestamps.tolist()


def test_a_sequence_has_a_layout_of_its_own():
    with pytest.raises(
        ParameterError, match="brightness_contrast: layout='FCHW' of a sequence of layout FHWC"
    ):
        BRIGHTER(sequence(), layout="FCHW")
    with pytest.raises(ParameterError, match="layout='NFCHW' of a batch of layout NFHWC"):
        BRIGHTER(Batch.of([sequence(), sequence(1)]), layout="NFCHW")


@pytest.mark.parametrize("sizes", [[(5, 7)] * 3, [(5, 7), (2, 9), (8, 3)]])
def test_a_batch_draws_for_its_indices(sizes):
    sequences = [sequence(n, size) for n, size in enumerate(sizes)]
    batch = Batch.of(sequences, labels=[4, 5, 6], indices=[70, 3, 12])
    found = BRIGHTER(batch, epoch=2)
    assert isinstance(found, Batch)
    assert found.labels.tolist() == [4, 5, 6]
    assert found.indices.tolist() == [70, 3, 12]
    assert (found.stacked is None) == (batch.stacked is None)
    for result, given, index in zip(found, sequences, (70, 3, 12), strict=True):
        compare(result.data, BRIGHTER(given.data, index=index, epoch=2))
        assert result.source == given.source
        assert result.frames.tolist() == given.frames.tolist()
    if found.stacked is not None:
        assert np.shares_memory(found[1].data, found.stacked)
    elsewhere = BRIGHTER(batch, index=5)
    compare(elsewhere[2].data, BRIGHTER(sequences[2].data, index=7))


def test_sequences_that_come_to_have_one_shape_are_stacked():
    sequences = [sequence(n, size) for n, size in enumerate([(5, 7), (6, 9)])]
    found = fn.crop(Batch.of(sequences, labels=[1, 2]), crop=(4, 4))
    assert found.shape == (2, 3, 4, 4, 3)
    assert found.labels.tolist() == [1, 2]
    for result, given in zip(found, sequences, strict=True):
        compare(result.data, fn.crop(given.data, crop=(4, 4)))


def test_the_mask_of_a_batch_is_moved_too():
    batch = Batch.of([sequence(0), sequence(1)], indices=[0, 1])
    mask = np.random.default_rng(0).random((2, 3, 5, 7)) < 0.5
    batch = Batch(batch.sequences, batch.stacked, indices=batch.indices, mask=mask)
    found = Flip(p=0.5, seed=2)(batch)
    flags = [bool((result.data != given.data).any()) for result, given in zip(found, batch, strict=True)]
    assert sorted(flags) == [False, True]
    for flipped, one, given in zip(flags, found.mask, mask, strict=True):
        compare(one, given[..., ::-1] if flipped else given)
    compare(fn.brightness_contrast(batch, brightness=2.0).mask, mask)


def test_the_affines_of_a_batch_are_moved_too():
    volumes = [
        Sequence(np.zeros((2, 3, 4), np.int16), "DHW", affine=np.diag([1, 2, 3 + n, 1])) for n in range(2)
    ]
    assert fn.flip(Batch.of(volumes)).layout == "NDHW"
    volumes = [Sequence(v.data[..., None], "DHWC", affine=v.affine) for v in volumes]
    found = fn.flip(Batch.of(volumes))
    assert [result.affine[2, [2, 3]].tolist() for result in found] == [[-3, 9], [-4, 12]]


def test_lists_and_tuples():
    parts = [images(Flip(), "uint8", "HWC", size=(4, n + 1)) for n in range(3)]
    assert isinstance(fn.flip(tuple(parts)), tuple)
    found = fn.flip([sequence(0), sequence(1, (2, 2))])
    assert [type(one) for one in found] == [Sequence, Sequence]
    batches = fn.flip([np.stack([part] * 2)[:, None] for part in parts], horizontal=[0, 1, 1, 1, 0, 0])
    for flags, found, given in zip(((0, 1), (1, 1), (0, 0)), batches, parts, strict=True):
        for flag, result in zip(flags, found, strict=True):
            compare(result[0], given[:, ::-1] if flag else given)


class Views(NamedTuple):
    """What a user calls the images of two cameras."""

    left: Any
    right: Any


def test_a_named_tuple_comes_back_as_one():
    views = Views(*np.random.default_rng(0).integers(0, 255, (2, 6, 8, 3), dtype=np.uint8))
    flipped = Views(*(view[:, ::-1] for view in views))
    points = Views(np.ones((4, 2)), np.zeros((1, 2)))
    brighter = fn.brightness(views, brightness=1.5)
    for found, wanted in (
        (fn.flip(views), flipped),
        (Chain(Flip(), Brightness(brightness=1.5))(views), fn.flip(brighter)),
        (fn.transpose(views, perm=(1, 0, 2)), Views(*(view.swapaxes(0, 1) for view in views))),
        (fn.reductions.max(views, axes=(0, 1)), Views(*(view.max((0, 1)) for view in views))),
        (fn.coord_transform(points, M=np.eye(2), dtype=None), points),
        (fn.element_extract(views, layout="FHW")[0], Views(*(view[0] for view in views))),
        (fn.mixup(views, p=0).data, views),
    ):
        assert type(found) is Views
        for result, expected in zip(found, wanted, strict=True):
            compare(result, expected)
    assert type(fn.mixup(Views(*(Sequence(view, "HWC") for view in views))).data) is Views


def test_torch_tensors(torch):
    x = images(Flip(), "uint8")
    given = torch.from_numpy(x.copy())
    found = fn.flip(given)
    assert isinstance(found, torch.Tensor)
    compare(found.numpy(), x[:, :, :, ::-1])
    assert found.data_ptr() != given.data_ptr()
    compare(given.numpy(), x)
    half = torch.rand(3, 8, 9, dtype=torch.float16, requires_grad=True)
    compare(fn.flip(half.permute(1, 2, 0)).numpy(), half.detach().numpy().transpose(1, 2, 0)[:, ::-1])
    with pytest.raises(ParameterError, match=r"flip: .*; allowed: .*uint8"):
        fn.flip(torch.zeros(4, 4, 3, dtype=torch.bfloat16))


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # NumPy: matrix is not the recommended way
@pytest.mark.parametrize("kind", [np.matrix, np.ma.masked_array])
@pytest.mark.parametrize("op", [Brightness(brightness=1.5), Resize(size=(20, 30)), AutoContrast()])
def test_arrays_of_a_class_of_their_own_are_arrays(op, kind):
    x = images(op, "uint8")[0, 0, :, :, 0]
    found = op(kind(x))
    assert type(found) is np.ndarray
    compare(found, op(x))


@pytest.mark.parametrize("function", [fn.flip, fn.reductions.mean, fn.coord_transform, fn.transpose])
def test_masked_values_are_refused_by_name(function):
    masked = np.ma.masked_array(np.zeros((4, 2)), mask=np.eye(4, 2))
    with pytest.raises(ParameterError, match=rf"{function.__name__}: an array with masked values; allowed: "):
        function(masked)


@pytest.mark.parametrize("function", [fn.flip, fn.reductions.mean, fn.coord_transform, fn.mixup])
def test_tensors_without_memory_are_refused(function, torch):
    with pytest.raises(
        ParameterError, match=r": this Tensor cannot be shared: .*meta.*; in main memory or on"
    ):
        function(torch.zeros(2, 4, 4, 2, device="meta"))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: fn.resize(x, size=(1 << 20, 1 << 12)),
        lambda x: fn.pad(x, shape=1 << 16),
        lambda x: fn.paste(x, ratio=[float(1 << 14)]),
    ],
)
def test_results_with_more_pixels_than_kernels_count_are_refused(call):
    with pytest.raises(
        ParameterError, match=r": results of \d+×\d+ pixels; allowed: up to 2147483647 pixels"
    ):
        call(np.zeros((4, 4), np.uint8))


def test_parameters_as_tensors(torch):
    x = images(Flip(), "uint8")
    found = fn.brightness_contrast(x, brightness=torch.tensor([0.5, 2.0]))
    compare(found, fn.brightness_contrast(x, brightness=[0.5, 2.0]))


def test_a_backend_that_an_operator_has_not_is_refused(unregistered):
    bare = type("Bare", (Flip,), {"__module__": __name__, "body": None}, register=False)()
    with pytest.raises(ParameterError, match="bare has no kernel; allowed: the backends reference and cpu"):
        apply(bare, np.zeros((4, 4), np.uint8), backend="cuda")


@pytest.mark.gpu
def test_arrays_on_a_gpu_stay_there():
    x = images(BRIGHTER, "uint8")
    found = BRIGHTER(cupy().asarray(x), index=9)
    assert isinstance(found, cupy().ndarray)
    compare(found.get(), apply(BRIGHTER, x, backend="reference", index=9))
    held = Sequence(cupy().asarray(x[0]))
    assert isinstance(fn.flip(held).data, cupy().ndarray)
    with pytest.raises(
        ParameterError, match="arrays of different devices, cpu, cuda:0; allowed: one for all"
    ):
        fn.flip([x, cupy().asarray(x)])


@pytest.mark.gpu
def test_torch_tensors_on_a_gpu_stay_there(torch):
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    x = images(BRIGHTER, "uint8")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        given = torch.from_numpy(x).cuda()
        found = BRIGHTER(given, index=2) + 0
    stream.synchronize()
    compare(found.cpu().numpy(), apply(BRIGHTER, x, backend="reference", index=2))


def test_backends_that_cannot_be_are_refused_by_name():
    x = np.zeros((4, 4, 3), np.uint8)
    for name, call in (
        ("flip", lambda **how: apply(Flip(), x, **how)),
        ("flip", lambda **how: Chain(Flip(), BRIGHTER)(x, **how)),
        ("mixup", lambda **how: Mixup().mixed(np.stack([x] * 3)[:, None], **how)),
    ):
        with pytest.raises(
            ParameterError, match=f"{name}: backend='gpu' is not valid; allowed: 'reference', 'cpu', 'cuda'"
        ):
            call(backend="gpu")
        with pytest.raises(
            ParameterError, match="backend='cuda' for an array in main memory; allowed: arrays on a GPU"
        ):
            call(backend="cuda")
