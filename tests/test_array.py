"""How arrays cross between libraries: what is shared, what is copied, what is refused."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from seqpipe.array import (
    LAYOUTS,
    as_native,
    axis,
    check_layout,
    device_of,
    frame_axis,
    to_cupy,
    to_numpy,
    to_torch,
)
from seqpipe.errors import BackendError, ParameterError


class Foreign:
    """An array of a library that seqpipe has never heard of; it speaks DLPack."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


@pytest.mark.parametrize(
    ("device", "name"), [((1, 0), "cpu"), ((3, 0), "cpu"), ((2, 0), "cuda:0"), ((2, 3), "cuda:3")]
)
def test_device_is_read_from_dlpack(device, name):
    assert device_of(Foreign(np.zeros(3), device)) == name


def test_numpy_is_on_the_cpu_and_passes_as_it_is():
    array = np.zeros((2, 3))
    assert device_of(array) == "cpu"
    assert to_numpy(array) is array
    assert as_native(array) is array


@pytest.mark.parametrize("cross", [to_numpy, as_native])
def test_other_cpu_arrays_become_views(cross):
    array = np.arange(6)
    view = cross(Foreign(array))
    assert isinstance(view, np.ndarray)
    assert np.shares_memory(view, array)


@pytest.mark.parametrize("cross", [to_numpy, as_native, device_of])
@pytest.mark.parametrize("value", [[1, 2], "frames", None, 3])
def test_what_is_no_array_is_named(cross, value):
    with pytest.raises(
        ParameterError, match=f"an object of type {type(value).__name__} is not an array; allowed: NumPy"
    ):
        cross(value)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int64", "float32", "float64"])
def test_torch_shares_memory_both_ways(torch, dtype):
    array = np.arange(24).astype(dtype).reshape(2, 3, 4)
    tensor = to_torch(array)
    assert tensor.data_ptr() == array.ctypes.data
    tensor[0, 0, 0] = 7
    assert array[0, 0, 0] == 7
    back = to_numpy(tensor)
    assert np.shares_memory(back, array)
    assert to_torch(tensor) is tensor
    assert np.shares_memory(as_native(tensor), array)


def test_torch_gets_its_own_memory_for_a_read_only_array(torch):
    array = np.zeros(3)
    array.flags.writeable = False
    tensor = to_torch(array)  # torch would warn, and warnings are errors here
    tensor[0] = 1
    assert array[0] == 0


def test_torch_takes_other_arrays_by_dlpack(torch):
    array = np.arange(3)
    assert to_torch(Foreign(array)).data_ptr() == array.ctypes.data


def test_a_view_of_negated_values_is_seen_as_what_it_holds(torch):
    view = torch.complex(torch.zeros(3), torch.ones(3)).conj().imag
    assert view.is_neg()
    assert to_numpy(view).tolist() == as_native(view).tolist() == [-1, -1, -1]


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # NumPy: matrix is not the recommended way
@pytest.mark.parametrize("kind", [np.matrix, np.ma.masked_array])
def test_a_class_of_its_own_is_seen_as_an_array(kind):
    array = np.arange(6).reshape(2, 3)
    seen = as_native(kind(array, copy=False))
    assert type(seen) is np.ndarray
    assert np.shares_memory(seen, array)


def test_masked_values_are_refused():
    with pytest.raises(ParameterError, match=r"an array with masked values; allowed: .*filled\(0\)"):
        as_native(np.ma.masked_array(np.arange(3), mask=[False, True, False]))


def test_a_tensor_with_a_gradient_can_be_looked_at(torch):
    assert to_numpy(torch.ones(2, requires_grad=True)).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("cross", "library", "advice"),
    [
        (to_torch, "torch", r"seqpipe\[torch\]"),
        (to_cupy, "cupy", r"seqpipe\[cuda12\]' or 'seqpipe\[cuda13\]"),
    ],
)
def test_a_missing_library_is_named_with_the_way_to_get_it(monkeypatch, cross, library, advice):
    monkeypatch.setitem(sys.modules, library, None)  # what makes an import fail
    with pytest.raises(
        BackendError, match=f"{library} is not installed. Install it: pip install '{advice}"
    ) as caught:
        cross(np.zeros(3))
    assert isinstance(caught.value.__cause__, ImportError)


def test_numpy_work_loads_no_other_library():
    program = (
        "import sys, numpy as np; from seqpipe import Sequence; s = Sequence(np.zeros((2, 4, 4, 3)));"
        "s.numpy(), np.asarray(s), repr(s), np.from_dlpack(s); print({'torch', 'cupy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


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
