"""Transposed convolution: the input enlarged by the stride, then a convolution with stride 1."""

from __future__ import annotations

from collections.abc import Sequence

from rramalloc.importers.onnx.drawing import Drawing, Handler
from rramalloc.importers.onnx.operators.windowed import (
    Windows,
    constant_weight,
    explicit_pads,
    fields_of,
    kernel_of,
    on_grid,
    placed,
    windows_of,
)
from rramalloc.importers.onnx.shapes import MAX_DIM, shown
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import NO_PADS, Dims, Value
from rramalloc.network.geometry import Pair
from rramalloc.records import brief


def transposed_conv(drawing: Drawing, step: Step) -> Sequence[Value]:
    """ConvTranspose. Raises UnsupportedError if no padding yields the output size.

    Source: ONNX operator ConvTranspose; a convolution of the enlarged input has span - 1 - pad before it.
    """
    x, roles = on_grid(drawing, step, step.data())
    weight, origin = constant_weight(step, 1)
    groups = step.integer("group", 1)
    if len(weight) != len(x.dims) or weight[0] != x.shape.channels or groups < 1:
        raise step.mismatch(
            "W", f"weights {shown(weight)} in {brief(groups)} groups do not fit data of {shown(x.dims)}"
        )
    extents = x.dims[2:]
    windows = windows_of(step, kernel_of(step, weight), extents)
    pads = tuple(
        _pads(step, windows, axis, extent, output)
        for axis, (extent, output) in enumerate(zip(extents, _outputs(step, windows, extents), strict=True))
    )
    ones = (1,) * len(extents)
    dense = Windows(kernel=windows.kernel, stride=ones, dilation=windows.dilation, pads=pads)
    node = x.node
    if max(windows.stride) > 1:
        scale = fields_of(windows, roles, NO_PADS)["stride"]
        node = drawing.emit(step, "upsample", [node], "upsample", scale=scale)
    fields = fields_of(dense, roles, NO_PADS)
    name = drawing.emit(
        step, "conv", [node], weights=origin, out_channels=weight[1] * groups, groups=groups, **fields
    )
    return [placed(drawing, name, roles)]


def _outputs(step: Step, windows: Windows, extents: Dims) -> Dims:
    """Spatial size of the output. Raises SpecError."""
    rank = len(extents)
    extra = step.integers("output_padding") or (0,) * rank
    given = step.integers("output_shape") or None
    if len(extra) != rank or min(extra) < 0:
        raise step.fault("output_padding", f"got {brief(str(extra))} for {rank} spatial axes")
    if given is not None:
        given = given[-rank:]  # some files list batch and channels too
        if len(given) != rank or min(given) < 1 or max(given) > MAX_DIM:
            raise step.fault("output_shape", f"got {brief(str(given))} for {rank} spatial axes")
        return given
    auto = step.text("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        return tuple(extent * stride for extent, stride in zip(extents, windows.stride, strict=True))
    pads = windows.pads if auto == "VALID" else explicit_pads(step, rank)
    return tuple(
        windows.stride[axis] * (extent - 1) + extra[axis] + windows.span(axis) - sum(pads[axis])
        for axis, extent in enumerate(extents)
    )


def _pads(step: Step, windows: Windows, axis: int, extent: int, output: int) -> Pair:
    """Pads of the dense convolution along one axis, (before, after). Raises UnsupportedError."""
    if output < 1:
        raise step.mismatch("pads", f"leave {output} pixels of the output along spatial axis {axis}")
    span, stride = windows.span(axis), windows.stride[axis]
    before = windows.pads[axis][0]
    auto = step.text("auto_pad", "NOTSET")
    if step.integers("output_shape") or auto.startswith("SAME"):
        extra = (step.integers("output_padding") or (0,) * len(windows.kernel))[axis]
        cut = max(stride * (extent - 1) + extra + span - output, 0)
        before = cut // 2 if auto == "SAME_UPPER" else cut - cut // 2
    total = output + span - 1 - extent * stride
    if total < 0:
        raise step.unsupported(
            f"along spatial axis {axis} it yields {output} pixels, fewer than a dense convolution with "
            f"kernel span {span} of the {extent} x {stride} enlarged pixels can: the kernel is smaller "
            f"than the stride"
        )
    leading = min(max(span - 1 - before, 0), total)
    return leading, total - leading


HANDLERS: dict[str, Handler] = {"ConvTranspose": transposed_conv}
