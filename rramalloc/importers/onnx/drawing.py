"""The ONNX side of the graph builder: nodes named after the operators of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rramalloc.importers.axes import (
    INNER,
    MAX_TAKEN,
    Atom,
    Dims,
    Role,
    canonical,
    chosen,
    in_raster_order,
    move,
    runs_of,
    shape_of,
)
from rramalloc.importers.builder import GraphBuilder
from rramalloc.importers.onnx.protos import Room
from rramalloc.importers.onnx.shapes import MAX_DIM
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import Tensor, Value, tensor

Uses = Mapping[str, Sequence[tuple[str, int]]]
"""Readers of each ONNX tensor: operator and input position; a graph output reads as operator ''."""


class Drawing(GraphBuilder):
    """A graph builder that visits the ONNX nodes in order.

    batch: the batch that the file fixes, everywhere taken as 1; uses: which operators read each ONNX tensor;
    room: how many constants may still be evaluated; moves: how often axes changed between grid and channels.
    """

    def __init__(self, where: str, batch: int, uses: Uses, taken: Iterable[str]) -> None:
        super().__init__(where, taken)
        self.batch, self.uses = batch, uses
        self.room = Room()
        self.moves = 0

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
    layout: Sequence[Role],
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


def relayout(
    drawing: Drawing, step: Step, x: Tensor, layout: Sequence[Role], suffix: str = "regrid"
) -> Tensor:
    """The same values with other roles of the axes: nothing, blocks of pixels, or a barrier."""
    return expand(drawing, step, x, x.dims, layout, suffix)


def channelled(drawing: Drawing, step: Step, x: Tensor, axes: Iterable[int], suffix: str = "whole") -> Tensor:
    """The tensor with these axes as channels: blocks of pixels are joined into one."""
    return relayout(
        drawing, step, x, [() if axis in set(axes) else role for axis, role in enumerate(x.layout)], suffix
    )


def pixelwise(drawing: Drawing, step: Step, x: Tensor, op: str) -> Tensor:
    """One pixel in, one pixel out, same shape."""
    return tensor(drawing.emit(step, op, [x.node]), x.dims, x.layout)


def select(
    drawing: Drawing, step: Step, x: Tensor, dims: Dims, layout: Sequence[Role], suffix: str = ""
) -> Tensor:
    """Other channels on the same grid."""
    if 0 in dims:
        raise step.unsupported("its output is empty")
    shape = shape_of(dims, canonical(dims, layout))
    return tensor(drawing.emit(step, "select", [x.node], suffix, channels=shape.channels), dims, layout)


def expand(
    drawing: Drawing, step: Step, x: Tensor, dims: Dims, layout: Sequence[Role], suffix: str = "expand"
) -> Tensor:
    """The tensor on another layout, repeated along its axes of length 1: blocks, then repeated pixels."""
    layout = canonical(dims, layout)
    if (dims, layout) == (x.dims, x.layout):
        return x
    moved = move(x.dims, x.layout, dims, layout)
    if moved is None:
        return barrier(drawing, step, [x], dims, layout, suffix)
    node, want = x.node, shape_of(dims, layout)
    drawing.moves += 1
    if moved.pool != (1, 1) and moved.pool == x.shape[1:]:
        return barrier(drawing, step, [x], dims, layout, suffix)
    if moved.pool != (1, 1):
        node = drawing.emit(step, "maxpool", [node], suffix, kernel=moved.pool, stride=moved.pool)
    if drawing.shapes[node].channels != want.channels:
        node = drawing.emit(step, "select", [node], f"{suffix}_channels", channels=want.channels)
    if moved.scale != (1, 1):
        node = drawing.emit(step, "upsample", [node], suffix, scale=moved.scale)
    return tensor(node, dims, layout)


def take(
    drawing: Drawing, step: Step, x: Tensor, axis: int, indices: Sequence[int], suffix: str = ""
) -> Tensor:
    """These places along an axis, -1 for zeros: channels of every pixel, or other pixels.

    A grid that one axis runs over row by row is made one column first.
    """
    dims = (*x.dims[:axis], len(indices), *x.dims[axis + 1 :])
    if not indices or len(indices) > MAX_DIM:
        raise step.unsupported("its output is empty")
    if not x.layout[axis] and x.dims[axis] > 1:
        return select(drawing, step, x, dims, x.layout, suffix)
    if not x.layout[axis]:
        return expand(drawing, step, x, dims, usual_growth(x, axis, len(indices)), suffix or "repeat")
    if max(len(indices), x.dims[axis], *x.shape[1:]) > MAX_TAKEN:
        return barrier(drawing, step, [x], dims, x.layout, suffix, "picks from a very long axis")
    if len(x.layout[axis]) > 1 and in_raster_order(x.layout, axis):
        column = drawing.emit(step, "regrid", [x.node], f"{suffix}column", grid=(x.dims[axis], 1))
        roles = [() if other != axis else (Atom(x.dims[axis], 0, (0,)),) for other in range(len(x.dims))]
        x = tensor(column, x.dims, roles)
        drawing.approximate([column], step.label, "waits for whole rows of the grid that it makes one column")
    picked = chosen(x.layout, axis, indices)
    if picked is None:
        return barrier(drawing, step, [x], dims, x.layout, suffix, "picks from a part of the grid")
    grid, pixels = picked
    runs: dict[str, Any] = {("rows", "columns")[grid]: runs_of(pixels)}
    return tensor(drawing.emit(step, "take", [x.node], suffix, **runs), dims, x.layout)


def usual_growth(x: Tensor, axis: int, size: int) -> Sequence[Role]:
    """The layout where an axis of one element grows: channels, or in an image the side that is left."""
    free = [grid for grid in (0, 1) if not any(a.grid == grid for role in x.layout for a in role)]
    grows = axis > 1 and free and len(x.dims) > 3
    return [
        ((Atom(size, free[0], (INNER,)),) if grows else ()) if other == axis else role
        for other, role in enumerate(x.layout)
    ]
