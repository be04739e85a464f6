"""Sequence and Batch: values that cannot be wrong, say what they are, and hand on pixels without a copy."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe import Batch, Sequence
from seqpipe.errors import FrameRangeError, ParameterError


def clip(length=3, height=4, width=6, first=10, **fields):
    numbers = np.arange(first, first + length)
    fields = {"frames": numbers, "timestamps": numbers / 25, "source": "a.mp4"} | fields
    pixels = np.arange(length * height * width * 3).astype(np.uint8).reshape(length, height, width, 3)
    return Sequence(**{"data": pixels, **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"layout": "FHCW"}, "layout='FHCW' is unknown"),
        ({"layout": "HWC"}, "names 3 axes, but the array has 4; allowed: FHWC, FCHW, CFHW, DHWC"),
        ({"frames": [1, 2]}, r"frames has the shape \(2,\), but the pixels need \(3,\)"),
        ({"frames": [1.5, 2.5, 3.5]}, "frames has the dtype float64; allowed: whole numbers"),
        ({"frames": [[1, 2, 3]]}, r"frames has the shape \(1, 3\)"),
        ({"timestamps": [0.0]}, r"timestamps has the shape \(1,\), but the pixels need \(3,\)"),
        ({"affine": np.eye(3)}, r"affine has the shape \(3, 3\), but the pixels need \(4, 4\)"),
    ],
)
def test_what_does_not_fit_the_pixels_is_refused(fields, message):
    with pytest.raises(ParameterError, match=message):
        clip(**fields)


def test_a_batch_is_no_sequence():
    with pytest.raises(ParameterError, match="layout='NFHWC' is that of a batch"):
        Sequence(np.zeros((1, 2, 3, 4, 3)), layout="NFHWC")


def test_pixels_must_be_an_array():
    with pytest.raises(ParameterError, match="an object of type list is not an array"):
        Sequence([[1]], layout="HW")


def test_other_pixels_keep_what_the_sequence_knows():
    given = Sequence(
        np.zeros((2, 4, 5, 3), np.uint8), source="a.mp4", frames=np.arange(2), timestamps=np.arange(2) / 25
    )
    pixels = np.ones((2, 3, 4, 5), np.float32)
    found = given.with_pixels(pixels, "FCHW")
    assert type(found) is Sequence
    assert found.data is pixels
    assert (found.layout, found.source, len(found)) == ("FCHW", "a.mp4", 2)
    assert found.frames is given.frames
    assert found.timestamps is given.timestamps
    assert (given.layout, given.shape) == ("FHWC", (2, 4, 5, 3))


def test_nothing_can_be_replaced_and_metadata_cannot_be_written():
    numbers = np.array([1, 2, 3])
    sequence = clip()
    sequence = dataclasses.replace(sequence, frames=numbers, affine=np.eye(4))
    for name in ("data", "frames", "layout", "source"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(sequence, name, None)
    for name in ("frames", "timestamps", "affine"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(sequence, name)[0] = 0
    numbers[0] = 99
    assert sequence.frames.tolist() == [1, 2, 3], "the caller's array must not reach into the sequence"


@pytest.mark.parametrize(
    ("layout", "shape", "frames"),
    [
        ("FHWC", (5, 2, 3, 3), 5),
        ("FCHW", (5, 3, 2, 3), 5),
        ("DHW", (7, 2, 3), 7),
        ("HWC", (2, 3, 3), 1),
        ("HW", (2, 3), 1),
    ],
)
def test_length_counts_frames_or_slices(layout, shape, frames):
    sequence = Sequence(np.zeros(shape, np.float32), layout=layout, frames=np.zeros(frames, np.int64))
    assert (len(sequence), sequence.shape, sequence.dtype) == (frames, shape, np.float32)


@pytest.mark.parametrize(
    ("sequence", "text"),
    [
        (clip(), "Sequence((3, 4, 6, 3) FHWC uint8 on cpu, frames 10…12, 0.400…0.480 s, from 'a.mp4')"),
        (Sequence(np.zeros((2, 2, 2, 1))), "Sequence((2, 2, 2, 1) FHWC float64 on cpu)"),
        (
            clip(frames=[-1, 4, -1], timestamps=[np.nan, 0.5, np.nan], source=""),
            "Sequence((3, 4, 6, 3) FHWC uint8 on cpu, frames 4, 0.500 s)",
        ),
        (
            clip(frames=[-1] * 3, timestamps=[np.nan] * 3),
            "Sequence((3, 4, 6, 3) FHWC uint8 on cpu, from 'a.mp4')",
        ),
        (
            Sequence(np.zeros((2, 2, 2, 1), np.int16), "DHWC", affine=np.diag([-0.5, 0.5, 3, 1])),
            "Sequence((2, 2, 2, 1) DHWC int16 on cpu, spacing 0.5 × 0.5 × 3 mm SAL)",
        ),
        (
            clip(source="two\nlines.mp4", frames=None, timestamps=None),
            "Sequence((3, 4, 6, 3) FHWC uint8 on cpu, from 'two\\nlines.mp4')",
        ),
    ],
)
def test_repr_says_what_it_is_and_shows_no_pixels(sequence, text):
    assert repr(sequence) == text


def test_pixels_leave_without_a_copy():
    sequence = clip()
    for array in (sequence.numpy(), np.asarray(sequence), np.from_dlpack(sequence)):
        assert np.shares_memory(array, sequence.data)
        assert np.array_equal(array, sequence.data)
    assert sequence.device == "cpu"
    assert sequence.__dlpack_device__() == (1, 0)


def test_asarray_converts_and_copies_when_asked():
    sequence = clip()
    assert np.asarray(sequence, np.float32).dtype == np.float32
    assert not np.shares_memory(np.array(sequence, copy=True), sequence.data)
    with pytest.raises(ParameterError, match="needs a copy of uint8 data; allowed: copy=None or True"):
        sequence.__array__(np.float32, copy=False)


def test_torch_shares_the_pixels(torch):
    sequence = clip()
    for tensor in (sequence.torch(), torch.from_dlpack(sequence)):
        assert tensor.data_ptr() == sequence.data.ctypes.data
        assert tuple(tensor.shape) == sequence.shape
        assert tensor.dtype == torch.uint8


def test_a_tensor_comes_in_as_a_view(torch):
    tensor = torch.zeros(2, 3, 4, 3)
    sequence = Sequence(tensor)
    assert isinstance(sequence.data, np.ndarray)
    assert sequence.data.ctypes.data == tensor.data_ptr()


def test_equal_shapes_are_stacked_once():
    sequences = [clip(first=0), clip(first=5)]
    batch = Batch.of(sequences, labels=[3, -1], indices=[8, 9])
    assert batch.shape == (2, 3, 4, 6, 3)
    assert (batch.layout, batch.device, len(batch)) == ("NFHWC", "cpu", 2)
    assert np.array_equal(batch.data, np.stack([s.data for s in sequences]))
    assert all(np.shares_memory(sequence.data, batch.data) for sequence in batch)
    assert [s.frames[0] for s in batch] == [0, 5]
    assert batch[1].source == "a.mp4"
    assert batch.sources == ("a.mp4", "a.mp4")
    assert (batch.labels.tolist(), batch.indices.tolist()) == ([3, -1], [8, 9])
    assert repr(batch) == "Batch((2, 3, 4, 6, 3) NFHWC uint8 on cpu)"
    for array in (batch.numpy(), np.asarray(batch), np.from_dlpack(batch)):
        assert np.shares_memory(array, batch.stacked)


def test_a_batch_gives_torch_its_memory(torch):
    batch = Batch.of([clip(), clip()])
    assert batch.torch().data_ptr() == batch.stacked.ctypes.data


@pytest.mark.parametrize(
    "other",
    [clip(length=2), clip(width=8), clip(layout="DHWC"), Sequence(np.zeros((3, 4, 6, 3), np.float32))],
)
def test_unequal_sequences_stay_apart(other):
    batch = Batch.of([clip(), other])
    assert batch.stacked is None
    assert len(list(batch)) == 2
    assert repr(batch) == "Batch(2 sequences of different shapes, NFHWC)"


@pytest.mark.parametrize(
    "use", [lambda b: b.data, lambda b: b.shape, np.asarray, np.from_dlpack, lambda b: b.torch()]
)
def test_a_ragged_batch_says_what_to_do(use):
    batch = Batch.of([clip(width=2), *[clip(length=5)] * 4])
    expected = r"different shapes \(\(3, 4, 2, 3\), .*, …\)\. Iterate over the batch, .* ragged='pad'"
    with pytest.raises(ParameterError, match=expected):
        use(batch)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sequences": ()}, "a batch of no sequences"),
        ({"labels": [1, 2]}, r"labels has the shape \(2,\)"),
        ({"labels": [True]}, "labels has the dtype bool"),
        ({"indices": [0.5]}, "indices has the dtype float64"),
        ({"indices": []}, r"indices has the shape \(0,\)"),
        ({"stacked": np.zeros((2, 3, 4, 6, 3))}, "stacked holds 2 samples, but there are 1"),
    ],
)
def test_a_batch_fits_its_sequences(fields, message):
    with pytest.raises(ParameterError, match=message):
        Batch(**({"sequences": (clip(),)} | fields))


def test_a_batch_is_immutable():
    batch = Batch.of([clip()], labels=[1])
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.labels = None
    batch.labels[0] = 2
    assert batch.labels.tolist() == [1], "who asks owns a copy"


def test_labels_can_be_given_to_torch_without_a_warning():
    """It warns of memory that cannot be written."""
    torch = pytest.importorskip("torch")
    batch = Batch.of([clip()], labels=[1], indices=[4])
    assert torch.as_tensor(batch.labels).tolist() == [1]
    assert torch.as_tensor(batch.indices).tolist() == [4]


def test_a_sequence_keeps_its_label_and_index():
    sequence = clip().as_sample(3, 17)
    assert (sequence.label, sequence.index) == (3, 17)
    assert (clip().label, clip().index) == (-1, -1)
    moved = sequence.with_pixels(sequence.data[:, ::-1], sequence.layout)
    assert (moved.label, moved.index) == (3, 17)
    assert "label 3" in repr(sequence)
    batch = Batch.of([sequence, clip()])
    assert (batch.labels.tolist(), batch.indices.tolist()) == ([3, -1], [17, -1])
    with pytest.raises(ParameterError, match="label=-2 is not valid"):
        dataclasses.replace(sequence, label=-2)


@given(st.lists(st.integers(0, 6) | st.none(), min_size=1, max_size=5))
def test_tables_of_frames_and_times_are_filled_where_a_sample_is_shorter(lengths):
    def sample(length):
        pixels = np.zeros((length or 2, 1, 1, 1), np.uint8)
        if length is None:
            return Sequence(pixels)
        return Sequence(pixels[:length], frames=np.arange(length), timestamps=np.arange(length) / 8)

    batch = Batch.of([sample(length) for length in lengths])
    width = max(length or 0 for length in lengths)
    assert batch.frames.shape == batch.timestamps.shape == (len(lengths), width)
    assert (batch.frames.dtype, batch.timestamps.dtype) == (np.int64, np.float64)
    for row, times, length in zip(batch.frames, batch.timestamps, lengths, strict=True):
        known = length or 0
        assert row.tolist() == [*range(known), *[-1] * (width - known)]
        assert times[:known].tolist() == [i / 8 for i in range(known)]
        assert np.isnan(times[known:]).all()


@pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy, copy.copy])
def test_a_batch_travels_with_its_pixels_once(again):
    """A loader's workers sent them twice, and what arrived were no views any more."""
    given = Batch.of([clip(first=0), clip(first=7)], labels=[1, 2], indices=[3, 4])
    found = again(given)
    assert np.array_equal(found.data, given.data)
    assert [s.source for s in found] == ["a.mp4", "a.mp4"]
    assert np.array_equal(found.frames, given.frames)
    assert found.labels.tolist() == [1, 2]
    for sequence, pixels in zip(found, given.data, strict=True):
        assert np.array_equal(sequence.data, pixels)
        assert np.shares_memory(sequence.data, found.data)
    large = Batch.of([clip(height=99), clip(height=99)])
    assert len(pickle.dumps(large)) < 1.5 * large.data.nbytes
    apart = again(Batch.of([clip(), clip(height=9)]))
    assert [s.shape for s in apart] == [(3, 4, 6, 3), (3, 9, 6, 3)]


