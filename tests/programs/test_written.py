"""Programs that people have written for DALI, each run end to end after ``s/nvidia.dali/seqpipe.dali/``."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch

from data_scripts.frame_code import read
from seqpipe.ops import REGISTRY
from tests.programs.conftest import picture


def decoded(folder, number):
    path = folder / "flat" / f"image_{number}.jpg"
    return cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)


def test_class_images(program, folder, device):
    images, labels, seen = program("class_images")(folder)
    assert (images.shape, images.dtype) == ((4, 224, 224, 3), np.uint8)
    assert labels.tolist() == [[0], [0], [0], [0]]
    assert labels.dtype == np.int32
    # linear and antialiased only where it shrinks: OpenCV does the same where it grows
    wanted = cv2.resize(decoded(folder, 0), (224, 224), interpolation=cv2.INTER_LINEAR)
    assert np.abs(images[0].astype(int) - wanted).max() <= 2
    # seven images in batches of four: the second is filled up from the start
    assert [shape for shape, _ in seen] == [(4, 224, 224, 3)] * 2
    assert [label for _, label in seen] == [[0, 0, 0, 0], [1, 1, 1, 0]]


def test_detection(program, folder, device):
    boxes = np.array([[0.1, 0.2, 0.5, 0.6], [0.4, 0.4, 0.9, 0.8]], np.float32)

    def source(info):
        return picture(info.idx_in_epoch % 7, 80, 100), boxes, np.array([3, 5], np.int32)

    batches = program("detection")(folder, source)
    again = program("detection")(folder, source)
    for (images, found, labels), (same, *_) in zip(batches, again, strict=True):
        assert images.as_array().shape == (6, 300, 300, 3)
        assert np.array_equal(images.as_array(), same.as_array())
        for sample in range(6):
            assert found.at(sample).shape[0] == labels.at(sample).shape[0] > 0
            assert found.at(sample).min() >= 0
            assert found.at(sample).max() <= 1
            assert set(labels.at(sample).tolist()) <= {3, 5}
    assert len({images.as_array().tobytes() for images, *_ in batches}) == 3, "batches are drawn anew"


def test_class_video(program, folder, device):
    data = [str(folder / "videos" / "0" / "h264.mp4")]
    (frames, first), size = program("class_video")(folder, data)
    assert frames.shape == (2, 4, 32, 48, 3)
    assert first.shape == (2, 96, 128, 3)
    assert [read(image) for image in first] == [0, 4], "sequences of 4 follow one another"
    assert size == 12


@pytest.mark.skipif("optical_flow" not in REGISTRY, reason="there is no optical flow in this installation")
def test_flow(program, folder, device):
    first, flow = program("flow")(folder)
    assert first.shape == (1, 96, 128, 3)
    assert flow.ndim == 5
    assert flow.shape[1] == 2, "one less than frames"


def test_fed_by_hand(program, folder, device):
    batches = program("fed_by_hand")(folder)
    assert len(batches) == 4
    order = [(number, number + 100) for _, labels in batches for number in labels[:, 0].tolist()]
    assert [tuple(row) for _, labels in batches for row in labels.tolist()] == order
    assert sorted(number for number, _ in order[:7]) == list(range(7))
    for images, labels in batches:
        assert isinstance(images, torch.Tensor)
        assert images.shape == (4, 48, 64, 3)
        assert labels.dtype == torch.uint8
        # what belongs to an image comes with it
        assert images.float().mean(dim=(1, 2))[:, 2].round().tolist() == pytest.approx(
            [20 * number for number in labels[:, 0].tolist()], abs=4
        )


def test_image_loader(program, folder, device):
    epochs = program("image_loader")(folder)
    orders = []
    for epoch in epochs:
        assert [len(label) for _, label in epoch] == [4, 3]
        assert [tuple(data.shape) for data, _ in epoch] == [(4, 640, 640, 3), (3, 640, 640, 3)]
        assert sorted(int(one) for _, label in epoch for one in label) == [0, 0, 0, 0, 1, 1, 1]
        orders.append([round(float(one[..., 2].float().mean()) / 20) for data, _ in epoch for one in data])
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(7))
    assert orders[0] != orders[1], "each epoch is shuffled anew"


def test_video_loader(program, folder, device):
    epochs = program("video_loader")(folder)
    for epoch in epochs:
        labels = [int(one) for _, label in epoch for one in label]
        # windows of 4 frames, 3 apart, that begin every 4 frames: 10 in each of three videos of 48 frames
        assert len(labels) == 30
        assert sorted(labels) == [0] * 20 + [1] * 10
        for data, _ in epoch:
            for clip in data.cpu().numpy():
                numbers = [read(frame) for frame in clip]
                assert np.diff(numbers).tolist() == [3, 3, 3]
    first, second = ([read(clip[0].cpu().numpy()) for data, _ in epoch for clip in data] for epoch in epochs)
    assert sorted(first) == sorted(second)
    assert first != second


def test_iterable_source(program, folder, device):
    one, other = program("iterable_source")(folder)
    assert len(one) == len(other) == 2, "20 samples in batches of 8: what fills no batch is left out"
    for mine, yours in zip(one, other, strict=True):
        assert mine["image"].shape == (8, 20, 20, 3)
        assert mine["image"].dtype == torch.float32
        assert torch.equal(mine["image"], yours["image"])
        assert torch.equal(mine["label"], yours["label"])
    assert one[1]["label"].tolist() == [float(n) for n in range(8, 16)]


def test_a_program_for_a_gpu_says_once_that_it_runs_on_a_cpu(program, folder, monkeypatch):
    from seqpipe.dali import device as place

    monkeypatch.delenv("SEQPIPE_DALI_DEVICE", raising=False)
    monkeypatch.setattr(place, "has_driver", lambda: False)
    place._warn.cache_clear()
    with pytest.warns(UserWarning, match="no NVIDIA driver.*runs on the CPU") as told:
        program("class_images")(folder)
    assert len([one for one in told if "driver" in str(one.message)]) == 1
