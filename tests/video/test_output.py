from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seqpipe.errors import ParameterError
from seqpipe.video.convert.converter import Converter
from seqpipe.video.convert.output import OutputSpec, check_output
from tests.support.pictures import frame_info


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"color": "rgb"}, r"color='rgb' is not valid; allowed: 'RGB', 'BGR', 'GRAY', 'YCbCr'"),
        ({"dtype": "int8"}, r"dtype='int8' is not valid; allowed: 'uint8', 'uint16', 'float16', 'float32'"),
        ({"layout": "HWC"}, r"layout='HWC' is not valid; allowed: 'FHWC', 'FCHW'"),
        ({"mirror": 1}, r"mirror=1 is not valid; allowed: True or False"),
        (
            {"mean": 0.5},
            r"mean=0.5 and dtype='uint8' exclude one another; allowed: mean with dtype='float16'",
        ),
        ({"std": (1, 1, 1), "dtype": "uint16"}, r"std=\(1, 1, 1\) and dtype='uint16' exclude one another"),
        ({"std": 0, "dtype": "float32"}, r"std=0 is not valid; allowed: a number from 0.000001 to 1000000"),
        ({"mean": (0.5, 0.5), "dtype": "float32"}, r"mean=\(0.5, 0.5\) is not valid; allowed: 3 values"),
        ({"mean": (1, 1, 1), "dtype": "float32", "color": "GRAY"}, r"allowed: 1 values"),
        ({"mean": "0.5", "dtype": "float32"}, r"mean='0.5' is not valid"),
        ({"color": "YCbCr", "dtype": "float16"}, r"dtype='float16' and color='YCbCr' exclude one another"),
        ({"size": (5, 0)}, r"size=0 is not valid; allowed: a whole number from 1 to"),
        ({"size": 224}, r"size=224 is not valid; allowed: 2 values"),
        ({"size": "640x480"}, r"size='640x480' is not valid"),
        ({"short_side": 0}, r"short_side=0 is not valid"),
        ({"max_side": 1.5}, r"max_side=1.5 is not valid"),
        ({"crop": (0, 0, 5)}, r"crop=\(0, 0, 5\) is not valid; allowed: 4 values"),
        ({"crop": (-1, 0, 5, 5)}, r"crop=-1 is not valid"),
        ({"crop": (0, 0, 0, 5)}, r"crop=\(0, 0, 0, 5\) is empty"),
        ({"rotate": 1}, r"rotate=1 is not valid; allowed: True or False"),
        ({"size": (5, 5), "short_side": 5}, r"size and short_side exclude one another"),
    ],
)
def test_values_that_cannot_be_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        OutputSpec(**values)


def test_a_spec_is_a_value() -> None:
    spec = OutputSpec(size=[480.0, np.int64(640)], crop=np.array([2, 1, 4, 3]))  # type: ignore[arg-type]
    assert spec == OutputSpec(size=(480, 640), crop=(2, 1, 4, 3))
    assert len({spec, OutputSpec(size=(480, 640), crop=(2, 1, 4, 3))}) == 1


def test_one_number_stands_for_every_channel() -> None:
    spec = OutputSpec(dtype="float16", mean=0.5, std=(0.2, 0.3, np.float32(0.5)))
    assert (spec.mean, spec.std) == ((0.5, 0.5, 0.5), (0.2, 0.3, 0.5))
    assert OutputSpec(dtype="float32", color="GRAY", mean=1).mean == (1.0,)
    assert OutputSpec(dtype="float32").mean is None


def test_the_shape_of_a_frame_is_in_the_order_of_its_layout() -> None:
    info = frame_info(320, 180, rotation_degrees=90)
    assert OutputSpec().frame_shape(info) == (320, 180, 3)
    spec = OutputSpec(layout="FCHW", color="GRAY")
    assert (spec.frame_layout, spec.frame_shape(info)) == ("CHW", (1, 320, 180))


def test_a_crop_outside_of_the_frame_fails_before_any_decoding() -> None:
    with pytest.raises(ParameterError, match="exceeds the frame of 320x180 pixels"):
        Converter(frame_info(320, 180), OutputSpec(crop=(0, 300, 10, 21)))


@pytest.mark.parametrize("values", [{"mean": (123.675, 116.28, 103.53)}, {"mean": 0.5, "std": 58.0}])
def test_mean_and_std_of_8_bit_values_are_noticed(values: dict[str, Any]) -> None:
    """Floats of a reader span 0 to 1; what a chain of operators is fused into is not limited."""
    with pytest.raises(ParameterError, match=r"in units of 0 to 255, but .* span 0 to 1.*Divide it by 255"):
        check_output(OutputSpec(dtype="float32", **values))
