"""What holds for every operator, derived from the registry: its examples on every backend, type and layout."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from seqpipe.errors import ParameterError
from seqpipe.ops import REGISTRY, apply, per_frame
from seqpipe.ops.call.op import Ranged
from seqpipe.ops.core.declaration import _warned
from seqpipe.ops.core.traits import WORK, Work
from seqpipe.ops.geometry.base import Geometry
from seqpipe.ops.resize.base import Scaled
from seqpipe.parts import Points
from seqpipe.sequence import Sequence
from tests.support.marks import NAMES, some
from tests.support.operators import (
    LAYOUTS,
    built,
    case_of,
    cases,
    compare,
    five,
    images,
    main_type,
    may_stay,
    names,
    some_values,
    unfive,
)
from tests.support.together import together


def structural(name):
    """An operator's first example and its first random one: enough for what follows from how operators are built."""
    randoms = [n for n in range(len(REGISTRY[name].traits.examples)) if built((name, n)).is_random]
    return [(name, n) for n in sorted({0, *randoms[:1]})]


STRUCTURAL = some([case for name in names() for case in structural(name)])
FIRST = some([(name, 0) for name in names()])


def types(name, which):
    """The first example with the main type; or all types with the first one, and the usual ones with all."""
    main = ((name, 0), main_type(name))
    every = [
        (case, dtype)
        for case in cases()
        for dtype in REGISTRY[name].traits.dtypes
        if case[0] == name and (case[1] == 0 or dtype in ("uint8", "float32"))
    ]
    return [main] if which == "main" else [entry for entry in every if entry != main]


def reference(op, x, **options):
    return apply(op, x, backend="reference", **options)


def result(op, x, **options):
    """The reference of one sample after the other, with the view of layouts that the tests have."""
    layout = options.pop("layout", "NFHWC")
    index = options.pop("index", 0)
    one = {"F", "D"} <= {*layout}  # a series of volumes is one sample
    found = [
        reference(op, part[None], layout="NFHWC", index=index + (0 if one else n), **options)
        for n, part in enumerate(five(x, layout))
    ]
    return unfive(np.concatenate(found), layout)


# ------------------------------------------------------------------------------------------ the same everywhere


@NAMES
@pytest.mark.parametrize("which", ["main", "others"])
def test_backends_agree_with_the_reference(place, name, which):
    cases = [(built(case), case, dtype) for case, dtype in types(name, which)]
    cases = [case for case in cases if place.takes(case[0], case[2])]
    if not cases:
        pytest.skip("it has no kernel, or none for these types")
    for op, (_, example), dtype in cases:
        print(f"example {example} of {name} with {dtype}")  # noqa: T201  pytest shows it with a failure
        x = images(op, dtype)
        compare(place(op, x, epoch=2, index=5), reference(op, x, epoch=2, index=5), place.tolerance(op))


@NAMES
def test_what_is_no_number_or_far_too_large_is_as_the_reference_has_it(place, name):
    """To the tolerance of kernels also on a CPU: what OpenCV does in another order is for whole numbers."""
    cls = REGISTRY[name]
    if "float32" not in cls.traits.dtypes:
        pytest.skip("it takes no floats")
    converts = place.name == "cpu" and any(q.name == "dtype" for q in cls.parameters)
    for op in (built((name, 0)), *([built((name, 0), dtype="uint8")] if converts else [])):
        if not place.takes(op):
            pytest.skip("it has no kernel")
        x = images(op, "float32", size=(23, 29))
        at = np.random.default_rng(5).random(x.shape)
        # kernels that resample leave out other taps of weight 0 than the reference does
        spoiling = () if place.name != "cpu" and isinstance(op, Scaled) else (np.nan, np.inf, -np.inf, 1e38)
        for part, value in enumerate((3e6, -3e6, -0.0, *spoiling)):
            x[(at > part / 50) & (at < (part + 1) / 50)] = value
        with np.errstate(all="ignore"):
            compare(place(op, x), reference(op, x), op.traits.tolerance)


@FIRST
def test_large_images_agree_too(place, case):
    """Tables and whole blocks of threads are used for these only."""
    op = built(case)
    if not place.takes(op):
        pytest.skip("it has no kernel")
    x = images(op, op.traits.dtypes[0] if "uint8" not in op.traits.dtypes else "uint8", size=(151, 149))
    compare(place(op, x), reference(op, x), place.tolerance(op))


