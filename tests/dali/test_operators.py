"""DALI's operators by their names: every case of a program that DALI runs alike; the table itself; what is refused."""

from __future__ import annotations

import io
from functools import partial

import cv2
import numpy as np
import pytest
from scipy import ndimage

from seqpipe.dali import auto_aug, fn, math, ops, pipeline_def, types
from seqpipe.dali.table import ROWS, known_names, row_of
from seqpipe.errors import ParameterError, SourceError, StateError, UnreadableSourceError
from seqpipe.ops import REGISTRY
from tests.dali.conftest import ON_CPU, array, one, run
from tests.programs.conftest import WRITTEN


def door():
    path = WRITTEN / "door.py"
    space = {"__name__": "door", "__file__": str(path)}
    exec(
        compile(path.read_text(encoding="utf-8").replace("nvidia.dali", "seqpipe.dali"), str(path), "exec"),
        space,
    )
    return space


DOOR = door()


@pytest.mark.parametrize("name", DOOR["cases"])
def test_every_case_runs(name):
    for kind, layout, samples in DOOR["run"](DOOR["cases"][name]):
        assert kind.startswith("DALIDataType.")
        assert not layout or {len(layout)} == {sample.ndim for sample in samples}
        assert len(samples) == 3


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_a_row_says_only_what_differs(row):
    assert row.build or row.why or row.to or row.renamed or row.defaults or row.accept or row.refuse
    if not row.build and not row.why:
        known = {parameter.name for parameter in REGISTRY[row.to or row.name].parameters}
        assert set(row.renamed.values()) | set(row.defaults) <= known


def test_an_order_of_frames_for_each_sample():
    clips = np.arange(2 * 4 * 2 * 3 * 1, dtype=np.uint8).reshape(2, 4, 2, 3, 1)

    def rearranged(orders):
        def program():
            frames = fn.external_source(lambda: clips, layout="FHWC")
            return fn.sequence_rearrange(frames, new_order=fn.external_source(lambda: orders))

        (found,) = run(program, batch_size=2)[0]
        assert found.layout() == "FHWC"
        return [found.at(n) for n in range(2)]

    first, second = rearranged([np.int32([3, 0]), np.int32([1, 1, 0])])
    assert np.array_equal(first, clips[0][[3, 0]])
    assert np.array_equal(second, clips[1][[1, 1, 0]])
    for wrong, message in (
        ([4], r"new_order\[0\] must be between 0 and input_sequence_length = 4 for sample 0, but it is: 4"),
        ([0, -1], r"new_order\[1\] must be .* but it is: -1"),
        ([], "Empty `new_order` for sample 0 is not allowed"),
        ([[1]], "dimension 2 cannot be converted to dimension 1"),
    ):
        with pytest.raises(ParameterError, match=message):
            rearranged([np.int32(wrong)] * 2)


def test_transforms_by_frame():
    image = np.arange(30, dtype=np.uint8).reshape(1, 5, 6, 1).repeat(3, axis=0)
    offsets = np.float32([[0, 0], [1, 0], [0, 2]])

    def program():
        by_frame = fn.per_frame(fn.external_source(lambda: [offsets]))
        twice = fn.transforms.translation(fn.transforms.translation(offset=by_frame), offset=[0, 1])
        joined = fn.transforms.combine(
            fn.transforms.translation(offset=by_frame), fn.transforms.scale(scale=[1, 1])
        )
        clip = fn.external_source(lambda: [image], layout="FHWC")
        moved = fn.warp_affine(
            clip, matrix=joined, fill_value=0, inverse_map=True, interp_type=types.INTERP_NN
        )
        return twice, moved

    twice, moved = run(program)[0]
    assert (twice.at(0).shape, twice.layout()) == ((3, 2, 3), "F")
    assert np.array_equal(twice.at(0)[..., 2], offsets + [0, 1])
    assert np.array_equal(moved.at(0)[0], image[0])
    assert np.array_equal(moved.at(0)[1, :, :-1], image[0, :, 1:])
    assert np.array_equal(moved.at(0)[2, :-2], image[0, 2:])

    def differ():
        offsets = [array(np.zeros((count, 2)), np.float32) for count in (2, 3)]
        nodes = [fn.per_frame(one) for one in offsets]
        return fn.transforms.combine(*(fn.transforms.translation(offset=one) for one in nodes))

    with pytest.raises(ParameterError, match="parameters of 2 and of 3 frames"):
        run(differ)


