"""Resizing: whole factors are an upsampling, anything else is a barrier."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rramalloc.importers.axes import Atom, Dims, Layout
from rramalloc.importers.onnx.shapes import shown
from rramalloc.importers.onnx.step import Handler, Step
from rramalloc.importers.onnx.tensors import Tensor, Value, tensor
from rramalloc.network.geometry import MAX_EXTENT
from rramalloc.records import brief


def resize(step: Step) -> Sequence[Value]:
    """Translate Resize (sizes or scales) and Upsample. Raises SpecError, UnsupportedError."""
    x = step.data()
    dims = _output(step, x.dims)
    changed = [axis for axis, (old, new) in enumerate(zip(x.dims, dims, strict=True)) if old != new]
    if not changed:
        return [step.pixelwise(x, "identity")]
    whole = all(dims[axis] % x.dims[axis] == 0 and _is_grid(x, axis) for axis in changed)
    sampling = _sampling(step)
    if not whole or sampling is None:
        because = "crops or shifts what it resizes" if whole else "does not enlarge by whole factors"
        return [step.barrier([x], dims, _layout(x), because=because)]
    factors = [1, 1]
    layout = _layout(x)
    for axis in changed:
        factors[layout[axis][0].grid] = dims[axis] // x.dims[axis]
    name = step.emit("upsample", [x.node], scale=tuple(factors), **sampling)
    if sampling and step.text("mode", "nearest") == "nearest":
        step.drawing.approximate([name], step.label, "is taken to need both pixels around each position")
    return [tensor(name, dims, layout)]


def _sampling(step: Step) -> dict[str, str] | None:
    """Return `mode` and `coordinates` of an enlargement by whole factors, None where no such fields fit.

    The nearest pixel is i // f for positions rounded down from i / f, or rounded from half a pixel off. With
    any other rounding an output is taken to need both pixels around its position, which is never too few.
    Source: ONNX operator Resize.
    """
    old = step.op == "Upsample" or step.opset < 11
    mode = step.text("mode", "nearest")
    place = step.text("coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    rounding = step.text("nearest_mode", "floor" if old else "round_prefer_floor")
    if place == "tf_half_pixel_for_nn":
        return {} if (mode, rounding) == ("nearest", "floor") else None
    coordinates = "half_pixel" if "half_pixel" in place else place
    if coordinates not in ("asymmetric", "half_pixel", "align_corners"):
        return None
    if mode == "nearest" and (coordinates, rounding[:5]) in (
        ("asymmetric", "floor"),
        ("half_pixel", "round"),
    ):
        return {}
    return {"mode": "cubic" if mode == "cubic" else "linear", "coordinates": coordinates}


def _layout(x: Tensor) -> Layout:
    """Return the layout in which axes of length 1 behind the channels may grow: they take the free side of
    the grid."""
    roles = list(x.layout)
    free = [grid for grid in (0, 1) if not any(atom.grid == grid for role in roles for atom in role)]
    for axis in range(2, len(roles)):
        if x.dims[axis] == 1 and free:
            roles[axis] = (Atom(1, free.pop(0), (0,)),)
    return tuple(roles)


def _is_grid(x: Tensor, axis: int) -> bool:
    role = _layout(x)[axis]
    return len(role) == 1 and not any(
        atom.grid == role[0].grid for other, atoms in enumerate(x.layout) if other != axis for atom in atoms
    )


def _output(step: Step, dims: Dims) -> Dims:
    given = step.integers("axes") if step.opset >= 18 else None
    axes = (
        tuple(range(len(dims)))
        if given is None
        else tuple(step.axis(axis, len(dims), "axes") for axis in given)
    )
    sizes = step.known_integers(3, "sizes") if step.op == "Resize" and step.opset >= 11 else None
    if sizes is not None:
        if len(sizes) != len(axes) or any(not 1 <= size <= MAX_EXTENT for size in sizes):
            raise step.fault("sizes", f"got {brief(str(sizes))} for data of {shown(dims)}")
        wanted = dict(zip(axes, sizes, strict=True))
        if step.drawing.batch > 1 and dims[0] == 1 and wanted.get(0) == step.drawing.batch:
            wanted[0] = 1
        return _respecting(step, dims, wanted)
    scales = _scales(step)
    if len(scales) != len(axes):
        raise step.fault("scales", f"got {len(scales)} values for data of {shown(dims)}")
    result = list(dims)
    for axis, scale in zip(axes, scales, strict=True):
        grown = float(np.float32(dims[axis] * scale))  # 3 * 5/3 is 5: ONNX Runtime rounds, then cuts
        if not (math.isfinite(grown) and 1 <= grown <= MAX_EXTENT):
            raise step.fault("scales", f"got {scale:g} for an axis of {dims[axis]}")
        result[axis] = math.floor(grown)
    return tuple(result)


def _scales(step: Step) -> tuple[float, ...]:
    listed = step.numbers("scales")
    if listed is not None:
        return listed
    pair = step.number("height_scale"), step.number("width_scale")
    if pair[0] is not None and pair[1] is not None:
        return (1.0, 1.0, pair[0], pair[1])
    index = 2 if step.op == "Resize" and step.opset >= 11 else 1
    array = step.known(index, "scales")
    if array is None:
        raise step.fault("scales", "neither sizes nor scales are given")
    return tuple(float(value) for value in array.reshape(-1))


def _respecting(step: Step, dims: Dims, wanted: dict[int, int]) -> Dims:
    """Return the sizes after keep_aspect_ratio_policy (opset 18)."""
    policy = step.text("keep_aspect_ratio_policy", "stretch")
    result = list(dims)
    if policy in ("not_larger", "not_smaller"):
        choose = min if policy == "not_larger" else max
        scale = choose(size / dims[axis] for axis, size in wanted.items())
        wanted = {axis: max(math.floor(scale * dims[axis] + 0.5), 1) for axis in wanted}
    for axis, size in wanted.items():
        result[axis] = size
    return tuple(result)


HANDLERS: dict[str, Handler] = {"Resize": resize, "Upsample": resize}
