"""Operators that only rearrange: nothing where pixels stay together, else a barrier.

Source: docs/sources/model.md 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rramalloc.importers.onnx import shapes
from rramalloc.importers.onnx.drawing import Drawing, Handler, barrier, pixelwise, select
from rramalloc.importers.onnx.operators.windowed import on_grid
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import Dims, Tensor, Value, canonical, tensor
from rramalloc.network.geometry import Pads
from rramalloc.records import brief

_Block = tuple[list[int], list[int]]
_SLIDING = ("Conv", "MaxPool", "AveragePool", "LpPool", "QLinearConv", "ConvInteger")


def reshape_to(drawing: Drawing, step: Step, x: Tensor, dims: Dims) -> Tensor:
    """Nothing if every grid axis survives, `flatten` for one vector, else a barrier."""
    if any(size < 1 for size in dims):
        raise step.mismatch("shape", f"the result {shapes.shown(dims)} is empty")
    layout, keeps = regroup(x.dims, x.layout, dims)
    if len(dims) == 2 and dims[0] == 1 and (x.shape.pixels == 1 or set(layout) <= {"C", "1"}):
        return tensor(drawing.emit(step, "flatten", [x.node]), dims, "1C")
    if keeps:
        return tensor(x.node, dims, layout)
    return barrier(drawing, step, [x], dims, layout)


def reshape(drawing: Drawing, step: Step) -> Sequence[Value]:
    """Reshape; the target may hold the file's batch."""
    x = step.data()
    target = step.known_integers(1, "shape")
    return [reshape_to(drawing, step, x, shapes.reshaped(step, x.dims, target or (), drawing.batch))]


def flatten(drawing: Drawing, step: Step) -> Sequence[Value]:
    """Flatten to (1, F), or to a matrix if the axis says so."""
    x = step.data()
    rank = len(x.dims)
    axis = step.integer("axis", 1)
    axis = rank if axis == rank else step.axis(axis, rank)
    return [reshape_to(drawing, step, x, (math.prod(x.dims[:axis]), math.prod(x.dims[axis:])))]


def transpose(drawing: Drawing, step: Step) -> Sequence[Value]:
    """Transpose: only the meaning of axes moves, unless axes that make up the rows change order."""
    x = step.data()
    perm = shapes.permutation(step, len(x.dims))
    dims, layout = tuple(x.dims[axis] for axis in perm), "".join(x.layout[axis] for axis in perm)
    for role in "YX":
        order = [axis for axis in perm if x.layout[axis] == role]
        if order != sorted(order):
            return [barrier(drawing, step, [x], dims, layout)]
    return [tensor(x.node, dims, layout)]


def squeeze(_: Drawing, step: Step) -> Sequence[Value]:
    """Squeeze."""
    x = step.data()
    gone = shapes.squeezed(step, x.dims)
    kept = [axis for axis in range(len(x.dims)) if axis not in gone]
    return [tensor(x.node, [x.dims[k] for k in kept], "".join(x.layout[k] for k in kept))]


def unsqueeze(_: Drawing, step: Step) -> Sequence[Value]:
    """Unsqueeze."""
    x = step.data()
    axes = shapes.unsqueezed(step, x.dims)
    layout = list(x.layout)
    for axis in axes:
        layout.insert(axis, "1")
    return [tensor(x.node, shapes.inserted(x.dims, axes), "".join(layout))]


def pad(drawing: Drawing, step: Step) -> Sequence[Value]:
    """Pad: a zero border goes to the convolution or pooling that alone reads it, else it is a barrier."""
    x = step.data()
    rank = len(x.dims)
    given = step.integers("pads") or (step.known_integers(1, "pads") if step.opset >= 11 else None) or ()
    axes = step.known_integers(3, "axes") if step.opset >= 18 else None
    where = tuple(range(rank)) if axes is None else tuple(step.axis(axis, rank, "axes") for axis in axes)
    if len(given) != 2 * len(where):
        raise step.fault("pads", f"got {len(given)} values, {len(where)} axes have {2 * len(where)}")
    around = {axis: (given[k], given[k + len(where)]) for k, axis in enumerate(where)}
    dims = tuple(size + sum(around.get(axis, (0, 0))) for axis, size in enumerate(x.dims))
    touched = [axis for axis, pair in around.items() if pair != (0, 0)]
    if any(not 1 <= size <= shapes.MAX_DIM for size in dims):
        raise step.fault("pads", f"got {brief(str(given))}, the result {shapes.shown(dims)} is not a shape")
    if not touched:
        return [pixelwise(drawing, step, x, "identity")]
    if all(x.layout[axis] == "C" for axis in touched):
        return [select(drawing, step, x, dims, x.layout)]
    if step.text("mode", "constant") == "constant" and _slides(drawing, step, x, around):
        source, roles = on_grid(drawing, step, x)
        edges = {role: around.get(axis, (0, 0)) for axis, role in enumerate(roles, start=2)}
        (top, bottom), (left, right) = edges.get("Y", (0, 0)), edges.get("X", (0, 0))
        layout = "1C" + roles
        return [replace(tensor(source.node, dims, layout), pads=Pads(top, left, bottom, right))]
    layout = x.layout if len(dims) not in (3, 4) else "1C" + "YX"[: len(dims) - 2]
    layout = "".join(old if old != "1" else new for old, new in zip(x.layout, layout, strict=True))
    return [barrier(drawing, step, [x], dims, layout, because="does not pad a single convolution with zeros")]


