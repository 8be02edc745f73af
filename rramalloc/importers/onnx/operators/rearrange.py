"""Operators that only move values: nothing where pixels stay together, a selection where they join, cut or
pick along one axis, else a barrier.

Source: docs/sources/model.md 2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rramalloc.importers.axes import (
    IMAGES,
    MAX_TAKEN,
    Atom,
    AxisRoles,
    Dims,
    images_of,
    in_raster_order,
    is_of_images,
    lettered,
)
from rramalloc.importers.axes import reshaped as regrouped
from rramalloc.importers.onnx.operators.elementwise import combine, over
from rramalloc.importers.onnx.operators.windowed import on_grid
from rramalloc.importers.onnx.shapes import (
    joined,
    outputs_of,
    permutation,
    reshape_target,
    shown,
    sliced,
    split_lengths,
)
from rramalloc.importers.onnx.step import Handler, OnnxOperator
from rramalloc.importers.onnx.tensors import (
    Array,
    Constant,
    Parts,
    Tensor,
    Value,
    arranged,
    default_nchw_layout,
    dropped,
    gridded,
    inserted,
    tensor,
)
from rramalloc.network.geometry import MAX_EXTENT, Pads
from rramalloc.records import brief

_SLIDING = ("Conv", "MaxPool", "AveragePool", "LpPool", "QLinearConv", "ConvInteger")
OVER_GRID = "works over the grid"


def reshape_to(step: OnnxOperator, x: Tensor, dims: Dims) -> Tensor:
    """Return the tensor itself if every grid axis survives, `flatten` for one vector, else a barrier."""
    if any(size < 1 for size in dims):
        raise step.mismatch("shape", f"the result {shown(dims)} is empty")
    axes = regrouped(x.dims, x.layout, dims)
    mixed = {k for k, parts in enumerate(axes or []) if len({atom is None for _, atom in parts}) > 1}
    to_vector = len(dims) == 2 and dims[0] == 1
    if to_vector and (x.shape.pixels == 1 or axes is None or mixed):
        return tensor(step.emit("flatten", [x.node], images=1), dims, ((), ()))
    if axes is None:
        return step.barrier([x], dims, _moved(x, dims))
    parts = [(k, size, atom) for k, pieces in enumerate(axes) for size, atom in pieces]
    inner = tensor(x.node, [size for _, size, _ in parts], [(atom,) if atom else () for *_, atom in parts])
    if mixed:
        inner = step.channelled(inner, [at for at, (k, *_) in enumerate(parts) if k in mixed], "")
    roles: list[list[Atom]] = [[] for _ in dims]
    for (k, *_), role in zip(parts, inner.layout, strict=True):
        roles[k] += role
    return tensor(inner.node, dims, [tuple(role) for role in roles])


def _moved(x: Tensor, target: Dims) -> AxisRoles:
    """Return the layout after a reshape that moves pixels: an axis as long as one from before keeps its role.

    Among the others the first is channels if there were channels, the rest is the grid.
    """
    roles: list[str] = []
    at, left = 0, [(size, "C" if not role else "Y") for size, role in zip(x.dims, x.layout, strict=True)]
    for size in target:
        same = next((k for k in range(at, len(left)) if left[k][0] == size > 1), None)
        if same is None:
            roles.append("?" if size > 1 else "1")
        else:
            roles.append(left[same][1])
            at = same + 1
    channels = "C" not in roles and x.shape.channels > 1
    for k, role in enumerate(roles):
        if role == "?":
            roles[k], channels = ("C", False) if channels else ("Y", False)
    return gridded(target, [k for k, role in enumerate(roles) if role != "Y"])


def reshape(step: OnnxOperator) -> Sequence[Value]:
    """Translate Reshape, and Flatten to (1, F), or to a matrix if the axis says so."""
    x = step.data()
    if step.op == "Reshape":
        target = step.integers("shape") if step.opset < 5 else step.known_integers(1, "shape")
        return [reshape_to(step, x, reshape_target(step, x.dims, target or ()))]
    rank, axis = len(x.dims), step.integer("axis", 1)
    axis = rank if axis == rank else step.axis(axis, rank)
    return [reshape_to(step, x, (math.prod(x.dims[:axis]), math.prod(x.dims[axis:])))]


def transpose(step: OnnxOperator) -> Sequence[Value]:
    """Translate Transpose: only the meaning of axes moves."""
    x = step.data()
    return [arranged(x, permutation(step, len(x.dims)))]


def squeeze(step: OnnxOperator) -> Sequence[Value]:
    """Translate Squeeze. Raises NetworkError if an axis is longer than 1."""
    x = step.data()
    axes = step.axes_of(len(x.dims))
    axes = tuple(axis for axis, size in enumerate(x.dims) if size == 1) if axes is None else axes
    for axis in axes:
        if x.dims[axis] != 1:
            raise step.mismatch("axes", f"axis {axis} of {shown(x.dims)} is longer than 1")
    return [dropped(x, axes)]


def unsqueeze(step: OnnxOperator) -> Sequence[Value]:
    """Translate Unsqueeze."""
    x, given = step.data(), step.integers("axes")
    given = (step.known_integers(1, "axes") if step.opset >= 13 else None) if given is None else given
    if given is None or len(given) > 64:
        raise step.fault("axes", "this attribute is missing" if given is None else f"got {len(given)} axes")
    rank = len(x.dims) + len(given)
    return [inserted(x, step.axes(given, rank), rank)]


def pad(step: OnnxOperator) -> Sequence[Value]:
    """Translate Pad: a zero border goes to the window that alone reads it, else other places are taken."""
    x, mode = step.data(), step.text("mode", "constant")
    rank = len(x.dims)
    given = step.integers("paddings" if step.opset < 2 else "pads") or ()
    given = step.known_integers(1, "pads") or () if step.opset >= 11 and not given else given
    axes = step.known_integers(3, "axes") if step.opset >= 18 else None
    where = range(rank) if axes is None else [step.axis(axis, rank, "axes") for axis in axes]
    if len(given) != 2 * len(where):
        raise step.fault("pads", f"got {len(given)} values, {len(where)} axes have {2 * len(where)}")
    around = {axis: (given[k], given[k + len(where)]) for k, axis in enumerate(where)}
    dims = tuple(size + sum(around.get(axis, (0, 0))) for axis, size in enumerate(x.dims))
    touched = [axis for axis, pair in around.items() if pair != (0, 0)]
    of_channels = [x.dims[axis] > 1 and not x.layout[axis] for axis in touched]
    if any(not 1 <= size <= MAX_EXTENT for size in dims):
        raise step.fault("pads", f"got {brief(str(given))}, the result {shown(dims)} is not a shape")
    if not touched:
        return [step.pixelwise(x, "identity")]
    if all(of_channels):
        return [step.select(x, dims, x.layout)]
    if mode == "constant" and _slides(step, x, around):
        source, roles = on_grid(step, x)
        edges = {role: around.get(axis, (0, 0)) for axis, role in enumerate(roles, start=2)}
        (top, bottom), (left, right) = edges.get("Y", (0, 0)), edges.get("X", (0, 0))
        return [replace(tensor(source.node, dims, source.layout), pads=Pads(top, left, bottom, right))]
    if any(of_channels) or max(dims) > MAX_TAKEN:
        return [step.barrier([x], dims, x.layout, because="pads channels and pixels at once")]
    for axis in touched:
        x = step.take(x, axis, _padded(x.dims[axis], around[axis], mode))
    return [x]


def _padded(size: int, pair: tuple[int, int], mode: str) -> list[int]:
    """Return the source of each element along a padded axis, -1 for zeros."""
    places = range(-pair[0], size + pair[1])
    if mode == "edge":
        return [min(max(at, 0), size - 1) for at in places]
    if mode == "wrap":
        return [at % size for at in places]
    if mode == "reflect" and size > 1:
        return [size - 1 - abs(size - 1 - at % (2 * size - 2)) for at in places]
    return [at if 0 <= at < size else -1 for at in places]


def _slides(step: OnnxOperator, x: Tensor, around: dict[int, tuple[int, int]]) -> bool:
    """Return True if one window alone reads the padded data, and can take over the border."""
    readers = step.builder.uses.get(step.proto.output[0], ())
    is_window = len(readers) == 1 and readers[0][0] in _SLIDING and readers[0][1] == 0
    if not is_window or len(x.dims) not in (3, 4) or x.dims[0] != 1:
        return False
    is_grid = x.layout == lettered(x.dims, "1CYX"[: len(x.dims)])
    return is_grid and all(min(pair) >= 0 and (axis > 1 or pair == (0, 0)) for axis, pair in around.items())


def depth_to_space(step: OnnxOperator) -> Sequence[Value]:
    """Translate DepthToSpace, an upsampling with fewer channels, and SpaceToDepth, a pooling with more."""
    x, _ = on_grid(step, step.data())
    block, grows = step.integer("blocksize", 0), step.op == "DepthToSpace"
    divided = (x.dims[1],) if grows else x.dims[2:]
    if len(x.dims) != 4 or block < 1 or any(size % (block**2 if grows else block) for size in divided):
        raise step.mismatch("blocksize", f"got {brief(block)} for data of {shown(x.dims)}")
    count, channels, height, width = x.dims
    if grows:
        node = step.emit("upsample", [x.node], "upsample", scale=(block, block))
        channels, sides = channels // block**2, (height * block, width * block)
    else:
        node = step.emit("maxpool", [x.node], "blocks", kernel=(block, block), stride=(block, block))
        channels, sides = channels * block**2, (height // block, width // block)
    dims = (count, x.dims[1], *sides)
    layout = (x.layout[0], *lettered(dims, "1CYX")[1:])
    return [step.select(tensor(node, dims, layout), (count, channels, *sides), layout)]


def concat(step: OnnxOperator) -> Sequence[Value]:
    """Translate Concat: constants only add channels; along the grid zeros stand around each operand."""
    values = [v for v in (step.values[2::3] if step.op == "QLinearConcat" else step.values) if v is not None]
    sizes, data = step.operands(values)
    axis = step.axis(step.integer("axis", 1), len(sizes[0]))
    dims = joined(step, sizes, axis)
    lead = max(data, key=lambda x: (x.shape.pixels, x.shape.channels))
    if len(data) == len(values) and all(is_of_images(x.layout[axis]) or x.dims[axis] == 1 for x in data):
        roles = [lead.layout[k] if k != axis else () for k in range(len(dims))]
        own = [
            [(Atom(x.dims[axis], IMAGES, (-1,)),) if k == axis else role for k, role in enumerate(roles)]
            for x in data
        ]
        if any(x.layout[axis] for x in data) and not images_of(roles) > 1:
            parts = [
                step.relayout(x, want, f"part{at}")
                for at, (x, want) in enumerate(zip(data, own, strict=True))
            ]
            name = step.emit("concat", [x.node for x in parts], images=dims[axis])
            roles[axis] = (Atom(dims[axis], IMAGES, (-1,)),)
            return [tensor(name, dims, roles)]
    if any(x.layout[axis] for x in data):
        return [_concat_along_grid(step, values, dims, axis)]
    layout = (*lead.layout[:axis], (), *lead.layout[axis + 1 :])
    on = [step.relayout(x, layout) for x in data]
    total = sum(x.dims[axis] for x in on)
    is_all = total == dims[axis]
    if len(on) == 1:
        return [on[0] if is_all else step.select(on[0], dims, layout)]
    name = step.emit("concat", [x.node for x in on], "" if is_all else "data")
    part = tensor(name, (*dims[:axis], total, *dims[axis + 1 :]), layout)
    return [part if is_all else step.select(part, dims, layout)]


def _concat_along_grid(step: OnnxOperator, values: Sequence[Value], dims: Dims, axis: int) -> Tensor:
    """Add up operands one behind the other on the grid, each with zeros around it."""
    placed, at, data = list[Tensor](), 0, [x for x in values if isinstance(x, Tensor)]
    lead = max(data, key=lambda x: x.shape.pixels)
    several = len(lead.layout[axis]) != 1
    if (several and not in_raster_order(lead.layout, axis)) or dims[axis] > MAX_TAKEN:
        return step.barrier(data, dims, lead.layout, because=OVER_GRID)
    for number, value in enumerate(values):
        length = step.size(value)[axis]
        if isinstance(value, Tensor):
            roles = list(value.layout)
            if not several and not value.layout[axis]:
                (atom,) = lead.layout[axis]
                roles = list(lead.layout)
                roles[axis] = (Atom(length, atom.grid, atom.level),)
            behind = dims[axis] - at - length
            placed.append(step.between(step.relayout(value, roles), axis, at, behind, f"part{number}"))
        at += length
    return combine(step, "add", placed) if len(placed) > 1 else placed[0]


def _pieces(step: OnnxOperator, value: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
    """Return the parts of these lengths along an axis."""
    dims, parts = step.size(value), list[Value]()
    for number, end in enumerate(itertools.accumulate(sizes)):
        size = sizes[number]
        part = value
        if not size or isinstance(value, Constant):
            part = Constant(dims=(*dims[:axis], size, *dims[axis + 1 :]))
        elif size < dims[axis]:
            part = step.take(value, axis, range(end - size, end), f"{number}" if number else "")
        parts.append(part)
    return parts


def split(step: OnnxOperator) -> Sequence[Value]:
    """Split: one `select` for each part."""
    x = step.data()
    return _pieces(step, x, *split_lengths(step, x.dims))


def split_to_sequence(step: OnnxOperator) -> Sequence[Value]:
    """Translate SplitToSequence: parts of a length or of stated lengths, by default single places."""
    dims, given = step.dims(0), step.known(1, "split")
    axis = step.axis(step.integer("axis", 0), len(dims))
    sizes = [1] if given is None else [int(size) for size in given.reshape(-1)]
    if given is None or given.ndim == 0:
        if sizes[0] < 1:
            raise step.fault("split", f"got {brief(sizes[0])}, a length is at least 1")
        sizes = [min(sizes[0], dims[axis] - start) for start in range(0, dims[axis], sizes[0])]
    if len(sizes) > MAX_TAKEN:
        raise step.unsupported(f"it makes {len(sizes)} parts, the limit is {MAX_TAKEN}")
    if sum(sizes) != dims[axis] or min(sizes, default=0) < 1:
        raise step.mismatch("split", f"parts {brief(str(sizes))} do not make an axis of {dims[axis]}")
    parts = _pieces(step, step.need(0), axis, sizes)
    if given is None and not step.integer("keepdims", 1):
        parts = [dropped(part, (axis,)) for part in parts]
    return [Parts(dims=None, parts=tuple(parts))]


def sequence(step: OnnxOperator) -> Sequence[Value]:
    """Translate the operators on sequences, whose parts must be known. Raises UnsupportedError."""
    if step.op in ("SequenceConstruct", "SequenceEmpty"):
        return [Parts(dims=None, parts=tuple(value for value in step.values if value is not None))]
    value, is_insert = step.need(0), step.op == "SequenceInsert"
    if not isinstance(value, Parts):
        raise step.unsupported("it does not take a known sequence")
    parts, count = list[Value](value.parts), len(value.parts)
    if step.op == "SequenceLength":
        return [Constant(dims=(), array=np.array(count))]
    if step.op == "ConcatFromSequence":
        return _concat_parts(step, parts)
    place = step.known_integers(1 + is_insert, "position")
    if place is None and step.op != "SequenceAt":
        place = (count - (not is_insert),)
    if place is None or len(place) != 1 or not -count <= place[0] < count + is_insert:
        raise step.fault("position", f"got {brief(str(place))}, the sequence has {count} parts")
    if step.op == "SequenceAt":
        return [parts[place[0]]]
    if is_insert:
        parts.insert(place[0], step.need(1))
    else:
        del parts[place[0]]
    return [Parts(dims=None, parts=tuple(parts))]


def _concat_parts(step: OnnxOperator, parts: list[Value]) -> Sequence[Value]:
    """Join the parts along an axis, or along a new one."""
    if step.integer("new_axis", 0) and parts:
        rank = len(step.size(parts[0])) + 1
        axis = step.axis(step.integer("axis", 0), rank)
        parts = [inserted(part, (axis,), rank) for part in parts]
    if not parts or any(isinstance(part, Tensor) for part in parts):
        return concat(replace(step, values=tuple(parts)))
    sizes = [step.size(part) for part in parts]
    return [Constant(dims=joined(step, sizes, step.axis(step.integer("axis", 0), len(sizes[0]))))]


def slice_(step: OnnxOperator) -> Sequence[Value]:
    """Translate Slice; nothing if it keeps everything in order."""
    x = step.data()
    kept = sliced(step, x.dims)
    if not all(kept.values()):
        return [Constant(dims=tuple(len(kept.get(axis, range(n))) for axis, n in enumerate(x.dims)))]
    for axis, part in kept.items():
        if part != range(x.dims[axis]):
            x = step.take(x, axis, part)
    return [x]


def gather(step: OnnxOperator) -> Sequence[Value]:
    """Translate Gather: picking channels is pixelwise, a table look-up is pixelwise in its indices."""
    if isinstance(step.need(0), Constant):
        return [_look_up(step, 0, 1)]
    x, index, picked = step.data(), step.need(1), step.dims(1)
    axis = step.axis(step.integer("axis", 0), len(x.dims))
    dims = x.dims[:axis] + picked + x.dims[axis + 1 :]
    if isinstance(index, Tensor):
        layout: AxisRoles = gridded(dims, [len(dims) - 1])
        return [step.barrier([x, index], dims, layout, because="picks by computed indices")]
    layout = (*x.layout[:axis], *([x.layout[axis]] * len(picked)), *x.layout[axis + 1 :])
    if not x.layout[axis]:
        return [step.select(x, dims, layout)]
    if index.array is None or len(picked) > 1:
        return [step.barrier([x], dims, layout, because=OVER_GRID)]
    y = step.take(x, axis, _places(step, index.array, x.dims[axis]))
    return [y if picked else dropped(y, (axis,))]


def _look_up(step: OnnxOperator, table_at: int, index_at: int) -> Tensor:
    """Return a row of a constant table for each index: indices are the grid, rows the channels."""
    table, index = step.dims(table_at), step.data(index_at)
    axis = step.axis(step.integer("axis", 0), len(table))
    on = step.relayout(index, gridded(index.dims, []))
    dims = table[:axis] + index.dims + table[axis + 1 :]
    return step.select(on, dims, ((),) * axis + on.layout + ((),) * (len(table) - axis - 1))


def quantised_rows(step: OnnxOperator) -> Sequence[Value]:
    """Translate GatherBlockQuantized: rows of a constant table of few bits, perhaps several in a byte."""
    table, bits = step.need(0), step.integer("bits", 4)
    if step.integer("gather_axis", 0) or not isinstance(table, Constant) or not table.dims:
        raise step.unsupported("only rows of a constant table can be expressed, along its axis 0")
    in_byte = 8 // bits if table.bits == 8 and 0 < bits < 8 else 1
    wide = replace(table, dims=(*table.dims[:-1], table.dims[-1] * in_byte))
    return gather(replace(step, values=(wide, *step.values[1:])))


def embedded(step: OnnxOperator) -> Sequence[Value]:
    """Translate EmbedLayerNormalization: rows of tables for tokens, places and segments, normalised."""
    places = ((2, 0), (3, 8), (4, 1))
    is_row = [isinstance(step.value(a), Constant) and isinstance(step.value(b), Tensor) for a, b in places]
    rows = [_look_up(step, *pair) for pair, is_one in zip(places, is_row, strict=True) if is_one]
    if not rows:
        raise step.unsupported("none of its tokens, places and segments is data")
    total = combine(step, "add", rows, "sum") if len(rows) > 1 else rows[0]
    mask = step.value(7)
    length: Value = Constant(dims=total.dims[:1])
    if isinstance(mask, Tensor) and any(step.proto.output[1:2]):
        length = step.barrier([mask], mask.dims[:1], mask.layout[:1], "mask")
    return [over(step, total, (len(total.dims) - 1,), "layernorm"), length, total]


def gather_nd(step: OnnxOperator) -> Sequence[Value]:
    """Translate GatherND of a constant table: a look-up; of constant places along one axis: a Gather; others
    wait for all pixels."""
    table, index, dims = step.need(0), step.need(1), outputs_of(step)[0]
    if dims is None:
        raise step.fault("indices", "data, indices and batch_dims do not fit")
    if isinstance(table, Constant):
        places = step.data(1)
        on = step.relayout(places, gridded(places.dims, [len(places.dims) - 1]))
        return [step.select(on, dims, on.layout[:-1] + ((),) * (len(dims) - len(on.layout) + 1))]
    x = table
    along_one = step.dims(1)[1:] == (1,) and not step.integer("batch_dims", 0)
    if along_one and isinstance(index, Constant) and not x.layout[0]:
        return [step.select(x, dims, x.layout)]
    if along_one and isinstance(index, Constant) and index.array is not None:
        return [step.take(x, 0, _places(step, index.array, x.dims[0]))]
    data = [value for value in (x, index) if isinstance(value, Tensor)]
    layout = x.layout if along_one else default_nchw_layout(dims)
    return [step.barrier(data, dims, layout, because="picks by computed indices")]


def gather_elements(step: OnnxOperator) -> Sequence[Value]:
    """Translate GatherElements: along channels pixelwise, as long as it keeps the grid."""
    x, dims = step.need(0), step.dims(1)
    dims_of_data = step.size(x)
    axis = step.axis(step.integer("axis", 0), len(dims_of_data))
    if len(dims) != len(dims_of_data):
        raise step.mismatch("indices", f"{shown(dims)} has other axes than {shown(dims_of_data)}")
    if isinstance(x, Constant):
        return [step.pixelwise(step.data(1), "identity")]
    values = [value for value in step.values[:2] if isinstance(value, Tensor)]
    kept = all(a == b for k, (a, b) in enumerate(zip(x.dims, dims, strict=True)) if k != axis)
    if not x.layout[axis] and kept and len(values) == 1:
        return [step.select(x, dims, x.layout)]
    layout = x.layout if kept else default_nchw_layout(dims)
    return [step.barrier(values, dims, layout, because="picks by indices of every pixel")]


def _places(step: OnnxOperator, array: Array, length: int) -> list[int]:
    """Return constant indices, counted from the front. Raises SpecError."""
    indices = [int(at) for at in array.reshape(-1)]
    if any(not -length <= at < length for at in indices):
        raise step.fault("indices", f"must be from {-length} to {length - 1}, got {brief(str(indices))}")
    return [at % length for at in indices]


def tile(step: OnnxOperator) -> Sequence[Value]:
    """Translate Tile: like Expand where an axis has length 1."""
    x, repeats = step.data(), step.known_integers(1, "repeats") or ()
    if len(repeats) != len(x.dims) or any(count < 1 for count in repeats):
        raise step.fault("repeats", f"got {brief(str(repeats))} for data of {shown(x.dims)}")
    dims = tuple(size * count for size, count in zip(x.dims, repeats, strict=True))
    if all(size == 1 or count == 1 for size, count in zip(x.dims, repeats, strict=True)):
        axes = zip(x.dims, x.layout, gridded(dims, [1]), strict=True)
        return [step.expand(x, dims, [new if size == 1 else old for size, old, new in axes], "repeat")]
    if max(dims) > MAX_TAKEN:
        return [step.barrier([x], dims, x.layout, because="repeats a very long axis")]
    for axis, count in enumerate(repeats):
        if count > 1:
            x = step.take(x, axis, list(range(x.dims[axis])) * count)
    return [x]


def pick(step: OnnxOperator) -> Sequence[Value]:
    """Translate ArgMax, ArgMin, TopK: the winners along an axis; both outputs of TopK are alike."""
    x, is_top = step.data(), step.op == "TopK"
    axis, count = step.axis(step.integer("axis", -1 if is_top else 0), len(x.dims)), 1
    if is_top:
        given = step.known_integers(1, "K") if step.opset >= 10 else (step.integer("k", 0),)
        count = given[0] if given else 0
    if not 1 <= count <= x.dims[axis]:
        raise step.fault("K", f"got {brief(count)}, the axis has {x.dims[axis]} values")
    dims = (*x.dims[:axis], count, *x.dims[axis + 1 :])
    if x.layout[axis]:
        y = step.barrier([x], dims, x.layout, because=OVER_GRID)
    else:
        y = step.select(x, dims, x.layout)
    return [y if is_top or step.integer("keepdims", 1) else dropped(y, (axis,))]


_FAMILIES: dict[Handler, str] = {
    reshape: "Reshape Flatten",
    transpose: "Transpose",
    squeeze: "Squeeze",
    unsqueeze: "Unsqueeze",
    pad: "Pad",
    depth_to_space: "DepthToSpace SpaceToDepth",
    concat: "Concat QLinearConcat",
    split: "Split",
    split_to_sequence: "SplitToSequence",
    sequence: "SequenceConstruct SequenceEmpty SequenceInsert SequenceErase SequenceLength SequenceAt "
    "ConcatFromSequence",
    slice_: "Slice",
    gather: "Gather",
    quantised_rows: "GatherBlockQuantized",
    gather_nd: "GatherND",
    gather_elements: "GatherElements",
    embedded: "EmbedLayerNormalization",
    tile: "Tile",
    pick: "ArgMax ArgMin TopK",
}
HANDLERS: dict[str, Handler] = {name: rule for rule, names in _FAMILIES.items() for name in names.split()}
