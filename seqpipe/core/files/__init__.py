"""Contents of files: what they are, whether they are intact, and their pixels and arrays."""

__all__: list[str] = []
