"""A live PyTorch module or ExportedProgram, turned into a Program; the only file that imports torch."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from rramalloc.errors import FileError, NetworkError, SpecError
from rramalloc.importers.torch.program import (
    MAX_CONSTANT,
    Argument,
    Dims,
    Operation,
    Program,
    Ref,
    Symbols,
    TorchGraph,
    checked_dims,
)
from rramalloc.network.network import MAX_NODES
from rramalloc.records import brief


def live_program(module: Any, shapes: Sequence[Dims], where: str) -> Program:
    """Trace a module (weights are shared, nothing is computed), or take an ExportedProgram as it is.

    The module itself is not changed. Raises FileError, SpecError.
    """
    torch = _torch()
    if isinstance(module, torch.export.ExportedProgram):
        exported = module
    elif isinstance(module, torch.nn.Module):
        exported = _export(torch, module, shapes, where)
    else:
        raise SpecError(where, f"must be a torch.nn.Module or an ExportedProgram, got {brief(type(module))}")
    return _Converter(torch, exported, where).program()


def _torch() -> Any:
    try:
        import torch
        import torch.export
    except ImportError:
        raise FileError(
            "torch", "is not installed; reading live modules needs it: pip install 'rramalloc[torch]'"
        ) from None
    return torch


def _export(torch: Any, module: Any, shapes: Sequence[Dims], where: str) -> Any:
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # its fused operator hides the linear layers
    try:
        device = next((tensor.device for tensor in (*module.parameters(), *module.buffers())), None)
        examples = tuple(torch.empty(shape, device=device or "cpu") for shape in shapes)
        return torch.export.export(_copy(torch, module).eval(), examples)
    except Exception as error:  # forward() is the user's code and may raise anything
        text = str(error).strip().split("\n", 1)[0][:300]
        raise SpecError(
            where,
            f"torch.export cannot trace it with inputs of {_listed(shapes)} "
            f"({type(error).__name__}: {text}); check the example shape, or pass an ExportedProgram",
        ) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)


def _copy(torch: Any, module: Any) -> Any:
    """A copy that shares all tensors: the deep copy finds every one of them copied already."""
    memo: dict[int, Any] = {}
    for child in module.modules():
        for tensor in (*child.parameters(False), *child.buffers(False), *vars(child).values()):
            if isinstance(tensor, torch.Tensor):
                memo[id(tensor)] = tensor
    return copy.deepcopy(module, memo)


def _listed(shapes: Sequence[Dims]) -> str:
    return " and ".join("x".join(map(str, shape)) for shape in shapes) or "no shape"


class _Converter:
    """Walks the fx graph of an ExportedProgram."""

    def __init__(self, torch: Any, exported: Any, where: str) -> None:
        self.torch, self.exported, self.where = torch, exported, where
        self.symbols = Symbols()

    def program(self) -> Program:
        names = set(self.exported.graph_signature.user_inputs)
        nodes = [
            node for node in self.exported.graph.nodes if node.op == "placeholder" and node.name in names
        ]
        tensors = [node for node in nodes if isinstance(node.meta.get("val"), self.torch.Tensor)]
        self.symbols = Symbols.of(
            [(None if isinstance(size, int) else str(size), _hint(size)) for size in node.meta["val"].shape]
            for node in tensors
        )
        graph = self._graph(self.exported.graph_module)
        return Program(graph, tuple(node.name for node in tensors), dict(self._whole_numbers()))

    def _whole_numbers(self) -> Iterator[tuple[str, Any]]:
        """Values of small constants of whole numbers, by their name in the graph."""
        signature = self.exported.graph_signature
        names = {**signature.inputs_to_lifted_tensor_constants, **signature.inputs_to_buffers}
        for name, path in names.items():
            value = self.exported.constants.get(path, self.exported.state_dict.get(path))
            whole = isinstance(value, self.torch.Tensor) and not value.is_floating_point()
            if whole and value.device.type != "meta" and value.numel() <= MAX_CONSTANT:
                yield name, value.detach().to("cpu", self.torch.int64).numpy()

    def _graph(self, module: Any) -> TorchGraph:
        nodes = list(module.graph.nodes)
        if len(nodes) > MAX_NODES:
            raise NetworkError(self.where, f"has {len(nodes)} operations, the limit is {MAX_NODES}")
        shapes: dict[str, Dims] = {}
        for node in nodes:
            value = node.meta.get("val")
            if isinstance(value, self.torch.Tensor):
                shapes[node.name] = self._dims(value, node.name)
        return TorchGraph(
            tuple(Ref(node.name) for node in nodes if node.op == "placeholder"),
            tuple(self._operations(nodes, module)),
            tuple(
                self._argument(item, module) for node in nodes if node.op == "output" for item in node.args[0]
            ),
            shapes,
        )

    def _dims(self, tensor: Any, name: str) -> Dims:
        place = f"{self.where}: tensor {brief(name)}"
        sizes = (
            size if isinstance(size, int) else self.symbols.dimension(str(size), _hint(size), place)
            for size in tensor.shape
        )
        return checked_dims(sizes, place)

    def _operations(self, nodes: list[Any], module: Any) -> Iterator[Operation]:
        for node in nodes:
            if node.op != "call_function" or node.target is operator.getitem:
                continue
            path, kind = _module_of(node)
            yield Operation(
                node.name,
                _target(node.target),
                self._arguments(node, module),
                self._outputs(node),
                path,
                kind,
            )

    def _arguments(self, node: Any, module: Any) -> dict[str, Argument]:
        schema = getattr(node.target, "_schema", None)
        names = [argument.name for argument in schema.arguments] if schema else []
        named: dict[str, Argument] = {}
        for index, value in enumerate(node.args):
            key = names[index] if index < len(names) else str(index)
            named[key] = self._argument(value, module)
        named.update({key: self._argument(value, module) for key, value in node.kwargs.items()})
        return named

    def _argument(self, value: Any, module: Any) -> Argument:
        if isinstance(value, self.torch.fx.Node):
            meta = value.meta.get("val")
            if value.op == "get_attr" and isinstance(
                getattr(module, value.target, None), self.torch.nn.Module
            ):
                return self._graph(getattr(module, value.target))
            return Ref(_first_twin(value).name) if isinstance(meta, self.torch.Tensor) else None
        if isinstance(value, list | tuple):
            return tuple(self._argument(item, module) for item in value)
        return value if isinstance(value, int | float | str) else None

    def _outputs(self, node: Any) -> tuple[str | None, ...]:
        """One name, or for a list of tensors the names of the getitem nodes that pick them."""
        value = node.meta.get("val")
        if isinstance(value, self.torch.Tensor):
            return (node.name,)
        if not isinstance(value, list | tuple):
            return (None,)
        names: list[str | None] = [None] * len(value)
        for user in node.users:
            if user.target is operator.getitem and isinstance(value[user.args[1]], self.torch.Tensor):
                names[user.args[1]] = _first_twin(user).name
        return tuple(names)


def _first_twin(node: Any) -> Any:
    """Of all getitem nodes that pick the same output, the first one; any other node is its own."""
    if node.target is not operator.getitem:
        return node
    return next(user for user in node.args[0].users if user.target is node.target and user.args == node.args)


def _target(target: Any) -> str:
    schema = getattr(target, "_schema", None)
    if schema is not None:
        return f"{schema.name.replace('::', '.')}.{schema.overload_name or 'default'}"
    kind = "higher_order" if type(target).__module__.startswith("torch.") else "python"
    return f"{kind}.{getattr(target, '__name__', str(target))}"


def _module_of(node: Any) -> tuple[str, str]:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    if not stack:
        return "", ""
    path, kind = stack[-1]
    name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    return (path, name)


def _hint(extent: Any) -> int | None:
    hint = getattr(getattr(extent, "node", None), "hint", None)
    return hint if isinstance(hint, int) else None
