"""One ATen call during the conversion: typed access to its arguments, and the nodes it emits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rramalloc.errors import NetworkError, SpecError
from rramalloc.importers.axes import MAX_TAKEN, runs_of
from rramalloc.importers.builder import GraphBuilder, module_name
from rramalloc.importers.torch.graph import Argument, Dims, Operation, Ref, references
from rramalloc.importers.torch.layout import Layout, Tensor, default_layout
from rramalloc.records import brief

Result = Tensor | Sequence[Tensor | None]
Frame = dict[str, Tensor | None]
"""Tensors by name; one that depends on constants only is absent or None."""
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_INDEXED = frozenset(
    (
        "index",
        "index_put",
        "scatter",
        "scatter_add",
        "scatter_reduce",
        "masked_scatter",
        "grid_sampler",
        "grid_sampler_2d",
    )
)
"""Operators whose constant operands say where values go, and are no weights."""


class TensorBuilder(GraphBuilder):
    """A graph builder whose nodes must have the shapes that PyTorch states for their tensors."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self._placed: dict[tuple[str, Layout], str] = {}

    def emit(self, tensor: Tensor, op: str, inputs: Sequence[str], **fields: Any) -> Tensor:
        """Append the node that computes `tensor`; return the tensor. Raises NetworkError."""
        place = f"{self.where}: node {brief(tensor.node)}"
        shape = self.add(tensor.node, op, inputs, f"{place} ({op})", **fields)
        if shape != tensor.shape:
            raise NetworkError(
                place, f"is {shape} by the model's rules and {tensor.shape} in the exported graph"
            )
        return tensor

    def placed(self, tensor: Tensor, layout: Layout) -> Tensor:
        """The tensor with its pixels in another layout: a barrier, made once, unless they lie so already."""
        if tensor.lies(layout):
            return Tensor(tensor.node, tensor.dims, layout)
        key = (tensor.node, layout)
        if key not in self._placed:
            moved = Tensor(self.unique(f"{tensor.node}_reordered"), tensor.dims, layout)
            self._placed[key] = moved.node
            return self.emit(moved, "barrier", [tensor.node], shape=tuple(moved.shape))
        return Tensor(self._placed[key], tensor.dims, layout)


