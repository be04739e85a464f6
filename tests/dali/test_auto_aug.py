"""``auto_aug.core``: parameters of magnitudes, choices for each sample, and policies of one's own."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from seqpipe.dali import fn, types
from seqpipe.dali.auto_aug import augmentations as a
from seqpipe.dali.auto_aug import auto_augment, core, rand_augment, trivial_augment
from seqpipe.errors import ParameterError
from tests.dali.conftest import run

IMAGE = np.random.default_rng(2).integers(0, 256, (24, 31, 3)).astype(np.uint8)
COUNT = 12


def images():
    return fn.external_source(lambda: [IMAGE] * COUNT, layout="HWC")


def numbers(values):
    return fn.external_source(lambda: [np.int32(one) for one in values])


def test_parameters_follow_from_bins_and_signs():
    @core.augmentation(mag_range=(10, 21), randomly_negate=True, mag_to_param=lambda m: [m, 7])
    def parameter_of(_, parameter):
        return parameter

    def program():
        signs = numbers(n % 2 for n in range(COUNT))
        options = {"num_magnitude_bins": COUNT}
        return (
            parameter_of(None, magnitude_bin=core.signed_bin(numbers(range(COUNT)), signs), **options),
            parameter_of(None, magnitude_bin=core.signed_bin(3, signs), **options),
            parameter_of.augmentation(randomly_negate=False)(None, magnitude_bin=5, **options),
        )

    each, one, fixed = (part.as_array() for part in run(program, batch_size=COUNT)[0])
    signs = np.where(np.arange(COUNT) % 2, -1, 1)
    assert np.array_equal(each, np.stack([(10 + np.arange(COUNT)) * signs, np.full(COUNT, 7)], 1))
    assert np.array_equal(one[:, 0], 13 * signs)
    assert np.array_equal(fixed[:, 0], np.full(COUNT, 15))


def test_each_sample_has_the_operation_of_its_number():
    operations = [lambda x, k=k: x + types.Constant(k).uint8() for k in range(5)]
    (found,) = run(
        lambda: core.select(operations, numbers(n % 5 for n in range(COUNT)), images()), batch_size=COUNT
    )[0]
    assert all(np.array_equal(found.at(n), IMAGE + np.uint8(n % 5)) for n in range(COUNT))


@pytest.mark.parametrize(
    ("name", "magnitude", "judge"),
    [
        ("brightness", 0.4, lambda image: ImageEnhance.Brightness(image).enhance(1.4)),
        ("contrast", 0.4, lambda image: ImageEnhance.Contrast(image).enhance(1.4)),
        ("posterize", 3, lambda image: ImageOps.posterize(image, 3)),
        ("solarize", 100, lambda image: ImageOps.solarize(image, 100)),
        ("invert", None, ImageOps.invert),
        ("auto_contrast", None, ImageOps.autocontrast),
        ("identity", None, lambda image: image),
    ],
)
def test_augmentations_are_those_of_pillow(name, magnitude, judge):
    augmentation = getattr(a, name)
    if magnitude is not None:
        augmentation = augmentation.augmentation(np.array([magnitude]), randomly_negate=False)
    (found,) = run(lambda: augmentation(images(), magnitude_bin=0), batch_size=COUNT)[0]
    assert np.abs(found.at(0).astype(int) - np.asarray(judge(Image.fromarray(IMAGE))).astype(int)).max() <= 2


def test_policies_are_applied():
    policy = core.Policy("both", 4, [[(a.invert, 1, None)], [(a.identity, 1, None)]])

    def program():
        return (
            auto_augment.apply_auto_augment(policy, images()),
            rand_augment.apply_rand_augment([a.invert, a.invert], images(), 2, 3),
            trivial_augment.apply_trivial_augment([a.invert], images()),
            auto_augment.apply_auto_augment(auto_augment.get_svhn_policy(), images(), fill_value=0),
            rand_augment.apply_rand_augment(
                rand_augment.get_rand_augment_suite(True), images(), 1, 9, shape=IMAGE.shape[:2]
            ),
        )

    with pytest.warns(UserWarning, match="probability 0"):
        core.Policy("never", 4, [[(a.invert, 0, None)]])
    chosen, twice, once, *published = run(program, batch_size=COUNT, seed=3)[0]
    kinds = [np.array_equal(chosen.at(n), 255 - IMAGE) for n in range(COUNT)]
    assert 0 < sum(kinds) < COUNT
    assert all(kind or np.array_equal(chosen.at(n), IMAGE) for n, kind in enumerate(kinds))
    assert np.array_equal(twice.at(0), IMAGE)
    assert np.array_equal(once.at(0), 255 - IMAGE)
    assert all(part.at(n).shape == IMAGE.shape for part in published for n in range(COUNT))


def test_what_does_not_fit_is_refused():
    for call, message in (
        (lambda: core.augmentation(lambda x: x), "accepts 1 positional argument"),
        (lambda: core.augmentation(a.invert), "already decorated Augmentation"),
        (lambda: core.augmentation(3), "not callable: 3"),
        (lambda: core.Policy("p", 0, []), "`num_magnitude_bins` must be a positive integer, got 0"),
        (lambda: core.Policy("p", 4, [[(a.rotate, 0.5, None)]]), "magnitude bin is required"),
        (lambda: core.Policy("p", 4, [[(a.rotate, 0.5, 4)]]), r"`\[0, 3\]` range. Got `4`"),
        (
            lambda: a.translate_x.augmentation(randomly_negate=False)(
                None, magnitude_bin=1, num_magnitude_bins=2
            ),
            "peek_image_shape",
        ),
        (lambda: a.rotate(None, magnitude_bin=1), "`num_magnitude_bins` argument is missing"),
        (lambda: a.rotate(None, num_magnitude_bins=3), "requires `magnitude_bin`"),
        (lambda: core.signed_bin(1.5), "must be an int or a DataNode"),
        (
            lambda: rand_augment.apply_rand_augment([a.invert], None, 1, 31),
            r"must be an integer from `\[0, 30\]` range. Got 31",
        ),
        (lambda: trivial_augment.apply_trivial_augment([], None), "list cannot be empty"),
        (
            lambda: rand_augment.apply_rand_augment([a.invert], None, 1, 3, fill=3),
            "The kwarg `fill` is not used by any",
        ),
        (
            lambda: rand_augment.get_rand_augment_suite(True, 3),
            "`max_translate_abs` cannot be used with image",
        ),
    ):
        with pytest.raises(ParameterError, match=message):
            run(lambda call=call: call() or images(), batch_size=COUNT)
