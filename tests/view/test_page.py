"""Pages read back: pixels, labels, facts, and what is said of what cannot be shown."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import seqpipe
from seqpipe.cli import main
from seqpipe.errors import OutputError, ParameterError
from seqpipe.ops import Chain, Flip, Flip3d, GaussianNoise3d
from seqpipe.parts import Boxes, Labels, Points
from seqpipe.view import compare, show
from seqpipe.view.encoding import colors, downsample_mean, downsample_nearest, level_values, mosaic, quantize
from seqpipe.volume import reorient
from tests.support.media import made
from tests.support.volumes import phantom_path

from .pages import Read, picture_of, volume_of

LPS = np.array([[0, 0, -1.5, 10], [0, -1.25, 0, 20], [2.0, 0, 0, -30], [0, 0, 0, 1]])


def volume(shape=(5, 6, 7), dtype=np.int16, affine=LPS):
    values = np.arange(np.prod(shape)).reshape(*shape, 1).astype(dtype)
    return seqpipe.Sequence(values, "DHWC", affine=affine)


def values_of(data):
    return np.array(data["values"])[volume_of(data)]


def test_a_small_volume_keeps_each_value_and_its_place():
    turned = volume(
        affine=np.diag([1.0, 1.0, 2.0, 1.0])[:, [2, 1, 0, 3]]
    )  # RAS: rows and columns run backwards
    data = Read(show(turned).html).volumes[0]
    shown = values_of(data)
    assert np.array_equal(shown, turned.data[:, ::-1, ::-1, 0])
    stored = np.array([*data["stored"], [0, 0, 0, 1]])
    place = np.rint(stored @ [1, 2, 3, 1]).astype(int)[:3]
    assert shown[1, 2, 3] == turned.data[(*place, 0)]
    in_mm = np.array([*data["affine"], [0, 0, 0, 1]]) @ [1, 2, 3, 1]
    assert np.allclose(in_mm, turned.affine @ [*place, 1])
    assert data["spacing"] == [2, 1, 1]


def test_a_large_volume_has_few_voxels_of_even_size():
    rng = np.random.default_rng(0)
    big = seqpipe.Sequence(rng.normal(0, 300, (12, 64, 48, 1)).astype(np.float32), "DHWC", affine=LPS)
    page = Read(
        show(big, label=big.with_pixels((big.data > 0).astype(np.uint8), "DHWC"), max_voxels=2000).html
    )
    data = page.volumes[0]
    assert np.prod(data["shape"]) <= 2000
    assert max(data["spacing"]) / min(data["spacing"]) < 1.5
    extent = np.array(data["shape"]) * data["spacing"]
    assert np.allclose(extent, np.array(big.shape[:3]) * big.spacing_mm)
    (note,) = (text for tag, _, text in page.all("li") if "are shown as" in text)
    assert note.startswith("12×64×48 voxels are shown as ")
    # the first voxel's center lies in the middle of the voxels that it stands for
    corner = np.array([*data["affine"], [0, 0, 0, 1]]) @ [-0.5, -0.5, -0.5, 1]
    assert np.allclose(corner, big.affine @ [-0.5, -0.5, -0.5, 1])
    assert set(np.unique(volume_of(data, "label"))) <= {0, 1}


def test_the_page_of_files_has_the_facts_of_probe_and_nothing_from_elsewhere():
    path = phantom_path("nii_gz")
    with seqpipe.open(path) as reader:
        expected, labels = reader.info.describe(), reader.sequence()
    page = show(path, label=labels, names={4: "the <ball>"})
    read = Read(page.html)
    rows = dict(zip((t for _, _, t in read.all("th")), (t for _, _, t in read.all("td")), strict=True))
    assert rows == expected
    assert "://" not in page.html
    assert "url(" not in page.html
    data = read.volumes[0]
    counts = dict(zip(*np.unique(labels.data, return_counts=True), strict=True))
    legend = [text for tag, _, text in read.all("li") if "voxels" in text]
    assert len(legend) == len(counts) - 1 == len(data["classes"])
    for line in legend:
        value = int(line.split("(")[1].split(")")[0] if "(" in line else line.split(":")[0])
        assert f"{counts[value]:,} voxels" in line
        assert f"{counts[value] * np.prod(labels.spacing_mm) / 1000:.4g} ml" in line
    assert not [element for element in read.elements if element[0] == "ball"]
    taken = np.array([0, *sorted(v for v in counts if v)])[volume_of(data, "label")]
    assert np.array_equal(taken, np.array(data["values"])[volume_of(data)])


def test_labels_on_another_grid_are_brought_onto_the_images():
    image = volume((8, 8, 8))
    fine = np.zeros((16, 16, 16, 1), np.uint8)
    fine[4:8] = 3
    affine = image.affine @ np.diag([0.5, 0.5, 0.5, 1.0])
    affine[:3, 3] -= image.affine[:3, :3] @ [0.25, 0.25, 0.25]
    page = Read(show(image, label=seqpipe.Sequence(fine, "DHWC", affine=affine)).html)
    assert np.array_equal(np.unique(np.nonzero(volume_of(page.volumes[0], "label"))[0]), [2, 3])
    assert any("labels are on another grid" in text for _, _, text in page.all("li"))


@pytest.mark.parametrize(
    ("shown", "what"),
    [
        (volume((1, 1, 9)), "DHWC"),
        (volume(affine=None), "DHWC"),
        (seqpipe.Sequence(np.full((3, 4, 5, 1), np.nan, np.float32), "DHWC", affine=LPS), "NaN or infinite"),
        (seqpipe.Sequence(np.ones((3, 4, 5), np.complex64), "DHW", affine=LPS), "DHW"),
        (seqpipe.Sequence(np.ones((2, 3, 4, 5, 1), bool), "FDHWC", affine=LPS), "FDHWC"),
        (seqpipe.Sequence(np.ones((3, 4, 5, 2), np.uint8), "DHWC"), "shown is the first"),
        (seqpipe.Sequence(np.ones((2, 3, 4, 5)), "CDHW"), "shown is the first"),
    ],
)
def test_any_volume_can_be_shown(shown, what):
    page = show(shown)
    assert what in page.html
    data = Read(page.html).volumes[0]
    assert volume_of(data).shape == tuple(data["shape"])
    json.dumps(data, allow_nan=False)


def test_colors_stay_colors():
    colored = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 3), np.uint8)
    data = Read(show(seqpipe.Sequence(colored, "DHWC")).html).volumes[0]
    assert np.array_equal(volume_of(data), colored)


def test_frames_of_a_video_have_their_numbers_and_times():
    path = made("h264_intra")
    page = Read(show(path, frames=5).html)
    with seqpipe.open(path) as video:
        numbers = [round(n) for n in np.linspace(0, len(video) - 1, 5)]
        frames = video.frames(numbers)
    images = page.all("img")
    assert [text for _, _, text in page.all("b")] == [str(n) for n in numbers]
    assert len(images) == 5
    for (_, attributes, _), frame, time in zip(images, frames.data, frames.timestamps, strict=True):
        shown = picture_of(attributes["src"]).astype(float)
        assert attributes["alt"].endswith(f"{time % 60:06.3f}")
        if shown.shape == frame.shape:
            assert np.abs(shown - frame).mean() < 3
    assert any(text == "codec" for _, _, text in page.all("th"))


def test_samples_are_shown_part_by_part():
    clip = seqpipe.Sequence(np.random.default_rng(0).random((3, 20, 30, 3), np.float32), "FHWC")
    mask = np.zeros((3, 20, 30), np.uint8)
    mask[1, 5:9, 5:9] = 7
    sample = {
        "image": clip,
        "mask": Labels(mask[..., None]),
        "tips": Points([[3.0, 4.0]]),
        "boxes": Boxes([[1.0, 2.0, 11.0, 12.0]]),
    }
    page = Read(show(sample).html)
    masks = [picture_of(a["src"]) for _, a, _ in page.all("img", class_="mask")]
    assert np.array_equal(np.stack(masks)[..., 3] > 0, mask > 0)
    assert page.all("circle", cx="3.00")
    assert page.all("rect", width="10.00")
    assert page.all("h2")[0][2] == "image"
    batch = seqpipe.Batch.of([volume()] * 3)
    assert len(show({"image": batch, "label": Labels(batch)}).panels) == 3
    assert len(batch.show().panels) == 3
    assert "three" not in show({"label": Labels(volume((2, 2, 2)))}).html


def test_samples_of_a_data_set_are_shown_and_compared_without_their_numbers():
    clip = seqpipe.Sequence(np.zeros((2, 6, 8, 3), np.uint8), "FHWC")
    sample = seqpipe.items([{"image": clip, "label": 3, "times": np.arange(2)}]).sample(0)
    assert {"label", "times", "index"} < set(sample)
    titles = [panel.title for panel in show(sample).panels]
    assert titles == ["image"]
    assert [panel.title for panel in compare(Chain(Flip()), sample).panels] == [
        "before: image",
        "after: image",
    ]


def test_points_of_volumes_lie_where_they_are():
    sample = {
        "image": volume(),
        "tips": Points([[1.0, 2.0, 3.0]]),
        "mm": Points([LPS @ [1, 2, 3, 1]][:1] and [(LPS @ [1, 2, 3, 1])[:3]], unit="mm"),
    }
    marks = Read(show(sample).html).volumes[0]["marks"]
    assert [mark["name"] for mark in marks] == ["tips", "mm"]
    for mark in marks:
        assert np.allclose(mark["low"], [1, 2, 3], atol=1e-3)


def test_summaries_in_notebooks_are_light():
    found = volume((60, 200, 200))._repr_html_()
    assert len(found) < 1000
    assert "60, 200, 200" in found
    page = volume().show()
    assert page._repr_html_().startswith("<iframe srcdoc=")


def test_before_and_after_have_what_was_drawn():
    sample = {
        "image": volume((8, 8, 8)),
        "label": Labels(volume((8, 8, 8), np.uint8).with_pixels(np.ones((8, 8, 8, 1), np.uint8), "DHWC")),
    }
    chain = Chain(Flip3d(width=True), GaussianNoise3d(sigma=(5.0, 9.0)))
    page = compare(chain, sample, epoch=1, index=3)
    before, after = page.panels
    assert (before.title, after.title) == ("before: image", "after: image")
    assert before.history == []
    assert [line.partition(":")[0] for line in after.history] == ["flip3d", "gaussian_noise3d"]
    drawn = float(after.history[1].partition("sigma = ")[2].split(",")[0])
    done = chain(sample, epoch=1, index=3)
    turned = reorient(done["image"], "LPS")
    assert drawn == pytest.approx(done.history[1]["drawn"]["sigma"], rel=1e-4)
    assert after.data["window"] == before.data["window"]
    assert np.abs(values_of(after.data) - turned.data[..., 0]).max() < 3
    assert before.group == after.group == "compared"


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    page = show(volume())
    place = tmp_path / "new" / "page.html"
    assert page.save(place) == place.stat().st_size
    assert place.read_text(encoding="utf-8") == page.html
    assert [p.name for p in place.parent.iterdir()] == ["page.html"]
    with pytest.raises(OutputError, match=r"cannot write .*page.html/under.html"):
        page.save(place / "under.html")


def test_no_name_ends_the_script_that_holds_it():
    hostile = "</script><img src=x onerror=alert(1)>"
    labels = volume().with_pixels(np.ones((5, 6, 7, 1), np.uint8), "DHWC")
    sample = {hostile: volume(), "label": Labels(labels), f"{hostile} tip": Points([[1.0, 2.0, 3.0]])}
    page = Read(show(sample, names={1: hostile}, title=hostile).html)
    assert page.all("img") == []
    assert [text for _, _, text in page.all("h2")] == [hostile]
    assert [mark["name"] for mark in page.volumes[0]["marks"]] == [f"{hostile} tip"]


def test_frames_of_any_type_are_shown_in_their_range():
    rng = np.random.default_rng(0)
    for frames, judge in (
        (gray := rng.integers(0, 256, (2, 16, 16, 1), np.uint8), gray),
        (deep := rng.integers(0, 65536, (2, 16, 16, 3), np.uint16), deep / 257),
        (share := rng.random((2, 16, 16, 3)), share * 255),
        (rng.random((2, 16, 16, 3)) < 0.5, None),
        (
            wide := rng.normal(0, 9, (2, 16, 16, 1)),
            np.interp(wide, np.percentile(wide, (0.5, 99.5)), (0, 255)),
        ),
        (np.full((2, 16, 16, 3), np.nan), np.zeros((2, 16, 16, 3))),
    ):
        shown = colors(frames)
        assert (shown.shape, shown.dtype) == ((2, 16, 16, 3), np.uint8)
        np.testing.assert_allclose(
            shown, np.broadcast_to(frames * 255 if judge is None else judge, shown.shape), atol=0.6
        )
    assert np.array_equal(colors(np.zeros((2, 4, 4, 2))), np.full((2, 4, 4, 3), 255)), (
        "flow of nothing is white"
    )


def test_wide_clips_are_made_smaller_with_their_masks():
    clip = seqpipe.Sequence(np.zeros((2, 500, 1000, 3), np.uint8), "FHWC")
    clip.data[:, :, 500:] = 200
    mask = np.zeros((500, 1000, 1), np.uint8)
    mask[250:] = 3
    page = Read(show(clip, label=seqpipe.Sequence(mask, "HWC"), frames=1).html)
    (picture,), (over,) = (
        [picture_of(a["src"]) for _, a, _ in page.all("img", class_=k)] for k in (None, "mask")
    )
    assert picture.shape == (160, 320, 3)
    assert np.abs(picture[:, ::319].astype(int) - [[[0] * 3, [200] * 3]]).max() < 3
    assert over.shape == (160, 320, 4)
    assert np.array_equal(over[..., 3] > 0, np.arange(160)[:, None].repeat(320, 1) >= 80)
    assert any(text == "1 of 2 frames are shown" for _, _, text in page.all("li"))


def test_one_volume_of_a_series_and_one_sample_of_an_array_are_shown(tmp_path):
    series = seqpipe.Sequence(
        np.stack([np.full((3, 4, 5, 1), n, np.int16) for n in range(3)]), "FDHWC", affine=np.eye(4)
    )
    seqpipe.volume.save(series, tmp_path / "s.nii.gz")
    read = Read(show(tmp_path / "s.nii.gz", time=2).html)
    assert (values_of(read.volumes[0]) == 2).all()
    assert any("shown is volume 2 of 3" in text for _, _, text in read.all("li"))
    assert len(show(np.zeros((1, 2, 8, 8, 3), np.uint8)).panels) == 1
    with pytest.raises(ParameterError, match="an array NFHWC of 2 samples; allowed: one sample"):
        show(np.zeros((2, 2, 8, 8, 3), np.uint8))


def test_labels_of_a_batch_belong_to_its_samples():
    batch = seqpipe.Batch.of(
        [
            volume((2, 2, 2), np.uint8).with_pixels(np.full((2, 2, 2, 1), n, np.uint8), "DHWC")
            for n in range(9)
        ]
    )
    panels = show(batch, label=batch).panels
    assert [sorted(one.value for one in panel.classes) for panel in panels] == [
        [n] * bool(n) for n in range(8)
    ]
    with pytest.raises(ParameterError, match="labels of 3 samples for a batch of 9"):
        show(batch, label=seqpipe.Batch.of(batch.sequences[:3]))


def test_what_cannot_be_shown_is_refused():
    image = volume()
    with pytest.raises(ParameterError, match=r"label='mask' is no part of the sample; allowed: 'image'"):
        show({"image": image}, label="mask")
    clip, said = (
        seqpipe.Sequence(np.zeros((4, 8, 9, 3), np.uint8), "FHWC"),
        "4 frames of 9×8 pixels, as the images",
    )
    for shape in ((3, 8, 9, 1), (4, 9, 8, 1), (1, 9, 8, 1)):
        with pytest.raises(ParameterError, match=rf"masks of \d frames of \d×\d pixels; allowed: {said}"):
            show(clip, label=seqpipe.Sequence(np.zeros(shape, np.uint8), "FHWC"))
    with pytest.raises(ParameterError, match="there is nothing to show"):
        show()
    with pytest.raises(ParameterError, match="2 labels for 1 to show"):
        show(image, label=[image, image])
    with pytest.raises(ParameterError, match="labels of 300 different values"):
        show(
            volume((5, 6, 10)),
            label=volume((5, 6, 10)).with_pixels(np.arange(1, 301).reshape(5, 6, 10, 1), "DHWC"),
        )
    with pytest.raises(ParameterError, match="not integers"):
        show(image, label=image.with_pixels(image.data + 0.5, "DHWC"))
    with pytest.raises(ParameterError, match="labels of 4×6×7 voxels for an image of 5×6×7"):
        show(image, label=volume((4, 6, 7), affine=None))
    with pytest.raises(ParameterError, match="a value of type int cannot be shown"):
        show(3)
    with pytest.raises(ParameterError, match="has no image"):
        show({"tips": Points([[1.0, 2.0, 3.0]])})
    with pytest.raises(ParameterError, match="frames=0"):
        show(image, frames=0)
    with pytest.raises(ParameterError, match="time=2 is not in the series"):
        show(seqpipe.Sequence(np.ones((2, 3, 4, 5, 1)), "FDHWC"), time=2)


def test_the_command_writes_a_page_of_all_that_can_be_shown(tmp_path):
    out = tmp_path / "report.html"
    good, bad = phantom_path("nii_gz"), tmp_path / "bad.nii.gz"
    bad.write_bytes(b"nothing")
    arguments = ["view", good, made("h264_intra"), bad, "--out", out, "--frames", "3", "--json"]
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == 1, result.output
    assert "bad.nii.gz" in result.stderr
    told = json.loads(result.stdout)
    assert told == {"type": "summary", "out": str(out), "bytes": out.stat().st_size, "panels": 2, "failed": 1}
    read = Read(out.read_text(encoding="utf-8"))
    assert len(read.volumes) == 1
    assert len(read.all("img")) == 3
    again = CliRunner().invoke(
        main, ["view", str(good), "--label", str(good), "--window", "40,10", "--out", str(out)]
    )
    assert again.exit_code == 0, again.output
    data = Read(out.read_text(encoding="utf-8")).volumes[0]
    assert data["window"] == [35, 45]
    wrong = CliRunner().invoke(main, ["view", str(good), *["--label", str(good)] * 2, "--out", str(out)])
    assert wrong.exit_code == 2
    assert "2 labels for 1 files" in wrong.stderr


def test_files_of_two_folders_stand_side_by_side(tmp_path):
    out, one, two = tmp_path / "report.html", tmp_path / "one", tmp_path / "two"
    for name in ("one/a/x.nii.gz", "one/y.nii.gz", "one/alone.nii.gz", "two/a/x.nii.gz", "two/y.nii.gz"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(phantom_path("nii_gz").read_bytes())
    command = ["view", str(one), str(two), "--side-by-side", "--out", str(out)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert f"1 files, such as {one}/alone.nii.gz, are in one folder alone" in result.stderr
    read = Read(out.read_text(encoding="utf-8"))
    assert [text for _, _, text in read.all("h2")] == [
        str(tmp_path / name) for name in ("one/y.nii.gz", "two/y.nii.gz", "one/a/x.nii.gz", "two/a/x.nii.gz")
    ]
    groups = [values["data-group"] for _, values, _ in read.all("section")]
    assert groups[0] == groups[1] != groups[2] == groups[3]
    # of a pair that cannot be shown, neither file is
    (two / "y.nii.gz").write_bytes(b"nothing")
    assert CliRunner().invoke(main, command).exit_code == 1
    assert len(Read(out.read_text(encoding="utf-8")).volumes) == 2
    assert "allowed: two folders" in CliRunner().invoke(main, ["view", str(one), *command[3:]]).stderr
    (two / "y.nii.gz").unlink()
    apart = CliRunner().invoke(main, ["view", str(two), str(one / "a"), *command[3:]])
    assert "no files of the same names" in apart.stderr


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_levels_are_the_nearest(data):
    kind = data.draw(st.sampled_from(["i2", "u1", "f4", "f8", "i4"]))
    span = data.draw(st.sampled_from([3, 200, 1000, 30000]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = (rng.random(50) * span).astype(kind)
    ends = sorted(data.draw(st.tuples(*[st.floats(-100, 40000)] * 2)))
    levels = level_values(values, (ends[0], ends[1]))
    assert len(levels) <= 256
    assert (np.diff(levels) > 0).all()
    found = levels[quantize(values, levels)]
    best = np.abs(values.astype(float)[:, None] - levels).min(axis=1)
    assert np.allclose(np.abs(values - found), best, atol=1e-3 * span / 256)
    if np.dtype(kind).kind in "iu" and span <= 200:
        assert np.array_equal(found, values)


@given(st.tuples(*[st.integers(1, 9)] * 3), st.data())
@settings(max_examples=40, deadline=None)
def test_coarser_grids_are_means_of_the_same_extent(shape, data):
    size = tuple(data.draw(st.integers(1, n)) for n in shape)
    values = np.random.default_rng(1).random((*shape, 1))
    made = downsample_mean(values, size)
    assert made.shape == (*size, 1)
    assert made.mean() == pytest.approx(values.mean(), abs=1e-5)
    if all(n % m == 0 for n, m in zip(shape, size, strict=True)):
        steps = [k for n, m in zip(shape, size, strict=True) for k in (m, n // m)]
        assert np.allclose(made[..., 0], values.reshape(steps).mean(axis=(1, 3, 5)), atol=1e-6)
    places = np.indices(shape)[0]
    assert np.array_equal(
        downsample_nearest(places, size)[:, 0, 0],
        [int((i + 0.5) * shape[0] / size[0]) for i in range(size[0])],
    )
    levels = np.random.default_rng(2).integers(0, 256, shape, np.uint8)
    columns = data.draw(st.integers(1, 5))
    sheet = mosaic(levels, columns)
    for d in range(shape[0]):
        row, column = divmod(d, columns)
        cut = sheet[row * shape[1] : (row + 1) * shape[1], column * shape[2] : (column + 1) * shape[2]]
        assert np.array_equal(cut, levels[d])


def test_a_part_that_an_operator_adds_is_shown_after():
    sample = {"image": volume()}
    page = compare(lambda x, **_: {**x, "more": volume()}, sample)
    assert [panel.title for panel in page.panels] == ["before: image", "after: image", "after: more"]


def test_a_window_for_a_comparison_is_checked():
    with pytest.raises(ParameterError, match="is empty"):
        compare(lambda x, **_: x, {"image": volume()}, window=(3, 1))
