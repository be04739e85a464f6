"""DICOM files as scanners write them: colors, frames, scales and positions are those that were put into them."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

import seqpipe
from data_scripts.make_volumes import AFFINE, phantom
from seqpipe.errors import DamagedSourceError, UnreadableSourceError
from seqpipe.volume.space import from_axes
from tests.support.volumes import needs

pydicom = needs("pydicom")

from pydicom.dataset import Dataset  # noqa: E402  after the check that it is installed
from pydicom.sequence import Sequence as Items  # noqa: E402
from pydicom.uid import BasicTextSRStorage  # noqa: E402

from data_scripts.volume_dicom import multi_frame, slices_of, write_slices  # noqa: E402


def _colors(slices, planar):
    """RGB slices; returns the voxels."""
    pixels = np.random.default_rng(planar).integers(0, 256, (len(slices), 26, 32, 3), dtype=np.uint8)
    for one, color in zip(slices, pixels, strict=True):
        one.SamplesPerPixel, one.PhotometricInterpretation, one.PlanarConfiguration = 3, "RGB", planar
        one.BitsAllocated, one.BitsStored, one.HighBit, one.PixelRepresentation = 8, 8, 7, 0
        one.PixelData = (np.moveaxis(color, -1, 0) if planar else color).tobytes()
    return pixels


def _unsigned(slices):
    for one in slices:
        one.PixelRepresentation = 0
    return phantom().astype(np.uint16)[..., None]


def _palette(slices):
    for one in slices:
        one.PhotometricInterpretation = "PALETTE COLOR"
    return phantom()[..., None]


@pytest.mark.parametrize(
    "change", [lambda s: _colors(s, 0), lambda s: _colors(s, 1), _unsigned, _palette], ids=range(4)
)
def test_voxels_have_the_type_and_the_channels_of_the_file(tmp_path, change):
    slices = slices_of(phantom(), AFFINE)
    voxels = change(slices)
    with seqpipe.open(write_slices(tmp_path / "series", slices)) as volume:
        assert (volume.info.dtype, volume.info.scale) == (voxels.dtype, None)
        assert np.array_equal(volume.sequence().data, voxels)
        assert np.array_equal(volume[3:5, 2:9, 4:5].data, voxels[3:5, 2:9, 4:5])


def test_the_spacing_of_the_detector_stands_in_for_that_of_the_pixels(tmp_path):
    slices = slices_of(phantom(), AFFINE)
    for one in slices:
        one.ImagerPixelSpacing = one.PixelSpacing
        del one.PixelSpacing
    with seqpipe.open(write_slices(tmp_path / "series", slices)) as volume:
        np.testing.assert_allclose(volume.affine, AFFINE, atol=1e-5)


def test_slices_without_a_position_are_ordered_by_their_numbers(tmp_path):
    slices = slices_of(phantom(), AFFINE)
    for one in slices:
        del one.ImagePositionPatient, one.ImageOrientationPatient
    with seqpipe.open(write_slices(tmp_path / "series", slices[::-1])) as volume:
        assert np.array_equal(volume.sequence().data[..., 0], phantom())
        assert volume.info.space == "assumed"
        assert any("slices have no position" in note for note in volume.info.notes)
        np.testing.assert_allclose(
            volume.affine, from_axes(np.diag([1.25, 1.5, 2.5]), (0, 0, 0), lps=True), atol=1e-9
        )


def test_one_slice_has_its_thickness(tmp_path):
    slices = slices_of(phantom()[:1], AFFINE)
    for said, thickness in (("", "2.5"), ("the slice has no thickness: 1 mm is assumed", None)):
        if thickness is None:
            del slices[0].SliceThickness
        write_slices(tmp_path / str(thickness), slices)
        with seqpipe.open(tmp_path / str(thickness)) as volume:
            assert volume.spacing_mm == pytest.approx((float(thickness or 1), 1.5, 1.25))
            assert [note for note in volume.info.notes if "thickness" in note] == [said] * bool(said)


@pytest.mark.parametrize(
    "tag", ["TemporalPositionIdentifier", "AcquisitionNumber", "TriggerTime", "FrameReferenceTime"]
)
def test_slices_at_one_place_are_a_series_by_any_number(tmp_path, tag):
    slices = []
    for time in (1, 0):
        for one in slices_of(phantom() + time, AFFINE):
            setattr(one, tag, time + 1)
            one.InstanceNumber = 1
            slices.append(one)
    with seqpipe.open(write_slices(tmp_path / "series", slices)) as volume:
        assert np.array_equal(volume.sequence().data[..., 0], [phantom(), phantom() + 1])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([{"EchoTime": "9.5"}, {"EchoTime": "4.6"}], "echo times in ms of the volumes: 4.6, 9.5"),
        ([{"DiffusionBValue": 1000.0}, {}], "b-values in s/mm² of the volumes: 0, 1000"),
        (
            [
                {"DiffusionBValue": 700.0, "DiffusionGradientOrientation": [0.0, 1.0, 0.0]},
                {"DiffusionBValue": 700.0, "DiffusionGradientOrientation": [0.0, 0.0, 1.0]},
            ],
            None,
        ),
    ],
)
def test_slices_at_one_place_are_a_series_by_echo_time_or_diffusion(tmp_path, fields, said):
    """Acquisition numbers count slices, as some scanners do, so that they tell no volumes apart."""
    slices = []
    for number, own in enumerate(fields):
        for place, one in enumerate(slices_of(phantom() + number, AFFINE)):
            one.AcquisitionNumber = 2 * place + number + 1
            for name, value in own.items():
                setattr(one, name, value)
            slices.append(one)
    with seqpipe.open(write_slices(tmp_path / "series", slices)) as volume:
        assert volume.info.layout == "FDHWC"
        assert np.array_equal(volume.sequence().data[..., 0], [phantom() + 1, phantom()])
        assert [note for note in volume.info.notes if "volumes" in note] == [said] * (said is not None)


def test_slices_at_one_place_whose_times_do_not_match_are_no_series(tmp_path):
    slices = []
    for time in (1, 2):
        for one in slices_of(phantom()[:3], AFFINE):
            one.TemporalPositionIdentifier = time
            slices.append(one)
    slices[-1].TemporalPositionIdentifier = 3
    with pytest.raises(UnreadableSourceError, match="3 of 3 positions have more than one slice"):
        seqpipe.open(write_slices(tmp_path / "series", slices))


def _frames(path, change, frames=None):
    """A multi-frame file with its shared and its frames' groups changed."""
    one = pydicom.dcmread(multi_frame(path, phantom() if frames is None else frames, AFFINE))
    change(one)
    one.save_as(path, enforce_file_format=True)
    return path


