"""Rules of ONNX operators: one module per family, all rules in `HANDLERS`."""

from __future__ import annotations

from rramalloc.importers.onnx.operators import elementwise, matmul, rearrange, windowed

HANDLERS = {**elementwise.HANDLERS, **matmul.HANDLERS, **rearrange.HANDLERS, **windowed.HANDLERS}
"""Rules by operator type; the same for every domain that uses the name."""