@FIRST
def test_every_layout(anywhere, case):
    op = built(case)
    if not anywhere.takes(op):
        pytest.skip("it has no kernel")
    for layout in LAYOUTS:
        if op.traits.channels and 1 not in op.traits.channels and "C" not in layout:
            continue
        if "D" in layout and isinstance(op, Ranged):
            op = built(case, range="dtype")
        x = images(op, "uint8", layout)
        if layout == "NFDHWC":
            with pytest.raises(
                ParameterError, match=r"'NFDHWC' holds several series of volumes; allowed: 'FDHWC'"
            ):
                anywhere(op, x, layout=layout)
            continue
        if not (op.traits.keeps_frames or set(layout) & {"F", "D"}):
            with pytest.raises(
                ParameterError, match=rf"{op.name}: images of layout {layout}, which has no frames"
            ):
                anywhere(op, x, layout=layout)
            continue
        found = anywhere(op, x, layout=layout, index=4)
        compare(found, result(op, x, layout=layout, index=4), anywhere.tolerance(op))
        assert found.flags.c_contiguous, layout


@FIRST
@pytest.mark.parametrize("channels", [1, 4, 5])
def test_pixels_of_any_number_of_values(place, case, channels):
    op = built(case)
    if not place.takes(op):
        pytest.skip("it has no kernel")
    if op.traits.channels and channels not in op.traits.channels:
        pytest.skip("it does not take them")
    x = np.resize(images(op, "uint8", "NFHW", samples=2 * channels), (2, 3, 5, 7, channels))
    compare(place(op, x, epoch=1, index=3), reference(op, x, epoch=1, index=3), place.tolerance(op))


@STRUCTURAL
def test_a_batch_is_its_samples_one_by_one(anywhere, case):
    op = built(case)
    if not anywhere.takes(op):
        pytest.skip("it has no kernel")
    x = images(op, "uint8", samples=5)
    found = anywhere(op, x, index=2, epoch=1)
    for n, one in enumerate(x):
        compare(anywhere(op, one, index=2 + n, epoch=1), found[n])


@STRUCTURAL
def test_lists_of_different_shapes_are_their_samples_one_by_one(anywhere, case):
    if not anywhere.takes(built(case)):
        pytest.skip("it has no kernel")
    for frames in (False, True)[: 1 + REGISTRY[case[0]].traits.by_frame]:
        check_lists(anywhere, built(case, per_frame=frames))


def check_lists(anywhere, op):
    parts = [
        np.concatenate([images(op, "uint8", "FHWC", size=(9, 7), seed=n) for n in (2, 3)])[:5],
        images(op, "uint8", "FHWC", size=(5, 8)),
        images(op, "uint8", "FHWC", size=(23, 31), seed=1)[::-1],
    ]
    before = getattr(anywhere.device, "launches", 0)
    found = anywhere(op, parts, index=3)
    if anywhere.device is not None and not op.traits.composed:
        work = WORK.get(op.traits.body.kind, Work())
        least = 1 if work.choice else len(work.kernels)  # each image needs one of them
        assert least <= anywhere.device.launches - before <= len(work.kernels)
    assert isinstance(found, list)
    for n, part in enumerate(parts):
        compare(found[n], anywhere(op, part, index=3 + n))


@STRUCTURAL
def test_a_sequence_is_its_frames(anywhere, case):
    """With one draw for all of them."""
    op = built(case)
    if not (anywhere.takes(op) and op.traits.keeps_frames):
        pytest.skip("it has no kernel, or needs a whole sequence")
    x = images(op, "uint8", "FHWC")
    whole = anywhere(op, x, index=6)
    for frame, one in enumerate(x):
        if op.traits.frames_alike:
            compare(anywhere(op, one, index=6), whole[frame])
        else:
            compare(anywhere(op, x[: frame + 1], index=6), whole[: frame + 1])


@STRUCTURAL
def test_equal_frames_have_equal_results_or_never(anywhere, case):
    op = built(case, p=1.0, per_frame=False)
    if not (anywhere.takes(op) and op.traits.keeps_frames):
        pytest.skip("it has no kernel, or needs a whole sequence")
    one = images(op, "uint8", "HWC", size=(16, 16))
    first, second = anywhere(op, np.stack([one, one]))
    assert (first == second).all() == op.traits.frames_alike