def _scaled(slope, intercept):
    inner, group = Dataset(), Dataset()
    inner.RescaleSlope, inner.RescaleIntercept = str(slope), str(intercept)
    group.PixelValueTransformationSequence = Items([inner])
    return group.PixelValueTransformationSequence


def test_frames_have_their_own_scale_or_share_one(tmp_path):
    def own(one):
        for number, group in enumerate(one.PerFrameFunctionalGroupsSequence):
            group.PixelValueTransformationSequence = _scaled(number + 1, number)

    def shared(one):
        one.SharedFunctionalGroupsSequence[0].PixelValueTransformationSequence = _scaled(2, -5)

    with seqpipe.open(_frames(tmp_path / "shared.dcm", shared)) as volume:
        assert volume.info.scale == volume.sequence(stored=True).scale == (2.0, -5.0)
        assert np.array_equal(volume.sequence(stored=True).data[..., 0], phantom())
        assert np.array_equal(volume.sequence().data[..., 0], phantom() * 2.0 - 5)
    with seqpipe.open(_frames(tmp_path / "own.dcm", own)) as volume:
        number = np.arange(len(phantom()))[:, None, None]
        assert np.array_equal(volume.sequence().data[..., 0], phantom() * (number + 1.0) + number)


def _position_index(_file, group, number):
    content = Dataset()
    content.TemporalPositionIndex = number
    group.FrameContentSequence = Items([content])


def _trigger_time(_file, group, number):
    cardiac = Dataset()
    cardiac.NominalCardiacTriggerDelayTime = 400.0 * number
    group.CardiacSynchronizationSequence = Items([cardiac])


def _own_dimension(file, group, number):
    """A private dimension behind that of the place."""
    file.DimensionIndexSequence = Items([Dataset(), Dataset()])
    for item, tag in zip(file.DimensionIndexSequence, (0x00209057, 0x00191001), strict=True):
        item.DimensionIndexPointer = tag
    content = Dataset()
    content.DimensionIndexValues = [10 - number, number]
    group.FrameContentSequence = Items([content])


