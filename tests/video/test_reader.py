"""VideoReader: the frames asked for, however they are asked for."""

from __future__ import annotations

import copy
import gc
import pickle
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqpipe
from data_scripts.frame_code import read
from seqpipe.errors import DamagedSourceError, FrameRangeError, ParameterError, UnreadableSourceError
from seqpipe.video.convert.output import OutputSpec
from seqpipe.video.reader import VideoReader
from tests.support import ffmpeg
from tests.support.decoders import count_packets
from tests.support.deep import combined, deep
from tests.support.media import entry, made


@pytest.fixture(scope="module")
def video():
    with VideoReader(made("h264")) as reader:
        yield reader


@pytest.fixture(scope="module")
def drawn():
    return entry("h264").numbers


def numbers(sequence):
    frames = sequence.numpy()
    return [read(frame) for frame in (frames if sequence.layout == "FHWC" else [frames])]


def test_what_it_says_of_itself(video):
    assert len(video) == 48
    assert repr(video).startswith("VideoReader('")
    assert "48 frames, h264" in repr(video)
    assert video.info.frame_count == 48
    assert video.timestamps.shape == (48,)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_slices_are_those_of_a_list(data):
    place = data.draw(st.slices(48))
    with VideoReader(made("h264")) as reader:
        expected = list(range(48))[place]
        found = reader[place]
        assert found.frames.tolist() == expected
        assert found.layout == "FHWC"
        assert numbers(found) == [entry("h264").numbers[i] for i in expected]
        np.testing.assert_array_equal(found.timestamps, reader.timestamps[expected])


@pytest.mark.parametrize("place", [0, 17, 47, -1, -48, np.int64(5)])
def test_one_frame_has_layout_hwc(video, drawn, place):
    frame = video[place]
    assert frame.layout == "HWC"
    assert len(frame) == 1
    assert frame.frames.tolist() == [place % 48]
    assert numbers(frame) == [drawn[place]]


def test_any_order_with_repeats(video, drawn):
    order = [40, 3, 3, -1, 0, 40, 22]
    found = video.frames(order)
    assert found.frames.tolist() == [i % 48 for i in order]
    assert numbers(found) == [drawn[i] for i in order]
    assert len(video.frames([])) == 0


def test_sequences_and_strides(video, drawn):
    assert numbers(video.sequence(4, 6, 3)) == [drawn[i] for i in range(4, 22, 3)]
    assert numbers(video.sequence(-5, 5)) == drawn[-5:] if isinstance(drawn, list) else list(drawn[-5:])
    with pytest.raises(
        FrameRangeError, match=r"frame 50, the last of 6 from 40 on with stride 2,.*allowed: 0 to 47"
    ):
        video.sequence(40, 6, 2)
    with pytest.raises(ParameterError, match="sequence_length=0"):
        video.sequence(0, 0)
    with pytest.raises(ParameterError, match="stride=0"):
        video.sequence(0, 2, 0)


@pytest.mark.parametrize("name", ["h264", "vfr", "start_10s", "negative_pts", "vfr_webm"])
def test_times_and_frames_are_inverse(name):
    with VideoReader(made(name)) as reader:
        for i, t in enumerate(reader.timestamps):
            assert reader.time_of(i) == t
            assert reader.frame_at(t) == i
            after = reader.timestamps[i + 1] if i + 1 < len(reader) else reader.index.end_s
            assert reader.frame_at((t + after) / 2) == i
        times = [reader.timestamps[7] + 1e-4, reader.timestamps[2]]
        assert reader.at(times).frames.tolist() == [7, 2]
        for outside in (reader.timestamps[0] - 0.01, reader.index.end_s + 1e-6, float("nan")):
            with pytest.raises(FrameRangeError, match="is not in the video; allowed: from"):
                reader.at([outside])


