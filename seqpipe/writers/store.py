"""Stores: the folder that files are written into, local or in object storage by fsspec.

An object or file is whole or absent: local files are written beside and renamed, large objects are multipart uploads
that are completed last.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, Protocol

from ..core.files.file_system import file_system
from ..core.param import check_path
from ..core.whole_file import open_new
from ..errors import OutputError, ParameterError, SeqpipeError
from .encoders import Content
from .files import output_errors, temporary_path, write_whole, writing

__all__ = ["LocalFolder", "ObjectFolder", "Store", "open_store"]

_PART_BYTES: Final = 16 << 20  # of a multipart upload, which has at most 10,000 parts


class Store(Protocol):
    """A folder of files by name; names are relative, with slashes."""

    @property
    def place(self) -> str:
        """Path or URL of the folder."""

    def write(self, name: str, content: Content) -> int:
        """Write a file, whole or not at all; an existing one is replaced. Returns its size in bytes."""

    def writing(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Return a context manager for a file that is written in pieces and becomes visible at the end of the block."""

    def create(self, name: str, data: bytes) -> bool:
        """Create a small file; False if it exists already."""

    def read(self, name: str) -> bytes | None:
        """Return a file's content; None if there is none."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files and folders in a folder, sorted, without hidden ones; none if it is missing."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it, if it exists."""


class LocalFolder:
    """A folder of the file system.

    Args:
        path: the folder, which is created by the first write.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def place(self) -> str:
        """Path of the folder."""
        return str(self.path)

    def write(self, name: str, content: Content) -> int:
        """See :class:`Store`."""
        return write_whole(self.path / name, content)

    def writing(self, name: str) -> AbstractContextManager[BinaryIO]:
        """See :class:`Store`."""
        return writing(self.path / name)

    def create(self, name: str, data: bytes) -> bool:
        """See :class:`Store`."""
        path = self.path / name
        partial = temporary_path(path, f"{os.getpid()}.part")
        with output_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with open_new(partial) as file:
                    file.write(data)
                os.link(partial, path)  # fails where a rename would replace
            except FileExistsError:
                return False
            finally:
                partial.unlink(missing_ok=True)
        return True

    def read(self, name: str) -> bytes | None:
        """See :class:`Store`."""
        try:
            with output_errors(self.path / name):
                return (self.path / name).read_bytes()
        except OutputError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def names(self, folder: str) -> list[str]:
        """See :class:`Store`."""
        with output_errors(self.path / folder):
            try:
                names = os.listdir(self.path / folder)  # noqa: PTH208  names alone
            except FileNotFoundError:
                return []
        return sorted(name for name in names if not name.startswith("."))

    def remove(self, name: str) -> None:
        """See :class:`Store`."""
        path = self.path / name
        with output_errors(path):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


class ObjectFolder:
    """A prefix in object storage.

    Args:
        url: such as ``s3://bucket/prefix``.

    Raises:
        BackendError: no package for the protocol is installed.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._fs, self._root = file_system(self.url)

    @property
    def place(self) -> str:
        """URL of the prefix."""
        return self.url

    def _path(self, name: str) -> str:
        """Return the address of a file of the store."""
        return f"{self._root}/{name}" if name else str(self._root)

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        """Convert errors of storage packages, which share no base class, into errors that name the object."""
        try:
            yield
        except (SeqpipeError, FileExistsError):
            raise
        except Exception as error:
            refused = isinstance(error, PermissionError) or "expired" in str(error).lower()
            reason = str(error) or type(error).__name__
            advice = "Check the rights and the credentials, which may have expired" if refused else None
            raise OutputError(
                f"cannot be written or read ({reason})",
                source=f"{self.url}/{name}".rstrip("/"),
                advice=advice or "What is complete stays; the same call with resume=True continues",
            ) from error

    def write(self, name: str, content: Content) -> int:
        """See :class:`Store`."""
        from io import BytesIO

        buffer = BytesIO()
        content(buffer)
        with self._errors(name):
            self._fs.pipe_file(self._path(name), buffer.getvalue())
        return buffer.tell()

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """See :class:`Store`."""
        with self._errors(name):
            file = self._fs.open(self._path(name), "wb", autocommit=False, block_size=_PART_BYTES)
        try:
            yield file
            with self._errors(name):
                file.close()
                file.commit()
        except BaseException:
            file.discard()
            file.closed = True  # else it would send what it still holds when it is collected
            raise

    def create(self, name: str, data: bytes) -> bool:
        """See :class:`Store`; by a conditional request where the protocol has one."""
        with self._errors(name):
            if self._fs.exists(self._path(name)):
                return False
            try:
                self._fs.pipe_file(self._path(name), data, mode="create")
            except FileExistsError:
                return False
        return True

    def read(self, name: str) -> bytes | None:
        """See :class:`Store`."""
        with self._errors(name):
            try:
                data: bytes = self._fs.cat_file(self._path(name))
            except FileNotFoundError:
                return None
        return data

    def names(self, folder: str) -> list[str]:
        """See :class:`Store`."""
        path = self._path(folder)
        with self._errors(folder):
            self._fs.invalidate_cache(path)
            try:
                found = self._fs.ls(path, detail=False)
            except FileNotFoundError:
                return []
        names = {PurePosixPath(name).name for name in found if name.rstrip("/") != path.rstrip("/")}
        return sorted(name for name in names if not name.startswith("."))

    def remove(self, name: str) -> None:
        """See :class:`Store`."""
        with self._errors(name):
            self._fs.invalidate_cache()
            if self._fs.exists(self._path(name)):
                self._fs.rm(self._path(name), recursive=True)


def open_store(folder: str | os.PathLike[str]) -> Store:
    """Return the store of a path or URL."""
    text = check_path("folder", folder)
    if not text:
        raise ParameterError("folder='' is empty", allowed="a folder; '.' for the current one")
    return ObjectFolder(text) if "://" in text else LocalFolder(Path(text))
