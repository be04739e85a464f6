"""Where the bytes of a video come from: local files, memory, file objects, URLs.

Imports nothing else of `video`.
"""

__all__: list[str] = []
