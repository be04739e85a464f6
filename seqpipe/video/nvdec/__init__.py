"""NVDEC decoding through the driver's NVDECODE interface; the library is loaded on first use."""

__all__: list[str] = []
