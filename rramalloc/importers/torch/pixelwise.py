"""ATen arithmetic, activations and normalisations: pixelwise unless they act over the grid.

Source: docs/sources/model.md 2.
"""

from __future__ import annotations

from collections.abc import Callable

from rramalloc.importers.torch.call import Call, Result
from rramalloc.importers.torch.graph import Dims
from rramalloc.importers.torch.layout import Layout, Tensor
from rramalloc.network.geometry import Shape

_PRODUCTS = ("mul", "div", "multiply", "divide", "true_divide", "pow", "floor_divide", "remainder", "fmod")


def unary(op: str) -> Callable[[Call], Result]:
    """An operator of one tensor that keeps its shape."""

    def rule(call: Call) -> Result:
        source = call.operand("self", "input")
        result = call.emit(op, [source], call.out(), source.layout)
        return [result] + [None] * (len(call.operation.outputs) - 1)

    return rule


def elementwise(call: Call) -> Result:
    """add, mul and others of one or more tensors, with broadcasting; constants take no part."""
    out = call.out()
    sources = list(dict.fromkeys(call.tensors()))
    if any(len(source.dims) > len(out) for source in sources):
        return call.unknown()
    widest = max(sources, key=lambda source: source.shape.pixels)
    layout = widest.essential.shifted(len(out) - len(widest.dims))
    goal = Tensor("", out, layout).shape
    aligned = [_aligned(call, source, out, layout, goal) for source in sources]
    if len(aligned) > 1 and goal.channels in {source.shape.channels for source in aligned}:
        return call.emit("mul" if call.operation.op in _PRODUCTS else "add", aligned, out, layout)
    if len(aligned) > 1:
        joined = (sum(source.shape.channels for source in aligned), *goal[1:])
        streams = call.emit("concat", aligned, joined, Layout((1,), (2,)), suffix="_inputs")
        return call.select(streams, out, layout)
    if goal != aligned[0].shape:
        return call.select(aligned[0], out, layout)
    return call.emit("activation", aligned, out, layout)


def _aligned(call: Call, source: Tensor, out: Dims, layout: Layout, goal: Shape) -> Tensor:
    """An operand that the wanted grid can take: on that grid or on one pixel, its channels all or one."""
    shift = len(out) - len(source.dims)
    dims = (1,) * shift + source.dims
    moved = Tensor(source.node, dims, source.essential.shifted(shift))
    wanted = {axis for group in layout for axis in group}
    if moved.layout != layout:
        if moved.grid_axes or any(dims[axis] > 1 for axis in wanted):
            moved = call.collapsed(moved)
        moved = Tensor(moved.node, (moved.shape.channels,), Layout())
    if moved.shape.channels in (1, goal.channels):
        return moved
    chosen = (goal.channels, *moved.shape[1:])
    return call.select(moved, chosen, Layout((1,), (2,)), suffix="_channels")


def softmax(call: Call) -> Result:
    """Over channels pixelwise; over pixels all of them are waited for."""
    source = call.operand("self")
    axis = call.axis("dim", len(source.dims)) if source.dims else 0
    if axis in source.grid_axes:
        return call.barrier([source], call.out(), source.layout)
    return call.emit("softmax", [source], call.out(), source.layout)


def gate(call: Call) -> Result:
    """glu: one half of the channels gates the other."""
    source, out = call.operand("self"), call.out()
    if call.axis("dim", len(source.dims), -1) in source.grid_axes:
        return call.barrier([source], out, source.layout)
    return call.select(source, out, source.layout)


def layer_norm(call: Call) -> Result:
    """Over the last axes: pixelwise if none of them is part of the grid."""
    source = call.operand("input", "self")
    shape = call.given("normalized_shape")
    count = len(shape) if isinstance(shape, tuple) else 1
    rank = len(source.dims)
    over_grid = source.grid_axes.intersection(range(max(rank - count, 0), rank))
    return _normalised(call, source, "layernorm", over_grid=bool(over_grid))


def grid_norm(call: Call) -> Result:
    """group_norm and instance_norm: statistics over the whole grid."""
    source = call.operand("input", "self")
    return _normalised(call, source, "layernorm", over_grid=source.shape.pixels > 1)


def batch_norm(call: Call) -> Result:
    """With constant statistics pixelwise; with statistics of the batch all pixels are waited for."""
    source = call.operand("input", "self")
    trains = call.given("training") is True or call.given("train") is True
    return _normalised(call, source, "batchnorm", over_grid=trains and source.shape.pixels > 1)


def _normalised(call: Call, source: Tensor, op: str, *, over_grid: bool) -> Result:
    if over_grid:
        result = call.barrier([source], call.out(), source.layout)
    else:
        result = call.emit(op, [source], call.out(), source.layout)
    return [result] + [None] * (len(call.operation.outputs) - 1)


def reduction(call: Call) -> Result:
    """mean, sum, max ... over axes: channels are pixelwise, the whole grid is a global pooling."""
    if call.given("other") is not None:
        return elementwise(call)  # max(a, b)
    source, out = call.operand("self"), call.out()
    rank = len(source.dims)
    axes = set(call.axes("dim", rank)) if rank else set()
    reduced = {axis for axis in axes if source.dims[axis] > 1}
    layout = source.essential
    if len(out) != rank:
        kept = [axis for axis in range(rank) if axis not in axes]
        layout = layout.moved({old: new for new, old in enumerate(kept)})
    over_grid = reduced & source.grid_axes
    if not over_grid:
        result = call.select(source, out, layout)
    elif over_grid == source.grid_axes:
        kind = "maxpool" if "max" in call.operation.op or "min" in call.operation.op else "avgpool"
        pooled = (source.shape.channels,)
        if reduced == over_grid:
            result = call.emit(f"global_{kind}", [source], out, Layout())
        else:
            whole = call.emit(f"global_{kind}", [source], pooled, Layout(), suffix="_pixels")
            result = call.select(whole, out, Layout())
    else:
        result = call.barrier([source], out, layout)
    return [result] * len(call.operation.outputs)


def cumulative(call: Call) -> Result:
    """cumsum and the like along one axis."""
    source = call.operand("self")
    if call.axis("dim", len(source.dims)) in source.grid_axes:
        return call.barrier([source], call.out(), source.layout)
    return call.emit("activation", [source], call.out(), source.layout)


def copied(call: Call) -> Result:
    """copy_: the values of the source in the shape of the target."""
    source, out = call.tensor("src"), call.out()
    if source is None:
        source = call.operand("self")
        return call.emit("identity", [source], out, source.layout)
    if source.dims == out:
        return call.emit("identity", [source], out, source.layout)
    return call.barrier([source], out)