@NAMES
def test_arguments_for_each_frame_are_frames_with_an_argument_each(anywhere, name):
    cls = REGISTRY[name]
    if not cls.traits.by_frame:
        pytest.skip("it has none")
    for q in (q for q in cls.drawable if q.by_frame):
        values = some_values(q, 3)
        op = built(case_of(name, q), **{q.name: per_frame(values)})
        if not anywhere.takes(op):
            pytest.skip("it has no kernel")
        x = images(op, "uint8")
        found = anywhere(op, x)
        for frame, value in enumerate(values if cls.traits.keeps_frames and cls.traits.frames_alike else ()):
            compare(
                found[:, frame],
                anywhere(built(case_of(name, q), **{q.name: value}), x[:, frame], layout="FHWC"),
            )
        both = np.stack([values, values[::-1]])
        found = anywhere(built(case_of(name, q), **{q.name: per_frame(both)}), x)
        for sample, one in enumerate(both):
            one_op = built(case_of(name, q), **{q.name: per_frame(one)})
            compare(found[sample], anywhere(one_op, x[sample], index=sample))


@NAMES
def test_arguments_for_each_sample_are_samples_with_an_argument_each(anywhere, name):
    for q in REGISTRY[name].drawable:
        values = some_values(q, 4)
        op = built(case_of(name, q), **{q.name: values})
        if not anywhere.takes(op):
            pytest.skip("it has no kernel")
        x = images(op, "uint8", samples=4)
        found = anywhere(op, list(x))
        for sample, value in enumerate(values):
            one_op = built(case_of(name, q), **{q.name: value})
            compare(found[sample], anywhere(one_op, x[sample], index=sample))
        if len({one.shape for one in found}) == 1:
            compare(anywhere(op, x), np.stack(found))


@STRUCTURAL
def test_one_object_serves_whatever_comes(anywhere, case):
    """What it keeps for one type, size or length is not used for another."""
    own = (
        {"range": "dtype"} if issubclass(REGISTRY[case[0]], Ranged) else {}
    )  # volumes have none by themselves
    op = built(case, **own)
    if not anywhere.takes(op):
        pytest.skip("it has no kernel")
    for dtype, layout, size in (
        ("uint8", "FHWC", (5, 7)),
        ("float32", "FHWC", (5, 7)),
        ("uint16", "HWC", (9, 8)),
        ("uint8", "DHWC", (9, 8)),
    ):
        if dtype not in op.traits.dtypes or not (op.traits.keeps_frames or "F" in layout):
            continue
        x = images(op, dtype, layout, size=size)
        compare(anywhere(op, x, layout=layout), anywhere(built(case, **own), x, layout=layout))


# ------------------------------------------------------------------------------------------ memory


@STRUCTURAL
def test_memory_of_any_kind_is_read_and_none_is_written(anywhere, case):
    op = built(case)
    if not anywhere.takes(op):
        pytest.skip("it has no kernel")
    base = images(op, "uint8", size=(10, 14))
    for x in (
        base[:, :, ::2, 1::2],
        base[:, ::-1, ::-1, ::-1],
        np.broadcast_to(base[:1, :1], base.shape),
        base.transpose(0, 1, 3, 2, 4),
        np.moveaxis(np.ascontiguousarray(np.moveaxis(base, -1, 2)), 2, -1),
    ):
        kept = x.copy()
        x.flags.writeable = False
        found = anywhere(op, x)
        compare(found, anywhere(op, kept))
        compare(x, kept)
        assert not np.shares_memory(found, base)
        assert found.flags.writeable


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@FIRST
def test_what_is_given_as_a_tensor_comes_back_as_one_where_it_was(torch, device, case):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    op = built(case)
    for dtype in op.traits.dtypes:
        x = images(op, dtype)
        across = np.ascontiguousarray(np.moveaxis(x, -1, 1))
        for layout, shown, given in (
            ("NFHWC", x, torch.from_numpy(x).to(device)),
            ("NFHWC", x, torch.from_numpy(across).to(device).movedim(1, -1)),
            ("NFCHW", np.moveaxis(x, -1, 2), torch.from_numpy(x).to(device).movedim(-1, 2)),
        ):
            kept = given.clone()
            found = apply(op, given, layout=layout, index=3)
            assert (type(found), found.device) == (torch.Tensor, given.device)
            wanted = reference(op, shown, layout=layout, index=3)
            compare(
                found.cpu().numpy(),
                wanted,
                (device == "cpu" and op.traits.cpu_tolerance) or op.traits.tolerance,
            )
            compare(given.cpu().numpy(), kept.cpu().numpy())


# ------------------------------------------------------------------------------------------ what belongs to images

