"""What cannot be decoded is named for what it is, by every way to read it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import seqpipe
from seqpipe.errors import ParameterError, UnreadableSourceError
from seqpipe.volume.reader import VolumeReader
from tests.support import ffmpeg, media

_CENC = ("-encryption_scheme", "cenc-aes-ctr", "-encryption_key", "76a6c65c5ea762046bd749a2e632ccbb")
_KEY_ID = ("-encryption_kid", "a7e61c373e219033c21091fa607bf3b8")


def _assert_refused(path: Path, *words: str) -> None:
    """Check that all doors refuse a file with an error that has the words."""
    ways = (
        lambda: seqpipe.open(path)[0],
        lambda: seqpipe.open(path.read_bytes())[0],
        lambda: next(seqpipe.stream(path)),
        lambda: next(seqpipe.stream(io.BytesIO(path.read_bytes()))),
        lambda: next(iter(seqpipe.videos(path, 1).batch(1))),
    )
    for way in ways:
        with pytest.raises(UnreadableSourceError) as caught:
            way()
        assert all(word in str(caught.value).replace(path.name, "") for word in words), str(caught.value)


@pytest.mark.parametrize("fragmented", [False, True])
@pytest.mark.parametrize("name", ["h264", "hevc", "vp9", "av1"])
def test_common_encryption(name, fragmented, tmp_path):
    """FFmpeg opens no fragmented file with encrypted samples; of AV1 the boxes alone say it."""
    path, flags = tmp_path / "locked.mp4", ("-movflags", "frag_keyframe+empty_moov") if fragmented else ()
    try:
        ffmpeg.write(path, "-i", str(media.made(name)), "-c", "copy", *flags, *_CENC, *_KEY_ID)
    except ffmpeg.FFmpegError:
        pytest.skip("this ffmpeg does not encrypt the codec")
    _assert_refused(path, "encrypted", "Common Encryption")


@pytest.mark.parametrize("prefix", [b"", b"\0\0\0\0"], ids=["ts", "m2ts"])
def test_a_scrambled_transport_stream(prefix, tmp_path):
    data, path = bytearray(media.made("h264_ts").read_bytes()), tmp_path / "scrambled.ts"
    packets = [data[at : at + 188] for at in range(0, len(data), 188)]
    for packet in packets:
        if (packet[1] << 8 | packet[2]) & 0x1FFF == 0x100:
            packet[3] |= 0x80
    path.write_bytes(b"".join(prefix + packet for packet in packets))
    _assert_refused(path, "encrypted", "scrambled")


def test_a_scrambled_program_stream(tmp_path):
    plain, path = tmp_path / "plain.vob", tmp_path / "scrambled.vob"
    ffmpeg.write(plain, "-i", str(media.made("mpeg2_ts")), "-c", "copy", "-f", "vob")
    data = bytearray(plain.read_bytes())
    for at in range(0, len(data) - 32, 2048):
        packet = at + 14 + (data[at + 13] & 7)
        if data[packet : packet + 4] == b"\0\0\1\xe0":
            data[packet + 6] |= 0x30
    path.write_bytes(data)
    _assert_refused(path, "encrypted", "program stream")


def _element(identity: int, body: bytes) -> bytes:
    return (
        identity.to_bytes((identity.bit_length() + 7) // 8, "big")
        + (1 << 56 | len(body)).to_bytes(8, "big")
        + body
    )


def test_encryption_in_matroska(tmp_path):
    from seqpipe.video.probe.recognize import element

    path = tmp_path / "locked.mkv"
    data = media.made("h264_mkv" if "h264_mkv" in media.names() else "mpeg2_mkv").read_bytes()
    at = data.index(bytes.fromhex("1654ae6b"), data.index(bytes.fromhex("1654ae6b")) + 1)
    _, begin, size = element(data, at)
    entry = element(data, begin)
    while entry[0] != 0xAE:
        entry = element(data, entry[1] + entry[2])
    inner = _element(0x5033, b"\1") + _element(0x5035, _element(0x47E1, b"\5") + _element(0x47E2, b"k" * 16))
    encodings = _element(0x6D80, _element(0x6240, inner))
    tracks = _element(0x1654AE6B, _element(0xAE, data[entry[1] : entry[1] + entry[2]] + encodings))
    path.write_bytes(data[:at] + tracks + data[begin + size :])
    _assert_refused(path, "encrypted", "Matroska")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'<?xml version="1.0"?>\n<MPD xmlns="urn:mpeg:dash:schema:mpd:2011">\n</MPD>', ("DASH",)),
        (b"#EXTM3U\n#EXT-X-VERSION:3\n#EXTINF:1,\nmissing.ts\n#EXT-X-ENDLIST\n", ("HLS",)),
        (
            b'#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="no.key"\n#EXTINF:1,\nmissing.ts\n#EXT-X-ENDLIST\n',
            ("HLS", "encrypted"),
        ),
        (b"<!DOCTYPE html>\n<html><body>Not found</body></html>", ("web page",)),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", ("Git LFS",)),
    ],
)
def test_files_that_are_no_media(text, words, tmp_path):
    path = tmp_path / "clip.mp4"
    path.write_bytes(text)
    _assert_refused(path, *words)


@pytest.mark.parametrize("path", [b"clips/walk.mp4", b"walk.mp4", b"/data/brain.nii.gz", b"dicom/"])
def test_bytes_that_are_a_path(path):
    for way in (seqpipe.open, seqpipe.VideoReader, VolumeReader, lambda some: next(seqpipe.stream(some))):
        with pytest.raises(ParameterError, match=r"are a path.*os\.fsdecode"):
            way(path)
