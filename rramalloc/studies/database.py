"""SQLite files of studies: how they are opened and checked, and what of SQLite's errors users see."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
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


def prepare(database: sqlite3.Connection, application: bytes, tables: Sequence[str]) -> bool:
    """Set up a connection to write: WAL, every commit on the disk, tables where there are none.

    application: four letters for the header of the file. Returns False, with nothing changed, where the file
    is a database of another program. Raises sqlite3.DatabaseError where it is damaged.
    """
    number = int.from_bytes(application)
    if not _is_empty(database) and database.execute("PRAGMA application_id").fetchone() != (number,):
        return False
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    check_health(database)
    with transaction(database):
        if _is_empty(database):  # an interrupted start leaves no tables, another process may have made them
            for statement in (f"PRAGMA application_id = {number}", *tables):
                database.execute(statement)
    return True


def _is_empty(database: sqlite3.Connection) -> bool:
    return bool(database.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,))


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
