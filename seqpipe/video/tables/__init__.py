"""Indexes from the tables that containers keep, so that opening a video reads no packet for its place or time.

One module per container reads its tables, ``gate`` says which are plain enough to be believed. What is not, is scanned
(:mod:`seqpipe.video.build`): wherever the two could differ, the scan decides. Imports the readers of bitstreams,
probing and the index's own types.
"""

__all__: list[str] = []
