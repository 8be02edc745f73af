"""Figures."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """`rramalloc.report(...)` is the call, although the package has its name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from rramalloc.arguments import checked
        from rramalloc.report.page_file import report

        return checked(report)(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
