"""Operators of DALI that are no plain call of one of ours: a function for each builds the nodes of a call.

Importing the package declares them; see :func:`seqpipe.dali.declared.operator`.
May import calls, nodes and types of :mod:`seqpipe.dali`; the table alone imports this package.
"""

from __future__ import annotations

from . import (
    arrays,
    audio,
    boxes,
    decoders,
    displacement,
    files,
    functions,
    images,
    inputs,
    opencv,
    random_numbers,
    resizing,
    segmentation,
    transforms,
    videos,
    volumes,
    warping,
    windows,
)

__all__ = [
    "arrays",
    "audio",
    "boxes",
    "decoders",
    "displacement",
    "files",
    "functions",
    "images",
    "inputs",
    "opencv",
    "random_numbers",
    "resizing",
    "segmentation",
    "transforms",
    "videos",
    "volumes",
    "warping",
    "windows",
]
