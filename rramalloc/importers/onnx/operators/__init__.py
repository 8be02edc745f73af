"""Rules of ONNX operators: one module per family, all rules in `HANDLERS`."""

from __future__ import annotations

from rramalloc.importers.onnx.operators import (
    channels,
    elementwise,
    matmul,
    normalise,
    rearrange,
    recurrent,
    reduce,
    resize,
    windowed,
)
from rramalloc.importers.onnx.step import Handler

_FAMILIES = (
    windowed, matmul, elementwise, rearrange, channels, normalise, recurrent, reduce, resize,
)  # fmt: skip
HANDLERS: dict[str, Handler] = {op: rule for family in _FAMILIES for op, rule in family.HANDLERS.items()}
"""Rules by operator type; the same for every domain that uses the name."""
