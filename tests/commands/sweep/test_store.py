"""The folder of a sweep: killed at any statement or operation on the disk it ends with the same rows."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands.sweep.tiny import content

import rramalloc
from rramalloc.commands.sweep.rows import SweepRow
from rramalloc.commands.sweep.sweep import DATABASE, adopt, finish, held_folder, missing, read_sweep
from rramalloc.errors import FileError
from rramalloc.store import Store

OPERATIONS = ("write", "fsync", "replace", "unlink")
KILLED, DONE = 9, 0
ROWS = "rows.csv"


def row(key: str) -> dict[str, Any]:
    number = int(key, 16)
    inputs = {
        "network": "tiny",
        "network_sha256": "0",
        "hardware": "plain",
        "crossbar": "1x1",
        "cell_bits": 1,
    }
    asked = {"mapping": "im2col", "fc": "host", "arrays": number, "arrays_asked": str(number), "seed": 0}
    more = {"objective": "latency", "method": "none", "work": 1, "bandwidth_gb_s": None, "key": key}
    error = {"error_kind": "SpecError", "error": "no"} if number % 3 == 0 else {"gap": number / 7}
    return SweepRow(**(inputs | asked | more | error)).to_dict()


def keys(points: int) -> list[str]:
    """A larger sweep has the points of a smaller one at other places."""
    return [f"{number:064x}" for number in sorted(range(points), key=lambda number: (number % 4, number))]


@contextlib.contextmanager
def opened(folder: Path, points: int) -> Iterator[Store]:
    with held_folder(str(folder)) as store:
        adopt(store, str(points), "", iter(keys(points)))
        yield store


def run(folder: Path, points: int, most: int | None = None) -> int:
    """Add the rows that are missing, the later half of them first; returns how many."""
    with opened(folder, points) as store:
        left = list(missing(store))
        order = (left[len(left) // 2 :] + left[: len(left) // 2])[:most]
        for number in order:
            store.keep([(keys(points)[number], row(keys(points)[number]))])
        if len(order) == len(left):
            finish(store, str(folder), "csv")
        return len(order)


def killed_at(operation: int, work: Callable[[], object]) -> bool:
    """Do work in a process that is killed at its n-th SQL statement or operation on the disk."""
    child = os.fork()
    if not child:
        left, connect = [operation], sqlite3.connect

        def step(*_: object) -> None:
            left[0] -= 1
            if left[0] == 0:
                os._exit(KILLED)

        def traced(*arguments: Any, **settings: Any) -> sqlite3.Connection:
            connection = connect(*arguments, **settings)
            connection.set_trace_callback(step)
            return connection

        sqlite3.connect = traced  # type: ignore[assignment]
        for name in OPERATIONS:
            setattr(os, name, _stepping(getattr(os, name), step))
        try:
            work()
        except BaseException:  # noqa: BLE001
            os._exit(1)
        os._exit(DONE)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (KILLED, DONE)
    return os.waitstatus_to_exitcode(status) == KILLED


def _stepping(function: Callable[..., Any], step: Callable[[], None]) -> Callable[..., Any]:
    def call(*arguments: Any, **settings: Any) -> Any:
        step()
        return function(*arguments, **settings)

    return call


def test_killed_at_every_operation(tmp_path: Path) -> None:
    run(tmp_path / "whole", 5)
    for operation in range(1, 1000):
        folder = tmp_path / str(operation)
        killed = killed_at(operation, lambda folder=folder: run(folder, 5))  # type: ignore[misc]
        run(folder, 5)
        assert content(folder)[ROWS] == content(tmp_path / "whole")[ROWS]
        if not killed:
            break
    assert 20 < operation < 999


def test_killed_while_extended(tmp_path: Path) -> None:
    """A sweep of 6 points, 4 of them finished, becomes one of 8 at any moment or not yet."""
    run(tmp_path / "whole", 8)
    for operation in range(1, 1000):
        folder = tmp_path / str(operation)
        run(folder, 6, 4)
        killed = killed_at(operation, lambda folder=folder: opened(folder, 8).__enter__())  # type: ignore[misc]
        assert run(folder, 8) == 4
        assert content(folder)[ROWS] == content(tmp_path / "whole")[ROWS]
        if not killed:
            break
    assert 10 < operation < 999


def test_killed_while_made_smaller(tmp_path: Path) -> None:
    """A finished sweep of 8 points becomes one of 6, all of them there: the file never has the 8 rows."""
    run(tmp_path / "whole", 6)
    for operation in range(1, 1000):
        folder = tmp_path / str(operation)
        run(folder, 8)
        killed = killed_at(operation, lambda folder=folder: run(folder, 6))  # type: ignore[misc]
        assert run(folder, 6) == 0
        assert content(folder)[ROWS] == content(tmp_path / "whole")[ROWS]
        if not killed:
            break
    assert 10 < operation < 999


OTHERS = (
    "CREATE TABLE rows (mine TEXT)",
    "CREATE TABLE rows (number INTEGER PRIMARY KEY, failed INTEGER, row TEXT, checksum BLOB)",
)


@pytest.mark.parametrize("damage", [b"mine", b"\x00" * 5000, *OTHERS])
def test_a_database_of_something_else(damage: bytes | str, tmp_path: Path) -> None:
    """Every reader refuses it in words, and leaves it alone."""
    path = tmp_path / DATABASE
    if isinstance(damage, str):
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            database.execute(damage)
    else:
        path.write_bytes(damage)
    before = path.read_bytes()
    for call in (
        lambda: run(tmp_path, 10),
        lambda: rramalloc.sweep_status(tmp_path),
        lambda: read_sweep(str(tmp_path)),
    ):
        with pytest.raises(FileError, match=r"holds no sweep.*(delete it|name another)"):
            call()
    assert path.read_bytes() == before


def test_a_row_that_was_deleted_is_computed_again(tmp_path: Path) -> None:
    run(tmp_path, 10)
    before = content(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as database, database:
        database.execute("DELETE FROM rows WHERE key IN (?, ?)", keys(10)[3:5])
    assert run(tmp_path, 10) == 2
    assert content(tmp_path) == before


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path / "rows", 10), pytest.raises(FileError, match="another process is writing"):
        run(tmp_path / "rows", 10)
    run(tmp_path / "rows", 10)


@pytest.mark.parametrize("name", ["pipe", "/dev/null", "/dev/stdout", "folder"])
def test_a_store_is_a_file(name: str, tmp_path: Path) -> None:
    """SQLite would write into whatever stdout leads to, and speak of limits of files for the others."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileError, match="is no file: a sizing is kept in one, name another"):
        Store(tmp_path / name, "sizing")


def test_a_file_of_something_else_is_not_to_be_deleted_first(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine" * 100)
    with pytest.raises(FileError, match=r"holds no sizing .*: name another, or delete it$"):
        Store(tmp_path / "notes.txt", "sizing")
    assert (tmp_path / "notes.txt").read_text() == "mine" * 100
