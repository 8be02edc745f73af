"""Docstrings as the site shows them (an extension of griffe).

Formulas, indented by two spaces there, become blocks. What a docstring says of an argument or an attribute as
"name: words" becomes a row of a table, and "Raises Name: words." a table of what is raised.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Container
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).resolve().parent))

from hooks import meanings

from rramalloc.choices import UNPACKED, docstring_of

_BLOCK = re.compile(r"(?<=\n\n)(?:  \S.*(?:\n|$))+")
_RAISES = re.compile(r"\bRaises (\w+)(?:: ([^.]+))?\.(?: |$)")


class Formulas(griffe.Extension):
    """Indents formulas as Markdown wants it, and tells arguments apart from the text around them."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Every module, class, function and attribute comes by here."""
        if obj.docstring is None:
            return
        text = obj.docstring.value
        if isinstance(obj, griffe.Function):
            text = _with_tables(text, "Parameters", [parameter.name for parameter in obj.parameters])
            for parameter in obj.parameters:
                if shared := UNPACKED.fullmatch(str(parameter.annotation)):
                    text = docstring_of(text, shared[1])
        elif isinstance(obj, griffe.Class):
            text = _with_tables(text, "Attributes", None)
        obj.docstring.value = _BLOCK.sub(lambda found: re.sub(r"^", "  ", found[0], flags=re.M), text)


class _AnyName(Container[str]):
    """The fields of a class, of which those of its bases are not known yet."""

    def __contains__(self, name: object) -> bool:
        return True


def _with_tables(text: str, section: str, names: list[str] | None) -> str:
    """Return a docstring in the form of NumPy; as it is where it has sections, lists or no arguments."""
    if re.search(r"^-{4,}$|^\s*- |^    ", text, re.MULTILINE):
        return text
    body, example, code = text.partition("\n\n>>> ")
    raised = _RAISES.findall(" ".join(body.split()))
    body = re.sub(r"\s*\bRaises\s\w+(?::\s[^.]+)?\.(?=\s|$)", "", body)
    words, meaning = meanings(body, _AnyName() if names is None else names)
    if not meaning and not raised:
        return text
    parts = [words]
    if meaning:
        rows = (f"{name}\n    {meaning[name]}" for name in names or meaning if name in meaning)
        parts.append("\n".join((section, "-" * len(section), *rows)))
    if raised:
        rows = (f"{name}\n    {what or 'see above'}" for name, what in raised)
        parts.append("\n".join(("Raises", "------", *rows)))
    if example:
        parts.append(f"Examples\n--------\n>>> {code}")
    return "\n\n".join(parts)
