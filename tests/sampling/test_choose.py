"""From parameters to the sampler that they describe."""

from __future__ import annotations

import subprocess
import sys

import pytest

from seqpipe.core.param import Param
from seqpipe.errors import ParameterError
from seqpipe.sampling import (
    RandomClips,
    RandomRateClips,
    RateWindows,
    UniformSegments,
    Windows,
    choose_sampler,
    params,
)


@pytest.mark.parametrize(
    ("parameters", "sampler"),
    [
        ({"sequence_length": 4}, Windows(sequence_length=4)),
        (
            {"sequence_length": 4, "stride": 2, "step": 3, "pad_mode": "edge"},
            Windows(sequence_length=4, stride=2, step=3, pad_mode="edge"),
        ),
        ({"sequence_length": 4, "fps": 5.0, "step": 3}, RateWindows(5.0, Windows(sequence_length=4, step=3))),
        (
            {"sequence_length": 4, "clips_per_video": 3, "pad_mode": "wrap"},
            RandomClips(sequence_length=4, clips_per_video=3, pad_mode="wrap"),
        ),
        (
            {"sequence_length": 4, "clips_per_video": 1, "fps": 5.0, "stride": 2},
            RandomRateClips(5.0, RandomClips(sequence_length=4, stride=2)),
        ),
        ({"segments": 8}, UniformSegments(segments=8)),
        ({"segments": 8, "segment_mode": "center"}, UniformSegments(segments=8, mode="center")),
    ],
)
def test_parameters_describe_one_sampler(parameters, sampler):
    assert choose_sampler(**parameters) == sampler


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, r"sequence_length is missing.*Give sequence_length, or segments"),
        ({"segments": 8, "sequence_length": 4}, r"segments=8 and sequence_length=4 exclude each other"),
        ({"segments": 8, "fps": 5.0}, r"segments=8 and fps=5\.0 exclude"),
        ({"segments": 8, "stride": 2}, r"segments=8 and stride=2 exclude"),
        ({"segments": 8, "pad_mode": "edge"}, r"segments=8 and pad_mode='edge' exclude"),
        ({"segments": 8, "clips_per_video": 2}, r"segments=8 and clips_per_video=2 exclude"),
        (
            {"sequence_length": 4, "clips_per_video": 2, "step": 4},
            r"clips_per_video=2 and step=4 exclude .* no step",
        ),
        ({"sequence_length": 4, "stride": 0}, r"stride=0 is not valid"),
        ({"segments": 0}, r"segments=0 is not valid"),
        (
            {"sequence_length": 4, "fps": 0},
            r"fps=0 is not valid; allowed: a number from 0.000001 to 10000 Hz",
        ),
    ],
)
def test_contradictions_are_named(parameters, message):
    with pytest.raises(ParameterError, match=message):
        choose_sampler(**parameters)


def test_every_parameter_is_declared_under_its_name():
    declared = {name: value for name, value in vars(params).items() if isinstance(value, Param)}
    assert set(declared) < set(params.__all__)
    for name, param in declared.items():
        assert param.name in {name.lower(), "num"}
        assert param.doc
        assert not param.doc.endswith(".")


def test_sampling_loads_nothing_heavy():
    heavy = {"torch", "cupy", "av", "nibabel", "cv2"}
    code = f"import sys, seqpipe.sampling; print(sorted({heavy} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
