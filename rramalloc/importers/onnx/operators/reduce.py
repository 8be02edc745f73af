"""Reductions: over the grid a global pooling, over channels pixelwise."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rramalloc.importers.axes import Dims, move
from rramalloc.importers.onnx.step import Handler, Step
from rramalloc.importers.onnx.tensors import Tensor, Value, arranged, tensor


def reduced(step: Step, x: Tensor, axes: Dims, keepdims: bool, op: str) -> Tensor:
    """Return one value for all along the axes; `op`: the network's global pooling that stands for it."""
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.dims))
    channels = any(x.dims[axis] > 1 and not x.layout[axis] for axis in axes)
    grid = x.grid_axes
    if grid and grid <= set(axes):
        suffix = "pool" if channels else ""
        pooled = step.emit(op, [x.node], suffix)
        layout = tuple(() if axis in grid else role for axis, role in enumerate(x.layout))
        sizes = tuple(1 if axis in grid else size for axis, size in enumerate(x.dims))
        y = tensor(pooled, sizes, layout)
        y = step.select(y, kept, layout) if channels else y
    elif grid & set(axes):
        layout = tuple(() if axis in axes else role for axis, role in enumerate(x.layout))
        blocks = move(x.dims, x.layout, x.dims, layout)
        if blocks is None:
            y = step.barrier([x], kept, layout, because="reduces a part of the grid")
        else:
            name = op.removeprefix("global_")
            pooled = step.emit(name, [x.node], kernel=blocks.pool, stride=blocks.pool)
            sizes = tuple(1 if axis in grid & set(axes) else size for axis, size in enumerate(x.dims))
            y = tensor(pooled, sizes, layout)
            y = step.select(y, kept, layout, "channels") if channels else y
    elif channels:
        y = step.select(x, kept, x.layout)
    elif not grid and (step.op.startswith("Global") or {2, 3} <= set(axes)):
        y = tensor(step.emit(op, [x.node]), kept, x.layout)
    else:
        y = step.pixelwise(x, "identity")
    if keepdims:
        return y
    rest = [axis for axis in range(len(y.dims)) if axis not in axes]
    return arranged(y, rest)


def reduction(step: Step, op: str, since: int) -> Sequence[Value]:
    """Translate ReduceMean and its kin; `since`: the opset in which axes became an input."""
    x = step.data()
    axes = step.axes_of(len(x.dims), 1, since)
    if not axes:
        if step.integer("noop_with_empty_axes", 0):
            return [step.pixelwise(x, "identity")]
        axes = tuple(range(len(x.dims)))
    return [reduced(step, x, axes, bool(step.integer("keepdims", 1)), op)]


def global_pool(step: Step, op: str) -> Sequence[Value]:
    """Translate global pooling over every axis behind the channels."""
    x = step.data()
    rank = len(x.dims)
    if rank < 3:
        raise step.mismatch("X", f"global pooling needs data with a grid, got rank {rank}")
    return [reduced(step, x, tuple(range(2, rank)), True, op)]


_MEANS = (
    "ReduceMean",
    "ReduceSumSquare",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceProd",
)

HANDLERS: dict[str, Handler] = {
    **{op: partial(reduction, op="global_avgpool", since=18) for op in _MEANS},
    "ReduceSum": partial(reduction, op="global_avgpool", since=13),
    "ReduceMax": partial(reduction, op="global_maxpool", since=18),
    "ReduceMin": partial(reduction, op="global_maxpool", since=18),
    "GlobalAveragePool": partial(global_pool, op="global_avgpool"),
    "QLinearGlobalAveragePool": partial(global_pool, op="global_avgpool"),
    "GlobalLpPool": partial(global_pool, op="global_avgpool"),
    "GlobalMaxPool": partial(global_pool, op="global_maxpool"),
}
