"""A figure that a notebook shows, whether it has set up matplotlib or not."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

_DOTS_PER_IN = 100


class NotebookFigure(Figure):
    """A figure made without pyplot, so that none is kept alive by it."""

    def _repr_png_(self) -> bytes:
        from rramalloc.report.style import look

        content = io.BytesIO()
        with look():
            self.savefig(content, format="png", dpi=_DOTS_PER_IN, metadata={"Software": None})
        return content.getvalue()
