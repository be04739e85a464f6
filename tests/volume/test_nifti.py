"""NIfTI's headers: every type and byte order, and the rules where nibabel and ITK differ."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqpipe
from seqpipe import Sequence
from seqpipe.errors import ParameterError, SourceError, UnreadableSourceError
from seqpipe.parts import Labels
from seqpipe.volume import save, to_canonical
from seqpipe.volume.formats.nifti import TYPES
from seqpipe.volume.formats.write import nifti_bytes, quaternion_of
from seqpipe.volume.space import quaternion_matrix
from tests.support.volumes import needs

SHAPE = (5, 6, 7)


def image_of(
    array, affine=None, *, sform=1, qform=1, q_affine=None, kind="Nifti1Image", change=lambda _: None
):
    nibabel = needs("nibabel")
    affine = np.diag([2.0, 3.0, 4.0, 1.0]) if affine is None else affine
    image = getattr(nibabel, kind)(array, affine, dtype=array.dtype)
    image.header.set_xyzt_units("mm", "sec")
    image.set_sform(affine if sform else None, sform)
    image.set_qform(affine if q_affine is None else q_affine, qform)
    change(image.header)
    return image


def opened(image):
    return seqpipe.open(image.to_bytes())


@pytest.mark.parametrize("number", [n for n, (code, _) in TYPES.items() if n not in (128, 2304)])
@pytest.mark.parametrize("order", "<>")
def test_every_type_in_both_byte_orders(number, order, tmp_path):
    nibabel = needs("nibabel")
    kind = np.dtype(TYPES[number][0])
    array = (np.arange(210).reshape(7, 6, 5) - (100 if kind.kind in "ifc" else 0)).astype(kind)
    header = nibabel.Nifti1Header(endianness=order)
    header.set_data_dtype(kind)
    path = tmp_path / "a.nii"
    nibabel.save(nibabel.Nifti1Image(array, np.eye(4), header, dtype=kind), path)
    with seqpipe.open(path) as volume:
        found = volume.sequence()
        assert found.data.dtype == kind
        assert np.array_equal(found.data[..., 0], array.T)
        assert np.array_equal(volume[1:3, 2:3].data, found.data[1:3, 2:3])


def test_a_sixth_axis_is_refused_unless_it_is_one_long():
    array = np.arange(5 * 6 * 7, dtype=np.int16).reshape(5, 6, 7, 1, 1, 1)
    with opened(image_of(array)) as volume:
        assert np.array_equal(volume.sequence().data[..., 0], array[..., 0, 0, 0].T)
    with pytest.raises(
        UnreadableSourceError, match="the volume has the shape 5×6×7×1×1×2; allowed: columns, rows"
    ):
        opened(image_of(np.concatenate([array, array], axis=5)))


@pytest.mark.parametrize(("channels", "number"), [(3, 128), (4, 2304)])
def test_colors_are_channels(channels, number):
    pixels = np.arange(np.prod(SHAPE) * channels).reshape(*SHAPE, channels).astype(np.uint8)
    data = nifti_bytes(Sequence(pixels, "DHWC", affine=np.eye(4)))
    nibabel = needs("nibabel")
    judge = np.asarray(nibabel.Nifti1Image.from_bytes(data).dataobj)
    assert judge.dtype.names == tuple("RGBA"[:channels])
    assert np.array_equal(judge["G"].T, pixels[..., 1])
    with seqpipe.open(data) as volume:
        assert volume.info.header["type"] == number
        assert np.array_equal(volume.sequence().data, pixels)


def test_series_and_vectors(tmp_path):
    nibabel = needs("nibabel")
    array = np.arange(7 * 6 * 5 * 4 * 3).reshape(7, 6, 5, 4, 3).astype(np.float32)
    with opened(image_of(array)) as volume:
        assert (volume.info.layout, volume.shape) == ("FDHWC", (4, 5, 6, 7, 3))
        assert np.array_equal(volume.sequence().data, array.transpose(3, 2, 1, 0, 4))
        assert np.array_equal(volume.sequence(times=[3, 1]).data, array.transpose(3, 2, 1, 0, 4)[[3, 1]])
        assert np.array_equal(volume.sequence(times=-1).data, array.transpose(3, 2, 1, 0, 4)[3])
        assert np.array_equal(volume[2:4, 1:2].data, array.transpose(3, 2, 1, 0, 4)[:, 2:4, 1:2])
        with pytest.raises(ParameterError, match="contains 4"):
            volume.sequence(times=[4])
    series = array[..., 0]
    image = image_of(series, change=lambda header: header["pixdim"].__setitem__(4, 2.5))
    with opened(image) as volume:
        assert volume.info.time_step_s == 2.5
        save(volume.sequence(), tmp_path / "s.nii.gz", time_step_s=2.5)
    again = nibabel.load(tmp_path / "s.nii.gz")
    assert np.array_equal(np.asarray(again.dataobj), series)
    assert again.header.get_zooms()[3] == 2.5
    with opened(image_of(array[:, :, :, :1])) as volume:
        assert (volume.info.layout, volume.shape) == ("DHWC", (5, 6, 7, 3))


@pytest.mark.parametrize("slope", [0.0, float("nan")])
def test_a_slope_of_nothing_is_none(slope):
    data = bytearray(nifti_bytes(Sequence(np.ones((*SHAPE, 1), np.int16), "DHWC", affine=np.eye(4))))
    data[112:116] = np.float32(slope).tobytes()
    with seqpipe.open(bytes(data)) as volume:
        assert volume.info.scale is None


def _rotation(angle):
    turned = np.eye(4)
    turned[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return turned


def test_the_rules_where_forms_differ():
    """The table of disagreements: the sform counts if it has a code, as by nibabel; ITK would take the qform."""
    array = np.zeros((7, 6, 5), np.int16)
    one, other = _rotation(0.3) @ np.diag([2, 3, 4, 1]), np.diag([2.0, 3.0, 4.0, 1.0])
    for sform, qform in ((2, 1), (1, 1), (1, 2)):
        with opened(image_of(array, one, sform=sform, qform=qform, q_affine=other)) as volume:
            assert volume.info.space == "sform"
            np.testing.assert_allclose(volume.affine[:, [2, 1, 0, 3]], one, atol=1e-6)
            assert "sform (" in volume.info.notes[0]
            assert "differ" in volume.info.notes[0]
    with opened(image_of(array, one, sform=0, qform=1, q_affine=one)) as volume:
        assert volume.info.space == "qform"
        np.testing.assert_allclose(volume.affine[:, [2, 1, 0, 3]], one, atol=1e-6)
    image = image_of(array, one, sform=0, qform=0, q_affine=one)
    with opened(image) as volume:
        assert volume.info.space == "assumed"
        np.testing.assert_allclose(volume.affine[:, [2, 1, 0, 3]], image.header.get_best_affine(), atol=1e-6)
    sheared = other.copy()
    sheared[0, 1] = 1.0
    with opened(image_of(array, sheared, q_affine=other)) as volume:
        np.testing.assert_allclose(volume.affine[:, [2, 1, 0, 3]], sheared, atol=1e-6)


def test_a_spacing_of_zero_becomes_one_and_is_said():
    affine = np.diag([2.0, 3.0, 0.0, 1.0])
    data = bytearray(
        nifti_bytes(Sequence(np.ones((*SHAPE, 1), np.int16), "DHWC", affine=np.eye(4)[:, [2, 1, 0, 3]]))
    )
    data[252:254] = np.int16(0).tobytes()
    data[280:328] = affine[:3].astype("<f4").tobytes()
    with seqpipe.open(bytes(data)) as volume:
        assert volume.spacing_mm == pytest.approx((1, 3, 2))
        assert volume.orientation == "RAS"
        assert "has no spacing of slices: 1 mm is assumed" in volume.info.notes[0]


def test_units_other_than_mm_are_said_and_left_alone():
    image = image_of(np.zeros((7, 6, 5), np.int16), change=lambda header: header.set_xyzt_units("micron"))
    with opened(image) as volume:
        assert volume.spacing_mm == pytest.approx((4, 3, 2))
        assert "µm" in volume.info.notes[0]


def test_the_other_file_of_a_pair_may_be_missing(tmp_path):
    nibabel = needs("nibabel")
    nibabel.save(image_of(np.zeros((7, 6, 5), np.int16), kind="Nifti1Pair"), tmp_path / "a.img")
    for name in ("a.img", "a.hdr"):
        assert seqpipe.open(tmp_path / name).shape == (5, 6, 7, 1)
    (tmp_path / "b.hdr").write_bytes((tmp_path / "a.hdr").read_bytes())
    with pytest.raises(SourceError, match="the voxels of this NIfTI header are missing"):
        seqpipe.open(tmp_path / "b.hdr")
    (tmp_path / "c.img").write_bytes((tmp_path / "a.img").read_bytes())
    with pytest.raises(SourceError, match="the header of these voxels is missing"):
        seqpipe.open(tmp_path / "c.img")


affines = st.builds(
    lambda angles, spacing, flip, offset: _affine(angles, spacing, flip, offset),
    st.tuples(*[st.floats(-3.1, 3.1)] * 3),
    st.tuples(*[st.floats(0.2, 9)] * 3),
    st.booleans(),
    st.tuples(*[st.floats(-200, 200)] * 3),
)


def _affine(angles, spacing, flip, offset):
    a, b, c = angles
    x = np.array([[1, 0, 0], [0, np.cos(a), -np.sin(a)], [0, np.sin(a), np.cos(a)]])
    y = np.array([[np.cos(b), 0, np.sin(b)], [0, 1, 0], [-np.sin(b), 0, np.cos(b)]])
    z = np.array([[np.cos(c), -np.sin(c), 0], [np.sin(c), np.cos(c), 0], [0, 0, 1]])
    affine = np.eye(4)
    affine[:3, :3] = x @ y @ z * np.array(spacing) * [1, 1, -1 if flip else 1]
    affine[:3, 3] = offset
    return affine


@settings(max_examples=60, deadline=None)
@given(affines)
def test_what_is_written_is_where_it_was_for_nibabel_and_itk(affine):
    nibabel = needs("nibabel")
    data = nifti_bytes(Sequence(np.zeros((*SHAPE, 1), np.int16), "DHWC", affine=affine))
    image = nibabel.Nifti1Image.from_bytes(data)
    judge = affine[:, [2, 1, 0, 3]]
    np.testing.assert_allclose(image.get_sform(), judge, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(image.get_qform(), judge, rtol=1e-4, atol=1e-3)
    with seqpipe.open(data) as volume:
        np.testing.assert_allclose(volume.affine, affine, rtol=1e-5, atol=1e-4)
        assert volume.orientation == "".join(nibabel.aff2axcodes(image.affine))
        canonical = to_canonical(volume.sequence())
        assert canonical.orientation == "RAS"
    with seqpipe.open(data[:254] + b"\0\0" + data[256:]) as volume:  # without sform_code
        assert volume.info.space == "qform"
        np.testing.assert_allclose(volume.affine, affine, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("qfac", "sign"), [(1.0, 1), (0.0, 1), (-1.0, -1)])
def test_a_quaternion_is_left_handed_for_a_negative_qfac_alone(qfac, sign):
    """NIfTI takes 0, of files that leave pixdim[0] empty, as 1."""
    found = quaternion_matrix((0.0, 0.0, 0.0), (2.0, 3.0, 4.0), (5.0, 6.0, 7.0), qfac)
    np.testing.assert_array_equal(found, [[2, 0, 0, 5], [0, 3, 0, 6], [0, 0, 4 * sign, 7], [0, 0, 0, 1]])


def test_a_sheared_affine_has_no_quaternion():
    sheared = np.eye(4)
    sheared[0, 1] = 0.3
    assert quaternion_of(sheared) is None
    assert quaternion_of(np.diag([0.0, 1, 1, 1])) is None


def test_long_axes_are_written_as_nifti_2():
    data = nifti_bytes(Sequence(np.zeros((1, 1, 40000, 1), np.uint8), "DHWC", affine=np.eye(4)))
    nibabel = needs("nibabel")
    assert nibabel.Nifti2Image.from_bytes(data).shape == (40000, 1, 1)
    with seqpipe.open(data) as volume:
        assert volume.shape == (1, 1, 40000, 1)


WRITTEN = [np.dtype(code) for code, channels in TYPES.values() if channels == 1]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["DHW", "DHWC", "FDHWC"]),
    st.integers(1, 5),
    st.sampled_from(
        [*WRITTEN, *(kind.newbyteorder(">") for kind in WRITTEN), np.dtype(bool), np.dtype("f2")]
    ),
    st.sampled_from([None, (2.0, -3.0)]),
    st.sampled_from([None, 2.5]),
)
def test_every_layout_and_type_is_written_as_nibabel_reads_it(layout, channels, kind, scale, step):
    nibabel = needs("nibabel")
    sizes = {"F": 2, "D": 3, "H": 4, "W": 5, "C": channels}
    array = np.random.default_rng(channels).integers(
        0, 2 if kind.kind == "b" else 100, [sizes[x] for x in layout]
    )
    sequence = Sequence(array.astype(kind), layout, affine=np.diag([2.0, 3.0, 4.0, 1.0]), scale=scale)
    data = nifti_bytes(sequence, time_step_s=step)
    full = sequence.data if "C" in layout else sequence.data[..., None]
    full = full if "F" in layout else full[None]

    image = nibabel.Nifti1Image.from_bytes(data)
    raw = np.asarray(image.dataobj.get_unscaled())
    if colors := kind in (np.uint8, np.bool_) and full.shape[-1] in (3, 4):
        raw = np.stack([raw[name] for name in "RGBA"[: full.shape[-1]]], axis=-1)
        raw = raw.reshape(*raw.shape[:3], -1, raw.shape[-1])
    else:
        raw = raw.reshape(*raw.shape, *[1] * (5 - raw.ndim))
    assert np.array_equal(raw.transpose(3, 2, 1, 0, 4), full)
    assert image.header["sform_code"] == image.header["qform_code"] == 1
    assert image.header.get_xyzt_units() == ("mm", "sec")
    assert image.header.get_intent()[0] == ("vector" if full.shape[-1] > 1 and not colors else "none")
    assert colors or (image.dataobj.slope, image.dataobj.inter) == (scale or (1.0, 0.0))
    if image.ndim > 3:
        assert image.header.get_zooms()[3] == (step or 1.0)

    with seqpipe.open(data, stored=True) as volume:
        found = volume.sequence()
        assert found.layout == ("FDHWC" if layout == "FDHWC" else "DHWC")
        assert np.array_equal(found.data, full if layout == "FDHWC" else full[0])
        assert found.scale == (None if colors else scale)
        assert volume.info.time_step_s == ((step or 1.0) if layout == "FDHWC" else None)
        assert np.array_equal(volume.sequence(stored=False).data, found.scaled().data)


@pytest.mark.parametrize("ending", [".npy", ".npz"])
@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 4, 5, 2), (2, 3, 4, 5, 1)])
def test_arrays_are_written_as_numpy_reads_them(ending, shape, tmp_path):
    array = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    layout = {3: "DHW", 4: "DHWC", 5: "FDHWC"}[len(shape)]
    save(Sequence(array, layout, affine=np.diag([2.0, 3, 4, 1]), scale=(2.0, 1.0)), tmp_path / f"v{ending}")
    found = np.load(tmp_path / f"v{ending}")
    assert np.array_equal(found if ending == ".npy" else found["image"], array * 2 + 1)
    with seqpipe.open(tmp_path / f"v{ending}") as volume:
        assert volume.info.layout == ("FDHWC" if layout == "FDHWC" else "DHWC")
        assert volume.spacing_mm == ((1, 1, 1) if ending == ".npy" else (2, 3, 4))


def test_types_that_nifti_does_not_have_are_refused(tmp_path):
    with pytest.raises(ParameterError, match=r"NIfTI has no type for .*; allowed: complex128, .*uint8"):
        save(Sequence(np.zeros(SHAPE, np.longdouble), "DHW", affine=np.eye(4)), tmp_path / "v.nii")


def test_a_long_quaternion_is_said_and_colors_of_vectors_are_refused():
    data = bytearray(image_of(np.zeros((7, 6, 5), np.int16), sform=0).to_bytes())
    data[256:264] = np.array([0.9, 0.9], "<f4").tobytes()
    with seqpipe.open(bytes(data)) as volume:
        assert "the quaternion of the qform is longer than 1" in volume.info.notes
    data = bytearray(image_of(np.zeros((7, 6, 5, 1, 2), np.uint8)).to_bytes())
    data[70:74] = np.array([128, 24], "<i2").tobytes()
    with pytest.raises(UnreadableSourceError, match="voxels are both colors and vectors"):
        seqpipe.open(bytes(data))


def test_parts_of_a_sample_are_written_and_arrays_without_a_space_refused(tmp_path):
    labels = Labels(Sequence(np.ones(SHAPE, np.uint8), "DHW", affine=np.diag([2.0, 3.0, 4.0, 1.0])))
    save(labels, tmp_path / "labels.nii.gz")
    assert np.array_equal(seqpipe.open(tmp_path / "labels.nii.gz").sequence().affine, labels.affine)
    with pytest.raises(ParameterError, match=r"save: a ndarray has no position.*Sequence.*affine"):
        save(np.ones(SHAPE), tmp_path / "array.nii")


def test_nothing_is_left_behind_by_a_file_that_cannot_be_written(tmp_path):
    volume = Sequence(np.zeros((*SHAPE, 1), np.int16), "DHWC", affine=np.eye(4))
    with pytest.raises(ParameterError, match=r"unknown ending; allowed: \.nii"):
        save(volume, tmp_path / "a.tar")
    with pytest.raises(ParameterError, match="a sequence FHWC is not a volume"):
        save(Sequence(volume.data, "FHWC"), tmp_path / "a.nii")
    with pytest.raises(seqpipe.OutputError, match="cannot be written"):
        save(volume, tmp_path / "none" / "a.nii")
    assert list(tmp_path.iterdir()) == []


def test_a_header_that_is_cut_short_is_refused():
    data = nifti_bytes(Sequence(np.zeros((*SHAPE, 1), np.int16), "DHWC", affine=np.eye(4)))
    with pytest.raises(SourceError):
        seqpipe.open(data[:300])
    with pytest.raises(SourceError, match=r"ends|promises"):
        seqpipe.open(gzip.compress(data[:400])).sequence()
