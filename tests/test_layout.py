"""Layouts."""

from __future__ import annotations

import pytest

from seqpipe.errors import ParameterError
from seqpipe.layout import LAYOUTS, axis, check_layout, frame_axis


@pytest.mark.parametrize("layout", LAYOUTS)
def test_known_layouts_fit_their_arrays(layout):
    assert check_layout(layout, len(layout)) == layout
    with pytest.raises(
        ParameterError, match=f"names {len(layout)} axes, but the array has {len(layout) + 1}"
    ):
        check_layout(layout, len(layout) + 1)


@pytest.mark.parametrize("layout", ["", "FHCW", "fhwc", "NN", "F H W C"])
def test_an_unknown_layout_is_refused_with_those_that_are_known(layout):
    with pytest.raises(ParameterError, match=r"is unknown; allowed: HW, HWC, .*NFHWC"):
        check_layout(layout, len(layout))


def test_a_layout_that_does_not_fit_names_those_that_do():
    with pytest.raises(ParameterError, match="allowed: FHWC, FCHW, CFHW, DHWC"):
        check_layout("HWC", 4)


@pytest.mark.parametrize(
    ("layout", "letter", "position"),
    [("NFHWC", "N", 0), ("NFHWC", "C", 4), ("FCHW", "C", 1), ("HW", "C", None)],
)
def test_axis(layout, letter, position):
    assert axis(layout, letter) == position


@pytest.mark.parametrize(
    ("layout", "position"),
    [("FHWC", 0), ("NFCHW", 1), ("DHWC", 0), ("NDHWC", 1), ("HWC", None), ("HW", None)],
)
def test_the_frames_of_a_volume_are_its_slices(layout, position):
    assert frame_axis(layout) == position
