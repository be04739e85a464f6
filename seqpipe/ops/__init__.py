"""Operators: declared once, the same on every backend, on images, sequences, volumes and batches.

``fn.flip(x, horizontal=True)`` is ``ops.Flip(horizontal=True)(x)``. A number among the arguments may be a constant, a
range ``(lo, hi)`` or a distribution (one draw for each sequence), an array with a value for each sample, or
:func:`per_frame`. Draws depend on (seed, the operator's name, its occurrence, epoch, index of the sample) and on
nothing else; the occurrence tells operators of one name and one seed apart that are used together, in a chain or a
graph.

What is given a :class:`DataNode`, to act on or as a parameter, gives one: a value that :mod:`seqpipe.pipeline` computes
once the batch is there. ``fn.random`` makes the first of them, and inputs of a graph are such.

``core`` is the operator model (declaration, parameters, draws, nodes), ``call`` takes a call from what the user holds
to arrays and back, ``cuda`` holds the kernels, ``compose`` makes one operator of several; every other package is a
family of operators. A ``.cuh`` file of ``cuda`` is the skeleton of a kernel, which ``prelude.cuh`` and an operator's
``Body`` complete, or a part that skeletons share and include.
Nothing here sees videos or readers; CuPy is reached through :mod:`seqpipe.array` and :mod:`seqpipe.kernel` only.

How to add an operator
======================
One class in the module of its family, here all of it::

    class Gain(Op):
        \"\"\"Multiply all levels.\"\"\"

        factor: Number = param(1.0, "of all levels", lo=0, hi=16, identity=1.0)

        pointwise = True                                        # on a CPU, 8 bits then go through a table
        examples = ({"factor": 1.5}, {"factor": (0.5, 2.0)})    # one of them random
        errors = (({"factor": -1}, "factor=-1 is not valid; allowed: a number from 0 to 16"),)

        def reference(self, x: Array, p: Any) -> Array:
            \"\"\"The product.\"\"\"
            return x * p.factor

        body = Body("value", "value = value * row.factor;")

What is declared by ``param`` is a parameter. ``pointwise``, ``examples``, ``body`` and the other names of ``Traits`` in
``core/traits.py`` are traits of the implementation, read as ``op.traits.pointwise``; parameters may have their names.

Then the class's name in the family's ``__all__``, and ``python -m seqpipe.ops``, which writes the type stubs.
Validation, messages, ``fn.gain``, ``ops.Gain``, ``repr``, JSON, the kernel, and all tests of
``tests/ops/test_every_*.py`` follow. What is left to write is a test against an independent judge.

- The reference is the meaning. It is given float32 images ``(F, H, W, C)`` and ``p`` with the parameters as
  float32; what it returns is rounded half to even and saturates, by the engine and once. ``body`` says the same
  in C++, where ``Real`` is a float32 that is rounded after every operation, so that both agree to the last bit.
  Where they cannot (``exp``, ``pow``), ``tolerance`` says how far they are apart; ``cpu_tolerance``
  says it of the fast form.
- A ``"value"`` body changes ``value``; a ``"pixel"`` body changes ``pixel[0]`` to ``pixel[CHANNELS - 1]`` (give
  ``channels = (3,)``). A faster form for CPUs is a method ``cpu`` like ``reference``. Without a body, the
  reference runs on CuPy's arrays. Who puts a reference in place of another operator's states these two anew.
- What follows from parameters and the type, such as a level, is computed once for each row in ``derive``; its
  names stand in ``derived``. Draws that belong together are made in ``sample``.
- An operator that moves pixels derives from :class:`Geometry` and states :meth:`Geometry.mapping`; boxes,
  points, masks, a volume's affine and the kernel follow from that.
- What follows from all that a call is given, such as the largest of its images, is for ``among``: it returns the
  operator that knows it, for :class:`Pad` one with that size.
- An operator that others do on a GPU, one after the other, has ``composed = True`` and a ``compose``, not a body.
- What does not act on images says in ``takes`` what it acts on, and has a call of its own, decorated by ``or_node`` of
  ``core/deferred.py`` so that it gives nodes for nodes. Derive it from the base of its kind: ``Arrays`` in
  ``arrays/base.py`` (or
  ``OnAxes``, ``AddsAxis``, ``Shaping``), ``Boxes``, ``Mixing`` for batches.
- A skeleton of one's own defines ``make(image, y, x)`` and ends in ``FOR_EVERY_PIXEL(make)``; or it defines ``change``,
  for the values of one pixel, and includes ``fours.cuh``, where a thread takes four pixels at a time if they lie
  together. Others have those words from ``words.cuh``, and tables of bytes from ``levels.cuh``; one that only moves
  pixels includes ``moved.cuh``, which says what it needs. ``WORK`` in ``core/body.py`` says
  of all others how they are cut into tiles and passes: then there are ``TALL`` and ``WIDE``. For results that
  depend on what is around them, warps go down strips of an image with ``strip.cuh``; ``seen.cuh`` takes the lines of
  these into shared memory, ``window.cuh`` a tile, each with what is around it. ``banded.cuh`` filters by products of
  matrices, which ``product.cuh`` makes. Emulation and compilation are tested with the operators that name a skeleton.
- A family is a module of its own with one line below. Operators of users need none of this: ``register=False``
  keeps a class out of the registry, and :func:`operator` makes one of a function.
"""

