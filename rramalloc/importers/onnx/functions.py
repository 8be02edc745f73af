"""Functions that a model defines for itself, replaced by their bodies before anything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import onnx
import onnx.checker
import onnx.inliner
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]

from rramalloc.errors import NetworkError, UnsupportedError
from rramalloc.importers.onnx.graph import MAX_NODES
from rramalloc.importers.onnx.protos import MAX_FOLDED

_Key = tuple[str, str, str]
_FAILURES = (onnx.checker.ValidationError, DecodeError, EncodeError, RuntimeError, ValueError, TypeError)


def inlined(model: Any, where: str) -> Any:
    """Return the model with its functions inlined; weights stay behind.

    Raises NetworkError if a function calls itself, UnsupportedError if the result is too large.
    """
    if not model.functions:
        return model
    sizes = _sizes(model, where)
    total = sum(sizes.get(_key(node), 1) for node in _all(model.graph.node))
    if total > MAX_NODES:
        raise UnsupportedError(
            where, f"functions: with their bodies in place it has {total} operators, the limit is {MAX_NODES}"
        )
    try:
        return onnx.inliner.inline_local_functions(_without_weights(model))
    except _FAILURES as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise UnsupportedError(where, f"functions: cannot be replaced by their bodies: {reason}") from None


def _key(item: Any) -> _Key:
    """Return the key of a call, or (with its name for the operator) of a function."""
    operator = item.op_type if isinstance(item, onnx.NodeProto) else item.name
    return item.domain, operator, getattr(item, "overload", "")


def _all(nodes: Iterable[Any]) -> Iterator[Any]:
    """Yield the nodes, also those in branches and loop bodies."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _all(graph.node)


def _sizes(model: Any, where: str) -> dict[_Key, int]:
    """Return the operators in every function's body, calls counted with the bodies that they stand for."""
    calls = {_key(function): [_key(node) for node in _all(function.node)] for function in model.functions}
    sizes: dict[_Key, int] = {}
    pending = list(calls)
    active: set[_Key] = set()
    while pending:
        key = pending[-1]
        missing = [call for call in calls[key] if call in calls and call not in sizes]
        if key in sizes or not missing:
            sizes[key] = sum(sizes.get(call, 1) for call in calls[key])
            active.discard(pending.pop())
            continue
        active.add(key)
        if any(call in active for call in missing):
            raise NetworkError(where, f"functions: {key[1][:60]!r} calls itself; a network has no cycles")
        pending.extend(dict.fromkeys(missing))
    return sizes


def _without_weights(model: Any) -> Any:
    light = onnx.ModelProto(ir_version=model.ir_version, producer_name=model.producer_name)
    light.producer_version = model.producer_version
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    source, graph = model.graph, light.graph
    graph.name = source.name
    for field in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(graph, field).extend(getattr(source, field))
    for tensor in source.initializer:
        if tensor.ByteSize() <= 16 * MAX_FOLDED:
            graph.initializer.append(tensor)
        else:
            graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    return light