@pytest.mark.parametrize("tag", [_position_index, _trigger_time, _own_dimension])
def test_frames_at_one_place_are_a_series_by_their_tags(tmp_path, tag):
    def times(one):
        groups = list(one.PerFrameFunctionalGroupsSequence)
        for number, group in enumerate(groups):
            tag(one, group, 2 - number // 3)
            group.PlanePositionSequence = copy.deepcopy(groups[number % 3].PlanePositionSequence)

    with seqpipe.open(_frames(tmp_path / "a.dcm", times, phantom()[:6])) as volume:
        assert volume.info.layout == "FDHWC"
        assert np.array_equal(volume.sequence().data[..., 0], [phantom()[3:6], phantom()[:3]])
        assert np.array_equal(volume.sequence(times=[1]).data[..., 0], phantom()[None, :3])


def test_a_file_of_one_frame_and_one_without_groups(tmp_path):
    with seqpipe.open(_frames(tmp_path / "one.dcm", lambda _: None, phantom()[:1])) as volume:
        assert np.array_equal(volume.sequence().data[..., 0], phantom()[:1])
        np.testing.assert_allclose(volume.affine, AFFINE, atol=1e-5)

    def plain(one):
        """An old multi-frame file, such as of ultrasound: one position for all frames."""
        slices = slices_of(phantom(), AFFINE)
        del one.SharedFunctionalGroupsSequence, one.PerFrameFunctionalGroupsSequence
        one.ImagePositionPatient = slices[0].ImagePositionPatient
        one.ImageOrientationPatient = slices[0].ImageOrientationPatient

    with seqpipe.open(_frames(tmp_path / "plain.dcm", plain)) as volume:
        assert np.array_equal(volume.sequence().data[..., 0], phantom())
        assert volume.info.space == "assumed"


def test_a_groups_item_may_be_missing(tmp_path):
    def fewer(one):
        one.PerFrameFunctionalGroupsSequence = one.PerFrameFunctionalGroupsSequence[:-1]

    with seqpipe.open(_frames(tmp_path / "a.dcm", fewer)) as volume:
        assert volume.info.space == "assumed"  # for the last frame has no position
        assert np.array_equal(volume.sequence().data[..., 0], phantom())


@pytest.mark.parametrize(("center", "width"), [("40", "400"), (["40", "50"], ["400", "500"])])
def test_the_window_is_the_first_that_the_header_states(tmp_path, center, width):
    slices = slices_of(phantom(), AFFINE)
    for one in slices:
        one.WindowCenter = center
    for header, window in (({"WindowWidth": width}, [40.0, 400.0]), ({}, None)):
        for one in slices:
            one.update(header)
            if not header:
                del one.WindowWidth
        with seqpipe.open(write_slices(tmp_path / str(window), slices)) as volume:
            assert volume.info.header.get("window") == window


@pytest.mark.parametrize(
    "turned",
    [["1", "0", "0", "1", "0", "0"], ["2", "0", "0", "0", "1", "0"], ["nan", "0", "0", "0", "1", "0"]],
)
def test_an_orientation_that_is_none_is_refused_by_its_name(tmp_path, turned):
    slices = slices_of(phantom()[:2], AFFINE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydicom's, of a value that is no number
        for one in slices:
            one.ImageOrientationPatient = turned
        write_slices(tmp_path / "series", slices)
    with pytest.raises(UnreadableSourceError, match=r"ImageOrientationPatient of IM00000 is \["):
        seqpipe.open(tmp_path / "series")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"Rows": 13, "Columns": 64}, r"slices have different sizes: 17 of 26×32, 1 of 13×64"),
        ({"PixelRepresentation": 0}, r"different types: 17 of 16 bits, signed, 1 of 16 bits"),
    ],
)
def test_slices_that_do_not_match_are_counted(tmp_path, change, said):
    slices = slices_of(phantom(), AFFINE)
    slices[4].update(change)
    with pytest.raises(UnreadableSourceError, match=said):
        seqpipe.open(write_slices(tmp_path / "series", slices))


def test_a_slice_that_is_replaced_by_a_smaller_one_is_named(tmp_path):
    folder = write_slices(tmp_path / "series", slices_of(phantom(), AFFINE))
    with seqpipe.open(folder) as volume:
        write_slices(folder, slices_of(phantom()[:, :13], AFFINE)[:1])
        with pytest.raises(DamagedSourceError, match=r"IM00000: \(13, 32\) pixels are not 26×32"):
            volume.sequence()


def test_files_without_an_image_beside_the_slices_are_left_out(tmp_path):
    slices = slices_of(phantom(), AFFINE)
    report = copy.deepcopy(slices[0])
    del report.Rows, report.Columns, report.PixelData
    # a CT image without pixels is one that was cut short, a report is not
    report.SOPClassUID = report.file_meta.MediaStorageSOPClassUID = BasicTextSRStorage
    report.Modality = "SR"
    write_slices(tmp_path / "series", slices)
    report.save_as(tmp_path / "series" / "report", enforce_file_format=True)
    with seqpipe.open(tmp_path / "series") as volume:
        assert len(volume) == len(slices)
    with pytest.raises(
        UnreadableSourceError, match=r"no image: it is a Basic Text SR Storage \(SR\), without pixels"
    ):
        seqpipe.open(tmp_path / "series" / "report")
    for number in range(len(slices)):
        (tmp_path / "series" / f"IM{(number * 7919) % 10007:05d}").unlink()
    with pytest.raises(UnreadableSourceError, match="there is no DICOM file with an image"):
        seqpipe.open(tmp_path / "series")
