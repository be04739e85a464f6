"""Which packets obtain which frames: requests, decode plans, jobs.

Pure arithmetic, no pixels.
"""

__all__: list[str] = []