def test_going_forward_by_number_decodes_once(drawn, monkeypatch):
    fed = count_packets(monkeypatch)
    with VideoReader(made("h264_long_gop"), threads=1) as reader:
        found = [numbers(reader[i])[0] for i in range(len(reader))]
        assert found == list(entry("h264_long_gop").numbers)
        assert len(fed) <= len(reader) + 2


def test_jumping_about_between_steps_stays_right(video, drawn):
    order = [5, 6, 7, 30, 31, 6, 7, 8, 47, 0, 1, 46, 47]
    assert [numbers(video[i])[0] for i in order] == [drawn[i] for i in order]


def test_streams_side_by_side(video, drawn):
    one, other = video.stream(range(0, 48, 5)), video.stream([1, 2, 40])
    first = next(one)
    assert numbers(first) == [drawn[0]]
    assert [f.frames[0] for f in other] == [1, 2, 40]
    assert numbers(video[13]) == [drawn[13]]
    assert [numbers(f)[0] for f in one] == [drawn[i] for i in range(5, 48, 5)]
    with pytest.raises(ParameterError, match="must ascend"):
        video.stream([3, 2])
    with pytest.raises(ParameterError, match="must ascend"):
        video.stream([3, 3])


def test_iterating_gives_every_frame(video, drawn):
    assert [numbers(frame)[0] for frame in video] == list(drawn)


def test_iterating_follows_the_pts_where_the_codec_has_another_order(tmp_path):
    # No two times are equal: those would leave the order to the decoder.
    path = tmp_path / "shaken.mkv"
    shaken = "setts=pts=PTS+if(mod(N\\,3)\\,0\\,floor(2.5*DURATION))"
    ffmpeg.write(path, "-i", str(made("h264")), "-c", "copy", "-bsf:v", shaken)
    with seqpipe.open(path) as video:
        every = video[:].numpy()
        assert [read(frame) for frame in every] != sorted(read(frame) for frame in every)
        assert np.array_equal([frame.numpy() for frame in video], every)


def test_interlaced_mpeg4_is_the_same_with_threads(tmp_path):
    """Those of libavcodec do not tell one another how long a frame is, which the first B picture says."""
    path = tmp_path / "fields.avi"
    moving = ("-f", "lavfi", "-i", "mandelbrot=s=128x96:r=25", "-t", "3", "-pix_fmt", "yuv420p")
    ffmpeg.write(
        path, *moving, "-c:v", "mpeg4", "-g", "12", "-bf", "2", "-flags", "+ildct+ilme", "-b:v", "1M"
    )
    with seqpipe.open(path, threads=1) as one, seqpipe.open(path, threads=4) as several:
        every = [frame.numpy() for frame in one]
        assert np.array_equal([frame.numpy() for frame in several], every)


@pytest.mark.parametrize("encoder", ["h261", "h263p"])
def test_packets_that_are_all_said_to_be_key_frames_are_not_believed(encoder, tmp_path):
    """As libavformat says it of codecs whose pictures it does not look into, where AVI has nothing to say."""
    path = tmp_path / "keys.avi"
    scaled = ("-s", "176x144", "-c:v", encoder, "-g", "12", "-b:v", "2M")
    ffmpeg.write(path, "-i", str(made("h264")), *scaled)
    with seqpipe.open(path) as video:
        every = [frame.numpy() for frame in video]
        assert len(every) == 48
        for number in (47, 5, 23):
            assert np.array_equal(video.frames([number]).numpy()[0], every[number])


