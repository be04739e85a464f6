"""The site as a browser shows it: built without a warning, whole at two widths, and like the stored pictures."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import seqpipe
from seqpipe import Clip, ops
from seqpipe.parts import Labels
from tests.support.browser import Browser
from tests.support.media import ROOT
from tests.support.pages import fill

PICTURES = Path(__file__).parent / "pictures"
WIDTHS = (1280, 390)
READY = "document.body?.dataset.ready === 'yes'"
LOADED = "document.readyState === 'complete'"
pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site: the one that SEQPIPE_SITE names, else built here."""
    if named := os.environ.get("SEQPIPE_SITE"):
        return Path(named)
    for package in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(package, reason=f"{package} is in the group docs")
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--fail-on-warning",
        "--quiet",
        str(ROOT / "docs"),
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def looked_at(browser, path, done=LOADED, stored=""):
    """Faults of a page at both widths; it is compared with the stored pictures, if they are named."""
    faults = []
    for width in WIDTHS:
        browser.resize(width)
        browser.open(path, done)
        faults += [f"{path.name} at {width}: {fault}" for fault in (*browser.faults(), *browser.beyond())]
        if stored:
            like_stored(browser, f"{stored}-{width}")
    return faults


def like_stored(browser, name):
    """Compare what is shown with the stored picture, blurred, as fonts differ; SEQPIPE_STORE=1 stores a new one."""
    shown = Image.open(io.BytesIO(browser.picture())).convert("L")
    small = np.asarray(shown.resize((shown.width // 10, shown.height // 10), Image.Resampling.BOX), np.int16)
    path = PICTURES / f"{name}.png"
    if os.environ.get("SEQPIPE_STORE") and not path.exists():
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(small.astype(np.uint8)).save(path, optimize=True)
    stored = np.asarray(Image.open(path), np.int16)
    assert stored.shape == small.shape, name
    far = np.abs(stored - small)
    assert far.mean() < 6, f"{name}: mean difference {far.mean():.1f}"
    assert (far > 60).mean() < 0.05, f"{name}: {(far > 60).mean():.3f} differ much"


def test_links_lead_to_pages_and_places_and_nothing_is_loaded_from_elsewhere(site):
    pages = {
        path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")
    }
    places = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in pages.items()}
    for page in re.findall(r"\]\((\S+\.html)\)", (site / "llms.txt").read_text(encoding="utf-8")):
        assert page in pages
    for name, text in pages.items():
        assert re.findall(r'(?:src|href)="(https?://[^"]+\.(?:js|css|woff2?|png))"', text) == [], name
        for link in set(re.findall(r'href="([^":#]+\.html)?(#[^"]*)?"', text)):
            target = os.path.normpath(os.path.join(os.path.dirname(name), link[0])) if link[0] else name  # noqa: PTH118, PTH120  of a URL
            assert target in pages, f"{name}: {link[0]}"
            assert link[1][1:] in ("", *places[target]) or target.startswith("_modules"), (
                f"{name}: {''.join(link)}"
            )


def test_every_page_is_whole_at_both_widths(site, browser):
    pages = sorted(path for path in site.rglob("*.html") if path.name not in ("search.html", "genindex.html"))
    assert len(pages) > 190
    assert [fault for page in pages for fault in looked_at(browser, page)] == []


LOOKS = ["index", "derived/operators/flip", "derived/errors", "migration/torchcodec"]


@pytest.mark.parametrize("page", LOOKS)
def test_pages_look_like_the_stored_pictures(site, browser, page):
    assert looked_at(browser, site / f"{page}.html", stored=page.replace("/", "-")) == []


def test_the_comparison_sees_another_page(site, browser):
    looked_at(browser, site / "glossary.html")
    with pytest.raises(AssertionError, match="derived-errors-390: "):
        like_stored(browser, "derived-errors-390")


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Pages that seqpipe writes: contact sheets, views of files, a data set's samples, before and after."""
    folder = tmp_path_factory.mktemp("own")
    fill(folder)
    export = [
        sys.executable,
        "-m",
        "seqpipe",
        "export",
        "clip.mp4",
        "--every",
        "5",
        "--contact-sheet",
        "--out",
        "out",
    ]
    subprocess.run(export, cwd=folder, check=True, capture_output=True)
    for number, names in enumerate((["clip.mp4"], ["ct.nii.gz", "--label", "organs.nii.gz"])):
        command = [sys.executable, "-m", "seqpipe", "view", *names, "--out", f"view{number}.html"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    clips = seqpipe.videos(folder / "clip.mp4", Clip(4, step=20)).batch(2)
    seqpipe.view.show(next(iter(clips)), title="two clips of a data set").save(folder / "set.html")
    sample = {"image": np.zeros((40, 60, 3), np.uint8), "mask": Labels(np.ones((40, 60, 1), np.uint8))}
    seqpipe.view.compare(ops.Chain(ops.Flip()), sample).save(folder / "compare.html")
    return folder


OWN = {
    "out/contact_sheet": LOADED,
    "view0": READY,
    "view1": READY,
    "set": READY,
    "compare": READY,
}


@pytest.mark.parametrize("page", OWN)
def test_pages_that_seqpipe_writes_are_whole_and_look_like_the_stored_pictures(own, browser, page):
    assert looked_at(browser, own / f"{page}.html", OWN[page], f"own-{page.rpartition('/')[2]}") == []
