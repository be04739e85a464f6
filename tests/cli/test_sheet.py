"""The contact sheet: a page of its own that shows the right pictures."""

from __future__ import annotations

import base64
from html.parser import HTMLParser

import cv2
import numpy as np
import pytest

from data_scripts.frame_code import read
from seqpipe.cli.sheet import Gallery, Panel, Thumbnail
from seqpipe.sampling.clock import clock_text
from tests.support.media import made

VOID = {"meta", "img"}


class Page(HTMLParser):
    """Collects pictures, texts and links; fails where tags do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.images, self.words, self.links, self.tags = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        values = dict(attrs)
        self.links += [values[name] for name in ("src", "href") if name in values]
        if tag == "img":
            self.images.append(values)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def pictures(self):
        for image in self.images:
            data = base64.b64decode(image["src"].removeprefix("data:image/jpeg;base64,"))
            yield cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)


def test_a_sheet_shows_the_exported_frames(run, tmp_path):
    run(
        "export",
        made("start_10s"),
        made("empty"),
        "--out",
        tmp_path,
        "--contact-sheet",
        "--sheet-grid",
        "4x2",
        code=1,
    )
    page = Page((tmp_path / "contact_sheet.html").read_text(encoding="utf-8"))
    frames = [0, 7, 13, 20, 27, 34, 40, 47]
    assert [read(picture) for picture in page.pictures()] == frames
    expected = [f"frame {n} at {clock_text(n / 25)}" for n in frames]
    assert [image["alt"] for image in page.images] == expected
    text = " ".join(page.words)
    assert "h264 High, 128×96, 25 frames/s, 48 frames, 0:01.920" in text
    assert str(made("start_10s")) in text
    assert "the file is empty (0 bytes)" in text
    assert all(link.startswith("data:image/jpeg;base64,") for link in page.links)
    assert "script" not in page.tags
    assert "http" not in text


def test_large_frames_become_small_pictures(run, tmp_path):
    run("export", made("h264"), "--out", tmp_path, "--size", "900x300", "--contact-sheet", "--num", 1)
    (picture,) = Page((tmp_path / "contact_sheet.html").read_text()).pictures()
    assert picture.shape == (80, 240, 3)


def test_what_is_written_is_escaped():
    gallery = Gallery((2, 2), 1)
    nasty = '<script>"&\n\udcff$panels'
    gallery.add(Panel(nasty, nasty, [Thumbnail(1, 0.0, b"x")], [nasty]))
    page = Page(gallery.page())
    assert "script" not in page.tags
    assert gallery.page().encode("utf-8")
    assert "$panels" in "".join(page.words)


@pytest.mark.parametrize(("sources", "each"), [(1, 24), (25, 24), (100, 6), (600, 1), (10_000, 1)])
def test_many_sources_share_the_page(sources, each):
    gallery = Gallery((6, 4), sources)
    frames = np.arange(1000)[:, None]
    assert len(gallery.choose(frames, 0)) == each
    assert gallery.choose(frames, 0)[0] == 0
    assert len(gallery.choose(frames, 600)) == 0
    for _ in range(sources):
        gallery.add(Panel("x", ""))
    page = gallery.page()
    assert page.count("<section>") == min(sources, 600)
    assert ("9,400 more sources are not shown here." in page) == (sources == 10_000)


def test_few_frames_are_all_chosen_once():
    chosen = Gallery((6, 4), 1).choose(np.array([[3, 5], [5, 9]]), 0)
    assert chosen.tolist() == [3, 5, 9]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0:00.000"),
        (59.9996, "1:00.000"),
        (61.5, "1:01.500"),
        (3599.9999, "1:00:00.000"),
        (3723.25, "1:02:03.250"),
        (-0.04, "-0:00.040"),
    ],
)
def test_clock_text(seconds, text):
    assert clock_text(seconds) == text


def test_a_grid_without_a_sheet_is_refused(run, tmp_path):
    """It was ignored."""
    said = run("export", made("h264"), "--out", tmp_path / "o", "--sheet-grid", "4x2", code=2).stderr
    assert "--sheet-grid is for --contact-sheet, which is not given" in said
    assert not (tmp_path / "o").exists()
