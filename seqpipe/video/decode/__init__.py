"""Packets in, decoded surfaces out: the packet decoder protocol, libavcodec, decoder pools, damage."""

__all__: list[str] = []
