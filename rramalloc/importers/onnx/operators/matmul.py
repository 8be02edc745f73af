"""Matrix products: with constant weights a stage, of two data tensors a digital node."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rramalloc.importers.axes import INNER, Atom, Dims, Layout, canonical, shape_of
from rramalloc.importers.onnx.operators.elementwise import combine
from rramalloc.importers.onnx.operators.normalise import over
from rramalloc.importers.onnx.operators.rearrange import reshape_to
from rramalloc.importers.onnx.operators.reduce import reduced
from rramalloc.importers.onnx.shapes import broadcast, shown
from rramalloc.importers.onnx.step import Handler, Step
from rramalloc.importers.onnx.tensors import Constant, Tensor, Value, arranged, gridded, tensor
from rramalloc.network.geometry import MAX_EXTENT
from rramalloc.records import brief


def linear(step: Step, x: Tensor, axis: int, features: int, weights: Constant, suffix: str = "") -> Tensor:
    """Apply constant weights along one axis; every other axis is the grid."""
    bits = x.bits
    x = _only_channels(step, x, [axis])
    dims = (*x.dims[:axis], features, *x.dims[axis + 1 :])
    layout = tuple(() if k == axis else role for k, role in enumerate(x.layout))
    kept: dict[str, Any] = {"weights": weights.origin, "weight_bits": weights.bits, "input_bits": bits}
    return tensor(step.emit("linear", [x.node], suffix, out_features=features, **kept), dims, layout)


def _only_channels(step: Step, x: Tensor, channels: Sequence[int]) -> Tensor:
    """Return the tensor with these axes as channels and every other one on the grid."""
    pixels = [k for k, size in enumerate(x.dims) if size > 1 and k not in channels]
    want = gridded(x.dims, channels)
    if any(x.layout[k] for k in pixels):
        inner = {k: (Atom(x.dims[k], 1, (INNER + k,)),) for k in pixels if not x.layout[k]}
        roles = [() if k in channels else inner.get(k, role) for k, role in enumerate(x.layout)]
        want = canonical(x.dims, roles)
    return step.relayout(x, want)


def _product(step: Step, a: Value, b: Value) -> Tensor:
    """Multiply operands with at least one that is data. Raises NetworkError if inner lengths differ."""
    left, right = _sizes(step, a), _sizes(step, b)
    if not left or not right:
        raise step.mismatch("inputs", "a scalar cannot be multiplied as a matrix")
    inner = left[-1], right[-2] if len(right) > 1 else right[0]
    if inner[0] != inner[1]:
        raise step.mismatch(
            "inputs", f"{shown(left)} times {shown(right)}: inner lengths {inner[0]} and {inner[1]} differ"
        )
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return _dynamic(step, a, b)
    if isinstance(a, Tensor) and isinstance(b, Constant):
        return _by_weight(step, a, right, b, after=True)
    if isinstance(a, Constant) and isinstance(b, Tensor):
        return _by_weight(step, b, left, a, after=False)
    raise step.unsupported("none of its operands is data")


def _sizes(step: Step, value: Value) -> Dims:
    """Return the shape of an operand. Raises UnsupportedError if it is not known."""
    if value.dims is None:
        raise step.unsupported("the shape of a constant operand is not known: simplify the model before")
    return value.dims


def _by_weight(step: Step, x: Tensor, weight: Dims, constant: Constant, *, after: bool) -> Tensor:
    """Return x @ weight if after, else weight @ x."""
    rank = len(x.dims)
    groups = math.prod(weight[:-2])
    features = (weight[-1] if after else weight[-2]) if len(weight) > 1 else 1
    axis = rank - 1 if after or rank == 1 else rank - 2
    if groups > 1:
        return _grouped(step, x, weight, constant, features, axis, after=after)
    lead = len(weight) - rank
    if lead > 0:
        x, axis = x.aligned(len(weight)), axis + lead
    y = linear(step, x, axis, features, constant)
    if len(weight) == 1:
        return arranged(y, [k for k in range(len(y.dims)) if k != axis])
    return y


def _grouped(
    step: Step, x: Tensor, weight: Dims, constant: Constant, features: int, axis: int, *, after: bool
) -> Tensor:
    """Multiply by a stack of weight matrices, one for each group of channels, or all for the same input."""
    lead = weight[:-2]
    wide = x.aligned(max(len(x.dims), len(weight))).dims[-len(weight) : -2]
    if len(x.dims) > 1 and any(size == 1 < group for size, group in zip(wide, lead, strict=True)):
        return _for_every_matrix(step, x, constant, after=after)
    heads = range(len(x.dims) - 2 - len(lead), len(x.dims) - 2)
    if heads.start < 0 or tuple(x.dims[k] for k in heads) != lead:
        raise step.unsupported(
            f"a stack of {math.prod(lead)} weight matrices ({shown(weight)}) on data of {shown(x.dims)} "
            f"is no grouped layer"
        )
    bits, x = x.bits, _only_channels(step, x, [*heads, axis])
    groups = math.prod(lead)
    kept: dict[str, Any] = {"weights": constant.origin, "weight_bits": constant.bits, "input_bits": bits}
    name = step.emit("conv", [x.node], out_channels=groups * features, kernel=(1, 1), groups=groups, **kept)
    dims = (*x.dims[:axis], features, *x.dims[axis + 1 :])
    return tensor(name, dims, [() if k == axis else role for k, role in enumerate(x.layout)])


def _for_every_matrix(step: Step, x: Tensor, constant: Constant, *, after: bool) -> Tensor:
    """Multiply an input that is broadcast over a stack of weight matrices: as Einsum without these
    letters."""
    weight = _sizes(step, constant)
    rank = max(len(x.dims), len(weight))
    wide = replace(constant, dims=(1,) * (rank - len(weight)) + weight)
    operands: list[tuple[Value, str]] = [(x.aligned(rank), "ri"), (wide, "ic")]
    if not after:
        operands = [(wide, "ri"), (x.aligned(rank), "ic")]
    letters = _SPARE[: rank - 2]
    pairs = []
    for value, matrix in operands:
        dims = _sizes(step, value)
        kept = "".join(letter for letter, size in zip(letters, dims, strict=False) if size > 1)
        small = tuple(size for size in dims[:-2] if size > 1) + dims[-2:]
        pairs.append((_shaped(step, value, small), kept + matrix))
    value, term = _pair(step, pairs[0], pairs[1], {*letters, "r", "c"})
    wanted = "".join(letter for letter in (*letters, "r", "c") if letter in term)
    value = arranged(value, [term.index(letter) for letter in wanted])
    lead = broadcast(step, [_sizes(step, operand)[:-2] for operand, _ in operands])
    made = _shaped(step, value, (*lead, *_sizes(step, value)[-2:]))
    if isinstance(made, Constant):
        raise step.unsupported("none of its operands is data")
    return made


def _dynamic(step: Step, a: Tensor, b: Tensor) -> Tensor:
    """Multiply two data tensors: an output pixel needs its pixel of one operand and all of the other.

    Source: docs/sources/model.md 2 (dynamic matmul's second operand: all pixels).
    """
    rank = max(len(a.dims), len(b.dims), 2)
    if min(len(a.dims), len(b.dims)) < 2:
        dims = _vector_product(a.dims, b.dims)
        layout = gridded(dims, [len(dims) - 1] if dims else [])
        return step.barrier([a, b], dims, layout, macs=math.prod(dims) * a.dims[-1])
    a, b = a.aligned(rank), b.aligned(rank)
    lead = broadcast(step, [a.dims[:-2], b.dims[:-2]])
    dims = (*lead, a.dims[-2], b.dims[-1])
    macs = math.prod(dims) * a.dims[-1]
    if not a.layout[-1] and a.dims[:-2] == lead:
        streamed, other, layout = a, b, (*a.layout[:-1], ())
    elif not b.layout[-2] and b.dims[:-2] == lead:
        streamed, other, layout = b, a, (*b.layout[:-2], (), b.layout[-1])
    else:
        return step.barrier([a, b], dims, gridded(dims, [*range(rank - 2), rank - 1]), macs=macs)
    channels = shape_of(dims, canonical(dims, layout)).channels
    operand = _operand(step, other, dims, layout)
    if streamed.shape.channels != channels:
        streamed = step.select(streamed, dims, layout, "match")
    name = step.emit("mul", [streamed.node, operand.node], dynamic_macs=macs)
    return tensor(name, dims, layout)


def _operand(step: Step, x: Tensor, dims: Dims, layout: Layout) -> Tensor:
    """Return the whole operand as each pixel of the result needs it: one pixel, or one a block."""
    shared = {k for k in range(len(dims) - 2) if x.dims[k] == dims[k] and layout[k] and x.layout[k]}
    if not shared:
        pooled = x.node
        if x.shape.pixels > 1:
            pooled = step.emit("global_maxpool", [pooled], "operand")
        channels = shape_of(dims, canonical(dims, layout)).channels
        return step.select(
            tensor(pooled, (1, x.shape.channels), ((), ())), (1, channels), ((), ()), "operand"
        )
    x = step.channelled(x, set(range(len(dims))) - shared, "operand")
    block = tensor(x.node, [size if k in shared else 1 for k, size in enumerate(dims)], x.layout)
    return step.expand(block, dims, layout, "operand")


def _vector_product(a: Dims, b: Dims) -> Dims:
    if len(a) == 1:
        return (*b[:-2], *b[-1:]) if len(b) > 1 else ()
    return a[:-1]


def matmul(step: Step, second: int = 1) -> Sequence[Value]:
    """Translate MatMul and its kin; second: input number of the second operand."""
    operands = [step.need(0), step.need(second)]
    for at, key in enumerate(("transA", "transB")):  # of FusedMatMul
        order = list(range(len(_sizes(step, operands[at]))))
        if step.integer(f"transBatch{key[-1]}", 0):
            raise step.unsupported(f"transBatch{key[-1]} cannot be expressed")
        if step.integer(key, 0) and len(order) > 1:
            operands[at] = arranged(operands[at], (*order[:-2], order[-1], order[-2]))
    return [_product(step, *operands)]


def gemm(step: Step, second: int = 1, bias_at: int = 2) -> Sequence[Value]:
    """Translate Gemm: the bias costs nothing unless it is data. Raises NetworkError if shapes do
    not match."""
    a = _flip(step, 0, bool(step.integer("transA", 0)))
    b = _flip(step, second, bool(step.integer("transB", 0)))
    if isinstance(a, Constant) and isinstance(b, Constant):
        raise step.unsupported("both operands are constant and only the bias is data")
    y = _product(step, a, b)
    bias = step.value(bias_at)
    return [combine(step, "add", [y, bias], "bias") if isinstance(bias, Tensor) else y]


def _flip(step: Step, index: int, flip: bool) -> Value:
    value, dims = step.need(index), step.dims(index)
    if len(dims) != 2:
        raise step.mismatch("inputs", f"Gemm multiplies matrices, input {index} is {shown(dims)}")
    return arranged(value, (1, 0)) if flip else value


def attention(step: Step) -> Sequence[Value]:
    """Translate Attention, MultiHeadAttention: queries times keys, a mask, softmax, times values; then keys
    and values.

    ONNX Runtime's own Attention and QAttention hold the weights of all three projections, applied before.
    """
    heads = step.integer("q_num_heads", step.integer("num_heads", 0))
    counts = heads, step.integer("kv_num_heads", heads)
    past: Dims = {"MultiHeadAttention": (6, 7), "GroupQueryAttention": (3, 4)}.get(step.op, (4, 5))
    if step.op == "QAttention" or (step.proto.domain == "com.microsoft" and step.op == "Attention"):
        weight, past = step.dims(1), ()
        if len(step.dims(0)) != 3 or len(weight) != 2 or weight[0] != step.dims(0)[2]:
            raise step.mismatch("weights", f"{shown(weight)} do not fit data of {shown(step.dims(0))}")
        x = linear(step, step.data(), 2, weight[-1], _constant(step, 1))
        parts = _projections(step, x, step.integers("qkv_hidden_sizes") or (weight[-1] // 3,) * 3)
    elif step.op == "GroupQueryAttention" and step.value(1) is None:
        width = step.dims(0)[-1] // max(counts[0] + 2 * counts[1], 1)
        parts = _projections(step, step.data(), tuple(count * width for count in (*counts, counts[1])))
    else:
        parts = [step.need(index) for index in range(3)]
    masks = {"GroupQueryAttention": 10, "MultiHeadAttention": 5, "QAttention": 9}
    mask = step.value(masks.get(step.op, 5 if step.proto.domain else 3))
    merge = len(_sizes(step, parts[0])) == 3
    if merge:
        parts = [_headed(step, x, counts[min(at, 1)]) for at, x in enumerate(parts)]
    for part, at in enumerate(past, start=1):
        parts[part] = _extended(step, step.value(at), parts[part])
    y: Value = _attended(step, *parts, mask=mask)
    if merge:
        y = arranged(y, (0, 2, 1, 3))
        batch, tokens, count, size = _sizes(step, y)
        y = _shaped(step, y, (batch, tokens, count * size))
    return [y, *parts[1:]] if past else [y]


def _projections(step: Step, x: Tensor, sizes: Dims) -> list[Value]:
    """Return queries, keys and values that stand one behind the other in each token."""
    ends = list(itertools.accumulate(sizes))
    if len(x.dims) != 3 or len(sizes) != 3 or min(sizes) < 1 or ends[-1] != x.dims[-1]:
        raise step.mismatch(
            "qkv_hidden_sizes",
            f"three projections of {brief(list(sizes))} values do not make {shown(x.dims)}",
        )
    return [
        step.take(x, 2, range(end - size, end), f"part{at}")
        for at, (size, end) in enumerate(zip(sizes, ends, strict=True))
    ]


def rotary(step: Step) -> Sequence[Value]:
    """Translate RotaryEmbedding: pairs of a token's values turn by an angle that its position tells."""
    x = step.data()
    y = over(step, x, (len(x.dims) - 1,), "activation")
    position = step.value(3 if not step.proto.domain else 1)
    if not isinstance(position, Tensor) or len(position.dims) != 2 or len(x.dims) not in (3, 4):
        return [y]
    dims = (position.dims[0], *[1] * (len(x.dims) - 3), position.dims[1], 1)
    return [combine(step, "add", [y, _shaped(step, position, dims)], "position")]


def _extended(step: Step, past: Value | None, x: Value) -> Value:
    """Return keys or values behind those of earlier calls, which all queries need whole."""
    if past is None:
        return x
    before, new = _sizes(step, past), _sizes(step, x)
    if len(before) != 4 or len(new) != 4 or (*before[:2], before[3]) != (*new[:2], new[3]):
        raise step.mismatch("past", f"{shown(before)} does not go before {shown(new)}")
    dims = (*new[:2], before[2] + new[2], new[3])
    data = [value for value in (past, x) if isinstance(value, Tensor)]
    return step.barrier(data, dims, data[-1].layout, "past") if data else Constant(dims=dims)


def _constant(step: Step, index: int) -> Constant:
    value = step.need(index)
    if isinstance(value, Tensor):
        raise step.unsupported(f"its weights (input {index}) are computed from data")
    return value


def _headed(step: Step, x: Value, heads: int) -> Value:
    """Return (batch, tokens, channels) as (batch, heads, tokens, channels of a head)."""
    dims = _sizes(step, x)
    if len(dims) != 3 or heads < 1 or dims[2] % heads:
        raise step.mismatch("num_heads", f"{brief(heads)} heads do not divide data of {shown(dims)}")
    return arranged(_shaped(step, x, (*dims[:2], heads, dims[2] // heads)), (0, 2, 1, 3))


def _attended(step: Step, q: Value, k: Value, v: Value, *, mask: Value | None) -> Tensor:
    rank = len(_sizes(step, q))
    if min(rank, len(_sizes(step, k)), len(_sizes(step, v))) < 2:
        raise step.mismatch("Q", "queries, keys and values are matrices")
    k, v = (_repeated(step, x, _sizes(step, q)) for x in (k, v))
    order = list(range(len(_sizes(step, k))))
    scores = _product(step, q, arranged(k, (*order[:-2], order[-1], order[-2])))
    if isinstance(mask, Tensor):
        scores = combine(step, "add", [scores, mask], "mask")
    weights = over(step, scores, (len(scores.dims) - 1,), "softmax")
    return _product(step, weights, v)


def _repeated(step: Step, x: Value, like: Dims) -> Value:
    """Return keys or values with as many heads as the queries: each is used by several of those."""
    dims = _sizes(step, x)
    if len(dims) != 4 or len(like) != 4 or dims[1] == like[1] or like[1] % dims[1]:
        return x
    times = like[1] // dims[1]
    if isinstance(x, Constant):
        return replace(x, dims=(dims[0], like[1], *dims[2:]), array=None)
    one = _shaped(step, x, (*dims[:2], 1, *dims[2:]))
    many = combine(step, "add", [one, Constant(dims=(*dims[:2], times, *dims[2:]))], "heads")
    return _shaped(step, many, (dims[0], like[1], *dims[2:]))


def _shaped(step: Step, x: Value, dims: Dims) -> Value:
    """Return the operand in another shape."""
    if x.dims == dims:
        return x
    if isinstance(x, Constant):
        return replace(x, dims=dims, array=None)
    return replace(reshape_to(step, x, dims), bits=x.bits)


def einsum(step: Step) -> Sequence[Value]:
    """Translate Einsum, one pair of operands after the other; letters that only one of a pair has are summed
    before."""
    terms, wanted = _letters(step)
    values = [step.need(index) for index in range(len(terms))]
    value, term = values[0], terms[0]
    for at in range(1, len(terms)):
        kept = {letter for later in (wanted, *terms[at + 1 :]) for letter in later}
        value, term = _pair(step, (value, term), (values[at], terms[at]), kept)
    value, term = _summed(step, value, term, set(wanted))
    return [arranged(value, [term.index(letter) for letter in wanted])]


def _letters(step: Step) -> tuple[list[str], str]:
    """Return the letters of every operand and of the result, dots written out. Raises SpecError,
    NetworkError."""
    equation = step.text("equation", "").replace(" ", "")
    left, arrow, wanted = equation.partition("->")
    terms, sizes = left.split(","), dict[str, int]()
    if len(terms) != len(step.values):
        raise step.fault("equation", f"{brief(equation)} names {len(terms)} of {len(step.values)} operands")
    most = 0
    for at, term in enumerate(terms):
        rank = len(step.dims(at))
        missing = rank - len(term.replace("...", ""))
        if term.count("...") > 1 or missing < 0 or (missing and "..." not in term):
            raise step.fault("equation", f"{brief(term)} does not name the {rank} axes of operand {at}")
        most = max(most, missing)
        terms[at] = term.replace("...", _SPARE[:missing][::-1])
        for letter, size in zip(terms[at], step.dims(at), strict=True):
            if sizes.setdefault(letter, size) != size:
                raise step.mismatch("inputs", f"axis {letter!r} is {sizes[letter]} and {size} long")
    every = "".join(terms)
    if not arrow:
        wanted = "..." + "".join(sorted(c for c in set(every) - set(_SPARE) if every.count(c) == 1))
    wanted = wanted.replace("...", _SPARE[:most][::-1])
    plain = all(len(set(term)) == len(term) for term in (*terms, wanted)) and most <= len(_SPARE)
    if not plain or not set(wanted) <= set(every):
        raise step.unsupported(f"the equation {brief(equation)} takes diagonals or names new axes")
    return terms, wanted


_SPARE = "αβγδεζηθ"
"""Letters of the axes that three dots replace, from the last one on."""


def _summed(step: Step, x: Value, term: str, kept: set[str]) -> tuple[Value, str]:
    """Return the sum over all axes whose letters are not kept."""
    axes = tuple(axis for axis, letter in enumerate(term) if letter not in kept)
    if not axes:
        return x, term
    rest = "".join(letter for letter in term if letter in kept)
    if isinstance(x, Constant):
        dims = tuple(size for axis, size in enumerate(_sizes(step, x)) if axis not in axes)
        return replace(x, dims=dims, array=None), rest
    return reduced(step, x, axes, False, "global_avgpool"), rest


def _pair(
    step: Step, first: tuple[Value, str], second: tuple[Value, str], kept: set[str]
) -> tuple[Value, str]:
    """Return the product of two operands by letters: element by element, or matrices."""
    (a, left), (b, right) = first, second
    a, left = _summed(step, a, left, kept | set(right))
    b, right = _summed(step, b, right, kept | set(left))
    shared = [letter for letter in left if letter in right]
    inner = [letter for letter in shared if letter not in kept]
    batch = [letter for letter in shared if letter in kept]
    rows = [letter for letter in left if letter not in right]
    columns = [letter for letter in right if letter not in left]
    a = arranged(a, [left.index(letter) for letter in (*batch, *rows, *inner)])
    b = arranged(b, [right.index(letter) for letter in (*batch, *inner, *columns)])
    ends = len(batch), len(batch) + len(rows)
    lead, high = _sizes(step, a)[: ends[0]], _sizes(step, a)[ends[0] : ends[1]]
    wide = _sizes(step, b)[len(batch) + len(inner) :]
    term = "".join((*batch, *rows, *columns))
    if isinstance(a, Constant) and isinstance(b, Constant):
        return Constant(dims=(*lead, *high, *wide)), term
    if not inner:
        a = _shaped(step, a, (*lead, *high, *[1] * len(wide)))
        b = _shaped(step, b, (*lead, *[1] * len(high), *wide))
        return combine(step, "mul", [a, b]), term
    length = math.prod(_sizes(step, a)[ends[1] :])
    if not isinstance(b, Constant) or batch:
        a = _shaped(step, a, (*lead, math.prod(high), length))
        b = _shaped(step, b, (*lead, length, math.prod(wide)))
    else:
        a = _shaped(step, a, (*high, length))
        b = _shaped(step, b, (length, math.prod(wide)))
    y = _product(step, a, b)
    return _shaped(step, y, (*lead, *high, *wide)), term


def few_bits(step: Step) -> Sequence[Value]:
    """Translate MatMulNBits and MatMulBnb4: N columns of K weights of few bits, packed."""
    features, inner, bits = step.integer("N", 0), step.integer("K", 0), step.integer("bits", 4)
    x = step.data()
    if not x.dims or x.dims[-1] != inner or not 1 <= features <= MAX_EXTENT or not 1 <= bits <= 16:
        raise step.mismatch(
            "K",
            f"{brief(inner)} x {brief(features)} weights of {brief(bits)} bits on data of {shown(x.dims)}",
        )
    packed = step.need(1)
    origin = packed.origin if isinstance(packed, Constant) else ""
    weights = Constant(dims=(inner, features), origin=origin, bits=bits)
    return [linear(step, x, len(x.dims) - 1, features, weights)]


HANDLERS: dict[str, Handler] = {
    "MatMul": matmul,
    "MatMulInteger": matmul,
    "MatMulIntegerToFloat": matmul,
    "DynamicQuantizeMatMul": matmul,
    "MatMulNBits": few_bits,
    "MatMulBnb4": few_bits,
    "QLinearMatMul": partial(matmul, second=3),
    "FusedMatMul": matmul,
    "FusedMatMulActivation": matmul,
    "TransposeMatMul": matmul,
    "Gemm": gemm,
    "FusedGemm": gemm,
    "Attention": attention,
    "MultiHeadAttention": attention,
    "GroupQueryAttention": attention,
    "QAttention": attention,
    "RotaryEmbedding": rotary,
    "Einsum": einsum,
    "QGemm": partial(gemm, second=3, bias_at=6),
}