def test_tensors_are_resized_along_any_axes():
    volume = np.random.default_rng(4).random((9, 12, 10, 2)).astype(np.float32)

    def program():
        scan = array(volume, np.float32, "DHWC")
        turned = fn.transpose(scan, perm=[1, 3, 0, 2])
        line = array(np.arange(12) ** 2, np.float32)
        return (
            fn.resize(scan, size=[5, 18, 10]),
            fn.tensor_resize(scan, sizes=[5, 18, 10], axis_names="DHW"),
            fn.tensor_resize(turned, sizes=[18, 5], axes=[0, 2]),
            fn.tensor_resize(line, scales=[0.5], antialias=False),
        )

    wanted, found, turned, line = (part.at(0) for part in run(program)[0])
    assert np.abs(found - wanted).max() < 1e-5
    assert np.abs(turned - wanted.transpose(1, 3, 0, 2)).max() < 1e-5
    assert line.tolist() == [(4 * k * k + (2 * k + 1) ** 2) / 2 for k in range(6)], "the mean of each pair"
    for options, message in (
        ({}, r"how large\?; allowed: one of sizes and scales"),
        ({"sizes": [3], "axes": 0, "axis_names": "D"}, "axes and axis_names are given"),
        ({"sizes": [3, 4]}, "sizes has 2 values; allowed: one value, or 4"),
        ({"sizes": [3], "axis_names": "F"}, "Axis 'F' is not present in the input layout 'DHWC'"),
        ({"sizes": [3], "roi_start": [1]}, r"roi_start=\[1\] is not available\. fn\.slice cuts regions"),
    ):
        with pytest.raises(ParameterError, match=message):
            run(lambda options=options: fn.tensor_resize(array(volume, np.float32, "DHWC"), **options))


def test_the_fast_resize_is_not_antialiased():
    image = np.random.default_rng(2).integers(0, 256, (60, 80, 3)).astype(np.uint8)

    def program():
        node = array(image, np.uint8, "HWC")
        options = {"resize_shorter": 20, "crop": (16, 16)}
        return (
            fn.fast_resize_crop_mirror(node, **options),
            fn.resize_crop_mirror(node, antialias=False, **options),
            fn.resize_crop_mirror(node, **options),
        )

    fast, plain, smooth = (part.at(0) for part in run(program)[0])
    assert np.array_equal(fast, plain)
    assert not np.array_equal(fast, smooth)


def test_one_filter_for_random_resized_crops():
    image = np.random.default_rng(2).integers(0, 256, (30, 40, 3)).astype(np.uint8)

    def cropped(**filters):
        def program():
            return fn.random_resized_crop(array(image, np.uint8, "HWC"), size=20, seed=5, **filters)

        return run(program)[0][0].at(0)

    linear = {"min_filter": types.INTERP_TRIANGULAR, "mag_filter": types.INTERP_LINEAR}
    assert np.array_equal(cropped(**linear), cropped())
    near = dict.fromkeys(linear, types.INTERP_NN)
    assert np.array_equal(cropped(**near), cropped(interp_type=types.INTERP_NN))
    with pytest.raises(
        ParameterError, match=r"min_filter and mag_filter differ; allowed: one filter for both"
    ):
        cropped(min_filter=types.INTERP_CUBIC)


def test_refusals_name_the_operator_and_the_way_out():
    for name in ("readers.mxnet", "dump_image"):
        group, _, last = name.rpartition(".")
        function = getattr(getattr(fn, group) if group else fn, last)
        with pytest.raises(
            ParameterError, match=rf"test_operators.py:\d+ .*DALI's {name} is not available\. ."
        ):
            run(lambda function=function: function())
    with pytest.raises(AttributeError, match=r"has no operator 'nosuch', and neither has DALI"):
        _ = fn.nosuch
    with pytest.raises(AttributeError, match=r"has no operator readers\.Nosuch"):
        _ = ops.readers.Nosuch


def test_every_known_name_is_there_in_both_modules():
    assert {"readers", "decoders", "resize", "external_source"} <= set(dir(fn))
    assert {"video", "file", "numpy"} <= set(dir(fn.readers))
    assert {"Resize", "readers"} <= set(dir(ops))
    for name in known_names():
        assert row_of(name) is not None


@pytest.mark.parametrize(
    "group", [fn, fn.readers, fn.experimental, ops, ops.readers, ops.experimental, ops.experimental.readers]
)
def test_groups_have_each_attribute_that_they_list(group):
    assert dir(group)
    for name in dir(group):
        assert getattr(group, name) is not None


