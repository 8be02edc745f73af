"""Exports: an allocation in the formats of other mappers and simulators (docs/sources/peers.md), one tool
per file."""

from __future__ import annotations

from rramalloc.lazy import make_callable

make_callable(__name__, "export")