def _slides(drawing: Drawing, step: Step, x: Tensor, around: dict[int, tuple[int, int]]) -> bool:
    readers = drawing.uses.get(step.proto.output[0], ())
    if len(readers) != 1 or readers[0][0] not in _SLIDING or readers[0][1] != 0 or len(x.dims) not in (3, 4):
        return False
    fits = x.dims[0] == 1 and x.layout[1] in "C1"
    grid = all(have in (want, "1") for have, want in zip(x.layout[2:], "YX", strict=False))
    return (
        fits
        and grid
        and all(min(pair) >= 0 and (axis > 1 or pair == (0, 0)) for axis, pair in around.items())
    )


def depth_to_space(drawing: Drawing, step: Step) -> Sequence[Value]:
    """DepthToSpace: each pixel becomes a block, which is exactly an upsampling with fewer channels."""
    x, _ = on_grid(drawing, step, step.data())
    block = step.integer("blocksize", 0)
    if len(x.dims) != 4 or block < 1 or x.dims[1] % (block * block):
        raise step.mismatch("blocksize", f"got {brief(block)} for data of {shapes.shown(x.dims)}")
    _, channels, height, width = x.dims
    big = (1, channels, height * block, width * block)
    wide = tensor(drawing.emit(step, "upsample", [x.node], "upsample", scale=(block, block)), big, "1CYX")
    return [select(drawing, step, wide, (1, channels // block**2, *big[2:]), "1CYX")]


def space_to_depth(drawing: Drawing, step: Step) -> Sequence[Value]:
    """SpaceToDepth: a block of pixels becomes one, which is exactly a pooling with more channels."""
    x, _ = on_grid(drawing, step, step.data())
    block = step.integer("blocksize", 0)
    if len(x.dims) != 4 or block < 1 or x.dims[2] % block or x.dims[3] % block:
        raise step.mismatch("blocksize", f"got {brief(block)} for data of {shapes.shown(x.dims)}")
    _, channels, height, width = x.dims
    small = (1, channels, height // block, width // block)
    pooled = drawing.emit(step, "maxpool", [x.node], "blocks", kernel=(block, block), stride=(block, block))
    return [
        select(drawing, step, tensor(pooled, small, "1CYX"), (1, channels * block**2, *small[2:]), "1CYX")
    ]


def regroup(dims: Dims, layout: str, target: Dims) -> tuple[str, bool]:
    """Layout after a reshape, and whether every grid axis survives, so that pixels stay together.

    Old and new axes are matched in the smallest blocks with equal products. A block of channels stays
    channels; a grid axis survives alone. A grid that is cut or merged is a new grid; a block that mixes
    channels and grid becomes channels if it is one axis, else keeps channels where they were, first or last.
    """
    roles = ["1"] * len(target)
    keeps = True
    for old, new in _blocks(dims, target):
        kinds = {layout[axis] for axis in old}
        if kinds == {"C"}:
            fill = ["C"] * len(new)
        elif len(old) == len(new) == 1:
            fill = [layout[old[0]]]
        else:
            keeps = False
            fill = _mixed([layout[axis] for axis in old], len(new))
        for axis, role in zip(new, fill, strict=True):
            roles[axis] = role
    if not keeps:
        grid = [axis for axis, role in enumerate(roles) if role in "YX" and target[axis] > 1]
        for axis in grid:
            roles[axis] = "X" if len(grid) > 1 and axis == grid[-1] else "Y"
    return canonical(target, "".join(roles)), keeps


def _mixed(old: list[str], count: int) -> list[str]:
    if "C" not in old:
        return ["Y"] * count
    if count == 1:
        return ["C"]
    return ["Y"] * (count - 1) + ["C"] if old[-1] == "C" else ["C"] + ["Y"] * (count - 1)


def _blocks(dims: Dims, target: Dims) -> Iterator[_Block]:
    """Axes longer than 1 on both sides, in blocks with equal products."""
    left = [axis for axis, size in enumerate(dims) if size != 1]
    right = [axis for axis, size in enumerate(target) if size != 1]
    i = j = 0
    while i < len(left) and j < len(right):
        old, new = [left[i]], [right[j]]
        a, b = dims[left[i]], target[right[j]]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                a, i = a * dims[left[i]], i + 1
                old.append(left[i - 1])
            else:
                b, j = b * target[right[j]], j + 1
                new.append(right[j - 1])
        yield old, new


HANDLERS: dict[str, Handler] = {
    "Reshape": reshape,
    "Flatten": flatten,
    "Transpose": transpose,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Pad": pad,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
}