@pytest.mark.parametrize(
    ("codec", "options", "change"),
    combined(
        ["mpeg1video", "mpeg2video", "mpeg4"],
        ["-bf 2 -g 12", "-bf 2 -g 300", "-bf 0 -g 12"],
        ["scale=176:144", "setdar=2", "null"],
    ),
)
def test_no_frame_is_lost_where_the_size_or_the_shape_of_pixels_changes(codec, options, change, tmp_path):
    """The decoder begins anew there, and forgot the pictures that it had yet to give out."""
    path = tmp_path / "changed.ts"
    for chain, offset in (("null", 0), (change, 10)):
        encoded = (
            "-vf",
            chain,
            "-c:v",
            codec,
            *options.split(),
            "-b:v",
            "2M",
            "-output_ts_offset",
            str(offset),
        )
        part = tmp_path / "part.ts"
        ffmpeg.write(part, "-i", str(made("h264")), *encoded)
        with path.open("ab") as joined:
            joined.write(part.read_bytes())
    for threads in (1, 3):
        with seqpipe.open(
            path, output=OutputSpec(size=(96, 128)), threads=threads, cache_dir=tmp_path
        ) as video:
            assert [read(frame) for frame in video.frames(range(96)).numpy()] == [*range(48), *range(48)]
            assert [read(frame) for frame in video.frames([47, 48]).numpy()] == [47, 0]


@pytest.mark.parametrize(("encoder", "extension"), [("smc", "mov"), ("msrle", "avi"), ("rawvideo", "avi")])
def test_a_palette_beside_the_packets_holds_from_the_first_to_the_last(encoder, extension, tmp_path):
    path = tmp_path / f"palette.{extension}"
    ffmpeg.write(path, "-i", str(made("h264")), "-pix_fmt", "pal8", "-c:v", encoder)
    with av.open(str(path)) as source:
        drawn = [frame.to_ndarray(format="rgb24") for frame in source.decode(video=0)]
    assert [read(frame) for frame in drawn] == list(range(48))
    with seqpipe.open(path) as video:
        assert np.array_equal([frame.numpy() for frame in video], drawn)
        assert np.array_equal(video.frames([7, 3]).numpy(), [drawn[7], drawn[3]])


@pytest.mark.parametrize("encoder", ["msrle", "rawvideo"])
def test_a_palette_that_changes_on_the_way_is_that_of_each_packet(encoder, tmp_path):
    """AVI can have one for each picture; all were drawn with the first one's colors."""
    path = tmp_path / "palettes.avi"
    own = "hue=H=n/8:s=3,split[a][b];[a]palettegen=stats_mode=single[p];[b][p]paletteuse=new=1:dither=none"
    ffmpeg.write(path, "-i", str(made("h264")), "-filter_complex", own, "-c:v", encoder, "-g", "12")
    with av.open(str(path)) as source:
        drawn = [frame.to_ndarray(format="rgb24") for frame in source.decode(video=0)]
    with seqpipe.open(path, cache_dir=tmp_path) as video:
        assert len(video.index.palettes) > 20
        assert np.array_equal([frame.numpy() for frame in video], drawn)
    with seqpipe.open(path, cache_dir=tmp_path) as video:
        for number in (47, 3, 30, 0):
            assert np.array_equal(video[number].numpy(), drawn[number])


def test_a_frame_that_is_kept_is_never_overwritten(video):
    kept = [frame.numpy() for frame in video.stream(range(20))]
    copies = [frame.copy() for frame in kept]
    for _ in video:
        pass
    gc.collect()
    assert all((a == b).all() for a, b in zip(kept, copies, strict=True))


@pytest.mark.parametrize("bad", [48, -49, 10**9, 2**63, -(10**20)])
def test_frames_outside_are_named(video, bad):
    for ask in (
        lambda: video[bad],
        lambda: video.frames([0, bad]),
        lambda: video.time_of(bad),
        lambda: video.stream([bad]),
    ):
        with pytest.raises(
            FrameRangeError, match=rf"frame {bad} is not in the video; allowed: 0 to 47, or -48 to -1"
        ):
            ask()


@pytest.mark.parametrize(
    ("time", "said"),
    [(10**400, "inf"), (-(10**400), "-inf"), (float("inf"), "inf"), (1e9, "1000000000.000000")],
)
def test_times_outside_are_named(video, time, said):
    """A whole number may be larger than any float."""
    with pytest.raises(FrameRangeError, match=rf": {said} s is not in the video; allowed: from 0\.000000 s"):
        video.frame_at(time)