from __future__ import annotations

from typing import Any

from . import (
    arrays,
    batch,
    color,
    compression,
    erasing,
    filters,
    geometry,
    labels,
    motion,
    noise,
    policies,
    resize,
    statistics,
    temporal,
    volume,
)
from . import (
    random as random,  # not in __all__: `import *` would hide Python's
)
from .arrays.joining import *  # noqa: F403  a module's __all__ is the list of its operators
from .arrays.shapes import *  # noqa: F403  a module's __all__ is the list of its operators
from .arrays.values import *  # noqa: F403  a module's __all__ is the list of its operators
from .batch.mixing import *  # noqa: F403  a module's __all__ is the list of its operators
from .call.custom import operator
from .call.dispatch import apply
from .call.functions import function_of, functions
from .call.op import Op
from .call.threads import set_threads, threads
from .color.brightness import *  # noqa: F403  a module's __all__ is the list of its operators
from .color.hue import *  # noqa: F403  a module's __all__ is the list of its operators
from .color.spaces import *  # noqa: F403  a module's __all__ is the list of its operators
from .color.tone import *  # noqa: F403  a module's __all__ is the list of its operators
from .compose.chain import Chain
from .compose.choice import OneOf, SomeOf
from .compose.only import Only
from .compose.parts import Sampled
from .compose.planned import Planned, leading, planned
from .compose.types import Type, type_of_value, types_after
from .compression.jpeg import *  # noqa: F403  a module's __all__ is the list of its operators
from .core.arithmetic import cast_array, computed, number_of, result_type
from .core.body import Body
from .core.declaration import REGISTRY, Declaration
from .core.deferred import Called, naming_nodes
from .core.distributions import Choice, Distribution, Flag, Normal, Number, PerFrame, Uniform, per_frame
from .core.fields import suggestion
from .core.intensity import IntensityRange
from .core.nodes import OF_CALLS, Computed, DataNode, Named, NodeOutput, Run
from .core.occurrences import Occurrences
from .core.parameters import Parameter, param
from .core.percentiles import Percentiles
from .core.spec import Backend, Spec, full_range, half_range
from .core.table import table
from .core.views import DEFAULT_LAYOUTS
from .erasing.erase import *  # noqa: F403  a module's __all__ is the list of its operators
from .filters.smooth import *  # noqa: F403  a module's __all__ is the list of its operators
from .filters.windows import *  # noqa: F403  a module's __all__ is the list of its operators
from .geometry.base import Geometry
from .geometry.crop_flip import *  # noqa: F403  a module's __all__ is the list of its operators
from .geometry.mapping import Mapping
from .geometry.padding import *  # noqa: F403  a module's __all__ is the list of its operators
from .geometry.warp import *  # noqa: F403  a module's __all__ is the list of its operators
from .labels.boxes import *  # noqa: F403  a module's __all__ is the list of its operators
from .labels.one_hot import *  # noqa: F403  a module's __all__ is the list of its operators
from .labels.points import *  # noqa: F403  a module's __all__ is the list of its operators
from .motion.optical_flow import *  # noqa: F403  a module's __all__ is the list of its operators
from .noise.noise import *  # noqa: F403  a module's __all__ is the list of its operators
from .policies.policies import *  # noqa: F403  a module's __all__ is the list of its operators
from .resize.normalized import *  # noqa: F403  a module's __all__ is the list of its operators
from .resize.resize import *  # noqa: F403  a module's __all__ is the list of its operators
from .statistics import reductions
from .statistics.normalize import *  # noqa: F403  a module's __all__ is the list of its operators
from .temporal.frames import *  # noqa: F403  a module's __all__ is the list of its operators
from .volume.acquisition import *  # noqa: F403  a module's __all__ is the list of its operators
from .volume.history import invert as invert_volume
from .volume.history import replay
from .volume.intensity import *  # noqa: F403  a module's __all__ is the list of its operators
from .volume.labels import *  # noqa: F403  a module's __all__ is the list of its operators
from .volume.ranges import Reciprocal, TwoSided
from .volume.spatial import *  # noqa: F403  a module's __all__ is the list of its operators
from .volume.views import *  # noqa: F403  a module's __all__ is the list of its operators

