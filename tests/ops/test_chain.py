"""Chains give what their operators give one by one, to the last bit, and do it in one pass where they can."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import ops
from seqpipe.array import to_numpy
from seqpipe.core.kernel import compile_options
from seqpipe.errors import ParameterError
from seqpipe.ops import REGISTRY, Chain, apply
from seqpipe.ops.compose import fused as fused_module
from seqpipe.ops.compose.fused import can_follow, can_lead
from seqpipe.ops.core.spec import COMPUTED_DTYPES, KERNEL_DTYPES
from seqpipe.ops.cuda.kernel import GRID
from seqpipe.sequence import Batch, Sequence
from tests.support.deep import deep_but
from tests.support.nvrtc import compiled, missing_nvrtc
from tests.support.operators import built, cases, compare, five, names
from tests.support.operators import images as some_images

FLIP = ops.Flip(horizontal=True, p=0.5, seed=1)
CROP = ops.Crop(crop=(4, 5), crop_pos_x=(0.0, 1.0), crop_pos_y=(0.0, 1.0), seed=2)
CONTRAST = ops.BrightnessContrast(brightness=(0.5, 1.5), contrast=(0.5, 2.0), range="dtype", seed=3)
BY_FRAME = ops.BrightnessContrast(brightness=(0.5, 1.5), per_frame=True, seed=4)
MAYBE = ops.BrightnessContrast(brightness_shift=0.25, range="dtype", p=0.5, per_frame=True, seed=5)
TO_FLOAT = ops.BrightnessContrast(brightness=1 / 255, dtype="float32")
TO_HALF = ops.BrightnessContrast(contrast=1.5, dtype="float16")
TO_BYTES = ops.BrightnessContrast(brightness=200.0, dtype="uint8")

RESIZED = ops.Resize(size=(9, 8), interp_type="lanczos3", p=1.0)
FLIP_BY_FRAME = ops.Flip(vertical=True, p=0.5, per_frame=True, seed=7)
NORMALIZED = ops.CropMirrorNormalize(
    crop=(5, 4),
    crop_pos_x=(0.0, 1.0),
    mirror=True,
    mean=(10.0, 0.5, 3.0),
    std=(50.0, 2.0, 9.0),
    dtype="float16",
)

CHAINS = {
    "geometry": Chain(FLIP, CROP, ops.Flip(vertical=True)),
    "geometry first": Chain(CROP, FLIP, CONTRAST),
    "geometry last": Chain(CONTRAST, BY_FRAME, CROP),
    "geometry amid": Chain(CONTRAST, CROP, MAYBE, FLIP),
    "by frame": Chain(BY_FRAME, MAYBE, CONTRAST),
    "types": Chain(TO_FLOAT, CROP, TO_BYTES, TO_HALF),
    "resampled": Chain(RESIZED, CROP, FLIP, ops.Flip(vertical=True), CONTRAST),
    "resampled at random": Chain(ops.RandomResizedCrop(size=(7, 6), seed=6), FLIP, MAYBE, NORMALIZED),
    "resampled and moved alone": Chain(
        ops.Resize(size=(5, 9), interp_type="cubic", dtype="float32"), CROP, FLIP
    ),
    "resampled by frame": Chain(ops.RandomResizedCrop(size=(7, 6), per_frame=True), FLIP_BY_FRAME, TO_HALF),
    "normalized": Chain(CONTRAST, NORMALIZED),
}


def images(dtype, shape=(2, 3, 6, 7, 3), seed=0):
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return random.normal(0.5, 1, shape).astype(dtype)
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def one_by_one(chain, x, backend="reference", **options):
    for op in chain.ops:
        x = apply(op, x, backend=backend, **options)
    return x


def assert_same(found, wanted):
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.fixture(params=["cpu", "emulated", pytest.param("gpu", marks=pytest.mark.gpu)])
def run(request):
    """Runs a chain somewhere; on a device, how many kernels that took is in its ``launches``.

    Its ``backend`` is whose result that is, one by one: on the CPU that of the fast forms.
    """

    def at(chain, x, **options):
        if request.param == "cpu":
            return chain(x, **options)
        if request.param == "emulated":
            before = device.launches
            found = chain(x, backend="cuda", device=device, **options)
            at.launches = device.launches - before
            return found
        import cupy

        return chain(cupy.asarray(x) if isinstance(x, np.ndarray) else x, **options)

    device = request.getfixturevalue("emulated") if request.param == "emulated" else None
    at.launches = None
    at.launches_kernels = request.param == "emulated"
    at.backend = None if request.param == "cpu" else "reference"
    return at


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name in CHAINS
        for dtype in (COMPUTED_DTYPES if name == "types" else ("uint8", "float16"))
    ],
)
def test_it_gives_what_its_operators_give(run, name, dtype):
    chain, x = CHAINS[name], images(dtype)
    if dtype not in KERNEL_DTYPES and run.launches_kernels:
        with pytest.raises(ParameterError, match=f"a kernel for {dtype}; allowed: uint8"):
            run(chain, x)
        return
    assert_same(
        to_numpy(run(chain, x, epoch=1, index=7)), one_by_one(chain, x, run.backend, epoch=1, index=7)
    )
    assert run.launches in (None, 1)


@pytest.mark.parametrize("name", sorted(name for name in names() if can_follow(built((name, 0)))))
def test_whatever_can_join_does_so_to_the_last_bit(emulated, name):
    """Beside the same kernels one by one, for some are not those of the reference to the last bit."""
    op = built((name, len(REGISTRY[name].traits.examples) - 1))
    x = some_images(op, "uint8" if "uint8" in op.traits.dtypes else op.traits.dtypes[0])
    after = ops.BrightnessContrast(contrast=1.7)
    wanted = x
    for one in (op, after):
        wanted = apply(one, wanted, backend="cuda", device=emulated, epoch=2, index=4)
    before = emulated.launches
    assert_same(Chain(op, after)(x, backend="cuda", device=emulated, epoch=2, index=4), wanted)
    assert emulated.launches == before + 1


@pytest.mark.parametrize("case", cases(), ids=str)
def test_what_joins_others_has_the_kernel_of_its_class(case):
    """A kernel of several operators is made of their classes; one that looks at all values first has another."""
    op = built(case)
    if isinstance(op, ops.Op) and (can_follow(op) or can_lead(op)):
        assert op.traits.body is type(op).traits.body


@pytest.mark.parametrize("axis_names", ["HW", "HWC", None])
def test_statistics_are_those_of_what_comes_before(run, axis_names):
    """It joined operators before it as if its mean were given, and was 0."""
    x = images("uint8")
    normal = ops.Normalize(axis_names=axis_names, epsilon=1.0)
    for chain in (
        Chain(ops.Brightness(brightness=0.5), normal),
        Chain(normal, ops.CropMirrorNormalize(mean=0.5)),
    ):
        assert_same(to_numpy(run(chain, x)), one_by_one(chain, x, run.backend))
        assert [len(group) for group in chain.groups()] == [1, 1]


@pytest.mark.parametrize("channels", [1, 2, 4, 6])
def test_pixels_of_any_number_of_values(run, channels):
    chain, x = CHAINS["geometry amid"], images("uint8", (2, 3, 6, 7, channels))
    assert_same(to_numpy(run(chain, x)), one_by_one(chain, x))
    assert run.launches in (None, 1 if channels <= 4 else 4)


@pytest.mark.parametrize("layout", ["HW", "HWC", "CHW", "FCHW", "NFCHW", "DHWC"])
def test_every_layout(run, layout):
    chain = CHAINS["geometry first"]
    lengths = dict(zip("NFDHWC", (2, 3, 3, 6, 7, 3), strict=True))
    x = images("uint8", tuple(lengths[letter] for letter in layout))
    assert_same(to_numpy(run(chain, x, layout=layout)), one_by_one(chain, x, layout=layout))
    assert_same(
        five(to_numpy(run(chain, x, layout=layout)), layout),
        one_by_one(chain, np.ascontiguousarray(five(x, layout))),
    )


@pytest.mark.parametrize("output_layout", ["CHW", "HWC"])
@pytest.mark.parametrize("layout", ["HWC", "CHW", "NFCHW", "NFHWC"])
def test_the_last_operator_arranges(run, layout, output_layout):
    normalized = ops.CropMirrorNormalize(mean=9.0, std=30.0, dtype="float16", output_layout=output_layout)
    chain = Chain(ops.Resize(size=(5, 4)), FLIP, normalized, TO_BYTES)
    lengths = dict(zip("NFHWC", (2, 3, 6, 7, 3), strict=True))
    x = images("uint8", tuple(lengths[letter] for letter in layout))
    wanted, letters = x, layout
    for op in chain.ops:
        wanted, letters = apply(op, wanted, layout=letters, backend=run.backend), op.result_layout(letters)
    assert_same(to_numpy(run(chain, x, layout=layout)), wanted)
    assert run.launches in (None, 1)


def test_the_layout_is_followed_where_operators_go_one_by_one(run):
    arranged = ops.CropMirrorNormalize(output_layout="CHW", dtype="uint8")
    chain, x = Chain(ops.Resize(size=(5, 4)), arranged, FLIP, CONTRAST), images("uint8", (2, 3, 6, 7, 6))
    by_hand = one_by_one(Chain(ops.Resize(size=(5, 4)), FLIP, CONTRAST), x, run.backend)
    assert_same(to_numpy(run(chain, x)), np.moveaxis(by_hand, -1, 2))


@pytest.mark.parametrize("name", ["geometry amid", "resampled"])
def test_strided_and_read_only_memory(run, name):
    x = images("uint8", (4, 6, 12, 14, 3))[::2, ::-2, ::2, ::-2]
    x.flags.writeable = False
    chain = CHAINS[name]
    assert_same(to_numpy(run(chain, x)), one_by_one(chain, x, run.backend))


def test_lists_of_different_sizes(run):
    chain = CHAINS["geometry amid"]
    given = [images("uint8", (2, 6, 7, 3)), images("uint8", (3, 9, 5, 3), seed=1)]
    if run.launches is None and not isinstance(run(chain, given[0]), np.ndarray):
        pytest.skip("arrays of a GPU are given one by one here")
    found = run(chain, given)
    for ours, theirs in zip(found, one_by_one(chain, given), strict=True):
        assert_same(ours, theirs)
    assert run.launches in (None, 1)


def test_an_operator_that_cannot_join_stands_alone(run):
    chain = Chain(FLIP, CONTRAST, ops.Reverse(), CONTRAST, FLIP)
    x = images("uint8")
    assert_same(to_numpy(run(chain, x)), one_by_one(chain, x))
    assert run.launches in (None, 3)
    assert chain.explain() == (
        "1. flip → brightness_contrast: one kernel\n"
        "2. reverse: one kernel\n"
        "3. brightness_contrast → flip: one kernel"
    )


def test_what_sequences_know_moves_along(emulated):
    affine = np.diag([3.0, 2.0, 1.0, 1.0])
    given = Sequence(images("uint8", (3, 6, 7, 1)), "DHWC", "scan", affine=affine)
    chain = Chain(ops.Flip(), ops.Crop(crop=(4, 4)), CONTRAST)
    found = chain(given, backend="cuda", device=emulated)
    wanted = one_by_one(chain, given)
    assert (found.layout, found.source) == ("DHWC", "scan")
    np.testing.assert_allclose(found.affine, wanted.affine)
    assert not np.allclose(found.affine, affine)
    assert_same(found.data, wanted.data)


def test_batches_keep_clocks_indices_and_masks(emulated):
    data = images("uint8", (2, 3, 6, 7, 3))
    sequences = [
        Sequence(data[n], frames=np.arange(3) + 10 * n, timestamps=np.arange(3) / 25, source=str(n))
        for n in range(2)
    ]
    batch = Batch.of(sequences)
    chain = CHAINS["geometry amid"]
    before = emulated.launches
    found = chain(batch, backend="cuda", device=emulated)
    wanted = one_by_one(chain, batch)
    assert emulated.launches == before + 1
    assert_same(found.stacked, wanted.stacked)
    np.testing.assert_array_equal(found.frames, wanted.frames)
    assert [s.source for s in found.sequences] == ["0", "1"]
    assert all(np.shares_memory(s.data, found.stacked) for s in found.sequences)


def test_a_batch_of_samples_that_differ_in_size():
    sequences = [Sequence(images("uint8", (2, side, 20, 3))) for side in (16, 24, 16)]
    batch = Batch.of(sequences, indices=[5, 3, 8])
    assert batch.stacked is None
    chain = CHAINS["resampled at random"]
    found, wanted = chain(batch, epoch=2), batch
    for op in chain.ops:
        wanted = op(wanted, epoch=2)
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    assert found.indices.tolist() == [5, 3, 8]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "a chain of no operators; allowed: one or more"),
        ((np.flip,), "a chain with a _ArrayFunctionDispatcher; allowed: operators"),
    ],
)
def test_what_is_no_chain_is_refused(given, said):
    with pytest.raises(ParameterError, match=f"Chain: {said}"):
        Chain(*given)


@pytest.mark.parametrize("backend", [None, "cuda"])
def test_an_operator_in_the_middle_that_does_not_take_what_comes_is_named(emulated, backend):
    chain = Chain(CONTRAST, ops.Crop(crop=(60, 5)), FLIP)
    with pytest.raises(ParameterError, match=r"crop: crop=\(60, 5\) of images of 6×7 pixels"):
        chain(images("uint8"), backend=backend, device=emulated if backend else None)


def test_samples_of_one_array_must_keep_one_size(emulated):
    size = ops.Crop(crop=(4, 4))
    chain = Chain(CONTRAST, size, CONTRAST)
    assert chain(images("uint8"), backend="cuda", device=emulated).shape == (2, 3, 4, 4, 3)


def test_it_is_told_by_its_operators():
    chain = Chain(ops.Flip(), CONTRAST)
    assert repr(chain) == f"Chain({ops.Flip()!r}, {CONTRAST!r})"
    assert chain == Chain(ops.Flip(), CONTRAST)
    assert hash(chain) == hash(Chain(ops.Flip(), CONTRAST))


@pytest.mark.skipif(bool(missing_nvrtc()), reason=missing_nvrtc() or "NVRTC is there")
@pytest.mark.parametrize("architecture", deep_but(["sm_90"], ["sm_75", "sm_90", "sm_120"]))
def test_its_kernels_compile_for_every_gpu(architecture):
    for steps in (
        ((ops.Flip, "uint8"), (ops.BrightnessContrast, "uint8"), (ops.BrightnessContrast, "float16")),
        ((ops.BrightnessContrast, "float32"), (ops.Crop, "float32")),
        ((ops.RandomResizedCrop, "uint8"), (ops.Flip, "uint8"), (ops.CropMirrorNormalize, "float16")),
    ):
        source, _ = fused_module._source(steps)
        defines = {"IN": 0, "OUT": 3, "MOVES": 1, "CHANNELS": 3}
        options = compile_options({**defines, **GRID})
        compiled(source.text, "chain", architecture, options)


def test_a_window_that_is_only_passed_on_is_a_view(emulated):
    """Cropping before what cannot join it costs no kernel, unless images differ in their windows."""
    x = np.random.default_rng(0).integers(0, 255, (3, 2, 20, 30, 3), dtype=np.uint8)
    turn = ops.Rotate(angle=30.0, keep_size=True, fill_value=7.0)
    for crop, launches in (
        (ops.Crop(crop=(11, 17)), 1),
        (ops.Crop(crop=(11, 17), crop_pos_x=[0.2, 0.2, 0.2]), 1),
        (ops.Crop(crop=(11, 17), crop_pos_x=[0.1, 0.5, 0.9]), 2),
        (ops.Flip(), 2),
        (ops.Pad(shape=(25, 31)), 2),
        (ops.Slice(start=(2.0, 3.0), shape=(9.0, 8.0)), 2),
        (ops.Erase(anchor=(1.0, 2.0), shape=(2.0, 3.0)), 2),
    ):
        for layout in ("NFHWC", "NFCHW"):
            given = np.ascontiguousarray(np.moveaxis(x, -1, 2)) if layout == "NFCHW" else x
            wanted = apply(turn, apply(crop, given, layout=layout), layout=layout, backend="reference")
            before = emulated.launches
            found = ops.Chain(crop, turn)(given, layout=layout, backend="cuda", device=emulated)
            compare(found, wanted)
            assert emulated.launches == before + launches, (crop, layout)
    alone = ops.Chain(ops.Crop(crop=(11, 17)))(x, backend="cuda", device=emulated)
    assert not np.shares_memory(alone, x)


@pytest.mark.parametrize(
    "name", [name for name in names() if REGISTRY[name].traits.body and issubclass(REGISTRY[name], ops.Op)]
)
def test_every_operator_may_come_before_one_that_cannot_join_it(emulated, name):
    op, turn = built((name, 0)), ops.Rotate(angle=30.0, keep_size=True)
    dtype = "uint8" if "uint8" in op.traits.dtypes else op.traits.dtypes[0]
    x = five(some_images(op, dtype, "NFHWC"), "NFHWC")
    options = {"layout": "NFHWC", "backend": "cuda", "device": emulated}
    wanted = apply(turn, apply(op, x, **options), **options)
    assert np.array_equal(Chain(op, turn)(x, **options), wanted)
