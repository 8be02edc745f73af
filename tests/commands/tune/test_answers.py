"""The file of answers: several processes write it, the first answer stays, and other files are refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from rramalloc.commands.tune.answers import Answers, SimulatorAnswer
from rramalloc.errors import FileError

SUBJECT = "a"


def test_answers_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with Answers(path, SUBJECT) as answers:
        assert answers.get([1, 2], 0, 10) is None
        answers.keep([1, 2], 0, SimulatorAnswer(5.0))
        answers.keep([1, 2], 1, SimulatorAnswer(None, "it broke"))
    with Answers(path, SUBJECT) as answers:
        assert answers.get([1, 2], 0, 10) == SimulatorAnswer(5.0)
        assert answers.get([1, 2], 1, 10) == SimulatorAnswer(None, "it broke")
        assert answers.get([1, 2], 2, 10) is None
    with Answers(path, "b") as answers:
        assert answers.get([1, 2], 0, 10) is None


def test_the_first_answer_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with Answers(path, SUBJECT) as first, Answers(path, SUBJECT) as second:
        assert first.keep([1], 0, SimulatorAnswer(5.0)) == SimulatorAnswer(5.0)
        assert second.keep([1], 0, SimulatorAnswer(6.0)) == SimulatorAnswer(5.0)
        assert second.get([1], 0, 10) == SimulatorAnswer(5.0)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no database at all, only words" * 100, "is damaged or holds no tuning"),
        (None, "holds no tuning of this version"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "a.sqlite"
    if content is None:
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE mine (a)")
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(FileError, match=words):
        Answers(path, SUBJECT)
    assert path.read_bytes() == before
