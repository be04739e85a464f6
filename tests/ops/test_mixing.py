"""Mixup and CutMix against the formulas that torchvision publishes, written with NumPy."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from seqpipe import Batch, Sequence, fn
from seqpipe.errors import ParameterError
from seqpipe.ops import CutMix, Mixup, apply
from seqpipe.ops.core.blocks import resolve
from seqpipe.ops.core.spec import Spec
from seqpipe.ops.cuda.kernel import defines_of, source_of
from tests.support.deep import combined
from tests.support.nvrtc import assert_compiles_well, missing_nvrtc
from tests.support.operators import compare, cupy, five, images

LABELS = np.array([2, 0, 3, 3])
EVERY = [Mixup(alpha=1.0, num_classes=4, seed=3), CutMix(num_classes=4, seed=1)]
BOTH = pytest.mark.parametrize("op", EVERY, ids=lambda op: op.name)


@pytest.fixture(params=["reference", "cpu", "emulated", pytest.param("gpu", marks=pytest.mark.gpu)])
def mixed(request):
    """Calls an operator with NumPy's arrays, on every backend."""
    device = request.getfixturevalue("emulated") if request.param == "emulated" else None

    def call(op, x, labels=None, **options):
        if request.param != "gpu":
            backend = {"emulated": "cuda", "cpu": None}.get(request.param, "reference")
            return op.mixed(x, labels, backend=backend, device=device, **options)
        there = [cupy().asarray(one) for one in x] if isinstance(x, list) else cupy().asarray(x)
        labels = cupy().asarray(labels) if isinstance(labels, np.ndarray) else labels
        found = op.mixed(there, labels, **options)
        found = found._replace(labels=found.labels.get() if hasattr(found.labels, "get") else found.labels)
        return found._replace(
            data=[one.get() for one in found.data] if isinstance(x, list) else found.data.get()
        )

    return call


def drawn(op, samples, size=(5, 7), **where):
    """What was drawn for each sample."""
    first, epoch = where.get("index", 0), where.get("epoch", 0)
    indices = range(first, first + samples) if op.per_sample else [first] * samples
    return resolve(op, [Spec(3, *size, 3, "uint8")] * samples, epoch, indices).rows


def one_hot(labels, classes=4):
    return np.eye(classes, dtype=np.float32)[labels]


def by_torchvision(op, x, labels, rows):
    """MixUp and CutMix of torchvision's transforms.v2, for NFHWC, with what was drawn."""
    hot, rolled = one_hot(labels), np.roll(one_hot(labels), 1, 0)
    out = x.astype(np.float64)
    weights = rows["weight"].astype(np.float64)
    if isinstance(op, Mixup):
        lam = weights.reshape(-1, 1, 1, 1, 1)
        out = np.roll(out, 1, 0) * (1 - lam) + out * lam
    else:
        height, width = x.shape[2:4]
        other = np.roll(x, 1, 0)
        for n, row in enumerate(rows):
            center_y, center_x = int(row["center"][0] * height), int(row["center"][1] * width)
            r = 0.5 * math.sqrt(1.0 - row["ratio"])
            half_w, half_h = int(r * width), int(r * height)
            x1, y1 = max(center_x - half_w, 0), max(center_y - half_h, 0)
            x2, y2 = min(center_x + half_w, width), min(center_y + half_h, height)
            out[n, :, y1:y2, x1:x2] = other[n, :, y1:y2, x1:x2]
            weights[n] = 1.0 - (x2 - x1) * (y2 - y1) / (width * height)
    lam = weights[:, None]
    return out, rolled * (1 - lam) + hot * lam


# ------------------------------------------------------------------------------------------ the formulas


