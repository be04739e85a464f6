"""Phantoms with known geometry in every format; damaged ones are refused, and say why."""

from __future__ import annotations

import gzip
import io
import pickle

import numpy as np
import pytest
from PIL import Image

import seqpipe
from data_scripts.make_volumes import AFFINE, ITEMS, phantom
from seqpipe.errors import (
    DamagedSourceError,
    ParameterError,
    SeqpipeError,
    SourceNotFoundError,
    UnreadableSourceError,
)
from seqpipe.volume import VolumeReader
from seqpipe.volume.formats.dicom_series import DicomSlice, arranged
from tests.support.volumes import assert_places, needs, phantom_path

SOUND = [name for name, item in ITEMS.items() if not item.damage]
PLAIN = [n for n in SOUND if n not in ("nii_labels", "dicom_tilted", "dicom_slopes")]
PLACELESS = ("npy", "png", "tiff", "zarr")
DAMAGED = [name for name, item in ITEMS.items() if item.damage]


@pytest.mark.parametrize("name", PLAIN)
def test_every_format_gives_the_same_voxels_at_the_same_places(name):
    with seqpipe.open(phantom_path(name)) as volume:
        found = volume.sequence()
        assert found.layout == "DHWC"
        assert np.array_equal(found.data[..., 0], phantom())
        if name in PLACELESS:
            assert volume.info.space == "assumed"
            assert any("assumed" in note for note in volume.info.notes)
        else:
            np.testing.assert_allclose(volume.affine, AFFINE, atol=1e-5)
            assert_places(found.data[..., 0], found.affine)


@pytest.mark.parametrize("name", PLAIN)
def test_windows_and_slices_are_cuts_of_the_whole(name):
    whole = phantom()
    with seqpipe.open(phantom_path(name)) as volume:
        for window in (np.s_[3:9, 4:20, 5:6], np.s_[-3:, :5, 30:], np.s_[17:18], np.s_[0:2, 25]):
            part = volume[window]
            indices = tuple(window) if isinstance(window, tuple) else (window,)
            ranges = [slice(i, i + 1) if isinstance(i, int) else i for i in indices]
            cut = whole[tuple(ranges)]
            assert np.array_equal(part.data[..., 0], cut)
            assert part.data.flags.writeable
            starts = [
                r.indices(n)[0] for r, n in zip([*ranges, *[slice(None)] * 3], whole.shape, strict=False)
            ]
            np.testing.assert_allclose(part.affine @ [0, 0, 0, 1], volume.affine @ [*starts, 1], atol=1e-9)
        one = volume[-1]
        assert (one.layout, one.shape) == ("HWC", (26, 32, 1))
        assert np.array_equal(one.data[..., 0], whole[-1])


@pytest.mark.parametrize(
    "name", ["nii", "nii_gz", "nii2", "nrrd", "mha", "npy", "npz", "tiff", "dicom_multi_frame"]
)
def test_bytes_and_file_objects_open_as_paths_do(name):
    data = phantom_path(name).read_bytes()
    for origin in (data, io.BytesIO(data), phantom_path(name).as_uri()):
        with seqpipe.open(origin) as volume:
            assert np.array_equal(volume[4:9, 1:2].data[..., 0], phantom()[4:9, 1:2])


COMPRESSED = {
    "nii": False,
    "nii_gz": True,
    "nrrd": True,
    "nrrd_raw": False,
    "mha": True,
    "npy": False,
    "npz": True,
}


@pytest.mark.parametrize(("name", "compressed"), COMPRESSED.items())
def test_it_is_known_whether_a_file_is_compressed(name, compressed):
    with seqpipe.open(phantom_path(name)) as volume:
        assert volume.info.compressed is compressed
    if name in ("nii", "npy"):  # others compress their voxels themselves
        with seqpipe.open(gzip.compress(phantom_path(name).read_bytes())) as volume:
            assert volume.info.compressed is True
            assert np.array_equal(volume.sequence().data[..., 0], phantom())


