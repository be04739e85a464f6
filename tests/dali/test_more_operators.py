"""DALI's operators that few programs use: what they give is what NumPy, SciPy or our readers give."""

from __future__ import annotations

import operator
import sys
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from scipy import stats

from seqpipe.dali import fn, types
from seqpipe.errors import BackendError, ParameterError, SourceError, UnreadableSourceError
from seqpipe.video.reader import VideoReader
from tests.dali.conftest import array, one, run
from tests.support.datasets import files

SIGNS = ["+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^", "<<", ">>"]
PYTHON = dict(
    zip(
        SIGNS,
        [
            *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod),
            *(operator.pow, operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
            *(operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
        ],
        strict=True,
    )
)


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("kind", ["int32", "float32"])
def test_each_operator_of_python_on_either_side(sign, kind):
    if kind == "float32" and sign in ("//", "&", "|", "^", "<<", ">>"):
        return  # DALI's // of floats is /
    act, left, right = PYTHON[sign], np.array([5, 2, 3], kind), np.array([2, 3, 3], kind)

    def results():
        a, b = array(left, kind), array(right, kind)
        found = [act(a, b), act(a, 3)]
        return (*found, act(3, b)) if sign not in ("<<", ">>") else tuple(found)

    for values, wanted in zip(one(results), (act(left, right), act(left, 3), act(3, right)), strict=False):
        np.testing.assert_allclose(values[1], wanted, rtol=1e-6)


@pytest.mark.parametrize("whole", [True, False])
def test_functions_of_capsules(whole):
    """A function is given capsules, of a batch or of each sample, and gives capsules back."""
    given = []

    def swap(first, second):
        given.append(type(first).__name__ if not whole else [type(part).__name__ for part in first])
        return second, first

    def results():
        pair = array([1, 2], np.int32), array([3.5], np.float32)
        return fn.dl_tensor_python_function(*pair, function=swap, num_outputs=2, batch_processing=whole)

    assert one(results) == [("FLOAT", [3.5], ""), ("INT32", [1, 2], "")]
    assert given[0] == (["PyCapsule"] if whole else "PyCapsule")
    with pytest.raises(ParameterError, match="function=3 is not valid; allowed: a callable"):
        one(lambda: fn.dl_tensor_python_function(array([1], np.int32), function=3))


def test_beta_numbers_are_those_of_their_distribution():
    def results():
        return (
            fn.random.beta(alpha=2.0, beta=5.0, shape=[500], seed=3),
            fn.random.beta(alpha=array(0.5, np.float32), beta=array(0.5, np.float32), dtype=types.FLOAT64),
            fn.random.beta(array(np.zeros((2, 3)), np.uint8, "HW"), alpha=4.0),
            fn.random.beta(),
        )

    (first, half, like, plain), *_ = found = run(results, count=4)
    assert first.at(0).dtype == np.float32
    drawn = np.concatenate([batch[0].at(0) for batch in found])
    assert len(np.unique(drawn)) > 1990, "each batch has its own"
    assert stats.kstest(drawn, stats.beta(2, 5).cdf).pvalue > 1e-3
    assert (half.at(0).dtype, half.at(0).shape) == (np.float64, ())
    assert (like.at(0).shape, like.layout()) == ((2, 3), "HW")
    assert 0 < float(plain.at(0)) < 1
    again = run(lambda: fn.random.beta(alpha=2.0, beta=5.0, shape=[500], seed=3), batch_size=2, count=2)
    assert np.array_equal(np.concatenate([b[0].at(n) for b in again for n in range(2)]), drawn)


def test_windows_of_random_area_and_aspect_ratio_fit_into_their_images():
    size = np.array([120, 80])
    found = run(
        lambda: fn.random_crop_generator(
            array(size, np.int64), random_area=(0.1, 0.4), random_aspect_ratio=(0.5, 2.0), seed=7
        ),
        count=200,
    )
    starts, shapes = (np.stack([batch[n].at(0) for batch in found]) for n in range(2))
    assert starts.dtype == shapes.dtype == np.int32
    assert (starts >= 0).all()
    assert (starts + shapes <= size).all()
    assert ((starts == 0).any(axis=0) | (starts + shapes == size).any(axis=0)).any()
    area, ratio = shapes.prod(axis=1) / size.prod(), shapes[:, 1] / shapes[:, 0]
    assert (area.min() >= 0.095, area.max() <= 0.405) == (True, True)
    assert np.ptp(area) > 0.25
    assert (ratio.min() >= 0.48, ratio.max() <= 2.1, ratio.min() < 0.6, ratio.max() > 1.7) == (True,) * 4
    # no window of this shape fits: the largest of an allowed one, in the middle
    ((start, shape),) = run(
        lambda: fn.random_crop_generator(
            array(size, np.int64), random_area=(1.0, 1.0), random_aspect_ratio=(2.0, 4.0)
        )
    )
    assert (shape.at(0).tolist(), start.at(0).tolist()) == ([40, 80], [40, 0])


@pytest.mark.parametrize("end", ["roi_end", "roi_shape"])
@pytest.mark.parametrize(("crop", "inside"), [((6, 2), False), ((6, 9), True), ((3, 4), False)])
def test_windows_around_a_region_and_within_it(end, crop, inside):
    """Along each axis the window holds the region, or lies within it; with a bound also within the sample."""
    low, high, bound = np.array([4, 2]), np.array([8, 10]), np.array([10, 11])
    options = {end: (high if end == "roi_end" else high - low).tolist(), "roi_start": low.tolist()}
    options |= {"in_shape": bound.tolist()} if inside else {}
    found = run(lambda: fn.roi_random_crop(crop_shape=list(crop), seed=5, **options), count=200)
    starts = np.stack([batch[0].at(0) for batch in found])
    for axis in range(2):
        ends = sorted((low[axis], high[axis] - crop[axis]))
        if inside:
            ends = [max(0, ends[0]), min(ends[1], bound[axis] - crop[axis])]
        assert set(starts[:, axis].tolist()) == set(range(ends[0], ends[1] + 1))
    if inside:  # the sample itself is a bound as well
        del options["in_shape"]
        again = run(
            lambda: fn.roi_random_crop(
                array(np.zeros(bound), np.uint8), crop_shape=list(crop), seed=5, **options
            ),
            count=200,
        )
        assert np.array_equal(np.stack([batch[0].at(0) for batch in again]), starts)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"roi_start": [1], "roi_end": [2]}, "crop_shape or roi_start is missing"),
        (
            {"crop_shape": [1], "roi_start": [1]},
            "the end of the region is not clear; allowed: roi_end or roi_shape",
        ),
        (
            {"crop_shape": [1], "roi_start": [1], "roi_end": [2], "roi_shape": [1]},
            "the end of the region is not clear",
        ),
    ],
)
def test_regions_that_are_refused(options, said):
    with pytest.raises(ParameterError, match=said):
        one(lambda: fn.roi_random_crop(**options))


