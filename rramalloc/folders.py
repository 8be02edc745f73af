"""Folders that several runs work on: files that grow durably, locks, and what is in them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from rramalloc.files import sync_folder, telling


class AppendedFile:
    """A file that only grows: what was appended before `commit` returned survives a crash of the machine.

    Raises FileError.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._shown = os.fspath(path)
        with telling(self._shown):
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            self.length = os.fstat(self._handle).st_size
            sync_folder(Path(path).resolve().parent)

    def append(self, content: bytes) -> int:
        """Write at the end; returns the place where that was."""
        place = self.length
        with telling(self._shown):
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(self._handle, rest) :]
        self.length += len(content)
        return place

    def read(self, place: int, length: int) -> bytes:
        """A piece of the file."""
        with telling(self._shown):
            return os.pread(self._handle, length, place)

    def cut(self, length: int) -> None:
        """Forget everything behind the first `length` bytes."""
        with telling(self._shown):
            os.ftruncate(self._handle, length)
        self.length = length

    def commit(self) -> None:
        """Return once everything is on the disk."""
        with telling(self._shown):
            os.fsync(self._handle)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._handle)


def lock_file(path: str | os.PathLike[str]) -> int | None:
    """Hold a lock until `os.close` of the handle or the end of this process; None if another holds it.

    Raises FileError.
    """
    import fcntl

    with telling(os.fspath(path)):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return handle


def make_folder(path: str | os.PathLike[str]) -> None:
    """Make a folder, and those above it, unless it is there. Raises FileError."""
    with telling(os.fspath(path)):
        os.makedirs(path, exist_ok=True)


def folder_names(path: str | os.PathLike[str]) -> list[str]:
    """Names in a folder, sorted. Raises FileError."""
    with telling(os.fspath(path)):
        return sorted(os.listdir(path))


def remove_file(path: str | os.PathLike[str]) -> None:
    """Remove a file unless it is gone already. Raises FileError."""
    with telling(os.fspath(path)), contextlib.suppress(FileNotFoundError):
        os.unlink(path)
