"""Decoding by the GPU's own engines, through the driver's NVDECODE interface; nothing is loaded before it is used."""

__all__: list[str] = []