__all__ = [
    "DEFAULT_LAYOUTS",
    "OF_CALLS",
    "REGISTRY",
    "Backend",
    "Body",
    "Called",
    "Chain",
    "Choice",
    "Computed",
    "DataNode",
    "Declaration",
    "Distribution",
    "Flag",
    "Geometry",
    "IntensityRange",
    "Mapping",
    "Named",
    "NodeOutput",
    "Normal",
    "Number",
    "Occurrences",
    "OneOf",
    "Only",
    "Op",
    "Parameter",
    "PerFrame",
    "Percentiles",
    "Planned",
    "Reciprocal",
    "Run",
    "Sampled",
    "SomeOf",
    "Spec",
    "TwoSided",
    "Type",
    "Uniform",
    "apply",
    "cast_array",
    "computed",
    "full_range",
    "function_of",
    "functions",
    "half_range",
    "invert_volume",
    "leading",
    "naming_nodes",
    "number_of",
    "operator",
    "param",
    "per_frame",
    "planned",
    "reductions",
    "replay",
    "result_type",
    "set_threads",
    "table",
    "threads",
    "type_of_value",
    "types_after",
]
__all__ += arrays.joining.__all__
__all__ += arrays.shapes.__all__
__all__ += arrays.values.__all__
__all__ += batch.mixing.__all__
__all__ += color.brightness.__all__
__all__ += color.hue.__all__
__all__ += color.spaces.__all__
__all__ += color.tone.__all__
__all__ += compression.jpeg.__all__
__all__ += erasing.erase.__all__
__all__ += filters.smooth.__all__
__all__ += filters.windows.__all__
__all__ += geometry.crop_flip.__all__
__all__ += geometry.padding.__all__
__all__ += geometry.warp.__all__
__all__ += labels.boxes.__all__
__all__ += labels.one_hot.__all__
__all__ += labels.points.__all__
__all__ += motion.optical_flow.__all__
__all__ += noise.noise.__all__
__all__ += policies.policies.__all__
__all__ += resize.normalized.__all__
__all__ += resize.resize.__all__
__all__ += statistics.normalize.__all__
__all__ += temporal.frames.__all__
__all__ += volume.acquisition.__all__
__all__ += volume.intensity.__all__
__all__ += volume.labels.__all__
__all__ += volume.spatial.__all__
__all__ += volume.views.__all__


def __getattr__(name: str) -> Any:
    near = suggestion(name, __all__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{near and f'. {near}'}")
