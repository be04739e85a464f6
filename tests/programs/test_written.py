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
        # windows of 4 frames, 3 apart, that follow one another: 4 in each of three videos of 48 frames
        assert len(labels) == 12
        assert sorted(labels) == [0] * 8 + [1] * 4
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
    with pytest.warns(UserWarning, match="no NVIDIA driver.*run on the CPU") as told:
        program("class_images")(folder)
    assert len([one for one in told if "driver" in str(one.message)]) == 1


def test_sharded_callable(program, folder, device):
    paths = sorted((folder / "flat").iterdir())
    files = [(str(path), number) for number, path in enumerate(paths + paths[:1])]
    one, other = program("sharded_callable")(folder, files)
    assert [[len(batch) for batch in epoch] for epoch in one + other] == [[2, 2]] * 6
    for mine, yours in zip(one, other, strict=True):
        assert sorted(label for batch in mine + yours for label in batch) == list(range(8))
    assert len({str(epoch) for epoch in one}) == 3, "the source knows the number of the epoch"


def test_videos_by_list(program, folder, device, tmp_path):
    table = tmp_path / "list.txt"
    video = folder / "videos" / "0" / "h264.mp4"
    table.write_text(f"{video} 5 0 40\n{folder / 'videos' / '1' / 'hevc.mp4'} 6 10 48\n")
    size, epochs = program("videos_by_list")(folder, table)
    # windows of 4 frames, 2 apart, every 4 frames: 9 or 10 of 40 frames, 8 of 38
    assert size == sum(len(batch["label"]) for batch in epochs[0])
    seen = [
        [(int(a), int(b)) for batch in epoch for a, b in zip(batch["label"], batch["start"], strict=True)]
        for epoch in epochs
    ]
    assert sorted(seen[0]) == sorted(seen[1])
    assert seen[0] != seen[1]
    assert min(start for label, start in seen[0] if label == 6) == 10
    for batch in epochs[0]:
        assert batch["data"].shape[1:] == (4, 3, 32, 32)
        assert batch["data"].dtype == torch.float32
        plain, turned = batch["plain"].cpu(), batch["turned"].cpu()
        for frame in range(4):
            assert torch.equal(turned[:, frame], torch.rot90(plain[:, frame], frame, (1, 2)))


def test_conditional(program, folder, device):
    def source(info):
        return picture(info.idx_in_epoch % 7, 16, 24), np.array([info.idx_in_epoch % 5], np.int32)

    kinds = []
    for images, plain, labels, kind in program("conditional")(folder, source):
        for image, before, label, number in zip(images, plain, labels[:, 0], kind, strict=True):
            kinds.append(number)
            assert label != 3 or number == -1
            wanted = before.copy()
            if 0 <= number < 1:
                wanted = np.minimum(before.astype(int) * 2, 255).astype(np.uint8)
            elif 1 <= number < 2:
                wanted = before[:, ::-1]
            elif number >= 2:
                wanted[2:6, 2:6] = 0
            assert np.array_equal(image, wanted)
    assert {int(number // 1) for number in kinds} == {-1, 0, 1, 2}


def test_iterable_class(program, folder, device):
    found = program("iterable_class")(folder)
    whole = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]
    wanted = {"FILL": whole, "DROP": whole[:2], "PARTIAL": [*whole[:2], [8, 9]]}
    for policy, epochs in found.items():
        for epoch in epochs:
            assert [labels for _, labels in epoch] == wanted[policy]
            assert [data for data, _ in epoch] == [[2.0 * n for n in labels] for _, labels in epoch]
