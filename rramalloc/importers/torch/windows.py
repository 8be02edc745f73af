"""ATen operators with a receptive field: convolution, pooling, padding, enlargement.

Source: docs/sources/model.md 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rramalloc.errors import UnsupportedError
from rramalloc.importers.torch.call import Call, Result
from rramalloc.importers.torch.graph import Dims
from rramalloc.importers.torch.layout import (
    ContradictionError,
    Tensor,
    image_layout,
    signal_layout,
)
from rramalloc.network.geometry import Pads, Pair, pooled_extent


def conv(call: Call) -> Result:
    """Convolution of one or two spatial axes, transposed or not."""
    source, weight = call.tensor("input"), call.dims("weight")
    if source is None or weight is None or call.tensor("weight") is not None:
        return call.unknown("a convolution whose weights are computed takes no arrays")
    axes = len(weight) - 2
    if axes not in (1, 2):
        raise UnsupportedError(call.fault("weight", "").where, f"{axes} spatial axes; the model has 1 or 2")
    source = _batched(call, source, axes)
    if call.operation.op.startswith("conv_transpose") or call.given("transposed") is True:
        return _transposed(call, source, weight[2:], axes)
    kernel, stride = weight[2:], call.ints("stride", axes, 1)
    dilation = call.ints("dilation", axes, 1)
    before, after = _padding(call, kernel, dilation)
    return call.emit(
        "conv",
        [source],
        call.out(),
        source.layout,
        weights=call.origin("weight"),
        out_channels=weight[0],
        kernel=_pair(kernel, 1),
        stride=_pair(stride, 1),
        pads=_pads(before, after),
        dilation=_pair(dilation, 1),
        groups=call.number("groups", 1),
    )


def _batched(call: Call, source: Tensor, axes: int) -> Tensor:
    """The input with its last axes as the grid; more than one image at a time is refused."""
    rank = len(source.dims)
    layout = image_layout(rank) if axes == 2 else signal_layout(rank)
    if rank not in (axes + 1, axes + 2):
        raise call.fault("input", f"must have {axes + 1} or {axes + 2} axes, has {rank}")
    if rank == axes + 2 and source.dims[0] != 1:
        raise call.fault("input", f"the batch must be 1, its shape is {source.dims}: export with batch 1")
    return call.placed(source, layout)


def _padding(call: Call, kernel: Dims, dilation: Dims) -> tuple[Dims, Dims]:
    """Zeros before and after every axis, from numbers or the words "same" and "valid"."""
    given = call.given("padding")
    if not isinstance(given, str):
        before = call.ints("padding", len(kernel), 0)
        return before, before
    if given not in ("same", "valid"):
        raise call.fault("padding", f"must be 'same' or 'valid', got {given[:60]!r}")
    total = [d * (k - 1) if given == "same" else 0 for k, d in zip(kernel, dilation, strict=True)]
    before = tuple(zeros // 2 for zeros in total)
    return before, tuple(zeros - first for zeros, first in zip(total, before, strict=True))


def _transposed(call: Call, source: Tensor, kernel: Dims, axes: int) -> Tensor:
    """Transposed convolution; `output_padding` is what the stated output has beyond the full one, cut."""
    out = _out(call, source)
    stride, padding = call.ints("stride", axes, 1), call.ints("padding", axes, 0)
    dilation, groups = call.ints("dilation", axes, 1), call.number("groups", 1)
    added = [
        wanted - ((have - 1) * s - 2 * p + d * (k - 1) + 1)
        for wanted, have, s, p, d, k in zip(
            out[-axes:], source.dims[-axes:], stride, padding, dilation, kernel, strict=True
        )
    ]
    if min(added) < 0:
        raise ContradictionError(source.node)
    return call.emit(
        "conv_transpose",
        [source],
        out,
        source.layout,
        weights=call.origin("weight"),
        out_channels=Tensor("", out, source.layout).shape.channels,
        kernel=_pair(kernel, 1),
        stride=_pair(stride, 1),
        pads=_pads(padding, padding),
        dilation=_pair(dilation, 1),
        groups=groups,
        output_padding=_pair(added, 0),
    )


def pool(call: Call) -> Result:
    """Max and average pooling; along axes that count as channels it is pixelwise."""
    source, op = call.operand("self"), call.operation.op
    axes = 3 if "3d" in op else 1 if "1d" in op else 2
    kernel = call.ints("kernel_size", axes, 1)
    stride = call.ints("stride", axes, 0) if call.given("stride") else kernel
    padding, dilation = call.ints("padding", axes, 0), call.ints("dilation", axes, 1)
    rank, out = len(source.dims), _out(call, source)
    if rank < axes + 1 or min(stride) < 1:
        raise call.fault("self", f"does not fit a pooling over {axes} axes, its shape is {source.dims}")
    active = {rank - axes + i for i in range(axes) if (kernel[i], stride[i], padding[i]) != (1, 1, 0)}
    if not active & source.grid_axes and source.grid_axes and len(source.dims) == len(out):
        return call.select(source, out, source.layout)
    if axes == 3 and rank - 3 in active:
        return call.unknown("a pooling over three axes waits for all pixels")
    source = call.placed(source, signal_layout(rank) if axes == 1 else image_layout(rank))
    shown = slice(-2, None)
    fields: dict[str, Any] = {
        "kernel": _pair(kernel[shown], 1),
        "stride": _pair(stride[shown], 1),
        "pads": _pads(padding[shown], padding[shown]),
        "dilation": _pair(dilation[shown], 1),
        "ceil_mode": call.given("ceil_mode") is True,
    }
    kind = "avgpool" if "avg" in op or "lp_pool" in op else "maxpool"
    pooled = call.emit(kind, [source], out, source.layout, **fields)
    return [pooled] + [pooled] * (len(call.operation.outputs) - 1)


def adaptive_pool(call: Call) -> Result:
    """To one pixel: global; whole factors: windows side by side; else every pixel is waited for."""
    source, op = call.operand("self"), call.operation.op
    axes = 3 if "3d" in op else 1 if "1d" in op else 2
    rank, out = len(source.dims), _out(call, source)
    if axes == 3 or rank < axes + 1:
        return call.unknown("a pooling over three axes waits for all pixels")
    source = call.placed(source, signal_layout(rank) if axes == 1 else image_layout(rank))
    have, wanted = source.dims[-axes:], out[-axes:]
    kind = "avgpool" if "avg" in op else "maxpool"
    if have == wanted:
        result = call.emit("identity", [source], out, source.layout)
    elif math.prod(wanted) == 1:
        result = call.emit(f"global_{kind}", [source], out, source.layout)
    elif all(n % m == 0 for n, m in zip(have, wanted, strict=True)):
        factor = _pair([n // m for n, m in zip(have, wanted, strict=True)], 1)
        result = call.emit(kind, [source], out, source.layout, kernel=factor, stride=factor)
    else:
        return call.unknown("an adaptive pooling by a fraction waits for all pixels")
    return [result] + [result] * (len(call.operation.outputs) - 1)


def upsample(call: Call) -> Result:
    """By whole factors, of the nearest pixel or interpolated; others wait for all pixels."""
    source, op = call.operand("self", "input"), call.operation.op
    axes = 1 if "1d" in op or "linear1d" in op else 2
    rank, out = len(source.dims), _out(call, source)
    if rank != axes + 2:
        return call.unknown()
    source = call.placed(source, signal_layout(rank) if axes == 1 else image_layout(rank))
    have, wanted = source.dims[-axes:], out[-axes:]
    if any(m % n for n, m in zip(have, wanted, strict=True)):
        return call.unknown("an enlargement by a fraction waits for all pixels")
    factor = [m // n for n, m in zip(have, wanted, strict=True)]
    fields: dict[str, Any] = {"scale": _pair(factor, 1)}
    if "nearest" not in op:
        coordinates = "align_corners" if call.given("align_corners") is True else "half_pixel"
        fields |= {"mode": "cubic" if "cubic" in op else "linear", "coordinates": coordinates}
    return call.emit("upsample", [source], out, source.layout, **fields)


def pixel_shuffle(call: Call) -> Result:
    """r x r blocks of channels become pixels: fewer channels, then enlargement by r."""
    source, factor = call.operand("self"), call.number("upscale_factor", 1)
    out = call.out()
    source = call.placed(source, image_layout(len(source.dims)))
    fewer = (*out[:-2], *source.dims[-2:])
    chosen = call.select(source, fewer, source.layout, suffix="_channels")
    return call.emit("upsample", [chosen], out, source.layout, scale=factor)


def pixel_unshuffle(call: Call) -> Result:
    """r x r blocks of pixels become channels: windows side by side."""
    source, factor = call.operand("self"), call.number("downscale_factor", 1)
    out = call.out()
    source = call.placed(source, image_layout(len(source.dims)))
    fewer = (*source.dims[:-2], *out[-2:])
    blocks = call.emit(
        "maxpool", [source], fewer, source.layout, suffix="_blocks", kernel=factor, stride=factor
    )
    return call.select(blocks, out, source.layout)


def pad(call: Call) -> Result:
    """Pixels around the grid: a 1 x 1 window over the padded input. Around channels: pixelwise."""
    source, out, given = call.operand("self"), call.out(), call.given("pad") or call.given("padding")
    widths = given if isinstance(given, tuple) else ()
    if len(widths) % 2 or len(widths) // 2 > len(out) or not all(type(n) is int for n in widths):
        raise call.fault("pad", "must be a whole number before and after each axis")
    numbers = [n for n in widths if isinstance(n, int)]
    around = {
        len(out) - 1 - i: (numbers[2 * i], numbers[2 * i + 1])
        for i in range(len(numbers) // 2)
        if numbers[2 * i] or numbers[2 * i + 1]
    }
    if not around:
        return call.emit("identity", [source], out, source.layout)
    if not source.grid_axes & set(around) and source.shape.pixels > 1:
        return call.select(source, out, source.layout)
    inner = {axis for group in source.layout for axis in group}
    if not set(around) <= inner or max(map(len, source.layout)) > 1:
        return call.barrier([source], out, source.layout)
    return _windowed(call, source, out, around)


def _windowed(call: Call, source: Tensor, out: Dims, around: dict[int, Pair]) -> Tensor:
    """Pad and crop the grid: what is cut makes the window larger."""
    sides = [around.get(group[0], (0, 0)) if group else (0, 0) for group in source.layout]
    before, after = ([max(side[i], 0) for side in sides] for i in (0, 1))
    kernel = [1 + max(-side[0], 0) + max(-side[1], 0) for side in sides]
    pads = Pads(before[0], before[1], after[0], after[1])
    return call.emit("maxpool", [source], out, source.layout, kernel=(kernel[0], kernel[1]), pads=pads)


def subsample(call: Call, source: Tensor, axis: int, start: int, step: int) -> Tensor:
    """Every `step`-th row or column from `start` on: a window that reaches from there to the pixel wanted."""
    out = _out(call, source)
    rows = axis in source.layout.rows
    if max(map(len, source.layout)) > 1:
        return call.barrier([source], out, source.layout)
    have, wanted = source.dims[axis], out[axis]
    reach = start + 1
    if reach > have or pooled_extent(have, reach, step, (0, 0), ceil_mode=False) != wanted:
        reach = have - (wanted - 1) * step
        if pooled_extent(have, reach, step, (0, 0), ceil_mode=False) != wanted:
            return call.barrier([source], out, source.layout)
    kernel = (reach, 1) if rows else (1, reach)
    stride = (step, 1) if rows else (1, step)
    return call.emit("maxpool", [source], out, source.layout, kernel=kernel, stride=stride)


def _out(call: Call, source: Tensor) -> Dims:
    """Dimensions of the result, which has as many axes as the source."""
    out = call.out()
    if len(out) != len(source.dims):
        raise ContradictionError(source.node)
    return out


def _pair(values: Sequence[int], filler: int) -> Pair:
    """(height, width); a signal's width is 1."""
    return (values[0], filler) if len(values) == 1 else (values[0], values[1])


def _pads(before: Sequence[int], after: Sequence[int]) -> Pads:
    return Pads(*_pair(before, 0), *_pair(after, 0))
