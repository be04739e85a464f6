"""The gather's kernel emulated on the CPU, and on a GPU, against the C form."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import ops
from seqpipe.core.padding import FILL_MODES
from seqpipe.errors import ParameterError
from seqpipe.ops import Chain, Choice
from seqpipe.ops.volume import run
from seqpipe.ops.volume.plan import Move, plans_of
from seqpipe.ops.volume.state import state_of
from seqpipe.parts import Labels
from seqpipe.resampling.gather import gather
from seqpipe.resampling.launch import launch_controls
from seqpipe.resampling.mapping import DrawnControl, Lattice, Mapping3, nodes_for
from seqpipe.sequence import Sequence
from tests.support.emulated import EmulatedDevice, missing_compiler

TURN = np.array([[0.9, 0.2, -0.1, 1.0], [-0.2, 0.95, 0.1, 2.0], [0.1, -0.1, 1.05, -1.0], [0, 0, 0, 1]])


def mappings(size, rng):
    distance = (5.0, 6.0, 7.0)
    control = rng.uniform(-1.5, 1.5, (*nodes_for(size, distance), 3)).astype(np.float32)
    field, flip = Lattice(control, distance), np.diag([1.0, 1, -1, 1])
    flip[2, 3] = size[2] - 1
    return {
        "affine": Mapping3(size, TURN),
        "field": Mapping3(size, TURN).warped(field),
        "flipped": Mapping3(size, TURN).warped(field).then(flip, size),
        "general": Mapping3(size, TURN).warped(field).then(TURN, size),
    }


@pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler())
@pytest.mark.parametrize("name", ["affine", "field", "flipped", "general", "positions"])
@pytest.mark.parametrize(
    ("interpolation", "dtype"),
    [
        ("linear", "float32"),
        ("linear", "int16"),
        ("cubic", "float32"),
        ("bspline", "float32"),
        ("nearest", "int32"),
        ("vote", "uint8"),
    ],
)
def test_the_emulated_kernel_is_the_c_form(rng, name, interpolation, dtype):
    values = rng.integers(0, 9, (9, 11, 13, 2)).astype(dtype)
    found_at = None
    mapping = mappings((7, 9, 70), rng).get(name, Mapping3((7, 9, 70)))
    if name == "positions":
        found_at = rng.uniform(-2, 12, (7, 9, 70, 3)).astype(np.float32)
    for fill in (2.0, None):
        judged = gather(values, mapping, interpolation, fill, positions=found_at)
        found = gather(values, mapping, interpolation, fill, positions=found_at, device=EmulatedDevice())
        if interpolation in ("nearest", "vote"):
            assert (found != judged).mean() < 2e-3
        else:
            assert np.abs(found.astype(float) - judged.astype(float)).max() <= (
                1e-4 * 9 if dtype == "float32" else 1
            )


SIZE = (19, 9, 40)


def matrix(diagonal, shift, slices=(0.0, 0.0)):
    found = np.diag([*diagonal, 1.0])
    found[:3, 3], found[1:3, 0] = shift, slices
    return found


STEPS = {
    "within a slice": matrix((1.0, 0.91, 1.093), (1.0, 0.317, -2.231)),
    "slice after slice": matrix((1.0, 1.0, 1.0), (0.25, 0.5, 0.75)),
    "several in a slice": matrix((0.31, 1.0, 1.0), (0.13, 0.0, 0.5)),
    "now in one column, now in the next": matrix((0.83, 1.0, 1.0), (-1.71, 0.417, 0.23), (0.153, -0.21)),
    "backwards": matrix((-1.0, 1.0, 1.0), (12.5, 0.5, 0.0)),
    "apart": matrix((2.0, 1.0, 1.0), (-3.0, 0.25, 0.5)),
    "beyond": matrix((1.0, 1.0, 1.0), (-30.0, 0.0, 0.0)),
}


@pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler())
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("kind", [("linear", "float32"), ("linear", "int16"), ("vote", "uint8")])
def test_what_a_column_has_read_before_is_used_again_only_where_it_is_the_same(rng, name, kind):
    interpolation, dtype = kind
    values = rng.integers(0, 90 if interpolation == "linear" else 4, (13, 10, 37, 1)).astype(dtype)
    still = np.zeros((*nodes_for(SIZE, (8.0,) * 3), 3), np.float32)
    for mapping in (
        Mapping3(SIZE, STEPS[name]),
        Mapping3(SIZE, STEPS[name]).warped(Lattice(still, (8.0,) * 3)),
    ):
        for fill in (7.0, None):
            judged = gather(values, mapping, interpolation, fill)
            found = gather(values, mapping, interpolation, fill, device=EmulatedDevice())
            off = np.abs(found.astype(float) - judged.astype(float))
            if interpolation == "vote":
                assert (off > 0).mean() < 2e-3
            else:
                assert off.max() <= (1e-4 * 90 if dtype == "float32" else 1)


@pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler())
@pytest.mark.parametrize("distance", [(8.0, 8.0, 5.3), (7.0, 7.0, 16.0), (8.0, 8.0, 4.0)])
def test_fields_of_all_distances_are_those_of_the_c_form(rng, distance):
    size = (17, 18, 75)
    control = rng.uniform(-2, 2, (*nodes_for(size, distance), 3)).astype(np.float32)
    values = rng.random((15, 19, 70, 1)).astype(np.float32)
    mapping = Mapping3(size, TURN).warped(Lattice(control, distance))
    judged = gather(values, mapping, "linear", 0.0)
    assert np.abs(gather(values, mapping, "linear", 0.0, device=EmulatedDevice()) - judged).max() < 1e-4


@pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler())
@pytest.mark.parametrize("many", [1, 60])
def test_control_points_drawn_on_a_gpu_are_those_of_numpy_to_the_last_bit(many):
    nodes = [((5, 6, 7), (1.5, 0.25, 3.0), False), ((4, 5, 9), (0.0, 2.5, 0.7), True)]
    fields = [DrawnControl((n, 1 << 23), *nodes[n % 2]) for n in range(many)]
    device = EmulatedDevice()
    found, addresses = launch_controls(device, fields, np.empty(1))
    assert device.launches == 1
    assert addresses[0] == found.ctypes.data
    assert list(np.diff(addresses)) == [field.values.nbytes for field in fields[:-1]]
    assert found.tobytes() == b"".join(field.values.tobytes() for field in fields)


def test_control_points_are_even_to_both_sides_as_numpy_draws_them():
    field = DrawnControl((3, 4), (4, 5, 6), (1.0, 2.0, 0.5))
    rng = np.random.Generator(np.random.Philox(key=[3, 4], counter=[0, 0, 0, 0]))
    judged = (rng.uniform(-1, 1, (4, 5, 6, 3)) * (1.0, 2.0, 0.5)).astype(np.float32)
    assert np.array_equal(field.values, judged)
    flat = DrawnControl((3, 4), (4, 5, 6), (1.0, 2.0, 0.5), flat=True).values
    assert (flat == flat[:1]).all()
    assert not flat[..., 0].any()
    assert flat[..., 1:].std() > 0.1


VOLUMES = [n for n, cls in ops.REGISTRY.items() if cls.traits.takes == "volumes" and cls.traits.is_builtin]
EMULATED = pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler())


@EMULATED
@pytest.mark.parametrize("name", VOLUMES)
def test_emulated_kernels_do_what_operators_do_on_the_cpu(rng, name):
    """Batches of several samples and channels, of floats and of whole numbers, with and without a mask."""
    affine = np.diag([2.0, 1.0, 1.5, 1.0])
    labels = rng.integers(0, 3, (7, 9, 11)).astype(np.uint8)
    for arguments in ops.REGISTRY[name].traits.examples:
        op = ops.REGISTRY[name](**{**arguments, "p": 1.0})
        for dtype, scale in (("float32", 1.0), ("int16", 500.0)):
            samples = [
                {
                    "image": Sequence(
                        (rng.random((7, 9, 11, 2)) * scale).astype(dtype), "DHWC", affine=affine
                    ),
                    "label": Labels(labels),
                }
                for _ in range(2)
            ]
            judged = Chain(op)(samples, index=3)
            found = Chain(op)(samples, index=3, backend="cuda", device=EmulatedDevice())
            for one, other in zip(found, judged, strict=True):
                a, b = one["image"].data.astype(float), other["image"].data.astype(float)
                assert a.shape == b.shape
                assert one["image"].dtype == other["image"].dtype
                rounds = other["image"].dtype == np.int16
                assert np.abs(a - b).max() <= (1 if rounds else 1e-4 * max(1, np.ptp(b)))
                assert (one["label"].array != other["label"].array).mean() < 1e-2
                assert one.history == other.history


@EMULATED
def test_a_whole_recipe_takes_few_launches_and_does_not_depend_on_the_batch(rng):
    from seqpipe import recipes

    chain = recipes.nnunet((8, 10, 12))
    chain = Chain(*(type(op)(**{**op.settings(), "p": 1.0}) for op in chain))
    samples = [
        {
            "image": rng.normal(size=(3, 12, 13, 14)).astype(np.float32),
            "label": Labels(np.ones((1, 12, 13, 14), np.int16)),
        }
        for _ in range(3)
    ]
    device = EmulatedDevice()
    found = chain(samples, layout="CDHW", index=5, backend="cuda", device=device)
    judged = chain(samples, layout="CDHW", index=5)
    assert device.launches <= 24
    for number, (one, other) in enumerate(zip(found, judged, strict=True)):
        assert np.abs(one["image"] - other["image"]).max() < 1e-4 * np.ptp(other["image"])
        alone = chain(
            samples[number], layout="CDHW", index=5 + number, backend="cuda", device=EmulatedDevice()
        )
        assert np.array_equal(alone["image"], one["image"])
        assert np.array_equal(alone["label"].array, one["label"].array)


def test_plans_of_a_batch_are_those_of_its_samples():
    chain = Chain(
        ops.RandomAffine3d(rotate=(-30, 30), scale=(0.8, 1.2), p=0.7),
        ops.Elastic3d(spacing=9, amplitude=(0.1, 0.4), p=0.6),
        ops.Flip3d(depth=Choice((0, 1)), width=True, p=0.5),
        ops.GaussianNoise3d(p=0.5),
        ops.Zoom3d(factor=(0.8, 1.3)),
    )
    sizes = [(6, 7, 8), (6, 7, 8), (9, 7, 8), (6, 7, 8), (6, 7, 8), (6, 7, 8)]
    states = [state_of("chain", {"image": np.zeros(size, np.float32)}, None) for size in sizes]
    indices = [4, 5, 6, 900, 8, 2**40]
    assert len({tuple(map(type, plan.steps)) for plan in plans_of(chain.ops, states, 2, indices)}) > 1
    for some in (slice(0, 2), slice(0, 6)):  # of one size, and of two
        plans = plans_of(chain.ops, states[some], 2, indices[some])
        for plan, state, index in zip(plans, states[some], indices[some], strict=True):
            (alone,) = plans_of(chain.ops, [state], 2, [index])
            assert plan.history(2, index)() == alone.history(2, index)()
            assert [step.names for step in plan.steps] == [step.names for step in alone.steps]
            assert plan.grid.size == alone.grid.size
            for one, other in zip(plan.steps, alone.steps, strict=True):
                if isinstance(one, Move):
                    assert one.mapping.pre.tobytes() == other.mapping.pre.tobytes()
                    assert one.mapping.post.tobytes() == other.mapping.post.tobytes()
                    assert (one.mapping.lattice is None) == (other.mapping.lattice is None)
                    if one.mapping.lattice is not None:
                        assert np.array_equal(one.mapping.lattice.control, other.mapping.lattice.control)


@EMULATED
def test_many_volumes_of_a_batch_are_gathered_in_one_launch(rng):
    batch = rng.random((12, 6, 7, 8)).astype(np.float32)
    chain = Chain(ops.RandomAffine3d(rotate=(-30, 30)), ops.Elastic3d(spacing=9))
    device = EmulatedDevice()
    found = chain(batch, layout="NDHW", backend="cuda", device=device)
    assert device.launches == 2  # the control points, and the volumes
    assert found.flags.c_contiguous
    assert np.abs(found - chain(batch, layout="NDHW")).max() < 1e-4


@EMULATED
def test_large_volumes_are_planned_a_few_at_a_time_while_others_are_gathered(rng, monkeypatch):
    batch = rng.random((5, 6, 7, 8)).astype(np.float32)
    labels = Labels(rng.integers(0, 3, (5, 6, 7, 8)).astype(np.uint8))
    chain = Chain(ops.RandomAffine3d(rotate=(-30, 30)), ops.GaussianBlur3d(), ops.Elastic3d(spacing=9))
    whole, apart = EmulatedDevice(), EmulatedDevice()
    judged = chain({"image": batch, "label": labels}, layout="NDHW", backend="cuda", device=whole)
    monkeypatch.setattr(run, "_PORTION", 2 * batch[0].size)
    found = chain({"image": batch, "label": labels}, layout="NDHW", backend="cuda", device=apart)
    assert apart.launches > whole.launches
    assert np.array_equal(found["image"], judged["image"])
    assert np.array_equal(found["label"].array, judged["label"].array)
    tabled = ops.RandomAffine3d(rotate=np.array([[9.0 * n, 0.0, 0.0] for n in range(5)]))
    turned = tabled(batch, layout="NDHW")
    other = Chain(tabled)(batch, layout="NDHW", backend="cuda", device=EmulatedDevice())
    assert np.abs(other - turned).max() < 1e-4


@EMULATED
@pytest.mark.parametrize("portion", [1, 10**9])
def test_an_operator_that_draws_by_the_size_of_its_input_gets_that_of_the_operator_before(
    rng, monkeypatch, portion
):
    monkeypatch.setattr(run, "_PORTION", portion)
    sizes = []

    class Sized(ops.Flip3d, register=False):
        """With draws of its own."""

        def sample(self, rng, spec):
            sizes.append(spec[:3])
            return {"width": rng.random() * spec.width > 4, **super().sample(rng, spec)}

    batch = rng.random((5, 6, 7, 8)).astype(np.float32)
    tabled = ops.RandomAffine3d(rotate=np.array([[9.0 * n, 0.0, 0.0] for n in range(5)]))
    chain = Chain(ops.Zoom3d(size=(3, 4, 9)), Sized(depth=Choice((0, 1))), tabled)
    found = chain(batch, layout="NDHW", index=7, backend="cuda", device=EmulatedDevice())
    assert sizes == [(3, 4, 9)] * 5
    assert np.abs(found - chain(batch, layout="NDHW", index=7)).max() < 1e-4


@EMULATED
@pytest.mark.parametrize("layout", ["NDHWC", "NCDHW"])
def test_results_of_a_batch_of_several_parts_are_made_where_they_stay(rng, layout, monkeypatch):
    copied = []
    stack = np.stack
    monkeypatch.setattr(np, "stack", lambda *given, **how: copied.append(given) or stack(*given, **how))
    shape = (3, 2, 5, 6, 7) if layout == "NCDHW" else (3, 5, 6, 7, 2)
    batch = {
        "first": rng.random(shape).astype(np.float32),
        "second": rng.random(shape).astype(np.float32),
        "label": Labels(rng.integers(0, 3, shape).astype(np.uint8)),
    }
    smooth = (
        [ops.GaussianBlur3d()] if layout == "NCDHW" else []
    )  # channels of the other layout are taken apart for it
    chain = Chain(ops.RandomAffine3d(rotate=(-30, 30)), *smooth, ops.Zoom3d(size=(9, 9, 9)))
    found = chain(batch, layout=layout, backend="cuda", device=EmulatedDevice())
    assert not copied
    judged = chain(batch, layout=layout)
    for name in ("first", "second"):
        assert np.abs(found[name] - judged[name]).max() < 1e-4
    assert (found["label"].array != judged["label"].array).mean() < 5e-3


@pytest.mark.gpu
def test_control_points_of_the_gpu_are_those_of_numpy():
    import cupy

    fields = [DrawnControl((n, 99), (11, 12, 13), (1.0, 2.0, 0.3), flat=n == 2) for n in range(4)]
    found, addresses = launch_controls(_device(), fields, cupy.empty(1))
    assert addresses[0] == found.data.ptr
    assert found.get().tobytes() == b"".join(field.values.tobytes() for field in fields)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_the_gpu_agrees_with_the_cpu(rng, dtype):
    import cupy

    size = (48, 64, 80)
    values = (rng.random((*size, 2)) * 1000).astype(dtype)
    labels = rng.integers(0, 5, (12, 16, 20, 1)).astype(np.uint8).repeat(4, 0).repeat(4, 1).repeat(4, 2)
    for mapping in mappings(size, rng).values():
        for interpolation in ("linear", "cubic"):
            judged = gather(values, mapping, interpolation, 0.0)
            device = _device()
            found = gather(cupy.asarray(values), mapping, interpolation, 0.0, device=device).get()
            off = np.abs(found.astype(float) - judged.astype(float)).max()
            assert off <= (1e-4 * 1000 if dtype == "float32" else 1)
        judged = gather(labels, mapping, "vote", 0)
        assert (
            gather(cupy.asarray(labels), mapping, "vote", 0, device=_device()).get() != judged
        ).mean() < 1e-3


@pytest.mark.gpu
@pytest.mark.parametrize("name", VOLUMES)
def test_every_operator_agrees_on_the_gpu(rng, name):
    import cupy

    affine = np.diag([2.0, 1.0, 1.5, 1.0])
    image = rng.random((16, 20, 24, 2)).astype(np.float32)
    labels = rng.integers(0, 4, (16, 20, 24)).astype(np.uint8)
    for arguments in ops.REGISTRY[name].traits.examples:
        op = ops.REGISTRY[name](**{**arguments, "p": 1.0})
        judged = op({"image": Sequence(image, "DHWC", affine=affine), "label": Labels(labels)}, index=3)
        given = {
            "image": Sequence(cupy.asarray(image), "DHWC", affine=affine),
            "label": Labels(cupy.asarray(labels)),
        }
        found = op(given, index=3)
        assert found["image"].device.startswith("cuda")
        assert np.abs(found["image"].numpy() - judged["image"].data).max() <= 1e-4 * max(
            1, np.ptp(judged["image"].data)
        )
        assert (found["label"].array.get() != judged["label"].array).mean() < 1e-3


@pytest.mark.gpu
@pytest.mark.parametrize("mode", FILL_MODES)
def test_pads_on_the_gpu_are_those_of_the_cpu(rng, mode):
    import cupy

    image, labels = rng.random((5, 6, 7)).astype(np.float32), rng.integers(0, 4, (5, 6, 7)).astype(np.uint8)
    op = ops.Pad3d(before=(2, 0, 9), after=(1, 3, 0), pad_mode=mode, label_fill=-1)
    judged = op({"image": image, "label": Labels(labels)})
    found = op({"image": cupy.asarray(image), "label": Labels(cupy.asarray(labels))})
    assert np.array_equal(found["image"].get(), judged["image"])
    assert np.array_equal(found["label"].array.get(), judged["label"].array)


@pytest.mark.gpu
def test_what_is_no_number_is_said_by_a_later_call(rng):
    import cupy

    volume = cupy.asarray(rng.random((20, 20, 20)).astype(np.float32))
    volume[1, 2, 3] = cupy.nan
    ops.ZScore()(volume)
    cupy.cuda.Device().synchronize()
    with pytest.warns(UserWarning, match="1 voxels of 'image' are NaN or infinite"):
        ops.Flip3d(width=True)(volume)


@pytest.mark.gpu
def test_a_chain_on_the_gpu_agrees_with_the_cpu(rng):
    import cupy

    volume = rng.random((40, 40, 40)).astype(np.float32)
    chain = Chain(
        ops.RandomAffine3d(rotate=(-30, 30)), ops.Elastic3d(), ops.Flip3d(width=True), ops.GaussianBlur3d()
    )
    found = chain(cupy.asarray(volume), index=3)
    assert np.abs(found.get() - chain(volume, index=3)).max() < 1e-4


def _device():
    from seqpipe.ops.cuda.kernel import cuda_device

    return cuda_device(0)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["zscore", "window", "percentile_rescale", "histogram_standardize"])
def test_the_dtype_on_the_gpu_does_not_depend_on_the_draw(rng, name):
    import cupy

    stored = (rng.random((16, 9, 10, 11)) * 200).astype(np.int16)
    chain = Chain(ops.REGISTRY[name](p=0.5, seed=1))
    found = chain(cupy.asarray(stored), layout="NDHW")
    assert found.dtype == np.float32
    unchanged = (found.get() == stored).all(axis=(1, 2, 3))
    assert 0 < unchanged.sum() < len(stored)
    assert np.abs(found.get() - chain(stored, layout="NDHW")).max() < 1e-3


@pytest.mark.gpu
def test_a_result_larger_than_the_memory_of_the_gpu_is_refused_by_name():
    import cupy

    with pytest.raises(ParameterError, match=r"zoom3d: a result of .* GiB, the memory of the GPU"):
        ops.Zoom3d(size=(100_000, 100_000, 100_000))(cupy.zeros((8, 8, 8), np.float32))
