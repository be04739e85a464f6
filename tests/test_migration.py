"""Both columns of the pages for those who come from another library give the same values, on the pages' samples.

A column runs where its library is installed: torchcodec for the CPU is 0.13 with torch 2.13.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.media import ROOT
from tests.support.pages import blocks_of, fill, printed_by

pytestmark = pytest.mark.deep

# of each page the library, and pairs of expressions with the greatest mean difference
PAIRS = {
    "torchcodec": [
        ("first", "first", 2.0),
        ("some", "some", 2.0),
        ("frames", "frames", 2.0),
        ("times", "times", 1e-6),
    ],
    "decord": [  # sizes are not compared: its filter is another one
        ("video.get_batch([40, 7, 7]).asnumpy()", "video.frames([40, 7, 7]).numpy()", 2.0),
    ],
    "torchvision": [
        (
            "v2.Compose(augment.transforms[3:])(clips)[0].permute(0, 2, 3, 1)",
            "augment.operators[3](clips)[0]",
            1e-3,
        ),
        ("(prepare.crop_size[0], prepare.resize_size[0])", "(112, 128)", 0.0),
    ],
    "torchio": [
        ("subject.image.data[0].permute(2, 1, 0)", "cases.sample(0)['image'].data[..., 0]", 0.0),
        ("subject.label.data[0].permute(2, 1, 0)", "cases.sample(0)['label'].data[..., 0]", 0.0),
        (
            "tio.Clamp(-200, 300)(subject).image.data[0].permute(2, 1, 0)",
            "ops.Clamp(lo=-200, hi=300)(cases.sample(0)['image'].data)[..., 0]",
            0.0,
        ),
    ],
}


@pytest.mark.parametrize("page", PAIRS)
def test_columns_agree(tmp_path, monkeypatch, page):
    pytest.importorskip(page, reason=f"{page} is not installed", exc_type=ImportError)
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    name = f"docs/migration/{page}.md"
    theirs, ours = {"__name__": "__main__"}, {"__name__": "__main__"}
    for block in blocks_of((ROOT / name).read_text(encoding="utf-8")):
        if block.language == "python":
            printed_by(block, theirs if block.peer else ours, name)
    for their, our, far in PAIRS[page]:
        left, right = (np.asarray(eval(text, names)) for text, names in ((their, theirs), (our, ours)))
        assert left.shape == right.shape, (their, left.shape, right.shape)
        assert np.abs(left.astype(float) - right.astype(float)).mean() <= far, their