@BOTH
@pytest.mark.parametrize(
    ("dtype", "per_sample"), combined(["uint8", "uint16", "int16", "float16", "float32"], [False, True])
)
def test_it_is_torchvisions_formula(mixed, op, per_sample, dtype):
    op = type(op)(**{**op.settings(), "per_sample": per_sample})
    x = images(op, dtype, samples=4, size=(25, 31))
    moved = 0
    for index in range(4):
        found, labels = mixed(op, x, LABELS, index=index, epoch=2)
        rows = drawn(op, 4, (25, 31), index=index, epoch=2)
        assert len(set(rows["weight"].tolist())) == (4 if per_sample else 1)
        wanted, chances = by_torchvision(op, x, LABELS, rows)
        if dtype[0] == "f":
            assert found.dtype == dtype
            np.testing.assert_allclose(found, wanted, rtol=2e-3 if dtype == "float16" else 1e-5, atol=1e-5)
        else:
            # products in float32: of 16 bits, a few fall to the other side of a half
            compare(found, np.rint(wanted).astype(dtype), (1, 0.02) if isinstance(op, Mixup) else (0, 0))
        assert labels.dtype == np.float32
        np.testing.assert_allclose(labels, chances, atol=1e-6)
        np.testing.assert_allclose(labels.sum(axis=1), 1, atol=1e-6)
        moved += (found != x).any()
    assert moved >= 3


def test_weights_have_the_distribution_of_beta():
    from scipy import stats

    for op in (Mixup(alpha=0.2), Mixup(alpha=2.0)):
        weights = drawn(Mixup(alpha=op.alpha, per_sample=True), 2000)["weight"]
        assert stats.kstest(weights, stats.beta(op.alpha, op.alpha).cdf).pvalue > 0.01
    ratios = drawn(CutMix(per_sample=True), 2000)["ratio"]
    assert stats.kstest(ratios, "uniform").pvalue > 0.01


def test_boxes_lie_anywhere_and_count_what_they_cover():
    rows = drawn(CutMix(per_sample=True), 3000, (40, 60))
    top, left, bottom, right = rows["box"].T
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (bottom <= 40).all()
    assert (right <= 60).all()
    assert (top == 0).any()
    assert (right == 60).any()
    np.testing.assert_allclose(rows["weight"], 1 - (bottom - top) * (right - left) / 2400, atol=1e-6)
    assert set(np.floor(rows["center"][:, 0] * 40).astype(int)) == set(range(40))


def test_a_box_is_one_for_all_frames():
    x = np.stack([np.full((6, 30, 30, 3), 50 * n, np.uint8) for n in range(4)])
    found = CutMix(per_sample=True, seed=2)(x).data
    assert (found == found[:, :1]).all()
    for n, result in enumerate(found):
        assert set(np.unique(result)) <= {50 * n, 50 * ((n - 1) % 4)}
    assert sum(len(np.unique(one)) == 2 for one in found) >= 2


# ------------------------------------------------------------------------------------------ draws


@BOTH
def test_draws_depend_on_seed_epoch_and_index_alone(op):
    each = type(op)(per_sample=True, p=0.6, seed=4)
    whole = list(map(str, drawn(each, 8)))
    assert list(map(str, drawn(each, 3, index=5))) == whole[5:]
    assert list(map(str, drawn(pickle.loads(pickle.dumps(each)), 8))) == whole
    assert list(map(str, drawn(each, 8, epoch=1))) != whole
    assert list(map(str, drawn(type(op)(per_sample=True, p=0.6, seed=5), 8))) != whole
    # one for the batch is that of its first sample
    one = type(op)(p=0.6, seed=4)
    assert list(map(str, drawn(one, 3, index=5))) == [whole[5]] * 3


@BOTH
def test_it_acts_with_its_probability_on_batches_or_on_samples(op):
    x = images(op, "uint8", samples=4, size=(20, 20))
    some = type(op)(num_classes=4, p=0.5, seed=8)
    changed = [bool((some(x, LABELS, index=n).data != x).any()) for n in range(60)]
    assert 12 < sum(changed) < 48
    still = next(n for n in range(60) if not drawn(some, 4, (20, 20), index=n)["acts"].any())
    compare(some(x, LABELS, index=still).labels, one_hot(LABELS))
    each = type(op)(num_classes=4, p=0.5, per_sample=True, seed=8)
    some_act = next(n for n in range(60) if 0 < drawn(each, 4, (20, 20), index=n)["acts"].sum() < 4)
    acts = drawn(each, 4, (20, 20), index=some_act)["acts"] != 0
    found = each(x, LABELS, index=some_act)
    compare(found.data[~acts], x[~acts])
    compare(found.labels[~acts], one_hot(LABELS)[~acts])


