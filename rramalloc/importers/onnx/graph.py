"""The graph in an ONNX file: decoded, checked, with its functions in place, in order, without what no output
needs."""

from __future__ import annotations

import ast
import graphlib
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.inliner
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]

from rramalloc.choices import NodeNames
from rramalloc.errors import FileError, NetworkError, SpecError, UnsupportedError
from rramalloc.files import ONNX_LIMIT_BYTES, read_bytes
from rramalloc.importers.builder import module_name
from rramalloc.importers.onnx.step import Uses
from rramalloc.importers.onnx.tensors import MAX_FOLDED
from rramalloc.network.network import sorted_by_needs
from rramalloc.records import brief

_QUANTISER = re.compile(
    r"(?:TRT_(?P<kind>INT8|INT4|FP8|FP4)|Vitis|Extended)?(?P<op>QuantizeLinear|DequantizeLinear)"
)
"""Quantisers of other domains (TensorRT, Vitis AI, Quark, ONNX Runtime) that compute what ONNX's own do."""
MAX_GRAPH_NODES = 200_000  # operators of a graph
_UNFOLDED = 4096  # operators that functions and loops of a small file may unfold to
_UNFOLDED_EACH = 32  # operators more for each in the file: the longest function that torch.onnx writes has 32
_MOST_UNFOLDED_BYTES = 2**28  # of a graph with all functions inlined: it bounds the memory
_LONGEST_NAME = 992  # letters; the rest of the 1,000 of a name is for the number that makes it unique
_LONGEST_NOTE = 10_000  # letters of a node's metadata; a longer one is no name of a module
_WEIGHT_LAYERS = frozenset(
    "Conv ConvInteger ConvTranspose FusedConv FusedGemm FusedMatMul Gemm MatMul MatMulInteger "
    "MatMulIntegerToFloat MatMulNBits QGemm QLinearConv QLinearMatMul".split()
)
_PARAMETER = re.compile(r"(.+?)(?:\.parametrizations)?\.weight(?:\.original\d?)?(?:_quantized)?")
"""Name of the weights of a module: as PyTorch calls them, parametrised too, and as ONNX Runtime does."""
_MOST_FOLLOWED = 16  # operators between weights and their layer: quantisers written out have up to 8
_REARRANGE = ("Cast", "CastLike", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
_NONE: Mapping[str, bool] = MappingProxyType({})
_FAILURES = (onnx.checker.ValidationError, DecodeError, EncodeError, RuntimeError, ValueError, TypeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Nodes of an ONNX graph that outputs need, producers before consumers, file order kept.

    names: of the network node that each ONNX node becomes, and `naming` where these come from; uses: readers
    of each tensor; computed: tensors whose values depend on inputs; decisions: conditions of branches, where
    the user gave them; has_options: False where a caller cannot give any.
    """

    where: str
    proto: Any
    opset: int
    nodes: Sequence[Any]
    names: Sequence[str]
    naming: NodeNames
    uses: Uses
    outputs: tuple[str, ...]
    computed: Collection[str]
    decisions: Mapping[str, bool]
    has_options: bool


def decode(path: Path) -> Any:
    """Read the ModelProto in a file; external data is not read. Raises FileError."""
    return model_in(read_bytes(path, ONNX_LIMIT_BYTES), os.fspath(path))


def model_in(content: bytes, where: str) -> Any:
    """Return the ModelProto that the content of a file holds. Raises FileError."""
    try:
        return onnx.ModelProto.FromString(content)
    except (DecodeError, RuntimeError, ValueError):
        raise FileError(
            where,
            "is not an ONNX model: it cannot be decoded; is it damaged, cut off or another format?",
        ) from None


def graph_of(
    model: Any,
    where: str,
    names: NodeNames = "module",
    given: Mapping[str, object] | None = None,
    *,
    has_options: bool = True,
) -> Graph:
    """Check a model's graph. Raises SpecError, NetworkError, UnsupportedError.

    names: of the network nodes, after PyTorch modules as far as the file tells them, or of its own nodes;
    given: values that the user gives, by inputs or by the conditions of branches.
    """
    model = inlined(model, where)
    proto = model.graph
    versions = [int(entry.version) for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not versions and model.ir_version >= 3 and any(not node.domain for node in proto.node):
        raise SpecError(where, "opset_import: the version of the ONNX operators is missing")
    opset = versions[0] if versions else 1  # files of the first versions of ONNX do not say it
    if not 1 <= opset <= 10_000:
        raise SpecError(where, f"opset_import: got version {brief(opset)}")
    if not proto.node:
        raise SpecError(where, "graph.node: holds no operators; is it an ONNX model?")
    if len(proto.node) > MAX_GRAPH_NODES:
        raise NetworkError(
            where, f"graph.node: has {len(proto.node)} operators, the limit is {MAX_GRAPH_NODES}"
        )
    _check_texts(proto, where)
    outputs = tuple(dict.fromkeys(info.name for info in proto.output if info.name))
    if not outputs:
        raise SpecError(where, "graph.output: the model has no output")
    stored = {tensor.name for tensor in proto.initializer}
    stored |= {tensor.values.name for tensor in proto.sparse_initializer}
    inputs = {info.name for info in proto.input}
    decisions = _decisions(proto, inputs, given or {}, where)
    nodes = _ordered(proto.node, inputs | stored, outputs, where, decisions)
    computed = _computed(nodes, inputs - stored - (given or {}).keys())
    return Graph(
        where=where,
        proto=proto,
        opset=opset,
        nodes=nodes,
        names=_names(nodes, computed, inputs.__contains__, names),
        naming=names,
        uses=_uses(nodes, outputs, decisions),
        outputs=outputs,
        computed=computed,
        decisions=decisions,
        has_options=has_options,
    )


def part_of(
    graph: Graph,
    body: Any,
    known: Container[str],
    computed: Callable[[str], bool],
    is_taken: Callable[[str], bool],
) -> Graph:
    """Return the nodes of a branch or of the body of a loop that its outputs need, as a graph.

    known: tensors around it; computed: True for those of them that depend on data; is_taken: True for names
    of nodes that exist. Raises NetworkError.
    """
    outputs = tuple(info.name for info in body.output)
    stored = {tensor.name for tensor in body.initializer} | {info.name for info in body.input}
    read = {name for node in body.node for name in read_by(node, graph.decisions)}.union(outputs)
    inner = {name for node in body.node for name in node.output}
    around = {name for name in read - inner if name in known}
    nodes = _ordered(body.node, around | stored, outputs, graph.where, graph.decisions)
    data = _computed(nodes, {name for name in around if computed(name)})
    names = _names(nodes, data, is_taken, graph.naming)
    uses = _uses(nodes, outputs, graph.decisions)
    return replace(graph, nodes=nodes, names=names, uses=uses, outputs=outputs, computed=data)


def _uses(nodes: Sequence[Any], outputs: Sequence[str], decisions: Mapping[str, bool]) -> Uses:
    """Return the readers of each tensor."""
    uses: dict[str, list[tuple[str, int]]] = {}
    for node in nodes:
        for position, name in enumerate(read_by(node, decisions)):
            uses.setdefault(name, []).append((node.op_type, position))
    for name in outputs:
        uses.setdefault(name, []).append(("", 0))
    return uses


def _decisions(
    proto: Any, inputs: Collection[str], given: Mapping[str, object], where: str
) -> Mapping[str, bool]:
    """Return the given truth values of conditions of branches; inputs of one element may be conditions.

    Raises SpecError for a name that is neither a condition nor an input, and for a condition whose value is
    no truth value.
    """
    conditions = {node.input[0] for node in all_nodes(proto.node) if node.op_type == "If" and node.input}
    decisions: dict[str, bool] = {}
    for name, value in given.items():
        if name in inputs:
            numbers = np.ravel(np.asarray(value))
            if numbers.size == 1:
                decisions[name] = bool(numbers[0])
            continue
        place = f"{where}: input value {brief(name)}"
        if name not in conditions:
            names = [info.name for info in proto.input]
            shown = [*names[:8], *sorted(conditions.difference(names))[:8]]
            known = ", ".join(map(brief, shown))
            raise SpecError(place, f"no input and no condition of a branch has this name; known: {known}")
        if value not in (True, False):
            raise SpecError(place, f"a condition is true or false, got {brief(value)}")
        decisions[name] = bool(value)
    return decisions


def inlined(model: Any, where: str) -> Any:
    """Return the model with its functions inlined; weights stay behind.

    Raises NetworkError if a function calls itself, UnsupportedError if the result is too large.
    """
    if not model.functions:
        return model
    calls = {
        _key(function): [_key(node) for node in all_nodes(function.node)] for function in model.functions
    }
    own_bytes = {_key(function): function.ByteSize() for function in model.functions}
    sizes, sizes_bytes = dict[tuple[str, str, str], int](), Counter[tuple[str, str, str]]()
    try:
        for key in graphlib.TopologicalSorter(calls).static_order():
            sizes[key] = 1 + sum(sizes[call] for call in calls.get(key, ()))
            sizes_bytes[key] = own_bytes.get(key, 0) + sum(sizes_bytes[call] for call in calls.get(key, ()))
    except graphlib.CycleError as error:
        name = error.args[1][0][1]
        reason = f"functions: {name[:60]!r} calls itself; a network has no cycles"
        raise NetworkError(where, reason) from None
    called = [_key(node) for node in all_nodes(model.graph.node)]
    total, total_bytes = sum(sizes.get(key, 1) for key in called), sum(sizes_bytes[key] for key in called)
    limit = min(most_unfolded(len(called) + sum(map(len, calls.values()))), MAX_GRAPH_NODES)
    if total > limit or total_bytes > _MOST_UNFOLDED_BYTES:
        reason = f"with their bodies in place it has {total:,} operators of {total_bytes:,} bytes"
        limits = f"the limit is {limit:,} for a file of its size, and {_MOST_UNFOLDED_BYTES:,} bytes"
        remedy = "export the model without functions, or with fewer calls within functions"
        raise UnsupportedError(where, f"functions: {reason}, {limits}: {remedy}")
    try:
        return onnx.inliner.inline_local_functions(_without_weights(model))
    except _FAILURES as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise UnsupportedError(where, f"functions: cannot be replaced by their bodies: {reason}") from None


def most_unfolded(stated: int) -> int:
    """Return the limit of operators that a file with `stated` operators may unfold to."""
    return _UNFOLDED + _UNFOLDED_EACH * stated


def _key(item: Any) -> tuple[str, str, str]:
    """Return the key of a call, or (with its name for the operator) of a function."""
    operator = item.op_type if isinstance(item, onnx.NodeProto) else item.name
    return item.domain, operator, getattr(item, "overload", "")


def all_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """Yield the nodes, also those in branches and loop bodies."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from all_nodes(graph.node)


def _without_weights(model: Any) -> Any:
    light = onnx.ModelProto(ir_version=model.ir_version, producer_name=model.producer_name)
    light.producer_version = model.producer_version
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    light.graph.name = model.graph.name
    for field in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(light.graph, field).extend(getattr(model.graph, field))
    for tensor in model.graph.initializer:
        if tensor.ByteSize() <= 16 * MAX_FOLDED:
            light.graph.initializer.append(tensor)
        else:
            light.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    return light


def _check_texts(proto: Any, where: str) -> None:
    """Raise SpecError for a text that is not UTF-8: some versions of protobuf hand it out as bytes."""
    texts = [info.name for info in (*proto.input, *proto.output, *proto.initializer)]
    for node in proto.node:
        texts += (node.name, node.op_type, node.domain, *node.input, *node.output)
    for text in texts:
        if not isinstance(text, str):
            raise SpecError(
                where, f"a name in the graph is not UTF-8 text, got {brief(text)}; the file is damaged"
            )


def undefined(where: str, node: Any, name: str) -> NetworkError:
    """Return the error of a tensor that no operator yields."""
    return NetworkError(place_of(where, node), f"input: tensor {brief(name)} is not defined")


def place_of(where: str, node: Any) -> str:
    """Return the name of a node in messages."""
    shown = node.name or next((name for name in node.output if name), "")
    return f"{where}: node {brief(shown)} ({node.op_type[:60]})"


def _ordered(
    nodes: Sequence[Any],
    given: set[str],
    outputs: Sequence[str],
    where: str,
    decisions: Mapping[str, bool],
) -> list[Any]:
    """Return the nodes that some graph output needs, producers first, otherwise in the order of the file."""
    producer: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in producer or name in given:
                raise NetworkError(place_of(where, node), f"output: tensor {brief(name)} is defined twice")
            producer[name] = index
    for name in outputs:
        if name not in producer and name not in given:
            raise NetworkError(where, f"graph.output: no operator yields {brief(name)}")
    needs: dict[int, set[int]] = {}
    pending = [producer[name] for name in outputs if name in producer]
    while pending:
        index = pending.pop()
        if index in needs:
            continue
        read = [name for name in read_by(nodes[index], decisions) if name]
        for name in read:
            if name not in producer and name not in given:
                raise undefined(where, nodes[index], name)
        needs[index] = {producer[name] for name in read if name in producer}
        pending.extend(needs[index])
    alive = sorted(needs)
    at = {index: place for place, index in enumerate(alive)}
    order = sorted_by_needs(
        [{at[other] for other in needs[index]} for index in alive],
        range(len(alive)),
        lambda place: place_of(where, nodes[alive[place]]),
    )
    return [_of_onnx(nodes[alive[place]]) for place in order]


def _of_onnx(node: Any) -> Any:
    """Return a quantiser of another domain as the ONNX operator, from which only element types differ."""
    match = _QUANTISER.fullmatch(node.op_type)
    if match is None or node.domain in ("", "ai.onnx"):
        return node
    plain = onnx.NodeProto()
    plain.CopyFrom(node)
    plain.op_type, plain.domain = match["op"], ""
    if match["kind"] and match["op"] == "QuantizeLinear" and len(node.input) < 3:
        kind = {"INT8": "INT8", "INT4": "INT4", "FP8": "FLOAT8E4M3FN", "FP4": "FLOAT4E2M1"}[match["kind"]]
        plain.attribute.append(onnx.helper.make_attribute("output_dtype", getattr(onnx.TensorProto, kind)))
    return plain


def read_by(node: Any, decisions: Mapping[str, bool] = _NONE) -> list[str]:
    """Return the tensors that a node reads, also in the branches of an If, but for one that does not run.

    decisions: values of conditions, where known.
    """
    names = list(node.input)
    known = decisions.get(node.input[0]) if node.op_type == "If" and node.input else None
    idle = "" if known is None else "else_branch" if known else "then_branch"
    for attribute in node.attribute:
        if not attribute.HasField("g") or attribute.name == idle:
            continue
        branch = attribute.g
        inside = {item.name for item in (*branch.initializer, *branch.input)}
        inside = inside.union(*[inner.output for inner in branch.node])
        read = [name for inner in branch.node for name in read_by(inner, decisions)]
        names += [name for name in (*read, *[info.name for info in branch.output]) if name not in inside]
    return names


def _computed(nodes: Sequence[Any], data: set[str]) -> set[str]:
    """Return the tensors whose values depend on the inputs, not only on the shapes of these."""
    computed = set(data)
    for node in nodes:
        if not computed.isdisjoint(values_read(node)):
            computed.update(filter(None, node.output))  # "" is an output that nobody reads
    return computed


def values_read(node: Any) -> Sequence[str]:
    """Return the inputs of an operator of which it reads values, not only the shape or the type."""
    return node.input[: {"Shape": 0, "Size": 0, "CastLike": 1}.get(node.op_type, len(node.input))]  # type: ignore[no-any-return]


def _names(
    nodes: Sequence[Any], computed: Collection[str], is_taken: Callable[[str], bool], names: NodeNames
) -> list[str]:
    """Return unique names: the module's, the ONNX node's if no other has it, else its first output's.

    A weight layer has the first claim to the name of its module, then what computes, what rearranges, and
    last what works on constants; further nodes of a module are numbered.
    """
    counts = Counter(node.name for node in nodes)
    made_of = {
        name: node.input[0]
        for node in nodes
        if node.input and not any(name in computed for name in node.output)
        for name in node.output
    }
    stems, claims = [], list[int]()
    for node in nodes:
        layer = _weight_module(node, {}) if names == "module" else ""
        module = layer or (_module(node) if names == "module" else "")
        if names == "module" and not layer:
            quantised = _weight_module(node, made_of)
            layer = quantised if not module or module.startswith(f"{quantised}.") else ""
        module = layer or module or (node.name if counts[node.name] == 1 else "")
        stem = module or next((name for name in node.output if name), "") or node.op_type
        stems.append(stem[:_LONGEST_NAME] or "node")
        works = any(name in computed for name in node.output)
        claims.append(0 if layer else 3 if not works else 2 if node.op_type in _REARRANGE else 1)
    used, by_node = set[str](), dict[int, str]()
    numbers: dict[str, int] = {}  # the last one given for a stem: the search for the next goes on behind it
    for index in sorted(range(len(nodes)), key=lambda index: claims[index]):
        stem = name = stems[index]
        while name in used or is_taken(name):
            numbers[stem] = numbers.get(stem, 1) + 1
            name = f"{stem}_{numbers[stem]}"
        used.add(name)
        by_node[index] = name
    return [by_node[index] for index in range(len(nodes))]


def _weight_module(node: Any, made_of: Mapping[str, str]) -> str:
    """Return the path of the module whose parameter `weight` a weight layer reads, empty if there is none.

    made_of: first input of what makes a constant, such as the weights before they are quantised.
    """
    for name in node.input if node.op_type in _WEIGHT_LAYERS else ():
        for _ in range(_MOST_FOLLOWED):
            found = _PARAMETER.fullmatch(name)
            if found or name not in made_of:
                break
            name = made_of[name]
        if found:
            return found[1]
    return ""


def _module(node: Any) -> str:
    """Return the path of a node's module from the metadata of PyTorch's exporter, "" if there is none.

    They list the modules from the outside in, and last the operator, which is added in a module of several.
    """
    if not node.metadata_props:
        return ""
    noted = {entry.key: entry.value for entry in node.metadata_props if len(entry.value) <= _LONGEST_NOTE}
    try:
        paths = ast.literal_eval(noted.get("pkg.torch.onnx.name_scopes", "[]"))
        kinds = ast.literal_eval(noted.get("pkg.torch.onnx.class_hierarchy", "[]"))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return ""
    fits = isinstance(paths, list) and isinstance(kinds, list) and len(paths) == len(kinds) > 1
    if not fits or not all(isinstance(text, str) for text in (*paths, *kinds)):
        return ""
    path, operator = paths[-2:]
    return module_name(path, kinds[-2], operator) if path else str(operator)
