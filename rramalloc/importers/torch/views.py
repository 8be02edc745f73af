"""ATen operators that move, cut and join tensors without arithmetic.

Source: docs/sources/model.md 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from rramalloc.importers.axes import runs_of
from rramalloc.importers.torch.call import Call, Result, same_values
from rramalloc.importers.torch.graph import Dims, Ref
from rramalloc.importers.torch.layout import Layout, Tensor, viewed
from rramalloc.importers.torch.windows import subsample


def permute(call: Call) -> Result:
    """Axes in another order: every pixel stays a pixel, so only their numbers change."""
    source = call.operand("self")
    rank, op = len(source.dims), call.operation.op
    order = list(range(rank))
    if op == "permute":
        order = list(call.axes("dims", rank))
    elif op == "movedim":
        return _movedim(call, source)
    elif rank > 1:
        first, second = ("axis0", "axis1") if op == "swapaxes" else ("dim0", "dim1")
        one = call.axis(first, rank, 0)
        other = call.axis(second, rank, 1)
        order[one], order[other] = order[other], order[one]
    return _reordered(call, source, order)


def _movedim(call: Call, source: Tensor) -> Result:
    rank = len(source.dims)
    origins, targets = call.axes("source", rank), call.axes("destination", rank)
    if len(origins) != len(targets) or len(set(targets)) != len(targets):
        raise call.fault("destination", "must name as many axes as source")
    rest = iter(axis for axis in range(rank) if axis not in origins)
    placed = dict(zip(targets, origins, strict=True))
    return _reordered(call, source, [placed[i] if i in placed else next(rest) for i in range(rank)])


def _reordered(call: Call, source: Tensor, order: Sequence[int]) -> Result:
    out = call.out()
    if sorted(order) != list(range(len(source.dims))) or tuple(source.dims[i] for i in order) != out:
        raise call.fault("dims", f"does not lead from {source.dims} to {out}")
    layout = source.layout.moved({old: new for new, old in enumerate(order)})
    return call.emit("identity", [source], out, layout)


def reshape(call: Call) -> Result:
    """Pixelwise where the grid stays; one vector: flatten; anything else waits for all pixels."""
    source, out = call.operand("self"), call.out()
    if not same_values(source.dims, out):
        return expand(call)
    layout, still = viewed(source, out)
    is_vector = sum(extent > 1 for extent in out) <= 1
    if is_vector and (not still or (source.shape.pixels == 1 and "flatten" in call.operation.op)):
        return call.emit("flatten", [source], out, Layout())
    if still:
        return call.emit("identity", [source], out, layout)
    merged = _one_column(source, out)
    if merged is not None:
        column = call.emit("regrid", [source], out, Layout((merged,)), grid=(out[merged], 1))
        call.nodes.approximate(
            [column.node], call.operation.op, "waits for whole rows of the grid that it makes one column"
        )
        return column
    return call.barrier([source], out, layout)


def _one_column(source: Tensor, out: Dims) -> int | None:
    """The axis of the result that is the whole grid in raster order, all other axes as they were."""
    rows, cols = source.essential
    if len(rows) != 1 or len(cols) != 1 or cols[0] <= rows[0]:
        return None
    if any(extent > 1 for extent in source.dims[rows[0] + 1 : cols[0]]):
        return None
    dims = [extent for axis, extent in enumerate(source.dims) if axis not in (rows[0], cols[0])]
    before = sum(extent > 1 for extent in source.dims[: rows[0]])
    long = [axis for axis, extent in enumerate(out) if extent > 1]
    if before >= len(long) or out[long[before]] != source.shape.pixels:
        return None
    others = [out[axis] for axis in long if axis != long[before]]
    return long[before] if others == [extent for extent in dims if extent > 1] else None


def identity(call: Call) -> Result:
    """Copies, casts, memory formats."""
    source = call.operand("self", "input")
    return call.emit("identity", [source], call.out(), source.layout)


def dropout(call: Call) -> Result:
    """Pixelwise; of no effect in inference."""
    source = call.operand("input", "self")
    result = call.emit("dropout", [source], call.out(), source.layout)
    return [result] + [None] * (len(call.operation.outputs) - 1)


def expand(call: Call) -> Result:
    """Repetition along axes: of channels it is pixelwise, along the grid it waits for all pixels."""
    source, out = call.operand("self"), call.out()
    shift = len(out) - len(source.dims)
    if shift < 0:
        return call.unknown()
    layout = source.layout.shifted(shift)
    moved = Tensor(source.node, out, layout)
    if moved.dims[shift:] == source.dims and moved.shape == source.shape:
        return call.emit("identity", [source], out, layout)
    if (moved.shape.height, moved.shape.width) == (source.shape.height, source.shape.width):
        return call.select(source, out, layout)
    return call.barrier([source], out, layout)


def concat(call: Call) -> Result:
    """Along channels: concat. Along the grid, or where grids differ: all pixels are waited for."""
    out = call.out()
    return _joined(call, call.tensors(), out, call.axis("dim", len(out)))


def stack(call: Call) -> Result:
    """Tensors side by side on a new axis, which counts as channels."""
    out = call.out()
    axis = call.axis("dim", len(out))
    places = {old: old + (old >= axis) for old in range(len(out) - 1)}
    return _joined(
        call,
        [
            Tensor(source.node, (*source.dims[:axis], 1, *source.dims[axis:]), source.layout.moved(places))
            for source in call.tensors()
        ],
        out,
        axis,
    )


def _joined(call: Call, sources: list[Tensor], out: Dims, axis: int) -> Result:
    widest = max(sources, key=lambda source: source.shape.pixels)
    layout = widest.essential
    if any(len(source.dims) != len(out) for source in sources):
        return call.barrier(sources, out, layout)
    if axis in widest.grid_axes:
        return _behind(call, out, axis, layout) or call.barrier(sources, out, layout)
    aligned = [call.placed(source, layout) for source in sources]
    channels = Tensor("", out, layout).shape.channels
    if len(aligned) == 1:
        return call.select(aligned[0], out, layout)
    if sum(source.shape.channels for source in aligned) == channels:
        return call.emit("concat", aligned, out, layout)
    dims = (sum(source.shape.channels for source in aligned), *widest.shape[1:])  # the rest is constant
    joined = call.emit("concat", aligned, dims, Layout((1,), (2,)), suffix="_inputs")
    return call.select(joined, out, layout)


def _behind(call: Call, out: Dims, axis: int, layout: Layout) -> Tensor | None:
    """Tensors one behind the other on the grid: each with zeros around it, then their sum."""
    argument = call.given("tensors")
    names = [ref.name for ref in argument if isinstance(ref, Ref)] if isinstance(argument, tuple) else []
    lengths = [call.dims_of(name)[axis] for name in names]
    tensors = [call.frame.get(name) for name in names]
    if sum(lengths) != out[axis]:
        return None
    parts: list[Tensor] = []
    for index, source in enumerate(tensors):
        if source is None:
            continue
        at = sum(lengths[:index])
        around = [-1] * at + list(range(lengths[index])) + [-1] * (out[axis] - at - lengths[index])
        if lengths[index] == 1 and axis not in source.grid_axes:
            rows = Layout((*source.essential.rows, axis), source.essential.cols)
            source = Tensor(source.node, source.dims, rows if axis in layout.rows else layout)
        if Tensor("", out, source.layout).essential != layout:
            return None
        if lengths[index] == 1:
            side = "rows" if axis in layout.rows else "columns"
            if layout.rows != (axis,) and layout.cols != (axis,):
                return None
            part = call.emit("take", [source], out, layout, suffix=f"_part{index}", **{side: runs_of(around)})
        else:
            found = call.taken(source, axis, around, out, layout, suffix=f"_part{index}")
            if found is None:
                return None
            part = found
        parts.append(part)
    return parts[0] if len(parts) == 1 else call.emit("add", parts, out, layout)


def cut(call: Call) -> Result:
    """slice, narrow: of channels pixelwise; of the grid rows or columns at a stride."""
    source, out = call.operand("self"), call.out()
    axis = call.axis("dim", len(source.dims))
    if out == source.dims:
        return call.emit("identity", [source], out, source.layout)
    if axis not in source.grid_axes:
        return call.select(source, out, source.layout)
    start, step = call.given("start"), call.given("step")
    if not isinstance(start, int | None) or not isinstance(step, int | None):
        return call.barrier([source], out, source.layout)
    start = start or 0
    start = max(start + source.dims[axis], 0) if start < 0 else start
    return subsample(call, source, axis, start, max(step or 1, 1))


def pick(call: Call) -> Result:
    """select.int: one index of an axis, which disappears."""
    source, out = call.operand("self"), call.out()
    axis = call.axis("dim", len(source.dims))
    places = {old: old - (old > axis) for old in range(len(source.dims)) if old != axis}
    layout = source.layout.moved(places)
    if axis in source.grid_axes:
        index = call.number("index", 0) % source.dims[axis]
        rest = Layout(*(tuple(at for at in group if at != axis) for group in source.layout)).moved(places)
        return call.taken(source, axis, [index], out, rest) or call.barrier([source], out, layout)
    return call.select(source, out, layout)


def parts(call: Call) -> Result:
    """chunk, split, unbind: several pieces along one axis."""
    source = call.operand("self")
    rank = len(source.dims)
    axis = call.axis("dim", rank)
    layout = source.layout
    if call.operation.op == "unbind":
        layout = layout.moved({old: old - (old > axis) for old in range(rank) if old != axis})
    pieces: list[Tensor | None] = []
    for index, name in enumerate(call.operation.outputs):
        if name is None:
            pieces.append(None)
            continue
        dims, suffix = call.dims_of(name), f"_{index}"
        if axis in source.grid_axes and dims != source.dims:
            pieces.append(call.barrier([source], dims, layout, suffix=suffix))
        else:
            pieces.append(call.select(source, dims, layout, suffix=suffix))
    return pieces


def shuffle(call: Call) -> Result:
    """roll, flip, index_select, gather: within channels pixelwise, else all pixels are waited for."""
    source, out = call.operand("self"), call.out()
    axes = call.axes("dims" if call.given("dims") is not None else "dim", len(source.dims))
    if len(out) != len(source.dims) or source.grid_axes.intersection(axes):
        return call.barrier(call.tensors(), out, source.layout if len(out) == len(source.dims) else None)
    return call.select(source, out, source.layout)


def embedding(call: Call) -> Result:
    """A table look-up for every token."""
    indices, out = call.tensor("indices"), call.out()
    if indices is None:
        return call.unknown()
    return call.select(indices, out, indices.layout)
