"""Properties of a video stream from its container and headers; imports `source` and `bitstream`."""

__all__: list[str] = []
