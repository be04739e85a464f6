"""Videos: probing, packet indexes, decoding, and conversion of surfaces to pixels.

Bottom up, each package importing only those before it: ``source`` (bytes), ``bitstream`` (parsing of packets without
decoding), ``probe`` (properties of streams), ``convert`` (output specification, conversion on the CPU), ``plan``
(which packets a frame needs), ``decode`` (packets to surfaces), ``index`` (packet indexes: build, cache, verify),
``nvdec`` and ``cuda`` (decoding and conversion on a GPU), ``engine`` (threads, processes, backends), and ``reader``
(random access to one video).
"""

from __future__ import annotations

__all__: list[str] = []
