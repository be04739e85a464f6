"""Policies against Pillow, the tables of torchvision, and what their papers say of draws."""

from __future__ import annotations

import collections
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest
from PIL import Image, ImageChops, ImageEnhance, ImageOps

from seqpipe import Batch, Sequence, fn
from seqpipe.errors import ParameterError
from seqpipe.ops import AutoAugment, Chain, Normal, RandAugment, TrivialAugmentWide, apply
from seqpipe.ops.core import blocks
from seqpipe.ops.core.blocks import resolve, values_of_each
from seqpipe.ops.core.spec import Spec
from seqpipe.ops.cuda.kernel import defines_of, source_of
from seqpipe.ops.policies.published import FOUND, NARROW, MeanContrast, Sharpness
from seqpipe.random import stream
from tests.support.nvrtc import assert_compiles_well, missing_nvrtc
from tests.support.operators import compare, images
from tests.support.together import together

STEPS = tuple(NARROW)
GEOMETRY = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")
LIKE_TORCHVISION = {"interp_type": "nearest", "fill_value": 0}


def only(*names):
    """The arguments that leave nothing but some steps."""
    return {"excluded": tuple(name for name in STEPS if name not in names)}


def photo(height=60, width=80, seed=0):
    """Smooth shades with a little noise, in colors that differ."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / (9 + 4 * c)) + np.cos(y / (7 + 3 * c) + seed) for c in range(3)]
    return (
        (120 + 40 * np.stack(waves, -1) + rng.normal(0, 3, (height, width, 3))).clip(0, 255).astype(np.uint8)
    )


def by_pillow(image, name, magnitude):
    """A step as AutoAugment's own program and torchvision have it, by Pillow."""
    image = Image.fromarray(image)

    def affine(*matrix):
        return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST)

    done = {
        "identity": lambda: image,
        "shear_x": lambda: affine(1, magnitude, 0, 0, 1, 0),
        "shear_y": lambda: affine(1, 0, 0, magnitude, 1, 0),
        "translate_x": lambda: affine(1, 0, -int(magnitude * image.width), 0, 1, 0),
        "translate_y": lambda: affine(1, 0, 0, 0, 1, -int(magnitude * image.height)),
        "rotate": lambda: image.rotate(magnitude, Image.Resampling.NEAREST),
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(1 + magnitude),
        "color": lambda: ImageEnhance.Color(image).enhance(1 + magnitude),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(1 + magnitude),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(1 + magnitude),
        "posterize": lambda: ImageOps.posterize(image, round(magnitude)),
        "solarize": lambda: ImageOps.solarize(image, magnitude * 255),
        "auto_contrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "invert": lambda: ImageChops.invert(image),
    }[name]()
    return np.asarray(done)


# ------------------------------------------------------------------------------------------ what steps mean

