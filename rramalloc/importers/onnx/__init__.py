"""Reader of ONNX models: the graph is imported by shape, no weight is loaded and nothing is run.

The two readers are imported when they are used: the reader of PyTorch imports modules of this package, and
a package that imports its own modules would be found half made by another thread.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rramalloc.importers.onnx.importer import from_memory as from_memory
    from rramalloc.importers.onnx.importer import from_model as from_model
    from rramalloc.importers.onnx.importer import read as read

__all__ = ["from_memory", "from_model", "read"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"{__name__}.importer"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