def _video(**options):
    (path,) = files("h264")
    data = np.fromfile(path, np.uint8)
    ((output,),) = run(lambda: fn.decoders.video(fn.external_source(lambda: [data]), **options))
    return output.at(0)


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ({}, lambda n: range(n)),
        ({"start_frame": 5, "end_frame": 9}, lambda _: range(5, 9)),
        ({"start_frame": 5, "sequence_length": 4, "stride": 3}, lambda _: range(5, 17, 3)),
        ({"start_frame": 7, "stride": 9}, lambda n: range(7, n, 9)),
        ({"frames": [9, 2, -1, 2]}, lambda n: [9, 2, n - 1, 2]),
        ({"start_frame": -4 + 1000, "sequence_length": 1}, None),
        ({"frames": [0, 1000], "pad_mode": "none"}, None),
    ],
)
def test_frames_of_videos_in_memory(options, numbers):
    (path,) = files("h264")
    if numbers is None:
        with pytest.raises(UnreadableSourceError, match="allowed: numbers of frames within the video"):
            _video(**options)
        return
    with VideoReader(path) as video:
        judge = video.frames(list(numbers(len(video)))).numpy()
    assert np.array_equal(_video(**options), judge)


@pytest.mark.parametrize("mode", ["none", "constant", "edge", "repeat", "reflect_101", "reflect_1001"])
def test_frames_past_the_end_are_padded(mode):
    (path,) = files("h264")
    with VideoReader(path) as video:
        count, last = len(video), video.frames(range(len(video) - 8, len(video))).numpy()
    found = _video(start_frame=count - 3, sequence_length=7, pad_mode=mode, fill_value=[9])
    inside = last[-3:]
    added = {
        "none": inside[:0],
        "constant": np.full_like(last[:4], 9),
        "edge": last[[-1] * 4],
        "repeat": last[[-1] * 4],
        "reflect_101": last[-5:-1][::-1],
        "reflect_1001": last[-4:][::-1],
    }[mode]
    assert np.array_equal(found, np.concatenate([inside, added]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"end_frame": 3, "sequence_length": 3}, "end_frame and sequence_length are given"),
        ({"frames": [1], "stride": 3}, "frames is given, and a range of frames"),
        ({"pad_mode": "wrap"}, "pad_mode='wrap'"),
    ],
)
def test_frames_that_contradict_one_another_are_refused(options, said):
    with pytest.raises(ParameterError, match=said):
        _video(**options)