@pytest.mark.parametrize(
    ("names", "key", "chosen"),
    [
        (["scan"], None, "scan"),
        (["scan", "affine"], None, "scan"),
        (["mask", "image"], None, "image"),
        (["arr_1", "arr_0"], None, "arr_0"),
        (["mask", "image"], "mask", "mask"),
        (["mask", "scan"], None, "the archive has 2 arrays; allowed: mask, scan. Name one with key"),
        (["image"], "scan", "the archive has no array 'scan'; allowed: image"),
        (["image", "data"], "scan", "the archive has no array 'scan'; allowed: image, data"),
        (["affine"], None, "the archive has 0 arrays; allowed: an archive with an array"),
    ],
)
def test_the_array_of_an_archive_is_the_only_the_usual_or_the_named_one(tmp_path, names, key, chosen):
    arrays = {name: np.full((3, 4, 5), number, np.int16) for number, name in enumerate(names)}
    np.savez(tmp_path / "v.npz", **{**arrays, **({"affine": np.eye(4)} if "affine" in names else {})})
    options = {} if key is None else {"key": key}
    if chosen not in names:
        with pytest.raises(UnreadableSourceError, match=chosen):
            seqpipe.open(tmp_path / "v.npz", **options)
        return
    with seqpipe.open(tmp_path / "v.npz", **options) as volume:
        assert (volume.sequence().data == names.index(chosen)).all()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("shape", "letters"),
    [
        ((4, 5), "HW"),
        ((3, 4, 5), "DHW"),
        ((3, 4, 5, 4), "DHWC"),
        ((3, 4, 5, 6), "FDHW"),
        ((2, 3, 4, 5, 6), "FDHWC"),
    ],
)
@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_arrays_in_either_order_have_the_layout_of_their_shape(tmp_path, order, shape, letters, ending):
    array = np.asarray(np.arange(np.prod(shape)).reshape(shape) % 251 - 7, "i2", order=order)
    path = tmp_path / f"v.{ending}"
    np.save(path, array) if ending == "npy" else np.savez_compressed(path, array)
    full = array.reshape([shape[letters.index(x)] if x in letters else 1 for x in "FDHWC"])
    with seqpipe.open(path) as volume:
        assert volume.info.layout == ("FDHWC" if "F" in letters else "DHWC")
        assert np.array_equal(volume.sequence().data, full if "F" in letters else full[0])
        window = full[:, :1, 1:3]
        assert np.array_equal(volume[:1, 1:3].data, window if "F" in letters else window[0])


@pytest.mark.parametrize("shape", [(3,), (1, 1, 1, 1, 1, 2)])
def test_arrays_of_too_few_or_too_many_axes_are_refused(shape):
    np.save(file := io.BytesIO(), np.zeros(shape))
    with pytest.raises(UnreadableSourceError, match=f"the array has {len(shape)} axes; allowed: HW, DHW"):
        seqpipe.open(file.getvalue())


def test_what_is_made_of_a_pickle_reads_the_same():
    with seqpipe.open(phantom_path("nii_gz")) as volume:
        turned = volume.reorient("PIL")
        again = pickle.loads(pickle.dumps(turned))
        assert again.orientation == "PIL"
        assert np.array_equal(again.sequence().data, turned.sequence().data)
        resampled = pickle.loads(pickle.dumps(turned.resample(2.0)))
        assert np.array_equal(resampled[2].data, turned.resample(2.0)[2].data)


def test_a_tilted_gantry_shears_the_affine_and_balls_stay_where_they_are():
    with seqpipe.open(phantom_path("dicom_tilted")) as volume:
        found = volume.sequence()
        assert_places(found.data[..., 0], found.affine)
        assert "tilted by 8.53 degrees" in volume.info.notes[0]


