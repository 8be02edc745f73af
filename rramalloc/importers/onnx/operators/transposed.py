"""Transposed convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rramalloc.importers.axes import Dims
from rramalloc.importers.onnx.drawing import Drawing, Handler
from rramalloc.importers.onnx.operators.windowed import (
    Windows,
    constant_weight,
    fields_of,
    kernel_of,
    on_grid,
    placed,
    windows_of,
)
from rramalloc.importers.onnx.shapes import MAX_DIM, shown
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import NO_PADS, Value
from rramalloc.network.geometry import Pair
from rramalloc.records import brief


def transposed_conv(drawing: Drawing, step: Step) -> Sequence[Value]:
    """ConvTranspose.  Source: ONNX operator ConvTranspose."""
    x, roles = on_grid(drawing, step, step.data())
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
    name = drawing.emit(
        step,
        "conv_transpose",
        [x.node],
        out_channels=weight[1] * groups,
        groups=groups,
        output_padding=(extra.get("Y", 0), extra.get("X", 0)),
        **kept,
        **fields_of(replace(windows, pads=pads), roles, NO_PADS),
    )
    return [placed(drawing, name, roles)]


def _pads(step: Step, windows: Windows, extents: Dims) -> tuple[tuple[Pair, ...], Dims]:
    """What is cut off the full output before and behind each axis, and `output_padding`.

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
        if len(stated) != rank or min(stated) < 1 or max(stated) > MAX_DIM:
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


HANDLERS: dict[str, Handler] = {"ConvTranspose": transposed_conv}
