"""`rramalloc.plugin` is what its page promises: names with docstrings, and what is said of them."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import rramalloc
from rramalloc import plugin as offered
from rramalloc.errors import PluginError
from rramalloc.records import Record

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "plugin.md").read_text(encoding="utf-8")
FILE = offered.ExportedFile(name="a.txt", text="")
ROWS = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.partition("## What stays")[2], re.MULTILINE)


def test_every_name_is_on_the_page_and_in_the_docstring() -> None:
    assert sorted(offered.__all__) == dir(offered)
    for name in offered.__all__:
        assert re.search(rf"`{name}\b", PAGE), name
        assert re.search(rf"`{name}\b", offered.__doc__ or ""), name
        value = getattr(offered, name)
        assert inspect.getdoc(value) or name in ("Stage", "Node"), name
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = offered.Nothing


def test_what_the_page_promises_is_there() -> None:
    assert {name for name, _ in ROWS} >= {"Problem", "StageGraph", "Answer", "Work", "Subject", "Bundle"}
    for name, words in ROWS:
        kind = getattr(offered, name)
        has = {*dir(kind), *getattr(kind, "__dataclass_fields__", ()), *getattr(kind, "__slots__", ())}
        has |= set(kind.model_fields) if issubclass(kind, Record) else set()
        has |= {each for base in kind.__mro__ for each in vars(base).get("__annotations__", ())}
        promised = re.findall(r"`(\w+)(?:\([\w, ]*\))?`", words)
        assert promised
        assert not set(promised) - has, name


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (None, "a NoneType, a Bundle is needed"),
        (offered.Bundle((), ()), "its files must be ExportedFile, one or more"),
        (offered.Bundle("abc", ()), "its files must be ExportedFile, one or more"),
        (offered.Bundle((FILE,), "abc"), "its remarks must be Remark"),
        (offered.Bundle((FILE, FILE), ()), "two of its files have the same name"),
    ],
)
def test_an_export_that_makes_nothing_is_named(made: object, told: str) -> None:
    def nothing(subject: object) -> object:
        return made

    with pytest.raises(PluginError, match=told):
        rramalloc.export("alexnet", {}, nothing)  # type: ignore[arg-type]
    with pytest.raises(
        PluginError, match="export target 'broken', which was given as a function, failed: Zero"
    ):
        rramalloc.export("alexnet", {}, broken)


def broken(subject: offered.Subject) -> offered.Bundle:
    raise ZeroDivisionError
