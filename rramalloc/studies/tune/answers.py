"""Answers: what simulators said of allocations, each kept in an SQLite file as soon as it is there.

A file holds answers of any number of networks, hardware and simulators; several processes may write to it at
once. The first answer to a question stays: a process that asks the same afterwards reads that one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from typing import NamedTuple

from rramalloc.errors import FileError
from rramalloc.files import Closing, check_writable
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.studies.database import opened, prepare, sqlite_errors, transaction

_KIND = "tuning"
_TABLES = (
    "CREATE TABLE subjects (id TEXT PRIMARY KEY, document TEXT)",
    """CREATE TABLE answers (subject TEXT, question TEXT, repeat INTEGER, figure REAL, failure TEXT,
    timeout_s REAL, checksum BLOB, PRIMARY KEY (subject, question, repeat))""",
)


class Answer(NamedTuple):
    """What a simulator said: a figure, or why there is none.

    timed_out_s: seconds after which it was not waited for any longer, None if it ended itself.
    """

    figure: float | None
    failure: str | None = None
    timed_out_s: float | None = None


def subject(
    network: Network, hardware: Hardware, mapping: MappingOptions, simulator: str
) -> dict[str, object]:
    """All that a figure depends on besides the allocation. simulator: its name."""
    return {
        "network": network.sha256,
        "hardware": hardware.to_dict(),
        "mapping": mapping.model_dump(mode="json"),
        "simulator": simulator,
    }


class Answers(Closing):
    """The answers about one subject, used as a context.

    path: of the file, None to keep nothing; about: the subject. Raises FileError.
    """

    def __init__(self, path: str | os.PathLike[str] | None, about: dict[str, object]) -> None:
        document = json.dumps(about, sort_keys=True)
        self._path = None if path is None else os.fspath(path)
        self._subject = hashlib.sha256(document.encode()).hexdigest()
        self._cache: dict[tuple[str, int], Answer] = {}
        self._stack = contextlib.ExitStack()
        self.reused = 0
        if self._path is None:
            return
        check_writable(path)
        try:
            self._database = self._stack.enter_context(opened(self._path, "rwc", _KIND))
            with sqlite_errors(self._path, _KIND):
                self._prepare(self._path, document)
        except BaseException:
            self._stack.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._stack.close()

    def get(self, question: Sequence[int] | str, repeat: int, timeout_s: float) -> Answer | None:
        """The answer that is kept; None if there is none, or it was not waited for as long as now."""
        key = (_text(question), repeat)
        found = self._cache.get(key) or self._read(key)
        if found is None or (found.timed_out_s is not None and found.timed_out_s < timeout_s):
            return None
        if key not in self._cache:
            self._cache[key] = found
            self.reused += 1
        return found

    def keep(self, question: Sequence[int] | str, repeat: int, answer: Answer) -> Answer:
        """Keep an answer; it is on the disk when this returns. Returns the one that counts."""
        key = (_text(question), repeat)
        if self._path is not None:
            row = (self._subject, *key, *answer)
            with sqlite_errors(self._path, _KIND), transaction(self._database):
                there = self._read(key)
                if there is None or there.timed_out_s is not None:
                    values = (*row, _checksum(row))
                    self._database.execute(
                        "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)", values
                    )
                else:
                    answer = there
        self._cache[key] = answer
        return answer

    def _prepare(self, path: str, document: str) -> None:
        if not prepare(self._database, b"rrtu", _TABLES):
            raise FileError(path, "is no database of a tuning: name another file")
        with transaction(self._database):
            self._database.execute("INSERT OR IGNORE INTO subjects VALUES (?, ?)", (self._subject, document))

    def _read(self, key: tuple[str, int]) -> Answer | None:
        """The answer in the file; None for one whose checksum does not hold."""
        if self._path is None:
            return None
        query = (
            "SELECT figure, failure, timeout_s, checksum FROM answers "
            "WHERE subject = ? AND question = ? AND repeat = ?"
        )
        with sqlite_errors(self._path, _KIND):
            row = self._database.execute(query, (self._subject, *key)).fetchone()
        if row is None:
            return None
        figure, failure, timed_out_s, checksum = row
        text = None if failure is None else bytes(failure).decode(errors="replace")
        answer = Answer(figure, text, timed_out_s)
        return answer if checksum == _checksum((self._subject, *key, *answer)) else None


def _text(question: Sequence[int] | str) -> str:
    return question if isinstance(question, str) else ",".join(map(str, question))


def _checksum(row: tuple[object, ...]) -> bytes:
    return hashlib.sha256(repr(row).encode()).digest()
