"""The folder of a sweep: killed at any statement or operation on the disk it ends with the same rows."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from studies.sweep.tiny import content

import rramalloc
from rramalloc.errors import FileError, RramallocError, SpecError
from rramalloc.studies.sweep.rows import SweepRow
from rramalloc.studies.sweep.store import DATABASE, Store, read_rows, read_state

OPERATIONS = ("write", "fsync", "replace", "unlink")
KILLED, DONE = 9, 0
ROWS = "rows.csv"


def text(points: int) -> str:
    return f'{{"points": {points}}}'


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
    return SweepRow(**(inputs | asked | more | error)).model_dump()


def keys(points: int) -> list[str]:
    """A larger sweep has the points of a smaller one at other places."""
    return [f"{number:064x}" for number in sorted(range(points), key=lambda number: (number % 4, number))]


def opened(folder: Path, points: int) -> Store:
    places = {key: number for number, key in enumerate(keys(points))}
    return Store(str(folder), text(points), points, lambda: places.get)


def run(folder: Path, points: int, most: int | None = None) -> int:
    """Add the rows that are missing, the later half of them first; returns how many."""
    with opened(folder, points) as store:
        missing = list(store.missing())
        order = missing[len(missing) // 2 :] + missing[: len(missing) // 2]
        for number in order[:most]:
            store.add([(number, row(keys(points)[number]))])
        if store.done == points:
            store.finish("csv")
        return len(order[:most])


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


def operations() -> Iterator[int]:
    yield from range(1, 1000)


def test_killed_at_every_operation(tmp_path: Path) -> None:
    run(tmp_path / "whole", 10)
    for operation in operations():
        folder = tmp_path / str(operation)
        killed = killed_at(operation, lambda folder=folder: run(folder, 10))  # type: ignore[misc]
        run(folder, 10)
        assert content(folder)[ROWS] == content(tmp_path / "whole")[ROWS]
        if not killed:
            break
    assert 30 < operation < 999


def test_killed_again_and_again(tmp_path: Path) -> None:
    """Every start gets a few statements further: what was finished is not done again."""
    run(tmp_path / "whole", 10)
    folder = tmp_path / "rows"
    starts = 1
    while killed_at(32, lambda: run(folder, 10)):
        starts += 1
        assert starts < 100
    assert starts > 2
    assert content(folder)[ROWS] == content(tmp_path / "whole")[ROWS]


@pytest.mark.parametrize("before", [3, 8, 10])
def test_killed_while_extended(before: int, tmp_path: Path) -> None:
    """A sweep of 10 points, `before` of them finished, becomes one of 14 at any moment or not yet."""
    run(tmp_path / "whole", 14)
    for operation in operations():
        folder = tmp_path / str(operation)
        run(folder, 10, before)
        killed = killed_at(operation, lambda folder=folder: opened(folder, 14).__enter__())  # type: ignore[misc]
        assert run(folder, 14) == 14 - before
        assert content(folder)[ROWS] == content(tmp_path / "whole")[ROWS]
        if not killed:
            break
    assert 10 < operation < 999


def test_an_extension_that_was_not_begun_leaves_the_sweep_alone(tmp_path: Path) -> None:
    run(tmp_path / "whole", 10)
    for operation in range(1, 8):
        folder = tmp_path / str(operation)
        run(folder, 10, 7)
        assert killed_at(operation, lambda folder=folder: opened(folder, 14).__enter__())  # type: ignore[misc]
        assert run(folder, 10) == 3
        assert content(folder)[ROWS] == content(tmp_path / "whole")[ROWS]


def test_a_smaller_sweep_is_another_one(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    run(folder, 14)
    before, rows = content(folder), list(read_rows(str(folder)))
    with pytest.raises(SpecError, match="another sweep"):
        run(folder, 10)
    assert content(folder)[ROWS] == before[ROWS]
    assert list(read_rows(str(folder))) == rows


def log_of_a_killed_run(folder: Path) -> Path:
    """Rows in the log of the database, their writer killed before anything moved to the database itself."""
    child = os.fork()
    if not child:
        store = opened(folder, 10)
        store.add([(number, row(keys(10)[number])) for number in range(4)])
        store.add([(number, row(keys(10)[number])) for number in range(4, 7)])
        os._exit(KILLED)
    os.waitpid(child, 0)
    return folder / f"{DATABASE}-wal"


def test_torn_log(tmp_path: Path) -> None:
    """Wherever the log was cut off, what follows is computed again."""
    run(tmp_path / "whole", 10)
    length = log_of_a_killed_run(tmp_path / "killed").stat().st_size
    assert read_state(str(tmp_path / "killed")).done == 7
    counts = set()
    for cut in range(0, length, 1000):
        folder = tmp_path / str(cut)
        os.truncate(log_of_a_killed_run(folder), cut)
        counts.add(run(folder, 10))
        assert content(folder)[ROWS] == content(tmp_path / "whole")[ROWS]
    assert {6, 10} <= counts <= {3, 6, 10}


def test_a_flipped_bit_in_a_row_does_not_count_as_done(tmp_path: Path) -> None:
    """Every byte of the file that belongs to a row: the row is computed again, or the file is refused."""
    folder, whole = tmp_path / "rows", tmp_path / "whole"
    run(whole, 10)
    found = (whole / DATABASE).read_bytes()
    place = found.index(b'"arrays":7,')
    for at in range(place, place + 400, 7):
        shutil.copytree(whole, folder)
        damaged = bytearray(found)
        damaged[at] ^= 1
        (folder / DATABASE).write_bytes(damaged)
        assert read_state(str(folder)).done == 9
        with pytest.raises(FileError, match="is damaged: run the same sweep again"):
            list(read_rows(str(folder)))
        with opened(folder, 10) as store:
            assert (store.done, store.damaged, len(list(store.missing()))) == (9, 1, 1)
        assert run(folder, 10) == 1
        assert content(folder)[ROWS] == content(whole)[ROWS]
        shutil.rmtree(folder)


def test_a_damaged_database_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    """A flipped bit anywhere: the rows are right in the end, or the file is refused with the remedy."""
    folder, whole = tmp_path / "rows", tmp_path / "whole"
    run(whole, 10)
    found = (whole / DATABASE).read_bytes()
    refused: list[str] = []
    for at in range(0, len(found), 61):
        shutil.copytree(whole, folder)
        damaged = bytearray(found)
        damaged[at] ^= 1 << at % 8
        (folder / DATABASE).write_bytes(damaged)
        try:
            run(folder, 10)
            assert content(folder)[ROWS] == content(whole)[ROWS], at
        except RramallocError as error:
            refused.append(str(error))
        shutil.rmtree(folder)
    assert 0 < len(refused) < len(found) // 122
    assert [told for told in refused if "delete it" not in told and "name another" not in told] == []


@pytest.mark.parametrize("damage", [b"", b"mine", b"\x00" * 5000])
def test_a_database_of_something_else(damage: bytes, tmp_path: Path) -> None:
    """An empty one is the remains of an interrupted start; everything else is refused and left alone."""
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / DATABASE).write_bytes(damage)
    if not damage:
        assert run(folder, 10) == 10
        return
    with pytest.raises(FileError, match="delete it to compute the sweep again"):
        run(folder, 10)
    assert (folder / DATABASE).read_bytes() == damage


def test_a_database_of_another_program(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as database, database:
        database.execute("CREATE TABLE rows (mine TEXT)")
    with pytest.raises(FileError, match="no database of a sweep: name another folder"):
        run(tmp_path, 10)


def test_a_row_that_was_deleted_is_computed_again(tmp_path: Path) -> None:
    run(tmp_path / "rows", 10)
    before = content(tmp_path / "rows")
    with contextlib.closing(sqlite3.connect(tmp_path / "rows" / DATABASE)) as database, database:
        database.execute("DELETE FROM rows WHERE number IN (3, 5)")
    assert run(tmp_path / "rows", 10) == 2
    assert content(tmp_path / "rows") == before


def test_counts(tmp_path: Path) -> None:
    """Of the numbers 0 ... 9 four are multiples of three, which are the rows with an error."""
    run(tmp_path / "rows", 10, 9)
    for _ in range(2):
        with opened(tmp_path / "rows", 10) as store:
            assert (store.done, len(list(store.missing()))) == (9, 1)
            (last,) = store.missing()
            assert store.failed == 4 - (int(keys(10)[last], 16) % 3 == 0)
            state = read_state(str(tmp_path / "rows"))
            assert (state.points, state.done, state.failed) == (10, 9, store.failed)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path / "rows", 10), pytest.raises(FileError, match="another run is writing"):
        opened(tmp_path / "rows", 10)
    run(tmp_path / "rows", 10)


def test_the_rows_of_an_unfinished_sweep_are_not_those_of_a_smaller_one(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    run(folder, 10)
    assert ROWS in content(folder)
    run(folder, 14, 2)
    assert ROWS not in content(folder)


@pytest.mark.parametrize("name", ["notes.txt", "rows.csv", "sweep.sqlite-wal"])
def test_a_folder_of_something_else_is_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(SpecError, match="no sweep"):
        run(tmp_path, 10)
    assert content(tmp_path) == {name: b"mine"}


def test_a_folder_of_the_former_format(tmp_path: Path) -> None:
    for name in ("_sweep.json", "_lock", "part-00000-0123456789abcdef.parquet"):
        (tmp_path / name).write_text("{}")
    for call in (lambda: run(tmp_path, 10), lambda: rramalloc.sweep_status(tmp_path)):
        with pytest.raises(SpecError, match=r"before it used SQLite.*name another folder"):
            call()
    assert len(content(tmp_path)) == 3


@pytest.mark.parametrize("document", ["", "{", "[]", "{}", "\x00"])
def test_damaged_document(document: str, tmp_path: Path) -> None:
    """The rows carry their keys: the sweep goes on, and only the status cannot be read before."""
    folder = tmp_path / "rows"
    run(folder, 10, 5)
    with contextlib.closing(sqlite3.connect(folder / DATABASE)) as database, database:
        database.execute("UPDATE sweep SET document = ?", (document,))
    with pytest.raises(RramallocError):
        rramalloc.sweep_status(folder)
    assert run(folder, 10) == 5
    assert json.loads(read_state(str(folder)).document) == {"points": 10}


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("mine")
    with pytest.raises(FileError, match="rows"):
        run(tmp_path / "rows", 10)