def test_numbers_must_be_whole(video):
    with pytest.raises(ParameterError, match=r"1\.5 is not a frame number.*use at"):
        video[1.5]
    with pytest.raises(ParameterError, match="'3' is not a frame number"):
        video.frames(["3"])
    for several in ([1, 2], np.arange(3), (slice(1, 5), 2)):
        with pytest.raises(ParameterError, match=r"is not a frame number.*For several frames use frames\("):
            video[several]
    with pytest.raises(ParameterError, match=r"numbers=5 .*video\[8\] is one frame"):
        video.frames(5)
    with pytest.raises(ParameterError, match=r"seconds='1\.5' .*such as 1\.5, or a list"):
        video.at("1.5")
    with pytest.raises(ParameterError):
        video.at(True)


def test_damage_gives_what_comes_before_it_and_names_the_rest():
    clean = entry("h264")
    with VideoReader(made("h264_flip_reference")) as reader:
        got: list[seqpipe.Sequence] = []
        with pytest.raises(DamagedSourceError, match="cannot be decoded") as caught:
            got.extend(reader)
        delivered = [int(frame.frames[0]) for frame in got]
        assert [numbers(frame)[0] for frame in got] == [clean.numbers[i] for i in delivered]
        lost = caught.value.lost
        assert sorted(delivered + list(lost)) == list(range(48))
        assert lost
        with pytest.raises(DamagedSourceError, match="flip_reference") as caught:
            reader.frames([0, *lost[:2]])
        assert caught.value.lost == tuple(lost[:2])
        assert numbers(reader[0]) == [clean.numbers[0]]
        with pytest.raises(DamagedSourceError):
            reader[lost[0]]


def test_a_cut_file_says_so():
    with VideoReader(made("data_cut_mp4")) as reader:
        assert reader.index.cut.startswith("the file is truncated: its header states 48 frames")
        with pytest.raises(FrameRangeError, match=r"frame 40 is not in the video.*The file is truncated"):
            reader[40]
        assert numbers(reader[3]) == [entry("h264").numbers[3]]


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("empty", r"empty \(0 bytes\)"),
        ("text", "not a video that FFmpeg can open"),
        ("audio_only", r"no video stream \(it has audio\)"),
        ("audio_cover", r"no video stream \(it has a cover image, audio\)"),
        ("no_frames", "no video packets"),
        ("header_cut_mp4", "no video stream.*truncated"),
        ("header_cut_mkv", "not a video that FFmpeg can open"),
        ("data_cut_moov", "not a video that FFmpeg can open"),
        ("unknown_codec_mp4", "codec is unknown to FFmpeg.*Convert the file"),
    ],
)
def test_what_is_no_video_says_why(name, match):
    with pytest.raises(UnreadableSourceError, match=match) as caught:
        VideoReader(made(name))
    assert str(made(name)) in str(caught.value)


def test_output_shapes_and_colors(drawn):
    path = made("rotated_90")
    with VideoReader(path) as reader:
        width, height = reader.info.display_size
        assert reader[0].shape == (height, width, 3)
    with VideoReader(path, output=OutputSpec(color="GRAY", size=(40, 50), dtype="uint16")) as reader:
        assert reader[0].shape == (40, 50, 1)
        assert reader[0].dtype == np.uint16


def test_the_front_door():
    with seqpipe.open(made("h264"), threads=2) as reader:
        assert isinstance(reader, VideoReader)
    with pytest.raises(
        ParameterError, match="device='tpu' is unknown; allowed: 'cpu', 'cuda', 'cuda:N', 'auto'"
    ):
        seqpipe.open(made("h264"), device="tpu")
    with pytest.raises(ParameterError, match="threads=0"):
        seqpipe.open(made("h264"), threads=0)


