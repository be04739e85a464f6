"""Pages in a real browser: what its canvases hold, and what sliders, pointer, window and legend do."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe.ops import Chain, Rot90
from seqpipe.parts import Labels
from seqpipe.view import compare, show
from seqpipe.volume import reorient
from tests.support.browser import Browser

from .pages import Read, volume_of

AFFINE = np.array([[0, 0, 1.0, -4], [0, 2.0, 0, 3], [3.0, 0, 0, 5], [0, 0, 0, 1]])  # RAS
PIXELS = """(() => {{
  const canvas = document.querySelectorAll("section")[{section}].querySelectorAll("canvas")[{plane}];
  return [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data];
}})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def opened(browser, page, folder):
    path = folder / "page.html"
    page.save(path)
    browser.open(path)
    return Read(page.html).volumes


def shown(browser, plane, shape, section=0):
    """RGB of a canvas."""
    flat = browser.run(PIXELS.format(section=section, plane=plane))
    return np.array(flat, np.uint8).reshape(*shape, 4)[..., :3]


def grays(data, window):
    values = np.array(data["values"])[volume_of(data)]
    levels = 255 * (values - window[0]) / (window[1] - window[0])
    return np.clip(np.floor(levels + 0.5), 0, 255).astype(np.uint8)


@pytest.fixture
def image():
    values = np.random.default_rng(3).normal(100, 60, (6, 7, 8, 1)).astype(np.int16)
    return seqpipe.Sequence(values, "DHWC", affine=AFFINE)


def expected(gray, at):
    """The three planes through a place of an array that is LPS."""
    d, h, w = at
    return gray[d], gray[::-1, h], gray[::-1, :, w]


def test_planes_are_cut_where_sliders_and_pointer_say(browser, image, tmp_path):
    (data,) = opened(browser, show(image), tmp_path)
    turned = reorient(image, "LPS")
    gray = grays(data, data["window"])
    values = np.array(data["values"])[volume_of(data)]
    assert np.array_equal(values, turned.data[..., 0])
    for plane, picture in enumerate(expected(gray, (3, 3, 4))):
        assert np.array_equal(shown(browser, plane, picture.shape), np.repeat(picture[..., None], 3, 2))
    browser.run(
        """(() => { const s = document.querySelectorAll(".plane input")[1]; s.value = 5;
        s.dispatchEvent(new Event("input")); })()"""
    )
    assert browser.run("viewers[0].at") == [3, 5, 4]
    box = browser.run(
        """(() => { const b = document.querySelector(".picture").getBoundingClientRect();
        return [b.x, b.y, b.width, b.height]; })()"""
    )
    x, y = box[0] + box[2] * 1.5 / 8, box[1] + box[3] * 2.5 / 7
    browser.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    browser.mouse("mouseReleased", x, y, button="left")
    assert browser.run("viewers[0].at") == [3, 2, 1]
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-100)
    assert browser.run("viewers[0].at") == [2, 2, 1]
    for plane, picture in enumerate(expected(gray, (2, 2, 1))):
        assert np.array_equal(shown(browser, plane, picture.shape)[..., 0], picture)
    told = browser.run("document.querySelector('.place').value")
    stored = np.rint(np.linalg.inv(image.affine) @ turned.affine @ [2, 2, 1, 1])[:3].astype(int)
    assert told.startswith(f"voxel [{', '.join(map(str, stored))}]")
    assert f"value {image.data[(*stored, 0)]}" in told
    assert browser.run("document.querySelectorAll('.plane b').length") == 12


def test_window_labels_and_legend_change_the_planes(browser, image, tmp_path):
    label = np.zeros((6, 7, 8, 1), np.uint8)
    label[:, 2:6, 2:6] = 2
    label[:, 4:6, 4:6] = 9
    (data,) = opened(browser, show(image, label=image.with_pixels(label, "DHWC")), tmp_path)
    browser.run(
        """(() => { const put = (name, value) => { const i = document.querySelector(name); i.value = value;
        i.dispatchEvent(new Event("input")); }; put(".center", 120); put(".width", 80); put(".opacity", 50); })()"""
    )
    gray = grays(data, (80, 160))[3].astype(float)
    places = volume_of(data, "label")[3]
    colors = np.array([[0, 0, 0], *(list(bytes.fromhex(c[1:])) for c in data["colors"])])
    mixed = np.where(places[..., None] > 0, gray[..., None] * 0.5 + colors[places] * 0.5, gray[..., None])
    assert np.abs(shown(browser, 0, gray.shape) - mixed).max() <= 1
    browser.run("document.querySelector('.legend input').click()")
    hidden = np.where(places[..., None] == 2, mixed, gray[..., None])
    assert np.abs(shown(browser, 0, gray.shape) - hidden).max() <= 1
    browser.run("document.querySelector('.reset').click()")
    low, high = data["window"]
    assert browser.run("viewers[0].window") == pytest.approx([low, high])


def test_before_and_after_show_the_same_place_in_mm(browser, image, tmp_path):
    sample = {"image": image, "label": Labels(image.with_pixels((image.data > 120).astype(np.uint8), "DHWC"))}
    before, after = opened(browser, compare(Chain(Rot90(turns=1)), sample), tmp_path)
    browser.run("viewers[0].go(0, 1); viewers[0].go(1, 2); viewers[0].go(2, 6)")
    places = [browser.run(f"viewers[{n}].at") for n in (0, 1)]
    mm = [np.array(d["affine"]) @ [*at, 1] for d, at in zip((before, after), places, strict=True)]
    assert places[0] == [1, 2, 6]
    assert np.allclose(mm[0], mm[1], atol=0.51 * max(before["spacing"]))


def test_nothing_is_fetched_and_nothing_fails(browser, image, tmp_path):
    clip = seqpipe.Sequence(np.random.default_rng(0).integers(0, 256, (3, 8, 9, 3), np.uint8), "FHWC")
    mask = Labels(np.ones((3, 8, 9, 1), np.uint8))
    page = show(image, {"image": clip, "mask": mask}, title="</script><b>bold")
    opened(browser, page, tmp_path)
    assert browser.faults() == []
    assert browser.run("document.title") == "</script><b>bold"
    sizes = browser.run(
        "[...document.querySelectorAll('.strip img')].map((i) => [i.naturalWidth, i.naturalHeight])"
    )
    assert sizes == [[9, 8]] * 6
    browser.run("document.querySelector('.strip .picture').click()")
    assert browser.run("document.querySelectorAll('figure.large').length") == 1


def test_a_notebook_s_frame_works(browser, image, tmp_path):
    outer = tmp_path / "notebook.html"
    frame = show(image)._repr_html_()
    outer.write_text(f"<html><body data-ready='yes'>{frame}</body></html>", encoding="utf-8")
    browser.open(outer)
    ready = """new Promise((done) => { const look = () => {
      const inner = document.querySelector("iframe").contentDocument;
      inner.body?.dataset.ready === "yes" ? done(inner.querySelectorAll("canvas").length) : setTimeout(look, 30); };
      look(); })"""
    assert browser.run(ready) == 3
