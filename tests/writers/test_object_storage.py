"""Videos from object storage, and Dataset.write into it: a local S3 server."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import seqpipe
from seqpipe import Clip
from seqpipe.errors import OutputError, SourceError, SourceNotFoundError
from seqpipe.video.index.shared import SharedRegister, stored_register
from seqpipe.video.reader import VideoReader
from seqpipe.video.source.source import open_source
from seqpipe.writers.store import open_store
from tests.support.command_line import run_command as run
from tests.support.media import made

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="module", autouse=True)
def collected():
    """Finalize the files of interrupted writes here: another module would be blamed for their warning."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def bucket():
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed (extra s3)")
    server = pytest.importorskip(
        "moto.server", reason="moto[s3] and flask are not installed (dependency group test)"
    )
    import boto3

    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    host, port = running.get_host_and_port()
    keys = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**keys, "AWS_DEFAULT_REGION": "us-east-1"}.items():
            patch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()  # one of another server that has ended
        client = boto3.client("s3", endpoint_url=keys["AWS_ENDPOINT_URL"])
        client.create_bucket(Bucket="out")
        yield client
        client.close()
        s3fs.S3FileSystem.clear_instance_cache()
    running.stop()


def _objects(client, prefix):
    listed = client.list_objects_v2(Bucket="out", Prefix=prefix).get("Contents", [])
    return {
        one["Key"].removeprefix(prefix): client.get_object(Bucket="out", Key=one["Key"])["Body"].read()
        for one in listed
    }


def _dataset(broken=None):
    def get(n):
        if n == broken:
            raise RuntimeError("stop")
        return np.full((16, 16, 3), n, np.uint8)

    return seqpipe.items(get, size=12)


@pytest.mark.parametrize("kind", ["png", "webdataset", "parquet"])
def test_objects_equal_local_files(bucket, tmp_path, kind):
    options = {"samples_per_shard": 5}
    report = _dataset().write(f"s3://out/{kind}", kind, **options)
    assert (report.written, report.complete, report.folder) == (12, True, f"s3://out/{kind}")
    _dataset().write(tmp_path, kind, **options)
    local = {p.relative_to(tmp_path).as_posix(): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert _objects(bucket, f"{kind}/") == local


def test_a_stopped_run_is_continued_by_ranks(bucket):
    options = {"samples_per_shard": 4}
    with pytest.raises(RuntimeError, match="stop"):
        _dataset(broken=9).write("s3://out/a", "webdataset", **options)
    before = _objects(bucket, "a/")
    units = [f".seqpipe/units/00000{n}.jsonl" for n in "01"]
    assert sorted(before) == [".seqpipe/job.json", *units, "shard-000000.tar", "shard-000001.tar"]
    assert not bucket.list_multipart_uploads(Bucket="out").get("Uploads")
    reports = [
        _dataset().shard(n, 2).write("s3://out/a", "webdataset", resume=True, **options) for n in range(2)
    ]
    assert [(one.written, one.kept, one.complete) for one in reports] == [(4, 4, True), (0, 4, True)]
    _dataset().write("s3://out/b", "webdataset", **options)
    assert _objects(bucket, "a/") == _objects(bucket, "b/")
    with pytest.raises(OutputError, match="s3://out/a: 3 of 3 parts of these samples are written already"):
        _dataset().write("s3://out/a", "webdataset", **options)
    _dataset().write("s3://out/a", "webdataset", samples_per_shard=100, overwrite=True)
    assert [name for name in sorted(_objects(bucket, "a/")) if name.endswith("tar")] == ["shard-000000.tar"]


def test_large_objects_are_uploaded_in_parts(bucket):
    store = open_store("s3://out/large")
    data = np.random.default_rng(0).bytes(17 << 20)
    with store.writing("x.bin") as file:
        for begin in range(0, len(data), 1 << 20):
            file.write(data[begin : begin + (1 << 20)])
        assert not _objects(bucket, "large/")
    assert _objects(bucket, "large/") == {"x.bin": data}

    def stop(file):
        file.write(data)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), store.writing("y.bin") as file:
        stop(file)
    assert list(_objects(bucket, "large/")) == ["x.bin"]
    assert not bucket.list_multipart_uploads(Bucket="out").get("Uploads")


