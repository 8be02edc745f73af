"""Store: rows by key in an SQLite file, each on the disk as soon as it is kept; `sweep` and `tune` have one.

The file is in WAL mode: a commit is one write to the log, and others read while one process writes.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rramalloc.errors import FileError
from rramalloc.files import Closing, is_stream, parse_json

_BUSY_S = 30.0  # wait for the commit of another process, which takes milliseconds on a healthy disk
_ROWS = "CREATE TABLE rows (key TEXT PRIMARY KEY, row TEXT)"
_UNUSABLE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
"""Codes of SQLite for a damaged file, for no database, and for a statement that does not fit its content."""

_ALSO = {
    sqlite3.SQLITE_CANTOPEN: ", or a limit of open files is reached (ulimit -n)",
    sqlite3.SQLITE_IOERR: ", or a limit of file sizes is reached (ulimit -f)",
}
"""Further meanings of a code: SQLite does not tell the error of the system."""


class Store(Closing):
    """JSON values by key, and other tables of the same file; used as a context.

    kind: what the file holds, for messages; tables: CREATE statements besides that of the rows; create: make
    a file that does not exist. Raises FileError, also for a database whose tables are others.
    """

    def __init__(
        self, path: str | os.PathLike[str], kind: str, tables: tuple[str, ...] = (), *, create: bool = True
    ) -> None:
        self.path, self._kind = os.fspath(path), kind
        if is_stream(self.path):
            raise FileError(self.path, f"is no file: a {kind} is kept in one, name another")
        address = f"{Path(path).resolve().as_uri()}?mode={'rwc' if create else 'rw'}"
        with self._errors():
            self._database = sqlite3.connect(address, uri=True, timeout=_BUSY_S, isolation_level=None)
        try:
            schema = {_ROWS, *tables}
            if create and not self._schema():
                self._make(schema)
            if self._schema() != schema:
                words = f"holds no {kind} of this version of rramalloc (its tables differ): name another"
                raise FileError(self.path, words)
            list(self.query("PRAGMA synchronous = FULL"))  # a commit is on the disk when it returns
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def get(self, key: str) -> Any:
        """Return the value of a key, None if there is none. Raises FileError."""
        for (text,) in self.query("SELECT row FROM rows WHERE key = ?", key):
            return parse_json(text, self.path)
        return None

    def keep(self, rows: Iterable[tuple[str, Any]]) -> None:
        """Keep values by their keys, all or none of them. Raises FileError."""
        texts = ((key, json.dumps(value, separators=(",", ":"))) for key, value in rows)
        self.write("INSERT OR REPLACE INTO rows VALUES (?, ?)", texts)

    def write(self, statement: str, values: Iterable[tuple[object, ...]] = ((),)) -> None:
        """Run a statement that changes rows once for each of `values`. Raises FileError."""
        with self.transaction(), self._errors():
            self._database.executemany(statement, values)

    def query(self, statement: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Yield the rows that a statement selects. Raises FileError."""
        with self._errors():
            yield from self._database.execute(statement, values)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Write with all statements of the block, or with none of them; nests. Raises FileError."""
        if self._database.in_transaction:
            yield
            return
        with self._errors():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def _schema(self) -> set[str]:
        return {sql for (sql,) in self.query("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}

    def _make(self, schema: set[str]) -> None:
        list(self.query("PRAGMA journal_mode = WAL"))
        with self.transaction():
            if not self._schema():  # else another process has just made them
                for statement in schema:
                    list(self.query(statement))

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of SQLite into FileError."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            words = f"{error}{_ALSO.get(code, '')}"
            if code in _UNUSABLE:
                words = f"is damaged or holds no {self._kind} ({error}): name another, or delete it"
            raise FileError(self.path, words) from None
