"""Inputs of the graph: which are data or weights, and their shapes."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.helper

from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.importers.axes import AxisRoles, Dims, lettered
from rramalloc.importers.onnx.graph import Graph, values_read
from rramalloc.importers.onnx.shapes import PRODUCTS, SUMS
from rramalloc.importers.onnx.tensors import (
    EVALUATED,
    MAX_FOLDED,
    Constant,
    foldable,
    gridded,
)
from rramalloc.network.geometry import MAX_EXTENT
from rramalloc.records import brief, is_whole

MAX_RANK = 16  # axes of an input
_MOST_EXAMPLES = 100  # of shapes in a message: of the caches of 48 layers, and what else there is
_COLOURS = (1, 3)  # channels of most videos
TRIAL = 2
"""Length of an open first axis while it is not known whether the model treats it as a batch."""
_SLOTS = {
    op: places
    for places, ops in {
        (1,): "BiasGelu FastGelu PRelu RMSNormalization SimplifiedLayerNormalization",
        (1, 2): "Attention Conv ConvTranspose DecoderMaskedSelfAttention DequantizeLinear FusedConv "
        "FusedGemm Gemm GroupNormalization InstanceNormalization LayerNormalization QuantizeLinear",
        (1, 2, 3): "GRU IntQuant Quant RNN",
        (1, 2, 3, 7): "LSTM",
        (1, 2, 3, 4): "BatchNormalization DynamicQuantizeMatMul",
        (1, 2, 3, 4, 5): "MatMulNBits",
        (1, 2, 3, 4, 5, 6, 7, 8): "QGemm QLinearConv",
        (1, 2, 4, 5, 6, 7): "QLinearMatMul",
        (1, 3): "ConvInteger",
        (1, 2, 3, 4, 6, 7): "QAttention",
        (2, 3): "MatMulInteger",
        (2, 3, 4): "SkipLayerNormalization SkipSimplifiedLayerNormalization",
        (2, 3, 4, 5, 6): "EmbedLayerNormalization MatMulIntegerToFloat",
        (3,): "MultiHeadAttention",
        (10,): "DecoderMaskedMultiHeadAttention",
    }.items()
    for op in ops.split()
}
"""Input positions that hold weights, never data."""
_FACTORS = {"Einsum": (0, 1), "Gemm": (0,), "QLinearMatMul": (0, 3), "Gather": (0,)} | dict.fromkeys(
    ("MatMul", "MatMulInteger", "MatMulIntegerToFloat", "FusedMatMul"), (0, 1)
)
"""Input positions that hold data or a matrix of weights (Gather: a table)."""
_KERNELS: Mapping[str, tuple[int, ...]] = {
    op: places
    for places, ops in {
        (1,): "Attention CausalConvWithState Conv ConvInteger ConvTranspose DecoderMaskedSelfAttention "
        "DeformConv DynamicQuantizeMatMul FusedConv MatMulBnb4 MatMulNBits QAttention",
        (3,): "QLinearConv",
        (1, 2): "DynamicQuantizeLSTM GRU LSTM RNN",
    }.items()
    for op in ops.split()
}
"""Input positions of layers that hold nothing but weights."""
MATRICES: Mapping[str, tuple[int, ...]] = {
    op: places
    for places, ops in {
        (0, 1): "FusedGemm FusedMatMul FusedMatMulActivation Gemm MatMul MatMulInteger MatMulIntegerToFloat "
        "TransposeMatMul",
        (0, 3): "QGemm QLinearMatMul",
    }.items()
    for op in ops.split()
}
"""Input positions of layers that hold data or a matrix of weights; those of Einsum are all."""
_MOVES = frozenset(
    "Cast Concat DequantizeLinear Flatten Identity QuantizeLinear Reshape Slice Split Squeeze Transpose "
    "Unsqueeze".split()
)
_COMBINED = frozenset((*SUMS, *PRODUCTS))

_AS_DATA = (
    "not as weights, because the file stores the weights of other layers: products with it are dynamic, "
    "beside the arrays"
)
_AS_WEIGHTS = (
    "as operators use them and the file stores no weights; where one is data, give its shape by --input-shape"
)
_NO_WEIGHTS = (onnx.TensorProto.INT64, onnx.TensorProto.BOOL)
"""Element types of tokens, places and masks."""

InputValue = bool | int | float | Sequence[bool | int | float]
"""Value of an input: one number for all of its elements, or one for each, in order."""
AxisName = int | str
"""Length of an axis, or what the file calls it ("" if nothing) where the length is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Shapes of the inputs: data, and weights that the file lists as inputs; values of those that are given.

    open: what the file calls the first axis where it leaves its length open; given: inputs with a shape that
    the user gave; batch: the batch that was replaced by 1, 1 if none; batch_places: axis of each tensor that
    holds it, where known; images: inputs with images along it; dynamic: inputs
    with an open one, of the length of an example; notes: what was assumed of first axes.
    """

    data: Mapping[str, Dims]
    weights: Mapping[str, Dims]
    values: Mapping[str, Constant]
    open: Mapping[str, str]
    given: frozenset[str]
    batch: int = 1
    batch_places: Mapping[str, int] = field(default_factory=dict)
    images: frozenset[str] = frozenset()
    dynamic: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def checked_values(given: Mapping[str, InputValue], where: str) -> dict[str, InputValue]:
    """Return the values of inputs as truth values, numbers or tuples of these. Raises SpecError."""
    checked: dict[str, InputValue] = {}
    for name, value in given.items():
        array = np.asarray(value)
        is_number = array.dtype.kind in "biuf" and array.ndim < 2 and 0 < array.size <= MAX_FOLDED
        if not is_number or (array.dtype.kind == "f" and not np.isfinite(array).all()):
            place = f"{where}: input value {brief(name)}"
            raise SpecError(place, f"must be a number, true or false, or a list of these, got {brief(value)}")
        checked[name] = array.item() if array.ndim == 0 else tuple(array.tolist())
    return checked


def resolved_inputs(
    graph: Graph, given: Mapping[str, Sequence[int]], values: Mapping[str, InputValue] | None = None
) -> Inputs:
    """Return the resolved shapes of all inputs that the outputs need; an open first axis is `TRIAL` long.

    values: of inputs, which are constants then. Raises SpecError for a given shape or value that does not
    fit, UnsupportedError for open axes without one.
    """
    stored = {tensor.name for tensor in graph.proto.initializer}
    stored |= {tensor.values.name for tensor in graph.proto.sparse_initializer}
    known = {
        info.name: _valued(info, values[info.name], given.get(info.name), graph.where)
        for info in graph.proto.input
        if values and info.name in values
    }
    infos = [info for info in graph.proto.input if info.name not in stored and info.name not in known]
    declared = {info.name: _axes(info, graph.where) for info in infos if info.name in graph.uses}
    reads = ((name, at, node) for node in graph.nodes for at, name in enumerate(values_read(node)))
    free = {name for name, at, node in reads if at not in held_by(node)}.union(graph.outputs)
    weights = _weights(graph, {n: () if n in given else axes for n, axes in declared.items()}, free)
    matrices, note = [name for name in weights if _is_matrix(declared[name])], ""
    if weights and _stores_weights(graph.nodes, ChainMap(_stored_matrices(graph.proto))):
        note = _note(matrices, "data", _AS_DATA) if len(weights) < len(declared) else ""
        weights = []
    elif weights:
        note = _note(list(dict.fromkeys((*matrices, *weights))), "weights", _AS_WEIGHTS)
    data = {name: axes for name, axes in declared.items() if name not in weights}
    if not data:
        without = " without a given value" if known else ""
        raise SpecError(graph.where, f"graph.input: no output of the model depends on an input{without}")
    _check(
        {name: dims for name, dims in given.items() if name not in known},
        data,
        [info.name for info in infos],
        graph.where,
    )
    shapes, opened = dict[str, Dims](), dict[str, str]()
    for name, axes in data.items():
        if name in given:
            shapes[name] = tuple(int(size) for size in given[name])
            continue
        if axes is None or not _is_fixed(axes[1:]):
            rest = {n: axes for n, axes in data.items() if n not in given}
            asked = {n: axes for n, axes in rest.items() if axes is None or not _is_fixed(axes[1:])}
            raise open_shape(asked, graph.where, f" (inputs: {_listed(data)})")
        shapes[name] = tuple(size if isinstance(size, int) else TRIAL for size in axes)
        if axes and isinstance(axes[0], str):
            opened[name] = axes[0]
    fixed = {name: declared[name] or () for name in weights}
    return Inputs(
        data=shapes,
        weights={n: tuple(size for size in axes if isinstance(size, int)) for n, axes in fixed.items()},
        values=known,
        open=opened,
        given=frozenset(given),
        notes=(note,) if note else (),
    )


def _valued(info: Any, value: InputValue, given: Sequence[int] | None, where: str) -> Constant:
    """Return an input with this value: one number for all of its elements, or one for each."""
    place = f"{where}: input value {brief(info.name)}"
    axes, numbers = _axes(info, where), np.asarray(value)
    if given is not None:
        dims = tuple(map(int, given))
    elif _is_fixed(axes or ()):
        dims = tuple(map(int, axes or ()))
    elif len(axes or ()) == 1:
        dims = (numbers.size,)
    else:
        raise open_shape({info.name: axes}, where, "")
    kind = info.type.tensor_type.elem_type
    if kind not in EVALUATED:
        raise SpecError(place, "the input has a type of which no values are taken")
    wanted = onnx.helper.tensor_dtype_to_np_dtype(kind)
    with np.errstate(all="ignore"):
        cast = numbers.astype(wanted)
    if wanted.kind != "f" and (cast.astype(np.float64) != numbers.astype(np.float64)).any():
        raise SpecError(place, f"must be {wanted.name}, got {brief(value)}")
    elements = math.prod(dims)
    if numbers.size not in (1, elements):
        raise SpecError(place, f"got {numbers.size} numbers, the input has {elements} elements")
    array = (
        np.broadcast_to(cast.reshape(-1), (elements,)).reshape(dims) if foldable(elements, wanted) else None
    )
    return Constant(dims=dims, array=array, origin=info.name)


def _note(names: Sequence[str], kind: str, why: str) -> str:
    """Return the note on inputs without a stored value in the place of weights, "" for none."""
    if not names:
        return ""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"input {brief(names[0])}{more}: taken as {kind}, {why}"


def layouts_of(dims: Dims, are_images: bool = False) -> tuple[AxisRoles, ...]:
    """Return the possible roles of the axes of an input, the likeliest first.

    are_images: whether the first axis holds images.
    """
    rank = len(dims)
    if are_images and 2 < rank < 5:
        return tuple(lettered(dims, option) for option in (("ICYX", "IYXC") if rank == 4 else ("ICY", "IYC")))
    if rank == 0:
        return ((),)
    if rank <= 2:
        options = ["1C"[-rank:], "1Y"[-rank:]]
        options = options if dims[0] == 1 or rank == 1 else ["YC", "YX"]
    elif rank == 3:
        options = ["1CY", "1YC", "1YX"] if dims[0] == 1 else ["CYX", "YXC"]
    elif rank == 4:
        options = ["1CYX", "1YXC"]
    else:
        videos = ["1ICYX", "1CIYX", "1IYXC"] if rank == 5 and dims[0] == 1 else []
        videos = ["I1CYX", "I1YXC"] if rank == 5 and dims[1] == 1 < dims[0] else videos
        if dims[1] in _COLOURS:
            videos = videos[1:] + videos[:1]
        frames = [lettered(dims, option) for option in videos]
        return tuple(dict.fromkeys((*frames, gridded(dims, [1]), gridded(dims, [rank - 1]))))
    return tuple(dict.fromkeys(lettered(dims, option) for option in options))


def _axes(info: Any, where: str) -> tuple[AxisName, ...] | None:
    """Return the axes of an input, None if the file does not state their number."""
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


def _weights(
    graph: Graph, declared: Mapping[str, tuple[AxisName, ...] | None], free: Collection[str]
) -> list[str]:
    """Return the inputs without stored values that operators use as weights, perhaps in another order.

    They stand where an operator takes weights, or computed values are multiplied with them, or look them up,
    and they have no batch: the first axis is longer than 1, and another input is likelier to be the data.
    A vector that is combined with computed values counts as a bias or scale, unless it has a batch, as masks
    of tokens do; whole numbers of 64 bits and truth values are data. free: tensors that some operator reads
    where it may take data.
    """
    fixed = {n: [int(axis) for axis in axes] for n, axes in declared.items() if axes and _is_fixed(axes)}
    rest = [name for name in declared if name not in fixed or name in free]
    vectors = {n for n, dims in fixed.items() if sum(size > 1 for size in dims) < 2}
    likely = [n for n in rest if n not in fixed or (len(fixed[n]) > 1 and fixed[n][0] == 1)]
    likely.sort(key=lambda name: name in vectors)
    data, weights = set((likely or rest)[:1]), set[str]()
    lead = [fixed[name][0] for name in data if name in fixed]
    kinds_of = {info.name: info.type.tensor_type.elem_type for info in graph.proto.input}
    static = {n: dims for n, dims in fixed.items() if kinds_of[n] not in _NO_WEIGHTS}
    vectors = {n for n in vectors & static.keys() if len(static[n]) != 2 or static[n][0] > 1}
    matrices = {n for n, dims in static.items() if len(dims) == 2 or (len(dims) > 2 and dims[:1] != lead)}
    matrices = {name for name in matrices if static[name][0] > 1}
    made: dict[str, frozenset[str] | None] = {name: frozenset((name,)) for name in declared}
    for node in graph.nodes:
        held, op = held_by(node), node.op_type
        sources = [made.get(name, frozenset()) for name in values_read(node)]
        moves = op in _MOVES
        partners = list(range(len(sources)))
        for at, source in reversed(list(enumerate(sources))):
            meets = not moves and _meets_data(partners, at, sources, weights)
            moves |= op in _COMBINED and not meets
            if not source or (moves and at not in held):
                continue
            kinds = matrices if at in _FACTORS.get(op, ()) else vectors if op in _COMBINED else set[str]()
            if at in held or (meets and source - weights <= kinds):
                weights |= source & static.keys()
                data |= source - static.keys()
            else:
                data |= source
        kept = [source for at, source in enumerate(sources) if at not in held]
        union = None if None in kept else frozenset().union(*[source for source in kept if source])
        result = union if moves or not union or union <= weights else None
        made.update(dict.fromkeys(filter(None, node.output), result))
    return [name for name in declared if name in weights - data]


def _meets_data(
    partners: list[int], at: int, sources: Sequence[frozenset[str] | None], weights: Collection[str]
) -> bool:
    """Return True if an operator combines its input number `at` with another one that is data.

    partners: inputs that may be data; those known to be weights are dropped, as they stay weights, so that
    an operator with many inputs takes time in proportion.
    """

    def is_data(index: int) -> bool:
        source = sources[index]
        return source is None or any(name not in weights for name in source)

    for place in (-1, -2):
        while len(partners) >= -place and not is_data(partners[place]):
            del partners[place]
        if len(partners) >= -place and partners[place] != at:
            return True
    return False


def _is_matrix(axes: Sequence[AxisName] | None) -> bool:
    """Return True if at least two axes are longer than 1."""
    return sum(axis != 1 for axis in axes or ()) > 1


def _stored_matrices(proto: Any) -> dict[str, bool]:
    """Return the tensors that a graph stores, and whether each is a matrix."""
    stored = {tensor.name: _is_matrix(tensor.dims) for tensor in proto.initializer}
    return stored | {tensor.values.name: _is_matrix(tensor.dims) for tensor in proto.sparse_initializer}


def _stores_weights(nodes: Iterable[Any], known: MutableMapping[str, bool]) -> bool:
    """Return True if a layer has a stored matrix as its weights, or one that is made of stored ones alone.

    known: tensors that no input changes, and whether they are matrices; those of the nodes are added.
    """
    for node in nodes:
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                inner = ChainMap(_stored_matrices(body), known)
                if body.node and _stores_weights(body.node, inner):
                    return True
        sources = [known.get(name) for name in node.input if name]
        if node.op_type == "Constant":
            values = [
                attribute.t if attribute.HasField("t") else attribute.sparse_tensor
                for attribute in node.attribute
            ]
            sources = [any(_is_matrix(value.dims) for value in values)]
        if None not in sources:
            known.update(dict.fromkeys(filter(None, node.output), any(sources)))
            continue
        read = dict(enumerate(known.get(name) for name in node.input))
        kernels = kernels_of(node)
        matrices = read if node.op_type == "Einsum" else MATRICES.get(node.op_type, ())
        if any(read.get(at) is not None for at in kernels) or any(read.get(at) for at in matrices):
            return True
    return False


def held_by(node: Any) -> tuple[int, ...]:
    """Return the input positions of an operator that hold weights; the standard Attention has none."""
    return () if node.op_type == "Attention" and not node.domain else _SLOTS.get(node.op_type, ())


def kernels_of(node: Any) -> tuple[int, ...]:
    """Return the positions among those that hold the weights of a layer, no biases or factors."""
    return () if node.op_type == "Attention" and not node.domain else _KERNELS.get(node.op_type, ())


def factors_of(node: Any) -> tuple[Sequence[int], Sequence[int]]:
    """Return the input positions that an operator multiplies with each other, and those of its kernels."""
    kernels = kernels_of(node)
    if kernels:
        return (0, *kernels), kernels
    if node.op_type == "Einsum":
        return range(len(node.input)), ()
    return (0, 1, 2) if node.op_type.endswith("Attention") else MATRICES.get(node.op_type, ()), ()


def _is_fixed(axes: Sequence[AxisName]) -> bool:
    return all(isinstance(axis, int) for axis in axes)


def _check(
    given: Mapping[str, Sequence[int]],
    data: Mapping[str, tuple[AxisName, ...] | None],
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


def open_shape(
    asked: Mapping[str, tuple[AxisName, ...] | None], where: str, more: str, first: int = 1
) -> UnsupportedError:
    """Return the error of open shapes, with example options; axes of one name have one length in them."""
    lengths, examples = dict[str, int](), list[str]()
    for name, axes in list(asked.items())[:_MOST_EXAMPLES]:
        known = axes if axes is not None else ("", "", "", "")
        shown = list[int]()
        usual = (first, 3, 224, 224) if len(known) == 4 else (first, *[128] * MAX_RANK)
        for size, axis in zip(usual, known, strict=False):
            is_batch = bool(shown) and isinstance(axis, str) and "batch" in axis.lower()
            size = 1 if is_batch else size
            if isinstance(axis, str) and axis:
                size = lengths.setdefault(axis, size)
            shown.append(axis if isinstance(axis, int) else size)
        examples.append(f"--input-shape {brief(name)[1:-1]}={','.join(map(str, shown))}")
    name, axes = next(iter(asked.items()))
    return UnsupportedError(
        f"{where}: input {brief(name)}",
        f"its shape is open: {_listed({name: axes})}; give it, for example {' '.join(examples)} "
        f"here, or once to `rramalloc convert FILE OUT.json`{more}",
    )


def _listed(data: Mapping[str, tuple[AxisName, ...] | None]) -> str:
    shown = []
    for name, axes in list(data.items())[:8]:
        sizes = " x ".join(str(axis or "?")[:40] for axis in (axes or ())[:8]) or "scalar"
        shown.append(f"{brief(name)} ({'any shape' if axes is None else sizes})")
    return ", ".join(shown) + (f" and {len(data) - 8} more" if len(data) > 8 else "")
