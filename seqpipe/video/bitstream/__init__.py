"""What a compressed packet tells without being decoded: is it a reference, is it shown, can decoding start.

Nothing is decoded: the first bytes of a packet's units are read, as the codecs' specifications describe them.
"""

from __future__ import annotations

from .hevc import hevc_may_hide
from .kind import UNKNOWN, Classifier, Leading, PacketKind, Picture, droppable
from .parameter_sets import ParameterSets, SetUp
from .replenishment import REPLENISHED, UNREAD, Coded
from .select import chroma_location, classifier, highest_temporal_layer

__all__ = [
    "REPLENISHED",
    "UNKNOWN",
    "UNREAD",
    "Classifier",
    "Coded",
    "Leading",
    "PacketKind",
    "ParameterSets",
    "Picture",
    "SetUp",
    "chroma_location",
    "classifier",
    "droppable",
    "hevc_may_hide",
    "highest_temporal_layer",
]
