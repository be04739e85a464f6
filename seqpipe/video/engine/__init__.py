"""Threads, worker processes and queues that decode many sequences at once, and the backends they decode with."""

__all__: list[str] = []
