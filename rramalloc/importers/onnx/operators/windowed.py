"""Convolutions, transposed or not, and pooling: a receptive field slides over one or two axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rramalloc.importers.axes import Dims, lettered
from rramalloc.importers.onnx.operators.elementwise import combine
from rramalloc.importers.onnx.outputs import outputs_of
from rramalloc.importers.onnx.shapes import shown
from rramalloc.importers.onnx.step import Handler, Step
from rramalloc.importers.onnx.tensors import NO_PADS, Tensor, Value, tensor, usual
from rramalloc.network.geometry import MAX_EXTENT, Pads, Pair, pooled_extent
from rramalloc.records import brief

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Receptive field per spatial axis of an ONNX tensor; pads: (before, after) of each."""

    kernel: Dims
    stride: Dims
    dilation: Dims
    pads: tuple[tuple[int, int], ...]

    def span(self, axis: int) -> int:
        """Return the input pixels from the first to the last one of a window."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1


def on_grid(step: Step, x: Tensor) -> tuple[Tensor, str]:
    """Return the tensor as (batch, channels, one or two grid axes), and which grid axis each spatial one is.

    Raises UnsupportedError for three spatial axes or a batch that is not 1.
    """
    rank = len(x.dims)
    if rank not in (3, 4):
        remedy = ""
        if rank == 5:
            remedy = (
                ": export one frame of the data, with its kernels of one step along that axis as 2-D ones"
            )
        what = "3-D data" if rank == 5 else f"a tensor of rank {rank}"
        raise step.unsupported(
            f"{step.op} works on {what}, {shown(x.dims)}; only 1-D and 2-D grids can be expressed{remedy}"
        )
    if x.dims[0] != 1:
        raise step.unsupported(
            f"{step.op} gets a batch of {x.dims[0]} that the model itself makes ({shown(x.dims)}); "
            f"only networks that keep one input together can be expressed"
        )
    for roles in ("YX", "XY") if rank == 4 else ("Y", "X"):
        swapped = roles == "XY" and 1 not in x.dims[2:]
        if not swapped and x.layout == lettered(x.dims, f"1C{roles}"):
            return x, roles
    return step.relayout(x, lettered(x.dims, "1CYX"[:rank])), "YX"[: rank - 2]


def windows_of(step: Step, kernel: Dims, extents: Dims) -> Windows:
    """Return the attributes of a convolution or pooling. Raises SpecError for wrong lengths or values."""
    rank = len(extents)
    if len(kernel) != rank:
        raise step.fault("kernel_shape", f"got {brief(str(kernel))} for {rank} spatial axes")
    stride, dilation = _spatial(step, "strides", rank), _spatial(step, "dilations", rank)
    for field, sizes in (("kernel_shape", kernel), ("strides", stride), ("dilations", dilation)):
        if min(sizes) < 1:
            raise step.fault(field, f"got {brief(str(sizes))}, every value must be at least 1")
    auto = step.text("auto_pad", "NOTSET") or "NOTSET"
    if auto not in AUTO_PADS:
        raise step.fault("auto_pad", f"got {brief(auto)}, known: {', '.join(AUTO_PADS)}")
    windows = Windows(kernel=kernel, stride=stride, dilation=dilation, pads=((0, 0),) * rank)
    if auto == "VALID":
        return windows
    if auto == "NOTSET":
        return Windows(kernel=kernel, stride=stride, dilation=dilation, pads=explicit_pads(step, rank))
    pads = []
    for axis, extent in enumerate(extents):
        total = max((-(-extent // stride[axis]) - 1) * stride[axis] + windows.span(axis) - extent, 0)
        small = total // 2
        pads.append((small, total - small) if auto == "SAME_UPPER" else (total - small, small))
    return Windows(kernel=kernel, stride=stride, dilation=dilation, pads=tuple(pads))


def explicit_pads(step: Step, rank: int) -> tuple[tuple[int, int], ...]:
    """Return the `pads` attribute as (before, after) per spatial axis. Raises SpecError, UnsupportedError."""
    pads = step.integers("pads") or (0,) * (2 * rank)
    if len(pads) != 2 * rank:
        raise step.fault("pads", f"got {len(pads)} values, {rank} spatial axes have {2 * rank}")
    if min(pads) < 0:
        raise step.unsupported(
            f"pads: got {brief(str(pads))}; negative pads cut the input and cannot be expressed"
        )
    return tuple((pads[axis], pads[axis + rank]) for axis in range(rank))


def _spatial(step: Step, field: str, rank: int) -> Dims:
    values = step.integers(field) or (1,) * rank
    if len(values) != rank:
        raise step.fault(field, f"got {len(values)} values for {rank} spatial axes")
    return values


def fields_of(windows: Windows, roles: str, border: Pads) -> dict[str, Any]:
    """Return the kernel, stride, pads and dilation as network nodes have them: (rows, columns)."""

    def pair(values: Dims) -> tuple[int, int]:
        at = dict(zip(roles, values, strict=True))
        return at.get("Y", 1), at.get("X", 1)

    pads = dict(zip(roles, windows.pads, strict=True))
    (top, bottom), (left, right) = pads.get("Y", (0, 0)), pads.get("X", (0, 0))
    added = (top + border.top, left + border.left, bottom + border.bottom, right + border.right)
    return {
        "kernel": pair(windows.kernel),
        "stride": pair(windows.stride),
        "dilation": pair(windows.dilation),
        "pads": added,
    }


def kernel_of(step: Step, weight: Dims) -> Dims:
    """Return the spatial lengths of a weight tensor. Raises SpecError if `kernel_shape` says otherwise."""
    kernel = weight[2:]
    declared = step.integers("kernel_shape")
    if declared is not None and declared != kernel:
        raise step.fault("kernel_shape", f"got {brief(str(declared))}, the weights are {shown(weight)}")
    return kernel


def constant_weight(step: Step, index: int) -> tuple[Dims, dict[str, Any]]:
    """Return the shape of the weights, and what a node keeps of them: origin and bits, with those of the
    data.

    Raises UnsupportedError if they are computed from data.
    """
    value = step.need(index)
    if isinstance(value, Tensor):
        raise step.unsupported(
            f"its weights (input {index}) are computed from data; a stage holds constant weights"
        )
    data = step.need(0)
    return step.dims(index), {
        "weights": value.origin,
        "weight_bits": value.bits,
        "input_bits": data.bits,
    }


def conv(step: Step, weights: int, residual: int | None = None) -> Sequence[Value]:
    """Return a convolution whose weights are input number `weights`; residual: input that is added to the
    result."""
    kernel = step.need(weights)
    if isinstance(kernel, Tensor) and weights == 1:
        return [_computed_kernel(step, step.data(), kernel)]
    x, roles = on_grid(step, step.data())
    weight, kept = constant_weight(step, weights)
    if len(weight) != len(x.dims):
        raise step.mismatch("W", f"weights {shown(weight)} do not fit data of {shown(x.dims)}")
    windows = windows_of(step, kernel_of(step, weight), x.dims[2:])
    groups = step.integer("group", 1)
    if weight[1] * groups != x.shape.channels:
        raise step.mismatch(
            "W",
            f"weights {shown(weight)} with {brief(groups)} groups take {brief(weight[1] * groups)} channels, "
            f"the input has {x.shape.channels}",
        )
    fields = fields_of(windows, roles, x.pads)
    name = step.emit("conv", [x.node], out_channels=weight[0], groups=groups, **kept, **fields)
    y, added = placed(step, name, roles), None if residual is None else step.value(residual)
    return [y if added is None else combine(step, "add", [y, added], "sum")]


def _computed_kernel(step: Step, x: Tensor, kernel: Tensor) -> Tensor:
    """Return a convolution of two computed tensors: its products take no arrays."""
    dims = outputs_of(step)[0]
    if dims is None:
        raise step.unsupported(
            "its weights (input 1) are computed from data, and its output shape is not known"
        )
    because = "has computed weights, which take no arrays"
    return step.barrier(
        [x, kernel], dims, usual(dims), because=because, macs=math.prod(dims) * math.prod(kernel.dims[1:])
    )


def placed(step: Step, name: str, roles: str) -> Tensor:
    """Return a node's output as (1, channels, spatial axes)."""
    shape = step.drawing.shapes[name]
    extents = {"Y": shape.height, "X": shape.width}
    dims = (1, shape.channels, *(extents[role] for role in roles))
    return tensor(name, dims, lettered(dims, "1C" + roles))


