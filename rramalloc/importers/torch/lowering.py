"""Turns the operations of a Program into network nodes: constants, in-place calls, nested graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rramalloc.errors import NetworkError, RramallocError, SpecError, UnsupportedError
from rramalloc.importers.axes import Dims, Layout, shape_of
from rramalloc.importers.builder import module_name
from rramalloc.importers.onnx.shapes import shown
from rramalloc.importers.onnx.step import Drawing, Uses
from rramalloc.importers.onnx.tensors import Constant, Tensor, Value, tensor, usual
from rramalloc.importers.onnx.visit import Drawn, fewest_barriers
from rramalloc.importers.torch.call import Call, Frame
from rramalloc.importers.torch.operators import LAYERS, READERS, RULES, stated_bits
from rramalloc.importers.torch.program import Argument, Operation, Program, Ref, TorchGraph, references
from rramalloc.network.network import Network

_INLINED = ("higher_order.wrap_with_set_grad_enabled", "higher_order.wrap_with_autocast")
_VIEWS = frozenset(
    "view reshape _unsafe_view flatten unflatten squeeze unsqueeze permute transpose t movedim alias detach "
    "slice select narrow chunk split split_with_sizes unbind expand expand_as view_as".split()
)
_REORDERINGS = frozenset(
    "permute transpose t alias detach view reshape _unsafe_view squeeze unsqueeze clone contiguous to "
    "_to_copy dequantize dequantize_per_tensor dequantize_per_channel fake_quantize_per_tensor_affine "
    "fake_quantize_per_channel_affine".split()
)
"""Calls that keep all values of a constant, perhaps in another order."""
_SHAPE_ONLY = frozenset(
    f"{prefix}{name}{suffix}"
    for name in ("zeros", "ones", "full", "empty", "rand", "randn")
    for prefix, suffix in (("new_", ""), ("", "_like"))
) | {"fill", "zero"}
"""Calls whose result does not depend on the values of their operand."""


def network_of(program: Program, where: str, name: str, *, allow_partial: bool) -> Network:
    """The network of a whole program. Raises SpecError, NetworkError, UnsupportedError."""
    inputs = {tensor: _input_dims(program, tensor, where) for tensor in program.user_inputs}
    drawing, ends = fewest_barriers(inputs, lambda layouts: _drawn(program, where, inputs, layouts))
    return drawing.network(name, "torch.export", allow_partial=allow_partial, ends=ends)


def _input_dims(program: Program, name: str, where: str) -> Dims:
    """Shape of an input; an image or signal alone, without a batch, may have any first axis."""
    place = f"{where}: input {name[:60]!r}"
    dims = program.graph.shapes.get(name)
    if dims is None:
        raise SpecError(place, "the graph states no shape")
    if 0 in dims:
        raise SpecError(place, f"has no elements: its shape is {dims}")
    if len(dims) in (2, 4, 5) and dims[0] != 1:
        raise SpecError(
            place, f"the first axis is the batch and must be 1, its shape is {dims}: export with batch 1"
        )
    return dims


def _drawn(program: Program, where: str, inputs: Mapping[str, Dims], layouts: Mapping[str, Layout]) -> Drawn:
    graph = program.graph
    drawing = Drawing(where, 1, _uses(graph), ())
    modules = {operation.module for operation in graph.operations}  # a layer keeps its name
    frame: Frame = {}
    for name, dims in inputs.items():
        node = drawing.unique(f"{name}_input" if name in modules else name)
        drawing.add(
            node, "input", (), f"{where}: input {name[:60]!r}", shape=tuple(shape_of(dims, layouts[name]))
        )
        frame[name] = tensor(node, dims, layouts[name])
    for name, array in program.constants.items():
        if graph.shapes.get(name) == array.shape:
            frame[name] = Constant(dims=array.shape, array=array, origin=name)
    _Scope(drawing, graph, frame).run()
    returned = (frame.get(ref.name) for argument in graph.outputs for ref in references(argument))
    ends = [value.node for value in returned if isinstance(value, Tensor)]
    return drawing, ends or [node.name for node in drawing.nodes]


def _uses(graph: TorchGraph) -> Uses:
    """Which ONNX operators read a tensor, and as which operand."""
    uses: dict[str, list[tuple[str, int]]] = {}
    for operation in graph.operations:
        reader = READERS.get(operation.op, operation.op)
        for position, argument in enumerate(operation.args.values()):
            for ref in references(argument):
                uses.setdefault(ref.name, []).append((reader, position))
    return uses


class _Scope:
    """One graph. roots: for every view the tensor whose memory it shows."""

    def __init__(self, drawing: Drawing, graph: TorchGraph, frame: Frame) -> None:
        self.drawing, self.graph, self.frame = drawing, graph, frame
        self.roots: dict[str, str] = {}

    def run(self) -> None:
        for operation in self.graph.operations:
            if operation.target.startswith("higher_order."):
                self._nested(operation)
                continue
            self._note_view(operation)
            call = Call(self.drawing, operation, self.graph.shapes, self.frame, "")
            operands = call.operands()[operation.op in _SHAPE_ONLY :]
            if any(isinstance(value, Tensor) for value in operands):
                self._operation(call)
            else:
                self._constant(call)

    def _operation(self, call: Call) -> None:
        operation = call.operation
        if not any(operation.outputs):
            return  # an assertion or the size of a tensor
        for name in operation.outputs:
            if name is not None and 0 in call.dims_of(name):
                raise call.fault("", f"its result has no elements: {call.dims_of(name)}")
        call.name = self.drawing.unique(_base_name(operation))
        result = RULES.get(operation.op, Call.unknown)(call)
        results = [result] if isinstance(result, Tensor | Constant) else list(result)
        results += results[-1:] * (len(operation.outputs) - len(results))
        for name, made in zip(operation.outputs, results, strict=False):
            if name is not None:
                self.frame[name] = _stated(call, made, call.dims_of(name))
        first = next(iter(operation.args.values()), None)
        if operation.in_place and isinstance(first, Ref) and operation.outputs[0]:
            self._overwrite(call, first.name, self.frame[operation.outputs[0]])

    def _constant(self, call: Call) -> None:
        """What constants alone make is a constant; one that only reorders another keeps its origin."""
        operation = call.operation
        first = next(iter(operation.args.values()), None)
        for name in operation.outputs:
            if name is None or name not in self.graph.shapes:
                continue
            if operation.op in LAYERS:
                call.name = _base_name(operation)
            value = _folded(call) or call.constant(name)
            if value.dims != self.graph.shapes[name]:
                value = call.constant(name)
            if operation.op in _REORDERINGS and isinstance(first, Ref):
                source = call.value_of(first.name)
                if isinstance(source, Constant):
                    value = replace(value, origin=source.origin, bits=stated_bits(call) or source.bits)
            self.frame[name] = value
        if operation.in_place and isinstance(first, Ref) and operation.outputs[0] in self.frame:
            self._overwrite(call, first.name, self.frame[operation.outputs[0]])

    def _note_view(self, operation: Operation) -> None:
        first = next(iter(operation.args.values()), None)
        if operation.op in _VIEWS and isinstance(first, Ref):
            root = self.roots.get(first.name, first.name)
            self.roots.update((name, root) for name in operation.outputs if name)

    def _overwrite(self, call: Call, name: str, result: Value) -> None:
        """The first operand is now the result; every other name for its memory depends on both."""
        root = self.roots.get(name, name)
        self.frame[name] = result
        others = {other for other, source in self.roots.items() if source == root} | {root}
        for other in sorted(others - {name}):
            dims, old = call.dims_of(other), self.frame.get(other)
            if dims == result.dims:
                self.frame[other] = result
                continue
            sources = [value for value in (old, result) if isinstance(value, Tensor)]
            if not sources:
                continue
            layout = old.layout if isinstance(old, Tensor) else usual(dims)
            self.frame[other] = call.step("copy").barrier(sources, dims, layout, "written")

    def _nested(self, operation: Operation) -> None:
        """Graphs under no_grad or autocast are read in place; control flow cannot be."""
        place = f"{self.drawing.where}: operation {operation.name[:60]!r}"
        name = ".".join(operation.target.split(".")[:2])
        values = list(operation.args.values())
        graph = next((value for value in values if isinstance(value, TorchGraph)), None)
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
        outer = Call(self.drawing, operation, self.graph.shapes, self.frame, "")
        inner: Frame = {inside: outer.value_of(outside) for inside, outside in names.items()}
        _Scope(self.drawing, graph, inner).run()
        for output, result in zip(operation.outputs, _flat(graph.outputs), strict=False):
            if output is not None and isinstance(result, Ref) and result.name in inner:
                self.frame[output] = inner[result.name]


def _folded(call: Call) -> Constant | None:
    """The whole numbers that an operator makes of whole numbers, None if it is not one that indices need."""
    op, operands = call.operation.op, call.operands()
    known = not any(isinstance(value, Tensor) or value.array is None for value in operands)
    rule = RULES.get(op) if op in LAYERS or (known and (operands or op == "arange")) else None
    if rule is None:
        return None
    try:
        made = rule(call)
    except RramallocError:  # then it is a constant without values
        return None
    return made if isinstance(made, Constant) and made.array is not None else None


def _stated(call: Call, value: Value, dims: Dims) -> Value:
    """A result, which must have the shape that PyTorch states. Raises NetworkError."""
    if value.dims == dims:
        return value
    if isinstance(value, Constant):
        return replace(value, dims=dims, array=None)
    raise NetworkError(
        call.place, f"is {shown(value.dims)} by the model's rules and {shown(dims)} in the exported graph"
    )


def _base_name(operation: Operation) -> str:
    if not operation.module:
        return operation.name
    return module_name(operation.module, operation.module_type, operation.name)


def _flat(arguments: Iterable[Argument]) -> Iterable[Argument]:
    for argument in arguments:
        if isinstance(argument, tuple):
            yield from argument
        else:
            yield argument
