"""The tables that containers keep of their packets, so that opening a video reads no packet for its place or time.

One module per container reads its tables, ``gate`` says which are plain enough to be believed, ``heads`` and ``facts``
look at the few packets that say what the tables do not. Wherever they and a scan of the file could differ, the scan
decides. Imports `source`, `bitstream`, `probe`.
"""

__all__: list[str] = []
