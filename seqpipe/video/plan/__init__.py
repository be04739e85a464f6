"""Requests, decode plans and jobs: which packets have to be decoded for which frames; pure arithmetic, no pixels."""

__all__: list[str] = []
