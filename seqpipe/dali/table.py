"""The table of DALI's operators. Rows list only differences; other operators are seqpipe's of the same name."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from ..core.plugins import load_plugins
from ..ops import REGISTRY
from .call import BORDERS, Row
from .operators import (
    arrays,
    audio,
    boxes,
    coco,
    decoders,
    functions,
    images,
    inputs,
    numpy_files,
    opencv,
    random_numbers,
    resizing,
    rotation,
    segmentation,
    sources,
    tensors,
    tfrecord,
    volumes,
    warping,
    webdataset,
    windows,
)
from .operators.displacement import displaced, jitter, remap, sphere, water
from .operators.transforms import combined, transform

__all__ = [
    "ALIASES",
    "ROWS",
    "OperatorGroup",
    "class_name",
    "groups_in",
    "known_names",
    "operators_in",
    "row_of",
]

_DECODING: Final = (
    *("affine", "cache_batch_copy", "cache_debug", "cache_size", "cache_threshold", "cache_type"),
    *(
        "device_memory_padding",
        "device_memory_padding_jpeg2k",
        "host_memory_padding",
        "host_memory_padding_jpeg2k",
    ),
    *("hw_decoder_load", "hybrid_huffman_threshold", "jpeg_fancy_upsampling", "preallocate_height_hint"),
    *(
        "preallocate_width_hint",
        "use_fast_idct",
        "split_stages",
        "use_chunk_allocator",
        "memory_stats",
        "build_index",
    ),
)
_CROP: Final[dict[str, Any]] = {"accept": ("rounding", "image_type")}
_RESIZE: Final[dict[str, Any]] = {
    "accept": ("image_type", "interp_type_old"),
    "defaults": {"subpixel_scale": True},
}
_READER: Final[dict[str, Any]] = {"accept": sources.READER_ACCEPTS}
_OTHER_DATA: Final = "seqpipe reads videos, volumes and images; read it in fn.external_source(source=…)"
_RETIRED: Final = (
    "{} is retired: convert its records to tar files once, and read these by fn.readers.webdataset; or read them in "
    "fn.external_source(source=…)"
)
_FUNCTION: Final = "fn.python_function(x, function=…) runs your own code"

_WINDOWS: Final = (
    "step=-1 is sequence_length * stride, as in DALI, whose documentation says sequence_length; a sequence fits if its "
    "last frame does, where DALI needs stride - 1 frames more; with a stride, 'edge', 'reflect' and 'symmetric' pad by "
    "the frames of the sequence, where DALI takes those of the video"
)

_BY_OPENCV: Final = "OpenCV computes it on the CPU, also with device='gpu'"

_LIST: Final = (
    Row("audio_resample", build=audio.resample),
    Row("batch_permutation", build=random_numbers.batch_permutation),
    Row("bbox_rotate", build=rotation.rotate_boxes),
    Row("box_encoder", build=boxes.box_encoder),
    Row("cast", build=arrays.cast),
    Row("cast_like", build=arrays.cast_like),
    Row("cat", build=arrays.joined(stacks=False)),
    Row("clahe", build=opencv.clahe, note=_BY_OPENCV),
    Row("constant", build=arrays.constant),
    Row("coord_flip", build=boxes.coord_flip),
    Row("coord_transform", build=boxes.coord_transform),
    Row("copy", build=arrays.copy),
    Row("crop", build=images.crop, **_CROP),
    Row(
        "crop_mirror_normalize",
        build=images.crop_mirror_normalize,
        renamed={"output_dtype": "dtype"},
        **_CROP,
    ),
    Row("decoders.image", build=decoders.decode_images, accept=_DECODING),
    Row("decoders.image_crop", build=decoders.decode_crop, accept=_DECODING),
    Row("decoders.image_random_crop", build=decoders.decode_random_crop, accept=_DECODING),
    Row("decoders.image_slice", build=decoders.decode_slice, accept=_DECODING),
    Row(
        "decoders.video",
        build=decoders.decode_video,
        accept=_DECODING,
    ),
    Row("decoders.audio", build=audio.decode_audio),
    Row("decoders.inflate", why=_FUNCTION),
    Row("decoders.numpy", build=decoders.decode_numpy),
    Row("dl_tensor_python_function", build=functions.dlpack_function),
    Row("dump_image", why=_FUNCTION),
    Row("element_extract", build=arrays.element_extract),
    Row("erase", build=images.erase),
    Row("expand_dims", build=arrays.expand_dims),
    Row("debayer", build=opencv.debayer, note=f"bilinear by default; {_BY_OPENCV}"),
    Row("experimental.dilate", build=opencv.morphology("dilate"), note=_BY_OPENCV),
    Row("experimental.erode", build=opencv.morphology("erode"), note=_BY_OPENCV),
    Row(
        "experimental.inputs.video",
        build=inputs.video_input,
        accept=("affine", "blocking", "no_copy"),
        note="feed_input refuses several videos at once, of which DALI decodes the first and drops the others",
    ),
    Row("experimental.readers.fits", why=_OTHER_DATA),
    Row("experimental.remap", build=remap, note="interp is INTERP_NN or INTERP_LINEAR; also on the CPU"),
    Row(
        "experimental.readers.video",
        build=sources.video_reader,
        accept=(*sources.READER_ACCEPTS, "file_list_include_end"),
        note=_WINDOWS,
    ),
    Row(
        "experimental.warp_perspective",
        to="warp_perspective",
        defaults={"fill_value": 0.0},
        accept=("border_mode",),
        inputs=("matrix",),
    ),
    Row(
        "external_source",
        build=sources.external_source,
        positional=("source", "num_outputs"),
    ),
    Row(
        "fast_resize_crop_mirror",
        to="resize_crop_mirror",
        build=resizing.resize_crop_mirror,
        accept=_RESIZE["accept"],
        defaults={**_RESIZE["defaults"], "antialias": False},
    ),
    Row(
        "filter",
        build=images.filtered,
        renamed={"border": "pad_mode"},
        values={"pad_mode": BORDERS},
        inputs=("kernel", "fill_value"),
    ),
    Row("flip", build=images.flip, defaults={"horizontal": 1}),
    Row("full", build=arrays.full(None)),
    Row("full_like", build=arrays.full_like(None)),
    Row("gaussian_blur", build=images.gaussian_blur),
    Row("get_property", build=arrays.get_property),
    Row("grid_mask", build=images.grid_mask),
    Row("hsv", defaults={"dtype": "uint8"}),
    Row("io.file.read", build=decoders.file_bytes, accept=("dont_use_mmap", "use_o_direct")),
    Row("jitter", build=jitter, note="other random numbers than DALI's; also on the CPU, and of sequences"),
    Row("laplacian", build=volumes.laplacian),
    Row("lookup_table", build=arrays.lookup_table),
    Row("mel_filter_bank", build=audio.mel_filter_bank),
    Row("mfcc", build=audio.mfcc),
    Row("multi_paste", build=images.multi_paste),
    Row("noise.gaussian", to="gaussian_noise"),
    Row("noise.salt_and_pepper", to="salt_and_pepper_noise"),
    Row("noise.shot", to="shot_noise"),
    Row("nonsilent_region", build=audio.nonsilent_region),
    Row("normalize", build=images.normalize),
    Row(
        "numba_function",
        build=functions.numba_function,
        accept=("blocks", "threads_per_block"),
        note="on the CPU only",
    ),
    Row("one_hot", build=arrays.one_hot),
    Row("ones", build=arrays.full(1)),
    Row("ones_like", build=arrays.full_like(1)),
    Row("optical_flow", build=images.optical_flow),
    Row("pad", build=arrays.pad),
    Row("paste", accept=("n_channels",)),
    Row("peek_image_shape", build=decoders.peek_shape),
    Row("per_frame", build=arrays.per_frame),
    Row("permute_batch", build=arrays.permute_batch),
    Row("power_spectrum", build=audio.power_spectrum),
    Row("preemphasis_filter", build=audio.preemphasis_filter),
    Row("python_function", build=functions.python_function),
    Row("random.beta", build=random_numbers.random_beta),
    Row("random.choice", build=random_numbers.random_choice, positional=("a",)),
    Row("random.coin_flip", build=random_numbers.random_numbers("coin_flip", "int32")),
    Row("random.normal", build=random_numbers.random_numbers("normal", "float32")),
    Row("random.uniform", build=random_numbers.random_numbers("uniform", "float32")),
    Row("random_bbox_crop", build=boxes.random_bbox_crop),
    Row("random_crop_generator", build=random_numbers.random_crop_window),
    Row(
        "random_resized_crop",
        build=resizing.random_resized_crop,
        accept=("image_type",),
        note="min_filter and mag_filter must give the same result, as INTERP_TRIANGULAR and INTERP_LINEAR do",
    ),
    Row("readers.caffe", why=_RETIRED.format("Caffe")),
    Row("readers.caffe2", why=_RETIRED.format("Caffe2")),
    Row(
        "readers.coco",
        build=coco.coco_reader,
        accept=(
            *sources.READER_ACCEPTS,
            "save_preprocessed_annotations",
            "save_preprocessed_annotations_dir",
        ),
        refuse={
            "pixelwise_masks": "polygon_masks=True gives outlines",
            "preprocessed_annotations": "annotations_file is read quickly enough",
        },
    ),
    Row("readers.file", build=sources.file_reader, **_READER),
    Row("readers.mxnet", why=_RETIRED.format("MXNet")),
    Row("readers.nemo_asr", why=_OTHER_DATA),
    Row("readers.numpy", build=numpy_files.numpy_reader, **_READER),
    Row("readers.sequence", build=sources.sequence_reader, **_READER),
    Row(
        "readers.tfrecord",
        build=tfrecord.tfrecord_reader,
        note="records without a feature have its default, where DALI returns the number 0; other counts and types of "
        "values than described are errors; index_path may be left out",
        **_READER,
    ),
    Row("readers.video", build=sources.video_reader, note=_WINDOWS, **_READER),
    Row("readers.video_resize", build=sources.video_resize_reader, note=_WINDOWS, **_READER),
    Row(
        "readers.webdataset",
        build=webdataset.webdataset_reader,
        note="a shuffled epoch is a full permutation; directories, links and hidden files between samples, which DALI "
        "makes empty samples of, are left out; a file that is no tar archive is an error",
        **_READER,
    ),
    Row("reinterpret", build=arrays.reinterpret),
    Row("reshape", build=arrays.reinterpret),
    Row("resize", build=resizing.resize, **_RESIZE),
    Row("resize_crop_mirror", build=resizing.resize_crop_mirror, **_RESIZE),
    Row("roi_random_crop", build=random_numbers.roi_random_crop),
    Row(
        "rotate",
        build=rotation.rotate,
        renamed={"output_dtype": "dtype"},
        note="without axis, the slices of volumes are rotated one by one, where DALI refuses them",
    ),
    Row("segmentation.random_mask_pixel", build=segmentation.random_mask_pixel),
    Row("segmentation.random_object_bbox", build=segmentation.random_object_bbox),
    Row("segmentation.select_masks", build=segmentation.select_masks),
    Row("sequence_rearrange", build=arrays.sequence_rearrange),
    Row("shapes", build=arrays.shapes),
    Row("slice", build=windows.slice_, accept=("image_type",)),
    Row("spectrogram", build=audio.spectrogram),
    Row("sphere", build=displaced(sphere)),
    Row("squeeze", build=arrays.squeeze),
    Row("ssd_random_crop", build=boxes.ssd_random_crop),
    Row("stack", build=arrays.joined(stacks=True)),
    Row(
        "tensor_resize",
        build=tensors.tensor_resize,
        refuse={
            **dict.fromkeys(("min_filter", "mag_filter"), "interp_type is for both directions"),
            **dict.fromkeys(("roi_start", "roi_end", "roi_relative"), "fn.slice cuts regions"),
            "max_size": "mode='not_larger' limits sizes",
        },
    ),
    Row("to_decibels", build=audio.to_decibels),
    Row("torch_python_function", build=functions.torch_function),
    Row("transforms.combine", build=combined),
    *(
        Row(f"transforms.{name}", build=transform(name))
        for name in ("crop", "rotation", "scale", "shear", "translation")
    ),
    Row("transpose", build=arrays.transpose),
    Row("warp_affine", build=warping.warp_affine, accept=("border",), inputs=("matrix",)),
    Row(
        "water",
        build=displaced(water, ("ampl_x", "ampl_y", "freq_x", "freq_y", "phase_x", "phase_y")),
    ),
    Row("zeros", build=arrays.full(0)),
    Row("zeros_like", build=arrays.full_like(0)),
    *(
        Row(f"reductions.{name}", build=arrays.reduction)
        for name in ("max", "mean", "mean_square", "min", "rms", "std_dev", "sum", "variance")
    ),
)

ROWS: Final[dict[str, Row]] = {row.name: row for row in _LIST}
"""Rows by name in ``nvidia.dali.fn``."""

ALIASES: Final = {
    "inputs.video": "experimental.inputs.video",
    "video_reader": "readers.video",
    "video_reader_resize": "readers.video_resize",
    "file_reader": "readers.file",
    "numpy_reader": "readers.numpy",
    "sequence_reader": "readers.sequence",
    "coco_reader": "readers.coco",
    "tfrecord_reader": "readers.tfrecord",
    "mxnet_reader": "readers.mxnet",
    "caffe_reader": "readers.caffe",
    "caffe2_reader": "readers.caffe2",
    "nemo_asr_reader": "readers.nemo_asr",
    "image_decoder": "decoders.image",
    "image_decoder_crop": "decoders.image_crop",
    "image_decoder_random_crop": "decoders.image_random_crop",
    "image_decoder_slice": "decoders.image_slice",
    "nvjpeg_decoder": "decoders.image",
    "nv_jpeg_decoder": "decoders.image",
    "nv_jpegdecoder": "decoders.image",
    "nvjpegdecoder": "decoders.image",
    "host_decoder": "decoders.image",
    "uniform": "random.uniform",
    "coin_flip": "random.coin_flip",
    "normal_distribution": "random.normal",
    "new_flow": "optical_flow",
    "transform_translation": "transforms.translation",
    "experimental.decoders.image": "decoders.image",
    "experimental.decoders.image_crop": "decoders.image_crop",
    "experimental.decoders.image_random_crop": "decoders.image_random_crop",
    "experimental.decoders.image_slice": "decoders.image_slice",
    "experimental.decoders.video": "decoders.video",
    "experimental.equalize": "equalize",
    "experimental.filter": "filter",
    "experimental.median_blur": "median_blur",
    "experimental.resize": "resize",
    "experimental.tensor_resize": "tensor_resize",
    "experimental.peek_image_shape": "peek_image_shape",
    "experimental.inflate": "decoders.inflate",
    "audio_decoder": "decoders.audio",
    "experimental.audio_resample": "audio_resample",
    "experimental.debayer": "debayer",
    "experimental.numba_function": "numba_function",
}
"""Older and experimental names, and the current names that they stand for."""


_ACRONYMS: Final = {
    **{name: name.upper() for name in ("coco", "dl", "mfcc", "rms", "roi", "ssd")},
    **{"bbox": "BBox", "mxnet": "MXNet", "tfrecord": "TFRecord", "dltensor": "DLTensor"},
}
"""Parts of names of classes that have several capitals."""


def row_of(name: str) -> Row | None:
    """Return the row of an operator, or a default row for an operator of seqpipe; None if neither exists."""
    name = ALIASES.get(name, name)
    row = ROWS.get(name)
    if row is None and (name in REGISTRY or (load_plugins() and name in REGISTRY)):
        return Row(name)
    return row


def known_names() -> list[str]:
    """Return the names of all operators, including aliases and operators that are not available."""
    return sorted({*ROWS, *ALIASES, *(name for name in REGISTRY if "noise_" not in name)})


def operators_in(group: str) -> list[str]:
    """Return the names of operators in a group such as "readers", without its subgroups; "" for operators in none."""
    names = (name.rpartition(".") for name in known_names())
    return [operator for prefix, _, operator in names if prefix == group]


def groups_in(group: str) -> list[str]:
    """Return the names of the subgroups of a group; "" for the groups in none."""
    prefix = f"{group}." if group else ""
    inside = (name.removeprefix(prefix) for name in known_names() if name.startswith(prefix))
    return sorted({name.partition(".")[0] for name in inside if "." in name})


def class_name(operator: str) -> str:
    """Return the name of an operator's class."""
    return "".join(_ACRONYMS.get(part, part.capitalize()) for part in operator.split("_"))


class OperatorGroup(ModuleType):
    """A submodule of ``fn``, ``ops`` or dynamic mode, such as ``fn.readers``, which can also be imported.

    Args:
        name: name of the group, with the groups that it is in.
        find: returns an attribute by the name of the group and its own.
        attribute_name: returns the attribute's name of an operator.
        module: the module of :mod:`seqpipe.dali` that has the group.
    """

    def __init__(
        self, name: str, find: Callable[[str, str], Any], attribute_name: Callable[[str], str], module: str
    ) -> None:
        super().__init__(f"seqpipe.dali.{module}.{name}")
        self._group, self._find, self._attribute_name = name, find, attribute_name
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._find(self._group, name)

    def __dir__(self) -> list[str]:
        operators = map(self._attribute_name, operators_in(self._group))
        return sorted({*operators, *groups_in(self._group)})