# how far from Pillow: in how many levels, in which share of the values; a level, because Pillow cuts off
APART = dict.fromkeys(("brightness", "contrast", "sharpness", "auto_contrast"), (1, 1.0))
APART |= {
    "color": (2, 1.0),
    "equalize": (12, 1.0),
    **dict.fromkeys(("shear_x", "shear_y", "rotate"), (255, 0.002)),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_pillows(anywhere, name):
    op = RandAugment(n=1, m=23, seed=1, **only(name), **LIKE_TORCHVISION)
    x = np.stack([[photo(seed=n), photo(seed=n + 9)] for n in range(4)])
    found, drawn = anywhere(op, x), op.drawn(index=range(4))
    assert len({step for (step,) in drawn}) == 1 + NARROW[name].signed
    for sample, given, ((step, magnitude),) in zip(found, x, drawn, strict=True):
        assert step == name
        assert abs(magnitude) == pytest.approx(
            NARROW[name].first + (NARROW[name].last - NARROW[name].first) * 23 / 30
        )
        wanted = np.stack([by_pillow(frame, name, magnitude) for frame in given])
        compare(sample, wanted, APART.get(name, (0, 0)))
        if name != "identity":
            assert (sample != given).mean() > 0.3


def test_equalize_is_opencvs(anywhere):
    found = anywhere(RandAugment(n=1, m=0, **only("equalize")), photo())
    wanted = [cv2.equalizeHist(np.ascontiguousarray(plane)) for plane in np.moveaxis(photo(), -1, 0)]
    compare(found, np.stack(wanted, -1))


@pytest.mark.parametrize("seed", range(3))
def test_a_policy_is_pillows_steps_one_after_the_other(anywhere, seed):
    op = RandAugment(
        n=4, m=11, seed=seed, **only(*GEOMETRY, "brightness", "color", "contrast"), **LIKE_TORCHVISION
    )
    x = np.stack([photo(seed=n) for n in range(6)])
    found = anywhere(op, x, layout="NHWC", index=30, epoch=2)
    for result, given, drawn in zip(found, x, op.drawn(index=range(30, 36), epoch=2), strict=True):
        assert len(drawn) == 4
        wanted = given
        for step, magnitude in drawn:
            wanted = by_pillow(wanted, step, magnitude)
        apart = np.abs(result.astype(int) - wanted)
        assert (apart > 4).mean() < 0.02


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize(("m", "relative"), [(11, None), (30, 0.3)])
def test_a_step_that_was_kept_serves_no_other_image(name, m, relative):
    """Neither one of another size nor one of another type, nor one whose sign was another."""
    options = {**only(name), "n": 1, "m": m, "max_translate_rel": relative, "seed": 4}
    kept = RandAugment(**options)
    gray = photo()[..., :1]
    for index in range(4):
        for x in (photo(), photo(40, 80), photo(60, 50), photo().astype(np.uint16) * 257, gray):
            compare(kept(x, index=index), RandAugment(**options)(x, index=index))


def test_geometry_is_black_gray_or_repeated_outside():
    x = np.full((40, 40, 3), 200, np.uint8)
    op = {"n": 1, "m": 30, **only("translate_x")}
    assert np.unique(RandAugment(**op)(x)).tolist() == [128, 200]
    assert np.unique(RandAugment(**op, fill_value=0)(x)).tolist() == [0, 200]
    assert np.unique(RandAugment(**op, fill_value=None)(x)).tolist() == [200]


def test_gray_images_have_no_color_to_change(anywhere):
    x = photo()[..., :1]
    compare(anywhere(RandAugment(n=1, m=30, **only("color")), x), x)
    gray = anywhere(RandAugment(n=1, m=30, **only("contrast")), x)
    ((_, magnitude),) = RandAugment(n=1, m=30, **only("contrast")).drawn()
    wanted = ImageEnhance.Contrast(Image.fromarray(x[..., 0])).enhance(1 + magnitude)
    compare(gray[..., 0], np.asarray(wanted), (1, 1))


# ------------------------------------------------------------------------------------------ what was published


def test_ranges_are_torchvisions():
    """As torchvision.transforms.v2 writes them."""
    for op, reach, degrees, factor, bits in (
        (RandAugment(), 0.3, 30.0, 0.9, 4),
        (AutoAugment(), 0.3, 30.0, 0.9, 4),
        (TrivialAugmentWide(), 0.99, 135.0, 0.99, 6),
    ):
        bins = op.count
        shift = 32.0 if isinstance(op, TrivialAugmentWide) else 150 / 331
        steps = np.arange(bins) / ((bins - 1) / bits)
        wanted = {
            **dict.fromkeys(("shear_x", "shear_y"), np.linspace(0.0, reach, bins)),
            **dict.fromkeys(("translate_x", "translate_y"), np.linspace(0.0, shift, bins)),
            "rotate": np.linspace(0.0, degrees, bins),
            **dict.fromkeys(("brightness", "color", "contrast", "sharpness"), np.linspace(0.0, factor, bins)),
            "posterize": (8 - steps).round(),
            "solarize": np.linspace(1.0, 0.0, bins),
            **dict.fromkeys(("identity", "auto_contrast", "equalize", "invert"), np.zeros(bins)),
        }
        for name, magnitudes in zip(op.names, op.magnitudes, strict=True):
            found = np.rint(magnitudes) if name == "posterize" else magnitudes
            np.testing.assert_allclose(found, wanted[name], atol=1e-6, err_msg=name)
    assert len(RandAugment().names) == len(TrivialAugmentWide().names) == 14


def test_translations_may_reach_elsewhere():
    x = np.zeros((1, 50, 90, 3), np.uint8)
    for op, pixels in (
        (RandAugment(n=1, m=30, **only("translate_x")), int(150 / 331 * 90)),
        (RandAugment(n=1, m=30, max_translate_rel=0.2, **only("translate_y")), 10),
        (RandAugment(n=1, m=30, max_translate_abs=7, **only("translate_x")), 7),
        (TrivialAugmentWide(max_translate_rel=0.5, num_magnitude_bins=2, **only("translate_x")), 45),
    ):
        index = next(n for n in range(9) if op.drawn(index=n)[0].magnitude)
        rows = op(x, index=index)
        assert (rows == 128).sum() == pixels * 3 * (90 if "translate_y" in op.names else 50)


@pytest.mark.parametrize(
    ("policy", "first", "last"),
    [
        ("imagenet", {"posterize": 40 / 9, "rotate": 30.0}, {"equalize": 0.0}),
        (
            "cifar10",
            {"rotate": 60 / 9, "translate_x": 150 / 331},
            {"translate_y": 150 / 331, "auto_contrast": 0.0},
        ),
        ("svhn", {"shear_x": 0.4 / 3, "invert": 0.0}, {"shear_x": 0.2 / 3, "invert": 0.0}),
    ],
)
def test_auto_augment_draws_the_pairs_that_were_found(policy, first, last):
    """Two of each of tables 7 to 9 of the paper's appendix; in bins from 0 to 9."""
    pairs = FOUND[policy]
    assert len(pairs) == 25
    assert all(0 <= p <= 1 and 0 <= place < 10 for pair in pairs for _, p, place in pair)
    drawn = AutoAugment(policy=policy).drawn(index=range(1500))
    found = [{name: abs(magnitude) for name, magnitude in steps} for steps in drawn]
    assert pytest.approx(first, rel=1e-6) in [result for result in found if result.keys() == first.keys()]
    assert pytest.approx(last, rel=1e-6) in [result for result in found if result.keys() == last.keys()]
    names = [[name for name, _, _ in pair] for pair in pairs]
    assert all([step.name for step in steps] in names for steps in drawn if len(steps) == 2)


# ------------------------------------------------------------------------------------------ draws


def test_rand_augment_draws_all_steps_alike_and_half_of_the_signs():
    drawn = RandAugment(n=3, m=10).drawn(index=range(4200))
    for place in range(3):
        counts = collections.Counter(steps[place].name for steps in drawn)
        assert set(counts) == set(STEPS)
        assert all(240 < count < 365 for count in counts.values())
    shears = [step.magnitude for steps in drawn for step in steps if step.name == "shear_x"]
    assert set(np.round(np.abs(shears), 6)) == {0.1}
    assert 0.44 < np.mean(np.array(shears) > 0) < 0.56
    assert all(step.magnitude >= 0 for steps in drawn for step in steps if not NARROW[step.name].signed)


def test_trivial_augment_draws_all_bins_alike():
    drawn = TrivialAugmentWide(**only("solarize"), num_magnitude_bins=5).drawn(index=range(2000))
    counts = collections.Counter(round(step.magnitude, 5) for (step,) in drawn)
    assert set(counts) == {0, 0.25, 0.5, 0.75, 1}
    assert all(330 < count < 470 for count in counts.values())


def test_auto_augment_acts_with_the_probabilities_found():
    """For ImageNet, the mean of those of invert, and of shears, over 25 pairs."""
    drawn = AutoAugment().drawn(index=range(5000))
    share = {
        name: np.mean([name in dict(found) for found in drawn]) for name in ("invert", "shear_x", "contrast")
    }
    assert share["invert"] == pytest.approx(3 * 0.6 / 25, abs=0.01)
    assert share["shear_x"] == pytest.approx(0.6 / 25, abs=0.007)
    assert share["contrast"] == pytest.approx(2 / 25, abs=0.012)


def by_numpy(op, epoch, index):
    """What an operator draws, by NumPy's generator: numbers of steps, and magnitudes with their signs."""
    rng = stream(op.seed, op.name, epoch, index)
    if isinstance(op, RandAugment):
        numbers, signs = rng.random((2, 16))[:, : op.n]
        steps, bins, signs = np.floor(numbers * len(op.names)), [op.m] * op.n, np.where(signs < 0.5, -1, 1)
    elif isinstance(op, TrivialAugmentWide):
        steps, bins = [rng.integers(len(op.names))], [rng.integers(op.num_magnitude_bins)]
        signs = [1 - 2 * rng.integers(2)]
    else:
        pair = FOUND[op.policy][rng.integers(25)]
        act = rng.random(2) < [probability for _, probability, _ in pair]
        steps = [op.names.index(name) if one else -1 for (name, _, _), one in zip(pair, act, strict=True)]
        bins, signs = [place for _, _, place in pair], 1 - 2 * rng.integers(2, size=2)
    if op.p < 1 and rng.random() >= op.p:
        return
    for step, place, sign in zip(map(int, steps), bins, signs, strict=True):
        if step >= 0:
            magnitude = float(np.float32(op.magnitudes[step, place]))
            yield op.names[step], magnitude * sign if op.ranges[op.names[step]].signed else magnitude


DRAWING = [
    RandAugment(seed=1),
    RandAugment(n=16, m=30, seed=-5),
    RandAugment(n=3, m=4, p=0.6, excluded=("rotate",), seed=2**70),
    TrivialAugmentWide(seed=3),
    TrivialAugmentWide(num_magnitude_bins=7, p=0.5, **only("shear_x", "rotate", "identity")),
    TrivialAugmentWide(num_magnitude_bins=5, **only("solarize")),
    AutoAugment(),
    AutoAugment(policy="svhn", p=0.7, seed=9),
]


@pytest.mark.parametrize("op", DRAWING, ids=repr)
def test_draws_are_those_of_numpys_generator(op):
    """Of one sample, of several, and of those that are not alike; what was drawn before changes nothing."""
    for epoch in (0, 2**64 - 1):
        wanted = [tuple(by_numpy(op, epoch, index)) for index in range(40)]
        assert [op.drawn(epoch=epoch, index=index) for index in range(40)] == wanted
        assert op.drawn(epoch=epoch, index=range(40)) == wanted
        assert op.drawn(epoch=epoch, index=[7, 7, 7]) == [wanted[7]] * 3
        specs = [Spec(1 + n % 2, 4, 4, 3, "uint8") for n in range(40)]
        rows = resolve(op, specs, epoch, range(40)).rows
        assert [tuple(op._chosen(p)) for p in values_of_each(rows)] == wanted


def test_a_class_that_draws_otherwise_draws_so():
    class Upwards(RandAugment, register=False, function_name="rand_augment"):
        def sample(self, rng, spec):
            return {**super().sample(rng, spec), "signs": 1}

    drawn = RandAugment(n=3, seed=1).drawn(index=range(60))
    wanted = [tuple((name, abs(magnitude)) for name, magnitude in steps) for steps in drawn]
    assert wanted != drawn
    own = Upwards(n=3, seed=1)
    assert own.drawn(index=range(60)) == wanted
    assert [own.drawn(index=index) for index in range(60)] == wanted


def test_what_came_of_draws_is_kept_for_some_only(monkeypatch):
    op = TrivialAugmentWide(seed=4)
    wanted = op.drawn(index=range(300))
    monkeypatch.setattr(blocks, "_OUTCOMES", 16)
    again = TrivialAugmentWide(seed=4)
    assert [again.drawn(index=index) for index in range(300)] == wanted
    assert len(op.__dict__["_outcomes"]) > 16 >= len(again.__dict__["_outcomes"])


def test_what_was_kept_is_as_large_as_the_sample():
    op = RandAugment(seed=1)
    for spec in (Spec(1, 20, 30, 3, "uint8"), Spec(2, 9, 8, 3, "uint8")):
        assert resolve(op, [spec], 0, [3]).extents(op, range(1), spec) == {spec[:3]}


@pytest.mark.parametrize("op", [RandAugment(n=3, seed=2, p=0.8), AutoAugment(policy="cifar10")], ids=repr)
def test_threads_share_a_policy(op):
    x = [photo(20 + n % 3, 30, seed=n) for n in range(120)]
    wanted = [type(op)(**op.settings())(one, index=n) for n, one in enumerate(x)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: op(x[n], index=n), range(len(x))))
    for result, other in zip(found, wanted, strict=True):
        compare(result, other)


