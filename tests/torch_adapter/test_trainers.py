"""What the docs show of Lightning, Accelerate and torchdata, run where these are installed."""

from __future__ import annotations

import re
import textwrap

import pytest
import torch
from torch.utils.data import DataLoader

import seqpipe
import seqpipe.torch
from seqpipe import Clip, Decode
from tests.support.datasets import files

pytestmark = pytest.mark.filterwarnings("ignore")


def shown(name: str) -> str:
    """The program of that name in the docs."""
    found = re.search(rf"^{name}::\n\n((?:    .*\n|\n)+)", seqpipe.torch.__doc__ or "", re.M)
    assert found
    program = textwrap.dedent(found[1])
    assert len(program.strip().splitlines()) <= 20
    return program


class Recorded(torch.nn.Module):
    """A network that notes what it is given."""

    def __init__(self):
        super().__init__()
        self.seen = []
        self.net = torch.nn.Linear(3, 8)

    def forward(self, clips):
        assert clips.shape[1:3] == (3, 4)
        self.seen.append(float(clips.float().mean()))
        return self.net(clips.float().mean(dim=(2, 3, 4)))


def data():
    """12 clips, 6 of each of two videos."""
    listed = seqpipe.listing(files("h264", "hevc"), labels=[3, 4])
    return seqpipe.videos(listed, Clip(4, step=8), decode=Decode(threads=1), shuffle=True)


def test_accelerate():
    accelerate = pytest.importorskip("accelerate")
    with data() as ds:
        model = Recorded()
        names = {
            "accelerate": accelerate,
            "torch": torch,
            "DataLoader": DataLoader,
            "ds": ds,
            "model": model,
        }
        exec(shown("Accelerate"), names)
        assert len(model.seen) == 6
        assert model.seen[:3] != model.seen[3:], "each epoch has an order of its own"


def test_lightning():
    lightning = pytest.importorskip("lightning")

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.labels = Recorded(), []

        def training_step(self, batch, _):
            self.labels += batch["label"].tolist()
            return torch.nn.functional.cross_entropy(self.model(batch["image"]), batch["label"])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    with data() as ds:
        model = Model()
        names = {
            "lightning": lightning,
            "torch": torch,
            "DataLoader": DataLoader,
            "ds": ds,
            "model": model,
        }
        exec(shown("Lightning"), names)
        assert len(model.labels) == 24
        assert sorted(model.labels[:12]) == sorted(model.labels[12:]) == [3] * 6 + [4] * 6
        assert model.model.seen[:3] != model.model.seen[3:]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_goes_on(workers):
    loaders = pytest.importorskip("torchdata.stateful_dataloader")
    with data() as ds:

        def loader():
            return loaders.StatefulDataLoader(ds.batch(3).torch(), batch_size=None, num_workers=workers)

        first = loader()
        batches = iter(first)
        next(batches)
        next(batches)
        state = first.state_dict()
        rest = [batch["index"].tolist() for batch in batches]
        other = loader()
        other.load_state_dict(state)
        assert [batch["index"].tolist() for batch in other] == rest
        assert len(rest) == 2
