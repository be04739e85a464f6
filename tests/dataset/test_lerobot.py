"""LeRobot data sets of versions 2.1 and 3.0, against the published rule computed from the files by PyAV and pyarrow."""

from __future__ import annotations

import json
import pickle
import shutil

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import seqpipe
from data_scripts.frame_code import read
from data_scripts.make_robots import CAMERAS, FPS, LENGTHS, VERSIONS, code_of, make_robots
from seqpipe import OutputSpec, lerobot, ops
from seqpipe.errors import ManifestError, ParameterError, SourceNotFoundError, UnreadableSourceError

TOP, WRIST = CAMERAS
DELTAS = {TOP: [-0.2, 0.0, 0.1], "action": [0.0, 0.1, 0.9], "next.done": [0.0], "timestamp": [-0.1, 0.1]}
STARTS = np.concatenate([[0], np.cumsum(LENGTHS)]).tolist()


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    folder = tmp_path_factory.mktemp("robots")
    return {version: make_robots(folder / version, version) for version in VERSIONS}


@pytest.fixture
def copied(roots, tmp_path):
    """A copy of a version, to be changed."""
    return lambda version="v3.0": shutil.copytree(roots[version], tmp_path / version)


class Rule:
    """What LeRobotDataset gives, from the files alone: each frame is the nearest to its time in its file."""

    def __init__(self, root, deltas):
        self.deltas, self.pictures = deltas, {}
        self.rows = pa.concat_tables(
            pq.read_table(p) for p in sorted((root / "data").glob("*/*.parquet"))
        ).to_pylist()
        info = json.loads((root / "meta/info.json").read_text())
        if info["codebase_version"] == "v3.0":
            self.episodes = pq.read_table(root / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
        else:
            self.episodes = [
                json.loads(line) for line in (root / "meta/episodes.jsonl").read_text().splitlines()
            ]
        self.file = lambda camera, e: (
            root
            / info["video_path"].format(
                video_key=camera,
                episode_chunk=0,
                episode_index=e,
                chunk_index=0,
                file_index=self.episodes[e].get(f"videos/{camera}/file_index"),
            )
        )

    def decoded(self, path):
        if path not in self.pictures:
            with av.open(str(path)) as container:
                frames = [
                    (float(f.pts * f.time_base), f.to_ndarray(format="rgb24"))
                    for f in container.decode(video=0)
                ]
            self.pictures[path] = [t for t, _ in frames], [p for _, p in frames]
        return self.pictures[path]

    def sample(self, index):
        row = self.rows[index]
        episode = row["episode_index"]
        mine = [other["index"] for other in self.rows if other["episode_index"] == episode]
        result = {}
        for camera in CAMERAS:
            place = self.episodes[episode].get(f"videos/{camera}/from_timestamp", 0.0)
            pictures = []
            for delta in self.deltas.get(camera, [0.0]):
                at = min(max(index + round(delta * FPS), mine[0]), mine[-1])
                times, shown = self.decoded(self.file(camera, episode))
                wanted = place + self.rows[at]["timestamp"]
                pictures.append(shown[min(range(len(times)), key=lambda k: abs(times[k] - wanted))])
            stack = np.stack(pictures).transpose(0, 3, 1, 2).astype(np.float32) / 255
            result[camera] = stack[0] if len(stack) == 1 else stack
        for name, value in row.items():
            result[name] = np.asarray(value)
        for name, deltas in self.deltas.items():
            wanted = [index + round(delta * FPS) for delta in deltas]
            result[f"{name}_is_pad"] = np.array([not mine[0] <= row <= mine[-1] for row in wanted])
            if name not in CAMERAS:
                result[name] = np.array([self.rows[min(max(row, mine[0]), mine[-1])][name] for row in wanted])
        return result


def code(picture):
    """The number that a picture (channels first, 0…1) shows."""
    return read(np.ascontiguousarray((np.asarray(picture) * 255).round().astype(np.uint8).transpose(1, 2, 0)))


@pytest.mark.parametrize("deltas", [{}, DELTAS], ids=["plain", "deltas"])
@pytest.mark.parametrize("version", VERSIONS)
def test_samples_are_those_of_the_published_rule(roots, version, deltas):
    rule = Rule(roots[version], deltas)
    with lerobot(roots[version], deltas) as dataset:
        assert dataset.size == sum(LENGTHS)
        for index in range(dataset.size):
            sample, wanted = dataset.sample(index), rule.sample(index)
            assert [*sample] == [*CAMERAS, *rule.rows[0], *(f"{name}_is_pad" for name in deltas), "task"]
            assert sample["task"] == ("Pick up the cube.", "Open the drawer.")[sample["episode_index"] % 2]
            for name, value in wanted.items():
                found = np.asarray(sample[name])
                assert found.shape == value.shape, name
                kinds = {"f": np.float32, "i": np.int64, "b": np.bool_}
                assert found.dtype == kinds[value.dtype.kind], name
                if (
                    name in CAMERAS
                ):  # swscale rounds otherwise, and repeats chroma: colors are proven elsewhere
                    assert np.abs(found - value).mean() < 2 / 255
                else:
                    np.testing.assert_allclose(found, value, atol=1e-6, err_msg=name)
            first, end = STARTS[sample["episode_index"]], STARTS[sample["episode_index"] + 1]
            shown = sample[TOP] if deltas else np.asarray(sample[TOP])[None]
            at = [min(max(index + step, first), end - 1) for step in ((-2, 0, 1) if deltas else (0,))]
            assert [code(frame) for frame in np.asarray(shown)] == [code_of(0, frame) for frame in at]
            assert code(sample[WRIST]) == code_of(1, index)


@pytest.mark.parametrize("version", VERSIONS)
def test_tensors_of_batches_have_the_axes_of_a_collated_sample(roots, version):
    pytest.importorskip("torch")
    with lerobot(roots[version], DELTAS).batch(4) as dataset:
        batch = next(iter(dataset.torch()))
        shapes = {name: tuple(value.shape) for name, value in batch.items() if hasattr(value, "shape")}
        assert (shapes[TOP], shapes[WRIST]) == ((4, 3, 3, 96, 128), (4, 3, 96, 128))
        assert (shapes["action"], shapes["action_is_pad"], shapes["timestamp"]) == ((4, 3, 3), (4, 3), (4, 2))
        assert (shapes["index"], shapes["pose"], len(batch["task"])) == ((4,), (4, 2, 2), 4)


def test_frames_that_samples_share_are_decoded_once(roots):
    deltas = {TOP: [-0.2, -0.1, 0.0], WRIST: [0.0, 0.1]}
    with lerobot(roots["v3.0"], deltas).batch(21) as dataset:
        next(iter(dataset))
        assert dataset.stats()["frames"] == {"cpu": 2 * sum(LENGTHS)}  # of 105 that are given


@pytest.mark.parametrize("version", VERSIONS)
def test_episodes_and_cameras_can_be_chosen(roots, version):
    with lerobot(roots[version], episodes=[2, 0], cameras=[WRIST], output=OutputSpec()) as dataset:
        assert dataset.size == LENGTHS[0] + LENGTHS[2]
        wanted = [*range(STARTS[1]), *range(STARTS[2], STARTS[3])]
        samples = [dataset.sample(number) for number in range(dataset.size)]
        assert [int(sample["index"]) for sample in samples] == wanted
        assert [sample.index for sample in samples] == list(range(dataset.size))
        assert TOP not in samples[0]
        assert samples[0][WRIST].dtype == np.uint8
        assert [read(np.asarray(sample[WRIST])) for sample in samples] == [
            code_of(1, index) for index in wanted
        ]
        assert dataset.read([0, 8])["index"].tolist() == [wanted[0], wanted[8]]


def test_operators_orders_states_and_copies(roots):
    both = {TOP: [-0.1, 0.0], WRIST: [-0.1, 0.0]}
    dataset = lerobot(roots["v3.0"], both, shuffle=True, seed=3).map(
        ops.Resize(size=(48, 64)), ops.Flip(p=0.5)
    )
    with dataset.batch(4) as batches, pickle.loads(pickle.dumps(dataset.batch(4))) as copy:
        delivered = list(batches.epoch(1))
        assert sorted(index for batch in delivered for index in batch["index"].tolist()) == [*range(21)]
        assert delivered[0][TOP].shape == (4, 2, 3, 48, 64)
        resumed = list(copy.resume(json.loads(json.dumps(delivered[1].state))))
        assert len(resumed) == len(delivered) - 2
        for batch, other in zip(resumed, delivered[2:], strict=True):
            assert batch["index"].tolist() == other["index"].tolist()
            for camera in CAMERAS:
                np.testing.assert_array_equal(batch[camera].numpy(), other[camera].numpy())


@pytest.mark.parametrize("place", ["me/cube", "hub/datasets--me--cube/snapshots/0a1b"])
def test_a_repository_is_found_where_lerobot_keeps_it(roots, tmp_path, monkeypatch, place):
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path))
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).symlink_to(roots["v3.0"])
    assert lerobot("me/cube").size == sum(LENGTHS)
    with pytest.raises(
        SourceNotFoundError, match=r"me/ball: it is no folder, and no repository that LeRobot has"
    ):
        lerobot("me/ball")


