"""Bokeh's figures as JSON: the same figures give the same text, and nothing in it can end a script."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rramalloc.files import read_text

_LIBRARY_LIMIT_BYTES = 16 * 2**20
_FEWEST_PACKED = 24
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def library() -> str:
    """The code of BokehJS for charts, without widgets, tables and formulas. Raises FileError."""
    import bokeh

    folder = Path(bokeh.__file__).parent / "server" / "static" / "js"
    code = read_text(folder / "bokeh.min.js", _LIBRARY_LIMIT_BYTES)
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def library_version() -> str:
    """The version of Bokeh, as installed."""
    import bokeh

    return str(bokeh.__version__)


def chart_json(figures: Sequence[Any]) -> str:
    """A document of the figures, one below the other, to stand inside a script element."""
    from bokeh.document import Document
    from bokeh.layouts import column

    root = figures[0] if len(figures) == 1 else column(*figures, sizing_mode="stretch_width")
    document = Document()
    document.add_root(root)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="out of range integer")  # drawn as near as floats are
        text: Any = _packed(_numbered(document.to_json(deferred=False), {}))
    return safe_json({"doc": text, "root_id": text["roots"][0]["id"]})


def safe_json(value: object) -> str:
    """Compact JSON without any character that HTML gives a meaning to."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter, written in _UNSAFE.items():
        text = text.replace(letter, written)
    return text


def _numbered(value: Any, names: dict[str, str]) -> Any:
    """Identifiers of models in the order they stand in: Bokeh's depend on what was drawn before."""
    if isinstance(value, dict):
        found = {key: _numbered(each, names) for key, each in value.items() if key != "id"}
        if "id" in value:
            found = {"id": names.setdefault(value["id"], f"m{len(names)}")} | found
        return found
    if isinstance(value, list | tuple):
        return [_numbered(each, names) for each in value]
    return value


def _packed(value: Any) -> Any:
    """Long lists of few different texts as those texts and places in them; page.js undoes it."""
    if isinstance(value, dict):
        return {key: _packed(each) for key, each in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) >= _FEWEST_PACKED and all(isinstance(each, str) for each in value):
        place: dict[str, int] = {}
        at = [place.setdefault(each, len(place)) for each in value]
        if len(place) * 2 <= len(value):
            return {"texts": list(place), "at": at}
    return [_packed(each) for each in value]
