"""Feedback: an ONNX model whose next input needs this input's output, as in a decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from rramalloc.importers.axes import Dims
from rramalloc.importers.onnx.graph import Graph
from rramalloc.importers.onnx.step import Feedback

_WHOLE = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)


def feedback_of(graph: Graph, data: Mapping[str, Dims], outputs: Sequence[Dims]) -> Feedback:
    """Return how the inputs of a model follow from its outputs, as far as shapes show.

    A decoder reads one token and caches, returns every cache longer, and has an output with a value for each
    token. data, outputs: shapes with batch. Source: docs/sources/model.md 8.
    """
    left = list(outputs)
    kinds = {info.name: info.type.tensor_type.elem_type for info in graph.proto.input}
    tokens = [name for name, dims in data.items() if kinds.get(name) in _WHOLE and set(dims) <= {1}]
    grown, others = 0, [dims for name, dims in data.items() if name not in tokens[:1]]
    same = 0
    for dims in others:
        longer = None
        for out in left:
            pairs = zip(dims, out, strict=False)
            if len(out) == len(dims) and [new > old for old, new in pairs if old != new] == [True]:
                longer = out  # in one axis alone
                break
        equal = next((out for out in left if out == dims), None)
        if longer is not None:
            grown += 1
            left.remove(longer)
        elif equal is not None:
            same += 1
            left.remove(equal)
    rows = {proto.name: proto.dims[0] for proto in graph.proto.initializer if len(proto.dims) == 2}
    looked_up = {  # numbers of different tokens: the rows of tables in which tokens are looked up
        rows[node.input[0]]
        for node in graph.nodes
        if tokens and node.op_type == "Gather" and node.input[0] in rows and tokens[0] in node.input
    }
    if others and grown == len(others) and any(dims and dims[-1] in looked_up for dims in left):
        return "decoder"
    # A picture that comes back as large is no cache: a cache stands beside another input and another output.
    is_beside = len(data) > 1 and len(outputs) > 1
    return "caches" if is_beside and (grown or same) else "none"
