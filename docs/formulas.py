"""Formulas in docstrings, indented by two spaces there, as blocks of the site (an extension of griffe)."""

from __future__ import annotations

import re
from typing import Any

import griffe

_BLOCK = re.compile(r"(?<=\n\n)(?:  \S.*(?:\n|$))+")


class Formulas(griffe.Extension):
    """Indents them as Markdown wants it."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Every module, class, function and attribute comes by here."""
        if obj.docstring is not None:
            text = obj.docstring.value
            obj.docstring.value = _BLOCK.sub(lambda found: re.sub(r"^", "  ", found[0], flags=re.M), text)
