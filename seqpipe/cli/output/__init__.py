"""What an export writes: images, arrays, the manifest, the contact sheet.

Imports `terminal` and `input`.
"""

__all__: list[str] = []
