"""Reports: results as one page of HTML, and the charts that it and single files show."""

from __future__ import annotations

from rramalloc.lazy import make_callable

make_callable(__name__, "page_file")
