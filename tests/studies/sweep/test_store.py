"""The folder of a sweep: killed at any operation on the disk it ends with the same bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from studies.sweep.tiny import content

from rramalloc.errors import FileError, RramallocError, SpecError
from rramalloc.studies.sweep import adopt, parts, store
from rramalloc.studies.sweep.row import Row
from rramalloc.studies.sweep.store import Store

OPERATIONS = ("write", "fsync", "replace", "unlink", "ftruncate")
KILLED, DONE = 9, 0


def text(points: int) -> str:
    return f'{{"points": {points}}}'


def row(key: str) -> dict[str, Any]:
    number = int(key, 16)
    told = {"network": "tiny", "network_sha256": "0", "hardware": "plain", "crossbar": "1x1", "cell_bits": 1}
    asked = {"mapping": "im2col", "fc": "host", "arrays": number, "arrays_asked": str(number), "seed": 0}
    more = {"objective": "latency", "method": "none", "work": 1, "bandwidth_gb_s": None, "key": key}
    error = {"error_kind": "SpecError", "error": "no"} if number % 3 == 0 else {"gap": number / 7}
    return Row(**(told | asked | more | error)).model_dump()


def keys(points: int) -> list[str]:
    """A larger sweep has the points of a smaller one at other places."""
    return [f"{number:064x}" for number in sorted(range(points), key=lambda number: (number % 4, number))]


def opened(folder: Path, points: int) -> Store:
    places = {key: number for number, key in enumerate(keys(points))}
    return Store(str(folder), text(points), points, lambda: places.get)


def run(folder: Path, points: int, most: int | None = None) -> int:
    """Add the rows that are missing, the later half of them first; returns how many."""
    with opened(folder, points) as held:
        missing = list(held.missing())
        order = missing[len(missing) // 2 :] + missing[: len(missing) // 2]
        for number in order[:most]:
            held.add(number, row(keys(points)[number]))
            held.commit()
        return len(order[:most])


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 4 rows, and a journal that is compacted often, so that every step comes up early."""
    monkeypatch.setattr(parts, "_FEWEST_ROWS", 4)
    monkeypatch.setattr(store, "_COMPACT_BYTES", 3000)


def killed_at(operation: int, work: Callable[[], object]) -> bool:
    """Do work in a process that is killed at its n-th operation on the disk, half of it done if it writes."""
    child = os.fork()
    if not child:
        left = [operation]
        for name in OPERATIONS:
            setattr(os, name, _counting(getattr(os, name), left))
        try:
            work()
        except BaseException:  # noqa: BLE001
            os._exit(1)
        os._exit(DONE)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (KILLED, DONE)
    return os.waitstatus_to_exitcode(status) == KILLED


def _counting(function: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    def call(*arguments: Any, **settings: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            if function.__name__ == "write":
                function(arguments[0], arguments[1][: len(arguments[1]) // 2])
            os._exit(KILLED)
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
        assert content(folder) == content(tmp_path / "whole")
        if not killed:
            break
    assert 30 < operation < 999


def test_killed_again_and_again(tmp_path: Path) -> None:
    """Every start gets a few operations further: what was finished is not done again."""
    run(tmp_path / "whole", 10)
    folder = tmp_path / "rows"
    starts = 1
    while killed_at(12, lambda: run(folder, 10)):
        starts += 1
        assert starts < 100
    assert starts > 2
    assert content(folder) == content(tmp_path / "whole")


@pytest.mark.parametrize("before", [3, 8, 10])
def test_killed_while_extended(before: int, tmp_path: Path) -> None:
    """A sweep of 10 points, `before` of them finished, becomes one of 14 at any moment or not yet."""
    run(tmp_path / "whole", 14)
    for operation in operations():
        folder = tmp_path / str(operation)
        run(folder, 10, before)
        killed = killed_at(operation, lambda folder=folder: opened(folder, 14).__enter__())  # type: ignore[misc]
        assert run(folder, 14) == 14 - before
        assert content(folder) == content(tmp_path / "whole")
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
        assert content(folder) == content(tmp_path / "whole")


def test_a_smaller_sweep_is_another_one(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    run(folder, 14)
    before = content(folder)
    with pytest.raises(SpecError, match="another sweep"):
        run(folder, 10)
    assert content(folder) == before


@pytest.mark.parametrize("tail", [b"{", b'{"point": 3, "row": {"error_kind"', b"\x00\x00\n", b"[]\n", b"1\n"])
def test_torn_journal(tail: bytes, tmp_path: Path) -> None:
    run(tmp_path / "whole", 10)
    folder = tmp_path / "rows"
    run(folder, 10, 3)
    journal = folder / adopt.JOURNAL
    with journal.open("ab") as stream:
        stream.write(tail)
    assert run(folder, 10) == 7
    assert content(folder) == content(tmp_path / "whole")


def test_rows_that_stand_twice_in_the_journal_count_once(tmp_path: Path) -> None:
    run(tmp_path / "whole", 10)
    folder = tmp_path / "rows"
    run(folder, 10, 3)
    lines = (folder / adopt.JOURNAL).read_bytes().splitlines(keepends=True)
    (folder / adopt.JOURNAL).write_bytes(b"".join(lines + lines[1:]))
    assert run(folder, 10) == 7
    assert content(folder) == content(tmp_path / "whole")


def test_a_part_that_was_deleted_is_computed_again(tmp_path: Path) -> None:
    run(tmp_path / "rows", 10)
    before = content(tmp_path / "rows")
    next((tmp_path / "rows").glob("part-00001-*")).unlink()
    assert run(tmp_path / "rows", 10) == 4
    assert content(tmp_path / "rows") == before


def test_damaged_part(tmp_path: Path) -> None:
    run(tmp_path / "rows", 10)
    part = next((tmp_path / "rows").glob("part-00001-*"))
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(FileError, match="delete it to compute it again"):
        run(tmp_path / "rows", 10)


def test_counts(tmp_path: Path) -> None:
    """Of the numbers 0 ... 9 four are multiples of three, which are the rows with an error."""
    run(tmp_path / "rows", 10, 9)
    for _ in range(2):
        with opened(tmp_path / "rows", 10) as held:
            assert (held.done, len(list(held.missing()))) == (9, 1)
            (last,) = held.missing()
            assert held.failed == 4 - (int(keys(10)[last], 16) % 3 == 0)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path / "rows", 10), pytest.raises(FileError, match="another run is writing"):
        opened(tmp_path / "rows", 10)
    run(tmp_path / "rows", 10)


@pytest.mark.parametrize("name", ["notes.txt", "part-00000-0123456789abcdef.parquet", "_journal.jsonl"])
def test_a_folder_of_something_else_is_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(SpecError, match="no sweep"):
        run(tmp_path, 10)
    assert content(tmp_path) == {name: b"mine"}


@pytest.mark.parametrize("document", ["", "{", "[]", "{}", "\x00"])
def test_damaged_document(document: str, tmp_path: Path) -> None:
    run(tmp_path / "rows", 10, 5)
    (tmp_path / "rows" / adopt.SWEEP).write_text(document)
    with pytest.raises(RramallocError):
        run(tmp_path / "rows", 10)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("mine")
    with pytest.raises(FileError, match="rows"):
        run(tmp_path / "rows", 10)
