"""Windows that reach past the edges: fill values are values of the output, as in DALI 2.4."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe.dali import fn, types
from tests.dali.conftest import array, run

IMAGE = np.random.default_rng(0).integers(0, 100, (8, 10, 3)).astype(np.uint8)
MEAN, STD = np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 5.0])
FILL = [7.0, 8.0, 9.0]


def expected(image=IMAGE, mirrored=False, fill=FILL, before=(2, 1)):
    """The window of 12 × 14 pixels, at a position."""
    normal = (image - MEAN) / STD
    result = np.broadcast_to(np.asarray(fill, float), (*image.shape[:-3], 12, 14, 3)).copy()
    result[..., before[0] : before[0] + 8, before[1] : before[1] + 10, :] = normal
    return result[..., ::-1, :] if mirrored else result


def found(image=IMAGE, layout="HWC", output_layout="HWC", **options):
    def program():
        made = {name: value() if callable(value) else value for name, value in options.items()}
        return fn.crop_mirror_normalize(
            array(image, image.dtype, layout),
            **{
                "crop": (12, 14),
                "crop_pos_x": 0.25,
                "out_of_bounds_policy": "pad",
                "mean": MEAN.tolist(),
                "std": STD.tolist(),
                "fill_values": FILL,
                "output_layout": output_layout,
                **made,
            },
        )

    return run(program)[0][0].at(0)


def test_by_channel_and_layout():
    assert np.allclose(found(), expected(), atol=1e-5)
    assert np.allclose(found(output_layout="CHW"), expected().transpose(2, 0, 1), atol=1e-5)
    assert np.allclose(found(fill_values=7.0), expected(fill=7.0), atol=1e-5)
    assert np.allclose(found(fill_values=[7.0, 8.0]), expected(fill=[7, 8, 0]), atol=1e-5)
    planar = np.ascontiguousarray(IMAGE.transpose(2, 0, 1))
    assert np.allclose(found(planar, "CHW"), expected(), atol=1e-5)


@pytest.mark.parametrize("mirror", [1, lambda: array(1, np.int32), lambda: types.Constant(1)])
def test_mirrored(mirror):
    assert np.allclose(found(mirror=mirror), expected(mirrored=True), atol=1e-5)


def test_videos():
    video = np.stack([IMAGE, IMAGE[::-1]])
    assert np.allclose(found(video, "FHWC", "FHWC", mirror=1), expected(video, mirrored=True), atol=1e-5)
    wanted = expected(video).transpose(3, 0, 1, 2)
    assert np.allclose(found(video, "FHWC", "CFHW"), wanted, atol=1e-5)


def test_volumes():
    volume = np.stack([IMAGE, IMAGE[::-1]])
    result = found(volume, "DHWC", "DHWC", crop=(4, 12, 14))
    assert np.allclose(result[1:3], expected(volume), atol=1e-5)
    assert (result[[0, 3]] == FILL).all()


def test_types_of_results():
    kinds = {"dtype": types.FLOAT16, "mean": [0.0], "std": [1.0]}
    assert (found(fill_values=-7.5, **kinds)[0] == -7.5).all()
    whole = found(fill_values=254.6, dtype=types.UINT8)
    assert whole.dtype == np.uint8
    assert (whole[0] == 255).all()


def test_channels_are_filled_as_well():
    result = found(fill_values=[*FILL, 10.0], pad_output=True)
    assert np.allclose(result[..., :3], expected(), atol=1e-5)
    assert (result[..., 3] == 10).all()


def test_crops_and_slices_fill_values_of_the_result():
    def results():
        x = array(IMAGE, np.uint8, "HWC")
        options = {"out_of_bounds_policy": "pad", "fill_values": [1.5, 2.5, 3.5], "dtype": types.FLOAT}
        return fn.crop(x, crop=(12, 14), **options), fn.slice(x, start=[-2], shape=[3], axes=[0], **options)

    for result in run(results)[0]:
        assert (result.at(0)[0] == [1.5, 2.5, 3.5]).all()


def test_frames_are_a_side_of_the_window():
    video = np.stack([IMAGE, IMAGE + 1, IMAGE + 2])
    cut = run(lambda: fn.crop(array(video, np.uint8, "FHWC"), crop=(1, 4, 4)))[0][0]
    assert (cut.at(0) == video[1:2, 2:6, 3:7]).all()
    last = run(lambda: fn.crop(array(video, np.uint8, "FHWC"), crop_d=1, crop_h=8, crop_w=10, crop_pos_z=1.0))
    assert (last[0][0].at(0) == video[2:]).all()


def test_a_node_has_the_sides_of_the_window():
    """Three numbers are slices or frames, rows and columns; two are rows and columns."""
    video, sides = np.stack([IMAGE, IMAGE + 1, IMAGE + 2]), np.float32([2, 4, 4])

    def results():
        return [
            fn.crop(array(video, np.uint8, layout), crop=array(sides[-count:], np.float32))
            for layout, count in (("FHWC", 3), ("DHWC", 3), ("FHWC", 2))
        ]

    frames, slices, rows = (output.at(0) for output in run(results)[0])
    assert (frames == video[1:, 2:6, 3:7]).all() or (frames == video[:2, 2:6, 3:7]).all()
    assert (slices == frames).all()
    assert (rows == video[:, 2:6, 3:7]).all()


def test_volumes_of_a_sequence_are_mirrored_by_the_value_of_the_sample():
    volumes = np.stack([np.stack([IMAGE] * 2)] * 3)

    def results():
        given = array(volumes, np.uint8, "FDHWC")
        return fn.crop_mirror_normalize(given, mirror=array([1], np.int32), output_layout="FDHWC")

    (result,) = run(results)[0]
    assert (result.at(0) == volumes[..., ::-1, :]).all()
