from __future__ import annotations

import av
import pytest

from data_scripts.frame_code import read
from tests.support import media


@pytest.mark.parametrize("name", media.names("sound"))
def test_every_sound_item_shows_its_numbers_in_presentation_order(name):
    expected = media.entry(name)
    with av.open(str(media.made(name))) as container:
        frames = list(container.decode(video=0))
        numbers = [read(frame.to_ndarray(format="rgb24")) for frame in frames]
    assert tuple(numbers) == expected.numbers
    assert {(frame.format.name, frame.width, frame.height) for frame in frames} == {
        (expected.pix_fmt, expected.width, expected.height)
    }