def changed_info(root, **values):
    path = root / "meta/info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_an_unknown_version_is_named(copied):
    root = copied()
    changed_info(root, codebase_version="v4.0")
    with pytest.raises(
        UnreadableSourceError, match=r"codebase_version='v4.0' is not supported; allowed: v2.1, v3.0"
    ):
        lerobot(root)


def test_arguments_that_name_nothing_are_refused(roots):
    root = roots["v2.1"]
    with pytest.raises(
        ParameterError, match=r"camera 'left' does not exist; allowed: observation\.images\.top, obs"
    ):
        lerobot(root, cameras=["left"])
    with pytest.raises(ParameterError, match=r"episode 3 does not exist; allowed: 0 to 2"):
        lerobot(root, episodes=[3])
    with pytest.raises(ParameterError, match=r"delta_timestamps has 'actions'"):
        lerobot(root, {"actions": [0.0]})
    with pytest.raises(ParameterError, match=r"\['action'\] has \[0\.15\]; allowed: multiples of 1/10 s"):
        lerobot(root, {"action": [0.0, 0.15]})
    with pytest.raises(ParameterError, match=r"delta_timestamps has 'observation.images.top'"):
        lerobot(root, {TOP: [0.0]}, cameras=[WRIST])
    with pytest.raises(SourceNotFoundError, match="Give the folder that holds meta, data and videos"):
        lerobot(root / "data")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_missing_video_is_named_with_camera_and_episode(copied, version):
    root = copied(version)
    sorted((root / "videos").glob("**/*wrist/**/*.mp4"))[-1].unlink()
    with pytest.raises(
        SourceNotFoundError, match=r"camera 'observation\.images\.wrist' for episode 2 does not exist"
    ):
        lerobot(root)
    assert (
        lerobot(root, cameras=[TOP]).size == lerobot(root, episodes=[0, 1]).size + LENGTHS[2] == sum(LENGTHS)
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_video_shorter_than_the_table_is_refused(copied, version):
    root = copied(version)
    videos = sorted((root / "videos").glob("**/*top/**/*.mp4"))
    shutil.copy(videos[1] if version == "v2.1" else videos[-1], videos[0])  # 5 of 7 frames; 9 of 12
    with pytest.raises(
        UnreadableSourceError, match=r"top' ends at 0\.\d+ s, and episode \d of the table has a frame"
    ):
        lerobot(root)


def test_rows_that_the_table_of_episodes_does_not_tell_are_refused(copied):
    root = copied("v2.1")
    path = root / "data/chunk-000/episode_000001.parquet"
    pq.write_table(pq.read_table(path).slice(0, 4), path)
    with pytest.raises(ManifestError, match="episode 1 has 4 rows, and the table of episodes tells 5"):
        lerobot(root)


def late(root):
    """Move the time of frame 3 of episode 0 by 20 ms."""
    path = root / "data/chunk-000/episode_000000.parquet"
    table = pq.read_table(path)
    times = table["timestamp"].to_numpy().copy()
    times[3] += 0.02
    column = table.column_names.index("timestamp")
    pq.write_table(table.set_column(column, "timestamp", pa.array(times)), path)
    return root


def test_a_time_outside_of_the_tolerance_is_an_error_of_its_samples(copied):
    root = late(copied("v2.1"))
    said = (
        r"episode_000000\.mp4: camera 'observation\.images\.top' has no frame at 0\.320000 s, which frame 3 of "
        r"episode 0 needs: the nearest is 0\.020000 s away; allowed: tolerance_s=0\.0001"
    )
    with lerobot(root, {TOP: [0.0, 0.1]}) as dataset:
        assert code(np.asarray(dataset.sample(4)[TOP])[0]) == code_of(0, 4)
        for index in (2, 3):
            with pytest.raises(UnreadableSourceError, match=said):
                dataset.sample(index)
    with lerobot(root, tolerance_s=0.03) as dataset:
        assert code(dataset.sample(3)[TOP]) == code_of(0, 3)


def test_such_samples_are_left_out_or_substituted_and_reported(copied):
    root = late(copied("v2.1"))
    with lerobot(root, on_error="skip").batch(8) as dataset:
        found = [index for batch in dataset for index in batch["index"].tolist()]
        assert found == [index for index in range(21) if index != 3]
        assert dataset.report().counts == {"sample left out": 1}
    with lerobot(root, on_error="substitute").batch(8) as dataset:
        batch = next(iter(dataset))
        assert len(batch["index"]) == 8
        assert batch["index"][3] != 3
        assert [code(frame) for frame in batch[TOP].numpy()] == [
            code_of(0, i) for i in batch["index"].tolist()
        ]


def test_cameras_that_are_stored_otherwise_are_named(copied):
    root = copied()
    features = json.loads((root / "meta/info.json").read_text())["features"]
    changed_info(root, features={**features, TOP: {**features[TOP], "dtype": "image"}})
    with pytest.raises(UnreadableSourceError, match=r"camera 'observation\.images\.top' is stored as images"):
        lerobot(root)
    assert WRIST in seqpipe.lerobot(root, cameras=[WRIST]).sample(0)
