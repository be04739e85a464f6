"""Packet headers: whether a packet is a reference, is shown, and can start decoding; read without decoding.

The first bytes of a packet's units are parsed, as described by the codecs' specifications.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.lazy import on_demand

if TYPE_CHECKING:
    from .hevc import hevc_may_hide
    from .kind import UNKNOWN, Classifier, Leading, PacketKind, Picture, droppable
    from .parameter_sets import ParameterSets, SetUp, encoder_version, with_version
    from .select import (
        REPLENISHED,
        UNPARSED_CODECS,
        chroma_location,
        classifier,
        classify_all,
        highest_temporal_layer,
    )

_LAZY = {
    "Classifier": "kind",
    "Leading": "kind",
    "PacketKind": "kind",
    "ParameterSets": "parameter_sets",
    "Picture": "kind",
    "REPLENISHED": "select",
    "SetUp": "parameter_sets",
    "UNKNOWN": "kind",
    "UNPARSED_CODECS": "select",
    "chroma_location": "select",
    "classifier": "select",
    "classify_all": "select",
    "droppable": "kind",
    "encoder_version": "parameter_sets",
    "hevc_may_hide": "hevc",
    "highest_temporal_layer": "select",
    "with_version": "parameter_sets",
}

__all__ = [
    "REPLENISHED",
    "UNKNOWN",
    "UNPARSED_CODECS",
    "Classifier",
    "Leading",
    "PacketKind",
    "ParameterSets",
    "Picture",
    "SetUp",
    "chroma_location",
    "classifier",
    "classify_all",
    "droppable",
    "encoder_version",
    "hevc_may_hide",
    "highest_temporal_layer",
    "with_version",
]

if not TYPE_CHECKING:
    __getattr__ = on_demand(__name__, _LAZY)


def __dir__() -> list[str]:
    return __all__
