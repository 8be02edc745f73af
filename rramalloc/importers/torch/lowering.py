"""Turns the operations of a Program into network nodes: constants, in-place calls, nested graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from rramalloc.errors import SpecError, UnsupportedError
from rramalloc.importers.torch.call import Call, Frame, Result, TensorBuilder
from rramalloc.importers.torch.graph import (
    Argument,
    Dims,
    Graph,
    Operation,
    Program,
    Ref,
    references,
)
from rramalloc.importers.torch.layout import (
    ContradictionError,
    Layout,
    Tensor,
    default_layout,
    image_layout,
    signal_layout,
)

Handler = Callable[[Call], Result]
_INLINED = ("higher_order.wrap_with_set_grad_enabled", "higher_order.wrap_with_autocast")
_VIEWS = (
    "view reshape _unsafe_view flatten unflatten squeeze unsqueeze permute transpose t movedim alias detach "
    "slice select narrow chunk split split_with_sizes unbind expand expand_as view_as"
)
_VIEW_OPS = frozenset(_VIEWS.split())
_REORDERINGS = (
    "permute", "transpose", "t", "alias", "detach", "view", "reshape", "_unsafe_view",
    "squeeze", "unsqueeze", "clone", "contiguous", "to", "_to_copy", "dequantize",
)  # fmt: skip
"""Calls that keep all values of a constant, perhaps in another order."""
_PIXEL_LAYERS = ("linear", "matmul", "layer_norm")


def lower(program: Program, nodes: TensorBuilder, handlers: Mapping[str, Handler]) -> None:
    """Append the nodes of a whole program. Raises SpecError, UnsupportedError."""
    frame: Frame = {}
    modules = {operation.module for operation in program.graph.operations}  # a layer keeps its name
    for name in program.user_inputs:
        dims = program.graph.shapes.get(name)
        if dims is None:
            raise SpecError(f"{nodes.where}: input {name[:60]!r}", "the graph states no shape")
        layout = _input_layout(program.graph, name, dims)
        if any(axis not in range(len(dims)) for group in layout for axis in group):
            raise SpecError(
                f"{nodes.where}: input {name[:60]!r}", f"its shape {dims} does not fit its reader"
            )
        _check_input(f"{nodes.where}: input {name[:60]!r}", dims, layout)
        tensor = Tensor(nodes.unique(f"{name}_input" if name in modules else name), dims, layout)
        frame[name] = nodes.emit(tensor, "input", (), shape=tuple(tensor.shape))
    _Scope(nodes, handlers, program.graph, frame).run()


class _Scope:
    """One graph. roots: for every view the tensor whose memory it shows; origins: as of Call."""

    def __init__(
        self,
        nodes: TensorBuilder,
        handlers: Mapping[str, Handler],
        graph: Graph,
        frame: Frame,
        origins: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.nodes, self.handlers, self.graph, self.frame = nodes, handlers, graph, frame
        self.roots: dict[str, str] = {}
        self.origins = dict(origins)

    def run(self) -> None:
        for operation in self.graph.operations:
            if operation.target.startswith("higher_order."):
                self._nested(operation)
                continue
            self._note_view(operation)
            operands = (ref.name for value in operation.args.values() for ref in references(value))
            if any(self.frame.get(name) is not None for name in operands):
                self._operation(Call(self.nodes, operation, self.graph.shapes, self.frame, self.origins))

    def _operation(self, call: Call) -> None:
        operation = call.operation
        if not any(operation.outputs):
            return  # an assertion or the size of a tensor
        for name in operation.outputs:
            if name is not None and 0 in call.dims_of(name):
                raise call.fault("", f"its result has no elements: {call.dims_of(name)}")
        handler = self.handlers.get(operation.op, Call.unknown)
        try:
            result = handler(call)
        except ContradictionError:
            raise call.fault("", "the shapes of its operands and results contradict each other") from None
        results = [result] if isinstance(result, Tensor) else result
        self.frame.update(
            (name, made) for name, made in zip(operation.outputs, results, strict=False) if name
        )
        first = next(iter(operation.args.values()), None)
        if not isinstance(first, Ref):
            return
        if operation.in_place and results and results[0] is not None:
            self._overwrite(call, first.name, self.roots.get(first.name, first.name), results[0])

    def _note_view(self, operation: Operation) -> None:
        first = next(iter(operation.args.values()), None)
        if operation.op in _REORDERINGS and isinstance(first, Ref) and operation.outputs[0]:
            self.origins[operation.outputs[0]] = self.origins.get(first.name, first.name)
        if operation.op in _VIEW_OPS and isinstance(first, Ref):
            root = self.roots.get(first.name, first.name)
            self.roots.update((name, root) for name in operation.outputs if name)

    def _overwrite(self, call: Call, name: str, root: str, result: Tensor) -> None:
        """The first operand is now the result; every other name for its memory depends on both."""
        self.frame[name] = result
        others = {other for other, source in self.roots.items() if source == root} | {root}
        for other in sorted(others - {name}):
            dims, old = call.dims_of(other), self.frame.get(other)
            if dims == result.dims:
                self.frame[other] = result
                continue
            sources = [result] if old is None else [old, result]
            layout = old.layout if old else default_layout(dims)
            self.frame[other] = call.barrier(sources, dims, layout, suffix="_written")

    def _nested(self, operation: Operation) -> None:
        """Graphs under no_grad or autocast are read in place; control flow cannot be."""
        place = f"{self.nodes.where}: operation {operation.name[:60]!r}"
        name = ".".join(operation.target.split(".")[:2])
        values = list(operation.args.values())
        graph = next((value for value in values if isinstance(value, Graph)), None)
        if name not in _INLINED or graph is None:
            raise UnsupportedError(
                place,
                f"{name[:60]} is control flow, which a network cannot express: export the branch that runs",
            )
        names = {
            inside.name: outside.name
            for inside, outside in zip(graph.inputs, values[values.index(graph) + 1 :], strict=False)
            if isinstance(inside, Ref) and isinstance(outside, Ref)
        }
        inner: Frame = {inside: self.frame.get(outside) for inside, outside in names.items()}
        origins = {inside: self.origins.get(outside, outside) for inside, outside in names.items()}
        _Scope(self.nodes, self.handlers, graph, inner, origins).run()
        for output, result in zip(operation.outputs, _flat(graph.outputs), strict=False):
            if output is not None:
                self.frame[output] = inner.get(result.name) if isinstance(result, Ref) else None


def _flat(arguments: Iterable[Argument]) -> Iterable[Argument]:
    for argument in arguments:
        if isinstance(argument, tuple):
            yield from argument
        else:
            yield argument


def _check_input(place: str, dims: Dims, layout: Layout) -> None:
    if 0 in dims:
        raise SpecError(place, f"has no elements: its shape is {dims}")
    first_is_batch = len(dims) > 1 and 0 not in layout.rows and not (len(dims) == 3 and layout.cols == (2,))
    if first_is_batch and dims[0] != 1:
        raise SpecError(
            place, f"the first axis is the batch and must be 1, its shape is {dims}: export with batch 1"
        )


def _input_layout(graph: Graph, name: str, dims: Dims) -> Layout:
    """Decided by the first layer that reads the input; without one the default for the rank."""
    rank = len(dims)
    same = {name}
    for operation in graph.operations:
        if operation.op == "embedding" and operation.args.get("indices") == Ref(name):
            return Layout(tuple(range(1, rank)))
        first = next(iter(operation.args.values()), None)
        if not isinstance(first, Ref) or first.name not in same:
            continue
        if any(word in operation.op for word in ("conv", "pool", "upsample")):
            return signal_layout(rank) if _is_signal(operation, graph) else image_layout(rank)
        if operation.op == "batch_norm" and rank == 3:
            return signal_layout(rank)
        if operation.op in _PIXEL_LAYERS and rank == 4:
            return Layout((1,), (2,))
        same.update(output for output in operation.outputs if output and graph.shapes.get(output) == dims)
    if rank == 3 and dims[0] > 1 and dims[1] == 1:
        return Layout((0,))
    return default_layout(dims)


def _is_signal(operation: Operation, graph: Graph) -> bool:
    weight = operation.args.get("weight")
    if isinstance(weight, Ref):
        return len(graph.shapes.get(weight.name, ())) == 3
    return "1d" in operation.op
