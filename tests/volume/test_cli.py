"""The command line on volumes: probe, index, and slices, projections, montages and whole volumes by export."""

from __future__ import annotations

import json
import shutil

import cv2
import numpy as np
import pytest

import seqpipe
from data_scripts.make_volumes import phantom
from seqpipe.volume import save
from tests.support.command_line import run_command
from tests.support.volumes import phantom_path


@pytest.fixture
def run():
    return run_command


@pytest.fixture
def folder(tmp_path):
    """A volume, a DICOM series and a damaged volume, in a folder."""
    root = tmp_path / "in"
    root.mkdir()
    shutil.copy(phantom_path("nii_gz"), root / "a.nii.gz")
    shutil.copy(phantom_path("cut_nii_gz"), root / "cut.nii.gz")
    shutil.copytree(phantom_path("dicom"), root / "series")
    return root


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def names(folder):
    return sorted(
        p.relative_to(folder).as_posix()
        for p in folder.rglob("*")
        if p.is_file() and not p.name.startswith(".seqpipe")
    )


def test_probe_shows_shape_and_space(run, folder):
    text = run("probe", folder / "a.nii.gz").stdout
    for fact in ("18×26×32×1 DHWC", "int16", "2.5 × 1.5 × 1.25", "LPS", "sform"):
        assert fact in text
    found = lines(run("probe", folder, "--json").stdout)
    assert [(f["type"], f["format"]) for f in found] == [("volume", n) for n in ("nifti", "nifti", "dicom")]
    assert len(run("probe", folder).stdout.splitlines()) > 6


def test_index_reads_volumes_through_and_names_damaged_ones(run, folder):
    result = run("index", folder, "--json", code=1)
    *found, summary = lines(result.stdout)
    assert {f["source"].rpartition("/")[2]: f["status"] for f in found} == {
        "a.nii.gz": "fresh",
        "cut.nii.gz": "failed",
        "series": "fresh",
    }
    assert summary == {"type": "summary", "built": 0, "fresh": 2, "failed": 1}
    assert "the file ends after" in result.stderr


@pytest.mark.parametrize(
    ("axis", "count", "size"),
    [
        ("axial", 18, (31, 32)),
        ("coronal", 26, (36, 32)),
        ("sagittal", 32, (30, 26)),
        ("stored", 18, (31, 32)),
    ],
)
def test_slices_are_pictures_with_square_pixels(run, folder, tmp_path, axis, count, size):
    out = tmp_path / "out"
    run(
        "export", folder / "a.nii.gz", "--out", out, "--axis", axis, "--format", "png", "--window", "600,1200"
    )
    assert names(out) == [f"a/{number:06d}.png" for number in range(count)]
    first = cv2.imread(str(out / "a" / "000003.png"))
    assert first.shape[:2] == size


def test_a_window_turns_values_into_gray_levels(run, folder, tmp_path):
    run(
        "export",
        folder / "series",
        "--out",
        tmp_path,
        "--format",
        "png",
        "--window",
        "600,1200",
        "--frames",
        "9",
    )
    picture = cv2.imread(str(tmp_path / "series" / "000000.png"))[..., 0]
    with seqpipe.open(folder / "series") as volume:
        values = volume.reorient("LPS")[9].data[..., 0]
    wide = cv2.resize(
        np.rint(np.clip(values / 1200, 0, 1) * 255).astype(np.uint8), (32, 31), interpolation=cv2.INTER_LINEAR
    )
    assert np.array_equal(picture, wide)


@pytest.mark.parametrize("kind", [(), ("--mip",), ("--montage", "2x1")])
def test_complex_values_are_shown_by_their_magnitude(run, tmp_path, kind):
    values = np.random.default_rng(0).random((2, 6, 7)).astype(np.float32)
    parts = {"real": values, "complex": (values * np.exp(1j * values * 9)).astype(np.complex64)}
    pictures = []
    for name, data in parts.items():
        save(seqpipe.Sequence(data, "DHW", affine=np.eye(4)), tmp_path / f"{name}.nii")
        done = run("export", tmp_path / f"{name}.nii", "--out", tmp_path / name, "--format", "png", *kind)
        assert "Warning" not in done.stderr
        pictures.append([cv2.imread(str(path)) for path in sorted((tmp_path / name).rglob("*.png"))])
    assert all(np.array_equal(one, other) for one, other in zip(*pictures, strict=True))


