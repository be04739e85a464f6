"""Normalize over axes and over batches, against NumPy, torch and what DALI 2.4.0 gave on a CPU."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from seqpipe import Batch, Sequence, fn
from seqpipe.errors import ParameterError
from seqpipe.ops import Normalize, apply, per_frame
from seqpipe.ops.cuda.kernel import defines_of, source_of
from tests.support.nvrtc import assert_compiles_well, missing_nvrtc
from tests.support.operators import compare, images, printed

# two sequences FHWC, and what nvidia.dali.fn.normalize made of the first one, and of both as a batch
FIRST = np.array([217, 163, 130, 69, 78, 10, 19, 4, 44, 208, 166, 233, 128, 155, 248, 186], np.uint8)
FIRST = FIRST.reshape(2, 2, 2, 2)
SECOND = np.array([161, 139, 143, 239, 71, 208, 171, 0, 100, 219, 141, 8], np.uint8).reshape(2, 1, 3, 2)
ALONE = [
    (
        {},
        "1.11384177 0.433248192 0.0173299275 -0.751488686 -0.638056397 -1.49510014 -1.38166785 -1.57072163"
        " -1.06657827 1.00040948 0.471058935 1.31549907 -0.00787723996 0.332419515 1.50455284 0.723130643",
    ),
    (
        {"axis_names": "FHW"},
        "1.17404103 0.414125085 0.0166294761 -0.714215755 -0.675156772 -1.42242968 -1.46006811 -1.4944514"
        " -1.1274786 0.954288244 0.495558411 1.25437891 -0.00997768622 0.318096071 1.58645213 0.690208495",
    ),
    (
        {"axes": (1, 2)},
        "1.45774209 1.58919024 0.261293381 0.117427848 -0.453825355 -0.806337893 -1.26521003 -0.900280178"
        " -1.39708161 0.435656458 0.26578626 1.3069694 -0.252156198 -1.41152692 1.38345146 -0.331098914",
    ),
    ({"axis_names": "W"}, "1 1 -1 -1 1 1 -1 -1 -1 -1 1 1 -1 -1 1 1"),
    (
        {"axis_names": "FC", "ddof": 1, "epsilon": 4.0, "scale": 3.0, "shift": 1.0},
        "3.22329545 1.18841481 0.147203743 -2.52051806 0.305955231 -2.89370871 -1.3521173 -1.72252941"
        " -3.29585886 2.8841486 1.72159684 4.65171719 2.65864944 3.92910409 4.30284214 2.77180481",
    ),
]
TOGETHER = [
    (
        {},
        "1.12221611 0.420482874 -0.00835410878 -0.801052809 -0.68409723 -1.56776142 -1.45080578 -1.64573169"
        " -1.12592936 1.00526059 0.459468067 1.33013713 -0.0343442298 0.31652239 1.52506304 0.719369292"
        " 0.394492775 0.108601436 0.160581678 1.40810752 -0.77506268 1.00526059 0.524443388 -1.69771194"
        " -0.398205936 1.14820623 0.13459155 -1.59375155",
    ),
    (
        {"axis_names": "HW"},
        "1.64013135 0.5108729 0.213216975 -0.577005386 -0.639651418 -1.25982261 -1.60732901 -1.32926166"
        " -1.6759131 0.696982265 0.398332685 0.969850123 -0.24774386 0.118502483 1.79249787 0.456858575"
        " 0.721657753 0.233116716 0.42643407 1.39043403 -0.754460633 1.03166568 0.483342767 -1.57327807"
        " -0.723800242 0.817044139 -0.026717674 -1.48596036",
    ),
    (
        {"axis_names": "FHW", "ddof": 1, "epsilon": 2.0},
        "1.37171268 0.337438852 0.00337019889 -0.669521511 -0.814489722 -1.30154979 -1.74244618 -1.36582386"
        " -1.34924424 0.819494307 0.569580913 1.08730292 -0.0280859508 0.251740098 1.85928309 0.583822787"
        " 0.490940511 0.0803425834 0.207835168 1.151577 -0.924586236 0.819494307 0.648221254 -1.40867329"
        " -0.468472064 0.937330127 0.176379025 -1.32297456",
    ),
    (
        {"axes": (0, 1, 2), "mean": 100.0},
        "1.71779084 0.661065817 0.440459192 -0.325286359 -0.323003411 -0.944379747 -1.18923986 -1.0073384"
        " -0.822190523 1.13325572 0.969010234 1.39558339 0.411095262 0.57712096 2.17293215 0.902407289"
        " 0.895600379 0.409231216 0.631324887 1.45854199 -0.425777227 1.13325572 1.04242015 -1.0493108"
        " 0 1.24867988 0.601960897 -0.965365946",
    ),
    (
        {"axis_names": "FHW", "stddev": 50.0},
        "1.74428558 0.629999995 0.00428558327 -1.25 -1.03571439 -2.42999983 -2.21571445 -2.54999995"
        " -1.71571434 1.52999997 0.724285543 2.02999997 -0.035714414 0.469999999 2.36428547 1.09000003"
        " 0.624285579 0.149999991 0.264285564 2.14999986 -1.17571437 1.52999997 0.824285567 -2.62999988"
        " -0.59571439 1.75 0.224285573 -2.47000003",
    ),
]


def assert_close(found, wanted):
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.ravel(), wanted, rtol=2e-6, atol=2e-6)


def run(place, op, x, **options):
    """The result where a place has it: not all axes have kernels."""
    return place(op, x, **options) if place.takes(op) else op(x, **options)


@pytest.mark.parametrize(("arguments", "wanted"), ALONE, ids=lambda value: str(value)[:50])
def test_a_sequence_is_normalized_as_dali_does(anywhere, arguments, wanted):
    assert_close(run(anywhere, Normalize(**arguments), FIRST), printed(wanted))


@pytest.mark.parametrize(("arguments", "wanted"), TOGETHER, ids=lambda value: str(value)[:50])
def test_a_batch_is_normalized_as_dali_does(anywhere, arguments, wanted):
    op = Normalize(batch=True, **arguments)
    if anywhere.name == "emulated" and arguments.get("axis_names") == "HW":
        pytest.skip("what differs between frames has no kernel")
    found = anywhere(op, [FIRST, SECOND])
    assert_close(np.concatenate([result.ravel() for result in found]), printed(wanted))


@pytest.mark.parametrize("layout", ["HW", "HWC", "CHW", "FHWC", "FCHW", "DHWC", "NFHWC", "NFCHW"])
def test_all_subsets_of_axes_are_those_of_numpy(layout):
    x = images(Normalize, "float32", layout)
    letters = layout.replace("N", "")
    for count in range(1, len(letters) + 1):
        for names in itertools.combinations(letters, count):
            axes = tuple(layout.index(name) for name in names)
            y = x.astype(np.float64)
            wanted = (y - y.mean(axes, keepdims=True)) / y.std(axes, keepdims=True)
            assert_close(fn.normalize(x, layout=layout, axis_names="".join(names)), wanted.ravel())
            numbered = tuple(letters.index(name) for name in names)
            assert_close(fn.normalize(x, layout=layout, axes=numbered), wanted.ravel())
            assert_close(
                fn.normalize(x, layout=layout, axes=[n - len(letters) for n in numbered]), wanted.ravel()
            )
            if "N" in layout:
                y, axes = x.astype(np.float64), (0, *axes)
                wanted = (y - y.mean(axes, keepdims=True)) / y.std(axes, keepdims=True)
                assert_close(
                    fn.normalize(x, layout=layout, axis_names="".join(names), batch=True), wanted.ravel()
                )


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "float32"])
def test_torch_agrees_over_a_batch(anywhere, dtype, torch):
    x = images(Normalize, dtype, size=(20, 30), samples=3)
    planes = torch.from_numpy(x.astype(np.float64)).permute(0, 4, 1, 2, 3)
    wanted = torch.nn.functional.batch_norm(planes, None, None, training=True, eps=1e-3)
    found = anywhere(Normalize(axis_names="FHW", batch=True, epsilon=1e-3), x)
    assert_close(found, wanted.permute(0, 2, 3, 4, 1).numpy().ravel())


def test_a_batch_is_one_kernel(emulated):
    before = emulated.launches
    x = images(Normalize, "uint8")
    apply(Normalize(axis_names="FHW", batch=True), x, backend="cuda", device=emulated)
    assert emulated.launches == before + 1


@pytest.mark.parametrize(
    ("names", "dtype", "channels"),
    [
        ("HW", "uint8", 3),
        ("HWC", "float16", 4),
        ("FHW", "int16", 1),
        ("FHWC", "float32", 5),
    ],
)
def test_kernels_add_up_what_the_reference_does(emulated, names, dtype, channels):
    x = images(Normalize, dtype, size=(8, 33), samples=2)[..., :1]
    x = np.concatenate([x[..., ::-1, :] if n % 2 else x + x.dtype.type(n) for n in range(channels)], -1)
    x = np.ascontiguousarray(x)  # so that frames are whole words; those of the list below are not
    for arguments in (
        {},
        {"mean": 3.0, "ddof": 2, "epsilon": 0.3, "scale": (1.0, 2.0)},
        {"stddev": 7.0, "shift": per_frame([0.0, 1.0, 2.0])},
        {"p": 0.5, "per_frame": True, "seed": 2, "dtype": "float32"},
    ):
        op = Normalize(axis_names=names, **arguments)
        found = apply(op, x, backend="cuda", device=emulated)
        compare(found, apply(op, x, backend="reference"), (1, 1e-3))
    lists = [x[0], x[1][:2, 5:]]
    found = apply(op, lists, backend="cuda", device=emulated)
    for result, wanted in zip(found, apply(op, lists, backend="reference"), strict=True):
        compare(result, wanted, (1, 1e-3))


@pytest.mark.skipif(bool(missing_nvrtc()), reason=missing_nvrtc())
@pytest.mark.parametrize(
    ("architecture", "dtype", "channels"),
    [("sm_75", "uint8", 3), ("sm_90", "float32", 0), ("sm_120", "float16", 4)],
)
def test_its_kernels_compile(architecture, dtype, channels):
    computed = Normalize(axis_names="HW").for_inputs([])
    defines = defines_of(computed, dtype, "float32", channels)
    assert_compiles_well(source_of(type(computed)), architecture, defines)


def test_sequences_keep_what_they_know():
    parts = [Sequence(FIRST, frames=[3, 4]), Sequence(SECOND, frames=[8, 9])]
    for value in (Batch.of(parts), list(parts)):
        found = fn.normalize(value, batch=True)
        assert [result.frames.tolist() for result in found] == [[3, 4], [8, 9]]
        assert_close(np.concatenate([result.data.ravel() for result in found]), printed(TOGETHER[0][1]))
    stacked = Batch.of([Sequence(FIRST), Sequence(FIRST[::-1])])
    assert_close(fn.normalize(stacked, batch=True).numpy()[0], printed(ALONE[0][1]))
    alone = fn.normalize(parts[0], axis_names="FHW")
    assert alone.frames.tolist() == [3, 4]
    assert_close(alone.data, printed(ALONE[1][1]))


def test_scales_shifts_and_whether_it_acts_may_differ_between_frames():
    plain = fn.normalize(FIRST, axis_names="FHW")
    found = fn.normalize(FIRST, axis_names="FHW", scale=per_frame([2.0, 3.0]), shift=per_frame([1.0, 0.0]))
    assert_close(found, (plain * [[[[2]]], [[[3]]]] + [[[[1]]], [[[0]]]]).ravel())
    many = np.concatenate([FIRST] * 20)
    drawn = fn.normalize(many, axis_names="FHW", p=0.5, per_frame=True, seed=1)
    which = (drawn != many).any(axis=(1, 2, 3))
    assert 8 < which.sum() < 32
    sure = fn.normalize(many, axis_names="FHW")
    compare(drawn[which], sure[which])
    wanted = printed(TOGETHER[0][1])[16:]
    left = []
    for seed in range(8):
        found = fn.normalize([FIRST, SECOND], batch=True, p=0.5, seed=seed)[1]
        left.append(bool((found == SECOND).all()))
        assert_close(found, SECOND.ravel() if left[-1] else wanted)
    assert 0 < sum(left) < 8


def test_what_is_all_the_same_becomes_the_shift(anywhere):
    op = Normalize(axis_names="FHW", shift=0.25, batch=True)
    compare(anywhere(op, np.full((2, 3, 4, 4, 3), 77, np.uint8)), np.full((2, 3, 4, 4, 3), 0.25, np.float32))


def test_a_batch_with_more_channels_than_a_row_has_room_for():
    x = images(Normalize, "float32", "NHWC", size=(9, 8))
    x = np.concatenate([x * n for n in range(1, 8)], axis=-1)
    wanted = (x - x.mean((0, 1, 2), np.float64)) / x.std((0, 1, 2), np.float64)
    assert_close(fn.normalize(x, layout="NHWC", axis_names="HW", batch=True), wanted.ravel())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: fn.normalize(FIRST, axes=(4,)),
            "normalize: axes has 4, of 4 axes; allowed: -4 to 3",
        ),
        (
            lambda: fn.normalize(FIRST, axes=(1, -3)),
            r"normalize: axes=\(1, -3\) has an axis twice; allowed: each once",
        ),
        (
            lambda: fn.normalize(FIRST[0], axis_names="FHW"),
            "normalize: images of layout HWC, which has no frames; allowed: layouts with F",
        ),
        (
            lambda: fn.normalize([FIRST, SECOND], axis_names="W", batch=True),
            r"normalize: samples of different shapes, \[\(2, 1, 2\), \(2, 2, 2\)\], along the axes without statistics",
        ),
        (
            lambda: fn.normalize(FIRST, axis_names=""),
            "normalize: axis_names='' is not valid; allowed: letters of",
        ),
        (
            lambda: fn.normalize(np.zeros((4, 4, 3), np.uint8), mean=5, stddev=(1, 2)),
            "normalize: stddev has 2 values, for pixels of 3; allowed: 1 value, or 3",
        ),
    ],
)
def test_what_has_no_statistics_is_refused(call, said):
    with pytest.raises(ParameterError, match=said):
        call()
