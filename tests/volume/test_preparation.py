"""What is made of volumes before patches are cut: another grid, and the box around what is shown."""

from __future__ import annotations

import contextlib
import threading
from importlib import import_module
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqpipe
from seqpipe import Cache, Patch, Prepare
from seqpipe.errors import ParameterError
from seqpipe.readers.volumes import case as volume_case
from seqpipe.readers.volumes import fetch as volume_fetch
from seqpipe.video.device import Device
from seqpipe.volume import save

SHAPE = (20, 30, 40)
INSIDE = (slice(5, 17), slice(8, 20), slice(10, 33))
AFFINE = np.array([[0, 0, -1.0, 30], [0, -1.5, 0, 20], [2.0, 0, 0, -10], [0, 0, 0, 1]])


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A body of known extent in air, stored with a slope, and labels in and out of the body."""
    root = tmp_path_factory.mktemp("case")
    body = np.full(SHAPE, 24, np.int16)
    rng = np.random.default_rng(0)
    body[INSIDE] = rng.integers(1000, 1100, body[INSIDE].shape)
    label = np.zeros(SHAPE, np.uint8)
    label[8:10, 10:14, 12:16] = 1
    label[12, 15, 30] = 2
    label[0, 0, 0] = 3  # in the air
    image = seqpipe.Sequence(body[..., None], "DHWC", affine=AFFINE, scale=(1.0, -1024.0))
    save(image, root / "image.nii.gz")
    save(seqpipe.Sequence(label[..., None], "DHWC", affine=AFFINE), root / "label.nii.gz")
    return {"image": root / "image.nii.gz", "label": root / "label.nii.gz"}


def whole(case, *, size=None, **options):
    with seqpipe.volumes(case, size, prepare=Prepare(**options)) as dataset:
        return dataset.sample(0)


def test_volumes_are_cut_to_the_box_of_what_is_above_a_value(case):
    found = whole(case, crop_above=-500)
    plain = whole(case)
    for name in ("image", "label"):
        assert np.array_equal(found[name].data, plain[name].data[INSIDE])
        origin = plain[name].affine @ [5, 8, 10, 1]
        np.testing.assert_allclose(found[name].affine[:3, 3], origin[:3])
    assert plain["image"].data.min() == -1000


def test_the_box_on_another_grid_holds_the_same_places(case):
    options = {"orientation": "RAS", "spacing_mm": (3.0, 1.0, 1.2)}
    found, plain = whole(case, crop_above=-500, **options), whole(case, **options)
    shift = np.linalg.inv(plain["image"].affine) @ found["image"].affine
    start = np.rint(shift[:3, 3]).astype(int)
    np.testing.assert_allclose(shift[:3, 3], start, atol=1e-9)
    cut = tuple(slice(s, s + n) for s, n in zip(start, found["image"].shape[:3], strict=True))
    for name in ("image", "label"):
        assert np.array_equal(found[name].data, plain[name].data[cut])
    # the borders of the box are those of the body, outwards to the next voxel
    corners = (
        found["image"].affine
        @ np.array([[-0.5] * 3 + [1], [n - 0.5 for n in found["image"].shape[:3]] + [1]]).T
    )
    body = AFFINE @ np.array([[4.5, 7.5, 9.5, 1], [16.5, 19.5, 32.5, 1]]).T
    grown = np.sort(corners[:3], axis=1) - np.sort(body[:3], axis=1)
    assert (grown[:, 0] <= 1e-6).all()
    assert (grown[:, 1] >= -1e-6).all()
    assert (np.abs(grown) < [[1.2], [1.0], [3.0]]).all()


@given(
    st.tuples(*[st.tuples(st.integers(0, n - 1), st.integers(1, n)) for n in (9, 11, 13)]),
    st.one_of(st.none(), st.tuples(*[st.floats(0.4, 4.0)] * 3)),
    st.sampled_from([None, "RAS", "LIP", "SLA"]),
)
@settings(max_examples=40, deadline=None)
def test_any_body_is_covered_with_less_than_a_voxel_around_it(
    tmp_path_factory, ends, spacing_mm, orientation
):
    body = np.zeros((9, 11, 13), np.uint8)
    spans = [(min(a, b - 1), max(a + 1, b)) for a, b in ends]
    body[tuple(slice(*span) for span in spans)] = 200
    path = tmp_path_factory.mktemp("body") / "v.nii"
    save(seqpipe.Sequence(body[..., None], "DHWC", affine=AFFINE), path)
    found = whole({"image": path}, crop_above=100, spacing_mm=spacing_mm, orientation=orientation)["image"]
    corners = np.array([[-0.5] * 3, np.array(found.shape[:3]) - 0.5])
    box = np.sort((np.c_[corners, [1, 1]] @ found.affine.T)[:, :3], axis=0)
    wanted = np.sort((np.c_[np.transpose(spans) - 0.5, [1, 1]] @ AFFINE.T)[:, :3], axis=0)
    voxel = np.abs(found.affine[:3, :3]).sum(axis=1)
    half = voxel / 2  # by which the last voxel of a grid may end before the volume does
    assert (box[0] <= wanted[0] + half + 1e-5).all()
    assert (box[1] >= wanted[1] - half - 1e-5).all()
    assert (wanted[0] - box[0] < voxel + 1e-5).all()
    assert (box[1] - wanted[1] < voxel + 1e-5).all()


@pytest.mark.parametrize("spacing_mm", [None, (1.0, 1.0, 1.0)])
def test_patches_lie_in_the_box_and_around_its_labels_alone(case, spacing_mm):
    take = Patch(8, per_volume=60, around="balanced", foreground=1.0)
    prepare = Prepare(spacing_mm=spacing_mm, crop_above=-500)
    with seqpipe.volumes(case, take, prepare=prepare) as dataset:
        patches = [dataset.sample(index) for index in range(60)]
    assert all(set(np.unique(one["label"].data)) & {1, 2} for one in patches)
    if spacing_mm is None:
        assert all(one["image"].data.min() >= -24 for one in patches)


def test_the_box_is_widened_to_a_patch_and_is_everything_where_nothing_is_above(case):
    wide = whole(case, crop_above=-500, size=(14, 30, 10))
    assert wide["image"].shape[:3] == (14, 30, 10)
    assert whole(case, crop_above=9000)["image"].shape[:3] == SHAPE


@pytest.mark.parametrize("interp", ["linear", "bspline", "nearest"])
@pytest.mark.parametrize("antialias", [True, False])
def test_patches_are_those_of_the_volume_resampled_as_a_whole(case, interp, antialias):
    prepare = Prepare(spacing_mm=2.5, interp=interp, antialias=antialias, dtype="float32")
    with seqpipe.volumes(case["image"], Patch(5, per_volume=3), prepare=prepare) as dataset:
        patches = [dataset.sample(index)["image"] for index in range(3)]
    with seqpipe.open(case["image"]) as reader:
        scaled = reader.sequence().scaled()
    scaled = scaled.with_pixels(scaled.data.astype(np.float32), "DHWC")
    full = seqpipe.volume.resample(scaled, 2.5, interp=interp, antialias=antialias)
    for patch in patches:
        start = np.rint((np.linalg.inv(full.affine) @ patch.affine)[:3, 3]).astype(int)
        wanted = full.data[tuple(slice(s, s + 5) for s in start)]
        np.testing.assert_allclose(patch.data, wanted, atol=0.02 if interp == "bspline" else 1e-3)


def test_wrong_preparation_is_refused(case):
    with pytest.raises(ParameterError, match="interp='sinc' is not valid; allowed: 'nearest'"):
        Prepare(interp="sinc")
    with pytest.raises(ParameterError, match="crop_above='air' is not valid; allowed: a number"):
        Prepare(crop_above="air")
    with pytest.raises(ParameterError, match=r"Cache\(device='cuda'\) and device='cpu' exclude one another"):
        seqpipe.volumes(case, cache=Cache(device="cuda"))
    with pytest.raises(ParameterError, match="compression='zip' is not valid; allowed: 'none', 'lz4'"):
        Cache(compression="zip")


class _Gpu:
    """Stands for a GPU: knows the copies in its memory, and how often its work was waited for."""

    def __init__(self):
        self.copies, self.waited = [], 0

    def copied(self, array, number):
        assert number == 0
        self.copies.append(np.array(array))
        return self.copies[-1]

    @contextlib.contextmanager
    def current(self, number):
        assert number == 0
        yield self

    def synchronize(self):
        self.waited += 1


@pytest.mark.parametrize("spacing_mm", [None, 1.0])
def test_volumes_may_be_kept_on_the_device_and_patches_cut_there(case, spacing_mm, monkeypatch):
    gpu = _Gpu()
    monkeypatch.setattr(volume_case, "to_cupy", gpu.copied)
    monkeypatch.setattr(volume_fetch, "Streams", _Streams)
    monkeypatch.setattr(volume_fetch, "to_cupy", lambda array, _number: array)
    monkeypatch.setattr(volume_fetch, "on_gpu", gpu.current)
    monkeypatch.setattr(
        import_module("seqpipe.sources.volumes"), "parse_device", lambda name: Device(name, 0)
    )
    prepare = Prepare(spacing_mm=spacing_mm, dtype="float32", crop_above=-500)
    here = seqpipe.volumes(case, Patch(6, per_volume=5, around="balanced"), prepare=prepare)
    cache = Cache(gib=1, device="cuda")
    there = seqpipe.volumes(
        case, Patch(6, per_volume=5, around="balanced"), prepare=prepare, cache=cache, device="cuda"
    )
    with here, there:
        wanted = [here.sample(index) for index in range(5)]
        there.sample(0)
        for copy in gpu.copies:  # what is cut is cut there: the copies are all that is looked at
            copy += 1
        shift = 1 if spacing_mm is None else 0
        for index, one in enumerate(wanted):
            for name in ("image", "label"):
                assert np.array_equal(there.sample(index)[name].data, one[name].data + shift)
    assert len(gpu.copies) == (2 if spacing_mm is None else 0)
    assert gpu.waited == 11


def test_labels_on_an_oblique_grid_are_found_in_the_box(case, tmp_path):
    turn = np.radians(25)
    about = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    oblique = np.eye(4)
    oblique[:3, :3] = about @ AFFINE[:3, :3]
    oblique[:3, 3] = about @ AFFINE[:3, 3] + [-3.0, 6.0, 0.0]
    label = np.zeros((20, 30, 40), np.uint8)
    label[9:13, 12:16, 18:22] = 5
    save(seqpipe.Sequence(label[..., None], "DHWC", affine=oblique), tmp_path / "label.nii")
    files = [{"image": case["image"], "label": tmp_path / "label.nii"}]
    take = Patch(7, per_volume=20, around="balanced", foreground=1.0)
    for crop_above in (None, -500):
        prepare = Prepare(align="first", crop_above=crop_above)
        with seqpipe.volumes(files, take, prepare=prepare) as dataset:
            patches = [dataset.sample(index) for index in range(20)]
        assert all((one["label"].data == 5).any() for one in patches)
        assert all(np.array_equal(one["label"].affine, one["image"].affine) for one in patches)


class _There(np.ndarray):
    """Memory of a GPU that is NumPy's."""

    def set(self, array, stream):
        assert stream.admitted
        self[...] = array


