"""Answers of simulators about allocations, each kept in a Store as soon as it arrives.

A file holds answers of any number of networks, hardware and simulators; several processes may write to it at
once. The first answer to a question stays: a process that asks the same afterwards reads that one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from rramalloc.files import Closing, check_writable
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.records import parse
from rramalloc.store import Store


class SimulatorAnswer(NamedTuple):
    """Answer of a simulator: a figure, or the reason why there is none.

    timed_out_s: time limit that it exceeded [s], None if the simulator ended by itself.
    """

    figure: float | None
    failure: str | None = None
    timed_out_s: float | None = None


_ANSWER: TypeAdapter[SimulatorAnswer] = TypeAdapter(SimulatorAnswer)


def subject(
    network: Network, hardware: Hardware, mapping: MappingOptions, simulator: str, *, placed: bool = False
) -> str:
    """Return the hash of all that a figure depends on besides the copies.

    simulator: its name; placed: whether it is given their places, which follow from the copies.
    """
    about: dict[str, Any] = {
        "network": network.sha256,
        "hardware": hardware.to_dict(),
        "mapping": mapping.model_dump(mode="json"),
        "simulator": simulator,
    }
    about |= {"placed": True} if placed else {}  # a file of answers without links is read as before
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


class Answers(Closing):
    """The answers about one subject, used as a context; path: None to keep nothing.

    Raises FileError.
    """

    def __init__(self, path: str | os.PathLike[str] | None, about: str) -> None:
        self._subject = about
        check_writable(path)
        self._store = None if path is None else Store(path, "tuning")

    def close(self) -> None:
        """Close the file."""
        if self._store is not None:
            self._store.close()

    def get(self, copies: Sequence[int], repeat: int, timeout_s: float) -> SimulatorAnswer | None:
        """Return the answer that was stored; None if there is none, or it was not waited for as
        long as now."""
        row = None if self._store is None else self._store.get(self._key(copies, repeat))
        if self._store is None or row is None:
            return None
        found = parse(_ANSWER, row, self._store.path)
        return None if found.timed_out_s is not None and found.timed_out_s < timeout_s else found

    def keep(self, copies: Sequence[int], repeat: int, answer: SimulatorAnswer) -> SimulatorAnswer:
        """Store an answer on the disk; return the first answer to this question, which counts."""
        if self._store is not None:
            with self._store.transaction():
                there = self.get(copies, repeat, float("inf"))
                if there is not None:
                    return there
                self._store.keep([(self._key(copies, repeat), answer)])
        return answer

    def _key(self, copies: Sequence[int], repeat: int) -> str:
        return f"{self._subject} {repeat} {','.join(map(str, copies))}"
