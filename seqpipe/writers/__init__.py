"""Writers of files: encoders of frames and volumes, shards of samples, and folders, local or in object storage.

Used by :meth:`seqpipe.dataset.Dataset.write` and the command line. Nothing becomes visible before it is complete.
"""

__all__: list[str] = []