def test_a_record_is_created_once(bucket):
    store = open_store("s3://out/once")
    assert store.create("a", b"1")
    assert not store.create("a", b"2")
    assert store.read("a") == b"1"
    assert store.read("b") is None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError("Access Denied"), r"Access Denied.*Check the rights and the credentials"),
        (
            OSError("[ExpiredToken] The token has expired"),
            "ExpiredToken.*credentials, which may have expired",
        ),
    ],
    ids=["no rights", "expired"],
)
def test_a_run_whose_rights_end_is_continued(bucket, monkeypatch, error, said, request):
    import s3fs

    place, options = f"s3://out/{request.node.callspec.id}", {"samples_per_shard": 4}
    call, parts = s3fs.core.S3File._call_s3, []

    def refusing(self, method, *given, **more):
        if method == "upload_part":
            parts.append(more["Key"])
            if len(parts) > 1:
                raise error
        return call(self, method, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(s3fs.core.S3File, "_call_s3", refusing)
        with pytest.raises(OutputError, match=rf"shard-000001\.tar: cannot be written.*{said}"):
            _dataset().write(place, "webdataset", **options)
    report = _dataset().write(place, "webdataset", resume=True, **options)
    assert (report.kept, report.written, report.complete) == (4, 8, True)


def test_errors_name_the_object(bucket):
    with pytest.raises(OutputError, match=r"s3://missing/a.*(NoSuchBucket|does not exist|Not Found)"):
        _dataset().write("s3://missing/a")
    with pytest.raises(seqpipe.BackendError, match="no package for nowhere:// is installed"):
        _dataset().write("nowhere://a/b")


@pytest.fixture(scope="module")
def videos(bucket):
    bucket.put_object(Bucket="out", Key="set/a b.mp4", Body=made("h264").read_bytes())
    bucket.put_object(Bucket="out", Key="set/a.ts", Body=made("h264_ts").read_bytes())
    return "s3://out/set"


def test_s3_gives_the_same_frames(videos, tmp_path):
    for url, local in ((f"{videos}/a b.mp4", made("h264")), (f"{videos}/a.ts", made("h264_ts"))):
        with VideoReader(url, cache_dir=tmp_path) as remote, VideoReader(local) as here:
            assert (remote[2:30:5].numpy() == here[2:30:5].numpy()).all()
            assert remote.info.source == url
    with pytest.raises(SourceNotFoundError, match="no such object"):
        VideoReader(f"{videos}/none.mp4")


def test_an_object_that_is_replaced_while_it_is_open_is_an_error(videos, bucket):
    """Parts of two objects were put together where they had one size."""
    bucket.put_object(Bucket="out", Key="set/replaced.mp4", Body=made("h264").read_bytes())
    source = open_source(f"{videos}/replaced.mp4")
    assert source.read([(5000, 64)]) == [made("h264").read_bytes()[5000:5064]]
    bucket.put_object(Bucket="out", Key="set/replaced.mp4", Body=bytes(made("h264").stat().st_size))
    with pytest.raises(
        SourceError, match=r"replaced\.mp4: it was replaced while it was open: .*Open it again"
    ):
        source.read([(5000, 64)])


def test_s3_fetches_only_what_is_needed(videos, tmp_path, monkeypatch):
    with VideoReader(f"{videos}/a b.mp4", cache_dir=tmp_path) as reader:
        assert len(reader)
    source = open_source(f"{videos}/a b.mp4")
    fetched: list[int] = []
    plain = source.read
    monkeypatch.setattr(
        type(source), "read", lambda _, ranges: fetched.append(sum(n for _, n in ranges)) or plain(ranges)
    )
    monkeypatch.setattr(type(source), "for_demuxer", lambda _: pytest.fail("the demuxer was opened"))
    with VideoReader(source, cache_dir=tmp_path) as reader:
        reader[3]
        assert 0 < sum(fetched) < source.size() / 2


@pytest.fixture
def asked(bucket, monkeypatch):
    """The requests that are sent, as (method, object)."""
    import s3fs

    sent = []
    call = s3fs.S3FileSystem._call_s3

    async def counted(self, method, *given, **more):
        sent.append((method, more.get("Key")))
        return await call(self, method, *given, **more)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", counted)
    return sent


@pytest.fixture
def registered(bucket, monkeypatch, tmp_path):
    """URLs of three videos, and of their register, made by two jobs and joined."""
    monkeypatch.setenv("SEQPIPE_CACHE_DIR", str(tmp_path / "cache"))
    urls = [f"s3://out/reg/{name}.mp4" for name in "abc"]
    for url in urls:
        bucket.put_object(Bucket="out", Key=url.removeprefix("s3://out/"), Body=made("h264").read_bytes())
    whole = "s3://out/reg/set.register"
    for number in range(2):
        run("index", *urls, "--shard", f"{number}/2", "--register", "s3://out/reg/part.register")
    parts = [f"s3://out/reg/part-0000{number}-of-00002.register" for number in range(2)]
    run("index", "--merge", *parts, "--register", whole)
    return urls, whole


def test_clips_of_registered_objects_are_one_request_each(registered, asked, monkeypatch, tmp_path):
    urls, register = registered
    expected = seqpipe.videos([str(made("h264"))] * 3, Clip(4, per_video=2), seed=3)
    monkeypatch.setenv("SEQPIPE_CACHE_DIR", str(tmp_path / "of another machine"))
    dataset = seqpipe.videos(urls, Clip(4, per_video=2), seed=3, decode=seqpipe.Decode(register=register))
    assert asked == [("head_object", "reg/set.register"), ("get_object", "reg/set.register")]
    asked.clear()
    for index in range(6):
        assert (dataset.sample(index)["image"].data == expected.sample(index)["image"].data).all()
    assert asked == [("get_object", f"reg/{name}.mp4") for name in "aabbcc"], (
        "no probe, and one range for a clip"
    )


def test_a_registered_object_that_was_replaced_is_named(registered, bucket):
    urls, register = registered
    dataset = seqpipe.videos(urls, Clip(4), decode=seqpipe.Decode(register=register))
    bucket.put_object(Bucket="out", Key="reg/b.mp4", Body=bytes(made("h264").stat().st_size))
    with pytest.raises(
        SourceError, match=r"reg/b\.mp4: it was replaced after it was registered: .*Update the register"
    ):
        list(dataset.batch(4))


def test_registers_that_are_stored_at_once_lose_nothing(registered, bucket, tmp_path):
    urls, register = registered
    bucket.put_object(Bucket="out", Key="reg/d.mp4", Body=made("vp9").read_bytes())
    run("index", "s3://out/reg/d.mp4", "--register", tmp_path / "late")
    with stored_register(register) as own:
        bucket.delete_object(Bucket="out", Key="reg/set.register")
        run("index", urls[2], "--register", register)  # another job is faster
        own.add_from(str(tmp_path / "late"))
    with SharedRegister(register) as after:
        names = {row[0] for row in after._rows("SELECT path FROM files")}
    assert names == {*urls, "s3://out/reg/d.mp4"}
    run("index", made("h264"), "--register", register, code=2)
    with (
        pytest.raises(OutputError, match=r"memory://r: .*condition.*allowed: s3://"),
        stored_register("memory://r"),
    ):
        pass
    with pytest.raises(SourceNotFoundError, match=r"none\.register: no such object"):
        seqpipe.videos(urls, Clip(4), decode=seqpipe.Decode(register="s3://out/none.register"))