def test_slopes_that_differ_are_applied_when_slices_are_read():
    with seqpipe.open(phantom_path("dicom_slopes")) as volume:
        assert volume.info.scale is None
        meant = phantom().astype(np.float32) * np.arange(1, 19, dtype=np.float32)[:, None, None]
        assert np.array_equal(volume.sequence().data[..., 0], meant)
        assert volume.info.dtype == np.float32


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_damaged_says_what_is_wrong(name):
    path = phantom_path(name)
    with pytest.raises((UnreadableSourceError, DamagedSourceError)) as caught:
        VolumeReader(path).sequence()
    assert ITEMS[name].damage in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_slice_is_named_by_its_place():
    with pytest.raises(UnreadableSourceError, match=r"missing at -6\.25 mm \(between IM\d+ and IM\d+\)"):
        seqpipe.open(phantom_path("missing_slice"))


def slices_at(places):
    """Slices of 4×5 pixels of 0.7 mm, as of a CT."""
    return [
        DicomSlice(f"IM{n}", 0, 4, 5, place, (1, 0, 0, 0, 1, 0), (0.7, 0.7), 1.0, (1.0, 0.0), n)
        for n, place in enumerate(places)
    ]


@pytest.mark.parametrize("step", [0.625, 1.25, 3.0, 5.0])
def test_positions_that_are_rounded_to_a_tenth_of_a_millimeter_form_a_volume(step):
    layers = arranged(slices_at([(0, 0, round(n * step + 0.03, 1)) for n in range(40)]), "CT")
    assert np.linalg.norm(layers.affine[:3, 0]) == pytest.approx(step, rel=0.005)
    even = step in (3.0, 5.0)
    assert [note.startswith("slices are") for note in layers.notes] == [True] * (not even)


def test_a_slice_that_is_shifted_in_its_plane_is_named():
    places = [(0.0, 0.3 * n, 2.0 * n) for n in range(9)]  # a tilted gantry
    arranged(slices_at(places), "CT")
    places[6] = (3.0, 1.8, 12.0)
    with pytest.raises(UnreadableSourceError, match=r"IM6 lies 3\.00 mm beside the line"):
        arranged(slices_at(places), "CT")


def test_one_of_two_series_is_chosen_by_its_uid():
    folder = phantom_path("two_series")
    with seqpipe.open(folder, series="1.2.3.4") as volume:
        assert len(volume) == 5
        assert volume.info.header["description"] == "scout"
    with pytest.raises(UnreadableSourceError, match=r"no series '9'.*1\.2\.3\.4 \(scout, 5 files\)"):
        seqpipe.open(folder, series="9")


def test_dicom_files_can_be_listed():
    files = sorted(phantom_path("dicom").iterdir())
    with seqpipe.open(files) as volume:
        assert np.array_equal(volume.sequence().data[..., 0], phantom())
    with seqpipe.open(files[0]) as volume:
        assert len(volume) == 1


def test_a_multi_frame_dicom_file_is_no_video():
    """FFmpeg takes its first compressed frame for a film, and gave pictures that are nearly black."""
    path = phantom_path("dicom_multi_frame")
    with pytest.raises(UnreadableSourceError, match="this is a DICOM file, not a video"):
        seqpipe.videos(path, 1)
    assert isinstance(seqpipe.open(path), VolumeReader)


def test_compressed_dicom_is_decoded_by_pydicoms_plug_ins(tmp_path):
    pydicom = needs("pydicom")
    from data_scripts.volume_dicom import slices_of, write_slices

    slices = slices_of(phantom(), AFFINE)
    for one in slices:
        one.compress(pydicom.uid.RLELossless)
    write_slices(tmp_path / "rle", slices)
    with seqpipe.open(tmp_path / "rle") as volume:
        assert np.array_equal(volume.sequence().data[..., 0], phantom())
        assert volume.info.header["transfer_syntax"] == "RLE Lossless"


