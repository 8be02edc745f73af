"""Operators that join, cut or pick along one axis: pixelwise over channels, else barriers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rramalloc.importers.axes import MAX_TAKEN, Atom, Dims, in_raster_order
from rramalloc.importers.onnx import shapes
from rramalloc.importers.onnx.operators.elementwise import combine
from rramalloc.importers.onnx.outputs import outputs_of
from rramalloc.importers.onnx.step import Handler, Step
from rramalloc.importers.onnx.tensors import (
    Array,
    Constant,
    Parts,
    Tensor,
    Value,
    arranged,
    gridded,
    tensor,
    usual,
)
from rramalloc.records import brief

OVER_GRID = "works over the grid"


def concat(step: Step) -> Sequence[Value]:
    """Translate Concat: constants only add channels; along the grid it is a barrier."""
    first = 3 if step.op == "QLinearConcat" else 0
    values = [v for v in (step.values[2::3] if first else step.values) if v is not None]
    sizes, data = step.operands(values)
    if not data:
        raise step.unsupported("none of its operands is data")
    axis = step.axis(step.integer("axis", 1), len(sizes[0]))
    dims = shapes.joined(step, sizes, axis)
    lead = max(data, key=lambda x: (x.shape.pixels, x.shape.channels))
    if any(x.layout[axis] for x in data):
        return [_behind(step, values, dims, axis)]
    layout = (*lead.layout[:axis], (), *lead.layout[axis + 1 :])
    on = [step.relayout(x, layout) for x in data]
    total = sum(x.dims[axis] for x in on)
    whole = total == dims[axis]
    if len(on) == 1:
        return [on[0] if whole else step.select(on[0], dims, layout)]
    joined = step.emit("concat", [x.node for x in on], "" if whole else "data")
    part = tensor(joined, (*dims[:axis], total, *dims[axis + 1 :]), layout)
    return [part if whole else step.select(part, dims, layout)]


def _behind(step: Step, values: Sequence[Value], dims: Dims, axis: int) -> Tensor:
    """Add up operands one behind the other on the grid, each with zeros around it."""
    placed, at = list[Tensor](), 0
    lead = max((x for x in values if isinstance(x, Tensor)), key=lambda x: x.shape.pixels)
    one_side = len(lead.layout[axis]) == 1 or in_raster_order(lead.layout, axis)
    if not one_side or dims[axis] > MAX_TAKEN:
        data = [x for x in values if isinstance(x, Tensor)]
        return step.barrier(data, dims, lead.layout, because=OVER_GRID)
    for number, value in enumerate(values):
        length = (value.dims or dims)[axis]
        if isinstance(value, Tensor):
            around = [-1] * at + list(range(length)) + [-1] * (dims[axis] - at - length)
            roles = [
                (Atom(value.dims[k], role[0].grid, role[0].level),) if k == axis and role else role
                for k, role in enumerate(lead.layout)
            ]
            if len(lead.layout[axis]) > 1 or value.layout[axis]:
                roles = list(value.layout)
            placed.append(step.take(step.relayout(value, roles), axis, around, f"part{number}"))
        at += length
    if len(placed) == 1:
        return placed[0]
    return combine(step, "add", placed)


def split(step: Step) -> Sequence[Value]:
    """Split: one `select` for each part."""
    x = step.data()
    axis = step.axis(step.integer("axis", 0), len(x.dims))
    sizes = shapes.split_sizes(step, x.dims[axis], len(step.proto.output))
    parts = list[Value]()
    for k, (size, end) in enumerate(zip(sizes, itertools.accumulate(sizes), strict=True)):
        part: Value = x
        if not size:
            part = Constant(dims=(*x.dims[:axis], 0, *x.dims[axis + 1 :]))
        elif step.proto.output[k] and size < x.dims[axis]:
            part = step.take(x, axis, range(end - size, end), f"{k}" if k else "")
        parts.append(part)
    return parts


def split_to_sequence(step: Step) -> Sequence[Value]:
    """Translate SplitToSequence: parts of a length or of stated lengths, by default single places."""
    dims, given = step.dims(0), step.known(1, "split")
    axis = step.axis(step.integer("axis", 0), len(dims))
    sizes = [1] if given is None else [int(size) for size in given.reshape(-1)]
    if given is None or given.ndim == 0:
        if sizes[0] < 1:
            raise step.fault("split", f"got {brief(sizes[0])}, a length is at least 1")
        starts = range(0, dims[axis], sizes[0])
        sizes = [min(sizes[0], dims[axis] - start) for start in starts]
    if len(sizes) > MAX_TAKEN:
        raise step.unsupported(f"it makes {len(sizes)} parts, the limit is {MAX_TAKEN}")
    if sum(sizes) != dims[axis] or min(sizes, default=0) < 1:
        raise step.mismatch("split", f"parts {brief(str(sizes))} do not make an axis of {dims[axis]}")
    dropped = given is None and not step.integer("keepdims", 1)
    parts, value = list[Value](), step.need(0)
    for number, end in enumerate(itertools.accumulate(sizes)):
        size = sizes[number]
        part: Value = Constant(dims=(*dims[:axis], size, *dims[axis + 1 :]))
        if isinstance(value, Tensor):
            part = step.take(value, axis, range(end - size, end), f"{number}" if number else "")
        parts.append(arranged(part, [k for k in range(len(dims)) if k != axis]) if dropped else part)
    return [Parts(dims=None, parts=tuple(parts))]


def sequence(step: Step) -> Sequence[Value]:
    """Translate SequenceConstruct and SequenceEmpty."""
    return [Parts(dims=None, parts=tuple(value for value in step.values if value is not None))]


def _listed(step: Step) -> tuple[Constant | Tensor, ...]:
    """Return the parts of a sequence. Raises UnsupportedError if they are not known."""
    value = step.need(0)
    if not isinstance(value, Parts):
        raise step.unsupported("it does not take a known sequence")
    return value.parts


def sequence_at(step: Step) -> Sequence[Value]:
    """Translate SequenceAt with a constant place."""
    parts, place = _listed(step), step.known_integers(1, "position")
    if place is None or len(place) != 1:
        raise step.unsupported("it does not take a stated part of a known sequence")
    return [parts[_places(step, np.array(place), len(parts))[0]]]


def sequence_edited(step: Step) -> Sequence[Value]:
    """Translate SequenceInsert and SequenceErase, by default at the end."""
    parts, is_insert = list(_listed(step)), step.op == "SequenceInsert"
    given = step.known_integers(1 + is_insert, "position") or (len(parts) - (not is_insert),)
    if not -len(parts) <= given[0] < len(parts) + is_insert:
        raise step.fault("position", f"got {brief(given[0])}, the sequence has {len(parts)} parts")
    if is_insert:
        parts.insert(given[0], step.need(1))
    else:
        del parts[given[0]]
    return [Parts(dims=None, parts=tuple(parts))]


def sequence_length(step: Step) -> Sequence[Value]:
    """Translate SequenceLength."""
    return [Constant(dims=(), array=np.array(len(_listed(step))))]


def concat_from_sequence(step: Step) -> Sequence[Value]:
    """Translate ConcatFromSequence: along an axis, or along a new one."""
    parts = list[Value](_listed(step))
    sizes, data = step.operands(parts)
    if step.integer("new_axis", 0) and parts:
        axis = step.axis(step.integer("axis", 0), len(sizes[0]) + 1)
        parts = [arranged(part, shapes.inserted(range(len(sizes[0])), (axis,), None)) for part in parts]
        sizes = [part.dims or () for part in parts]
    if data or not parts:
        return concat(replace(step, values=tuple(parts)))
    return [Constant(dims=shapes.joined(step, sizes, step.axis(step.integer("axis", 0), len(sizes[0]))))]


def slice_(step: Step) -> Sequence[Value]:
    """Translate Slice; nothing if it keeps everything in order."""
    x = step.data()
    kept = shapes.sliced(step, x.dims)
    dims = tuple(len(kept.get(axis, range(size))) for axis, size in enumerate(x.dims))
    if 0 in dims:
        return [Constant(dims=dims)]
    for axis, part in kept.items():
        if part != range(x.dims[axis]):
            x = step.take(x, axis, part)
    return [x]


def gather(step: Step) -> Sequence[Value]:
    """Translate Gather: picking channels is pixelwise, a table look-up is pixelwise in its indices."""
    if isinstance(step.need(0), Constant):
        return [look_up(step)]
    x, index = step.data(), step.need(1)
    axis = step.axis(step.integer("axis", 0), len(x.dims))
    picked = step.dims(1)
    dims = x.dims[:axis] + picked + x.dims[axis + 1 :]
    array = index.array if isinstance(index, Constant) else None
    if isinstance(index, Tensor):
        layout = gridded(dims, [len(dims) - 1])
        return [step.barrier([x, index], dims, layout, because="picks by computed indices")]
    rest = x.layout[:axis], x.layout[axis + 1 :]
    if not x.layout[axis] or array is None or len(picked) > 1:
        layout = (*rest[0], *([x.layout[axis]] * len(picked)), *rest[1])
        if not x.layout[axis]:
            return [step.select(x, dims, layout)]
        return [step.barrier([x], dims, layout, because=OVER_GRID)]
    y = step.take(x, axis, _places(step, array, x.dims[axis]))
    return [y if picked else arranged(y, [k for k in range(len(y.dims)) if k != axis])]


def gather_nd(step: Step) -> Sequence[Value]:
    """Translate GatherND of constant places along one axis: a Gather; others wait for all pixels."""
    x, index, axis = step.data(), step.need(1), step.integer("batch_dims", 0)
    array = index.array if isinstance(index, Constant) else None
    (dims,) = outputs_of(step)[:1]
    if dims is None:
        raise step.fault("indices", "data, indices and batch_dims do not fit")
    along_one = step.dims(1)[1:] == (1,) and not axis
    if along_one and isinstance(index, Constant) and not x.layout[0]:
        return [step.select(x, dims, x.layout)]
    if array is None or not along_one:
        data = [value for value in (x, index) if isinstance(value, Tensor)]
        layout = x.layout if along_one else usual(dims)
        return [step.barrier(data, dims, layout, because="picks by computed indices")]
    return [step.take(x, 0, _places(step, array, x.dims[0]))]


def gather_elements(step: Step) -> Sequence[Value]:
    """Translate GatherElements: along channels pixelwise, as long as it keeps the grid."""
    x, dims = step.data(), step.dims(1)
    axis = step.axis(step.integer("axis", 0), len(x.dims))
    if len(dims) != len(x.dims):
        raise step.mismatch("indices", f"{shapes.shown(dims)} has other axes than {shapes.shown(x.dims)}")
    values = [value for value in step.values[:2] if isinstance(value, Tensor)]
    kept = all(a == b for k, (a, b) in enumerate(zip(x.dims, dims, strict=True)) if k != axis)
    if x.layout[axis] or not kept or len(values) > 1:
        layout = x.layout if kept else usual(dims)
        return [step.barrier(values, dims, layout, because="picks by indices of every pixel")]
    return [step.select(x, dims, x.layout)]


def _places(step: Step, array: Array, length: int) -> list[int]:
    """Return constant indices, counted from the front. Raises SpecError."""
    indices = [int(at) for at in array.reshape(-1)]
    if any(not -length <= at < length for at in indices):
        raise step.fault("indices", f"must be from {-length} to {length - 1}, got {brief(str(indices))}")
    return [at % length for at in indices]


def look_up(step: Step) -> Tensor:
    """Return a row of a constant table for each index: indices are the grid, rows the channels."""
    table, index = step.dims(0), step.data(1)
    axis = step.axis(step.integer("axis", 0), len(table))
    on = step.relayout(index, gridded(index.dims, []))
    dims = table[:axis] + index.dims + table[axis + 1 :]
    return step.select(on, dims, ((),) * axis + on.layout + ((),) * (len(table) - axis - 1))


def tile(step: Step) -> Sequence[Value]:
    """Translate Tile: like Expand where an axis has length 1."""
    x = step.data()
    repeats = step.known_integers(1, "repeats") or ()
    if len(repeats) != len(x.dims) or any(count < 1 for count in repeats):
        raise step.fault("repeats", f"got {brief(str(repeats))} for data of {shapes.shown(x.dims)}")
    dims = tuple(size * count for size, count in zip(x.dims, repeats, strict=True))
    if all(size == 1 or count == 1 for size, count in zip(x.dims, repeats, strict=True)):
        layout = [
            new if size == 1 else old
            for size, old, new in zip(x.dims, x.layout, gridded(dims, [1]), strict=True)
        ]
        return [step.expand(x, dims, layout, "repeat")]
    if max(dims) > MAX_TAKEN:
        return [step.barrier([x], dims, x.layout, because="repeats a very long axis")]
    for axis, count in enumerate(repeats):
        if count > 1:
            x = step.take(x, axis, list(range(x.dims[axis])) * count)
    return [x]


def pick(step: Step) -> Sequence[Value]:
    """Translate ArgMax, ArgMin, TopK: the winners along an axis; both outputs of TopK are alike."""
    x = step.data()
    rank = len(x.dims)
    axis = step.axis(step.integer("axis", -1 if step.op == "TopK" else 0), rank)
    count = 1
    if step.op == "TopK":
        given = step.known_integers(1, "K") if step.opset >= 10 else (step.integer("k", 0),)
        count = given[0] if given else 0
    if not 1 <= count <= x.dims[axis]:
        raise step.fault("K", f"got {brief(count)}, the axis has {x.dims[axis]} values")
    dims = (*x.dims[:axis], count, *x.dims[axis + 1 :])
    if x.layout[axis]:
        y = step.barrier([x], dims, x.layout, because=OVER_GRID)
    else:
        y = step.select(x, dims, x.layout)
    if step.op != "TopK" and not step.integer("keepdims", 1):
        y = arranged(y, [k for k in range(rank) if k != axis])
    return [y]


HANDLERS: dict[str, Handler] = {
    "Concat": concat,
    "QLinearConcat": concat,
    "Split": split,
    "SplitToSequence": split_to_sequence,
    "SequenceConstruct": sequence,
    "SequenceEmpty": sequence,
    "SequenceInsert": sequence_edited,
    "SequenceErase": sequence_edited,
    "SequenceLength": sequence_length,
    "ConcatFromSequence": concat_from_sequence,
    "SequenceAt": sequence_at,
    "Slice": slice_,
    "Gather": gather,
    "GatherND": gather_nd,
    "GatherElements": gather_elements,
    "Tile": tile,
    "ArgMax": pick,
    "ArgMin": pick,
    "TopK": pick,
}
