"""seqpipe: video files and medical volumes in, sequences of layout NFHWC out, on the CPU or an NVIDIA GPU."""

from __future__ import annotations

__version__ = "0.1.0"