def test_slices_at_one_place_make_a_series_where_time_tells_them_apart(tmp_path):
    needs("pydicom")
    from data_scripts.volume_dicom import slices_of, write_slices

    slices = []
    for time in range(3):
        for one in slices_of(phantom() + time, AFFINE):
            one.TemporalPositionIdentifier = time + 1
            slices.append(one)
    write_slices(tmp_path / "dynamic", slices)
    with seqpipe.open(tmp_path / "dynamic") as volume:
        assert volume.info.layout == "FDHWC"
        assert np.array_equal(volume.sequence(times=[2, 0]).data[..., 0], [phantom() + 2, phantom()])


def test_a_dicom_slope_and_intercept_are_applied_or_kept_beside_stored_voxels(tmp_path):
    needs("pydicom")
    from data_scripts.volume_dicom import slices_of, write_slices

    slices = slices_of(phantom(), AFFINE)
    for one in slices:
        one.RescaleIntercept = "-1024"
    write_slices(tmp_path / "ct", slices)
    with seqpipe.open(tmp_path / "ct") as volume:
        found = volume.sequence(stored=True)
        assert found.scale == (1.0, -1024.0)
        assert np.array_equal(found.data[..., 0], phantom())
        scaled = volume.sequence()
        assert (scaled.dtype, scaled.scale) == (np.int32, None)
        assert np.array_equal(scaled.data, found.data.astype(np.int32) - 1024)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda v: v[18], "index 18 is out of range; allowed: -18 to 17"),
        (lambda v: v[3:3], "the range 3:3:None is not valid"),
        (lambda v: v[::2], "a step of 1"),
        (lambda v: v[0, 0, 0, 0], "4 ranges are too many"),
        (lambda v: v["a"], "'a' is not an index of a volume"),
        (lambda v: v.reorient("RAX"), "orientation='RAX' is not valid"),
        (lambda v: v.reorient("RLS"), "orientation='RLS' is not valid"),
        (lambda v: v.resample(0.0), "spacing_mm=0.0 is not valid"),
        (lambda v: v.resample(), "there is no grid to resample to"),
        (lambda v: v.resample(1.0, like=v), "exclude one another"),
        (lambda v: v.resample(1.0, interp="sinc"), "interp='sinc' is not valid"),
        (lambda v: v.sequence(times=[1]), "times=[1] contains 1"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(ask, said):
    with seqpipe.open(phantom_path("nii")) as volume, pytest.raises(SeqpipeError) as caught:
        ask(volume)
    assert said in str(caught.value)


def test_arguments_of_the_other_kind_are_refused():
    with pytest.raises(ParameterError, match="output is for videos"):
        seqpipe.open(phantom_path("npy"), output=seqpipe.OutputSpec())
    with pytest.raises(SourceNotFoundError):
        seqpipe.open("no/such/volume.nii.gz")


def test_a_folder_without_a_volume_says_so(tmp_path):
    with pytest.raises(UnreadableSourceError, match="the folder does not contain files"):
        seqpipe.open(tmp_path)
    (tmp_path / "notes.txt").write_text("none")
    with pytest.raises(UnreadableSourceError, match="the folder does not contain a volume"):
        seqpipe.open(tmp_path)


def test_a_picture_of_another_size_in_a_stack_is_named(tmp_path):
    import cv2

    for number, size in enumerate((8, 8, 9)):
        cv2.imwrite(str(tmp_path / f"s{number}.png"), np.zeros((size, 8), np.uint8))
    with (
        seqpipe.open(tmp_path) as volume,
        pytest.raises(UnreadableSourceError, match=r"s2\.png: the image is 9×8"),
    ):
        volume.sequence()


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "I;16"])
@pytest.mark.parametrize("ending", ["png", "tif", "pages"])
def test_stacks_have_the_channels_of_their_pictures(tmp_path, mode, ending):
    """OpenCV decodes to BGR."""
    rng = np.random.default_rng(len(mode))
    if mode == "I;16":
        array = rng.integers(0, 65536, (4, 5, 6, 1), dtype=np.uint16)
    else:
        array = rng.integers(0, 256, (4, 5, 6, len(mode)), dtype=np.uint8)
    if mode == "RGBA" and ending != "png":
        array[..., 3] = 255  # OpenCV multiplies the colors of a TIFF by their alpha
    pictures = [Image.fromarray(one.squeeze(-1) if one.shape[-1] == 1 else one) for one in array]
    path = tmp_path / "pages.tif"
    if ending == "pages":
        pictures[0].save(path, save_all=True, append_images=pictures[1:])
    else:
        path = tmp_path / "folder"
        path.mkdir()
        for number, picture in enumerate(pictures, 8):
            picture.save(path / f"s{number}.{ending}")
    with seqpipe.open(path) as volume:
        assert np.array_equal(volume.sequence().data, array)
        assert np.array_equal(volume[1:3, 2:4, 5:6].data, array[1:3, 2:4, 5:6])
        volume.close()
        assert np.array_equal(volume[2].data, array[2])  # opened again
    if ending != "pages":
        files = sorted(path.iterdir(), reverse=True)
        with seqpipe.open(files) as volume:  # in the order that is given
            assert volume.shape == array.shape
            by_name = {
                file: number for number, file in enumerate(sorted(files, key=lambda f: int(f.stem[1:])))
            }
            assert np.array_equal(volume.sequence().data, array[[by_name[file] for file in files]])


