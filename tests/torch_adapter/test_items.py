"""Samples by index for loaders of others, a drop-in for LeRobot's data sets, and operators behind a loader."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

import seqpipe
from data_scripts.make_robots import CAMERAS, RobotSet, make_robots
from seqpipe import Clip, OutputSpec, ParameterError, ops
from tests.dataset.sources import listed

torch = pytest.importorskip("torch")
pytest.importorskip("pyarrow")
from seqpipe.torch import AugmentedLoader, TensorItems, lerobot_items  # noqa: E402  needs torch

TOP, WRIST = CAMERAS
DELTAS = {TOP: [-0.1, 0.0], "action": [0.0, 0.1]}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_robots(tmp_path_factory.mktemp("robots") / "v3.0", made=RobotSet(lengths=(4, 3, 3)))


def own(root, **changes):
    """What seqpipe uses of a LeRobotDataset."""
    given = {"root": root, "delta_timestamps": DELTAS, "episodes": [0, 2], "tolerance_s": 1e-4}
    return SimpleNamespace(**{**given, "image_transforms": None, "meta": "its metadata", **changes})


def test_items_are_the_samples_of_the_data_set():
    dataset = seqpipe.videos(listed(), Clip(4, step=3)).map(ops.Flip(p=0.5))
    items = TensorItems(dataset, epoch=1)
    assert len(items) == dataset.size
    for index in (0, 5):
        wanted = dataset.sample(index, 1)
        assert np.array_equal(items[index]["image"].numpy(), wanted["image"].numpy())
        assert int(items[index]["index"]) == index


def test_lerobot_data_sets_are_read_by_seqpipe(root):
    items = lerobot_items(own(root, return_uint8=True))
    read = seqpipe.lerobot(root, DELTAS, [0, 2], output=OutputSpec(layout="FCHW"))
    loader = torch.utils.data.DataLoader(pickle.loads(pickle.dumps(items)), 4, shuffle=False)
    batch = next(iter(loader))
    assert batch[TOP].shape == (4, 2, 3, 96, 128)
    assert batch[TOP].dtype == torch.uint8
    assert batch["task"] == [read.sample(n)["task"] for n in range(4)]
    for row in range(4):
        for name, value in read.sample(row).items():
            if name != "task":
                assert np.array_equal(batch[name][row].numpy(), np.asarray(value)), name
    assert items.meta == "its metadata"
    with pytest.raises(AttributeError):
        _ = items.nothing_of_this_name


def test_transforms_of_images_are_applied_to_every_camera(root):
    items = lerobot_items(own(root, image_transforms=lambda image: 1 - image))
    plain = lerobot_items(own(root))
    assert torch.equal(items[3][WRIST], 1 - plain[3][WRIST])
    assert torch.equal(items[3]["action"], plain[3]["action"])


def test_operators_behind_a_loader_draw_by_index_and_epoch_and_alike_for_cameras():
    images = torch.arange(6 * 3 * 8 * 8, dtype=torch.uint8).reshape(6, 3, 8, 8)
    batches = [
        {
            "a": images[n : n + 3],
            "b": images[n : n + 3, None],
            "index": torch.arange(n, n + 3),
            "task": ["x"] * 3,
        }
        for n in (0, 3)
    ]
    chain = ops.Chain(ops.Flip(p=0.5), ops.Brightness(brightness=(0.5, 1.0)))
    loader = AugmentedLoader(batches, chain, parts=["a", "b"])
    epochs = [list(loader), list(loader)]
    assert len(loader) == 2
    for epoch, found in enumerate(epochs):
        for batch, given in zip(found, batches, strict=True):
            assert batch["task"] == ["x"] * 3
            assert torch.equal(batch["a"], batch["b"][:, 0])
            for row, index in enumerate(given["index"].tolist()):
                wanted = chain(given["a"][row : row + 1], layout="NCHW", epoch=epoch, index=[index])
                assert torch.equal(batch["a"][row : row + 1], wanted)
    assert not torch.equal(epochs[0][0]["a"], epochs[1][0]["a"])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TensorItems([1]), "dataset is a list; allowed: a data set without batch"),
        (lambda: TensorItems(seqpipe.items([np.zeros(3)]).batch(1)), r"a data set with batch\(\); allowed"),
        (
            lambda: lerobot_items([1]),
            "dataset is a list, without root, delta_timestamps, episodes, tolerance_s",
        ),
        (lambda: AugmentedLoader([], parts=["a"]), "nothing to apply; allowed: operators, and parts"),
    ],
)
def test_what_cannot_be_wrapped_is_named(make, said):
    with pytest.raises(ParameterError, match=said):
        make()
