"""Exports of one source: videos as files of frames or as videos, volumes, flow, samples, and streams that arrive.

Imports what :mod:`seqpipe.cli` shares between exports; ``run`` and the commands import it, each module when it is used.
"""

__all__: list[str] = []
