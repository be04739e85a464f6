"""Outputs of their own for each sample: the same samples, made otherwise by the conversion."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from seqpipe import Clip, videos
from seqpipe.errors import ParameterError, SourceError
from seqpipe.readers import SampleRequest
from seqpipe.sequence import Sequence
from seqpipe.video.convert.output import OutputSpec
from tests.support.datasets import clips, files, gist, planned
from tests.support.under_way import UnderWay

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def window(sample: SampleRequest, epoch: int) -> tuple[int, int, int, int]:
    """A window that depends on the sample and the epoch alone."""
    rows, columns, _ = sample.shape
    random = np.random.default_rng((epoch, sample.index))
    left = int(random.integers(0, columns - 40))
    return int(random.integers(0, rows - 24)), left, 24, 40


def cropped(samples: Any, epoch: int) -> list[OutputSpec]:
    return [OutputSpec(crop=window(sample, epoch), mirror=sample.index % 2 == 1) for sample in samples]


def cut(sequence: Sequence, sample: SampleRequest, epoch: int) -> np.ndarray:
    y, x, height, width = window(sample, epoch)
    made = sequence.numpy()[:, y : y + height, x : x + width]
    return made[:, :, ::-1] if sample.index % 2 else made


@pytest.mark.parametrize("names", [("h264", "vp9"), ("h264", "odd_vp9", "rotated_90", "wide_h264")])
def test_each_sample_has_a_window_of_its_own(names):
    with videos(files(*names), Clip(6), shuffle=True, seed=3) as dataset:
        for epoch in (0, 2):
            dataset.set_epoch(epoch)
            plain, made = list(dataset.sequences()), list(dataset.batch(4, outputs=cropped))
            samples = planned(dataset)
            one_by_one = list(dataset.sequences(outputs=cropped))
            assert [batch.stacked is not None for batch in made] == [True] * len(made)
            found = [sequence for batch in made for sequence in batch]
            for sample, whole, one, other in zip(samples, plain, found, one_by_one, strict=True):
                np.testing.assert_array_equal(one.numpy(), cut(whole, sample, epoch))
                np.testing.assert_array_equal(other.numpy(), one.numpy())
                assert (one.source, one.frames.tolist()) == (whole.source, whole.frames.tolist())
                assert one.timestamps.tolist() == whole.timestamps.tolist()
            last = samples[-1]
            single = dataset.sample(last.index, outputs=cropped)
            np.testing.assert_array_equal(single.numpy(), found[-1].numpy())


def test_shapes_that_differ_make_a_list():
    def half_of_some(samples, epoch):
        return [OutputSpec(size=(16, 20 + 10 * (sample.index % 2))) for sample in samples]

    with videos(files("h264"), Clip(4)) as dataset:
        batch = next(iter(dataset.batch(3, outputs=half_of_some)))
        assert batch.stacked is None
        assert [sequence.shape for sequence in batch] == [(4, 16, 20 + 10 * (n % 2), 3) for n in range(3)]


@pytest.mark.parametrize(("prefetch", "asked"), [(0, 1), (1, 3), (2, 4)])
def test_outputs_are_asked_for_once_and_before_a_batch_is_waited_for(prefetch, asked):
    """So that the next batch can be decoded at once when one arrives."""
    calls = []

    def counted(samples, epoch):
        calls.append([sample.index for sample in samples])
        return cropped(samples, epoch)

    with videos(files("h264"), Clip(4)).prefetch(prefetch) as dataset:
        batches = iter(dataset.batch(2, outputs=counted))
        calls.clear()
        next(batches)
        assert len(calls) == asked
        found = 1 + sum(1 for _ in batches)
        assert len(calls) == found
        assert [index for batch in calls for index in batch] == list(range(len(dataset)))


def test_a_state_goes_on_with_the_same_outputs():
    def make():
        return videos(files("h264", "vp9"), Clip(6), shuffle=True, seed=1)

    with make() as dataset:
        dataset.set_epoch(1)
        passing = dataset.batch(4, outputs=cropped)
        next(passing)
        state = json.loads(json.dumps(passing.state_dict()))
        rest = [gist(batch) for batch in passing]
    with make() as other:
        again = other.batch(4, outputs=cropped)
        again.load_state_dict(state)
        assert [gist(batch) for batch in again] == rest


@pytest.mark.parametrize("layout", ["FHWC", "FCHW"])
def test_padding_is_the_same_color_in_other_outputs(layout):
    """Not the same number: it goes through mean and std, each channel's own."""
    output = OutputSpec(dtype="float32", mean=MEAN, std=STD, layout=layout)
    with videos(files("h264"), Clip(7, stride=20, pad="constant", fill=51)) as dataset:
        (batch,) = dataset.batch(4, outputs=lambda samples, _: [output] * len(samples))
        padded = batch["frames"] < 0
        pixels = batch.numpy() if layout == "FHWC" else np.moveaxis(batch.numpy(), 2, -1)
    assert 0 < padded.sum() < padded.size
    wanted = np.float32((0.2 - np.array(MEAN)) / STD)
    np.testing.assert_array_equal(pixels[padded], np.broadcast_to(wanted, pixels[padded].shape))
    assert (np.abs(pixels[~padded] - wanted) > 0.1).any()


