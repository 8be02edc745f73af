"""Operators that only rearrange: nothing where pixels stay together, else a barrier.

Source: docs/sources/model.md 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from rramalloc.importers.axes import MAX_TAKEN, Atom, Dims, Layout, lettered, reshaped
from rramalloc.importers.onnx import shapes
from rramalloc.importers.onnx.operators.windowed import on_grid
from rramalloc.importers.onnx.step import Handler, Step
from rramalloc.importers.onnx.tensors import Tensor, Value, arranged, tensor
from rramalloc.network.geometry import MAX_EXTENT, Pads
from rramalloc.records import brief

_SLIDING = ("Conv", "MaxPool", "AveragePool", "LpPool", "QLinearConv", "ConvInteger")


def reshape_to(step: Step, x: Tensor, dims: Dims) -> Tensor:
    """Return the tensor itself if every grid axis survives, `flatten` for one vector, else a barrier."""
    if any(size < 1 for size in dims):
        raise step.mismatch("shape", f"the result {shapes.shown(dims)} is empty")
    axes = reshaped(x.dims, x.layout, dims)
    mixed = {k for k, parts in enumerate(axes or []) if len({atom is None for _, atom in parts}) > 1}
    to_vector = len(dims) == 2 and dims[0] == 1
    if to_vector and (x.shape.pixels == 1 or axes is None or mixed):
        return tensor(step.emit("flatten", [x.node]), dims, ((), ()))
    if axes is None:
        return step.barrier([x], dims, regroup(x, dims))
    parts = [(k, size, atom) for k, own in enumerate(axes) for size, atom in own]
    inner = tensor(x.node, [size for _, size, _ in parts], [(atom,) if atom else () for *_, atom in parts])
    if mixed:
        inner = step.channelled(inner, [at for at, (k, *_) in enumerate(parts) if k in mixed], "")
    roles: list[list[Atom]] = [[] for _ in dims]
    for (k, *_), role in zip(parts, inner.layout, strict=True):
        roles[k] += role
    return tensor(inner.node, dims, [tuple(role) for role in roles])


def reshape(step: Step) -> Sequence[Value]:
    """Translate Reshape; the target may hold the file's batch."""
    x = step.data()
    target = step.known_integers(1, "shape")
    return [reshape_to(step, x, shapes.reshaped(step, x.dims, target or (), step.drawing.batch))]


def flatten(step: Step) -> Sequence[Value]:
    """Flatten to (1, F), or to a matrix if the axis says so."""
    x = step.data()
    rank = len(x.dims)
    axis = step.integer("axis", 1)
    axis = rank if axis == rank else step.axis(axis, rank)
    return [reshape_to(step, x, (math.prod(x.dims[:axis]), math.prod(x.dims[axis:])))]


def transpose(step: Step) -> Sequence[Value]:
    """Translate Transpose: only the meaning of axes moves."""
    x = step.data()
    return [arranged(x, shapes.permutation(step, len(x.dims)))]


def squeeze(step: Step) -> Sequence[Value]:
    """Translate Squeeze."""
    x = step.data()
    gone = shapes.squeezed(step, x.dims)
    return [arranged(x, [axis for axis in range(len(x.dims)) if axis not in gone])]


def unsqueeze(step: Step) -> Sequence[Value]:
    """Translate Unsqueeze."""
    x = step.data()
    return [arranged(x, shapes.inserted(range(len(x.dims)), shapes.unsqueezed(step, x.dims), None))]