def test_a_projection_and_a_montage_are_one_picture(run, folder, tmp_path):
    run(
        "export",
        folder / "a.nii.gz",
        "--out",
        tmp_path / "mip",
        "--mip",
        "--format",
        "png",
        "--window",
        "600,1200",
    )
    assert names(tmp_path / "mip") == ["a.png"]
    assert cv2.imread(str(tmp_path / "mip/a.png")).max() == 255
    run("export", folder / "a.nii.gz", "--out", tmp_path / "grid", "--montage", "3x2")
    assert cv2.imread(str(tmp_path / "grid/a.jpg")).shape == (62, 96, 3)


@pytest.mark.parametrize("ending", ["npy", "npz", "nii.gz"])
def test_whole_volumes_are_written_as_they_are(run, folder, tmp_path, ending):
    run("export", folder / "series", "--out", tmp_path, "--format", ending)
    with seqpipe.open(tmp_path / f"series.{ending}") as volume:
        assert np.array_equal(volume.sequence().data[..., 0], phantom())


def test_resume_goes_on_and_keeps_what_is_whole(run, folder, tmp_path):
    manifest = tmp_path / "all.jsonl"
    arguments = (
        "export",
        folder / "a.nii.gz",
        "--out",
        tmp_path / "out",
        "--every",
        "4",
        "--manifest",
        manifest,
    )
    run(*arguments)
    before = manifest.read_text("utf-8")
    assert "exists already" in run(*arguments, code=2).stderr
    (tmp_path / "out/a/000002.jpg").unlink()
    times = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "out/a").iterdir()}
    assert "4 kept" in run(*arguments, "--resume").stderr
    assert len(names(tmp_path / "out")) == 5
    assert {n: (tmp_path / "out/a" / n).stat().st_mtime_ns for n in times} == times
    assert sorted(before.splitlines()) == sorted(manifest.read_text("utf-8").splitlines())
    # other pixels: nothing is replaced, unless it is asked for
    assert (
        "--window was not given and is 0,10" in run(*arguments, "--resume", "--window", "0,10", code=2).stderr
    )
    assert {n: (tmp_path / "out/a" / n).stat().st_mtime_ns for n in times} == times
    run(*arguments, "--overwrite", "--window", "0,10")
    assert all((tmp_path / "out/a" / n).stat().st_mtime_ns != times[n] for n in times)


def test_damaged_volumes_are_named_and_the_rest_is_exported(run, folder, tmp_path):
    result = run(
        "export", folder, "--out", tmp_path / "out", "--num", "2", "--manifest", tmp_path / "m.jsonl", code=1
    )
    assert "the file ends after" in result.stderr
    rows = lines((tmp_path / "m.jsonl").read_text("utf-8"))
    assert [row["status"] for row in rows].count("failed") == 1
    assert names(tmp_path / "out") == [
        "a/000000.jpg",
        "a/000001.jpg",
        "series/000000.jpg",
        "series/000001.jpg",
    ]
    run("export", folder, "--out", tmp_path / "two", "--num", "2", "--on-error", "raise", code=1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--fps", "2"), "--fps is for videos"),
        (("--mip", "--montage", "2x2"), "exclude one another"),
        (("--every", "2", "--num", "3"), "exclude one another"),
        (("--format", "npy", "--mip"), "writes the whole volume as it is"),
        (("--window", "40"), "does not have the form C,W"),
        (("--window", "40,0"), "does not have the form C,W"),
        (("--pattern", "{index}.png"), "ends in .png, but the format is jpg"),
    ],
)
def test_options_that_do_not_fit_are_refused(run, folder, tmp_path, options, said):
    assert said in run("export", folder / "a.nii.gz", "--out", tmp_path, *options, code=2).stderr
    assert names(tmp_path) == names(folder.parent)  # what was there before


def test_a_slice_that_is_not_there_is_an_error_of_its_volume(run, folder, tmp_path):
    assert (
        "there is no slice 99"
        in run("export", folder / "a.nii.gz", "--out", tmp_path / "o", "--frames", "99", code=1).stderr
    )


def test_a_dry_run_writes_nothing(run, folder, tmp_path):
    text = run("export", folder / "a.nii.gz", "--out", tmp_path / "out", "--dry-run").stdout
    assert "18 files would be written" in text
    assert not (tmp_path / "out").exists()


