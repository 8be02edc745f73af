"""What each ONNX operator becomes: one module per family, all rules in `HANDLERS`."""

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

HANDLERS: dict[str, Handler] = {
    **windowed.HANDLERS,
    **matmul.HANDLERS,
    **elementwise.HANDLERS,
    **rearrange.HANDLERS,
    **channels.HANDLERS,
    **normalise.HANDLERS,
    **recurrent.HANDLERS,
    **reduce.HANDLERS,
    **resize.HANDLERS,
}
"""By operator type; the same for every domain that uses the name."""
