"""Names, entry points and extras whose code is imported when it is used: starts stay instant."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rramalloc.errors import PluginError, RramallocError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def foreign(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group in other packages, those on a path added since the start too."""
    return _on_paths(group, tuple(sys.path))


@cache
def _on_paths(group: str, _paths: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Return the entry points of a group that were found with these paths."""
    from importlib.metadata import entry_points  # takes 13 ms, a tenth of the start of a command

    return {point.name: point for point in entry_points(group=group)}


def load_foreign(group: str, name: str, kind: str) -> Any:
    """Return the object of an entry point, imported now. Raises PluginError; kind: its name in messages."""
    with plugin_errors(entry_point(group, name, kind)):
        return foreign(group)[name].load()


def entry_point(group: str, name: str, kind: str) -> str:
    """Return in words what an entry point of another package is."""
    return f"{kind} {name!r}, the entry point {foreign(group)[name].value!r} of another package,"


@contextmanager
def plugin_errors(what: str) -> Iterator[None]:
    """Turn errors of code from outside this package into a PluginError; what: whose code it is, in words."""
    try:
        yield
    except RramallocError:
        raise
    except Exception as error:
        raise PluginError(f"{what} failed: {type(error).__name__}: {error}") from error


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra; no index has the package, only the folder of its source."""
    from rramalloc.children import python_words

    source = Path(__file__).resolve().parents[1]
    if (source / "pyproject.toml").is_file():
        return python_words("-m", "pip", "install", f"{source}[{extra}]")
    return f"{python_words('-m', 'pip', 'install', f'.[{extra}]')} (in the folder of rramalloc's source)"
