"""The benchmark of the GPU's conversion: its outputs are valid for its frames, also where there is no GPU to run it."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
from types import ModuleType

import pytest

from seqpipe.video.convert.converter import Converter
from seqpipe.video.convert.output import OutputSpec
from tests.support.pictures import frame_info, surface_format


@pytest.fixture
def bench(monkeypatch):
    if importlib.util.find_spec("cupy") is None:
        monkeypatch.setitem(sys.modules, "cupy", ModuleType("cupy"))
    return importlib.import_module("tests.bench.gpu_convert")


def shape(bench, output, bits=8, turn=0):
    info = frame_info(bench.WIDTH, bench.HEIGHT, surface_format("4:2:0", bits), rotation_degrees=turn)
    return Converter(info, OutputSpec(**output)).shape


def test_jobs_are_of_the_size_that_their_names_state(bench):
    shapes = {}
    for name, bits, output in bench.JOBS:
        rest = dict(output)
        shapes[name] = shape(bench, rest, bits, rest.pop("turn", 0))
    assert shapes["NV12 to 1280x720 uint8 HWC"] == (720, 1280, 3)
    assert shapes["NV12 to 3840x2160 uint8 HWC"] == (2160, 3840, 3)
    assert shapes["NV12 rotated by 90 degrees"] == (1920, 1080, 3)
    assert shapes["NV12, crop at an odd position"] == (901, 1601, 3)


def test_sampled_crops_and_windows_lie_within_the_frame(bench):
    for crops in itertools.islice(bench.windows(), 30):
        for changes in [*crops, *bench._within(crops), *bench._within(crops, rounded="uint8")]:
            assert shape(bench, bench.NORMALIZED | changes) == (3, 224, 224)