@pytest.mark.parametrize(
    ("value", "plain", "output", "wanted"),
    [
        (51, {}, {"color": "BGR"}, 51),
        (51, {}, {"dtype": "uint16"}, 51 * 257),
        (51, {}, {"dtype": "float16"}, 0.2),
        (65535, {"dtype": "uint16"}, {"dtype": "uint8"}, 255),
        (0.2, {"dtype": "float32"}, {"dtype": "float16", "mean": 0.2, "std": 0.5}, 0.0),
        (-1.0, {"dtype": "float32", "mean": 0.5, "std": 0.25}, {"dtype": "uint8"}, 64),
        (9.0, {"dtype": "float32"}, {"dtype": "uint8"}, 255),
        (255, {}, {"dtype": "float32", "mean": (0.0, 0.5, 1.0)}, (1.0, 0.5, 0.0)),
    ],
)
def test_a_fill_value_in_another_output(value, plain, output, wanted):
    options = {"length": 2, "step": 47, "pad": "constant", "fill": value, **plain}
    with clips(files("h264"), **options) as dataset:
        batch = next(dataset.batch(2, outputs=lambda samples, _: [OutputSpec(**output)] * len(samples)))
    assert batch["frames"][1].tolist() == [47, -1]
    colors = batch.numpy()[1, 1].reshape(-1, 3)
    assert (colors == colors[0]).all()
    assert colors[0].tolist() == pytest.approx(np.broadcast_to(wanted, 3).tolist(), rel=1e-3)


@pytest.mark.parametrize("on_error", ["raise", "skip", "substitute"])
def test_what_pictures_do_not_have_is_raised_in_its_turn(on_error):
    """It is no sample's fault, so none is left out for it; the next batch comes all the same."""

    def too_large(samples, epoch):
        return [OutputSpec(crop=(0, 0, 96, 128) if s.index < 9 else (0, 1, 96, 128)) for s in samples]

    with videos(files("h264"), Clip(4), on_error=on_error) as dataset:
        batches, found = iter(dataset.batch(4, outputs=too_large)), []
        for number in range(len(batches)):
            if number < 2:
                found.append(len(next(batches)))
                continue
            with pytest.raises(ParameterError, match=r"h264.*exceeds the frame of 128x96"):
                next(batches)
            found.append(-1)
        with pytest.raises(StopIteration):
            next(batches)
        assert found == [4, 4, -1]
        with pytest.raises(ParameterError, match="exceeds the frame"):
            dataset.sample(10, outputs=too_large)
        assert not dataset.report().losses


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            lambda *_: [OutputSpec()],
            "outputs returned 1 values for 4 samples; allowed: an OutputSpec for each",
        ),
        (lambda samples, _: [{"size": (4, 4)}] * len(samples), "outputs returned a dict for 4 samples"),
    ],
)
def test_outputs_that_are_none(given, message):
    with (
        videos(files("h264"), Clip(4)) as dataset,
        pytest.raises(ParameterError, match=message),
    ):
        next(iter(dataset.batch(4, outputs=given)))


def test_a_padded_batch_has_no_outputs():
    with (
        videos(files("h264"), Clip(4)) as dataset,
        pytest.raises(ParameterError, match="ragged='pad' and outputs exclude one another"),
    ):
        dataset.batch(4, ragged="pad", outputs=cropped)


def test_samples_that_cannot_be_read_are_left_out_or_substituted():
    """And a substitute has the output that it has in its own place."""
    names = ("h264_lost_reference", "h264", "vp9")
    with videos(files(*names), Clip(6), on_error="substitute") as dataset:
        plain = {}
        for sample in planned(dataset):
            try:
                plain[sample.index] = dataset.sample(sample.index), sample
            except SourceError:
                continue
        batches = list(dataset.batch(4, outputs=cropped))
        assert any("substituted" in loss.fate for loss in dataset.report().losses)
    assert sum(map(len, batches)) == len(planned(dataset)) > len(plain)
    for batch in batches:
        for sequence, index in zip(batch, batch["index"].tolist(), strict=True):
            whole, sample = plain[index]
            np.testing.assert_array_equal(sequence.numpy(), cut(whole, sample, 0))


def test_what_batches_hold_is_known_beforehand(monkeypatch):
    def small(samples, epoch):
        return [OutputSpec(size=(10 + sample.index, 8), dtype="float16") for sample in samples]

    under_way, options = UnderWay(monkeypatch), {"files": files("h264", "wide_h264"), "length": 4}
    with clips(**options) as dataset:
        sizes = [sequence.data.nbytes for sequence in dataset.sequences(outputs=small)]
    assert sizes[0] != sizes[-1]
    several = sum(sizes[2:6])  # two batches of two that follow the first
    for bound, ahead in ((several, 2), (several - 1, 1)):
        under_way.clear()
        with clips(ahead=2, gib=bound / 2**30, **options) as dataset:
            next(iter(dataset.batch(2, outputs=small)))
        assert len(under_way.begun) == 1 + ahead
    for bound, group in ((100 * sum(sizes[:8]), 8), (2 * sum(sizes[:8]) // 8 * 3, 3)):
        under_way.clear()
        with clips(threads=8, gib=bound / 2**30, **options) as dataset:
            next(dataset.sequences(outputs=small))
        assert under_way.begun[0] == group