def test_a_change_of_size_inside_is_scaled_to_the_first_size():
    with VideoReader(made("resized")) as reader:
        found = reader[::12]
        assert found.shape[1:3] == (reader.info.height, reader.info.width)
        assert numbers(found) == [entry("resized").numbers[i] for i in range(0, len(reader), 12)]


def idle(reader):
    """The decoders that wait for the next run."""
    return [decoder for decoders in reader._context.backend.decoders._idle.values() for decoder in decoders]


@pytest.mark.parametrize("name", ["h264", "h264_ts"])
def test_a_stream_that_came_to_its_end_leaves_its_decoder_to_the_next(name):
    with seqpipe.open(made(name)) as reader:
        list(reader.stream(range(0, 20, 2)))
        [decoder] = idle(reader)
        list(reader.stream([3]))
        assert idle(reader) == [decoder]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not tell what is open")
@pytest.mark.parametrize("name", ["h264", "h264_ts"])
def test_a_stream_that_was_left_midway_closes_its_file_and_gives_up_its_decoder(name):
    """At once: not only when garbage is collected."""
    with seqpipe.open(made(name)) as reader:
        reader[3]
        gc.disable()
        try:
            before = len(list(Path("/proc/self/fd").iterdir()))
            for _ in range(3):
                next(reader.stream(range(0, 40, 2)))
            assert len(list(Path("/proc/self/fd").iterdir())) <= before
        finally:
            gc.enable()
        assert len(idle(reader)) <= 1


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda reader: pickle.loads(pickle.dumps(reader))])
@pytest.mark.parametrize("kind", [Path, deep(str), Path.read_bytes])
def test_a_copy_opens_the_video_anew_and_leaves_the_first_one_alone(way, kind):
    """A deep copy was a TypeError of a lock, and closed the file of the first one."""
    gray = OutputSpec(color="GRAY", size=(48, 64))
    with VideoReader(kind(made("h264")), output=gray, threads=1) as reader:
        reader[0], reader[1]
        with way(reader) as other:
            assert (other.frames([40, 7]).numpy() == reader.frames([40, 7]).numpy()).all()
        gc.collect()
        assert reader[2].frames.tolist() == [2]
        assert reader.frames([30]).shape == (1, 48, 64, 1)


def test_one_time_gives_one_frame_and_the_reader_tells_its_measures(video):
    frame = video.at(video.timestamps[3])
    assert frame.layout == "HWC"
    assert frame.frames.tolist() == [3]
    assert np.array_equal(frame.numpy(), video[3].numpy())
    assert np.array_equal(video.at(np.float32(0)).numpy(), video.at([0]).numpy()[0])
    assert (video.width, video.height) == video.info.display_size == frame.numpy().shape[1::-1]
    assert video.fps == float(video.info.average_rate)
    assert video.duration == video.info.duration_s


def test_a_turned_video_has_the_measures_of_its_frames():
    with seqpipe.open(made("rotated_90")) as video:
        assert (video.height, video.width) == video[0].numpy().shape[:2]
        assert video.height == video.info.width


def test_the_nearest_frame_of_a_time() -> None:
    with seqpipe.open(made("vfr")) as video:
        times = np.concatenate([[-5.0, 99.0], np.random.default_rng(0).uniform(0, video.timestamps[-1], 20)])
        expected = [int(np.abs(video.timestamps - time).argmin()) for time in times]
        assert video.at(times, nearest=True).frames.tolist() == expected
        gap = float(np.diff(video.timestamps).max())
        assert video.at(times[2], nearest=True, tolerance_s=gap).frames.tolist() == expected[2:3]
        with pytest.raises(
            FrameRangeError, match=r"a frame within 0\.5 s of 99\.000000 s is not in the video"
        ):
            video.at(99, nearest=True, tolerance_s=0.5)
        with pytest.raises(ParameterError, match=r"tolerance_s=0\.5 without nearest"):
            video.at(0, tolerance_s=0.5)
