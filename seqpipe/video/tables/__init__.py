"""Container tables: offsets, sizes and times of packets, so that a video is opened without reading its packets.

One module per container reads its tables; ``gate`` checks that they are reliable; ``heads`` and ``facts`` read the few
packets with properties that the tables lack. Where the tables and a scan of the file could differ, the file is scanned.
Imports `source`, `bitstream`, `probe`.
"""

__all__: list[str] = []
