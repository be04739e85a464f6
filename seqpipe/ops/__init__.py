"""Operators: declared once, exact on every backend."""

from ._apply import apply
from ._body import Body
from ._custom import operator
from ._declaration import REGISTRY, Declaration
from ._distribution import Choice, Distribution, Flag, Normal, Number, PerFrame, Uniform, per_frame
from ._function import function_of, functions
from ._geometry import Geometry
from ._mapping import Mapping
from ._op import Op
from ._param import param
from ._spec import Spec
from ._together import Moved, Together
from .colour import BrightnessContrast
from .geometry import Flip

__all__ = [
    "REGISTRY",
    "Body",
    "BrightnessContrast",
    "Choice",
    "Declaration",
    "Distribution",
    "Flag",
    "Flip",
    "Geometry",
    "Mapping",
    "Moved",
    "Normal",
    "Number",
    "Op",
    "PerFrame",
    "Spec",
    "Together",
    "Uniform",
    "apply",
    "function_of",
    "functions",
    "operator",
    "param",
    "per_frame",
]
