"""Operators: declared once, with equal results on every backend, for images, sequences, volumes and batches.

``fn.flip(x, horizontal=True)`` is ``ops.Flip(horizontal=True)(x)``. A number among the arguments may be a constant, a
range ``(lo, hi)`` or a distribution (sampled once for each sequence), an array with a value for each sample, or
:func:`per_frame`. Sampled values depend on (seed, name of the operator, occurrence, epoch, index of the sample) alone;
the occurrence distinguishes operators of one name and seed within a chain or graph.

An operator that gets a :class:`DataNode`, as data or as a parameter, returns one: a value that :mod:`seqpipe.pipeline`
computes for each batch. Inputs of a graph and the functions of ``fn.random`` are such nodes.

``core`` is the operator model (declaration, parameters, sampling, nodes), ``call`` takes a call from the user's values
to arrays and back, ``cuda`` holds the kernels, ``compose`` combines operators; every other package is a family of
operators. A ``.cuh`` file of ``cuda`` is the skeleton of a kernel, completed by ``prelude.cuh`` and an operator's
``Body``, or a part that skeletons include.
The package imports neither readers nor videos; it uses CuPy through :mod:`seqpipe.array` and :mod:`seqpipe.core.kernel`
only.

How to add an operator
======================
One class in the module of its family is all the code::

    class Gain(Op):
        \"\"\"Multiply all levels.\"\"\"

        factor: Number = param(1.0, "of all levels", lo=0, hi=16, identity=1.0)

        pointwise = True                                        # on a CPU, uint8 then uses a table
        examples = ({"factor": 1.5}, {"factor": (0.5, 2.0)})    # one of them sampled

        def reference(self, x: Array, p: Any) -> Array:
            \"\"\"The product.\"\"\"
            return x * p.factor

        body = Body("value", "value = value * row.factor;")

A field declared by ``param`` is a parameter. ``pointwise``, ``examples``, ``body`` and the other names of ``Traits`` in
``core/traits.py`` are traits of the implementation, read as ``op.traits.pointwise``; parameters may have their names.

Add the class's name to the family's ``__all__``, and run ``python -m seqpipe.ops``, which writes the type stubs.
Validation, messages, ``fn.gain``, ``ops.Gain``, ``repr``, JSON, the kernel, and all tests of
``tests/ops/test_every_*.py`` follow. Add a test against an independent implementation. Where ``__post_init__`` checks
more than the declaration of one parameter, ``errors`` has an example of each message.

- The reference defines the operator. It gets float32 images ``(F, H, W, C)`` and ``p`` with the parameters as float32;
  its result is rounded half to even and saturated once, by the caller. ``body`` computes the same in C++, where
  ``Real`` is a float32 that is rounded after every operation, so that both agree to the last bit. Where they cannot
  (``exp``, ``pow``), ``tolerance`` states the difference, and ``cpu_tolerance`` that of the CPU implementation.
- A ``"value"`` body changes ``value``; a ``"pixel"`` body changes ``pixel[0]`` to ``pixel[CHANNELS - 1]`` (state
  ``channels = (3,)``). A faster CPU implementation is a method ``cpu`` with the signature of ``reference``. Without a
  body, the reference runs on CuPy arrays. A subclass that replaces the reference states ``body`` and ``cpu`` again.
- ``derive`` computes values that follow from parameters and dtype once for each row; ``derived`` lists their names.
  ``sample`` samples parameters that depend on each other. ``keyed = True`` adds ``p.key``, two integers that seed
  random numbers of the reference's own.
- An operator that moves pixels derives from :class:`Geometry` and defines :meth:`Geometry.mapping`; boxes, points,
  masks, a volume's affine and the kernel follow from that.
- ``for_inputs`` returns the operator with parameters that follow from all inputs of a call, such as the largest size
  for :class:`Pad`.
- An operator that runs other operators on a GPU states ``composed = True`` and defines ``compose`` instead of a body.
- An operator that does not act on images states the trait ``takes`` and defines its own call, decorated by ``or_node``
  of ``core/deferred.py``, which defers calls with nodes. Derive it from the base of its kind: ``Arrays`` in
  ``arrays/base.py`` (or ``OnAxes``, ``AddsAxis``, ``Shaping``), ``Boxes``, ``Mixing`` for batches.
- A new skeleton defines ``make(image, y, x)`` and ends in ``FOR_EVERY_PIXEL(make)``; or it defines ``change``, for the
  values of one pixel, and includes ``fours.cuh``, which processes four contiguous pixels at a time. ``words.cuh``
  provides these words to other skeletons, ``levels.cuh`` tables of bytes; a skeleton that only moves pixels includes
  ``moved.cuh``, which documents its requirements. ``WORK`` in ``core/traits.py`` states tiles and passes, which define
  ``TALL`` and ``WIDE``. For results that depend on neighbors, ``strip.cuh`` moves warps down strips of an image;
  ``seen.cuh`` loads their lines into shared memory, ``window.cuh`` a tile, each with its neighbors. ``banded.cuh``
  filters by products of matrices, which ``product.cuh`` computes. The tests emulate and compile each skeleton with the
  operators that use it.
- A family is a package with one import below. Operators of users need none of this: ``register=False`` keeps a class
  out of the registry, and :func:`operator` defines one by a function.
"""

from __future__ import annotations