@pytest.mark.parametrize(
    ("older", "name"),
    [
        ("nvJPEGDecoder", "decoders.image"),
        ("HostDecoder", "decoders.image"),
        ("ImageDecoder", "decoders.image"),
        ("VideoReader", "readers.video"),
        ("FileReader", "readers.file"),
        ("CoinFlip", "random.coin_flip"),
        ("Uniform", "random.uniform"),
        ("BBoxPaste", "bbox_paste"),
        ("BbFlip", "bb_flip"),
        ("RandomBBoxCrop", "random_bbox_crop"),
        ("OpticalFlow", "optical_flow"),
        ("HSV", "hsv"),
    ],
)
def test_older_classes(older, name):
    assert row_of(getattr(ops, older).operator).name == name


def test_arguments_of_constructors_and_calls():
    image = lambda: array(np.zeros((4, 4, 3)), np.uint8, "HWC")  # noqa: E731  a node of the pipeline that is defined
    with pytest.raises(
        ParameterError, match=r"ops.Rotate: angle is given at the call, and was given to the constructor"
    ):
        run(lambda: ops.Rotate(angle=3.0)(image(), angle=5.0))
    with pytest.raises(
        ParameterError, match=r"fn.crop: test_operators.py:\d+ .*there is no argument 'nonsense'; allowed: "
    ):
        run(lambda: fn.crop(image(), crop=(2, 2), nonsense=3))
    with pytest.raises(
        ParameterError, match=r"fn.resize: a size with slices, for samples of layout 'HWC'; allowed: volumes"
    ):
        run(lambda: fn.resize(image(), resize_z=3))
    with pytest.raises(ParameterError, match="device='tpu' is not valid; allowed: 'cpu', 'gpu', 'mixed'"):
        run(lambda: fn.flip(image(), device="tpu"))


SIGNED = {"uint8": "int16", "uint16": "int32", "uint32": "int64"}


@pytest.mark.parametrize(
    "kind", ["uint8", "int8", "uint16", "int16", "int32", "uint32", "int64", "float32", "float64"]
)
def test_arithmetic_with_numbers(kind):
    def results():
        x = array([3], kind)
        return x * 2, x * 2.5, x / 2, x // 2, x > 1, -x

    found = one(results)
    whole = "INT64" if kind in ("uint32", "int64") else "INT32"
    if kind.startswith("float"):
        name = "FLOAT" if kind == "float32" else "FLOAT64"
        assert [part[:2] for part in found[:4]] == [
            (name, [6.0]),
            (name, [7.5]),
            (name, [1.5]),
            (name, [1.5]),
        ]
    else:
        assert [part[:2] for part in found[:4]] == [
            (whole, [6]),
            ("FLOAT", [7.5]),
            ("FLOAT", [1.5]),
            (whole, [1]),
        ]
    assert found[4][:2] == ("BOOL", [True])
    assert types.dtype_name(types.DALIDataType[found[5][0]]) == kind


def test_arithmetic_of_pairs():
    pairs = {
        ("uint8", "int8"): "INT16",
        ("uint8", "uint16"): "UINT16",
        ("uint16", "int16"): "INT32",
        ("uint32", "int32"): "INT64",
        ("int64", "float32"): "FLOAT",
        ("bool", "uint8"): "UINT8",
        ("int32", "float16"): "FLOAT16",
    }
    for (left, right), wanted in pairs.items():
        ((kind, _, _),) = one(lambda left=left, right=right: array([1], left) + array([1], right))
        assert kind == wanted
    with pytest.raises(ParameterError, match="operator `-` cannot be booleans"):
        one(lambda: array([1], "bool") - array([0], "bool"))


def test_arithmetic_wraps_cuts_off_and_broadcasts():
    def results():
        negative = array([-7, 7], np.int32)
        return (
            array([200], np.uint8) + array([100], np.uint8),
            negative // 2,
            negative % 2,
            array(np.ones((2, 3)), np.float32) * array([0, 1, 2], np.float32),
            array([1, 2], np.int32) + [10, 20],
            7 // array([2], np.int32),
            ~array([3], np.uint8),
        )

    found = [values for _, values, _ in one(results)]
    assert found == [[44], [-3, 3], [-1, 1], [[0, 1, 2]] * 2, [11, 22], [3], [252]]
    with pytest.raises(ParameterError, match="a str as an operand of '\\+' with a node"):
        one(lambda: array([1], np.int32) + "a")
    with pytest.raises(
        ParameterError, match=r"\[7\] of samples of the shape \(5,\): index 7 is out of bounds"
    ):
        one(lambda: array(np.arange(5), np.int32)[7])


