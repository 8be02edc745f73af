"""Convolutions, transposed or not, and pooling: a receptive field slides over one or two axes; resizing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import onnx

from rramalloc.importers.axes import Atom, Dims, is_of_images, lettered
from rramalloc.importers.onnx.operators.elementwise import combine
from rramalloc.importers.onnx.shapes import shown
from rramalloc.importers.onnx.step import Handler, OnnxOperator
from rramalloc.importers.onnx.tensors import (
    NO_PADS,
    Constant,
    Tensor,
    Value,
    default_nchw_layout,
    tensor,
)
from rramalloc.network.geometry import MAX_EXTENT, Pads, Pair, pooled_extent
from rramalloc.records import brief

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Receptive field per spatial axis of an ONNX tensor; pads: (before, after) of each."""

    kernel: Dims
    stride: Dims
    dilation: Dims
    pads: tuple[Pair, ...]

    def span(self, axis: int) -> int:
        """Return the input pixels from the first to the last one of a window."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1

    def fields(self, roles: str, border: Pads = NO_PADS) -> dict[str, Any]:
        """Return the fields of a network node; roles: the side of the grid that each axis is."""

        def pair(values: Sequence[T], absent: T) -> tuple[T, T]:
            at = dict(zip(roles, values, strict=True))
            return at.get("Y", absent), at.get("X", absent)

        (top, bottom), (left, right) = pair(self.pads, (0, 0))
        added = zip((top, left, bottom, right), border, strict=True)
        return {
            "kernel": pair(self.kernel, 1),
            "stride": pair(self.stride, 1),
            "dilation": pair(self.dilation, 1),
            "pads": tuple(one + other for one, other in added),
        }


def is_of_patches(step: OnnxOperator) -> bool:
    """Return True for a convolution whose windows neither overlap nor leave anything out: a linear layer on
    patches, or on pixels, in any number of dimensions."""
    x, weight = step.need(0), step.value(1)
    dims = weight.dims if isinstance(weight, Constant) else None
    if dims is None or x.dims is None or len(dims) != len(x.dims) or len(dims) < 3:
        return False
    plain = not any(step.integers("pads") or ()) and set(step.integers("dilations") or (1,)) == {1}
    stride = step.integers("strides") or (1,) * (len(dims) - 2)
    is_one = dims[2:] == x.dims[2:]
    return plain and step.text("auto_pad", "NOTSET") in ("NOTSET", "VALID") and (dims[2:] == stride or is_one)


def on_grid(step: OnnxOperator, x: Tensor) -> tuple[Tensor, str]:
    """Return the tensor as (images, channels, one or two grid axes), and which grid axis each spatial one is.

    Raises UnsupportedError for three spatial axes.
    """
    rank = len(x.dims)
    if rank not in (3, 4):
        what, remedy = f"a tensor of rank {rank}", ""
        if rank == 5:
            what = "3-D data"
            remedy = ": export one frame, with its kernels of one step along that axis as 2-D ones"
        raise step.unsupported(
            f"{step.op} works on {what}, {shown(x.dims)}; only 1-D and 2-D grids can be expressed{remedy}"
        )
    for roles in ("YX", "XY") if rank == 4 else ("Y", "X"):
        is_swapped = roles == "XY" and 1 in x.dims[2:]
        is_imaged = x.dims[0] == 1 or is_of_images(x.layout[0])
        if not is_swapped and is_imaged and x.layout[1:] == lettered(x.dims, f"1C{roles}")[1:]:
            return x, roles
    return step.imaged(x, 0, "1CYX"[:rank]), "YX"[: rank - 2]


def _spatial(step: OnnxOperator, field: str, rank: int, default: int, least: int) -> Dims:
    """Return an attribute with a value for each spatial axis. Raises SpecError."""
    values = step.integers(field) or (default,) * rank
    if len(values) != rank or min(values) < least:
        raise step.fault(field, f"got {brief(str(values))} for {rank} spatial axes, the least is {least}")
    return values


def windows_of(step: OnnxOperator, kernel: Dims, extents: Dims) -> Windows:
    """Return the attributes of a convolution or pooling. Raises SpecError, UnsupportedError."""
    rank = len(extents)
    if len(kernel) != rank or min(kernel) < 1:
        raise step.fault("kernel_shape", f"got {brief(str(kernel))} for {rank} spatial axes")
    stride, dilation = (_spatial(step, field, rank, 1, 1) for field in ("strides", "dilations"))
    auto = step.text("auto_pad", "NOTSET") or "NOTSET"
    if auto not in AUTO_PADS:
        raise step.fault("auto_pad", f"got {brief(auto)}, known: {', '.join(AUTO_PADS)}")
    windows = Windows(kernel=kernel, stride=stride, dilation=dilation, pads=((0, 0),) * rank)
    if auto == "VALID":
        return windows
    if auto == "NOTSET":
        pads = step.integers("pads") or (0,) * (2 * rank)
        if len(pads) != 2 * rank:
            raise step.fault("pads", f"got {len(pads)} values, {rank} spatial axes have {2 * rank}")
        if min(pads) < 0:
            got = brief(str(pads))
            raise step.unsupported(f"pads: got {got}; negative pads cut the input and cannot be expressed")
        return replace(windows, pads=tuple(zip(pads[:rank], pads[rank:], strict=True)))
    cut = [-(-extent // step) for extent, step in zip(extents, stride, strict=True)]
    totals = (max((cut[k] - 1) * stride[k] + windows.span(k) - extents[k], 0) for k in range(rank))
    return replace(windows, pads=tuple(_halves(total, auto == "SAME_UPPER") for total in totals))


def _halves(total: int, is_upper: bool) -> Pair:
    small = total // 2
    return (small, total - small) if is_upper else (total - small, small)


def weights_of(step: OnnxOperator, index: int) -> tuple[Dims, dict[str, Any]]:
    """Return the shape of the weights, and what a node keeps of them: origin and bits, with those of the
    data.

    Raises UnsupportedError if they are computed from data.
    """
    value = step.need(index)
    if isinstance(value, Tensor):
        raise step.unsupported(
            f"its weights (input {index}) are computed from data; a stage holds constant weights"
        )
    kept = {"weights": value.origin, "weight_bits": value.bits, "input_bits": step.need(0).bits}
    return step.dims(index), kept


def _kernel_of(step: OnnxOperator, weight: Dims) -> Dims:
    """Return the spatial lengths of a weight tensor. Raises SpecError if `kernel_shape` says otherwise."""
    if step.integers("kernel_shape") not in (None, weight[2:]):
        got = brief(str(step.integers("kernel_shape")))
        raise step.fault("kernel_shape", f"got {got}, the weights are {shown(weight)}")
    return weight[2:]


def placed(step: OnnxOperator, name: str, x: Tensor, roles: str) -> Tensor:
    """Return a node's output as (images, channels, spatial axes); x: its input."""
    shape = step.builder.shapes[name]
    sides = [shape.height if role == "Y" else shape.width for role in roles]
    dims = (x.dims[0], shape.channels, *sides)
    return tensor(name, dims, (x.layout[0], *lettered(dims, "1C" + roles)[1:]))


