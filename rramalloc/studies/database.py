"""SQLite files of studies: how they are opened and checked, and what of SQLite's errors users see."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from rramalloc.errors import FileError

_BUSY_S = 30.0


@contextlib.contextmanager
def opened(path: str, mode: str, kind: str, busy_s: float = _BUSY_S) -> Iterator[sqlite3.Connection]:
    """A connection whose text arrives as bytes, so that damaged text is not an error of decoding.

    mode: as in an SQLite address; kind: what it holds, for messages. Raises FileError.
    """
    with sqlite_errors(path, kind):
        address = f"{Path(path).resolve().as_uri()}?mode={mode}"
        with contextlib.closing(
            sqlite3.connect(address, uri=True, timeout=busy_s, isolation_level=None)
        ) as database:
            database.text_factory = bytes
            yield database


def check_health(database: sqlite3.Connection) -> None:
    """Raise sqlite3.DatabaseError if the structure of a database is damaged."""
    (health,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if health != b"ok":
        raise sqlite3.DatabaseError(health.decode(errors="replace").splitlines()[-1])


@contextlib.contextmanager
def sqlite_errors(path: str, kind: str) -> Iterator[None]:
    """What SQLite refuses becomes a FileError about the file, which should hold a `kind`."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
            words = f"is damaged or no database of a {kind} ({error}): delete it to compute the {kind} again"
            raise FileError(path, words) from None
        raise FileError(path, str(error)) from None


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All statements of the block, or none of them."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")
