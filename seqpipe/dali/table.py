"""The table of DALI's operators. Rows list only differences; other operators are seqpipe's of the same name."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from ..core.plugins import load_plugins
from ..ops import REGISTRY
from . import operators  # noqa: F401  declares the operators
from .declared import OPERATORS, Row

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

_OTHER_DATA: Final = "seqpipe reads videos, volumes and images; read it in fn.external_source(source=…)"
_RETIRED: Final = (
    "{} is retired: convert its records to tar files once, and read these by fn.readers.webdataset; or read them in "
    "fn.external_source(source=…)"
)
_FUNCTION: Final = "fn.python_function(x, function=…) runs your own code"


_LIST: Final = (
    Row("decoders.inflate", why=_FUNCTION),
    Row("dump_image", why=_FUNCTION),
    Row("experimental.readers.fits", why=_OTHER_DATA),
    Row(
        "experimental.warp_perspective",
        to="warp_perspective",
        defaults={"fill_value": 0.0},
        accept=("border_mode",),
        inputs=("matrix",),
    ),
    Row("hsv", defaults={"dtype": "uint8"}),
    Row("noise.gaussian", to="gaussian_noise"),
    Row("noise.salt_and_pepper", to="salt_and_pepper_noise"),
    Row("noise.shot", to="shot_noise"),
    Row("paste", accept=("n_channels",)),
    Row("readers.caffe", why=_RETIRED.format("Caffe")),
    Row("readers.caffe2", why=_RETIRED.format("Caffe2")),
    Row("readers.mxnet", why=_RETIRED.format("MXNet")),
)

ROWS: Final[dict[str, Row]] = {**OPERATORS, **{row.name: row for row in _LIST}}
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
    """A group of operators, such as ``fn.readers``, as a module whose attributes are made when they are asked for.

    Args:
        area: the module of :mod:`seqpipe.dali` that has the group: ``fn``, ``ops`` or that of dynamic mode.
        group: name of the group, with the groups that it is in; "" for the module itself.
        make: returns an attribute by the name of the group and its own; raises AttributeError for others.
        spelled: returns the attribute's name of an operator, by the name of the group and its own.
    """

    def __init__(
        self, area: str, group: str, make: Callable[[str, str], Any], spelled: Callable[[str, str], str]
    ) -> None:
        super().__init__(f"seqpipe.dali.{area}{'.' if group else ''}{group}")
        self.__path__: list[str] = []
        self._area, self._group, self._make, self._spelled = area, group, make, spelled

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in groups_in(self._group):
            within = f"{self._group}.{name}" if self._group else name
            made: Any = OperatorGroup(self._area, within, self._make, self._spelled)
        else:
            made = self._make(self._group, name)
        setattr(self, name, made)
        return made

    def __dir__(self) -> list[str]:
        names = (self._spelled(self._group, operator) for operator in operators_in(self._group))
        return sorted({*names, *groups_in(self._group)})

    def importable(self) -> dict[str, ModuleType]:
        """Return the groups in it by the names that ``import`` knows them by."""
        return {f"{self.__name__}.{group}": getattr(self, group) for group in groups_in(self._group)}
