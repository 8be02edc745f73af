"""The ONNX file of a folded network: inputs folded by slices of a padded tensor, weights folded once.

A folded convolution becomes Pad, one strided Slice per pixel that is folded into another, Concat along the
channels, and the convolution of the folded weights without padding. Its output is the same tensor.
Source: docs/sources/companions.md 3.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.choices import NODE_NAMES
from rramalloc.commands.fold.filter_folding import NetworkFold
from rramalloc.errors import SpecError
from rramalloc.files import check_writable, write_bytes
from rramalloc.mapping.fold import Fold, fold_weights, folded_extent
from rramalloc.network.network import Network
from rramalloc.network.node import Conv

_LEAST_OPSET = 11
"""Of Pad and Slice with tensors as inputs."""


def save_folded_onnx(
    source: str | os.PathLike[str], network: Network, folded: NetworkFold, output: str | os.PathLike[str]
) -> tuple[str, ...]:
    """Write an ONNX file with its convolutions folded.

    Parameters
    ----------
    source
        The ONNX file from which `network` was read; its weights are folded.
    folded
        How, as `fold` says.

    Returns
    -------
    tuple[str, ...]
        Layers that stay as they are although they could be folded, and why.

    Raises
    ------
    FileError, SpecError
        No ONNX file, an opset below 11, or it cannot be written.
    """
    from onnx import numpy_helper

    from rramalloc.importers.onnx.functions import inlined
    from rramalloc.importers.onnx.graph import decode, graph_of

    where = os.fspath(source)
    if Path(where).suffix.lower() != ".onnx":
        raise SpecError(
            where, "is no ONNX file, so there is none to write: give the .onnx file of the network"
        )
    check_writable(output)
    model = inlined(decode(Path(where)), where)
    opset = max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=0)
    if opset < _LEAST_OPSET:
        raise SpecError(where, f"has opset {opset}, folding needs {_LEAST_OPSET} or newer: convert it first")
    folds = {layer.name: layer.fold for layer in folded.layers if layer.size is not None}
    graphs = [graph_of(model, where, names) for names in NODE_NAMES]
    graph = max(graphs, key=lambda graph: len(folds.keys() & set(graph.names)))
    protos = dict(zip(graph.names, graph.nodes, strict=True))
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    stages = {stage.name: stage for stage in network.stages}
    replaced: dict[str, list[Any]] = {}
    left = []
    for name, fold in folds.items():
        proto, stage = protos.get(name), stages[name]
        tensor = None if proto is None or len(proto.input) < 2 else tensors.get(proto.input[1])
        if proto is None or proto.op_type != "Conv" or not isinstance(stage, Conv):
            left.append(f"{name}: is no Conv in the file")
        elif tensor is None or tensor.data_location:
            left.append(f"{name}: its weights are not in the file")
        else:
            weights = numpy_helper.to_array(tensor)
            if weights.ndim != 4:
                left.append(f"{name}: its weights have {weights.ndim} dimensions, not 4")
                continue
            replaced[proto.output[0]] = list(_nodes(model, proto, network, stage, fold, weights))
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        model.graph.node.extend(replaced.get(node.output[0] if node.output else "", [node]))
    used = {name for node in model.graph.node for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in used or tensor.name not in tensors]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    write_bytes(output, model.SerializeToString(deterministic=True))
    return tuple(left)


def _nodes(
    model: Any, proto: Any, network: Network, stage: Conv, fold: Fold, weights: npt.NDArray[Any]
) -> Iterator[Any]:
    """What a convolution becomes, in order."""
    from onnx import helper, numpy_helper

    stem = f"{proto.output[0]}_folded"

    def constant(part: str, values: npt.NDArray[Any]) -> str:
        model.graph.initializer.append(numpy_helper.from_array(values, f"{stem}_{part}"))
        return f"{stem}_{part}"

    shape, pads = network.input_shape(stage), stage.geometry.pads
    grid = folded_extent(fold, (shape.height, shape.width), pads)
    before = [pads.along(axis)[0] for axis in (0, 1)]
    whole = [(grid[axis] - 1) * fold.step[axis] + fold.size[axis] for axis in (0, 1)]
    after = [max(0, whole[axis] - before[axis] - (shape.height, shape.width)[axis]) for axis in (0, 1)]
    padding = constant("pads", np.array([0, 0, *before, 0, 0, *after], dtype=np.int64))
    yield helper.make_node("Pad", [proto.input[0], padding], [f"{stem}_padded"], f"{stem}_pad")
    axes, steps = constant("axes", np.array([2, 3])), constant("steps", np.array(fold.step, dtype=np.int64))
    slices = []
    for row, column in product(range(fold.size[0]), range(fold.size[1])):
        starts = np.array([row, column], dtype=np.int64)
        ends = starts + (np.array(grid) - 1) * np.array(fold.step) + 1
        name = f"{stem}_{row}_{column}"
        ranges = [constant(f"{row}_{column}_starts", starts), constant(f"{row}_{column}_ends", ends)]
        yield helper.make_node("Slice", [f"{stem}_padded", *ranges, axes, steps], [name], f"{name}_slice")
        slices.append(name)
    pixels = f"{stem}_pixels"
    yield helper.make_node("Concat", slices, [pixels], f"{stem}_concat", axis=1)
    groups, inputs, count = fold.filter.groups, fold.filter.inputs, fold.size[0] * fold.size[1]
    if groups > 1:  # channels of one group stand together
        order = np.arange(count * groups * inputs).reshape(count, groups, inputs).swapaxes(0, 1).ravel()
        places = constant("groups", order.astype(np.int64))
        yield helper.make_node("Gather", [pixels, places], [f"{pixels}_grouped"], f"{stem}_gather", axis=1)
        pixels = f"{pixels}_grouped"
    filters = fold_weights(np.moveaxis(weights, 1, -1), fold)
    stored = constant("weights", np.ascontiguousarray(np.moveaxis(filters, -1, 1)))
    window = {"kernel_shape": fold.kernel, "strides": fold.stride, "dilations": fold.dilation}
    read = [pixels, stored, *proto.input[2:]]
    yield helper.make_node("Conv", read, [proto.output[0]], proto.name, group=groups, **window)