def test_pages_that_differ_and_files_that_are_no_pictures_are_named(tmp_path):
    pictures = [Image.fromarray(np.zeros((5, 6 + n), np.uint8)) for n in range(2)]
    pictures[0].save(tmp_path / "pages.tif", save_all=True, append_images=pictures[1:])
    with pytest.raises(UnreadableSourceError, match="the pages differ: 5×6 uint8, 5×7 uint8"):
        seqpipe.open(tmp_path / "pages.tif")
    with pytest.raises(UnreadableSourceError, match="the pages differ: 5×6 uint8, 5×7 uint8"):
        seqpipe.open(gzip.compress((tmp_path / "pages.tif").read_bytes()))
    with pytest.raises(
        UnreadableSourceError,
        match=r"the directory at byte 8 has 9 entries, but the file has 40 bytes|this TIFF file (cannot be|has no)",
    ):
        seqpipe.open((tmp_path / "pages.tif").read_bytes()[:40])
    (tmp_path / "folder").mkdir()
    pictures[0].save(tmp_path / "folder" / "a.png")
    (tmp_path / "folder" / "b.png").write_bytes(b"no picture")
    with (
        seqpipe.open(tmp_path / "folder") as volume,
        pytest.raises(
            UnreadableSourceError, match=r"b\.png: these 10 bytes are not an image that can be decoded"
        ),
    ):
        volume.sequence()


def test_the_reader_says_what_it_is():
    with seqpipe.open(phantom_path("nii")) as volume:
        assert "18×26×32 voxels of 2.5 × 1.5 × 1.25 mm, LPS" in repr(volume)
        assert "LPS" in repr(volume.sequence())
        assert volume.info.to_json()["spacing_mm"] == pytest.approx([2.5, 1.5, 1.25], abs=1e-6)


@pytest.mark.parametrize(("value", "mm"), [("3", 3), ("e", 1), (".", 1), ("1e999", 1), ("-2", 1)])
def test_a_spacing_of_tiff_pages_that_is_no_length_is_ignored(tmp_path, value, mm):
    import tifffile

    path = tmp_path / "pages.tif"
    said = f"ImageJ=1.53\nimages=2\nslices=2\nspacing={value}\n"
    tifffile.imwrite(path, np.zeros((2, 8, 8), np.uint8), description=said, metadata=None)
    with seqpipe.open(path) as volume:
        assert volume.spacing_mm == (mm, 1, 1)
