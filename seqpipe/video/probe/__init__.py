"""What a container and its headers state of a video stream, without decoding frames.

Imports `source` and `bitstream`.
"""

__all__: list[str] = []
