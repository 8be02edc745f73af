"""Exports: an allocation in the formats of other mappers and simulators (docs/sources/peers.md), one tool
per file."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """`rramalloc.export(...)` is the call, although the package has its name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from rramalloc.arguments import checked
        from rramalloc.export.export import export

        return checked(export)(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