def test_files_are_read_by_their_paths(numbered):
    def results(paths):
        data = [np.frombuffer(path.encode(), np.uint8) for path in paths]
        return lambda: fn.io.file.read(fn.external_source(lambda: data))

    ((output,),) = run(results(numbered[3:5]), batch_size=2)
    assert [output.at(n).tolist() for n in range(2)] == [[3], [4]]
    with pytest.raises(SourceError, match=r"none\.bin: cannot be read: No such file"):
        run(results([f"{numbered[0]}none.bin"]))


@pytest.mark.parametrize(("length", "stride", "step"), [(2, 1, 2), (2, 2, 1), (3, 2, 2)])
def test_sequences_of_the_images_of_a_folder(tmp_path, length, stride, step):
    clip = np.random.default_rng(0).integers(0, 256, (7, 6, 8, 3), np.uint8)
    (tmp_path / "clip").mkdir()
    for number, image in enumerate(clip):
        cv2.imwrite(str(tmp_path / "clip" / f"{number}.png"), image[..., ::-1])
    starts = range(0, 7 - (length - 1) * stride, step)
    ((found,),) = run(
        lambda: fn.readers.sequence(
            file_root=str(tmp_path), sequence_length=length, stride=stride, step=step
        ),
        batch_size=len(starts),
    )
    assert found.layout() == "FHWC"
    for number, start in enumerate(starts):
        assert np.array_equal(found.at(number), clip[start : start + length * stride : stride])
    none = str(tmp_path / "none")
    with pytest.raises(SourceError, match="none: there is no such folder"):
        one(lambda: fn.readers.sequence(file_root=none, sequence_length=2))
    with pytest.raises(SourceError, match="none: there is no such folder"):
        one(lambda: fn.readers.file(file_root=none)[0])
    for options in ({"file_root": none}, {"sequence_length": 2}):
        with pytest.raises(ParameterError, match="file_root or sequence_length is missing"):
            one(lambda options=options: fn.readers.sequence(**options))


@pytest.mark.parametrize(
    ("options", "cut"),
    [
        ({"roi_start": [1, 0], "roi_shape": [2, 3]}, lambda x: x[1:3, :3]),
        ({"roi_axes": [1], "roi_start": [2], "roi_end": [4]}, lambda x: x[:, 2:4]),
        (
            {
                "roi_axes": [0],
                "roi_start": [2],
                "roi_end": [6],
                "out_of_bounds_policy": "pad",
                "fill_value": 7,
            },
            lambda x: np.pad(x[2:], [(0, 2), (0, 0)], constant_values=7),
        ),
    ],
)
def test_regions_of_arrays_are_read(tmp_path, options, cut):
    array = np.arange(20, dtype=np.int16).reshape(4, 5)
    np.save(tmp_path / "a.npy", array)
    ((_, values, _),) = one(lambda: fn.readers.numpy(files=[str(tmp_path / "a.npy")], **options))
    assert np.array_equal(values, cut(array))


@pytest.mark.parametrize("whole", [False, True])
def test_functions_that_numba_compiles(monkeypatch, whole):
    """They write into their first arguments, whose shapes another function sets; here they are not compiled."""
    compiled = []
    numba = SimpleNamespace(njit=lambda function: compiled.append(function) or function)
    monkeypatch.setitem(sys.modules, "numba", numba)

    def shapes(made, given):
        for target, shape in zip(made[0], given[0], strict=True):
            target[:] = shape[::-1]

    def turn(out, given):
        for target, part in zip(out, given, strict=True) if whole else [(out, given)]:
            target[:] = part.T * 2

    options = {
        "run_fn": turn,
        "setup_fn": shapes,
        "batch_processing": whole,
        "outs_ndim": [2],
        "ins_ndim": [2],
    }
    kinds = {"in_types": [types.UINT8], "out_types": [types.FLOAT]}
    given = np.arange(6, dtype=np.uint8).reshape(2, 3)

    def called(**changed):
        x = array(given, np.uint8)
        return one(lambda: fn.experimental.numba_function(x, **{**options, **kinds, **changed}))

    assert called() == [("FLOAT", (given.T * 2).tolist(), "")]
    assert called(setup_fn=None, run_fn=lambda *_: None)[0][0] == "FLOAT"
    assert compiled[0] is turn
    for changed, said in (
        ({"ins_ndim": [2, 2]}, "in_types has 1 elements, and ins_ndim 2; allowed: as many"),
        (
            {"in_types": [types.FLOAT]},
            r"input 0 has uint8 samples of 2 axes; allowed: float32 of 2 \(in_types",
        ),
        ({"device": "gpu"}, "device='gpu' is not available"),
    ):
        with pytest.raises(ParameterError, match=said):
            called(**changed)
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(BackendError, match="Numba is not installed"):
        called()