def pad(step: Step) -> Sequence[Value]:
    """Translate Pad: a zero border goes to the convolution or pooling that alone reads it, else it is a
    barrier."""
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
    if any(not 1 <= size <= MAX_EXTENT for size in dims):
        raise step.fault("pads", f"got {brief(str(given))}, the result {shapes.shown(dims)} is not a shape")
    if not touched:
        return [step.pixelwise(x, "identity")]
    if all(x.dims[axis] > 1 and not x.layout[axis] for axis in touched):
        return [step.select(x, dims, x.layout)]
    if step.text("mode", "constant") == "constant" and _slides(step, x, around):
        source, roles = on_grid(step, x)
        edges = {role: around.get(axis, (0, 0)) for axis, role in enumerate(roles, start=2)}
        (top, bottom), (left, right) = edges.get("Y", (0, 0)), edges.get("X", (0, 0))
        return [replace(tensor(source.node, dims, source.layout), pads=Pads(top, left, bottom, right))]
    mode = step.text("mode", "constant")
    if any(x.dims[axis] > 1 and not x.layout[axis] for axis in touched) or max(dims) > MAX_TAKEN:
        return [step.barrier([x], dims, x.layout, because="pads channels and pixels at once")]
    for axis in touched:
        x = step.take(x, axis, _padded(x.dims[axis], around[axis], mode))
    return [x]


def _padded(size: int, pair: tuple[int, int], mode: str) -> list[int]:
    """Return the source of each element along a padded axis, -1 for zeros."""
    places = list[int]()
    for at in range(-pair[0], size + pair[1]):
        inside = 0 <= at < size
        if inside:
            places.append(at)
        elif mode == "edge":
            places.append(min(max(at, 0), size - 1))
        elif mode == "wrap":
            places.append(at % size)
        elif mode == "reflect" and size > 1:
            turn = at % (2 * size - 2)
            places.append(min(turn, 2 * size - 2 - turn))
        else:
            places.append(-1)
    return places


def _slides(step: Step, x: Tensor, around: dict[int, tuple[int, int]]) -> bool:
    readers = step.drawing.uses.get(step.proto.output[0], ())
    if len(readers) != 1 or readers[0][0] not in _SLIDING or readers[0][1] != 0 or len(x.dims) not in (3, 4):
        return False
    fits = x.dims[0] == 1
    grid = x.layout == lettered(x.dims, "1CYX"[: len(x.dims)])
    return (
        fits
        and grid
        and all(min(pair) >= 0 and (axis > 1 or pair == (0, 0)) for axis, pair in around.items())
    )


def depth_to_space(step: Step) -> Sequence[Value]:
    """Translate DepthToSpace: each pixel becomes a block, which is exactly an upsampling with fewer
    channels."""
    x, _ = on_grid(step, step.data())
    block = step.integer("blocksize", 0)
    if len(x.dims) != 4 or block < 1 or x.dims[1] % (block * block):
        raise step.mismatch("blocksize", f"got {brief(block)} for data of {shapes.shown(x.dims)}")
    _, channels, height, width = x.dims
    big = (1, channels, height * block, width * block)
    layout = lettered(big, "1CYX")
    wide = tensor(step.emit("upsample", [x.node], "upsample", scale=(block, block)), big, layout)
    return [step.select(wide, (1, channels // block**2, *big[2:]), layout)]


def space_to_depth(step: Step) -> Sequence[Value]:
    """Translate SpaceToDepth: a block of pixels becomes one, which is exactly a pooling with more
    channels."""
    x, _ = on_grid(step, step.data())
    block = step.integer("blocksize", 0)
    if len(x.dims) != 4 or block < 1 or x.dims[2] % block or x.dims[3] % block:
        raise step.mismatch("blocksize", f"got {brief(block)} for data of {shapes.shown(x.dims)}")
    _, channels, height, width = x.dims
    small = (1, channels, height // block, width // block)
    pooled = step.emit("maxpool", [x.node], "blocks", kernel=(block, block), stride=(block, block))
    layout = lettered(small, "1CYX")
    return [step.select(tensor(pooled, small, layout), (1, channels * block**2, *small[2:]), layout)]


def regroup(x: Tensor, target: Dims) -> Layout:
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
    grid = [k for k, role in enumerate(roles) if role == "Y"]
    return lettered(
        target, "".join("X" if len(grid) > 1 and k == grid[-1] else r for k, r in enumerate(roles))
    )


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
