"""Write clips of many videos into WebDataset shards by the actors of a Ray cluster; repeated, it continues.

    python examples/ray_export.py VIDEOS OUT [--actors 2] [--frames 16]

VIDEOS is a folder or a manifest that all nodes see; OUT a folder that they share, or a URL such as s3://bucket/set. On
a cluster, start it there: Ray finds its head by RAY_ADDRESS. Without one, Ray runs on this machine. Needs seqpipe[ray].
"""

from __future__ import annotations

import argparse

import seqpipe
import seqpipe.ray


def main() -> None:
    """Plan the clips here, write them there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("videos")
    parser.add_argument("out")
    parser.add_argument("--actors", type=int)
    parser.add_argument("--frames", type=int, default=16)
    options = parser.parse_args()
    clips = seqpipe.videos(
        options.videos,
        seqpipe.Clip(options.frames),
        output=seqpipe.OutputSpec(size=(112, 112)),
        on_error="skip",
    )
    report = seqpipe.ray.export(
        clips, options.out, samples_per_shard=200, concurrency=options.actors, resume=True
    )
    print(f"{report.written} clips written, {report.kept} there before, {report.lost} lost: {report.folder}")


if __name__ == "__main__":
    main()
