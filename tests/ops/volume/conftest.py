"""Volumes that tests of operators on them share."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from seqpipe.sequence import Sequence


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def volume(rng):
    """Smooth float32 values with a little noise, ``(D, H, W)``."""
    d, h, w = np.indices((18, 22, 26)) / 4
    return (np.sin(d) + np.cos(h + w / 2) + 0.1 * rng.normal(size=d.shape)).astype(np.float32)


@pytest.fixture
def blocks(rng):
    """Labels 0 to 6 in blocks, uint8 ``(D, H, W)``."""
    small = rng.integers(0, 7, (5, 6, 7)).astype(np.uint8)
    return small.repeat(4, 0).repeat(4, 1).repeat(4, 2)[:18, :22, :26]


@pytest.fixture
def affine():
    """Oblique, with three spacings."""
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.from_euler("xyz", [10, -20, 30], degrees=True).as_matrix() * [2.5, 0.8, 1.1]
    matrix[:3, 3] = [-30, 12, 50]
    return matrix


@pytest.fixture
def sequence(volume, affine):
    return Sequence(volume, "DHW", affine=affine)
