"""What a user reads: help, near names, errors that say what to do, warnings at the user's line."""

from __future__ import annotations

import pydoc
import warnings

import numpy as np
import pytest

import seqpipe
from seqpipe import fn, ops
from seqpipe.errors import ParameterError, warn_caller
from seqpipe.ops.core import declaration
from seqpipe.ops.core.names import OPERATORS, WITHOUT
from seqpipe.ops.statistics import normalize

X = np.zeros((4, 2, 20, 30, 3), np.uint8)


@pytest.mark.parametrize(
    "cls", [ops.RandomResizedCrop, ops.Flip, ops.Transpose, ops.Mixup], ids=lambda c: c.name
)
def test_help_of_a_class_shows_its_arguments_first(cls: type[ops.Declaration]) -> None:
    head, _, _ = pydoc.render_doc(cls, renderer=pydoc.plaintext).partition("Method resolution order")
    assert cls.summary.partition("\n")[0] in head
    for q in cls.parameters:
        assert f"{q.name}: {q.param.doc.rstrip('.')}" in head
        assert f"{q.name}={q.default!r}" in head
    assert fn.flip.__doc__.count("horizontal: ") == 1


def test_help_of_an_own_class_without_a_docstring_is_that_of_its_base() -> None:
    class Plain(ops.Flip, register=False):
        more: int = ops.param(1, "how much more")

    assert Plain.summary == ops.Flip.summary
    assert Plain.__doc__.count("horizontal: ") == Plain.__doc__.count("more: how much more") == 1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: ops.Crop((112, 112)),
            r"crop: Crop does not accept the positional argument \(112, 112\); .* Crop\(crop=\(112, 112\)\)\.$",
        ),
        (
            lambda: fn.crop(X, (112, 112)),
            r"crop: 2 positional arguments; allowed: x by position, .*fn.crop\(…, crop=\(112, 112\)\)",
        ),
        (lambda: ops.Rotate(angel=3), "rotate: there is no parameter 'angel'.*Perhaps 'angle' is meant"),
        (
            lambda: fn.rotate(X, angle=(-30, 30)),
            "rotate: results of different sizes.* as a list, or keep_size=True",
        ),
        (
            lambda: fn.brightness(X, brightness=np.array([0.5, 2.0])),
            r"brightness has values for \(2,\); allowed: \(4,\), the samples given. .*brightness=ops.per_frame\(…\)",
        ),
        (
            lambda: ops.Chain(ops.Flip(), ops.Stack()),
            r"a chain with stack, which acts on arrays; allowed: operators on images.*Stack\(…\)\(chain\(x\)\)",
        ),
        (
            lambda: ops.Chain(ops.BbFlip()),
            "a chain with bb_flip, which acts on boxes; allowed: operators on images",
        ),
    ],
)
def test_errors_say_what_to_do(call, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        call()


def test_an_array_that_fits_no_frames_is_not_said_to() -> None:
    with pytest.raises(ParameterError) as caught:
        fn.brightness(X, brightness=np.ones(3))
    assert caught.value.advice is None


@pytest.mark.parametrize(
    ("place", "name", "near"),
    [(ops, "Rotat", "Rotate"), (fn, "rotat", "rotate"), (fn.reductions, "men", "mean")],
)
def test_near_names_are_told(place, name: str, near: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'.*Perhaps '{near}' is meant"):
        getattr(place, name)
    with pytest.raises(AttributeError, match="no attribute 'qqqqqq'") as caught:
        place.qqqqqq  # noqa: B018  it is looked for
    assert "Perhaps" not in str(caught.value)


def test_the_table_fits_a_terminal() -> None:
    lines = ops.table().splitlines()
    own = [name for name, cls in ops.REGISTRY.items() if cls.__module__.startswith("seqpipe.")]
    assert sorted(own) == [line.split()[0] for line in lines]
    assert max(map(len, lines)) <= 100
    assert not set("`|") & set(ops.table())
    assert ops.table(markdown=True).startswith("| operator |")


def test_operators_show_arrays_by_their_shapes() -> None:
    assert repr(ops.Rotate(angle=np.arange(64.0))) == "Rotate(angle=<float64 array of shape (64,)>)"
    assert repr(ops.Rotate(angle=np.array([1.0, 2.0]))) == "Rotate(angle=[1.0, 2.0])"


def test_warnings_of_what_does_nothing_point_to_the_users_line(monkeypatch) -> None:
    monkeypatch.setattr(declaration, "_warned", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fn.brightness(X)
        ops.Hue()
        fn.flip(fn.gamma(X))
    assert [one.filename for one in caught] == [__file__] * 3
    lines = [one.lineno for one in caught]
    assert [line - lines[0] for line in lines] == [0, 1, 2]


def test_a_warning_points_beyond_all_frames_of_the_package() -> None:
    with pytest.warns(UserWarning, match="by itself") as caught:
        warn_caller("by itself")
    assert caught[0].filename == __file__


class Doubling(ops.Op, register=False):
    """Multiply, by changing what it is given."""

    factor: ops.Number = ops.param(2.0, "of all levels", lo=0, hi=1000)
    weights: tuple[float, float] = ops.param((1.0, 1.0), "of no meaning", size=2)

    def reference(self, x, p):
        """The product."""
        if self.seed:
            p.weights[:] *= 2
        else:
            p.factor *= 2
        return x * p.factor


@pytest.mark.parametrize("factor", [2.0, (1.0, 3.0), ops.per_frame((1.0, 3.0))], ids=str)
def test_parameters_that_are_kept_cannot_be_changed(factor) -> None:
    """They were 4, 8, 16 in one call after the other."""
    for _ in range(2):
        with pytest.raises(
            AttributeError, match=r"factor is a parameter, which frames and later calls share"
        ):
            Doubling(factor=factor)(X + 1)
        with pytest.raises(ValueError, match="read-only"):
            Doubling(factor=factor, seed=1)(X + 1)
    made = seqpipe.operator(factor=ops.param(2.0, "of all levels"))(_own)
    assert [made(X + 1).max() for _ in range(3)] == [4, 4, 4]
    ops.REGISTRY.pop("_own")


def _own(x, factor):
    """Multiply, by a value of its own."""
    factor *= 2
    return x * factor


def test_names_of_other_libraries_lead_to_operators_that_exist() -> None:
    for name, forms in OPERATORS.items():
        for form in forms:
            eval(form, vars(ops))
        if not hasattr(ops, name):
            with pytest.raises(AttributeError, match=f"'{name}'.*Perhaps ") as caught:
                getattr(ops, name)
            assert forms[0] in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("RandomBiasField", "Perhaps 'BiasField' is meant"),
        ("RandBiasFieldd", "Perhaps 'BiasField' is meant"),
        ("RandomGhosting", "Perhaps 'Ghosting' is meant"),
        ("RandomFlip", "Perhaps 'Flip' is meant"),
        ("RandFlipd", "Perhaps 'Flip' is meant"),
        ("RandomHorizontalFlip", r"Perhaps ops\.Flip\(p=0\.5\) is meant"),
        ("RandAffined", r"ops\.RandomAffine3d\(rotate=\(-15\.0, 15\.0\)\) is meant"),
        ("RandGaussianNoised", "Perhaps 'GaussianNoise' is meant"),
        ("Median3d", r"ops\.MedianBlur3d\(\) is meant"),
        ("NoiseShot", r"ops\.ShotNoise\(\) is meant"),
        ("GaussianBlurTransform", "Perhaps 'GaussianBlur' is meant"),
        ("gaussian_blur", "Perhaps 'GaussianBlur' is meant"),
        ("RandCropByPosNegLabeld", "around='balanced'"),
        ("ToTensor", r"batch\.torch\(\)"),
    ],
)
def test_names_of_other_libraries_are_known(name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=said):
        getattr(ops, name)


@pytest.mark.parametrize("name", [name for name, text in WITHOUT.items() if not text])
def test_what_has_no_counterpart_gets_no_wrong_one(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(ops, name)
    assert "Perhaps" not in str(caught.value)


def test_functions_are_suggested_as_functions() -> None:
    with pytest.raises(AttributeError, match=r"Perhaps fn\.flip\(x\) is meant"):
        _ = fn.hflip
    with pytest.raises(AttributeError, match="Perhaps 'bias_field' is meant"):
        _ = fn.RandomBiasField


@pytest.mark.parametrize(
    ("cls", "values", "said"),
    [
        (ops.RandomResizedCrop, (112,), "RandomResizedCrop(size=(112, 112))"),
        (ops.RandomResizedCrop, ((96, 112),), "RandomResizedCrop(size=(96, 112))"),
        (ops.Flip, (0.5,), "Flip(p=0.5)"),
        (ops.Rotate, (15,), "Rotate(angle=15)"),
        (ops.Crop, (112,), "Crop(crop=(112, 112))"),
        (ops.Crop3d, (64,), "Crop3d(size=(64, 64, 64))"),
        (ops.Normalize, ([0.5] * 3, [0.2] * 3), "Normalize(mean=[0.5, 0.5, 0.5], stddev=[0.2, 0.2, 0.2])"),
        (ops.Flip, (X,), "Flip(…)(x)"),
    ],
)
def test_positional_arguments_are_answered_by_a_call_that_works(cls, values, said: str) -> None:
    with pytest.raises(ParameterError) as caught:
        cls(*values)
    assert caught.value.advice == said
    if "…" not in said:
        eval(said, vars(ops))


@pytest.mark.parametrize("value", [3, 0.5, (2, 2), "x"], ids=str)
def test_every_advice_for_a_positional_argument_works(value) -> None:
    for name, cls in ops.REGISTRY.items():
        with pytest.raises(
            ParameterError, match=f"{name}: .*does not accept the positional argument"
        ) as caught:
            cls(value)
        if caught.value.advice:
            eval(caught.value.advice, {cls.__name__: cls})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ops.RandomResizedCrop(size=112), r"size=\(112, 112\) has one for each"),
        (lambda: ops.Flip(prob=0.5), "Perhaps 'p' is meant"),
        (lambda: ops.Normalize(std=1), "Perhaps 'stddev' is meant"),
        (lambda: ops.Rotate(degrees=3), "Perhaps 'angle' is meant"),
        (lambda: ops.RandomAffine3d(degrees=3), "Perhaps 'rotate' is meant"),
        (lambda: ops.RandomResizedCrop(scale=(0.5, 1)), "Perhaps 'random_area' is meant"),
    ],
)
def test_parameters_of_other_libraries_are_known(call, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        call()


def test_a_mean_on_the_scale_0_to_1_is_noticed_once(monkeypatch) -> None:
    """ImageNet's numbers on pixels of 0 to 255 gave values of up to 1000 without a word."""
    monkeypatch.setattr(normalize, "_warned", set())
    own, whole = ops.Normalize(mean=0.45, stddev=0.225), ops.Normalize(mean=115.0, stddev=57.0)
    for silent in (whole, ops.Normalize(mean=0.0, stddev=1.0)):
        silent(X)
    own(X.astype(np.float32))
    with pytest.warns(
        UserWarning, match=r"scale 0 to 1, and the values are uint8, 0 to 255\. Multiply both by 255"
    ):
        own(X)
    own(X)
    with pytest.raises(
        ParameterError, match="in units of 0 to 255, but float values of a reader span 0 to 1"
    ):
        seqpipe.videos("x.mp4", 2, output=seqpipe.OutputSpec(dtype="float32", mean=115.0, std=57.0))