def conv(step: OnnxOperator, weights: int = 1) -> Sequence[Value]:
    """Translate Conv and its kin, whose weights are input number `weights`; FusedConv adds its input 3."""
    kernel = step.need(weights)
    if isinstance(kernel, Tensor):
        return [_computed_kernel(step, kernel)]
    x, roles = on_grid(step, step.data())
    weight, kept = weights_of(step, weights)
    groups = step.integer("group", 1)
    if len(weight) != len(x.dims) or weight[1] * groups != x.shape.channels:
        raise step.mismatch(
            "W", f"weights {shown(weight)} with {brief(groups)} groups do not fit data of {shown(x.dims)}"
        )
    fields = windows_of(step, _kernel_of(step, weight), x.dims[2:]).fields(roles, x.pads)
    name = step.emit("conv", [x.node], out_channels=weight[0], groups=groups, **kept, **fields)
    y, added = placed(step, name, x, roles), step.value(3) if step.op == "FusedConv" else None
    return [y if added is None else combine(step, "add", [y, added], "sum")]


def _computed_kernel(step: OnnxOperator, kernel: Tensor) -> Tensor:
    """Return a convolution, transposed or not, with a computed kernel: its products take no arrays."""
    x = step.need(0)
    size, weight, groups = step.size(x), kernel.dims, step.integer("group", 1)
    is_transposed = step.op == "ConvTranspose"
    fits = len(weight) == len(size) > 2 and groups > 0
    if not fits or size[1] != (weight[0] if is_transposed else weight[1] * groups):
        what = f"weights {shown(weight)} in {brief(groups)} groups do not fit data of {shown(size)}"
        raise step.mismatch("W", what)
    windows, extents = windows_of(step, _kernel_of(step, weight), size[2:]), list[int]()
    if is_transposed:
        windows, added = _cut(step, windows, size[2:])
        for axis, extent in enumerate(size[2:]):
            full = windows.stride[axis] * (extent - 1) + windows.span(axis) + added[axis]
            extents.append(full - sum(windows.pads[axis]))
        dims = (size[0], weight[1] * groups, *extents)
    else:
        for axis, extent in enumerate(size[2:]):
            pads = windows.pads[axis]
            stride = windows.stride[axis]
            extents.append(pooled_extent(extent, windows.span(axis), stride, pads, ceil_mode=False))
        dims = (size[0], weight[0], *extents)
    if min(extents) < 1:
        raise step.mismatch("W", f"weights {shown(weight)} are larger than data of {shown(size)}")
    streamed = size if is_transposed else dims
    macs = math.prod(streamed) * math.prod(weight[1:])
    return computed_weights(step, [x, kernel], dims, macs)