@pytest.mark.parametrize("layout", ["FHWC", "FCHW", "CFHW"])
@pytest.mark.parametrize(
    "index", [0, 4, -1, np.int64(2), slice(1, 4), slice(None, None, -2), slice(3, 3), slice(-2, None)]
)
def test_frames_are_selected_with_what_is_known_of_them(layout, index):
    pixels = np.random.default_rng(0).integers(0, 255, (5, 4, 6, 3), np.uint8)
    axes = ["FHWC".index(letter) for letter in layout]
    given = clip(5, data=pixels.transpose(axes), layout=layout, label=3, index=7)
    found, numbers = given[index], np.arange(10, 15)[index]
    assert np.shares_memory(found.data, given.data) == bool(np.size(numbers))
    single = np.ndim(numbers) == 0
    assert found.layout == (layout.replace("F", "") if single else layout)
    expected = pixels[index].transpose(["FHWC".replace("F" * single, "").index(x) for x in found.layout])
    np.testing.assert_array_equal(found.data, expected)
    assert found.frames.tolist() == np.atleast_1d(numbers).tolist()
    np.testing.assert_allclose(found.timestamps, np.atleast_1d(numbers) / 25)
    assert (found.label, found.index, found.source) == (3, 7, "a.mp4")
    assert [int(value.frames[0]) for value in given] == [10, 11, 12, 13, 14]


@pytest.mark.parametrize("index", [2, -1, slice(1, 4), slice(None, None, -2), slice(4, None, 2)])
def test_slices_of_a_volume_stay_where_they_are(index):
    affine = np.array([[0, 0.5, 2, -5], [0.1, 1, 0, 7], [3, 0, -1, 2], [0, 0, 0, 1]])
    found = Sequence(np.zeros((5, 4, 6, 1)), "DHWC", affine=affine)[index]
    for position, number in enumerate(np.atleast_1d(np.arange(5)[index])):
        np.testing.assert_allclose(found.affine @ (position, 1, 2, 1), affine @ (number, 1, 2, 1))


def test_frames_that_cannot_be_selected():
    with pytest.raises(FrameRangeError, match=r"^a\.mp4: frame 3 is not in the sequence; allowed: 0 to 2"):
        clip()[3]
    for wrong in (1.0, "1", [0, 1], slice(None, None, 0), None):
        with pytest.raises(ParameterError, match="selects no frames; allowed: a whole number, or a range"):
            clip()[wrong]
    with pytest.raises(ParameterError, match=r"a single frame HWC has no frames to select\. Index its data"):
        clip()[0][0]