GEOMETRY = some([case for case in cases() if issubclass(REGISTRY[case[0]], Geometry)])
SPACE = np.array([[0.0, 0.3, 2.0, -7], [0.1, 1.5, 0.0, 3], [3.0, 0.0, 0.2, 11], [0, 0, 0, 1]])


@GEOMETRY
def test_boxes_points_and_labels_move_with_their_pixels(case):
    """With those of a rectangle, among pixels of another level, which also lie beyond the images."""
    if REGISTRY[case[0]].traits.composed:
        pytest.skip("it changes levels, too: test_policies.py")
    own = {"interp_type": "nearest", "fill_value": 50.0}
    own |= {"pad_mode": "constant"} if "pad_mode" in REGISTRY[case[0]].traits.examples[case[1]] else {}
    op = built(case, p=1.0, **{q.name: own[q.name] for q in REGISTRY[case[0]].parameters if q.name in own})
    x = np.full((61, 83, 3), 50, np.uint8)
    x[20:41, 30:54] = 200
    box, center = np.array([[30.0, 20.0, 54.0, 41.0]]), np.array([[42.0, 30.5]])
    for index in range(3):
        found = together(op)(x, mask=x[..., 0] > 100, boxes=box, points=center, index=index)
        if {*np.unique(found.image)} <= {50, 200} and not isinstance(op, Scaled):
            compare(found.mask, found.image[..., 0] > 100)
        at = np.argwhere(found.mask)[:, ::-1] + 0.5
        ends, size = found.boxes[0], np.array(found.mask.shape[::-1])
        if (ends[:2] < 0.5).any() or (ends[2:] > size - 0.5).any() or min(ends[2:] - ends[:2]) < 5:
            continue  # it is not shown as a whole, or too small
        np.testing.assert_allclose(ends, [*at.min(axis=0) - 0.5, *at.max(axis=0) + 0.5], atol=1)
        if not op.perspective:
            np.testing.assert_allclose(found.points[0], at.mean(axis=0), atol=0.6)


@GEOMETRY
def test_voxels_keep_their_place_in_the_world(case):
    op = built(case, p=1.0, per_frame=False)
    voxels = np.array([[0.0, 3, 5], [2, 41, 30.5], [3, 60, 82]])
    sample = {
        "image": Sequence(np.zeros((4, 61, 83, 3), np.uint8), "DHWC", affine=SPACE),
        "tips": Points(voxels),
    }
    if op.perspective:
        with pytest.raises(
            ParameterError, match=f"{op.name}: a volume with an affine by a map with perspective"
        ):
            op(sample)
        return
    found = op(sample, index=3)
    there = found["image"].affine[:3, :3] @ found["tips"].data.T + found["image"].affine[:3, 3:]
    np.testing.assert_allclose(there, SPACE[:3, :3] @ voxels.T + SPACE[:3, 3:], atol=1e-4)


# ------------------------------------------------------------------------------------------ identity, inverse


@NAMES
def test_parameters_that_change_nothing_change_no_bit(anywhere, name):
    cls = REGISTRY[name]
    still = {q.name: q.identity for q in cls.parameters if q.identity is not None}
    ways = [{"p": 0.0}] * may_stay(name) + [still] * bool(still)
    for way in ways:
        for dtype in cls.traits.dtypes:
            op = built((name, 0), **way)
            x = images(op, dtype)
            if anywhere.takes(op, dtype) and op.result_dtype(dtype) == dtype:
                compare(anywhere(op, x), x)


@NAMES
def test_what_does_nothing_without_arguments_says_so(unregistered, name):
    _warned.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            op = REGISTRY[name]()
        except ParameterError:
            return  # it must be told what to do
    x = images(op, "uint8", size=(9, 12))
    together = [x[0], x[1, :, :5]]  # what is done to images depends on others there for some operators
    found = apply(op, together)
    still = [
        one.dtype == two.dtype and np.array_equal(one, two) for one, two in zip(found, together, strict=True)
    ]
    wanted = [f"{name} without arguments does nothing; try {REGISTRY[name].__name__}("] * all(still)
    assert [str(one.message).partition("(")[0] + "(" for one in caught] == wanted


@some([case for case in cases() if hasattr(REGISTRY[case[0]], "inverse")])
def test_the_inverse_takes_it_back(anywhere, case):
    op = built(case)
    if not anywhere.takes(op):
        pytest.skip("it has no kernel")
    x = images(op, "uint8")
    compare(anywhere(op.inverse(), anywhere(op, x)), x)