def test_options_for_volumes_mean_nothing_for_videos(run, tmp_path):
    from tests.support.media import made

    result = run("export", made("h264"), "--out", tmp_path / "o", "--mip", code=2)
    assert "--mip means nothing for videos" in result.stderr


def test_a_time_step_that_is_not_there_is_an_error_of_its_volume(run, tmp_path):
    nib = pytest.importorskip("nibabel")
    nib.save(nib.Nifti1Image(np.zeros((4, 5, 6, 3), np.int16), np.eye(4)), tmp_path / "time.nii.gz")
    command = ("export", tmp_path / "time.nii.gz", "--out", tmp_path / "o", "--time")
    assert "there is no time step 3; allowed: -3 to 2." in run(*command, 3, code=1).stderr
    assert "6 files written" in run(*command, -3).stderr


def test_many_volumes_at_once_give_the_files_of_one_by_one(run, tmp_path):
    found = [shutil.copy(phantom_path("nii_gz"), tmp_path / f"{n}.nii.gz") for n in range(5)]
    for jobs in (1, 3):
        manifest = tmp_path / f"{jobs}.jsonl"
        run(
            "export",
            *found,
            "--out",
            tmp_path / f"o{jobs}",
            "--jobs",
            jobs,
            "--num",
            4,
            "--manifest",
            manifest,
        )
    assert names(tmp_path / "o1") == names(tmp_path / "o3")
    rows = [sorted(map(str, lines((tmp_path / f"{jobs}.jsonl").read_text("utf-8")))) for jobs in (1, 3)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 20


def test_a_folder_of_videos_and_volumes_names_one_of_each(run, folder, tmp_path):
    from tests.support.media import made

    shutil.copy(made("h264"), folder / "clip.mp4")
    text = " ".join(run("export", folder, "--out", tmp_path / "o", code=2).stderr.split())
    assert f"videos (such as {folder}/clip.mp4) and volumes (such as {folder}/a.nii.gz)" in text
    assert "1 file written" in run("export", f"{folder}/*.mp4", "--out", tmp_path / "o", "--num", 1).stderr


SERIES = np.random.default_rng(0).integers(0, 2000, (3, 4, 6, 7, 1)).astype(np.int16)


@pytest.fixture
def series(tmp_path):
    """A series of 3 volumes of 4 slices, with a scale in its file."""
    path = tmp_path / "in" / "bold.nii.gz"
    path.parent.mkdir()
    affine = np.eye(4)
    save(seqpipe.Sequence(SERIES, "FDHWC", affine=affine, scale=(1.0, -1000.0)), path, time_step_s=2.5)
    return path


def test_all_volumes_of_a_series_become_pictures_with_their_number(run, series, tmp_path):
    out, manifest = tmp_path / "out", tmp_path / "all.jsonl"
    common = ("--axis", "stored", "--format", "png", "--window", "0,2000")
    run("export", series, "--out", out, *common, "--manifest", manifest)
    assert names(out) == [f"bold/{v:03d}_{d:06d}.png" for v in range(3) for d in range(4)]
    for volume in range(3):
        for depth in range(4):
            picture = cv2.imread(str(out / f"bold/{volume:03d}_{depth:06d}.png"))[..., 0]
            meant = np.rint(SERIES[volume, depth, ..., 0] / 2000 * 255)
            assert np.abs(picture.astype(float) - meant).max() <= 1
    rows = [json.loads(line) for line in manifest.read_text("utf-8").splitlines()]
    assert sorted((row["sequence"], row["frame"]) for row in rows) == [
        (v, d) for v in range(3) for d in range(4)
    ]

    one = tmp_path / "one"
    run("export", series, "--out", one, *common, "--time", "-1")
    assert names(one) == [f"bold/{d:06d}.png" for d in range(4)]
    assert (one / "bold/000002.png").read_bytes() == (out / "bold/002_000002.png").read_bytes()

    out = tmp_path / "own"
    run(
        "export",
        series,
        "--out",
        out,
        *common,
        "--pattern",
        "{index:02d}-{volume}-{frame}.png",
        "--every",
        "2",
    )
    assert names(out) == ["00-0-0.png", "01-0-2.png", "02-1-0.png", "03-1-2.png", "04-2-0.png", "05-2-2.png"]


@pytest.mark.parametrize("kind", [("--mip",), ("--montage", "2x2")])
def test_a_picture_of_each_volume_of_a_series_is_written(run, series, tmp_path, kind):
    out = tmp_path / "out"
    run("export", series, "--out", out, *kind, "--format", "png")
    assert names(out) == [f"bold_{volume:03d}.png" for volume in range(3)]
    result = run("export", series, "--out", out, *kind, "--format", "png", "--resume")
    assert "3 kept" in result.stderr


@pytest.mark.parametrize("ending", ["npy", "npz", "nii.gz"])
def test_a_series_is_written_whole_with_its_values(run, series, tmp_path, ending):
    out = tmp_path / "out"
    run("export", series, "--out", out, "--format", ending)
    with seqpipe.open(out / f"bold.{ending}") as volume:
        assert np.array_equal(volume.sequence().data, SERIES.astype(np.int32) - 1000)
        if ending == "nii.gz":
            assert (volume.info.scale, volume.info.time_step_s) == ((1.0, -1000.0), 2.5)
    run("export", series, "--out", out, "--format", ending, "--time", "1", "--overwrite")
    with seqpipe.open(out / f"bold.{ending}") as volume:
        assert np.array_equal(volume.sequence().data, SERIES[1].astype(np.int32) - 1000)


def test_volumes_of_a_series_share_a_window(run, tmp_path):
    values = np.ones((2, 3, 8, 8, 1), np.float32) * np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8, 1)
    save(
        seqpipe.Sequence(values * np.float32([[[[[1]]]], [[[[2]]]]]), "FDHWC", affine=np.eye(4)),
        tmp_path / "s.nii",
    )
    run("export", tmp_path / "s.nii", "--out", tmp_path / "out", "--format", "png", "--axis", "stored")
    first, second = (cv2.imread(str(tmp_path / f"out/s/{v:03d}_000000.png")).max() for v in range(2))
    assert second == 255
    assert abs(first - 128) < 4


