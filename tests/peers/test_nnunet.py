"""The drop-in for nnU-Net v2 in its own data loader, beside the transforms that nnU-Net has.

``pip install nnunetv2`` and run ``pytest -m peers tests/peers/test_nnunet.py``.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytestmark = pytest.mark.peers
EXAMPLE = Path(__file__).parents[2] / "examples" / "drop_in_nnunet.py"
PATCH, SCALES = (24, 32, 32), [[1.0, 1.0, 1.0], [0.5, 0.5, 0.5]]
OPTIONS = {"use_mask_for_norm": [False], "is_cascaded": False, "foreground_labels": [1, 2]}


@pytest.fixture
def trainer():
    """The example's trainer."""
    pytest.importorskip("nnunetv2", reason="pip install nnunetv2")
    spec = importlib.util.spec_from_file_location("drop_in_nnunet", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SeqpipeTrainer


def batch_of(folder, transforms, size):
    from nnunetv2.training.dataloading.data_loader import nnUNetDataLoader
    from nnunetv2.training.dataloading.nnunet_dataset import nnUNetDatasetBlosc2

    manager = SimpleNamespace(all_labels=[0, 1, 2], has_ignore_label=False)
    data = nnUNetDatasetBlosc2(str(folder))
    return nnUNetDataLoader(data, 2, size, PATCH, manager, 0.33, transforms=transforms).generate_train_batch()


@pytest.mark.parametrize("dummy_2d", [False, True])
def test_nnunets_loader_gives_batches_as_from_its_own_transforms(trainer, tmp_path, dummy_2d):
    from nnunetv2.training.dataloading.nnunet_dataset import nnUNetDatasetBlosc2
    from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

    rng = np.random.default_rng(0)
    assert issubclass(trainer, nnUNetTrainer)
    for number in range(2):
        labels = (rng.random((1, 40, 44, 48)) * 3).astype(np.int8)
        places = {one: np.argwhere(labels == one) for one in (1, 2)}
        image = (labels + rng.normal(0, 0.1, labels.shape)).astype(np.float32)
        chunks = dict.fromkeys(("chunks", "blocks", "chunks_seg", "blocks_seg"), (1, 32, 32, 32))
        case = image, labels, {"class_locations": places}, str(tmp_path / f"case{number}")
        nnUNetDatasetBlosc2.save_case(*case, **chunks)
    turn = (-np.pi / 6, np.pi / 6)
    given = PATCH, turn, SCALES, (0, 1, 2), dummy_2d
    own = batch_of(tmp_path, nnUNetTrainer.get_training_transforms(*given, **OPTIONS), PATCH)
    found = batch_of(tmp_path, trainer.get_training_transforms(*given, **OPTIONS), PATCH)
    assert found.keys() == own.keys()
    assert found["data"].shape == own["data"].shape == (2, 1, *PATCH)
    assert found["data"].dtype == own["data"].dtype
    for one, other in zip(found["target"], own["target"], strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        assert set(one.unique().tolist()) <= {0, 1, 2}
