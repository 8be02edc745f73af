"""Inputs of the graph: which are data, their shapes, and the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.importers.axes import Dims, Layout, lettered
from rramalloc.importers.onnx.graph import Graph
from rramalloc.importers.onnx.protos import constant_of
from rramalloc.importers.onnx.step import Uses
from rramalloc.importers.onnx.tensors import gridded
from rramalloc.network.geometry import MAX_EXTENT
from rramalloc.records import brief, is_whole

MAX_RANK = 16
_SLOTS = {
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "ConvInteger": (1, 3),
    "QLinearConv": (1, 2, 3, 4, 5, 6, 7, 8),
    "Gemm": (1, 2),
    "BatchNormalization": (1, 2, 3, 4),
    "InstanceNormalization": (1, 2),
    "GroupNormalization": (1, 2),
    "LayerNormalization": (1, 2),
    "PRelu": (1,),
    "QuantizeLinear": (1, 2),
    "DequantizeLinear": (1, 2),
}
"""Input positions that hold weights, never data."""

Axis = int | str
"""Length of an axis, or what the file calls it ("" if nothing) where the length is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Shapes of the inputs with batch 1: data, and weights that the file lists as inputs.

    batch: the batch that was replaced, 1 if none; batched: names of inputs whose batch was replaced.
    """

    data: Mapping[str, Dims]
    weights: Mapping[str, Dims]
    batch: int
    batched: tuple[str, ...]


def inputs_of(graph: Graph, given: Mapping[str, Sequence[int]]) -> Inputs:
    """Resolve shapes of all inputs that the outputs need.

    Raises SpecError for a given shape that does not fit, UnsupportedError for open axes without one.
    """
    stored = {tensor.name for tensor in graph.proto.initializer}
    stored |= {tensor.values.name for tensor in graph.proto.sparse_initializer}
    declared = {
        info.name: _axes(info, graph.where)
        for info in graph.proto.input
        if info.name not in stored and info.name in graph.uses
    }
    weights = {name: axes for name, axes in declared.items() if _is_weight(name, axes, graph.uses)}
    data = {name: axes for name, axes in declared.items() if name not in weights}
    if not data:
        raise SpecError(graph.where, "graph.input: no output of the model depends on an input")
    _check(given, data, [info.name for info in graph.proto.input if info.name not in stored], graph.where)
    resolved = {name: _resolved(name, axes, given, graph.where, data) for name, axes in data.items()}
    batches = {name: dims[0] for name, dims in resolved.items() if _has_batch(name, dims, graph)}
    return Inputs(
        data={name: (1, *dims[1:]) if name in batches else dims for name, dims in resolved.items()},
        weights={
            name: tuple(size for size in axes or () if isinstance(size, int))
            for name, axes in weights.items()
        },
        batch=next(iter(batches.values()), 1),
        batched=tuple(batches),
    )


def layouts_of(dims: Dims) -> tuple[Layout, ...]:
    """What the axes of an input may mean, the likeliest first."""
    rank = len(dims)
    if rank == 0:
        return ((),)
    if rank <= 2:
        options = ["1C"[-rank:], "1Y"[-rank:]]
        options = options if dims[0] == 1 or rank == 1 else ["YC"]
    elif rank == 3:
        options = ["1CY", "1YC", "1YX"] if dims[0] == 1 else ["CYX", "YXC"]
    elif rank == 4:
        options = ["1CYX", "1YXC"]
    else:
        return tuple(dict.fromkeys((gridded(dims, [1]), gridded(dims, [rank - 1]))))
    return tuple(dict.fromkeys(lettered(dims, option) for option in options))


def _axes(info: Any, where: str) -> tuple[Axis, ...] | None:
    """Axes of an input, None if the file does not state their number."""
    kind = info.type
    if not kind.HasField("tensor_type"):
        raise UnsupportedError(
            f"{where}: input {brief(info.name)}", "is no tensor; only tensors can be expressed"
        )
    if not kind.tensor_type.HasField("shape"):
        return None
    axes = [
        int(axis.dim_value) if axis.dim_value > 0 else axis.dim_param for axis in kind.tensor_type.shape.dim
    ]
    for axis in axes:
        if isinstance(axis, int) and axis > MAX_EXTENT:
            raise SpecError(
                f"{where}: input {brief(info.name)}", f"got an axis of {axis}, the limit is {MAX_EXTENT}"
            )
    if len(axes) > MAX_RANK:
        raise UnsupportedError(
            f"{where}: input {brief(info.name)}", f"has {len(axes)} axes, at most {MAX_RANK} work"
        )
    return tuple(axes)


def _is_weight(name: str, axes: tuple[Axis, ...] | None, uses: Uses) -> bool:
    static = axes is not None and all(isinstance(axis, int) for axis in axes)
    return static and all(position in _SLOTS.get(op, ()) for op, position in uses[name])


def _check(
    given: Mapping[str, Sequence[int]],
    data: Mapping[str, tuple[Axis, ...] | None],
    names: list[str],
    where: str,
) -> None:
    for name, dims in given.items():
        place = f"{where}: input shape {brief(name)}"
        if name not in names:
            raise SpecError(place, f"the model has no such input; its inputs are {_listed(data)}")
        if not 1 <= len(dims) <= MAX_RANK and name in data and data[name] != ():
            raise SpecError(place, f"got {len(dims)} lengths, 1 to {MAX_RANK} make sense")
        for size in dims:
            if not is_whole(size, 1, MAX_EXTENT):
                raise SpecError(place, f"got {brief(size)}, a length is an integer from 1 to {MAX_EXTENT}")
        axes = data.get(name)
        if axes is None:
            continue
        if len(axes) != len(dims):
            raise SpecError(
                place, f"got {len(dims)} lengths, the input has {len(axes)}: {_listed({name: axes})}"
            )
        for axis, size in zip(axes, dims, strict=True):
            if isinstance(axis, int) and axis != size:
                raise SpecError(
                    place, f"got {size} where the file fixes {axis}; its inputs are {_listed(data)}"
                )


def _resolved(
    name: str,
    axes: tuple[Axis, ...] | None,
    given: Mapping[str, Sequence[int]],
    where: str,
    data: Mapping[str, tuple[Axis, ...] | None],
) -> Dims:
    if name in given:
        return tuple(int(size) for size in given[name])
    if axes is not None and all(isinstance(axis, int) for axis in axes[1:]):
        return tuple(size if isinstance(size, int) else 1 for size in axes)
    place = f"{where}: input {brief(name)}"
    example = f"--input-shape {brief(name)[1:-1]}={_example(axes)}"
    raise UnsupportedError(
        place,
        f"its shape is open: {_listed({name: axes})}; give it, for example {example} "
        f"(inputs: {_listed(data)})",
    )


def _example(axes: tuple[Axis, ...] | None) -> str:
    axes = axes if axes is not None else ("", "", "", "")
    usual = (1, 3, 224, 224) if len(axes) == 4 else (1, *[128] * len(axes))
    return ",".join(str(axis if isinstance(axis, int) else usual[k]) for k, axis in enumerate(axes))


def _has_batch(name: str, dims: Dims, graph: Graph) -> bool:
    """The first axis, except where the model adds one itself or a recurrent state has it second."""
    if len(dims) < 2 or dims[0] == 1:
        return False
    return len(dims) != 3 or (dims[1] != 1 and not _gets_batch(name, graph))


def _gets_batch(name: str, graph: Graph) -> bool:
    """Whether the model inserts an axis before this input's first one."""
    constants = {tensor.name: tensor for tensor in graph.proto.initializer}
    for node in graph.nodes:
        if node.op_type != "Unsqueeze" or not node.input or node.input[0] != name:
            continue
        axes = [axis for attribute in node.attribute if attribute.name == "axes" for axis in attribute.ints]
        if len(node.input) > 1 and node.input[1] in constants:
            array = constant_of(constants[node.input[1]], graph.where).array
            axes += [] if array is None else array.reshape(-1).tolist()
        if 0 in axes or -4 in axes or not axes:
            return True
    return False


def _listed(data: Mapping[str, tuple[Axis, ...] | None]) -> str:
    shown = [f"{brief(name)} ({_named(axes)})" for name, axes in list(data.items())[:8]]
    return ", ".join(shown) + (f" and {len(data) - 8} more" if len(data) > 8 else "")


def _named(axes: tuple[Axis, ...] | None) -> str:
    if axes is None:
        return "any shape"
    return " x ".join(str(axis or "?")[:40] for axis in axes[:8]) or "scalar"
