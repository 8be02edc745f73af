"""The ONNX side of the graph builder: nodes named after the operators of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rramalloc.importers.builder import GraphBuilder
from rramalloc.importers.onnx.protos import Room
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import Dims, Tensor, Value, canonical, shape_of, tensor

Uses = Mapping[str, Sequence[tuple[str, int]]]
"""Readers of each ONNX tensor: operator and input position; a graph output reads as operator ''."""


class Drawing(GraphBuilder):
    """A graph builder that visits the ONNX nodes in order.

    batch: the batch that the file fixes, everywhere taken as 1; uses: which operators read each ONNX tensor;
    room: how many constants may still be evaluated.
    """

    def __init__(self, where: str, batch: int, uses: Uses, taken: Iterable[str]) -> None:
        super().__init__(where, taken)
        self.batch, self.uses = batch, uses
        self.room = Room()

    def emit(self, step: Step, op: str, inputs: Sequence[str], suffix: str = "", **fields: Any) -> str:
        """Append a node; `suffix` names one that helps the main node of this step.

        Raises NetworkError if its fields or shapes are not allowed.
        """
        stem = f"{step.name}/{suffix}" if suffix else step.name
        name = self.unique(stem) if suffix or step.name in self.shapes else step.name
        self.add(name, op, inputs, step.place, **fields)
        return name


Handler = Callable[[Drawing, Step], Sequence[Value]]
"""Rule of an operator: its outputs in order; with fewer than the operator has, the last one is the rest."""


def barrier(
    drawing: Drawing,
    step: Step,
    inputs: Sequence[Tensor],
    dims: Dims,
    layout: str,
    suffix: str = "",
    because: str = "",
) -> Tensor:
    """All pixels of the inputs before the first of the output; because: why, if that is an approximation."""
    if 0 in dims:
        raise step.unsupported("its output is empty")
    shape = tuple(shape_of(dims, canonical(dims, layout)))
    name = drawing.emit(step, "barrier", [x.node for x in inputs], suffix, shape=shape)
    if because:
        drawing.approximate([name], step.label, f"{because}: treated as a barrier")
    return tensor(name, dims, layout)


def relayout(drawing: Drawing, step: Step, x: Tensor, layout: str, suffix: str = "regrid") -> Tensor:
    """The same values on another grid: a barrier, or nothing if each axis keeps its meaning."""
    layout = canonical(x.dims, layout)
    return x if layout == x.layout else barrier(drawing, step, [x], x.dims, layout, suffix)


def pixelwise(drawing: Drawing, step: Step, x: Tensor, op: str) -> Tensor:
    """One pixel in, one pixel out, same shape."""
    return tensor(drawing.emit(step, op, [x.node]), x.dims, x.layout)


def select(drawing: Drawing, step: Step, x: Tensor, dims: Dims, layout: str, suffix: str = "") -> Tensor:
    """Other channels on the same grid."""
    if 0 in dims:
        raise step.unsupported("its output is empty")
    shape = shape_of(dims, canonical(dims, layout))
    return tensor(drawing.emit(step, "select", [x.node], suffix, channels=shape.channels), dims, layout)


def expand(
    drawing: Drawing, step: Step, x: Tensor, dims: Dims, layout: str, suffix: str = "expand"
) -> Tensor:
    """The tensor repeated along its axes of length 1: pixels by upsampling, channels pixelwise."""
    have, want = x.shape, shape_of(dims, canonical(dims, layout))
    node = x.node
    if have[1:] != want[1:]:
        partial = [
            r for r in "YX" if any(s == r for s in x.layout) and have["CYX".index(r)] != want["CYX".index(r)]
        ]
        if partial:
            return barrier(drawing, step, [x], dims, layout, suffix)
        scale = (want.height // have.height, want.width // have.width)
        node = drawing.emit(step, "upsample", [node], suffix, scale=scale)
    if have.channels != want.channels:
        node = drawing.emit(step, "select", [node], f"{suffix}_channels", channels=want.channels)
    return tensor(node, dims, layout)
