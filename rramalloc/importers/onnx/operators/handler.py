"""The form of every rule: an ONNX node in, its output tensors out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rramalloc.importers.onnx.drawing import Drawing
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import Value


class Handler(Protocol):
    """Draws the nodes of one ONNX node; fewer outputs than the node has mean the last one for the rest."""

    def __call__(self, drawing: Drawing, step: Step, /) -> Sequence[Value]:
        """Outputs of the ONNX node in its order."""
        ...
