"""Operators that join, cut or pick along one axis: pixelwise over channels, else barriers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rramalloc.importers.onnx import shapes
from rramalloc.importers.onnx.drawing import Drawing, Handler, barrier, expand, relayout, select
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import (
    Constant,
    Dims,
    Tensor,
    Value,
    gridded,
    tensor,
)
from rramalloc.records import brief

OVER_GRID = "works over the grid"


def cut(drawing: Drawing, step: Step, x: Tensor, dims: Dims, suffix: str = "") -> Tensor:
    """Part of a tensor, axis by axis: pixelwise if only channels go, else a barrier with a warning."""
    changed = [axis for axis, (old, new) in enumerate(zip(x.dims, dims, strict=True)) if old != new]
    if all(x.layout[axis] in "C1" for axis in changed):
        return select(drawing, step, x, dims, x.layout, suffix)
    return barrier(drawing, step, [x], dims, x.layout, suffix, OVER_GRID)


def concat(drawing: Drawing, step: Step) -> Sequence[Value]:
    """Concat: constants only add channels; along the grid it is a barrier."""
    first = 3 if step.op == "QLinearConcat" else 0
    values = [v for v in (step.values[2::3] if first else step.values) if v is not None]
    sizes = [value.dims for value in values if value.dims is not None]
    if len(sizes) < len(values):
        raise step.unsupported(
            "the shape of a constant operand is not known: simplify the model before the import"
        )
    data = [value for value in values if isinstance(value, Tensor)]
    if not data:
        raise step.unsupported("none of its operands is data")
    axis = step.axis(step.integer("axis", 1), len(sizes[0]))
    dims = shapes.joined(step, sizes, axis)
    lead = max(data, key=lambda x: x.shape.channels * x.shape.pixels)
    roles = {x.layout[axis] for x in data} - {"1"} or {"C"}
    layout = lead.layout[:axis] + min(roles) + lead.layout[axis + 1 :]
    if roles != {"C"}:
        return [barrier(drawing, step, data, dims, layout)]
    on = [relayout(drawing, step, x, layout) for x in data]
    total = sum(x.dims[axis] for x in on)
    whole = total == dims[axis]
    if len(on) == 1:
        return [on[0] if whole else select(drawing, step, on[0], dims, layout)]
    joined = drawing.emit(step, "concat", [x.node for x in on], "" if whole else "data")
    part = tensor(joined, (*dims[:axis], total, *dims[axis + 1 :]), layout)
    return [part if whole else select(drawing, step, part, dims, layout)]


def split(drawing: Drawing, step: Step) -> Sequence[Value]:
    """Split: one `select` for each part."""
    x = step.data()
    axis = step.axis(step.integer("axis", 0), len(x.dims))
    outputs = len(step.proto.output)
    sizes = shapes.split_sizes(step, x.dims[axis], outputs)
    return [
        cut(drawing, step, x, (*x.dims[:axis], size, *x.dims[axis + 1 :]), f"{k}" if k else "")
        if name and outputs > 1
        else x
        for k, (name, size) in enumerate(zip(step.proto.output, sizes, strict=True))
    ]


def slice_(drawing: Drawing, step: Step) -> Sequence[Value]:
    """Slice; nothing if it keeps everything in order."""
    x = step.data()
    kept = shapes.sliced(step, x.dims)
    dims = tuple(len(kept[axis]) if axis in kept else size for axis, size in enumerate(x.dims))
    moved = [axis for axis, part in kept.items() if part != range(x.dims[axis])]
    if not moved:
        return [x]
    if dims == x.dims and any(x.layout[axis] in "YX" for axis in moved):
        return [barrier(drawing, step, [x], dims, x.layout, because=OVER_GRID)]
    return [cut(drawing, step, x, dims)]


def gather(drawing: Drawing, step: Step) -> Sequence[Value]:
    """Gather: picking channels is pixelwise, a table look-up is pixelwise in its indices."""
    if isinstance(step.need(0), Constant):
        return [_look_up(drawing, step)]
    x, index = step.data(), step.need(1)
    axis = step.axis(step.integer("axis", 0), len(x.dims))
    picked = step.dims(1)
    dims = x.dims[:axis] + picked + x.dims[axis + 1 :]
    role = x.layout[axis] if x.layout[axis] != "1" else "C"
    if isinstance(index, Tensor):
        layout = gridded(dims, [len(dims) - 1])
        return [barrier(drawing, step, [x, index], dims, layout, because="picks by computed indices")]
    layout = x.layout[:axis] + role * len(picked) + x.layout[axis + 1 :]
    if role == "C":
        return [select(drawing, step, x, dims, layout)]
    return [barrier(drawing, step, [x], dims, layout, because=OVER_GRID)]


def _look_up(drawing: Drawing, step: Step) -> Tensor:
    """A row of a constant table for each index: indices are the grid, rows the channels."""
    table, index = step.dims(0), step.data(1)
    axis = step.axis(step.integer("axis", 0), len(table))
    on = relayout(drawing, step, index, gridded(index.dims, []))
    dims = table[:axis] + index.dims + table[axis + 1 :]
    return select(drawing, step, on, dims, "C" * axis + on.layout + "C" * (len(table) - axis - 1))


def tile(drawing: Drawing, step: Step) -> Sequence[Value]:
    """Tile: like Expand where an axis has length 1."""
    x = step.data()
    repeats = step.known_integers(1, "repeats") or ()
    if len(repeats) != len(x.dims) or any(count < 1 for count in repeats):
        raise step.fault("repeats", f"got {brief(str(repeats))} for data of {shapes.shown(x.dims)}")
    dims = tuple(size * count for size, count in zip(x.dims, repeats, strict=True))
    if all(size == 1 or count == 1 for size, count in zip(x.dims, repeats, strict=True)):
        layout = "".join(
            new if old == "1" else old for old, new in zip(x.layout, gridded(dims, [1]), strict=True)
        )
        return [expand(drawing, step, x, dims, layout, "repeat")]
    return [cut(drawing, step, x, dims)]


def pick(drawing: Drawing, step: Step) -> Sequence[Value]:
    """ArgMax, ArgMin, TopK: the winners along an axis; both outputs of TopK are alike."""
    x = step.data()
    rank = len(x.dims)
    axis = step.axis(step.integer("axis", -1 if step.op == "TopK" else 0), rank)
    count = 1
    if step.op == "TopK":
        given = step.known_integers(1, "K") if step.opset >= 10 else (step.integer("k", 0),)
        count = given[0] if given else 0
    if not 1 <= count <= x.dims[axis]:
        raise step.fault("K", f"got {brief(count)}, the axis has {x.dims[axis]} values")
    y = cut(drawing, step, x, (*x.dims[:axis], count, *x.dims[axis + 1 :]))
    if step.op != "TopK" and not step.integer("keepdims", 1):
        y = replace(y, dims=y.dims[:axis] + y.dims[axis + 1 :], layout=y.layout[:axis] + y.layout[axis + 1 :])
    return [y]


HANDLERS: dict[str, Handler] = {
    "Concat": concat,
    "QLinearConcat": concat,
    "Split": split,
    "Slice": slice_,
    "Gather": gather,
    "Tile": tile,
    "ArgMax": pick,
    "ArgMin": pick,
    "TopK": pick,
}
