"""A graph of operators: one rotation angle for images and masks, and brightness computed from the pixels.

python examples/graph_of_nodes.py
"""

from __future__ import annotations

import sys

import numpy as np

from seqpipe import ParameterError, fn
from seqpipe.pipeline import Graph, Input

WANTED = 110  # mean level


def written() -> Graph:
    """Return the graph; its nodes stand for future values, and nothing is computed here."""
    images, masks = Input("images"), Input("masks")
    angle = fn.random.uniform(range=(-15.0, 15.0), seed=1)
    turned = fn.rotate(images, angle=angle, keep_size=True, fill_value=0)
    labels = fn.rotate(masks, angle=angle, keep_size=True, fill_value=0, interp_type="nearest")
    mean = fn.reductions.mean(turned, axis_names="FHWC", layout="NFHWC")  # one number for each sequence
    even = fn.brightness(turned, brightness=WANTED / (mean + 1))
    mirrored = fn.random.coin_flip(seed=2)
    return Graph(fn.flip(even, horizontal=mirrored), fn.flip(labels, horizontal=mirrored), angle)


def main() -> int:
    """Call the graph with generated clips, dark and bright ones; returns the exit code."""
    random = np.random.default_rng(0)
    most = np.array([40, 90, 150, 255]).reshape(-1, 1, 1, 1, 1)
    clips = (random.random((4, 8, 90, 120, 3)) * most).astype(np.uint8)
    masks = (clips[..., :1] > most / 2).astype(np.uint8)

    graph = written()
    print(graph)
    print(graph.explain())
    for epoch in range(2):
        images, labels, angles = graph(images=clips, masks=masks, epoch=epoch, index=0)
        print(f"epoch {epoch}: angles", *(f"{angle:.1f}" for angle in angles))
        print("  mean levels before:", *(f"{clip.mean():.0f}" for clip in clips))
        print(
            "  mean levels after:", *(f"{clip.mean():.0f}" for clip in images), "of", labels.shape, "labels"
        )

    # Sampled values depend only on (seed, name, occurrence, epoch, index), and a graph can be stored as JSON.
    again = Graph.from_json(graph.to_json())
    alone, _, _ = again(images=clips[2:3], masks=masks[2:3], epoch=1, index=2)
    print(
        "sample 2 alone, by the graph from JSON:", "equal" if (alone[0] == images[2]).all() else "different"
    )
    try:
        graph(images=clips)
    except ParameterError as error:
        print("refused:", error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
