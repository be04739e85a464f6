"""What a model of voxels needs besides training: statistics of a data set, volumes prepared once, inference.

``fingerprint`` and ``planning`` measure and plan as nnU-Net does, ``prepared`` stores prepared volumes, ``infer`` and
``aggregate`` merge the outputs for patches to volumes. Public names are exported by ``seqpipe``.
"""

from __future__ import annotations

__all__: list[str] = []