@BOTH
def test_a_batch_of_one_stays(mixed, op):
    x = images(op, "float32", samples=1)
    found = mixed(op, x, [3])
    compare(found.data, x)
    compare(found.labels, one_hot([3]))


# ------------------------------------------------------------------------------------------ what comes in


@BOTH
@pytest.mark.parametrize("layout", ["NHWC", "NFHWC", "NCHW", "NFCHW", "NHW"])
def test_every_layout(mixed, op, layout):
    x = images(op, "uint8", layout, samples=4)
    found = mixed(op, x, LABELS, layout=layout).data
    compare(five(found, layout), mixed(op, five(x, layout), LABELS).data)
    assert found.flags.c_contiguous


@BOTH
def test_memory_of_any_kind_is_read_and_none_is_written(mixed, op):
    x = images(op, "uint8", samples=8, size=(10, 14))[::-2, :, ::2, ::-1]
    kept = x.copy()
    x.flags.writeable = False
    found = mixed(op, x, LABELS).data
    compare(found, mixed(op, kept, LABELS).data)
    assert not np.shares_memory(found, x)
    compare(x, kept)


@BOTH
def test_one_launch_for_a_batch(op, emulated):
    before = emulated.launches
    op.mixed(images(op, "uint8", samples=4), LABELS, backend="cuda", device=emulated)
    assert emulated.launches == before + 1


@BOTH
def test_lists_of_arrays_and_of_sequences(mixed, op):
    x = images(op, "uint8", samples=4)
    wanted = mixed(op, x, LABELS, index=2)
    found = mixed(op, list(x), LABELS.tolist(), index=2)
    assert isinstance(found.data, list)
    compare(np.stack(found.data), wanted.data)
    compare(found.labels, wanted.labels)
    sequences = tuple(Sequence(one, source=str(n), frames=[n, n + 1, n + 2]) for n, one in enumerate(x))
    found = op(sequences, LABELS, index=2)
    assert isinstance(found.data, tuple)
    compare(np.stack([one.data for one in found.data]), wanted.data)
    assert [one.source for one in found.data] == ["0", "1", "2", "3"]
    assert found.data[1].frames.tolist() == [1, 2, 3]
    chw = [np.moveaxis(one, -1, 1) for one in x]
    compare(np.stack(op(chw, LABELS, layout="FCHW", index=2).data), np.moveaxis(wanted.data, -1, 2))


@BOTH
def test_batches_know_their_labels_and_indices(op):
    x = images(op, "uint8", samples=4)
    batch = Batch.of(
        [Sequence(one, source=str(n)) for n, one in enumerate(x)], labels=LABELS, indices=[7, 1, 2, 3]
    )
    found, labels = op(batch)
    wanted = op(x, LABELS, index=[7, 1, 2, 3])
    assert isinstance(found, Batch)
    compare(found.data, wanted.data)
    compare(labels, wanted.labels)
    assert found.labels.tolist() == LABELS.tolist()
    assert found.sources == batch.sources
    assert np.shares_memory(found.sequences[2].data, found.data)
    assert op(Batch.of(batch.sequences)).labels is None


def test_padding_is_known_after_mixing():
    x = images(Mixup, "uint8", samples=2, size=(20, 20))
    real = np.zeros((2, 3, 20, 20), bool)
    real[0, :, :, :9], real[1, :, :5] = True, True
    batch = Batch.of([Sequence(one) for one in x], mask=real)
    both = Mixup(num_classes=2)(batch).data.mask
    compare(both, np.stack([real[0] | real[1]] * 2))
    op = CutMix(seed=1)
    found = op(batch).data
    # the same box pasted into masks as into images
    compare(found.mask, op(real.astype(np.uint8)[..., None]).data[..., 0].astype(bool))


