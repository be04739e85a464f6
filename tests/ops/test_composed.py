"""Chains that compose their geometry: one interpolation, beside OpenCV, with the draws of exact chains."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from seqpipe import ops
from seqpipe.array import to_numpy
from seqpipe.errors import ParameterError
from seqpipe.ops import Chain, apply, per_frame
from seqpipe.sequence import Batch, Sequence

TURN = ops.Rotate(angle=(-40.0, 40.0), keep_size=True, seed=1)
BACK = ops.Rotate(angle=-25.0, keep_size=True)
CROP = ops.Crop(crop=(20, 30), crop_pos_x=(0.0, 1.0), seed=2)
FLIP = ops.Flip(p=0.5, seed=3)
SHRINK = ops.Resize(size=(17, 23), antialias=False)


@pytest.fixture(params=["cpu", "emulated", pytest.param("gpu", marks=pytest.mark.gpu)])
def run(request):
    """Runs a chain somewhere, on arrays of main memory."""

    def at(chain, x, **options):
        if request.param == "cpu":
            return chain(x, **options)
        if request.param == "emulated":
            device = request.getfixturevalue("emulated")
            return chain(x, backend="cuda", device=device, **options)
        import cupy

        return to_numpy(chain(cupy.asarray(x), **options))

    return at


def smooth(*shape):
    """Images that an interpolation changes little: waves of some ten pixels."""
    frames, height, width, channels = shape
    frame, y, x, channel = np.meshgrid(*map(np.arange, shape), indexing="ij", sparse=True)
    waves = np.sin(x / 5 + frame) + np.cos(y / 6 + channel) + np.sin((x + y) / 9)
    return np.broadcast_to((127 + 40 * waves), (frames, height, width, channels)).astype(np.uint8)


def inner(x, margin=6):
    return x[..., margin:-margin, margin:-margin, :].astype(int)


def test_turning_there_and_back_changes_nothing_but_by_one_interpolation(run):
    x = np.random.default_rng(0).integers(0, 256, (2, 41, 43, 3), dtype=np.uint8)
    there = ops.Rotate(angle=25.0, keep_size=True)
    exact, composed = (run(Chain(there, BACK, fuse=how), x) for how in ("exact", "compose"))
    assert np.abs(inner(composed) - inner(x)).max() <= 1
    assert np.abs(inner(exact, 12) - inner(x, 12)).max() > 50


@pytest.mark.parametrize("interp_type", ["nearest", "linear", "cubic"])
def test_it_is_what_opencv_makes_of_the_product(run, interp_type):
    x = smooth(1, 48, 64, 3)
    chain = Chain(
        ops.Rotate(angle=20.0, keep_size=True, interp_type=interp_type, fill_value=0.0),
        ops.Crop(crop=(30, 40), crop_pos_x=0.25),
        ops.WarpAffine(matrix=(1.2, 0.1, -3.0, 0.0, 0.9, 2.0), interp_type=interp_type, fill_value=0.0),
        fuse="compose",
    )
    found = run(chain, x)[0]
    turn = np.vstack(
        [cv2.getRotationMatrix2D((31.5, 23.5), 20.0, 1.0), [0, 0, 1]]
    )  # from the source, by centers
    crop = np.array([[1, 0, 6.0], [0, 1, 9.0], [0, 0, 1]])
    to_corner = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
    warp = np.linalg.inv(to_corner) @ [[1.2, 0.1, -3.0], [0.0, 0.9, 2.0], [0, 0, 1]] @ to_corner
    inverse = np.linalg.inv(turn) @ crop @ warp
    flags = {"nearest": cv2.INTER_NEAREST, "linear": cv2.INTER_LINEAR, "cubic": cv2.INTER_CUBIC}[interp_type]
    wanted = cv2.warpAffine(x[0], inverse[:2], (40, 30), flags=flags | cv2.WARP_INVERSE_MAP)
    apart = np.abs(found[3:-3, 3:-3].astype(int) - wanted[3:-3, 3:-3])
    # OpenCV keeps places to 1/32 of a pixel, and its cubic curve has another constant
    assert np.quantile(apart, 0.98) <= {"nearest": 0, "linear": 2, "cubic": 4}[interp_type]


@pytest.mark.parametrize(
    "chain_ops",
    [(FLIP, TURN, CROP), (SHRINK, FLIP, TURN), (TURN, ops.Flip(vertical=True, p=0.5, per_frame=True))],
    ids=["whole pixels first", "resized first", "by frame"],
)
def test_draws_are_those_of_exact_chains(run, chain_ops):
    x = np.stack([smooth(3, 40, 52, 3), smooth(3, 40, 52, 3)[:, ::-1]])
    exact, composed = (run(Chain(*chain_ops, fuse=how), x, epoch=2, index=5) for how in ("exact", "compose"))
    assert composed.shape == exact.shape
    assert np.abs(inner(composed, 8) - inner(exact, 8)).mean() < 2.5
    other = run(Chain(*chain_ops, fuse="compose"), x, epoch=3, index=5)
    assert np.abs(inner(other, 8) - inner(exact, 8)).mean() > 5


def test_what_only_moves_pixels_or_changes_values_stays_exact(run):
    x = np.random.default_rng(0).integers(0, 256, (2, 40, 52, 3), dtype=np.uint8)
    chain_ops = (CROP, FLIP, ops.BrightnessContrast(contrast=1.5), ops.Flip(vertical=True))
    exact, composed = (run(Chain(*chain_ops, fuse=how), x) for how in ("exact", "compose"))
    np.testing.assert_array_equal(composed, exact)


@pytest.mark.parametrize("layout", ["HWC", "FCHW", "NFHWC", "HW"])
def test_every_layout(run, layout):
    lengths = dict(zip("NFHWC", (2, 3, 24, 31, 3), strict=True))
    x = np.random.default_rng(0).integers(0, 256, [lengths[letter] for letter in layout], dtype=np.uint8)
    chain = Chain(FLIP, ops.Rotate(angle=30.0, keep_size=True), BACK, fuse="compose")
    axes = tuple(layout.index(letter) for letter in "NFHWC" if letter in layout)
    found = np.transpose(run(chain, x, layout=layout), axes)
    plain = np.transpose(x, axes) if "C" in layout else x[..., None]
    wanted = run(chain, np.ascontiguousarray(plain))
    np.testing.assert_array_equal(found if "C" in layout else found[..., None], wanted)


def test_batches_and_what_sequences_know():
    sequences = [Sequence(smooth(3, 40, 52, 3), frames=np.arange(3) + n, source=str(n)) for n in range(2)]
    chain = Chain(TURN, CROP, fuse="compose")
    found = chain(Batch.of(sequences), epoch=1)
    assert found.stacked.shape == (2, 3, 20, 30, 3)
    assert [result.source for result in found] == ["0", "1"]
    exact = Chain(TURN, CROP)(Batch.of(sequences), epoch=1)
    assert np.abs(inner(found.stacked) - inner(exact.stacked)).mean() < 2.5
    np.testing.assert_array_equal(found.frames, exact.frames)


def test_the_affine_of_a_volume_is_that_of_all_operators():
    affine = np.diag([3.0, 2.0, 1.0, 1.0])
    volume = Sequence(smooth(3, 40, 52, 1), "DHWC", "scan", affine=affine)
    chain_ops = (ops.Flip(), SHRINK, BACK)
    found, exact = (Chain(*chain_ops, fuse=how)(volume).affine for how in ("compose", "exact"))
    np.testing.assert_allclose(found, exact, atol=1e-4)


def test_which_operators_are_one():
    antialiased = ops.Resize(size=(17, 23))
    chain = Chain(CROP, TURN, FLIP, antialiased, BACK, SHRINK, ops.Equalize(), CROP, FLIP, fuse="compose")
    assert chain.explain() == (
        "1. crop → rotate → flip: one mapping, interpolated once\n"
        "2. resize: one kernel\n"
        "3. rotate → resize: one mapping, interpolated once\n"
        "4. equalize: one kernel\n"
        "5. crop → flip: one kernel"
    )


@pytest.mark.parametrize(
    "apart",
    [
        ops.Rotate(angle=5.0, keep_size=True, interp_type="cubic"),
        ops.Rotate(angle=5.0, keep_size=True, fill_value=9.0),
        ops.Rotate(angle=5.0, keep_size=True, dtype="float32"),
        ops.Rotate(angle=5.0, keep_size=True, fill_value=(0.0, 9.0)),
    ],
    ids=["interpolation", "fill", "type", "drawn fill"],
)
def test_operators_that_do_not_agree_stay_apart(apart):
    assert "one mapping" not in Chain(BACK, apart, fuse="compose").explain()


def test_levels_outside_that_are_drawn_are_not_one_level():
    op = ops.Rotate(angle=5.0, keep_size=True, fill_value=(0.0, 9.0))
    assert "one mapping" not in Chain(op, op, fuse="compose").explain()


def test_what_cannot_be_composed_is_said():
    with pytest.raises(ParameterError, match="Chain: fuse='fast' is not valid; allowed: 'exact', 'compose'"):
        Chain(BACK, fuse="fast")
    sizes = [np.zeros((20, 30, 3), np.uint8), np.zeros((24, 30, 3), np.uint8)]
    with pytest.raises(ParameterError, match=r"rotate → flip: results of different sizes.*fuse='exact'"):
        Chain(BACK, FLIP, fuse="compose")(sizes)
    by_frame = Chain(BACK, ops.Flip(p=0.5, per_frame=True), fuse="compose")
    with pytest.raises(ParameterError, match="sequences of different lengths"):
        by_frame([np.zeros((2, 20, 30, 3), np.uint8), np.zeros((3, 20, 30, 3), np.uint8)])


def test_how_it_fuses_is_part_of_what_it_is():
    chain = Chain(BACK, fuse="compose")
    assert chain != Chain(BACK)
    assert repr(chain) == f"Chain({BACK!r}, fuse='compose')"
    x = smooth(1, 20, 30, 3)
    given = per_frame(np.array([3.0]))
    wanted = apply(ops.Rotate(angle=given, keep_size=True), x)
    np.testing.assert_array_equal(Chain(ops.Rotate(angle=given, keep_size=True), fuse="compose")(x), wanted)
