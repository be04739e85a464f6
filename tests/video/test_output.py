from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seqpipe.errors import ParameterError
from seqpipe.video.convert import Converter
from seqpipe.video.output import OutputSpec
from tests.support.pictures import frame_info


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"colour": "rgb"}, r"colour='rgb' is not valid; allowed: 'RGB', 'BGR', 'GRAY', 'YCbCr'"),
        ({"dtype": "float32"}, r"dtype='float32' is not valid; allowed: 'uint8', 'uint16'"),
        ({"size": (0, 5)}, r"size=0 is not valid; allowed: a whole number from 1 to"),
        ({"size": 224}, r"size=224 is not valid; allowed: 2 values"),
        ({"size": "640x480"}, r"size='640x480' is not valid"),
        ({"short_side": 0}, r"short_side=0 is not valid"),
        ({"max_side": 1.5}, r"max_side=1.5 is not valid"),
        ({"crop": (0, 0, 5)}, r"crop=\(0, 0, 5\) is not valid; allowed: 4 values"),
        ({"crop": (0, -1, 5, 5)}, r"crop=-1 is not valid"),
        ({"crop": (0, 0, 5, 0)}, r"crop=\(0, 0, 5, 0\) is empty"),
        ({"rotate": 1}, r"rotate=1 is not valid; allowed: True or False"),
        ({"size": (5, 5), "short_side": 5}, r"size and short_side exclude one another"),
    ],
)
def test_values_that_cannot_be_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        OutputSpec(**values)


def test_a_spec_is_a_value() -> None:
    spec = OutputSpec(size=[np.int64(640), 480.0], crop=np.array([1, 2, 3, 4]))  # type: ignore[arg-type]
    assert spec == OutputSpec(size=(640, 480), crop=(1, 2, 3, 4))
    assert len({spec, OutputSpec(size=(640, 480), crop=(1, 2, 3, 4))}) == 1


def test_a_crop_outside_of_the_frame_fails_before_any_decoding() -> None:
    with pytest.raises(ParameterError, match="leaves the frame of 320x180 pixels"):
        Converter(frame_info(320, 180), OutputSpec(crop=(300, 0, 21, 10)))
