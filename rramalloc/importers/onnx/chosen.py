"""Stored weights that are chosen, scaled or changed at run time: followed from where an operator reads them
together with data to the products that they stand in, which take no arrays.

Source: docs/sources/model.md 14.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rramalloc.importers.axes import Dims
from rramalloc.importers.onnx.graph import Graph
from rramalloc.importers.onnx.inputs import MATRICES, factors_of
from rramalloc.importers.onnx.shapes import ACTIVATIONS, PRODUCTS, SAME, SUMS, permutation
from rramalloc.importers.onnx.step import OnnxOperator
from rramalloc.importers.onnx.tensors import Chosen, Constant, RowPlace, Stored, Tensor, Value

_LOOKUPS = ("Gather", "GatherBlockQuantized", "GatherElements", "GatherND", "Slice")
_COMPARISONS = frozenset(
    "And BitwiseAnd BitwiseOr BitwiseXor Equal Greater GreaterOrEqual Less LessOrEqual Or Xor".split()
)
_ADDITIONS = frozenset((*SUMS, "QLinearAdd")) - _COMPARISONS - {"Where"}
_QUANTISERS = ("DequantizeLinear", "QuantizeLinear")
_SCALINGS = frozenset((*PRODUCTS, "Where", "QLinearMul", "QLinearWhere", *_QUANTISERS))
_OPERANDS = {"QLinearAdd": (0, 3), "QLinearMul": (0, 3), "QLinearWhere": (1, 4), "Where": (1, 2)}
"""Inputs that are combined, of operators that read others besides."""
_REGROUPED = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
_MOVES = frozenset(
    "Abs Ceil Clip Concat DepthToSpace Expand Floor Neg Pad Round Sign SpaceToDepth Split Tile Transpose "
    "Trilu".split()
).union(_REGROUPED, _LOOKUPS, SAME)
"""Operators whose results are values of their inputs, perhaps rounded: in a matrix, its weights."""
_WAVES = frozenset("Cos Cosh Erf Erfc Exp Log Sin Sinh Tan".split())
_FUNCTIONS = (frozenset(ACTIVATIONS) - _WAVES).union(
    "Dropout GroupNormalization InstanceNormalization LayerNormalization LogSoftmax LpNormalization "
    "MeanVarianceNormalization RMSNormalization Relu Softmax".split()
)
"""Operators whose results are functions of one value or of those beside it: not the angles and rates of decay
that a stored matrix holds for each channel of a state."""
_OF_EXPERTS = re.compile(r"expert|moe|grouped_?mm", re.IGNORECASE)
EXPERTS = (
    "a mixture of experts is read in the form in which all experts work on all tokens, and what those make "
    "that are not chosen is multiplied by 0"
)


def stored_in(step: OnnxOperator, made: Constant, name: str) -> Stored:
    """Return the tensors of the file that a constant is made of: where it has fewer elements, itself.

    name: of the constant.
    """
    elements = math.prod(made.dims or ())
    if step.op == "Constant":
        return frozenset((name, count) for _, count in made.stored)
    known = [value.stored for value in step.values if isinstance(value, Constant) and value.stored]
    if not known or step.op in _COMPARISONS or step.op in ("Shape", "Size"):
        return frozenset()
    stored = _union(known) if step.op == "Concat" else max(known, key=_count)
    return stored if _count(stored) <= elements else frozenset([(name, elements)])


def chosen_in(step: OnnxOperator, out: Tensor) -> Chosen | None:
    """Return the stored weights in a result of an operator that reads data."""
    if not any(x.stored if isinstance(x, Constant) else x and x.chosen for x in step.values):
        return out.chosen
    if "Sequence" in step.op:  # it hands its parts on as they are
        return out.chosen
    first = step.value(0)
    if step.op in _LOOKUPS and (isinstance(first, Constant) or isinstance(step.value(1), Tensor)):
        return _looked_up(step, step.need(0), out.dims)
    if step.op in _ADDITIONS or step.op in _SCALINGS:
        return _combined(step, out.dims)
    sources = step.values if step.op == "Concat" else step.values[:1]
    known = [value.chosen for value in sources if isinstance(value, Tensor) and value.chosen]
    if step.op.startswith("Reduce"):
        known = [weights for weights in known if weights.kind == "matrix" and _is_matrix(out.dims)]
    elif step.op not in _MOVES:
        known = [weights for weights in known if weights.kind != "changed" and step.op in _FUNCTIONS]
    joined = _joined(known)
    if joined is None or joined.row is None or not isinstance(first, Tensor):
        return joined
    row = _row_after(step, joined.row, first.dims, out.dims)
    return Chosen(stored=joined.stored, kind="row" if row else "changed", row=row)


def leave_out_chosen(step: OnnxOperator, results: Sequence[Value], *, is_known: bool) -> None:
    """Record the weights in operands of a product that depend on data: they are not on arrays.

    A stored tensor that was added to data counts as weights only in a product of two computed tensors; else
    it is taken as an encoding of positions. is_known: False for an operator without a rule.
    """
    if not any(isinstance(value, Tensor) and value.chosen for value in step.values):
        return
    places, kernels = factors_of(step.proto) if is_known else (range(len(step.values)), ())
    operands = [(at, step.values[at]) for at in places if at < len(step.values)]
    is_dynamic = is_known and not any(isinstance(value, Constant) for _, value in operands)
    known = [
        (at, x.chosen, x.dims)
        for at, x in operands
        if isinstance(x, Tensor) and x.chosen and _is_matrix(x.dims)
    ]
    added = Counter(item for _, weights, _ in known if weights.kind == "changed" for item in weights.stored)
    nodes = [value.node for value in results if isinstance(value, Tensor)]
    few_bits = values_in_byte(step) if step.op in ("MatMulNBits", "MatMulBnb4") else 1
    for at, weights, dims in known:
        is_row = step.op in MATRICES and 1 in dims[-2:]
        is_weight = at in kernels if kernels else is_dynamic and not is_row
        for name, count in sorted(weights.stored):
            if weights.kind == "matrix" or (
                weights.kind == "changed" and is_weight and added[name, count] == 1
            ):
                what = f"{step.label} by {name[:60]}, chosen or changed at run time"
                advice = EXPERTS if weights.is_picked else ""
                step.builder.leave_out(nodes, what, count * few_bits, 0, stored=name, advice=advice)


def is_mixture(step: OnnxOperator) -> bool:
    """Return True for an operator that works on a stack of experts, by its name or those of its weights."""
    names = (step.op, step.name, *step.proto.input)
    has_stack = any(len(value.dims or ()) > 2 for value in step.values if isinstance(value, Constant))
    return has_stack and any(_OF_EXPERTS.search(name) for name in names)


def filtered(graph: Graph, names: Iterable[str]) -> str:
    """Return which stored weights work on tensors whose length data decides, and what helps.

    names: the tensors.
    """
    reached, found = set(names), dict[str, Dims]()
    matrices = {tensor.name: tuple(tensor.dims) for tensor in graph.proto.initializer if len(tensor.dims) > 1}
    made_of = {name: node.input for node in graph.nodes for name in node.output if name not in graph.computed}
    for node in graph.nodes:
        if reached.isdisjoint(node.input):
            continue
        reached.update(filter(None, node.output))
        places = (0,) if node.op_type.startswith("Gather") else factors_of(node)[0]
        pending = [node.input[at] for at in places if at < len(node.input) and node.input[at] not in reached]
        while pending:
            name = pending.pop()
            pending += made_of.get(name, ())
            if name in matrices:
                found[name] = matrices[name]
    total = sum(math.prod(dims) for dims in found.values())
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    # Experts lie in one stack, or are alike; what works on regions has layers of its own.
    is_mixture = len(found) > len(set(found.values())) or any(len(dims) == 3 for dims in found.values())
    advice = EXPERTS if is_mixture else "export the model in a form whose shapes do not depend on values"
    return f"{total:,} weights work on these ({next(iter(found))[:60]}{more}); {advice}"


def _union(parts: Iterable[Stored]) -> Stored:
    return frozenset().union(*parts)


def _count(stored: Stored) -> int:
    return sum(count for _, count in stored)


def _is_matrix(dims: Sequence[int]) -> bool:
    return sum(size > 1 for size in dims) > 1


def _joined(parts: Sequence[Chosen]) -> Chosen | None:
    """Return the weights of all parts as one, of the strongest kind: matrix, changed, row.

    Rows of tables count only if all parts are rows.
    """
    for kind in ("matrix", "changed", "row"):
        alike = [part for part in parts if part.kind == kind]
        if alike:
            kept = [part.stored for part in parts if part.kind != "row" or kind == "row"]
            return replace(alike[0], stored=_union(kept), is_picked=any(part.is_picked for part in alike))
    return None


def _looked_up(step: OnnxOperator, table: Value, out: Dims) -> Chosen | None:
    """Return the weights that are read from a table: rows if one axis of it is kept, else a matrix."""
    dims = table.dims or ()
    stored = (
        table.stored if isinstance(table, Constant) else table.chosen.stored if table.chosen else frozenset()
    )
    if not stored:
        return None
    kept: Sequence[int]
    if step.op == "GatherND":
        kept = range(len(step.dims(1)) - 1, len(out))
    elif step.op == "Slice":
        kept = range(len(out))
    else:
        axis = step.axis(step.integer("axis", step.integer("gather_axis", 0)), len(dims))
        behind = axis + 1 if step.op == "GatherElements" else axis + len(step.dims(1))
        kept = [*range(axis), *range(behind, len(out))]
    wide = [axis for axis in kept if out[axis] > 1]
    if len(wide) == 1:
        return Chosen(stored=stored, kind="row", row=RowPlace(axis=wide[0], size=out[wide[0]]))
    if not wide:
        return None
    is_changed = isinstance(table, Tensor) and table.chosen is not None and table.chosen.kind == "changed"
    per_element = values_in_byte(step) if step.op == "GatherBlockQuantized" else 1
    stored = frozenset((name, count * per_element) for name, count in stored)
    return Chosen(stored=stored, kind="changed" if is_changed else "matrix", is_picked=True)


def values_in_byte(step: OnnxOperator) -> int:
    """Return how many weights an element of a packed operator holds: of 4 bits by default, in a byte two."""
    return max(8 // max(step.integer("bits", step.integer("expert_weight_bits", 4)), 1), 1)


def _combined(step: OnnxOperator, out: Dims) -> Chosen | None:
    """Return the weights in a sum, a product or a choice, value by value.

    A stored matrix that is multiplied with pixels of its size, or with more values than its own, scales
    these, as in a rotation by position or a normalisation of every head; with rows of a table added it is a
    table itself, and with more values than its own a bias. With as many values that have more axes, as those
    of one token, it counts only where they stand as a matrix in a product.
    """
    places = _OPERANDS.get(step.op, range(len(step.values)))
    branches = [value for at, value in enumerate(step.values) if at in places and value is not None]
    data = [x for x in branches if isinstance(x, Tensor) and (x.chosen is None or x.chosen.kind != "matrix")]
    data = data if step.op not in _QUANTISERS else []
    parts = list[Chosen]()
    for value in branches:
        weights = value.chosen if isinstance(value, Tensor) else None
        if isinstance(value, Constant) and value.stored and _is_matrix(value.dims or ()):
            weights = Chosen(stored=value.stored, kind="matrix")
        if weights is None:
            continue
        over = [x for x in data if x is not value and _covers(x.dims, value.dims or ())]
        if weights.row is not None:
            row = replace(weights.row, axis=weights.row.axis + len(out) - len(value.dims or ()))
            parts += [] if any(x.chosen is None for x in over) else [replace(weights, row=row)]
        elif step.op in _ADDITIONS:
            is_table = any(x.chosen is not None and x.chosen.kind == "row" for x in over)
            is_bias = any(math.prod(x.dims) > math.prod(value.dims or ()) for x in over)
            is_left = is_table or (is_bias and not (isinstance(value, Tensor) and weights.kind == "matrix"))
            parts += [] if is_left else [replace(weights, kind="changed") if data else weights]
        elif step.op in PRODUCTS:
            parts += _scaled(value, weights, data, over, out)
        else:
            parts.append(replace(weights, kind="changed") if over else weights)
    return _joined(parts)


def _scaled(
    value: Value, weights: Chosen, data: Sequence[Tensor], over: Sequence[Tensor], out: Dims
) -> list[Chosen]:
    """Return the weights that a factor is in a product with data, none if it scales these.

    data: the other factors; over: those as long as this one along all of its axes; out: dims of the product.
    """
    dims = value.dims or ()
    held = math.prod(dims)
    # Where the grid of data lies along an axis of a matrix, the product scales pixels.
    sides = (zip(x.layout[::-1], dims[::-1], strict=False) for x in over)
    if any(role and size > 1 for side in sides for role, size in side):
        return []
    if isinstance(value, Tensor):
        return [weights]
    is_larger = any(math.prod(x.dims) > held for x in data)
    if not over:  # factors for each of several copies of data
        is_spread = math.prod(out) > held
        return ([] if is_larger else [replace(weights, kind="changed")]) if is_spread else [weights]
    rank = sum(1 for _ in itertools.dropwhile(lambda size: size == 1, dims))
    is_behind = any(len(x.dims) > rank for x in over)
    return [] if is_larger else [replace(weights, kind="changed") if is_behind else weights]


def _covers(dims: Dims, other: Dims) -> bool:
    """Return True if an operand is as long as another one along all of its axes."""
    return len(dims) >= len(other) and all(
        have == want for have, want in zip(dims[::-1], other[::-1], strict=False) if want > 1
    )


def _row_after(step: OnnxOperator, row: RowPlace, before: Dims, after: Dims) -> RowPlace | None:
    """Return where the elements of a row lie after an operator that moves values, None over several axes."""
    if step.op == "Transpose":
        return replace(row, axis=permutation(step, len(before)).index(row.axis))
    if step.op not in _REGROUPED:
        shift = len(after) - len(before)  # of Gather, whose indices may be one number or a matrix
        moves = shift and step.axis(step.integer("axis", 0), len(before)) < row.axis
        return replace(row, axis=row.axis + shift) if moves else row
    low = row.inner * math.prod(before[row.axis + 1 :])
    high = low * row.size
    strides = [math.prod(after[axis + 1 :]) for axis in range(len(after))]
    spans = zip(strides, after, strict=True)
    met = [axis for axis, (stride, size) in enumerate(spans) if max(stride, low) < min(stride * size, high)]
    if len(met) > 1:
        return None
    axis = met[0] if met else row.axis
    return replace(row, axis=axis, inner=max(low // strides[axis], 1))