@pytest.mark.parametrize(
    ("border", "mode"),
    [("clamp", "edge"), ("reflect_101", "reflect"), ("reflect_1001", "symmetric"), ("wrap", "wrap")],
)
def test_borders_have_dalis_names(border, mode):
    image = np.arange(20, dtype=np.float32).reshape(4, 5, 1)
    kernel = [[0.0, 0.0, 0.0, 0.0, 1.0]]
    ((_, values, _),) = one(
        lambda: fn.experimental.filter(array(image, np.float32, "HWC"), kernel=kernel, border=border)
    )
    wanted = np.pad(image, ((0, 0), (0, 2), (0, 0)), mode)[:, 2:]
    assert np.array_equal(values, wanted)


def test_math():
    found = one(lambda: (math.sqrt(array([4], np.int32)), math.clamp(array([200], np.uint8), 0, 100)))
    assert [part[:2] for part in found] == [("FLOAT", [2.0]), ("INT32", [100])]
    with pytest.raises(AttributeError, match="no function 'nosuch'"):
        _ = math.nosuch


def test_unseeded_draws_differ_and_seeded_ones_agree():
    def results():
        draw = fn.random.uniform
        return draw(range=[0, 1]), draw(range=[0, 1]), draw(range=[0, 1], seed=4), draw(range=[0, 1], seed=4)

    a, b, c, d = (values for _, values, _ in one(results))
    assert a != b
    assert c == d
    assert one(results, seed=0) == one(results, seed=0)
    assert one(results, seed=1)[0] != one(results, seed=0)[0]


@pytest.mark.parametrize("seed", [None, -1])
def test_missing_seeds_draw_anew_in_each_pipeline(seed):
    """DALI 2.4 does, for pipelines and for operators that state -1."""
    drawn = [one(lambda: fn.random.uniform(seed=-1), seed=seed)[0][1] for _ in range(4)]
    assert len(set(drawn)) == 4
    pipe = pipeline_def(lambda: fn.random.uniform(), batch_size=1, seed=seed, **ON_CPU)()
    first = pipe.run()[0].at(0)
    assert one(lambda: fn.random.uniform(), seed=pipe.seed)[0][1] == first  # seed tells what to state


def test_checkpoints_hold_the_seed_that_was_drawn():
    make = pipeline_def(lambda: fn.random.uniform(), batch_size=2, **ON_CPU)
    pipe = make()
    pipe.run()
    text, state = pipe.checkpoint(), pipe.state_dict()
    rest = pipe.run()[0].as_array().tolist()
    assert make(checkpoint=text).run()[0].as_array().tolist() == rest
    with pytest.raises(
        StateError, match=r"the state has the seed \d+, and this pipeline drew another. State the same"
    ):
        make().load_state_dict(state)


def test_shards_agree_on_an_order_without_a_seed(numbered):
    """Ranks that drew orders of their own would read samples twice."""
    found = []
    for shard in range(2):
        read = partial(fn.readers.file, files=numbered, random_shuffle=True, shard_id=shard, num_shards=2)
        found += [int(batch[1].at(0)[0]) for batch in run(read, count=5)]
    assert sorted(found) == list(range(10))