def pool(step: Step, op: str) -> Sequence[Value]:
    """Return a pooling; count_include_pad and p do not change what a window needs.

    The indices, second output of MaxPool, exist pixel by pixel too.
    """
    x, roles = on_grid(step, step.data())
    kernel = step.integers("kernel_shape")
    if kernel is None:
        raise step.fault("kernel_shape", "this attribute is missing")
    windows = windows_of(step, kernel, x.dims[2:])
    ceil_mode = bool(step.integer("ceil_mode", 0)) and step.text("auto_pad", "NOTSET") in (
        "NOTSET",
        "VALID",
        "",
    )
    fields = fields_of(windows, roles, x.pads)
    name = step.emit(op, [x.node], ceil_mode=ceil_mode, **fields)
    y = placed(step, name, roles)
    if x.pads != NO_PADS and ceil_mode:
        expected = tuple(
            pooled_extent(
                extent, windows.span(axis), windows.stride[axis], windows.pads[axis], ceil_mode=True
            )
            for axis, extent in enumerate(x.dims[2:])
        )
        if expected != y.dims[2:]:
            raise step.unsupported(
                "ceil_mode after a separate Pad makes another size than one padded pooling"
            )
    return [y]


def transposed_conv(step: Step) -> Sequence[Value]:
    """Translate ConvTranspose. Source: ONNX operator ConvTranspose."""
    x, roles = on_grid(step, step.data())
    weight, kept = constant_weight(step, 1)
    groups = step.integer("group", 1)
    if len(weight) != len(x.dims) or weight[0] != x.shape.channels or groups < 1:
        raise step.mismatch(
            "W", f"weights {shown(weight)} in {brief(groups)} groups do not fit data of {shown(x.dims)}"
        )
    extents = x.dims[2:]
    windows = windows_of(step, kernel_of(step, weight), extents)
    pads, added = _pads(step, windows, extents)
    extra = dict(zip(roles, added, strict=True))
    name = step.emit(
        "conv_transpose",
        [x.node],
        out_channels=weight[1] * groups,
        groups=groups,
        output_padding=(extra.get("Y", 0), extra.get("X", 0)),
        **kept,
        **fields_of(replace(windows, pads=pads), roles, NO_PADS),
    )
    return [placed(step, name, roles)]


