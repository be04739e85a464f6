"""``seqpipe probe``."""

from __future__ import annotations

import shutil

import pytest

from seqpipe.video.probe.info import StreamInfo
from seqpipe.video.probe.probe import probe
from tests.support.ffmpeg import count_frames, frame_times, write
from tests.support.media import made

from .written import lines


def test_one_video_is_shown_with_all_its_facts(run):
    text = run("probe", made("rotated_90")).stdout
    for fact in ("rotated_90.mp4", "h264", "yuv420p", "128", "rotation_degrees", "time_base"):
        assert fact in text


def test_several_videos_are_lines_of_one_table(run):
    text = run("probe", made("rotated_90"), made("hevc_10")).stdout
    first = next(line for line in text.splitlines() if "rotated_90.mp4" in line)
    assert "96x128" in first
    assert str(made("hevc_10")) in text, "names are not cut"
    assert "yuv420p10le" in text


def test_the_table_has_the_facts_of_each_video(run):
    names = ("rotated_90", "h264", "with_audio")
    text = run("probe", *map(made, names)).stdout
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]
    rows = {row[0]: row[1:] for row in cells}
    for name in names:
        info = probe(made(name))
        assert rows[str(made(name))] == [
            f"{info.codec} {info.profile}",
            info.pixel_format,
            "x".join(map(str, info.display_size)),
            {"rotated_90": "90°"}.get(name, "-"),
            f"{float(info.average_rate):.3f}",
            str(count_frames(made(name))),
            f"{info.duration_s:.3f}",
            "yes" if name == "with_audio" else "-",
        ]


def test_json_gives_the_facts_back(run):
    result = run("probe", made("vfr"), made("vp9_10"), "--json")
    first, second = lines(result.stdout)
    assert first.pop("type") == second.pop("type") == "stream"
    assert StreamInfo.from_json(first).source == str(made("vfr"))
    assert StreamInfo.from_json(second).bit_depth == 10


@pytest.mark.parametrize("name", ["h264", "vp9_altref", "hevc_open_gop"])
def test_packets_are_those_of_the_file(run, name):
    stream, *packets = lines(run("probe", made(name), "--packets", "--json").stdout)
    assert stream["frame_count"] == count_frames(made(name))
    assert [packet["packet"] for packet in packets] == list(range(len(packets)))
    shown = sorted((packet for packet in packets if packet["shown"]), key=lambda packet: packet["frame"])
    assert [packet["time_s"] for packet in shown] == pytest.approx(frame_times(made(name)), abs=1e-6)
    assert packets[0]["key"]
    assert packets[0]["reference"]
    assert all(packet["frame"] is None for packet in packets if not packet["shown"])


def test_packets_as_text_follow_the_facts(run):
    text = run("probe", made("h264_no_b"), "--packets").stdout
    table, _, listing = text.partition("packet       frame")
    assert "codec" in table
    assert len(listing.splitlines()) == 49
    assert listing.splitlines()[1].split()[:4] == ["0", "0", "0", "0.000000"]


def test_what_cannot_be_opened_is_named_and_the_rest_is_shown(run, tmp_path):
    result = run("probe", made("empty"), made("h264"), tmp_path / "gone.mp4", "--json", code=1)
    assert [line["source"] for line in lines(result.stdout)] == [str(made("h264"))]
    assert f"Error: {made('empty')}: the file is empty" in result.stderr
    assert f"Error: {tmp_path / 'gone.mp4'}: no such file" in result.stderr


def test_markup_in_a_name_is_only_a_name(run, tmp_path):
    shutil.copyfile(made("h264"), tmp_path / "[bold]x[red].mp4")
    assert "[bold]x[red].mp4" in run("probe", tmp_path / "[bold]x[red].mp4").stdout


def test_a_path_is_required(run):
    assert "Missing argument 'PATH...'" in run("probe", code=2).stderr


def test_chapters_and_languages_are_shown(run, tmp_path):
    marks = "".join(
        f"[CHAPTER]\nTIMEBASE=1/1000\nSTART={start}\nEND={end}\ntitle={title}\n"
        for start, end, title in ((0, 300, "Intro"), (300, 900, "Rest"))
    )
    (tmp_path / "marks.txt").write_text(f";FFMETADATA1\n{marks}")
    (tmp_path / "words.srt").write_text("1\n00:00:00,100 --> 00:00:00,500\nHello\n")
    inputs = [
        one
        for path in (made("h264"), tmp_path / "words.srt", tmp_path / "marks.txt")
        for one in ("-i", str(path))
    ]
    maps = "-map", "0:v", "-map", "1", "-map_metadata", "2", "-c:v", "copy", "-metadata:s:s:0", "language=ger"
    write(tmp_path / "x.mkv", *inputs, *maps)
    text = run("probe", tmp_path / "x.mkv").stdout
    assert "0.000 s Intro; 0.300 s Rest" in text
    (told,) = lines(run("probe", tmp_path / "x.mkv", "--json").stdout)
    assert told["languages"] == {"1": "ger"}
    assert told["chapters"][1] == {"start_s": 0.3, "end_s": 0.9, "title": "Rest"}
    assert [stream["kind"] for stream in told["streams"]] == ["video", "subtitle"]
