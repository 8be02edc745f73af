"""The form of every rule: an ONNX node in, its output tensors out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rramalloc.network.readers.onnx_graph.drawing import Drawing
from rramalloc.network.readers.onnx_graph.step import Step
from rramalloc.network.readers.onnx_graph.tensors import Value


class Handler(Protocol):
    """Draws the nodes of one ONNX node; fewer outputs than the node has mean the last one for the rest."""

    def __call__(self, drawing: Drawing, step: Step, /) -> Sequence[Value]:
        """Outputs of the ONNX node in its order."""
        ...
