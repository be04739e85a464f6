"""Alpha of every kind of file, beside that of ffmpeg; colors are those without alpha."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import seqpipe
from seqpipe import OutputSpec
from seqpipe.errors import ParameterError
from tests.support import ffmpeg, media

SIZE = 48, 32
RGBA = OutputSpec(color="RGBA")
_GRAPH = (
    "[1]format=gray[alpha];[0][alpha]alphamerge,format=rgba",
    ("-f", "lavfi", "-i", "testsrc2=s=48x32:r=10:d=1", "-f", "lavfi", "-i", "mandelbrot=s=48x32:r=10"),
)
CODED = {
    "vp9.webm": ("-c:v", "libvpx-vp9", "-pix_fmt", "yuva420p", "-auto-alt-ref", "0"),
    "vp8.mkv": ("-c:v", "libvpx", "-pix_fmt", "yuva420p", "-auto-alt-ref", "0"),
    "prores.mov": ("-c:v", "prores_ks", "-pix_fmt", "yuva444p10le"),
    "ffv1.mkv": ("-c:v", "ffv1", "-pix_fmt", "bgra"),
    "png.mov": ("-c:v", "png", "-pix_fmt", "rgba64be"),
    "qtrle.mov": ("-c:v", "qtrle", "-pix_fmt", "argb"),
    "clip.apng": ("-c:v", "apng", "-f", "apng"),
}
DECODERS = {"vp9.webm": ("-c:v", "libvpx-vp9"), "vp8.mkv": ("-c:v", "libvpx")}


def coded(name: str, folder: Path) -> Path:
    path, (graph, sources) = folder / name, _GRAPH
    ffmpeg.write(path, *sources, "-filter_complex", graph, "-frames:v", "6", *CODED[name])
    return path


def judged_alpha(path: Path) -> NDArray[np.uint8]:
    """The alpha of all frames by ffmpeg, in 8 bits."""
    arguments = (
        "-i",
        str(path),
        "-vf",
        "format=rgba,alphaextract",
        "-f",
        "rawvideo",
        "-fps_mode",
        "passthrough",
        "-",
    )
    data, _ = ffmpeg.said(*DECODERS.get(path.name, ()), *arguments)
    return np.frombuffer(data, np.uint8).reshape(-1, SIZE[1], SIZE[0])


@pytest.mark.parametrize("name", CODED)
def test_alpha_is_that_of_ffmpeg(name, tmp_path):
    path = coded(name, tmp_path)
    reader = seqpipe.open(path, output=RGBA)
    pixels = reader[:].numpy()
    expected = judged_alpha(path)
    assert pixels.shape == (*expected.shape, 4)
    assert len(np.unique(expected)) > 1
    # of more than 8 bits, ffmpeg dithers or truncates
    exact = name not in ("prores.mov", "png.mov")
    assert np.abs(pixels[..., 3].astype(int) - expected).max() <= (0 if exact else 1)
    np.testing.assert_array_equal(pixels[..., :3], seqpipe.open(path)[:].numpy())
    np.testing.assert_array_equal(reader.frames([4, 1]).numpy(), pixels[[4, 1]])
    sample = next(iter(seqpipe.videos(path, 3, output=RGBA)))
    np.testing.assert_array_equal(sample["image"].numpy(), pixels[sample["image"].frames])


def test_alpha_is_placed_and_normalized_as_colors_are(tmp_path):
    path = coded("ffv1.mkv", tmp_path)
    whole = seqpipe.open(path, output=RGBA)[2].numpy()
    geometry = {"crop": (4, 8, 20, 30), "mirror": True}
    moved = seqpipe.open(path, output=OutputSpec("RGBA", layout="FCHW", **geometry))[2].numpy()
    np.testing.assert_array_equal(moved, whole[4:24, 8:38][:, ::-1].transpose(2, 0, 1))
    deep = seqpipe.open(path, output=OutputSpec("RGBA", "uint16"))[2].numpy()
    np.testing.assert_array_equal(deep, whole.astype(np.uint16) * 257)
    mean, std = (0.1, 0.2, 0.3, 0.5), (1.0, 1.0, 1.0, 0.25)
    floats = seqpipe.open(path, output=OutputSpec("RGBA", "float32", mean=mean, std=std))[2].numpy()
    np.testing.assert_allclose(floats, (whole / 255 - mean) / std, atol=1e-5)
    gray = np.repeat(whole[..., 3:], 4, axis=2)
    png = io.BytesIO()
    Image.fromarray(gray).save(png, "PNG")
    small = seqpipe.open(png, output=OutputSpec("RGBA", size=(16, 24)))[0].numpy()
    assert small.std() > 1
    np.testing.assert_array_equal(small[..., 3], small[..., 0])


def test_a_video_without_alpha_is_opaque():
    pixels = seqpipe.open(media.made("vp9"), output=RGBA)[0].numpy()
    assert (pixels[..., 3] == 255).all()
    np.testing.assert_array_equal(pixels[..., :3], seqpipe.open(media.made("vp9"))[0].numpy())


def test_alpha_that_ends_is_named(tmp_path):
    path = coded("vp9.webm", tmp_path)
    data = bytearray(path.read_bytes())
    last = data.rindex(bytes.fromhex("75a1"))  # BlockAdditions
    data[last : last + 2] = b"\x42\x82"  # an unknown element
    with pytest.raises(seqpipe.SourceError, match=r"packet 5 has no alpha.*color='RGB'"):
        seqpipe.open(bytes(data), output=RGBA)


def test_folders_of_images_refuse_alpha(tmp_path):
    (tmp_path / "clip").mkdir()
    for number in range(2):
        Image.new("RGBA", SIZE).save(tmp_path / "clip" / f"{number}.png")
    with pytest.raises(ParameterError, match=r"'img%03d.png'"):
        next(iter(seqpipe.folders(tmp_path, 1, output=RGBA).batch(1)))
