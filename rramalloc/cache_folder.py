"""The folder of compiled code. Python runs this code, so only the user may be able to write it."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from functools import cache
from hashlib import sha1
from pathlib import Path

from rramalloc.errors import FileError

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_PRIVATE = 0o700  # mode of new folders: readable and writable for the user alone


def cache_folder(source: Path) -> Path:
    """Return the folder of the compiled code of a source file; it is made if absent.

    It lies where NUMBA_CACHE_DIR says; if that is not set, beside the source, or where that is not the user's
    own, in the user's cache. It has the name that numba gives it.
    Raises FileError if others can write in it or put another in its place.
    """
    place = source.absolute().parent
    name = f"{place.name}_{sha1(str(place).encode(), usedforsecurity=False).hexdigest()}"
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return private_folder(Path(chosen) / name)
    try:
        return private_folder(place / "__pycache__")
    except FileError:
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return private_folder(Path(caches) / "numba" / name)


@cache
def private_folder(folder: Path) -> Path:
    """Return a folder without links in its path, made if absent, that nobody but the user can write in.

    It is absolute and belongs to the effective user; neither group nor others can write in it, and in its
    parents nobody but the user and root, except in sticky ones, where nobody renames what others own.
    Raises FileError.
    """
    if not folder.is_absolute():
        raise FileError(str(folder), "is no absolute path")
    real = Path(os.path.realpath(folder))
    for part in (*reversed(real.parents), real):
        try:
            with suppress(FileExistsError):
                part.mkdir(_PRIVATE)
            status = part.lstat()
        except OSError as error:
            raise FileError(str(part), f"cannot be made ({error.strerror})") from None
        if stat.S_ISLNK(status.st_mode):  # another user put it there a moment ago, and may lead it elsewhere
            raise FileError(str(part), "has become a link")
        owners = {os.geteuid()} if part == real else {os.geteuid(), 0}
        if status.st_uid not in owners:
            raise FileError(str(part), "belongs to another user")
        is_sticky = part != real and status.st_mode & stat.S_ISVTX
        if not (_is_closed(status) or is_sticky):
            raise FileError(str(part), "can be written by other users (chmod go-w)")
    try:
        tempfile.TemporaryFile(dir=real).close()
    except OSError as error:
        raise FileError(str(real), f"cannot be written ({error.strerror})") from None
    return real


def is_private_file(file: Path) -> bool:
    """Return True for a file, no link, of the effective user that neither group nor others can write."""
    try:
        status = file.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and _is_closed(status) and status.st_uid == os.geteuid()


def _is_closed(status: os.stat_result) -> bool:
    return not status.st_mode & _OTHERS_WRITE