def test_more_steps_and_other_magnitudes_leave_the_draws_as_they_were():
    few, many = (RandAugment(n=n, m=9, seed=5).drawn(index=range(20)) for n in (2, 5))
    assert [steps[:2] for steps in many] == few
    other = RandAugment(n=2, m=(0, 30), seed=5).drawn(index=range(20))
    assert [[step.name for step in steps] for steps in other] == [
        [step.name for step in steps] for steps in few
    ]


def test_magnitudes_may_be_drawn_or_given_for_each_sample():
    drawn = RandAugment(n=1, m=(10, 20), **only("rotate")).drawn(index=range(300))
    assert {round(abs(step.magnitude)) for (step,) in drawn} == set(range(10, 21))
    drawn = RandAugment(n=1, m=Normal(30, 8), **only("rotate")).drawn(index=range(50))
    assert max(abs(step.magnitude) for (step,) in drawn) == 30
    x = np.zeros((2, 1, 9, 30, 3), np.uint8)
    found = RandAugment(n=1, m=[10, 30], max_translate_abs=30, **only("translate_x"))(x)
    assert [(result == 128).sum() // 27 for result in found] == [10, 30]
    with pytest.raises(ParameterError, match="m=31 is not valid; allowed: a whole number from 0 to 30"):
        RandAugment(m=[10, 31])


def test_what_does_not_act_draws_nothing():
    assert RandAugment(p=0.0).drawn(index=[3, 4]) == [(), ()]
    assert 0.6 < np.mean([bool(steps) for steps in RandAugment(p=0.7).drawn(index=range(400))]) < 0.8


# ------------------------------------------------------------------------------------------ as other operators


def test_boxes_points_and_masks_move_along():
    x = np.zeros((2, 120, 160, 3), np.uint8)
    x[:, 50:53, 70:73] = 255
    op = RandAugment(n=3, m=12, fill_value=0, seed=1, **only(*GEOMETRY))
    for index in range(8):
        found = together(op)(
            x,
            points=np.array([[71.5, 51.5]]),
            boxes=np.array([[70.0, 50.0, 73.0, 53.0]]),
            mask=(x[..., 0] > 0).astype(np.uint8),
            index=index,
        )
        if found.image.max() < 100:
            continue
        weights = found.image[0, ..., 0].astype(float)
        y, x_at = (np.mgrid[:120, :160] * weights).sum(axis=(1, 2)) / weights.sum() + 0.5
        np.testing.assert_allclose(found.points, [[x_at, y]], atol=0.35)
        left, top, right, bottom = found.boxes[0]
        assert left < x_at < right
        assert top < y < bottom
        rows, columns = np.nonzero(found.mask[0])
        np.testing.assert_allclose([columns.mean() + 0.5, rows.mean() + 0.5], [x_at, y], atol=0.6)


SURVEYED = ("auto_contrast", "contrast", "equalize")
LOOKED_UP = ("brightness", "invert", "posterize", "solarize")


@pytest.mark.parametrize("channels", [1, 3])
def test_samples_with_the_same_operator_share_a_launch(emulated, channels):
    """A launch for each operator at each position in the order of steps, two for operators that survey images first."""
    x = np.random.default_rng(0).integers(0, 256, (24, 1, 9, 11, channels), dtype=np.uint8)
    for op, most in (
        (RandAugment(n=1, **only("identity")), 0),
        (RandAugment(n=1, p=0.5, **only("shear_x", "posterize", "sharpness")), 3),
        (RandAugment(n=2, **only("shear_x", "rotate", "translate_y")), 2),
        (RandAugment(n=1, **only(*SURVEYED)), 2 * len(SURVEYED)),
        (RandAugment(n=3, seed=4, **only("shear_x", *SURVEYED)), 3 * (1 + 2 * len(SURVEYED))),
    ):
        before = emulated.launches
        found = apply(op, x, backend="cuda", device=emulated)
        assert emulated.launches - before <= most, op
        compare(found, apply(op, x, backend="reference"))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16"])
def test_samples_may_differ_in_shape_and_channels(place, dtype):
    rng = np.random.default_rng(1)
    shapes = [(1, 70, 260, 3), (3, 3, 5, 3), (2, 40, 44, 1), (1, 2, 9, 3), (2, 17, 16, 3), (1, 1, 1, 1)]
    parts = [
        (rng.integers(0, 250, shape) * (1 if dtype == "uint8" else 131)).astype(dtype) for shape in shapes
    ]
    for op in (RandAugment(n=3, m=20, seed=3), RandAugment(n=4, m=5, seed=8, p=0.8, fill_value=None)):
        for found, wanted in zip(place(op, parts), apply(op, parts, backend="reference"), strict=True):
            compare(found, wanted, place.tolerance(op))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_floats_are_refused(dtype):
    for function in (fn.rand_augment, fn.trivial_augment_wide, fn.auto_augment):
        with pytest.raises(ParameterError, match=f"values of type {dtype}; allowed: uint8, uint16, int16"):
            function(np.zeros((4, 4, 3), dtype))


def test_a_chain_says_how_policies_are_done():
    assert "1. rand_augment: one kernel for each step, for all samples" in Chain(RandAugment()).explain()


def test_sixteen_bits_are_as_eight():
    """Of steps that look at the range alone: a level of 8 bits is 257 of 16."""
    x = photo()
    for name in ("solarize", "auto_contrast", "brightness", "contrast"):
        op = RandAugment(n=1, m=15, **only(name))
        apart = op(x.astype(np.uint16) * 257) / 257 - op(x)
        assert abs(apart).max() < 1.1, name


# ------------------------------------------------------------------------------------------ operators of their own


@pytest.mark.parametrize("op", [MeanContrast(contrast=1.7), Sharpness(amount=0.3)], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16"])
def test_operators_that_only_policies_have_agree_everywhere(place, op, dtype):
    for channels, size in ((3, (70, 260)), (1, (3, 5)), (3, (2, 9))):
        x = images(op, dtype, "NFHWC", size=size)[..., :channels]
        compare(place(op, x), apply(op, x, backend="reference"))
    parts = [images(op, dtype, "HWC", size=(6, 7)), images(op, dtype, "HWC", size=(8, 5))[..., :1]]
    for found, part in zip(place(op, parts), parts, strict=True):
        compare(found, apply(op, part, backend="reference"))
    still = type(op)(p=0.0, **{op.drawable[0].name: 1.5})
    compare(place(still, x), x)


@pytest.mark.skipif(bool(missing_nvrtc()), reason=missing_nvrtc())
@pytest.mark.parametrize("op", [MeanContrast(contrast=1.7), Sharpness(amount=0.3)], ids=lambda op: op.name)
def test_their_kernels_compile_without_spilling(op):
    for architecture, dtype, channels in (
        ("sm_75", "uint8", 3),
        ("sm_90", "int16", 1),
        ("sm_90", "uint16", 0),
        ("sm_120", "uint8", 3),
    ):
        assert_compiles_well(source_of(type(op)), architecture, defines_of(op, dtype, dtype, channels))


def test_a_mask_has_nothing_where_a_step_moved_the_image_away():
    x = np.random.default_rng(0).integers(1, 256, (6, 2, 21, 24, 3), dtype=np.uint8)
    colors = (
        "brightness",
        "color",
        "contrast",
        "sharpness",
        "posterize",
        "solarize",
        "auto_contrast",
        "equalize",
    )
    op = RandAugment(n=4, m=20, fill_value=0.0, interp_type="nearest", excluded=colors)
    batch = Batch.of([Sequence(one) for one in x], mask=x[..., 0] > 128)
    moved = together(op)(x, mask=x)
    compare(moved.mask, moved.image)
    compare(op(batch).mask, moved.image[..., 0] > 128)
    assert (moved.mask == 0).any(axis=(1, 2, 3, 4)).sum() > 3
    every = AutoAugment(interp_type="nearest", fill_value=0.0)
    assert every(batch).mask.shape == batch.mask.shape
