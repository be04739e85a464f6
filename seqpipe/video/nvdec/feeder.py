"""Feeder: what feeds packets to the driver's parser, and decodes and hands over what the parser calls back with."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any, NamedTuple, Protocol

from ..packet_decoder import Decoded
from .hardware import HardwareDecoder

__all__ = ["MOST_OF_A_STEP", "Coded", "Feeder"]

MOST_OF_A_STEP = 4
"""After so many pictures feeding pauses at the latest, so that they can be used before there are too many of them."""


class Coded(NamedTuple):
    """A packet of an elementary stream.

    Attributes:
        number: comes back with its picture.
        data: one frame or field.
        wanted: whether its picture is to be handed over.
    """

    number: int
    data: bytes
    wanted: bool


class Feeder(Protocol):
    """Belongs to one session. A picture is called sound only on the card's word.

    The card decodes in order, so once a picture has been handed over, all that were decoded before it are finished,
    and each has said whether it came to an end without an error. These reports come before the picture.

    Attributes:
        on_picture: pfnDecodePicture for the parser.
        on_display: pfnDisplayPicture for the parser.
        user_data: what the parser gives both of them.
    """

    on_picture: Any
    on_display: Any
    user_data: int | None

    def start(self, parser: int) -> None:
        """Use a parser that was made with these callbacks."""

    def use(self, decoder: HardwareDecoder | None) -> None:
        """Decode with another decoder from now on; everything is settled."""

    def feed(self, packets: Seq[Coded], begin: int) -> tuple[int, list[Decoded]]:
        """Feed packets from a place on, until enough pictures have come.

        Returns:
            How many were fed, at least one, and what became known.

        Raises:
            DecodeError: the card or its parser refused the last one that was fed.
            BackendError: the card could not hand over a picture.
        """

    def finish(self) -> list[Decoded]:
        """Hand over what is left, and make ready for another stream.

        Raises:
            DecodeError: the card or its parser refused something.
            BackendError: the card could not hand over a picture.
        """

    def settle(self) -> None:
        """Wait for all that is being decoded, and report on it; called by the parser, while feeding."""

    def stop(self) -> None:
        """Feed nothing more of what was given: the parser's stream cannot be decoded."""

    def close(self) -> None:
        """Give back what it holds; the parser is gone."""
