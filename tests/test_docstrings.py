"""`help()` of every public call says what each argument is, what comes back and what is raised."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import rramalloc
from rramalloc.choices import docstring_of

CALLS: dict[str, Any] = {
    name: getattr(rramalloc, name) for name in dir(rramalloc) if inspect.isfunction(getattr(rramalloc, name))
}
SECTION = re.compile(r"^(\w+)\n-{4,}$", re.MULTILINE)
ORDER = ["Parameters", "Returns", "Raises", "References", "Examples"]


def sections(text: str) -> dict[str, str]:
    _, *rest = SECTION.split(text)
    return dict(zip(rest[::2], rest[1::2], strict=True))


def rows(section: str) -> list[tuple[str, str]]:
    """The names of a section in the style of NumPy, each with its words."""
    return [
        (name, " ".join(words.split()))
        for name, words in re.findall(r"^(\S.*)\n((?:    .*(?:\n|$))*)", section, re.MULTILINE)
    ]


@pytest.mark.parametrize("name", CALLS)
def test_every_argument_is_explained(name: str) -> None:
    text = inspect.getdoc(CALLS[name]) or ""
    parts = sections(text)
    assert [*parts] == [each for each in ORDER if each in parts]
    told = parts.get("Parameters", "")
    assert [each for each, _ in rows(told)] == _signature_order(name, told)
    needed = ("Parameters", "Returns", "Raises") if told else ("Returns", "Raises")
    assert {*needed} <= {*parts}
    for part in needed:
        for each, words in rows(parts[part]):
            assert words.endswith("."), (name, each)
    first = text.partition("\n\n")[0]
    assert first.endswith(".")
    assert re.match(r"[A-Z][a-z]+ ", first)
    assert first.split()[0] not in ("This", "The", "Returns")


def _signature_order(name: str, section: str) -> list[str]:
    """Every argument once: those of the call in its order, then those that it shares with others."""
    taken = set(inspect.signature(CALLS[name]).parameters)
    given = [each for each, _ in rows(section)]
    assert set(given) == taken, (name, set(given) ^ taken)
    assert len(given) == len(taken)
    return given


def test_the_site_says_what_help_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both take the arguments that calls share from one place."""
    griffe = pytest.importorskip("griffe")
    docs = Path(__file__).resolve().parents[1] / "docs"
    monkeypatch.setattr(sys, "path", [*sys.path, str(docs)])
    from formulas import Formulas  # type: ignore[import-not-found]

    path = docs.parent / "rramalloc" / "api.py"
    code = path.read_text(encoding="utf-8")
    module = griffe.visit("api", path, code, extensions=griffe.Extensions(Formulas()))
    for name in ("optimize", "simulate", "inspect", "convert"):
        assert module[name].docstring.value == inspect.getdoc(CALLS[name])


def test_shared_arguments_stand_behind_the_call_s_own() -> None:
    own = "Return x.\n\nParameters\n----------\nfold, host\n    Both.\n\nReturns\n-------\nint\n    One."
    names = [name for name, _ in rows(sections(docstring_of(own, "MappedArguments"))["Parameters"])]
    others = ["hardware", "crossbar", "set_values", "mapping", "fc"]
    of_network = ["input_shapes", "input_values", "allow_partial", "feeds_back", "sequences", "states"]
    assert names == ["fold, host", *others, *of_network]
    bare = docstring_of("Return x.", "NetworkArguments")
    assert [*sections(bare)] == ["Parameters"]
    assert bare.startswith("Return x.\n\nParameters\n----------\ninput_shapes\n    Shape")