def computed_weights(step: OnnxOperator, operands: Sequence[Value | None], dims: Dims, macs: int) -> Tensor:
    """Return the result of a layer with computed weights: a product that takes no arrays."""
    data = [value for value in operands if isinstance(value, Tensor)]
    because = "has computed weights, which take no arrays"
    return step.barrier(data, dims, default_nchw_layout(dims), because=because, macs=macs)


def pool(step: OnnxOperator, op: str) -> Sequence[Value]:
    """Translate a pooling; count_include_pad and p do not change what a window needs.

    The indices, second output of MaxPool, exist pixel by pixel too.
    """
    x, roles = on_grid(step, step.data())
    kernel = step.integers("kernel_shape")
    if kernel is None:
        raise step.fault("kernel_shape", "this attribute is missing")
    windows = windows_of(step, kernel, x.dims[2:])
    ceil_mode = bool(step.integer("ceil_mode", 0)) and not step.text("auto_pad", "").startswith("SAME")
    name = step.emit(op, [x.node], ceil_mode=ceil_mode, **windows.fields(roles, x.pads))
    y = placed(step, name, x, roles)
    if x.pads != NO_PADS and ceil_mode:
        axes = zip(x.dims[2:], range(len(roles)), windows.stride, windows.pads, strict=True)
        expected = [pooled_extent(n, windows.span(k), s, p, ceil_mode=True) for n, k, s, p in axes]
        if tuple(expected) != y.dims[2:]:
            raise step.unsupported(
                "ceil_mode after a separate Pad makes another size than one padded pooling"
            )
    return [y]


def transposed_conv(step: OnnxOperator) -> Sequence[Value]:
    """Translate ConvTranspose. Source: ONNX operator ConvTranspose."""
    kernel = step.need(1)
    if isinstance(kernel, Tensor):
        return [_computed_kernel(step, kernel)]
    x, roles = on_grid(step, step.data())
    weight, kept = weights_of(step, 1)
    groups = step.integer("group", 1)
    if len(weight) != len(x.dims) or weight[0] != x.shape.channels or groups < 1:
        raise step.mismatch(
            "W", f"weights {shown(weight)} in {brief(groups)} groups do not fit data of {shown(x.dims)}"
        )
    windows = windows_of(step, _kernel_of(step, weight), x.dims[2:])
    windows, added = _cut(step, windows, x.dims[2:])
    extra = dict(zip(roles, added, strict=True))
    name = step.emit(
        "conv_transpose",
        [x.node],
        out_channels=weight[1] * groups,
        groups=groups,
        output_padding=(extra.get("Y", 0), extra.get("X", 0)),
        **kept,
        **windows.fields(roles),
    )
    return [placed(step, name, x, roles)]


def _cut(step: OnnxOperator, windows: Windows, extents: Dims) -> tuple[Windows, Dims]:
    """Return the windows with the elements cut off the full output as pads, and `output_padding`.

    A stated output that is larger than the full one is filled up behind it. Raises SpecError.
    """
    rank, auto = len(extents), step.text("auto_pad", "NOTSET")
    added = _spatial(step, "output_padding", rank, 0, 0)
    stated = (step.integers("output_shape") or ())[-rank:]  # some files list batch and channels too
    if stated and (len(stated) != rank or min(stated) < 1 or max(stated) > MAX_EXTENT):
        raise step.fault("output_shape", f"got {brief(str(stated))} for {rank} spatial axes")
    if not stated and auto.startswith("SAME"):
        stated = tuple(extent * stride for extent, stride in zip(extents, windows.stride, strict=True))
    if not stated:
        return windows, added
    cuts = [
        windows.stride[axis] * (extents[axis] - 1) + windows.span(axis) + added[axis] - stated[axis]
        for axis in range(rank)
    ]
    pads = tuple(_halves(max(cut, 0), auto == "SAME_UPPER") for cut in cuts)
    behind = tuple(more + max(-cut, 0) for more, cut in zip(added, cuts, strict=True))
    return replace(windows, pads=pads), behind


