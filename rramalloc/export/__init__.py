"""Exports: an allocation in the formats of other mappers and simulators (docs/sources/peers.md), one tool
per file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rramalloc.callable_package import make_callable


def _load() -> Callable[..., Any]:
    from rramalloc.export.export import export

    return export


make_callable(__name__, _load)