def _pads(step: Step, windows: Windows, extents: Dims) -> tuple[tuple[Pair, ...], Dims]:
    """Return the numbers of elements cut off the full output before and behind each axis, and
    `output_padding`.

    A stated output that is larger than the full one is filled up behind it. Raises SpecError.
    """
    rank = len(extents)
    added = step.integers("output_padding") or (0,) * rank
    if len(added) != rank or min(added) < 0:
        raise step.fault("output_padding", f"got {brief(str(added))} for {rank} spatial axes")
    stated = step.integers("output_shape") or ()
    auto = step.text("auto_pad", "NOTSET")
    if stated:
        stated = stated[-rank:]  # some files list batch and channels too
        if len(stated) != rank or min(stated) < 1 or max(stated) > MAX_EXTENT:
            raise step.fault("output_shape", f"got {brief(str(stated))} for {rank} spatial axes")
    elif auto.startswith("SAME"):
        stated = tuple(extent * stride for extent, stride in zip(extents, windows.stride, strict=True))
    else:
        return windows.pads, added
    pads, behind = [], []
    for axis, (extent, output) in enumerate(zip(extents, stated, strict=True)):
        cut = windows.stride[axis] * (extent - 1) + windows.span(axis) + added[axis] - output
        small = max(cut, 0) // 2
        large = max(cut, 0) - small
        pads.append((small, large) if auto == "SAME_UPPER" else (large, small))
        behind.append(added[axis] + max(-cut, 0))
    return tuple(pads), tuple(behind)


HANDLERS: dict[str, Handler] = {
    "Conv": partial(conv, weights=1),
    "ConvInteger": partial(conv, weights=1),
    "FusedConv": partial(conv, weights=1, residual=3),
    "QLinearConv": partial(conv, weights=3),
    "ConvTranspose": transposed_conv,
    "MaxPool": partial(pool, op="maxpool"),
    "NhwcMaxPool": partial(pool, op="maxpool"),
    "AveragePool": partial(pool, op="avgpool"),
    "LpPool": partial(pool, op="avgpool"),
    "QLinearAveragePool": partial(pool, op="avgpool"),
}
