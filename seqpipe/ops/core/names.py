"""Names of other libraries' operators and parameters in this package's terms, for the advice of errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from difflib import get_close_matches
from typing import Any, Final

import numpy as np

from ...errors import ParameterError

__all__ = ["OPERATORS", "WITHOUT", "keyword_form", "operator_hint", "parameter_hint"]

OPERATORS: Final[Mapping[str, tuple[str, ...]]] = {
    # torchvision and albumentations
    "HorizontalFlip": ("Flip(p=0.5)",),
    "HFlip": ("Flip()",),
    "VerticalFlip": ("Flip(horizontal=False, vertical=True, p=0.5)",),
    "VFlip": ("Flip(horizontal=False, vertical=True)",),
    "Rotation": ("Rotate(angle=(-15.0, 15.0), keep_size=True)",),
    "SafeRotate": ("Rotate(angle=(-15.0, 15.0))",),
    "Perspective": ("WarpPerspective(matrix=(1.0, 0.1, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0))",),
    "CenterCrop": ("Crop(crop=(112, 112))", "Crop3d(size=(64, 64, 64))"),
    "RandomCrop": ("Crop(crop=(112, 112), crop_pos_x=(0.0, 1.0), crop_pos_y=(0.0, 1.0))",),
    "RandomSizedCrop": ("RandomResizedCrop(size=(112, 112))",),
    "IoUCrop": ("RandomBboxCrop()",),
    "ZoomOut": ("Paste(ratio=(1.0, 4.0))",),
    "SmallestMaxSize": ("Resize(resize_shorter=256)",),
    "LongestMaxSize": ("Resize(resize_longer=256)",),
    "PadIfNeeded": ("Pad(shape=(112, 112))",),
    "ColorJitter": ("ColorTwist(brightness=(0.8, 1.2), contrast=(0.8, 1.2), saturation=(0.8, 1.2))",),
    "PhotometricDistort": ("ColorTwist(brightness=(0.8, 1.2), contrast=(0.8, 1.2), saturation=(0.8, 1.2))",),
    "HueSaturationValue": ("Hsv(hue=(-20.0, 20.0), saturation=(0.8, 1.2), value=(0.9, 1.1))",),
    "ToGray": ("Grayscale()",),
    "InvertImg": ("Invert()",),
    "AdjustSharpness": ("Sharpen(amount=(0.0, 1.0))",),
    "UnsharpMask": ("Sharpen(amount=(0.0, 1.0))",),
    "GaussNoise": ("GaussianNoise(stddev=(0.0, 10.0))",),
    "ISONoise": ("ShotNoise()",),
    "SaltAndPepper": ("SaltAndPepperNoise()",),
    "ImageCompression": ("JpegCompressionDistortion(quality=(50, 90))",),
    "JPEG": ("JpegCompressionDistortion(quality=(50, 90))",),
    "Cutout": ("RandomErasing()", "CoarseDropout3d()"),
    "CoarseDropout": ("RandomErasing()", "CoarseDropout3d()"),
    "ConvertImageDtype": ("Cast(dtype='float32')",),
    "ToDtype": ("Cast(dtype='float32')",),
    "ToFloat": ("Cast(dtype='float32')",),
    "Compose": ("Chain(Flip(), Rotate(angle=(-15.0, 15.0), keep_size=True))",),
    "Sequential": ("Chain(Flip(), Rotate(angle=(-15.0, 15.0), keep_size=True))",),
    "Choice": ("OneOf([Flip(), Grayscale()])",),
    "UniformTemporalSubsample": ("Subsample(stride=2)",),
    # MONAI, TorchIO and batchgenerators
    "Affine": ("WarpAffine(matrix=(1.0, 0.1, 0.0, 0.0, 1.0, 0.0))", "RandomAffine3d(rotate=(-15.0, 15.0))"),
    "ShiftScaleRotate": (
        "WarpAffine(matrix=(1.0, 0.1, 0.0, 0.0, 1.0, 0.0))",
        "RandomAffine3d(rotate=(-15.0, 15.0))",
    ),
    "Spatial": ("RandomAffine3d(rotate=(-15.0, 15.0))",),
    "AxisFlip": ("Flip3d(depth=True, width=False)",),
    "Mirror": ("Flip3d(depth=True, width=False)",),
    "Rotate90": ("Rot90()",),
    "Zoom": ("Zoom3d(factor=0.9)",),
    "Spacing": ("Resample3d(spacing_mm=(1.0, 1.0, 1.0))",),
    "Resample": ("Resample3d(spacing_mm=(1.0, 1.0, 1.0))",),
    "Elastic": ("Elastic3d()",),
    "2DElastic": ("Elastic3d(in_plane=True)",),
    "3DElastic": ("Elastic3d()",),
    "ElasticDeformation": ("Elastic3d()",),
    "ScaleIntensityRange": ("Window(lo=-1000.0, hi=1000.0)",),
    "ClipIntensityPercentiles": ("PercentileClip()",),
    "ThresholdIntensity": ("Threshold(threshold=0.0)",),
    "MaskIntensity": ("Mask()",),
    "SmoothFieldAdjustContrast": ("SmoothContrast()",),
    "DistanceTransformEDT": ("DistanceMap()",),
    "LabelToContour": ("LabelOutline()",),
    "Contour": ("LabelOutline()",),
    "LocalSmoothing": ("LocalBlur()",),
    "GridDistortion": ("GridDistortion3d()",),
    "ScaleIntensityRangePercentiles": ("PercentileRescale()",),
    "RescaleIntensity": ("PercentileRescale()",),
    "NormalizeIntensity": ("ZScore()",),
    "ZNormalization": ("ZScore()",),
    "HistogramStandardization": ("HistogramStandardize()",),
    "RandScaleIntensity": ("BrightnessMultiplicative(factor=(0.9, 1.1))",),
    "MultiplicativeBrightness": ("BrightnessMultiplicative(factor=(0.9, 1.1))",),
    "RandShiftIntensity": ("BrightnessAdditive(offset=(-0.1, 0.1))",),
    "AdjustContrast": ("Gamma3d(gamma=(0.7, 1.5))",),
    "GaussianSmooth": ("GaussianBlur3d()",),
    "GaussianSharpen": ("Sharpen3d()",),
    "MedianSmooth": ("MedianBlur3d()",),
    "Blur": ("GaussianBlur(sigma=(0.5, 1.5))", "GaussianBlur3d()"),
    "Noise": ("GaussianNoise(stddev=(0.0, 10.0))", "GaussianNoise3d()"),
    "GibbsNoise": ("Gibbs()",),
    "KSpaceSpikeNoise": ("Spike()",),
    "SimulateLowResolution": ("LowResolution()",),
    "Swap": ("Swap3d()",),
    "CoarseShuffle": ("CoarseShuffle3d()",),
    "SpatialPad": ("Pad3d(size=(64, 64, 64))",),
    "BorderPad": ("Pad3d(before=(8, 8, 8), after=(8, 8, 8))",),
    "SpatialCrop": ("Crop3d(size=(64, 64, 64))",),
    "CropOrPad": ("Crop3d(size=(64, 64, 64), pad_mode='constant')",),
    "ResizeWithPadOrCrop": ("Crop3d(size=(64, 64, 64), pad_mode='constant')",),
    "AsDiscrete": ("OneHot(num_classes=2)",),
}
"""Operators by the names that torchvision, albumentations, MONAI, TorchIO and batchgenerators have for them."""
WITHOUT: Final[Mapping[str, str]] = {
    "ToTensor": "batch.torch() gives a tensor, and ops.Normalize changes the scale",
    "PILToTensor": "batch.torch() gives a tensor",
    "ToTensorV2": "batch.torch() gives a tensor",
    "Lambda": "@seqpipe.operator makes an operator of a function",
    "RandomApply": "Operators have a probability: p=…",
    "LoadImage": "seqpipe.open and seqpipe.volumes read volumes",
    "EnsureChannelFirst": "Channels are the last axis, and to_monai and batch.torch(layout=…) move them",
    "Orientation": "Prepare(orientation='RAS') of seqpipe.volumes and VolumeReader.reorient turn volumes",
    "ToCanonical": "Prepare(orientation='RAS') of seqpipe.volumes and VolumeReader.reorient turn volumes",
    "CropForeground": "Prepare(crop_above=…) of seqpipe.volumes crops to the foreground",
    "RandCropByPosNegLabel": "seqpipe.volumes(…, Patch(size, around='balanced')) cuts such patches",
    "RandCropByLabelClasses": "seqpipe.volumes(…, Patch(size, around='balanced')) cuts such patches",
    "CLAHE": "",
    "ChannelShuffle": "",
    "RGBShift": "",
    "OpticalDistortion": "",
    "MotionBlur": "",
    "Emboss": "",
    "RandomOrder": "",
}
"""What else serves for operators of other libraries that have no counterpart; empty if nothing does."""
_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "prob": ("p",),
    "probability": ("p",),
    "std": ("stddev", "sigma"),
    "stddev": ("std", "sigma"),
    "degrees": ("angle", "rotate"),
    "limit": ("angle",),
    "rotate_range": ("rotate",),
    "kernel_size": ("window_size",),
    "blur_limit": ("window_size", "sigma"),
    "interpolation": ("interp_type", "interp"),
    "interp": ("interp_type",),
    "interp_type": ("interp",),
    "fill": ("fill_value",),
    "cval": ("fill_value",),
    "padding_mode": ("pad_mode",),
    "scale": ("random_area",),
    "ratio": ("random_aspect_ratio",),
    "shape": ("size", "crop"),
    "size": ("crop", "shape"),
    "spatial_size": ("size",),
    "roi_size": ("size",),
    "pixdim": ("spacing_mm",),
    "a_min": ("lo",),
    "a_max": ("hi",),
    "translate": ("translate_mm",),
    "translation": ("translate_mm",),
    "scales": ("scale",),
    "coefficients": ("strength",),
}


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


_RENAMED: Final[Mapping[str, tuple[str, ...]]] = {
    "Median3d": ("MedianBlur3d()",),
    "NoiseGaussian": ("GaussianNoise(stddev=(0.0, 10.0))",),
    "NoiseSaltAndPepper": ("SaltAndPepperNoise()",),
    "NoiseShot": ("ShotNoise()",),
}
_BY_NAME: Final = {_plain(name): forms for name, forms in {**OPERATORS, **_RENAMED}.items()}
_ELSEWHERE: Final = {_plain(name): text for name, text in WITHOUT.items()}


def _forms(name: str) -> list[str]:
    """The name, and without what other libraries add: Rand, Random; Transform; d for dictionaries."""
    plain = _plain(name)
    result = [plain]
    for pattern in (
        r"(?<=[a-z])(?:d|dict)$",
        r"transform$",
        r"^(?:random|rand)(?=.)",
        r"^(?:random|rand)(?=.)",
    ):
        result += [cut for form in [*result] if (cut := re.sub(pattern, "", form)) != form]
    return list(dict.fromkeys(result))


def operator_hint(name: str, known: Iterable[str], *, functions: bool = False) -> str:
    """Return advice for the name of an operator that does not exist; empty if nothing is similar."""
    if name.startswith("_"):  # inspect, pickle and others ask every module for names of theirs
        return ""
    by_plain = {_plain(known_name): known_name for known_name in known}
    for form in _forms(name):
        if form in by_plain:
            return f"Perhaps {by_plain[form]!r} is meant"
        if form in _ELSEWHERE:
            return _ELSEWHERE[form]
        if form in _BY_NAME:
            return (
                f"Perhaps {' or '.join(_call(call, functions=functions) for call in _BY_NAME[form])} is meant"
            )
    for form in _forms(name):
        near = get_close_matches(form, by_plain, n=1, cutoff=0.75) or get_close_matches(
            form, _BY_NAME, 1, 0.85
        )
        if near and near[0] in by_plain:
            return f"Perhaps {by_plain[near[0]]!r} is meant"
        if near:
            return f"Perhaps {' or '.join(_call(call, functions=functions) for call in _BY_NAME[near[0]])} is meant"
    return ""


def _call(form: str, *, functions: bool) -> str:
    """Write an operator as the user would: of ``ops``, or of ``fn`` with an input."""
    name, _, arguments = form.partition("(")
    if not functions or name in ("Chain", "OneOf"):
        return f"ops.{form}"
    own = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return f"fn.{own}(x, {arguments}" if arguments != ")" else f"fn.{own}(x)"


def parameter_hint(name: str, known: Seq[str]) -> str:
    """Return advice for the name of a parameter that an operator does not have; empty if nothing is similar."""
    for other in _PARAMETERS.get(name.lower(), ()):
        if other in known:
            return f"Perhaps {other!r} is meant"
    near = get_close_matches(
        name.lower(), {known_name.lower(): known_name for known_name in known}, n=1, cutoff=0.7
    )
    return f"Perhaps {next(own for own in known if own.lower() == near[0])!r} is meant" if near else ""


def keyword_form(cls: Any, values: Seq[Any]) -> str:
    """Return the arguments by keyword that positional values stand for; empty if no parameters accept them."""
    known = [q for q in cls.parameters if q.identity is not None]
    does_nothing = bool(known) and all(q.default == q.identity for q in known)  # so that p alone is no use
    rest = [q for q in cls.parameters if q.name not in ("per_frame", "seed", *["p"] * does_nothing)]
    if any(word in cls.name for word in ("crop", "resize", "pad")):
        rest.sort(key=lambda q: q.name not in ("size", "crop", "shape"))  # the first argument elsewhere
    given: dict[str, Any] = {}
    for value in values:
        found = next(((q, form) for q in rest for form in _values(value, q.size) if _accepts(q, form)), None)
        if found is None:
            return ""
        rest.remove(found[0])
        given[found[0].name] = found[1]
    try:
        cls(**given)
    except ParameterError:
        return ""
    return ", ".join(f"{name}={value!r}" for name, value in given.items())


def _values(value: Any, size: int) -> list[Any]:
    """A value, and a number once for each element of a vector."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return [value, (value,) * size] if is_number and size > 1 else [value]


def _accepts(parameter: Any, value: Any) -> bool:
    try:
        parameter.normal(value)
    except (ParameterError, TypeError, ValueError):
        return False
    return not isinstance(value, np.ndarray)
