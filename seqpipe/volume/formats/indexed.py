"""IndexedVolume: voxels that a library reads by windows of an array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ...array import FloatArray
from ...errors import SourceError, SourceNotFoundError, UnreadableSourceError
from ..info import VolumeInfo, checked_affine, checked_shape
from ..source import AnyArray, Box, Source, chosen_times, damaged
from .npy import plain_affine
from .stored import layout_axes

__all__ = ["IndexedVolume", "info_of_array", "library_errors"]


class IndexedVolume:
    """A :class:`~seqpipe.volume.source.VolumeSource` of an array that a library reads by windows.

    Args:
        info: facts from the header.
        letters: one letter of ``FDHWC`` for each axis of the array, in its order.
        read_window: returns the voxels of a window, given a slice for each axis of the array.
        sources: the files with the voxels.
        release: called by :meth:`close`.
    """

    def __init__(
        self,
        info: VolumeInfo,
        letters: str,
        read_window: Callable[[tuple[slice, ...]], Any],
        sources: Seq[Source] = (),
        release: Callable[[], None] | None = None,
    ) -> None:
        self.info, self._letters, self._read = info, letters, read_window
        self._sources, self._release = tuple(sources), release

    def read(self, box: Box, times: Seq[int] | None = None) -> AnyArray:
        """Read voxels in their stored dtype; see :class:`~seqpipe.volume.source.VolumeSource`."""
        box, chosen = box.checked(self.info), chosen_times(self.info, times)
        first, last = min(chosen), max(chosen) + 1
        spans = {"F": (first, last), "D": box.d, "H": box.h, "W": box.w}
        cut = tuple(slice(*spans[letter]) if letter in spans else slice(None) for letter in self._letters)
        try:
            voxels = np.asarray(self._read(cut))
        except SourceError:
            raise
        except Exception as error:
            # libraries, their codecs and stores raise many types of errors
            raise damaged(
                self.info.source, f"voxels cannot be read ({type(error).__name__}: {error})"
            ) from error
        axes = layout_axes(self._letters)
        view = voxels.transpose([axis for axis in axes if axis is not None])
        for position, axis in enumerate(axes):
            if axis is None:
                view = np.expand_dims(view, position)
        if self.info.layout == "FDHWC":
            view = view[[time - first for time in chosen]]
        with np.errstate(invalid="ignore", over="ignore"):  # of NaN and infinity
            return np.ascontiguousarray(view.astype(self.info.dtype, copy=False))

    @property
    def sources(self) -> Seq[Source]:
        """The files with the voxels; none where each chunk is a file, or an object of a store."""
        return self._sources

    def close(self) -> None:
        """Close the file and release memory."""
        for source in self._sources:
            source.close()
        if self._release is not None:
            self._release()


def info_of_array(
    source: str,
    form: str,
    shape: Seq[int],
    dtype: Any,
    letters: str,
    affine: FloatArray | None = None,
    space: str = "assumed",
    **facts: Any,
) -> VolumeInfo:
    """Return the facts of an array of a library."""
    sizes, kind = checked_shape(tuple(int(size) for size in shape), source), np.dtype(dtype)
    if kind.kind not in "biufc":
        raise UnreadableSourceError(f"the array has the dtype {kind}", source=source, allowed="numbers")
    notes: tuple[str, ...] = tuple(facts.pop("notes", ()))
    if affine is None:
        affine, space = plain_affine(), "assumed"
        notes = (*notes, "the array has no affine: 1 mm and RAS are assumed")
    affine, more = checked_affine(affine, source)
    axes = layout_axes(letters)
    info = VolumeInfo(
        source=source,
        format=form,
        shape=tuple(1 if axis is None else sizes[axis] for axis in axes),
        layout="FDHWC" if "F" in letters else "DHWC",
        dtype=np.dtype(np.uint8) if kind.kind == "b" else kind.newbyteorder("="),
        affine=affine,
        space=space,
        notes=(*notes, *more),
    )
    return replace(info, **facts)


@contextmanager
def library_errors(source: Source, library: str) -> Iterator[None]:
    """Raise what a library raises for a file, which may be of any type, as an error that names the file."""
    try:
        yield
    except SourceError:
        raise
    except FileNotFoundError as error:
        raise SourceNotFoundError(
            "a file that belongs to it is missing",
            source=source.name,
            allowed=str(error.filename or error),
        ) from error
    except Exception as error:
        raise UnreadableSourceError(
            f"{library} cannot read it ({type(error).__name__}: {error})",
            source=source.name,
            advice="The file is damaged, truncated, or of a variant that the library does not support",
        ) from error
