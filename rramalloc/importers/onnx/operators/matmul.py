"""Matrix products, attention, recurrent layers and convolutions that keep a state or work on patches: with
constant weights a stage, else a digital node.

Source: docs/sources/model.md 2, 11.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import onnx
import onnx.helper

from rramalloc.importers.axes import INNER, Atom, AxisRoles, Dims, canonical, lettered, shape_of
from rramalloc.importers.onnx.operators.elementwise import combine, over, reduced
from rramalloc.importers.onnx.operators.rearrange import concat, reshape_to
from rramalloc.importers.onnx.operators.windowed import (
    computed_weights,
    conv,
    is_of_patches,
    pool,
    weights_of,
)
from rramalloc.importers.onnx.shapes import broadcast, shown
from rramalloc.importers.onnx.step import Handler, OnnxOperator
from rramalloc.importers.onnx.tensors import (
    Constant,
    Tensor,
    Value,
    arranged,
    dropped,
    gridded,
    inserted,
    single_integer,
    tensor,
)
from rramalloc.network.geometry import MAX_EXTENT
from rramalloc.records import brief

_DIRECTIONS = {"forward": (1,), "reverse": (-1,), "bidirectional": (1, -1)}
_SPARE = "αβγδεζηθ"
"""Letters of the axes that three dots replace, from the last one on."""


def linear(
    step: OnnxOperator, x: Tensor, axis: int, features: int, weights: Constant, suffix: str = ""
) -> Tensor:
    """Apply constant weights along one axis; every other axis is the grid."""
    kept: dict[str, Any] = {"weights": weights.origin, "weight_bits": weights.bits, "input_bits": x.bits}
    x = _only_channels(step, x, [axis])
    dims = (*x.dims[:axis], features, *x.dims[axis + 1 :])
    layout = (*x.layout[:axis], (), *x.layout[axis + 1 :])
    return tensor(step.emit("linear", [x.node], suffix, out_features=features, **kept), dims, layout)


def _only_channels(step: OnnxOperator, x: Tensor, channels: Sequence[int]) -> Tensor:
    """Return the tensor with these axes as channels and every other one on the grid."""
    pixels = [k for k, size in enumerate(x.dims) if size > 1 and k not in channels]
    want = gridded(x.dims, channels)
    if any(x.layout[k] for k in pixels):
        inner = {k: (Atom(x.dims[k], 1, (INNER + k,)),) for k in pixels if not x.layout[k]}
        roles = [() if k in channels else inner.get(k, role) for k, role in enumerate(x.layout)]
        want = canonical(x.dims, roles)
    return step.relayout(x, want)


def _product(step: OnnxOperator, a: Value, b: Value) -> Tensor:
    """Multiply operands with at least one that is data. Raises NetworkError if inner lengths differ."""
    (left, right), data = step.operands([a, b])
    if not left or not right:
        raise step.mismatch("inputs", "a scalar cannot be multiplied as a matrix")
    inner = left[-1], right[-2] if len(right) > 1 else right[0]
    if inner[0] != inner[1]:
        raise step.mismatch(
            "inputs", f"{shown(left)} times {shown(right)}: inner lengths {inner[0]} and {inner[1]} differ"
        )
    if isinstance(b, Constant):
        return _by_weight(step, data[0], right, b, after=True)
    return _by_weight(step, b, left, a, after=False) if isinstance(a, Constant) else _dynamic(step, a, b)


def _by_weight(step: OnnxOperator, x: Tensor, weight: Dims, constant: Constant, *, after: bool) -> Tensor:
    """Return x @ weight if after, else weight @ x."""
    features = (weight[-1] if after else weight[-2]) if len(weight) > 1 else 1
    if math.prod(weight[:-2]) > 1:
        return _grouped(step, x, weight, constant, features, after=after)
    is_vector = len(x.dims) == 1
    x = x.aligned(max(len(x.dims), len(weight)))
    axis = len(x.dims) - (1 if after or is_vector else 2)
    y = linear(step, x, axis, features, constant)
    if len(weight) == 1:
        return dropped(y, (axis,))
    return dropped(y, (axis - 1,)) if is_vector else y


def _grouped(
    step: OnnxOperator, x: Tensor, weight: Dims, constant: Constant, features: int, *, after: bool
) -> Tensor:
    """Multiply by a stack of weight matrices, one for each group of channels, or all for the same input."""
    lead, rank = weight[:-2], len(x.dims)
    wide = x.aligned(max(rank, len(weight))).dims[-len(weight) : -2]
    if rank > 1 and any(size == 1 < group for size, group in zip(wide, lead, strict=True)):
        return _for_every_matrix(step, x, weight, constant, after=after)
    heads = range(rank - 2 - len(lead), rank - 2)
    if heads.start < 0 or tuple(x.dims[k] for k in heads) != lead:
        raise step.unsupported(
            f"a stack of {math.prod(lead)} weight matrices ({shown(weight)}) on data of {shown(x.dims)} "
            f"is no grouped layer"
        )
    axis, groups = rank - (1 if after else 2), math.prod(lead)
    kept: dict[str, Any] = {"weights": constant.origin, "weight_bits": constant.bits, "input_bits": x.bits}
    x = _only_channels(step, x, [*heads, axis])
    name = step.emit("conv", [x.node], out_channels=groups * features, kernel=(1, 1), groups=groups, **kept)
    dims = (*x.dims[:axis], features, *x.dims[axis + 1 :])
    return tensor(name, dims, (*x.layout[:axis], (), *x.layout[axis + 1 :]))


def _for_every_matrix(
    step: OnnxOperator, x: Tensor, weight: Dims, constant: Constant, *, after: bool
) -> Tensor:
    """Multiply one input by every matrix of a stack of weights, as Einsum does."""
    rank = max(len(x.dims), len(weight))
    operands: list[Value] = [x.aligned(rank), replace(constant, dims=(1,) * (rank - len(weight)) + weight)]
    letters, pairs = _SPARE[: rank - 2], []
    for value, matrix in zip(operands if after else operands[::-1], ("ri", "ic"), strict=True):
        dims = step.size(value)
        kept = "".join(letter for letter, size in zip(letters, dims, strict=False) if size > 1)
        small = tuple(size for size in dims[:-2] if size > 1) + dims[-2:]
        pairs.append((_shaped(step, value, small), kept + matrix))
    made, term = _pair(step, pairs[0], pairs[1], {*letters, "r", "c"})
    made = arranged(made, [term.index(letter) for letter in (*letters, "r", "c") if letter in term])
    lead = broadcast(step, [step.size(operand)[:-2] for operand in operands])
    return step.operands([_shaped(step, made, (*lead, *step.size(made)[-2:]))])[1][0]


def _dynamic(step: OnnxOperator, a: Tensor, b: Tensor) -> Tensor:
    """Multiply two data tensors: an output pixel needs its pixel of one operand and all of the other.

    Source: docs/sources/model.md 2 (dynamic matmul's second operand: all pixels).
    """
    rank = max(len(a.dims), len(b.dims), 2)
    if min(len(a.dims), len(b.dims)) < 2:
        dims = a.dims[:-1] if len(a.dims) > 1 else (*b.dims[:-2], *b.dims[-1:]) if len(b.dims) > 1 else ()
        layout: AxisRoles = gridded(dims, [len(dims) - 1] if dims else [])
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
    operand = _operand(step, other, dims, layout)
    if streamed.shape.channels != shape_of(dims, canonical(dims, layout)).channels:
        streamed = step.select(streamed, dims, layout, "match")
    return tensor(step.emit("mul", [streamed.node, operand.node], dynamic_macs=macs), dims, layout)


def _operand(step: OnnxOperator, x: Tensor, dims: Dims, layout: AxisRoles) -> Tensor:
    """Return the operand that each pixel of the result needs in full, as one pixel, or one a block."""
    shared = {k for k in range(len(dims) - 2) if x.dims[k] == dims[k] and layout[k] and x.layout[k]}
    if not shared:
        name = step.emit("global_maxpool", [x.node], "operand", images=1) if x.shape.pixels > 1 else x.node
        one = tensor(name, (1, x.shape.channels), ((), ()))
        return step.select(one, (1, shape_of(dims, canonical(dims, layout)).channels), ((), ()), "operand")
    x = step.channelled(x, set(range(len(dims))) - shared, "operand")
    block = tensor(x.node, [size if k in shared else 1 for k, size in enumerate(dims)], x.layout)
    return step.expand(block, dims, layout, "operand")


def _turned(value: Value) -> Value:
    """Return a matrix, or a stack of them, with rows and columns exchanged."""
    order = list(range(len(value.dims or ())))
    return arranged(value, (*order[:-2], order[-1], order[-2]))


def matmul(step: OnnxOperator, second: int = 1, bias: int | None = None) -> Sequence[Value]:
    """Translate MatMul and Gemm; second, bias: input numbers; a bias costs nothing unless it is data."""
    operands = [step.need(0), step.need(second)]
    for at, side in enumerate("AB"):
        dims = step.size(operands[at])
        if bias is not None and len(dims) != 2:
            raise step.mismatch("inputs", f"{step.op} multiplies matrices, operand {side} is {shown(dims)}")
        if step.integer(f"transBatch{side}", 0):  # of FusedMatMul
            raise step.unsupported(f"transBatch{side} cannot be expressed")
        if step.integer(f"trans{side}", 0) and len(dims) > 1:
            operands[at] = _turned(operands[at])
    y, added = _product(step, *operands), None if bias is None else step.value(bias)
    return [combine(step, "add", [y, added], "bias") if isinstance(added, Tensor) else y]


def few_bits(step: OnnxOperator) -> Sequence[Value]:
    """Translate MatMulNBits and MatMulBnb4: N columns of K weights of few bits, packed."""
    x, packed = step.data(), step.need(1)
    features, inner, bits = step.integer("N", 0), step.integer("K", 0), step.integer("bits", 4)
    if not x.dims or x.dims[-1] != inner or not 1 <= features <= MAX_EXTENT or not 1 <= bits <= 16:
        weights = f"{brief(inner)} x {brief(features)} weights of {brief(bits)} bits"
        raise step.mismatch("K", f"{weights} on data of {shown(x.dims)}")
    if isinstance(packed, Tensor):
        dims = (*x.dims[:-1], features)
        return [computed_weights(step, [x, packed], dims, math.prod(dims) * inner)]
    constant = Constant(dims=(inner, features), origin=packed.origin, bits=bits)
    return [linear(step, x, len(x.dims) - 1, features, constant)]


def convolution(step: OnnxOperator) -> Sequence[Value]:
    """Translate Conv; on several images or in three dimensions where it is a linear layer on patches."""
    x, weight = step.need(0), step.value(1)
    is_plain = isinstance(x, Constant) or (len(x.dims) < 5 and x.dims[:1] in ((), (1,)))
    if not is_plain and is_of_patches(step):
        return [_on_patches(step, step.data())]
    return _without_depth(step, weight.dims[2:] if isinstance(weight, Constant) and weight.dims else (), conv)


def pooling(step: OnnxOperator, op: str) -> Sequence[Value]:
    """Translate a pooling; in three dimensions where it works on frames alone, or along them alone."""
    return _without_depth(step, step.integers("kernel_shape") or (), partial(pool, op=op))


def _without_depth(step: OnnxOperator, kernel: Dims, rule: Handler) -> Sequence[Value]:
    """Apply a window of three dimensions that is one element wide in some: what lies along these are images.

    Raises UnsupportedError as the rule for windows wider than that.
    """
    x = step.need(0)
    pads = step.integers("pads") or (0,) * 6
    if not isinstance(x, Tensor) or len(x.dims) != 5 or x.dims[0] != 1 or len(kernel) != 3 or len(pads) != 6:
        return rule(step)
    thin = [k for k in range(3) if kernel[k] == 1 and pads[k] == pads[k + 3] == 0]
    wide = [k for k in range(3) if k not in thin] if len(thin) < 3 else [1, 2]
    thin = [k for k in range(3) if k not in wide]
    if not thin or len(wide) == 3:
        return rule(step)
    strides = step.integers("strides") or (1,) * 3
    dilations = step.integers("dilations") or (1,) * 3
    for k in thin:
        if strides[k] > 1:
            x = step.take(x, k + 2, range(0, x.dims[k + 2], strides[k]), f"every{k}")
    apart = tuple(x.dims[k + 2] for k in thin)
    images = arranged(x, [*(k + 2 for k in thin), 1, *(k + 2 for k in wide)])
    images = reshape_to(step, images, (math.prod(apart), *images.dims[len(thin) :]))
    fields: dict[str, Any] = {"strides": strides, "dilations": dilations, "kernel_shape": kernel}
    fields = {name: [values[k] for k in wide] for name, values in fields.items()}
    fields["pads"] = [pads[k + end] for end in (0, 3) for k in wide]
    proto = onnx.helper.make_node(step.op, [], [""], **fields)
    proto.attribute.extend(a for a in step.proto.attribute if a.name not in fields)
    values: list[Value | None] = [images, *step.values[1:]]
    if len(values) > 1 and isinstance(values[1], Constant):
        weight = step.dims(1)
        values[1] = replace(values[1], dims=(*weight[:2], *(weight[k + 2] for k in wide)))
    (y, *_) = rule(replace(step, proto=proto, values=tuple(values)))
    if not isinstance(y, Tensor):
        return [y]
    y = reshape_to(step, y, (*apart, *y.dims[1:]))
    places = {k: at for at, k in enumerate(thin)} | {k: len(thin) + 1 + at for at, k in enumerate(wide)}
    return [arranged(y, [None, len(thin), *(places[k] for k in range(3))])]


def _on_patches(step: OnnxOperator, x: Tensor) -> Tensor:
    """Apply a kernel to patches beside each other: the places within a patch are channels."""
    weight, kept = weights_of(step, 1)
    kernel, groups = weight[2:], step.integer("group", 1)
    if weight[1] * groups != x.dims[1]:
        what = f"weights {shown(weight)} with {brief(groups)} groups do not fit data of {shown(x.dims)}"
        raise step.mismatch("W", what)
    counts = tuple(size // k for size, k in zip(x.dims[2:], kernel, strict=True))
    if min(counts) < 1:
        raise step.mismatch("W", f"weights {shown(weight)} are larger than data of {shown(x.dims)}")
    for axis, (count, k) in enumerate(zip(counts, kernel, strict=True), start=2):
        x = step.take(x, axis, range(count * k), "whole") if count * k < x.dims[axis] else x
    pairs = zip(counts, kernel, strict=True)
    split = reshape_to(step, x, (*x.dims[:2], *itertools.chain.from_iterable(pairs)))
    inner = range(3, len(split.dims), 2)
    x = _only_channels(step, split, [1, *inner])
    if groups == 1:
        name = step.emit("linear", [x.node], out_features=weight[0], **kept)
    else:
        name = step.emit("conv", [x.node], out_channels=weight[0], kernel=(1, 1), groups=groups, **kept)
    layout = [() if axis == 1 else role for axis, role in enumerate(x.layout) if axis not in inner]
    return tensor(name, (x.dims[0], weight[0], *counts), layout)


def causal_conv(step: OnnxOperator) -> Sequence[Value]:
    """Translate CausalConvWithState: a depthwise convolution over past and new tokens, the last of them kept.

    Source: ONNX operator CausalConvWithState.
    """
    x, weight, past = step.data(), step.dims(1), step.value(3)
    if len(x.dims) != 3 or len(weight) != 3:
        raise step.mismatch("W", f"weights {shown(weight)} do not fit data of {shown(x.dims)}")
    size, every = weight[2], x
    if past is not None and size > 1:
        proto = onnx.helper.make_node("Concat", [], [], axis=2)
        (joined,) = concat(replace(step, proto=proto, name=f"{step.name}/past", values=(past, x)))
        every = joined if isinstance(joined, Tensor) else x
    before = x.dims[2] + size - 1 - every.dims[2]
    proto = onnx.helper.make_node("Conv", [], [""], group=x.dims[1], pads=[before, 0])
    y = conv(replace(step, proto=proto, values=(every, *step.values[1:3])))
    if size == 1 or not any(step.proto.output[1:2]):
        return [*y, Constant(dims=None)]
    if before:
        every = step.between(every, 2, before, 0, "before")
    return [*y, step.take(every, 2, range(x.dims[2], x.dims[2] + size - 1), "present")]


def linear_attention(step: OnnxOperator) -> Sequence[Value]:
    """Translate LinearAttention: a state of keys times values, which every token changes and reads.

    Source: ONNX operator LinearAttention.
    """
    q, k, v = (step.dims(index) for index in range(3))
    heads, shared = step.integer("q_num_heads", 0), step.integer("kv_num_heads", 0)
    if {len(q), len(k), len(v)} != {3} or min(heads, shared) < 1 or q[2] % heads or v[2] % shared:
        what = f"{brief(heads)} and {brief(shared)} heads do not divide {shown(q)} and {shown(v)}"
        raise step.mismatch("q_num_heads", what)
    cells = (q[2] // heads) * (v[2] // shared)
    writes = 2 if "delta" in step.text("update_rule", "gated_delta") else 1  # it also reads what it corrects
    macs = q[0] * q[1] * cells * (heads + writes * shared)
    data = [value for value in step.values if isinstance(value, Tensor)]
    dims, state = (*q[:2], heads * (v[2] // shared)), (q[0], shared, q[2] // heads, v[2] // shared)
    y = step.barrier(data, dims, gridded(dims, [2]), because="waits for all tokens", macs=macs)
    if not any(step.proto.output[1:2]):
        return [y]
    return [y, step.barrier(data, state, ((),) * 4, "present")]


class AttentionInputs(NamedTuple):
    """Numbers of the inputs of an attention, -1 where it has none: the sum to the scores, keys and values of
    earlier calls (one number where they are one tensor), their length in a shared buffer, and that of all
    keys."""

    mask: int
    past: tuple[int, ...]
    length: int = -1
    total: int = -1


_STANDARD = AttentionInputs(3, (4, 5))
_OF_RUNTIME = {
    "Attention": AttentionInputs(5, (4,), 6),
    "DecoderMaskedSelfAttention": AttentionInputs(5, (4,), 6),
    "QAttention": AttentionInputs(-1, (8,)),
    "MultiHeadAttention": AttentionInputs(5, (6, 7), 8),
    "DecoderMaskedMultiHeadAttention": AttentionInputs(4, (5, 6), 7),
    "GroupQueryAttention": AttentionInputs(10, (3, 4), total=6),
    "SparseAttention": AttentionInputs(-1, (3, 4), total=7),
}
_PROJECTING = ("Attention", "DecoderMaskedSelfAttention", "QAttention")
"""Operators of ONNX Runtime that hold the weights of the three projections."""


def attention(step: OnnxOperator) -> Sequence[Value]:
    """Translate Attention and its kin: queries times keys, a mask, softmax, times values; then keys and
    values, in ONNX Runtime's own Attention as one tensor.

    Source: ONNX operator Attention; ONNX Runtime, page "Contrib Operators".
    """
    of_runtime = step.op != "Attention" or step.proto.domain == "com.microsoft"
    inputs = _OF_RUNTIME[step.op] if of_runtime else _STANDARD
    heads = step.integer("q_num_heads", step.integer("num_heads", 0))
    counts = heads, step.integer("kv_num_heads", heads)
    merge = len(step.dims(0)) in (3, 5)
    parts = _queries_keys_values(step, counts, projects=of_runtime and step.op in _PROJECTING)
    parts = [_headed(step, x, counts[min(at, 1)]) for at, x in enumerate(parts)] if merge else parts
    kept: list[Value] = []
    for number, past in enumerate(_past(step, inputs.past), start=1):
        lengths = [step.value(at) if at >= 0 else None for at in (inputs.length, inputs.total)]
        parts[number], present = _extended(step, past, parts[number], lengths, number)
        kept.append(present)
    mask = step.value(inputs.mask) if inputs.mask >= 0 else None
    product, weights = _attended(step, *parts, mask=mask)
    if step.op == "SparseAttention":
        step.builder.approximate([product.node], step.label, "is taken as dense: every query with all keys")
    y: Value = product
    if merge:
        batch, count, tokens, size = product.dims
        y = _shaped(step, arranged(product, (0, 2, 1, 3)), (batch, tokens, count * size))
    if len(inputs.past) == 1 and any(step.proto.output[1:2]):
        both = [value for value in kept if isinstance(value, Tensor)]
        dims = (2, *step.size(kept[0]))
        return [
            y,
            step.barrier(both, dims, gridded(dims, [1, 4]), "present") if both else Constant(dims=dims),
        ]
    return [y, *kept, weights] if any(step.proto.output[3:]) else [y, *kept]


def packed_attention(step: OnnxOperator) -> Sequence[Value]:
    """Translate PackedAttention, PackedMultiHeadAttention: the tokens of all sequences, taken as one."""
    count = 1 if step.op == "PackedAttention" else 3
    values = [
        inserted(value, (0,), len(value.dims or ()) + 1) if value is not None and at < count else value
        for at, value in enumerate(step.values)
    ]
    at_mask, name = (5, "Attention") if count == 1 else (6, "MultiHeadAttention")
    mask = step.value(at_mask)
    proto = onnx.NodeProto()
    proto.CopyFrom(step.proto)
    proto.op_type = name
    y, *_ = attention(replace(step, proto=proto, values=(*values[:3], None, None, mask)))
    if isinstance(y, Tensor):
        step.builder.approximate([y.node], step.label, "is taken as one sequence of all tokens")
    return [dropped(y, (0,))]


def _queries_keys_values(step: OnnxOperator, counts: tuple[int, int], *, projects: bool) -> list[Value]:
    """Return queries, keys and values, from wherever they stand together."""
    dims, keys = step.dims(0), step.value(1)
    if projects:
        weight = step.dims(1)
        if len(dims) != 3 or len(weight) != 2 or weight[0] != dims[2]:
            raise step.mismatch("weights", f"{shown(weight)} do not fit data of {shown(dims)}")
        x = _product(step, step.data(), step.need(1))
        return _projections(step, x, step.integers("qkv_hidden_sizes") or (weight[-1] // 3,) * 3)
    if len(dims) == 5:
        return _packed(step, step.need(0), 3)
    if keys is None and step.op != "Attention":
        width = (dims[-1] if dims else 0) // max(counts[0] + 2 * counts[1], 1)
        return _projections(step, step.data(), tuple(count * width for count in (*counts, counts[1])))
    if len(step.dims(1)) == 5:
        return [step.need(0), *_packed(step, step.need(1), 2)]
    return [step.need(index) for index in range(3)]


def _packed(step: OnnxOperator, x: Value, count: int) -> list[Value]:
    """Return the parts of (batch, tokens, heads, count, size), each as (batch, heads, tokens, size)."""
    dims, parts = step.size(x), list[Value]()
    if dims[3] != count:
        raise step.mismatch("inputs", f"{shown(dims)} does not hold {count} tensors along axis 3")
    for at in range(count):
        part: Value = Constant(dims=(*dims[:3], 1, dims[4]))
        if isinstance(x, Tensor):
            part = step.take(x, 3, [at], f"part{at}")
        parts.append(arranged(part, (0, 2, 1, 4)))
    return parts


def _past(step: OnnxOperator, places: tuple[int, ...]) -> list[Value | None]:
    """Return keys and values of earlier calls; a tensor that holds both is split."""
    if len(places) == 2:
        return [step.value(place) for place in places]
    both = step.value(places[0])
    if both is None:
        return [None, None]
    dims = step.size(both)
    if len(dims) != 5 or dims[0] != 2:
        raise step.mismatch("past", f"got {shown(dims)}, must be 2 x batch x heads x tokens x size")
    if isinstance(both, Constant):
        return [Constant(dims=dims[1:])] * 2
    return [dropped(step.take(both, 0, [at], f"past{at}"), (0,)) for at in range(2)]


def _projections(step: OnnxOperator, x: Tensor, sizes: Dims) -> list[Value]:
    """Return queries, keys and values, which are concatenated in each token."""
    ends = list(itertools.accumulate(sizes))
    if len(x.dims) != 3 or len(sizes) != 3 or min(sizes) < 1 or ends[-1] != x.dims[-1]:
        what = f"three projections of {brief(list(sizes))} values do not make {shown(x.dims)}"
        raise step.mismatch("qkv_hidden_sizes", what)
    pairs = zip(sizes, ends, strict=True)
    return [step.take(x, 2, range(end - size, end), f"part{at}") for at, (size, end) in enumerate(pairs)]


def rotary(step: OnnxOperator) -> Sequence[Value]:
    """Translate RotaryEmbedding: pairs of a token's values turn by an angle that its position tells."""
    x, position = step.data(), step.value(1 if step.proto.domain else 3)
    y = over(step, x, (len(x.dims) - 1,), "activation")
    if not isinstance(position, Tensor) or len(position.dims) != 2 or len(x.dims) not in (3, 4):
        return [y]
    dims = (position.dims[0], *[1] * (len(x.dims) - 3), position.dims[1], 1)
    return [combine(step, "add", [y, _shaped(step, position, dims)], "position")]


def _extended(
    step: OnnxOperator, past: Value | None, x: Value, lengths: Sequence[Value | None], number: int
) -> tuple[Value, Value]:
    """Return keys or values behind those of earlier calls, which all queries need, and those kept for later.

    lengths: of those in a buffer that is filled in place, and of all with the new ones; where neither is
    known, all of the buffer counts.
    """
    if past is None:
        return x, x
    before, new = step.size(past), step.size(x)
    if len(before) != 4 or len(new) != 4 or (*before[:2], before[3]) != (*new[:2], new[3]):
        raise step.mismatch("past", f"{shown(before)} does not go before {shown(new)}")
    data = [value for value in (past, x) if isinstance(value, Tensor)]
    layout = data[-1].layout if data else ((),) * 4

    def behind(tokens: int, suffix: str) -> Value:
        dims = (*new[:2], tokens, new[3])
        return step.barrier(data, dims, layout, suffix) if data else Constant(dims=dims)

    filled, total = map(single_integer, lengths)
    shares = bool(step.integer("past_present_share_buffer", 0)) or step.op == "SparseAttention"
    shares |= step.op == "MultiHeadAttention" and lengths[0] is not None
    shares |= total is not None and total < before[2] + new[2]
    if not shares:
        every = behind(before[2] + new[2], "past")
        return every, every
    if total is None and filled is not None:
        total = filled + new[2]
    every = behind(before[2] if total is None else min(max(total, 1), before[2] + new[2]), "past")
    if total is None and isinstance(every, Tensor):
        step.builder.approximate(
            [every.node], step.label, "reads all places of its buffer of keys and values"
        )
    is_kept = any(step.proto.output[number : number + 1])
    return every, behind(max(before[2], step.size(every)[2]), "present") if is_kept else every


def _headed(step: OnnxOperator, x: Value, heads: int) -> Value:
    """Return (batch, tokens, channels) as (batch, heads, tokens, channels of a head), if it is not yet."""
    dims = step.size(x)
    if len(dims) == 4 and dims[1] == heads:
        return x
    if len(dims) != 3 or heads < 1 or dims[2] % heads:
        raise step.mismatch("num_heads", f"{brief(heads)} heads do not divide data of {shown(dims)}")
    return arranged(_shaped(step, x, (*dims[:2], heads, dims[2] // heads)), (0, 2, 1, 3))


def _attended(
    step: OnnxOperator, q: Value, k: Value, v: Value, *, mask: Value | None
) -> tuple[Tensor, Tensor]:
    """Return the result of an attention, and its softmax weights."""
    if min(len(step.size(x)) for x in (q, k, v)) < 2:
        raise step.mismatch("Q", "queries, keys and values are matrices")
    k, v = (_repeated(step, x, step.size(q)) for x in (k, v))
    scores = _product(step, q, _turned(k))
    if isinstance(mask, Tensor):
        scores = combine(step, "add", [scores, mask], "mask")
    weights = over(step, scores, (len(scores.dims) - 1,), "softmax")
    return _product(step, weights, v), weights


def _repeated(step: OnnxOperator, x: Value, like: Dims) -> Value:
    """Return keys or values with as many heads as the queries, repeated for the queries that share them."""
    dims = step.size(x)
    if len(dims) != 4 or len(like) != 4 or dims[1] == like[1] or like[1] % dims[1]:
        return x
    times, wide = like[1] // dims[1], (dims[0], like[1], *dims[2:])
    if isinstance(x, Constant):
        return replace(x, dims=wide, array=None)
    one = _shaped(step, x, (*dims[:2], 1, *dims[2:]))
    many = combine(step, "add", [one, Constant(dims=(*dims[:2], times, *dims[2:]))], "heads")
    return _shaped(step, many, wide)


def _shaped(step: OnnxOperator, x: Value, dims: Dims) -> Value:
    """Return the operand in another shape."""
    if x.dims == dims:
        return x
    if isinstance(x, Constant):
        return replace(x, dims=dims, array=None)
    return replace(reshape_to(step, x, dims), bits=x.bits)


def einsum(step: OnnxOperator) -> Sequence[Value]:
    """Translate Einsum, pair after pair of operands; letters that only one of a pair has are summed."""
    terms, wanted = _letters(step)
    value, term = step.need(0), terms[0]
    for at in range(1, len(terms)):
        kept = {letter for later in (wanted, *terms[at + 1 :]) for letter in later}
        value, term = _pair(step, (value, term), (step.need(at), terms[at]), kept)
    value, term = _summed(step, value, term, set(wanted))
    return [arranged(value, [term.index(letter) for letter in wanted])]


def _letters(step: OnnxOperator) -> tuple[list[str], str]:
    """Return the letters of every operand and of the result, dots written out. Raises SpecError."""
    equation = step.text("equation", "").replace(" ", "")
    left, arrow, wanted = equation.partition("->")
    terms, sizes, most = left.split(","), dict[str, int](), 0
    if len(terms) != len(step.values):
        raise step.fault("equation", f"{brief(equation)} names {len(terms)} of {len(step.values)} operands")
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


_Lettered = tuple[Value, str]
"""An operand of Einsum, and a letter for each of its axes."""


def _summed(step: OnnxOperator, x: Value, term: str, kept: Collection[str]) -> _Lettered:
    """Return the sum over all axes whose letters are not kept."""
    axes = tuple(axis for axis, letter in enumerate(term) if letter not in kept)
    if not axes:
        return x, term
    rest = "".join(letter for letter in term if letter in kept)
    if isinstance(x, Constant):
        return dropped(x, axes), rest
    return reduced(step, x, axes, False, "global_avgpool"), rest


def _pair(step: OnnxOperator, first: _Lettered, second: _Lettered, kept: set[str]) -> _Lettered:
    """Return the product of two operands by letters: element by element, or matrices."""
    a, left = _summed(step, *first, kept | set(second[1]))
    b, right = _summed(step, *second, kept | set(left))
    inner = [letter for letter in left if letter in right and letter not in kept]
    batch = [letter for letter in left if letter in right and letter in kept]
    rows = [letter for letter in left if letter not in right]
    columns = [letter for letter in right if letter not in left]
    a = arranged(a, [left.index(letter) for letter in (*batch, *rows, *inner)])
    b = arranged(b, [right.index(letter) for letter in (*batch, *inner, *columns)])
    ends = len(batch), len(batch) + len(rows)
    lead, high, deep = (step.size(a)[part] for part in (slice(ends[0]), slice(*ends), slice(ends[1], None)))
    wide = step.size(b)[len(batch) + len(inner) :]
    term = "".join((*batch, *rows, *columns))
    if isinstance(a, Constant) and isinstance(b, Constant):
        return Constant(dims=(*lead, *high, *wide)), term
    if not inner:
        a = _shaped(step, a, (*lead, *high, *[1] * len(wide)))
        b = _shaped(step, b, (*lead, *[1] * len(high), *wide))
        return combine(step, "mul", [a, b]), term
    is_stage = isinstance(b, Constant) and not batch
    a = _shaped(step, a, (*lead, *(high if is_stage else (math.prod(high),)), math.prod(deep)))
    b = _shaped(step, b, (*lead, math.prod(deep), math.prod(wide)))
    return _shaped(step, _product(step, a, b), (*lead, *high, *wide)), term


def recurrent(step: OnnxOperator, gates: int) -> Sequence[Value]:
    """Translate LSTM, GRU, RNN: for each direction a projection of the inputs and a recurrence over them.

    The outputs are all states, the last one, and the last cell. Raises NetworkError, UnsupportedError.
    """
    x, first = step.data(), bool(step.integer("layout", 0))
    weight, state = step.dims(1), step.dims(2)
    if step.op == "DynamicQuantizeLSTM":  # it stores them as inputs x gates
        weight, state = ((*dims[:-2], *dims[:-3:-1]) for dims in (weight, state))
    directions = _DIRECTIONS.get(step.text("direction", "forward"), ())
    if not directions:
        raise step.fault("direction", f"must be one of {', '.join(_DIRECTIONS)}")
    time, batch = (1, 0) if first else (0, 1)
    hidden = state[-1] if state else 0
    stacked = len(directions), gates * hidden
    if len(x.dims) != 3 or (weight, state) != ((*stacked, x.dims[2]), (*stacked, hidden)):
        raise step.mismatch(
            "W", f"weights {shown(weight)} and {shown(state)} do not fit {gates} gates on {shown(x.dims)}"
        )
    length, count = x.dims[time], x.dims[batch]
    states, last = list[Tensor](), list[Tensor]()
    ended = (count, len(directions), hidden) if first else (len(directions), count, hidden)
    sizes = {1: math.prod(weight), 2: math.prod(state)}
    computed = [at for at in sizes if isinstance(step.need(at), Tensor)]
    if computed:
        macs = count * length * sum(sizes[at] for at in computed)
        y = computed_weights(step, step.values[:3], (length, len(directions), count, hidden), macs)
        for at in sizes.keys() - computed:
            step.builder.leave_out([y.node], step.label, sizes[at], count * length * sizes[at])
        return [arranged(y, (2, 0, 1, 3)) if first else y, step.barrier([y], ended, ((),) * 3, "last")]
    (_, kept), (_, kept_state) = weights_of(step, 1), weights_of(step, 2)
    for number, direction in enumerate(directions):
        suffix, turns = "" if direction == 1 else "reverse", direction == -1 and length > 1
        ordered = step.imaged(x, batch, "1YC" if first else "Y1C", f"{suffix}order")
        if turns:
            ordered = step.take(ordered, time, range(length)[::-1], "reverse_in")
        of_direction = Constant(
            dims=weight[1:], origin=f"{kept['weights']}[{number}]", bits=kept["weight_bits"]
        )
        ordered = replace(ordered, bits=x.bits)
        projected = linear(step, ordered, 2, gates * hidden, of_direction, f"{suffix}projection")
        begins = [value for value in (step.value(5), step.value(6)) if isinstance(value, Tensor)]
        for value in begins:  # every step waits for the state that the first one starts from
            start = step.relayout(value, ((),) * len(value.dims), f"{suffix}start")
            start = step.select(start, (1, gates * hidden), ((), ()), f"{suffix}start")
            name = step.emit("add", [projected.node, start.node], f"{suffix}started")
            projected = tensor(name, projected.dims, projected.layout)
        fields: dict[str, Any] = {"weights": f"{kept_state['weights']}[{number}]"}
        fields |= {"weight_bits": kept_state["weight_bits"], "input_bits": x.bits}
        node = step.emit("recurrent", [projected.node], suffix, hidden=hidden, gates=gates, **fields)
        dims = (length, 1, count, hidden)
        y = tensor(node, dims, (lettered(dims, "Y11C")[0], (), ordered.layout[batch], ()))
        last.append(step.take(y, 0, [length - 1], f"{suffix}last") if length > 1 else y)
        states.append(step.take(y, 0, range(length)[::-1], "reverse_out") if turns else y)
    every, ends = _joined(step, states, "both"), _joined(step, last, "ends")
    ended_roles = [ends.layout[2] if axis == batch else () for axis in range(3)]
    return [arranged(every, (2, 0, 1, 3)) if first else every, tensor(ends.node, ended, ended_roles)]


def _joined(step: OnnxOperator, parts: Sequence[Tensor], suffix: str) -> Tensor:
    """Return the states of both directions, as channels of each step."""
    if len(parts) == 1:
        return parts[0]
    length, _, count, hidden = parts[0].dims
    name = step.emit("concat", [part.node for part in parts], suffix)
    return tensor(name, (length, len(parts), count, hidden), parts[0].layout)


_POOLINGS = {"maxpool": "MaxPool NhwcMaxPool", "avgpool": "AveragePool LpPool QLinearAveragePool"}
_GATES = {"LSTM": 4, "DynamicQuantizeLSTM": 4, "GRU": 3, "RNN": 1}
_MATMULS = (
    "MatMul MatMulInteger MatMulIntegerToFloat DynamicQuantizeMatMul FusedMatMul FusedMatMulActivation "
    "TransposeMatMul"
)
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_MATMULS.split(), matmul),
    **dict.fromkeys(("Gemm", "FusedGemm"), partial(matmul, bias=2)),
    "QGemm": partial(matmul, second=3, bias=6),
    "QLinearMatMul": partial(matmul, second=3),
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4"), few_bits),
    **dict.fromkeys(_OF_RUNTIME, attention),
    **dict.fromkeys(("PackedAttention", "PackedMultiHeadAttention"), packed_attention),
    "RotaryEmbedding": rotary,
    "Einsum": einsum,
    **{name: partial(recurrent, gates=gates) for name, gates in _GATES.items()},
    "Conv": convolution,
    **{name: partial(pooling, op=op) for op, names in _POOLINGS.items() for name in names.split()},
    "CausalConvWithState": causal_conv,
    "LinearAttention": linear_attention,
}