class Call:
    """One ATen call. nodes: where to emit; frame: what the names stand for.

    origins: for constants that only reorder another one, the name of that; name: reserved for the main node.
    """

    def __init__(
        self,
        nodes: TensorBuilder,
        operation: Operation,
        shapes: Mapping[str, Dims],
        frame: Frame,
        origins: Mapping[str, str],
    ) -> None:
        self.nodes, self.operation, self.frame = nodes, operation, frame
        self._shapes, self._origins = shapes, origins
        self.name = nodes.unique(_base_name(operation))
        self._emitted = False

    def fault(self, field: str, reason: str) -> SpecError:
        """The error to raise for an argument of this call."""
        place = f"{self.nodes.where}: operation {self.operation.name[:60]!r} ({self.operation.op[:60]})"
        return SpecError(f"{place}.{field}" if field else place, reason)

    def given(self, key: str) -> Argument:
        """An argument, None if left out."""
        return self.operation.args.get(key)

    def tensor(self, *keys: str) -> Tensor | None:
        """The tensor under the first key that is there; None if it is constant or left out."""
        for key in keys:
            argument = self.given(key)
            if isinstance(argument, Ref):
                return self.frame.get(argument.name)
        return None

    def operand(self, *keys: str) -> Tensor:
        """Like `tensor`, but without one the first tensor that is not constant."""
        return self.tensor(*keys) or self.tensors()[0]

    def tensors(self) -> list[Tensor]:
        """All operands that are not constant, in order."""
        found = (
            self.frame.get(ref.name)
            for argument in self.operation.args.values()
            for ref in references(argument)
        )
        return [tensor for tensor in found if tensor is not None]

    def dims(self, *keys: str) -> Dims | None:
        """Dimensions of a tensor argument, constant or not; None without one."""
        for key in keys:
            argument = self.given(key)
            if isinstance(argument, Ref):
                return self.dims_of(argument.name)
        return None

    def origin(self, *keys: str) -> str:
        """The parameter behind a constant operand."""
        name = next(ref.name for ref in map(self.given, keys) if isinstance(ref, Ref))
        return self._origins.get(name, name)

    def dims_of(self, name: str) -> Dims:
        """Dimensions of a tensor by name. Raises SpecError if the graph does not state them."""
        if name not in self._shapes:
            raise self.fault("", f"the graph states no shape for the tensor {brief(name)}")
        return self._shapes[name]

    def out(self, index: int = 0) -> Dims:
        """Dimensions of an output."""
        outputs = self.operation.outputs
        name = outputs[index] if index < len(outputs) else None
        if name is None:
            raise self.fault("outputs", f"output {index} is no tensor")
        return self.dims_of(name)

    def number(self, key: str, default: int) -> int:
        """A whole number. Raises SpecError for anything else."""
        value = self.operation.args.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fault(key, f"must be a fixed whole number, got {brief(value)}")
        return value

    def ints(self, key: str, count: int, default: int) -> Dims:
        """`count` whole numbers; one number stands for all, none or an empty list for the default."""
        value = self.given(key)
        items = value if isinstance(value, tuple) else (default if value is None else value,)
        items = items or (default,)
        items = items * count if len(items) == 1 else items
        if len(items) != count or not all(type(item) is int and item >= 0 for item in items):
            raise self.fault(key, f"must be {count} whole numbers of at least 0, got {brief(value)}")
        return tuple(item for item in items if isinstance(item, int))

    def axes(self, key: str, rank: int) -> tuple[int, ...]:
        """Axes counted from 0, one number or a list; all axes if left out or empty."""
        value = self.given(key)
        items = value if isinstance(value, tuple) else () if value is None else (value,)
        if not all(type(item) is int and -rank <= item < rank for item in items):
            raise self.fault(key, f"must be axes from {-rank} to {rank - 1}, got {brief(value)}")
        return tuple(item % rank for item in items if isinstance(item, int)) or tuple(range(rank))

    def axis(self, key: str, rank: int, default: int = 0) -> int:
        """One axis counted from 0."""
        value = self.number(key, default)
        if not -rank <= value < rank:
            raise self.fault(key, f"must be an axis from {-rank} to {rank - 1}, got {brief(value)}")
        return value % rank

    def emit(
        self,
        op: str,
        inputs: Sequence[Tensor],
        dims: Dims,
        layout: Layout,
        *,
        suffix: str = "",
        **fields: Any,
    ) -> Tensor:
        """Append a node. Without a suffix it takes the name of the call, further ones a number."""
        if suffix or self._emitted:
            name = self.nodes.unique(self.name + suffix)
        else:
            self._emitted, name = True, self.name
        tensor = Tensor(name, dims, layout)
        return self.nodes.emit(tensor, op, [source.node for source in inputs], **fields)

    def select(self, source: Tensor, dims: Dims, layout: Layout, *, suffix: str = "") -> Tensor:
        """The same pixels with other channels."""
        channels = Tensor("", dims, layout).shape.channels
        return self.emit("select", [source], dims, layout, suffix=suffix, channels=channels)

    def barrier(
        self, sources: Sequence[Tensor], dims: Dims, layout: Layout | None = None, *, suffix: str = ""
    ) -> Tensor:
        """A node that waits for all pixels of its inputs."""
        layout = default_layout(dims) if layout is None else layout
        shape = tuple(Tensor("", dims, layout).shape)
        return self.emit("barrier", sources, dims, layout, suffix=suffix, shape=shape)

    def collapsed(self, source: Tensor, *, suffix: str = "_whole") -> Tensor:
        """All channels at one pixel, once every pixel is there; the tensor itself if it has one pixel."""
        if source.shape.pixels == 1:
            return source
        dims = (source.shape.channels,)
        return self.barrier([source], dims, Layout(), suffix=suffix)

    def whole(self, source: Tensor, *, suffix: str) -> Tensor:
        """An operand of which every pixel of the result needs every pixel: pooled to one."""
        if source.shape.pixels == 1:
            return source
        return self.emit("global_maxpool", [source], (source.shape.channels,), Layout(), suffix=suffix)

    def taken(
        self,
        source: Tensor,
        axis: int,
        indices: Sequence[int],
        dims: Dims,
        layout: Layout,
        *,
        suffix: str = "",
    ) -> Tensor | None:
        """These places along an axis that is a side of the grid, -1 for zeros; None for any other axis."""
        own = source.essential
        side = next((grid for grid in (0, 1) if own[grid] == (axis,)), None)
        if side is None or max(len(indices), source.dims[axis]) > MAX_TAKEN:
            return None
        runs: dict[str, Any] = {("rows", "columns")[side]: runs_of(indices)}
        return self.emit("take", [source], dims, layout, suffix=suffix, **runs)

    def placed(self, source: Tensor, layout: Layout) -> Tensor:
        """The tensor with its pixels in `layout`."""
        return self.nodes.placed(source, layout)

    def unknown(self, note: str = "") -> Result:
        """Every output waits for all pixels of all inputs; note: why, if the operator itself is known."""
        sources = list(dict.fromkeys(self.tensors()))
        results: list[Tensor | None] = []
        for name in self.operation.outputs:
            dims = self.dims_of(name) if name is not None else None
            same = next((source for source in sources if source.dims == dims), None)
            results.append(
                None if dims is None else self.barrier(sources, dims, same.layout if same else None)
            )
        made = [result.node for result in results if result is not None]
        if made:
            op, weights = self.operation.op, 0 if note else self._weights()
            lost = ", its weights take no arrays" if weights else ""
            self.nodes.approximate(made, op, note or f"is not known: treated as a barrier{lost}")
            if weights:
                macs = weights * math.prod(sources[0].dims[:-1]) if op in _RECURRENT else None
                self.nodes.leave_out(made, op, weights, macs)
        return results

    def _weights(self) -> int:
        """Constant weights of an operator without a rule: matrices that are no indices."""
        op, args = self.operation.op, self.operation.args
        values = [args.get("params")] if op in _RECURRENT else args.values()
        matrices = [
            self._shapes.get(ref.name, ())
            for argument in values
            for ref in references(argument)
            if self.frame.get(ref.name) is None
        ]
        long = [dims for dims in matrices if sum(extent > 1 for extent in dims) > 1]
        return 0 if op in _INDEXED else sum(math.prod(dims) for dims in long)


def same_values(first: Dims, second: Dims) -> bool:
    """Do two shapes hold equally many values?"""
    return math.prod(first) == math.prod(second)


def _base_name(operation: Operation) -> str:
    if not operation.module:
        return operation.name
    return module_name(operation.module, operation.module_type, operation.name)