def resize(step: OnnxOperator) -> Sequence[Value]:
    """Translate Resize (sizes or scales) and Upsample. Raises SpecError, UnsupportedError."""
    x = step.data()
    dims, sampling = _resized(step, x.dims), _sampling(step)
    roles = list(x.layout)
    free = [grid for grid in (0, 1) if not any(atom.grid == grid for role in roles for atom in role)]
    for axis in range(2, len(roles)):  # axes of length 1 behind the channels may grow to a free side
        if x.dims[axis] == 1 and free:
            roles[axis] = (Atom(1, free.pop(0), (0,)),)
    layout = tuple(roles)
    changed = [axis for axis, (old, new) in enumerate(zip(x.dims, dims, strict=True)) if old != new]
    if not changed:
        return [step.pixelwise(x, "identity")]
    factors, is_whole = [1, 1], True
    for axis in changed:
        grids = {atom.grid for atom in layout[axis]}
        others = {a.grid for other, atoms in enumerate(x.layout) if other != axis for a in atoms}
        is_whole &= len(layout[axis]) == 1 and not grids & others and dims[axis] % x.dims[axis] == 0
        for grid in grids:
            factors[grid] = dims[axis] // x.dims[axis]
    if not is_whole or sampling is None:
        because = "crops or shifts what it resizes" if is_whole else "does not enlarge by whole factors"
        return [step.barrier([x], dims, layout, because=because)]
    name = step.emit("upsample", [x.node], scale=tuple(factors), **sampling)
    if sampling and step.text("mode", "nearest") == "nearest":
        step.builder.approximate([name], step.label, "is taken to need both pixels around each position")
    return [tensor(name, dims, layout)]


def _sampling(step: OnnxOperator) -> dict[str, str] | None:
    """Return `mode` and `coordinates` of an enlargement by whole factors, None where no such fields fit.

    The nearest pixel is i // f for positions rounded down from i / f, or rounded from half a pixel off. With
    any other rounding an output is taken to need both pixels around its position, which is never too few.
    Source: ONNX operator Resize.
    """
    old, mode = step.op == "Upsample" or step.opset < 11, step.text("mode", "nearest")
    place = step.text("coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    rounding = step.text("nearest_mode", "floor" if old else "round_prefer_floor")
    if place == "tf_half_pixel_for_nn":
        return {} if (mode, rounding) == ("nearest", "floor") else None
    coordinates = "half_pixel" if "half_pixel" in place else place
    if coordinates not in ("asymmetric", "half_pixel", "align_corners"):
        return None
    exact = (("asymmetric", "floor"), ("half_pixel", "round"))
    if mode == "nearest" and (coordinates, rounding[:5]) in exact:
        return {}
    return {"mode": "cubic" if mode == "cubic" else "linear", "coordinates": coordinates}


def _resized(step: OnnxOperator, dims: Dims) -> Dims:
    """Return the shape after Resize or Upsample. Raises SpecError, UnsupportedError."""
    given = step.integers("axes") if step.opset >= 18 else None
    axes = range(len(dims)) if given is None else [step.axis(axis, len(dims), "axes") for axis in given]
    is_new = step.op == "Resize" and step.opset >= 11
    sizes = step.known_integers(3, "sizes") if is_new else None
    scales = step.attribute("scales", onnx.AttributeProto.FLOATS)
    pair = [step.attribute(f"{side}_scale", onnx.AttributeProto.FLOAT) for side in ("height", "width")]
    if sizes is not None and len(sizes) == len(axes):
        batch, policy = step.builder.batch if dims[0] == 1 else 0, step.text("keep_aspect_ratio_policy", "")
        pairs = zip(axes, sizes, strict=True)
        sizes = tuple(1 if axis == 0 and size == batch else size for axis, size in pairs)
        if policy in ("not_larger", "not_smaller"):
            choose = min if policy == "not_larger" else max
            scale = choose(size / dims[axis] for axis, size in zip(axes, sizes, strict=True))
            sizes = tuple(max(math.floor(scale * dims[axis] + 0.5), 1) for axis in axes)
    elif sizes is None and scales is None and None not in pair:
        scales = (1.0, 1.0, *pair)
    elif sizes is None and scales is None:
        array = step.known(2 if is_new else 1, "scales")
        if array is None:
            raise step.fault("scales", "neither sizes nor scales are given")
        scales = array.reshape(-1).tolist()
    grown: Sequence[float] | None = sizes
    if sizes is None and len(scales) == len(axes):  # 3 * 5/3 is 5: ONNX Runtime rounds, then cuts
        grown = [float(np.float32(dims[axis] * scale)) for axis, scale in zip(axes, scales, strict=True)]
    if grown is None or len(grown) != len(axes) or not all(1 <= size <= MAX_EXTENT for size in grown):
        got = brief(str(scales if sizes is None else sizes))
        raise step.fault("scales" if sizes is None else "sizes", f"got {got} for data of {shown(dims)}")
    wanted = dict(zip(axes, map(int, grown), strict=True))
    return tuple(wanted.get(axis, size) for axis, size in enumerate(dims))


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("ConvInteger", "FusedConv"), conv),
    "QLinearConv": partial(conv, weights=3),
    "ConvTranspose": transposed_conv,
    "Resize": resize,
    "Upsample": resize,
}