from ..core.lazy import missing_name
from ..core.threads import set_threads, threads
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
from .call.functions import function_of, functions, operator, table
from .call.op import Op, apply
from .color.adjust import *  # noqa: F403  a module's __all__ is the list of its operators
from .color.spaces import *  # noqa: F403  a module's __all__ is the list of its operators
from .color.tone import *  # noqa: F403  a module's __all__ is the list of its operators
from .compose.chain import Chain
from .compose.choice import OneOf, Only, SomeOf
from .compression.jpeg import *  # noqa: F403  a module's __all__ is the list of its operators
from .core.declaration import REGISTRY, Declaration
from .core.distributions import (
    Choice,
    Distribution,
    Flag,
    Normal,
    Number,
    Percentiles,
    PerFrame,
    Reciprocal,
    TwoSided,
    Uniform,
    per_frame,
)
from .core.intensity import IntensityRange
from .core.names import operator_hint
from .core.nodes import DataNode, Named, Run
from .core.parameters import Parameter, param
from .core.spec import Backend, Spec, full_range, half_range
from .core.traits import Body
from .core.types import Type
from .erasing import *  # noqa: F403  a module's __all__ is the list of its operators
from .filters.smooth import *  # noqa: F403  a module's __all__ is the list of its operators
from .filters.windows import *  # noqa: F403  a module's __all__ is the list of its operators
from .geometry.base import Geometry
from .geometry.crop_pad import *  # noqa: F403  a module's __all__ is the list of its operators
from .geometry.mapping import Mapping
from .geometry.warp import *  # noqa: F403  a module's __all__ is the list of its operators
from .labels.boxes import *  # noqa: F403  a module's __all__ is the list of its operators
from .labels.one_hot import *  # noqa: F403  a module's __all__ is the list of its operators
from .motion.optical_flow import *  # noqa: F403  a module's __all__ is the list of its operators
from .noise.noise import *  # noqa: F403  a module's __all__ is the list of its operators
from .policies.policies import *  # noqa: F403  a module's __all__ is the list of its operators
from .resize.normalized import *  # noqa: F403  a module's __all__ is the list of its operators
from .resize.resize import *  # noqa: F403  a module's __all__ is the list of its operators
from .statistics import reductions
from .statistics.normalize import *  # noqa: F403  a module's __all__ is the list of its operators
from .temporal.frames import *  # noqa: F403  a module's __all__ is the list of its operators
from .volume.acquisition import *  # noqa: F403  a module's __all__ is the list of its operators
from .volume.channel_sets import *  # noqa: F403  a module's __all__ is the list of its operators
from .volume.history import invert as invert_volume
from .volume.history import replay
from .volume.intensity import *  # noqa: F403  a module's __all__ is the list of its operators
from .volume.kspace import *  # noqa: F403  a module's __all__ is the list of its operators
from .volume.label_values import *  # noqa: F403  a module's __all__ is the list of its operators
from .volume.local import *  # noqa: F403  a module's __all__ is the list of its operators
from .volume.misaligned import *  # noqa: F403  a module's __all__ is the list of its operators
from .volume.spatial import *  # noqa: F403  a module's __all__ is the list of its operators
from .volume.values import *  # noqa: F403  a module's __all__ is the list of its operators

__all__ = [
    "REGISTRY",
    "Backend",
    "Body",
    "Chain",
    "Choice",
    "DataNode",
    "Declaration",
    "Distribution",
    "Flag",
    "Geometry",
    "IntensityRange",
    "Mapping",
    "Named",
    "Normal",
    "Number",
    "OneOf",
    "Only",
    "Op",
    "Parameter",
    "PerFrame",
    "Percentiles",
    "Reciprocal",
    "Run",
    "SomeOf",
    "Spec",
    "TwoSided",
    "Type",
    "Uniform",
    "apply",
    "full_range",
    "function_of",
    "functions",
    "half_range",
    "invert_volume",
    "operator",
    "param",
    "per_frame",
    "reductions",
    "replay",
    "set_threads",
    "table",
    "threads",
]
__all__ += arrays.joining.__all__
__all__ += arrays.shapes.__all__
__all__ += arrays.values.__all__
__all__ += batch.mixing.__all__
__all__ += color.adjust.__all__
__all__ += color.spaces.__all__
__all__ += color.tone.__all__
__all__ += compression.jpeg.__all__
__all__ += erasing.__all__
__all__ += filters.smooth.__all__
__all__ += filters.windows.__all__
__all__ += geometry.crop_pad.__all__
__all__ += geometry.warp.__all__
__all__ += labels.boxes.__all__
__all__ += labels.one_hot.__all__
__all__ += motion.optical_flow.__all__
__all__ += noise.noise.__all__
__all__ += policies.policies.__all__
__all__ += resize.normalized.__all__
__all__ += resize.resize.__all__
__all__ += statistics.normalize.__all__
__all__ += temporal.frames.__all__
__all__ += volume.acquisition.__all__
__all__ += volume.channel_sets.__all__
__all__ += volume.intensity.__all__
__all__ += volume.kspace.__all__
__all__ += volume.label_values.__all__
__all__ += volume.local.__all__
__all__ += volume.misaligned.__all__
__all__ += volume.spatial.__all__
__all__ += volume.values.__all__


def __getattr__(name: str) -> object:
    near = operator_hint(name, __all__)
    raise missing_name(__name__, name, near and f". {near}")
