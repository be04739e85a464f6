"""Videos: what is in a file, which packets a frame needs, decoding them, and turning surfaces into pixels.

Bottom up, each package importing only those before it: ``source`` (bytes), ``bitstream`` (what a packet tells
without being decoded), ``probe`` (the stream), ``convert`` (output specification, surfaces to pixels on the CPU),
``plan`` (which packets a frame needs), ``decode`` (packets to surfaces), ``index`` (packet indexes: build, cache,
verify), ``nvdec`` and ``cuda`` (decoding and conversion on a GPU), ``engine`` (threads, processes, backends), and
``reader`` (one video for a person).
"""

from __future__ import annotations

__all__: list[str] = []
