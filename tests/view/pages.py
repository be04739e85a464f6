"""What is read back of a page, without a browser."""

from __future__ import annotations

import base64
import io
import json
from html.parser import HTMLParser

import numpy as np
from PIL import Image

__all__ = ["Read", "picture_of", "volume_of"]


class Read(HTMLParser):
    """A page's elements: their names, attributes and texts.

    Attributes:
        elements: (name, attributes, text) in the order of their ends.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements, self._open = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        element = [tag, dict(attrs), ""]
        self.elements.append(element)
        if tag not in ("meta", "img", "input"):
            self._open.append(element)

    def handle_data(self, data):
        for element in self._open:
            element[2] += data

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def all(self, tag, **attributes):
        """Elements of a name and of attributes."""
        return [
            element
            for element in self.elements
            if element[0] == tag and all(element[1].get(k.strip("_")) == v for k, v in attributes.items())
        ]

    @property
    def volumes(self) -> list[dict]:
        """What the script is given of each volume."""
        return [json.loads(text) for _, _, text in self.all("script", type="application/json")]


def picture_of(uri: str) -> np.ndarray:
    """The pixels of a data URI."""
    head, _, data = uri.partition(",")
    assert head in ("data:image/png;base64", "data:image/jpeg;base64")
    return np.array(Image.open(io.BytesIO(base64.b64decode(data, validate=True))))


def volume_of(data: dict, name: str = "image") -> np.ndarray:
    """The levels DHW (or DHWC of colors) of a volume."""
    sheet, (depth, height, width) = picture_of(data[name]), data["shape"]
    slices = []
    for d in range(depth):
        row, column = divmod(d, data["columns"])
        slices.append(sheet[row * height : (row + 1) * height, column * width : (column + 1) * width])
    return np.stack(slices)
