"""Sources of a video's bytes: local files, memory, file objects and URLs; imports nothing else of `video`."""

__all__: list[str] = []
