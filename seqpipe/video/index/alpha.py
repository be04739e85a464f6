"""Alpha of VP8 and VP9 in Matroska and WebM: a second stream of coded frames, stored beside the packets.

Each block has its frame's alpha in a ``BlockAdditional`` (RFC 9559, 5.1.3.5.2.1), coded like the colors and as
dependent on earlier ones. So a packet that no color needs may be needed for alpha: all packets count as references.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import av.error
import numpy as np

from ...errors import ParameterError, SourceError
from ..bitstream.kind import classifier
from ..packet_index import PacketIndex
from ..probe.probe import open_container, unreadable, video_stream
from ..probe.recognize import parsing
from ..source.source import Source

__all__ = ["ALPHA_CODECS", "may_have_alpha", "with_alpha"]

ALPHA_CODECS: Final = ("vp8", "vp9")
"""Codecs whose alpha is stored beside the packets."""

_AVIF_ALPHA: Final = b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha"
_AVIF_HEAD_BYTES: Final = 1 << 16
_ADDITION: Final = "matroska_block_additional"
_ID_BYTES, _ALPHA_ID = 8, 1
_MOST_BEFORE: Final = 64
"""Bytes of headers between a packet and its addition, which the search for it spans."""


def may_have_alpha(index: PacketIndex) -> bool:
    """Return whether the codec and the container of a video may have alpha beside the packets."""
    return index.info.codec in ALPHA_CODECS and "matroska" in index.info.container


def with_alpha(source: Source, index: PacketIndex) -> PacketIndex:
    """Return the index of a video with its packets' alpha; the index itself if its packets have none.

    The file is demuxed once, which takes as long as reading it.

    Args:
        source: the video.
        index: its index; of codecs that may have alpha, with all packets read.

    Raises:
        ParameterError: the file is an AVIF with alpha.
        SourceError: the alpha of a packet is missing.
    """
    if index.info.codec == "av1" and _AVIF_ALPHA in source.read([(0, _AVIF_HEAD_BYTES)])[0]:
        raise ParameterError(
            "the alpha of AVIF, which is a stream of its own, is not read",
            source=source.name,
            allowed="color='RGB', 'BGR', 'GRAY' or 'YCbCr'",
            advice="Convert it with Pillow to an animated WebP or an APNG",
        )
    if not may_have_alpha(index):
        return index
    offsets, sizes, keys = list[int](), list[int](), list[bool]()
    alpha_classifier = classifier(index.info.codec, b"")
    with parsing(source), open_container(source) as container:
        stream = video_stream(source, container, index.info.stream)
        try:
            for packet in container.demux(stream):
                if not packet.size:
                    continue
                if not packet.has_sidedata(_ADDITION):
                    if not offsets:
                        return index
                    raise SourceError(
                        f"packet {len(offsets)} has no alpha, and those before it have",
                        source=source.name,
                        advice="Read it with color='RGB', or encode it again",
                    )
                data = bytes(packet.get_sidedata(_ADDITION))
                if int.from_bytes(data[:_ID_BYTES], "big") != _ALPHA_ID:
                    return index
                alpha = data[_ID_BYTES:]
                position = packet.pos or 0
                near = source.read_sequential(position, packet.size + len(alpha) + _MOST_BEFORE)
                at = near.rfind(alpha)
                if at < 0:
                    raise SourceError(
                        f"the alpha of packet {len(offsets)} is not in one piece", source=source.name
                    )
                offsets.append(position + at)
                sizes.append(len(alpha))
                keys.append(alpha_classifier.classify(alpha).random_access is not False)
        except av.error.FFmpegError as error:
            raise unreadable(source, error) from error
    table, count = index.packets, len(index.packets)
    if len(offsets) < count:
        raise SourceError(f"{count} packets have {len(offsets)} frames of alpha", source=source.name)
    packets = replace(table, key=table.key & np.array(keys[:count]), reference=np.ones(count, bool))
    return replace(
        index,
        info=replace(index.info, pixel_format="yuva420p"),
        packets=packets,
        alpha=(np.array(offsets[:count]), np.array(sizes[:count])),
    )