class _Streams:
    """Streams of a GPU that is not there, which know who has used them."""

    users: ClassVar[set[str]] = set()

    def __init__(self, device):
        self.device, self.admitted, self.waited = device, False, 0

    ready = staticmethod(contextlib.nullcontext)

    def allocate(self, shape, dtype):
        return np.full(shape, 77, dtype).view(_There)

    def admit(self):
        self.admitted = True

    def current(self):
        return self

    def synchronize(self):
        self.users.add(threading.current_thread().name)


@pytest.mark.parametrize("size", [6, None])
def test_samples_are_brought_to_the_device_by_the_threads_that_read(case, size, monkeypatch):
    monkeypatch.setattr(volume_fetch, "Streams", _Streams)
    monkeypatch.setattr(volume_fetch, "to_cupy", lambda array, _number: array)
    for module in ("sources.volumes", "dataset.definition"):
        monkeypatch.setattr(
            import_module(f"seqpipe.{module}"),
            "parse_device",
            lambda name: Device(name[:4].strip(":"), 0),
        )
    prepare = Prepare(dtype="float32")
    here = seqpipe.volumes([case, case], size, prepare=prepare).batch(2)
    there = seqpipe.volumes([case, case], size, prepare=prepare, device="cuda").batch(2).prefetch(gib=1)
    with here, there:
        for one, other in zip(here, there, strict=True):
            for name in ("image", "label"):
                for a, b in zip(one[name], other[name], strict=True):
                    assert np.array_equal(a.data, b.data)
    assert _Streams.users
    assert threading.main_thread().name not in _Streams.users


@pytest.mark.parametrize("dtype", ["float32", None])
def test_whole_volumes_that_were_changed_leave_the_next_ones_as_they_are(case, dtype):
    with seqpipe.volumes(case, prepare=Prepare(dtype=dtype), cache=Cache(gib=1)) as dataset:
        first = dataset.sample(0)["image"].data
        kept = first.copy()
        first[...] = 0
        assert np.array_equal(dataset.sample(0)["image"].data, kept)