def test_draws_do_not_depend_on_the_size_of_batches():
    def draws(size):
        found = run(lambda: fn.random.normal(shape=[2]), batch_size=size, count=8 // size, seed=0)
        return np.concatenate([batch[0].as_array() for batch in found]).tolist()

    assert draws(2) == draws(4) == draws(8)


def test_arguments_of_distributions():
    def results():
        mean = array(5.0, np.float32)
        return (
            fn.random.uniform(values=[3.0, 3.0]),
            fn.random.normal(mean=mean, stddev=0.0),
            fn.random.coin_flip(probability=array(1.0, np.float32), dtype=types.BOOL),
            fn.random.choice(1),
            fn.random.choice([7.5]),
            fn.random.uniform(array(np.zeros((2, 3)), np.uint8), range=[0, 1]),
        )

    found = one(results)
    assert [part[:2] for part in found[:5]] == [
        ("FLOAT", 3.0),
        ("FLOAT", 5.0),
        ("BOOL", True),
        ("INT32", 0),
        ("FLOAT", 7.5),
    ]
    assert np.shape(found[5][1]) == (2, 3)


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", ["uint8", "float16", "int64", "bool"])
def test_arrays_from_the_bytes_of_files(order, dtype):
    arrays = [np.asarray(np.arange(24).reshape(2, 3, 4) + n, dtype, order=order) for n in range(2)]
    encoded = []
    for one_array in arrays:
        file = io.BytesIO()
        np.save(file, one_array)
        encoded.append(np.frombuffer(file.getvalue(), np.uint8))

    def decoded(data, **options):
        return lambda: fn.decoders.numpy(fn.external_source(lambda: data), **options)

    (found,) = run(decoded(encoded), batch_size=2)[0]
    assert [found.at(n).dtype for n in range(2)] == [dtype] * 2
    assert all(np.array_equal(found.at(n), arrays[n]) for n in range(2))
    assert run(decoded(encoded, dtype=types.FLOAT), batch_size=2)[0][0].at(1).dtype == np.float32
    with pytest.raises(
        UnreadableSourceError, match=r"the NPY header is damaged|the array has the dtype object"
    ):
        run(decoded([one[:100] for one in encoded]), batch_size=2)
    with pytest.raises(
        UnreadableSourceError, match=r"the NPY header is damaged|the array has the dtype object"
    ):
        run(decoded([np.zeros(40, np.uint8)] * 2), batch_size=2)


def test_images(tmp_path):
    image = np.random.default_rng(0).integers(0, 255, (20, 30, 3), np.uint8)
    (tmp_path / "a").mkdir()
    cv2.imwrite(str(tmp_path / "a" / "x.png"), image[..., ::-1])
    (tmp_path / "a" / "y.png").write_bytes(b"no image")

    def reading(name):
        data, label = fn.readers.file(files=[str(tmp_path / "a" / name)], labels=[5])
        return fn.decoders.image(data, device="mixed"), label, data.property("source_info")

    pixels, label, source = (output.at(0) for output in run(lambda: reading("x.png"))[0])
    assert np.array_equal(pixels, image)
    assert label.tolist() == [5]
    assert source.tobytes().decode().endswith("x.png")
    with pytest.raises(
        SourceError, match=r"y.png: these 8 bytes are not an image that can be decoded; allowed: JPEG"
    ):
        run(lambda: reading("y.png"))
    windows = run(
        lambda: fn.decoders.image_random_crop(fn.readers.file(files=[str(tmp_path / "a" / "x.png")])[0]),
        count=5,
    )
    shapes = {batch[0].at(0).shape for batch in windows}
    assert len(shapes) > 1
    assert all(0 < rows <= 20 and 0 < columns <= 30 for rows, columns, _ in shapes)


def test_the_page_tells_of_every_name():
    from seqpipe.dali.__main__ import known_lines, shares, table_text

    lines = known_lines()
    rows = [line.split() for line in table_text().splitlines()]
    assert [name for name, *_ in rows] == list(lines)
    assert ["fn.resize", f"{shares()['fn.resize']:.0%}", "same"] in rows
    assert 0.3 < shares()["fn.resize"] < shares()["pipeline_def"] < 1
    assert len(lines) > 450
    for name, (state, note) in lines.items():
        assert state in ("same", "differs", "no")
        assert note or state == "same", f"{name} is {state}: how, or what instead?"
    wanted = {
        "fn.resize": "same",
        "fn.rotate": "differs",
        "fn.readers.mxnet": "no",
        "Pipeline.serialize": "differs",
        "types.Constant": "same",
        "math.sqrt": "same",
        "plugin.tf.DALIDataset": "same",
        "experimental.dynamic.Batch": "same",
        "auto_aug.core.Policy": "same",
    }
    assert {name: lines[name][0] for name in wanted} == wanted
    assert "older name of readers.video" in lines["fn.video_reader"][1]


def test_anchors_match_boxes_as_dali_matches_them():
    anchors = [0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 0.0, 0.5, 0.5, 1.0]
    given = np.array([[0.05, 0.05, 0.5, 0.5], [0.4, 0.4, 0.9, 0.9]], np.float32)

    def encoded(boxes, **options):
        return run(
            lambda: tuple(
                fn.box_encoder(
                    fn.external_source(source=lambda: [boxes]),
                    fn.external_source(source=lambda: [np.array([3, 5], np.int32)[: len(boxes)]]),
                    anchors=anchors,
                    **options,
                )
            ),
        )[0]

    found, labels = (np.asarray(part.at(0)) for part in encoded(given))
    assert labels.tolist() == [3, 5, 0]
    np.testing.assert_allclose(
        found, [[0.275, 0.275, 0.45, 0.45], [0.65, 0.65, 0.5, 0.5], [0.25, 0.75, 0.5, 0.5]], atol=1e-6
    )
    found, _ = (np.asarray(part.at(0)) for part in encoded(given, offset=True, stds=[0.1, 0.1, 0.2, 0.2]))
    size = np.log(0.9) / 0.2
    np.testing.assert_allclose(found, [[0.5, 0.5, size, size], [-2, -2, 0, 0], [0, 0, 0, 0]], atol=1e-5)
    found, labels = (np.asarray(part.at(0)) for part in encoded(given[:0]))
    assert labels.tolist() == [0, 0, 0]
    anchors.pop()
    with pytest.raises(ParameterError, match=r"anchors has 11 numbers; allowed: 4 for each anchor"):
        encoded(given)


@pytest.mark.parametrize("layout", ["HWC", "FHWC"])
def test_published_policies_are_those_of_our_operators(layout):
    from seqpipe import ops as native
    from seqpipe.dali.auto_aug import auto_augment, rand_augment, trivial_augment

    shape = (4, 30, 40, 3) if layout == "FHWC" else (30, 40, 3)
    images = np.random.default_rng(0).integers(0, 255, (6, *shape)).astype(np.uint8)

    @pipeline_def(batch_size=6, num_threads=1, device_id=None, enable_conditionals=True)
    def program():
        x = fn.external_source(lambda: list(images), layout=layout)
        return (
            auto_augment.auto_augment(x, "svhn", shape=x.shape(), max_translate_rel=0.2, seed=3),
            auto_augment.auto_augment_image_net(x, fill_value=None, seed=3),
            rand_augment.rand_augment(x, n=3, m=17, excluded=["equalize"], seed=4),
            trivial_augment.trivial_augment_wide(x, interp_type=types.INTERP_NN, seed=5),
        )

    made = program().run()
    wanted = (
        native.AutoAugment(policy="svhn", max_translate_rel=0.2, seed=3),
        native.AutoAugment(fill_value=None, seed=3),
        native.RandAugment(n=3, m=17, excluded=("equalize",), seed=4),
        native.TrivialAugmentWide(interp_type="nearest", seed=5),
    )
    for found, op in zip(made, wanted, strict=True):
        assert found.layout() == layout
        expected = op(images, layout=f"N{layout}", index=range(6))
        assert np.array_equal(found.as_array(), expected)
        assert not np.array_equal(expected, images)


def test_arguments_of_policies_are_checked():
    with pytest.raises(ParameterError, match="policy_name='coco' is not valid; allowed: 'image_net'"):
        auto_aug.auto_augment.auto_augment(None, "coco")
    with pytest.raises(ParameterError, match="max_translate_rel without a shape"):
        auto_aug.trivial_augment.trivial_augment_wide(None, max_translate_rel=0.1)


def test_composed_operators_act_one_after_the_other():
    program = ops.Compose([ops.Resize(size=(10, 12)), ops.Flip(horizontal=1), ops.Reshape(shape=[-1])])
    image = np.arange(20 * 24 * 3, dtype=np.uint8).reshape(20, 24, 3)

    def both():
        x = array(image, np.uint8, "HWC")
        return fn.flip(fn.resize(x, size=(10, 12)), horizontal=1), program(x)

    alone, composed = run(both)[0]
    assert np.array_equal(alone.at(0).reshape(-1), composed.at(0))


def test_constants_with_a_shape():
    assert one(lambda: types.Constant([1, 2, 3, 4], shape=[2, 2])) == [("INT32", [[1, 2], [3, 4]], "")]
    assert one(lambda: types.Constant(5, shape=3)) == [("INT32", [5, 5, 5], "")]


def test_windows_of_the_laplacian_by_axis():
    volume = np.random.default_rng(5).integers(0, 255, (1, 6, 8, 9, 1)).astype(np.float32)

    def edges(**options):
        return lambda: fn.laplacian(fn.external_source(lambda: volume, layout="DHWC"), **options)

    found = run(edges(smoothing_size=[1, 1, 1]))[0][0].at(0)[..., 0]
    expected = sum(
        ndimage.convolve1d(volume[0, ..., 0], [1, -2, 1], axis, mode="mirror") for axis in range(3)
    )
    assert np.allclose(found, expected, atol=1e-3)
    with pytest.raises(
        ParameterError, match=r"window_size has 2 values; allowed: one value, or 3: one for each axis"
    ):
        run(edges(window_size=[3, 5]))
