"""Packet headers: whether a packet is a reference, is shown, and can start decoding; read without decoding.

The first bytes of a packet's units are parsed, as described by the codecs' specifications.
"""

__all__: list[str] = []
