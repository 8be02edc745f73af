"""Write what follows from the rooms of `rramalloc/commands`: `python docs/generate.py`.

That is `rramalloc/__init__.pyi`, the public names with their types, and in `mkdocs.yml` the chapters of the
documentation that have a page of a room, and `docs/together.md`, what goes with what. No other file changes
with a room.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from rramalloc.allocation.goes_with import FEATURES, readers
from rramalloc.public import homes
from rramalloc.room import rooms
from rramalloc.schemas import record_homes

ROOT = Path(__file__).resolve().parents[1]
_BEGINNING, _END = "  # written by docs/generate.py:", "  # end"


class Page(NamedTuple):
    """A page of a chapter. order: its place among all pages, as in `Room`."""

    chapter: str
    order: int
    title: str
    file: str


_PLUGIN = ("rramalloc", "plugin")
"""The module for methods and exports of others, an attribute that is no name of `__all__`."""
_READ = "rramalloc.reading:read"
GUIDES = (
    Page("Allocate", 130, "Parallel windows", "modes.md"),
    Page("Allocate", 140, "Own clocks", "clocks.md"),
    Page("Allocate", 145, "Energy and area", "energy.md"),
    Page("Allocate", 150, "Kinds of arrays", "kinds.md"),
    Page("Allocate", 180, "What if", "what_if.md"),
    Page("Size a chip", 210, "Describe hardware", "hardware.md"),
    Page("Size a chip", 290, '"Notebook: size a chip"', "notebooks/size_a_chip.md"),
    Page("Compare and publish", 340, "Methods and sources", "methods.md"),
    Page("Compare and publish", 350, "Neighbouring tools", "neighbours.md"),
    Page("Compare and publish", 390, '"Notebook: explore the design space"', "notebooks/design_space.md"),
    Page("Hand over to a tool", 490, "Methods and exports of your own", "plugin.md"),
    Page("Networks and files", 720, "What ships", "shipped.md"),
    Page("Networks and files", 790, '"Notebook: allocate your own model"', "notebooks/own_model.md"),
)
"""Pages that are of no single room, in the chapters of rooms."""


def stub() -> str:
    """Return the text of `rramalloc/__init__.pyi`; `read` returns what any file of the program may hold."""
    pairs = [home.split(":") for home in homes().values() if home != _READ]
    imports = [f"from {module} import {name} as {name}" for module, name in (*pairs, _PLUGIN)]
    records = {home for name, home in record_homes().items() if name != "network"} | {homes()["Network"]}
    held = sorted((home.split(":") for home in records), key=lambda pair: pair[1])
    imports += [f"from {module} import {name} as _{name}" for module, name in held]
    names = "".join(f'    "{name}",\n' for name in homes())
    docstring = '"""Public names of the package, written by docs/generate.py."""'
    head = [docstring, "", "import os", "from typing import TypeAlias", "", *sorted(imports), ""]
    union = "\n    | ".join(f"_{name}" for _, name in held)
    alias = [f"__all__ = [\n{names}]", "", f"_Readable: TypeAlias = (\n    {union}\n)", ""]
    return "\n".join([*head, *alias, "def read(path: str | os.PathLike[str]) -> _Readable: ...", ""])


def navigation(config: str) -> str:
    """Return the text of `mkdocs.yml` with the chapters that rooms have pages in."""
    own = [
        Page(room.panel, room.order, room.title, f"{room.name}.md") for room in rooms().values() if room.title
    ]
    chapters: dict[str, list[str]] = {}
    for page in sorted([*own, *GUIDES], key=lambda page: page.order):
        chapters.setdefault(page.chapter, []).append(f"      - {page.title}: {page.file}")
    lines = [line for chapter, pages in chapters.items() for line in (f"  - {chapter}:", *pages)]
    written = "\n".join([_BEGINNING, *lines, _END])
    return re.sub(f"{_BEGINNING}.*?{_END}", lambda _: written, config, flags=re.DOTALL)


_TOGETHER = """# What goes with what

Written by docs/generate.py from the table by which the program refuses, `rramalloc/allocation/goes_with.py`.
A row is a command, an objective, a method or an option. A column is a property of what it is given: of the
network, the hardware, or what is asked; the second table says what each is, and where it is found. `x`: the
two go together. An empty cell: the command has no such option, or the program refuses the two together, in
the words of the second table. A method without a row takes what `gain` takes.

"""


def together() -> str:
    """Return the text of the page of what goes with what, and of all refusals."""
    found = readers()
    usual = found["method 'gain'"]
    rows = [(name, reads) for name, reads in found.items() if reads != usual or name == "method 'gain'"]
    lines = [f"| | {' | '.join(FEATURES)} |", f"|---|{':-:|' * len(FEATURES)}"]
    lines += [
        f"| {name} | {' | '.join('x' if feature in reads else '' for feature in FEATURES)} |"
        for name, reads in rows
    ]
    lines += ["", "| property | found in | the refusal says | and what helps |", "|---|---|---|---|"]
    for name, feature in FEATURES.items():
        where = feature.where or "hardware"
        lines.append(f"| {name} | {where} | {feature.words}, which ... does not take | {feature.remedy} |")
    return f"{_TOGETHER}{chr(10).join(lines)}\n"


def generated() -> dict[Path, str]:
    """Return the text of every generated file."""
    config = ROOT / "mkdocs.yml"
    return {
        ROOT / "rramalloc" / "__init__.pyi": stub(),
        config: navigation(config.read_text(encoding="utf-8")),
        ROOT / "docs" / "together.md": together(),
    }


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