@pytest.mark.parametrize(("channels", "said"), [(2, "the first is shown"), (5, "the first three are shown")])
def test_what_pictures_leave_out_of_a_voxel_is_said(run, tmp_path, channels, said):
    array = np.zeros((2, 3, 4, channels), np.float32)
    save(seqpipe.Sequence(array, "DHWC", affine=np.eye(4)), tmp_path / "v.nii")
    result = run("export", tmp_path / "v.nii", "--out", tmp_path / "out", "--format", "png")
    assert f"voxels have {channels} values; {said}" in result.stderr


def test_a_page_of_a_series_says_which_volume_it_shows(run, series, tmp_path):
    result = run("view", series, "--out", tmp_path / "page.html", "--time", "1")
    assert "shown is volume 1 of 3" in result.stderr
    assert "shown is volume 1 of 3" in (tmp_path / "page.html").read_text("utf-8")
    page = seqpipe.view.show(seqpipe.open(series).sequence(), time=2)
    assert page.panels[0].notes[0] == "shown is volume 2 of 3"


def test_one_of_two_series_is_chosen_on_the_command_line(run, tmp_path):
    """Messages listed the series, and no command could take one."""
    folder, page = phantom_path("two_series"), tmp_path / "page.html"
    out = tmp_path / "o"
    commands = [("probe", folder), ("export", folder, "--out", out), ("view", folder, "--out", page)]
    for command in commands:
        said = run(*command, code=1).stderr
        assert "1.2.3.4 (scout, 5 files)" in said
        assert "Choose one by --series" in said
        assert "there is no series '9'" in run(*command, "--series", "9", code=1).stderr
        run(*command, "--series", "1.2.3.4")
    assert "5×" in run("probe", folder, "--series", "1.2.3.4").stdout
    assert len(names(out)) == 5
    assert "scout" in page.read_text("utf-8")
    assert "5 kept" in run(*commands[1], "--series", "1.2.3.4", "--resume").stderr


def test_a_series_of_what_is_no_folder_is_refused(run, folder, tmp_path):
    one = folder / "a.nii.gz"
    for command, code in (
        (("probe", one), 1),
        (("view", one, "--out", tmp_path / "x.html"), 2),
        (("export", one, "--out", tmp_path), 1),
    ):
        assert "is for folders and lists of DICOM files" in run(*command, "--series", "9", code=code).stderr


def test_a_grid_of_thumbnails_is_for_videos(run, folder, tmp_path):
    said = run("export", folder / "a.nii.gz", "--out", tmp_path, "--sheet-grid", "4x2", code=2).stderr
    assert "--sheet-grid is for videos" in said