@BOTH
def test_torch_comes_back_as_torch(op, torch):
    x = images(op, "float32", samples=4)
    found = op(torch.from_numpy(x), torch.from_numpy(LABELS))
    assert isinstance(found.data, torch.Tensor)
    assert isinstance(found.labels, torch.Tensor)
    wanted = op(x, LABELS)
    compare(found.data.numpy(), wanted.data)
    compare(found.labels.numpy(), wanted.labels)


@BOTH
def test_labels_may_be_chances(op):
    x = images(op, "uint8", samples=4)
    for dtype in ("float16", "float32", "float64"):
        found = op(x, one_hot(LABELS).astype(dtype)).labels
        assert found.dtype == dtype
        np.testing.assert_allclose(found, op(x, LABELS).labels, atol=1e-3)
    again = type(op)(seed=op.seed, alpha=op.alpha)(x, one_hot(LABELS))
    compare(again.labels, op(x, LABELS).labels)
    assert op(x).labels is None


@BOTH
def test_the_function_is_the_operator(op):
    x = images(op, "uint8", samples=4)
    found = getattr(fn, op.name)(x, LABELS, alpha=op.alpha, num_classes=4, seed=op.seed, index=5)
    compare(found.data, op(x, LABELS, index=5).data)


@pytest.mark.skipif(bool(missing_nvrtc()), reason=missing_nvrtc())
@BOTH
def test_kernels_compile_without_spilling(op):
    for architecture, dtype, channels in (
        ("sm_75", "uint8", 3),
        ("sm_90", "float16", 0),
        ("sm_120", "uint8", 3),
    ):
        assert_compiles_well(source_of(type(op)), architecture, defines_of(op, dtype, dtype, channels))


# ------------------------------------------------------------------------------------------ refusals


@BOTH
def test_what_is_no_batch_is_refused(op):
    x = images(op, "uint8", samples=4)
    ragged = Batch.of([Sequence(x[0]), Sequence(x[1, :2])])
    for bad, options, said in (
        (x[0], {}, rf"{op.name}: one sample of shape \(3, 5, 7, 3\); allowed: a batch: layouts with N"),
        (
            [x[0], x[1, :2]],
            {},
            r"a list of uint8 \(2, 5, 7, 3\) on cpu, uint8 \(3, 5, 7, 3\) on cpu; allowed: one",
        ),
        ([], {}, "a list of nothing; allowed: one shape"),
        (ragged, {}, "different shapes; allowed: one shape for all samples"),
        (Batch.of([Sequence(x[0])]), {"layout": "NHWC"}, "a batch of layout NFHWC"),
        (x.astype(np.int64), {}, "values of type int64; allowed: uint8"),
        (x, {"index": [1, 2]}, r"index has the shape \(2,\)"),
        ("clip.mp4", {}, "an object of type str is not an array"),
    ):
        with pytest.raises(ParameterError, match=said):
            op(bad, **options)
    with pytest.raises(ParameterError, match=f"{op.name}: an operator on batches. Call it by itself"):
        apply(op, x)


@BOTH
def test_labels_that_do_not_fit_are_refused(op):
    x = images(op, "uint8", samples=4)
    free = type(op)()
    for chosen, labels, said in (
        (op, [0, 1, 2, 4], f"{op.name}: labels has 4; allowed: whole numbers from 0 to 3"),
        (op, [0, 1, 2, -1], "labels has -1; allowed: whole numbers from 0 to 3"),
        (op, [0, 1, 2], r"labels of int64 of shape \(3,\); allowed: whole numbers \(4,\) or floats \(4, 4\)"),
        (op, np.zeros((4, 5), np.float32), r"labels of float32 of shape \(4, 5\); allowed"),
        (op, np.zeros(4, np.float32), r"labels of float32 of shape \(4,\)"),
        (op, np.zeros((4, 4), int), r"labels of int64 of shape \(4, 4\)"),
        (
            op,
            [[0.5, 0.5], [1.0]] * 2,
            "labels that cannot be an array .*; allowed: equal shapes for all samples",
        ),
        (op, ["a", "b", "c", "d"], r"labels of <U1 of shape \(4,\)"),
        (free, [0, 1, 2, 3], "num_classes is not given"),
    ):
        with pytest.raises(ParameterError, match=said):
            chosen(x, labels)
