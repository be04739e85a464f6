"""Body: what an operator does on a GPU, as CUDA C++ that goes into a skeleton shared by all of its kind."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Body"]


@dataclass(frozen=True)
class Body:
    """The part of a kernel that is an operator's own.

    Attributes:
        kind: the skeleton, a file of this package without its ``.cuh``. ``"value"``: statements that change
            ``Real value``, which is that of ``int channel``; ``"placed"``: the same, and they look at where it is,
            ``int y`` and ``int x``, so that they cannot join others in a chain; ``"pixel"``: statements that change
            ``Real pixel[CHANNELS]``; ``"gather"``: none, values are fetched from where the mapping says. What others
            need, their files say.
        text: the statements. ``row`` has the parameters and derived fields. A ``Real`` is a float32 whose
            arithmetic is rounded after every operation, as NumPy's is.
    """

    kind: str
    text: str = ""

    @property
    def skeleton(self) -> str:
        """The file that the statements go into, without its ``.cuh``."""
        return "value" if self.kind == "placed" else self.kind
