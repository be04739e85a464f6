"""Figures of speed and memory, beside other libraries; each module is a command: ``python -m benchmarks.NAME``."""
