"""Reports: results as one page of HTML, and the charts that it and single files show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rramalloc.callable_package import make_callable


def _load() -> Callable[..., Any]:
    from rramalloc.report.page_file import report

    return report


make_callable(__name__, _load)
