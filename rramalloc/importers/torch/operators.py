"""ATen operators written as ONNX operators, whose rules are the ones of every importer.

Any operator that is not listed becomes a barrier with a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rramalloc.errors import UnsupportedError
from rramalloc.importers.onnx.tensors import Constant, Tensor, Value
from rramalloc.importers.torch.call import Call
from rramalloc.importers.torch.program import Ref
from rramalloc.network.geometry import MAX_EXTENT

Handler = Callable[[Call], Value | Sequence[Value]]
_END = MAX_EXTENT + 1
_PADDINGS = {
    "reflection": "reflect",
    "reflect": "reflect",
    "replication": "edge",
    "replicate": "edge",
    "circular": "wrap",
}


# --- layers with weights


def _batched(call: Call, axes: int) -> tuple[Value, bool]:
    """The operand with batch and channels before its `axes` spatial axes, and whether the batch was added."""
    x = call.main()
    rank = len(call.dims(x))
    if rank not in (axes + 1, axes + 2):
        raise call.fault("input", f"must have {axes + 1} or {axes + 2} axes, has {rank}")
    if rank == axes + 1:
        return call.run("Unsqueeze", x, (0,)), True
    if call.dims(x)[0] != 1:
        raise call.fault("input", f"the batch must be 1, its shape is {call.dims(x)}: export with batch 1")
    return x, False


def _unbatched(call: Call, y: Value, added: bool) -> Value:
    return call.run("Squeeze", y, (0,)) if added else y


def conv(call: Call) -> Value | Sequence[Value]:
    """Convolution, transposed or not."""
    source, weight = call.main(), call.value("weight")
    kernel = call.dims(weight)[2:]
    axes = len(kernel)
    if isinstance(weight, Tensor) or not isinstance(source, Tensor):
        return call.unknown("a convolution whose weights are computed takes no arrays")
    if axes not in (1, 2, 3):
        raise UnsupportedError(call.place, f"{axes} spatial axes; the model has 1, 2 or 3")
    x, added = _batched(call, axes)
    dilation = call.ints("dilation", axes, 1)
    fields: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": call.ints("stride", axes, 1),
        "dilations": dilation,
        "group": call.number("groups", 1),
    }
    padding = call.given("padding")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise call.fault("padding", f"must be 'same' or 'valid', got {padding[:60]!r}")
        total = [d * (k - 1) * (padding == "same") for k, d in zip(kernel, dilation, strict=True)]
        pads = [zeros // 2 for zeros in total] + [zeros - zeros // 2 for zeros in total]
    else:
        pads = [*call.ints("padding", axes, 0)] * 2
    transposed = call.operation.op.startswith("conv_transpose") or call.given("transposed") is True
    if transposed:
        fields["output_padding"] = call.ints("output_padding", axes, 0)
    return _unbatched(
        call, call.run("ConvTranspose" if transposed else "Conv", x, weight, pads=pads, **fields), added
    )


def linear(call: Call) -> Value:
    """linear: the last axis is multiplied with a weight (out, in)."""
    x, weight, bias = call.value("input"), call.value("weight"), call.optional("bias")
    order = list(range(len(call.dims(weight))))
    y = call.run("MatMul", x, call.run("Transpose", weight, perm=[*order[:-2], *order[-2:][::-1]]))
    return call.run("Add", y, bias) if isinstance(bias, Tensor) else y


def matmul(call: Call) -> Value:
    """matmul, mm, bmm, mv, and with a bias addmm and its kin."""
    left, right = call.value("mat1", "batch1", "mat", "self"), call.value("mat2", "batch2", "vec", "other")
    y = call.run("MatMul", left, right)
    bias = call.optional("self") if "addmm addmv baddbmm addbmm".find(call.operation.op) >= 0 else None
    return call.run("Add", y, bias) if isinstance(bias, Tensor) else y


def einsum(call: Call) -> Value | Sequence[Value]:
    """A product of tensors by letters."""
    equation, operands = call.given("equation"), call.given("tensors")
    if not isinstance(equation, str) or not isinstance(operands, tuple):
        return call.unknown()
    return call.run("Einsum", *[call.of(item) for item in operands], equation=equation)


def recurrent(call: Call) -> Value | Sequence[Value]:
    """lstm, gru, rnn: layer after layer, each of one or two directions."""
    states, weights = call.given("hx"), call.given("params")
    ways, layers = 2 if call.given("bidirectional") is True else 1, call.number("num_layers", 1)
    each = 4 if call.given("has_biases") is True else 2
    refs = [ref for ref in weights if isinstance(ref, Ref)] if isinstance(weights, tuple) else []
    x, op = call.main(), call.operation.op
    if len(refs) != layers * ways * each or len(call.dims(x)) != 3:
        return call.unknown()  # with projected states, or packed sequences
    listed = states if isinstance(states, tuple) else (states,)
    begins = [call.of(state) for state in listed if isinstance(state, Ref)]
    first = call.given("batch_first") is True
    x = call.run("Transpose", x, perm=(1, 0, 2)) if first else x
    ends = []
    for layer in range(layers):
        own = refs[layer * ways * each : (layer + 1) * ways * each : each]
        behind = refs[layer * ways * each + 1 :: each][:ways]
        matrices = []
        for parts in (own, behind):
            dims = call.dims_of(parts[0].name)
            if any(call.dims_of(part.name) != dims or part.name in call.frame for part in parts):
                return call.unknown("a recurrent layer with computed weights waits for all pixels")
            matrices.append(Constant(dims=(ways, *dims), origin=parts[0].name))
        y, end = call.outputs(
            {"lstm": "LSTM", "gru": "GRU"}.get(op, "RNN"),
            (x, *matrices, None, None, *[state if isinstance(state, Tensor) else None for state in begins]),
            (f"{op}{layer}", f"{op}{layer}_end"),
            direction="bidirectional" if ways == 2 else "forward",
        )
        length, _, batch, hidden = call.dims(y)
        x = call.run("Transpose", y, perm=(0, 2, 1, 3))
        x = call.run("Reshape", x, (length, batch, ways * hidden))
        ends.append(end)
    end = call.run("Concat", *ends, axis=0) if len(ends) > 1 else ends[0]
    return [call.run("Transpose", x, perm=(1, 0, 2)) if first else x, end]


def attention(call: Call) -> Value:
    """scaled_dot_product_attention."""
    q, k, v, mask = (call.optional(key) for key in ("query", "key", "value", "attn_mask"))
    if q is None or k is None or v is None:
        raise call.fault("query", "queries, keys and values are needed")
    new = tuple(range(4 - len(call.dims(q))))
    q, k, v = (call.run("Unsqueeze", x, new) if new else x for x in (q, k, v))
    y = call.run("Attention", q, k, v, mask if isinstance(mask, Tensor) else None)
    return call.run("Squeeze", y, new) if new else y


# --- windows


def _spatial(call: Call) -> int:
    op = call.operation.op
    return 3 if "3d" in op else 1 if "1d" in op or op == "upsample_linear1d" else 2


def pool(call: Call) -> Value | Sequence[Value]:
    """Max and average pooling."""
    axes, op = _spatial(call), call.operation.op
    kernel = call.ints("kernel_size", axes, 1)
    x, added = _batched(call, axes)
    y = call.run(
        "AveragePool" if "avg" in op or "lp_pool" in op else "MaxPool",
        x,
        kernel_shape=kernel,
        strides=call.ints("stride", axes, 0) if call.given("stride") else kernel,
        pads=[*call.ints("padding", axes, 0)] * 2,
        dilations=call.ints("dilation", axes, 1),
        ceil_mode=int(call.given("ceil_mode") is True),
    )
    return _unbatched(call, y, added)


def adaptive_pool(call: Call) -> Value | Sequence[Value]:
    """To one pixel: global; whole factors: windows side by side; else every pixel is waited for."""
    axes, kind = _spatial(call), "Average" if "avg" in call.operation.op else "Max"
    x, added = _batched(call, axes)
    have, wanted = call.dims(x)[2:], call.out()[-axes:]
    if have == wanted:
        y = call.run("Identity", x)
    elif math.prod(wanted) == 1:
        y = call.run(f"Global{kind}Pool", x)
    elif all(n % m == 0 for n, m in zip(have, wanted, strict=True)):
        factor = [n // m for n, m in zip(have, wanted, strict=True)]
        y = call.run(f"{kind}Pool", x, kernel_shape=factor, strides=factor)
    else:
        return call.unknown("an adaptive pooling by a fraction waits for all pixels")
    return _unbatched(call, y, added)


def upsample(call: Call) -> Value | Sequence[Value]:
    """Enlargement, of the nearest pixel or interpolated."""
    x, op = call.main(), call.operation.op
    fields = {"mode": "cubic" if "cubic" in op else "linear"}
    fields["coordinate_transformation_mode"] = (
        "align_corners" if call.given("align_corners") is True else "half_pixel"
    )
    if "nearest" in op:
        exact = "exact" in op
        fields = {
            "mode": "nearest",
            "coordinate_transformation_mode": "half_pixel" if exact else "asymmetric",
            "nearest_mode": "round_prefer_ceil" if exact else "floor",
        }
    return call.run("Resize", x, None, None, call.out(), **fields)


def pixel_shuffle(call: Call) -> Value:
    """r x r blocks of channels become pixels."""
    x, added = _batched(call, 2)
    y = call.run("DepthToSpace", x, blocksize=call.number("upscale_factor", 1), mode="CRD")
    return _unbatched(call, y, added)


def pixel_unshuffle(call: Call) -> Value:
    """r x r blocks of pixels become channels."""
    x, added = _batched(call, 2)
    return _unbatched(call, call.run("SpaceToDepth", x, blocksize=call.number("downscale_factor", 1)), added)


def pad(call: Call) -> Value:
    """Values around the last axes, or cut there."""
    x, widths = call.main(), call.whole("pad") or call.whole("padding")
    rank = len(call.dims(x))
    if len(widths) % 2 or len(widths) // 2 > rank:
        raise call.fault("pad", "must be a whole number before and after each axis")
    around = [(0, 0)] * (rank - len(widths) // 2) + list(zip(widths[-2::-2], widths[::-2], strict=True))
    given = call.given("mode")
    mode = _PADDINGS.get(given if isinstance(given, str) else call.operation.op.partition("_")[0], "constant")
    return call.run("Pad", x, [first for first, _ in around] + [last for _, last in around], mode=mode)


# --- axes


def permute(call: Call) -> Value:
    """Axes in another order."""
    x, op = call.main(), call.operation.op
    rank = len(call.dims(x))
    order = list(range(rank))
    if op == "permute":
        order = list(call.axes("dims", rank))
    elif op == "movedim":
        origins, targets = call.axes("source", rank), call.axes("destination", rank)
        if len(origins) != len(targets) or len(set(targets)) != len(targets):
            raise call.fault("destination", "must name as many axes as source")
        rest = iter([axis for axis in range(rank) if axis not in origins])
        moved = dict(zip(targets, origins, strict=True))
        order = [moved[at] if at in moved else next(rest, rank) for at in range(rank)]
    elif op in ("numpy_T", "adjoint", "mT"):
        order = order[::-1] if op == "numpy_T" else [*order[:-2], *order[-2:][::-1]]
    elif rank > 1:
        keys = ("axis0", "axis1") if op == "swapaxes" else ("dim0", "dim1")
        one, other = call.axis(keys[0], rank, 0), call.axis(keys[1], rank, 1)
        order[one], order[other] = order[other], order[one]
    return call.run("Transpose", x, perm=order)


def reshape(call: Call) -> Value:
    """Another shape of the same values, or the same one."""
    x, out = call.main(), call.out()
    if math.prod(call.dims(x)) != math.prod(out):
        return expand(call)
    return x if call.dims(x) == out else call.run("Reshape", x, out)


def same(call: Call) -> Value:
    """Copies, casts, memory formats: nothing to compute."""
    return call.main()


def expand(call: Call) -> Value:
    """Repetition along axes of one element."""
    return call.run("Expand", call.main(), call.out())


def tile(call: Call) -> Value:
    """Repetition of whole axes."""
    x, out = call.main(), call.out()
    dims = (1,) * (len(out) - len(call.dims(x))) + call.dims(x)
    if len(dims) != len(out) or any(new % old for new, old in zip(out, dims, strict=True)):
        raise call.fault("repeats", f"does not lead from {call.dims(x)} to {out}")
    x = call.run("Reshape", x, dims) if dims != call.dims(x) else x
    return call.run("Tile", x, [new // old for new, old in zip(out, dims, strict=True)])


def repeat_interleave(call: Call) -> Value | Sequence[Value]:
    """Every element along an axis repeated as often."""
    x, out = call.main(), call.out()
    dims = call.dims(x)
    changed = [axis for axis, (old, new) in enumerate(zip(dims, out, strict=False)) if old != new]
    if len(dims) != len(out) or len(changed) != 1 or out[changed[0]] % dims[changed[0]]:
        return x if dims == out else call.unknown()
    axis = changed[0]
    grown = [*dims[: axis + 1], out[axis] // dims[axis], *dims[axis + 1 :]]
    return call.run("Reshape", call.run("Expand", call.run("Unsqueeze", x, (axis + 1,)), grown), out)


def concat(call: Call) -> Value:
    """Operands one behind the other along an axis."""
    return call.run("Concat", *_listed(call), axis=call.axis("dim", len(call.out())))


def stack(call: Call) -> Value:
    """Operands side by side on a new axis."""
    axis = call.axis("dim", len(call.out()))
    return call.run("Concat", *[call.run("Unsqueeze", x, (axis,)) for x in _listed(call)], axis=axis)


def _listed(call: Call) -> list[Value]:
    """Operands of a concatenation; PyTorch skips those without elements."""
    values = call.operands()
    return [value for value in values if 0 not in call.dims(value)]


def cut(call: Call) -> Value:
    """slice and narrow: a part of one axis, perhaps with steps."""
    x = call.main()
    axis = call.axis("dim", len(call.dims(x)))
    start, step = call.given("start"), call.given("step")
    if not isinstance(start, int | None) or not isinstance(step, int | None):
        return call.unknown()[0]
    start, step = start or 0, max(step or 1, 1)
    start = max(start + call.dims(x)[axis], 0) if start < 0 else start
    end = start + (call.out()[axis] - 1) * step + 1
    return call.run("Slice", x, (start,), (end,), (axis,), (step,))


def pick(call: Call) -> Value:
    """select: one index of an axis, which disappears."""
    x = call.main()
    axis = call.axis("dim", len(call.dims(x)))
    return call.run("Gather", x, call.of(call.number("index", 0)), axis=axis)


def index_select(call: Call) -> Value:
    """Places of an axis."""
    x = call.main()
    return call.run("Gather", x, call.value("index"), axis=call.axis("dim", len(call.dims(x))))


def arange(call: Call) -> Value:
    """Whole numbers in equal steps."""
    return call.run(
        "Range", *(call.of(call.number(*item)) for item in (("start", 0), ("end", 0), ("step", 1)))
    )


def indexed(call: Call) -> Value | Sequence[Value]:
    """index with one constant list of places; others wait for all pixels."""
    places = call.given("indices")
    x, items = call.main(), places if isinstance(places, tuple) else ()
    axes = [axis for axis, item in enumerate(items) if isinstance(item, Ref)]
    index = call.of(items[axes[0]]) if len(axes) == 1 else None
    if not isinstance(index, Constant) or index.array is None or index.array.dtype.kind not in "iu":
        return call.unknown()
    return call.run("Gather", x, index, axis=axes[0])


def gather(call: Call) -> Value:
    """gather and take_along_dim: a place along an axis for every value of the result."""
    x = call.main()
    index = call.value("index", "indices")
    return call.run("GatherElements", x, index, axis=call.axis("dim", len(call.dims(x))))


def parts(call: Call) -> Sequence[Value]:
    """chunk, split, unbind: several pieces along one axis."""
    x = call.main()
    rank, unbound = len(call.dims(x)), call.operation.op == "unbind"
    axis = call.axis("dim", rank)
    names = call.operation.outputs
    if unbound:
        sizes = [1] * len(names)
    else:
        given, total = call.given("split_size") or call.given("split_sizes"), call.dims(x)[axis]
        sizes = [size for size in given if isinstance(size, int)] if isinstance(given, tuple) else []
        if not sizes:
            each = (
                given
                if isinstance(given, int) and given > 0
                else -(-total // max(call.number("chunks", 1), 1))
            )
            sizes = [min(each, total - at * each) for at in range(len(names))]
        if call.operation.op == "tensor_split":
            sizes = [call.dims_of(name)[axis] if name else 0 for name in names]
    pieces = call.outputs("Split", (x, sizes), names, axis=axis)
    if not unbound:
        return pieces
    return [
        call.run("Squeeze", piece, (axis,)) if name else piece
        for name, piece in zip(names, pieces, strict=True)
    ]


def flip(call: Call) -> Value:
    """Axes backwards."""
    x = call.main()
    axes = call.axes("dims", len(call.dims(x)))
    return call.run("Slice", x, [-1] * len(axes), [-_END] * len(axes), axes, [-1] * len(axes))


def roll(call: Call) -> Value | Sequence[Value]:
    """Axes shifted around."""
    x = call.main()
    if not call.whole("dims"):
        return call.unknown("a roll of all values waits for all pixels")
    axes, shifts = call.axes("dims", len(call.dims(x))), call.whole("shifts")
    if len(axes) != len(shifts):
        raise call.fault("shifts", f"must be {len(axes)} whole numbers")
    for axis, shift in zip(axes, shifts, strict=True):
        first = -shift % call.dims(x)[axis]
        if first:
            behind = call.run("Slice", x, (first,), (_END,), (axis,))
            x = call.run("Concat", behind, call.run("Slice", x, (0,), (first,), (axis,)), axis=axis)
    return x


def embedding(call: Call) -> Value:
    """A table look-up for every token."""
    return call.run("Gather", call.value("weight"), call.value("indices"), axis=0)


# --- arithmetic


def onnx(op: str) -> Handler:
    """An operator of one tensor that ONNX has too."""
    return lambda call: call.run(op, call.main())


def elementwise(call: Call) -> Value:
    """add, mul and others of several tensors or numbers, with broadcasting."""
    product = call.operation.op in ("mul", "div", "multiply", "divide", "true_divide")
    values = [value for value in map(call.of, call.operation.args.values()) if value is not None]
    if call.operation.op in ("add", "sub", "rsub", "mul", "div", "clamp"):  # others are factors or a mode
        values = [value for value in values if len(call.dims(value)) or value in values[:2]][:3]
    kept = [value for value in values if isinstance(value, Tensor) or call.dims(value)]
    if len(kept) == 1 and call.dims(kept[0]) == call.out():
        return call.run("Sigmoid", kept[0])  # with numbers alone
    return call.run("Mul" if product else "Sum", *kept)


def softmax(call: Call) -> Value:
    """Over one axis."""
    x = call.main()
    return call.run("Softmax", x, axis=call.axis("dim", len(call.dims(x)), -1))


def gate(call: Call) -> Value:
    """glu: one half of the channels gates the other."""
    x = call.main()
    axis = call.axis("dim", len(call.dims(x)), -1)
    half = call.out()[axis]
    one, other = call.outputs("Split", (x, (half, half)), ("one", "other"), axis=axis)
    return call.run("Mul", one, call.run("Sigmoid", other))


def layer_norm(call: Call) -> Sequence[Value]:
    """Over the last axes."""
    axis = -max(len(call.whole("normalized_shape")), 1)
    return call.outputs("LayerNormalization", (call.main(),), call.operation.outputs, axis=axis)


def batch_norm(call: Call) -> Value:
    """With constant statistics pixelwise; with statistics of the batch all pixels are waited for."""
    trains = call.given("training") is True or call.given("train") is True
    return call.run("InstanceNormalization" if trains else "BatchNormalization", call.main())


def reduction(call: Call) -> Value:
    """mean, sum, max ... over axes."""
    if call.given("other") is not None:
        return elementwise(call)  # max(a, b)
    x, out = call.main(), call.out()
    rank = len(call.dims(x))
    highest = any(word in call.operation.op for word in ("max", "min"))
    axes = call.axes("dim", rank)
    return call.run("ReduceMax" if highest else "ReduceMean", x, axes, keepdims=int(len(out) == rank > 0))


def cumulative(call: Call) -> Value:
    """cumsum and the like along one axis."""
    x = call.main()
    return call.run("CumSum", x, call.of(call.axis("dim", len(call.dims(x)))))


def top(call: Call) -> Sequence[Value]:
    """topk: the largest along an axis."""
    x = call.main()
    axis = call.axis("dim", len(call.dims(x)), -1)
    return [call.run("TopK", x, (call.number("k", 1),), axis=axis)]


def copied(call: Call) -> Value:
    """copy_: the values of the source in the shape of the target."""
    source = call.value("src", "self")
    if not isinstance(source, Tensor):
        return call.run("Identity", call.main())
    return source if source.dims == call.out() else call.run("Expand", source, call.out())


def quantised(call: Call) -> Value:
    """quantize, dequantize, and both: the values of whole numbers of a few bits."""
    x = call.main()
    bits = stated_bits(call) or x.bits
    if isinstance(x, Tensor) and "dequantize" not in call.operation.op:
        x = call.run("QuantizeLinear", x, Constant(dims=()), Constant(dims=(), bits=bits))
    return replace(x, bits=bits)


def stated_bits(call: Call) -> int | None:
    """Bits of the whole numbers between the bounds of a quantisation, None if it states none."""
    low, high = call.given("quant_min"), call.given("quant_max")
    fits = isinstance(low, int) and isinstance(high, int) and 0 < high - low < 2**32
    return int(high - low).bit_length() if fits else None  # type: ignore[operator]


def scales(call: Call) -> Sequence[Value]:
    """Scale and zero point from the values themselves."""
    x = call.main()
    if isinstance(x, Tensor):
        treatment = "is taken as calibrated: its scale is known beforehand"
        call.drawing.approximate([x.node], call.operation.op, treatment)
    return [
        Constant(dims=call.dims_of(name)) if name else Constant(dims=()) for name in call.operation.outputs
    ]


_RULES: dict[Handler, str] = {
    conv: "conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d conv_transpose3d _convolution",
    pool: "max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool1d_with_indices "
    "max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d",
    adaptive_pool: "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
    "adaptive_max_pool2d adaptive_max_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d",
    upsample: "upsample_nearest1d upsample_nearest2d _upsample_nearest_exact1d _upsample_nearest_exact2d "
    "upsample_linear1d upsample_bilinear2d upsample_bicubic2d _upsample_bilinear2d_aa "
    "_upsample_bicubic2d_aa",
    pixel_shuffle: "pixel_shuffle",
    pixel_unshuffle: "pixel_unshuffle",
    pad: "constant_pad_nd pad reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d",
    permute: "permute transpose t movedim swapaxes swapdims adjoint numpy_T mT",
    reshape: "view reshape _unsafe_view flatten unflatten squeeze unsqueeze squeeze_copy unsqueeze_copy "
    "view_copy reshape_as view_as _reshape_alias",
    same: "clone contiguous to _to_copy alias detach lift_fresh_copy lift_fresh lift type_as alias_copy "
    "detach_copy float half double bfloat16 requires_grad",
    onnx("Dropout"): "dropout native_dropout feature_dropout alpha_dropout feature_alpha_dropout",
    expand: "expand expand_as expand_copy broadcast_to",
    tile: "repeat tile",
    repeat_interleave: "repeat_interleave",
    concat: "cat concat concatenate",
    stack: "stack",
    cut: "slice narrow slice_copy",
    pick: "select select_copy",
    arange: "arange",
    parts: "chunk split split_with_sizes unbind tensor_split unsafe_chunk unsafe_split "
    "unsafe_split_with_sizes",
    flip: "flip",
    roll: "roll",
    index_select: "index_select",
    indexed: "index",
    gather: "gather take_along_dim",
    embedding: "embedding",
    linear: "linear",
    matmul: "matmul mm bmm mv addmm baddbmm addmv addbmm",
    einsum: "einsum",
    attention: "scaled_dot_product_attention",
    recurrent: "lstm gru rnn_tanh rnn_relu",
    elementwise: "add sub mul div rsub pow maximum minimum where masked_fill clamp clip clamp_min "
    "clamp_max lerp addcmul addcdiv atan2 fmod remainder floor_divide true_divide multiply divide subtract "
    "eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor __and__ __or__ "
    "fmax fmin hypot heaviside",
    onnx("Relu"): "relu relu6",
    onnx("Sigmoid"): "sigmoid tanh gelu silu mish hardtanh hardsigmoid hardswish leaky_relu elu selu celu "
    "softplus softsign softshrink hardshrink tanhshrink log_sigmoid prelu rrelu threshold "
    "rrelu_with_noise exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal abs neg sign "
    "sgn erf erfc sin cos tan asin acos atan sinh cosh asinh acosh atanh floor ceil round trunc frac "
    "logical_not bitwise_not isnan isinf isfinite nan_to_num "
    "sinc logit positive",
    onnx("Identity"): "channel_shuffle native_channel_shuffle",
    softmax: "softmax log_softmax _softmax _log_softmax _safe_softmax softmin",
    gate: "glu",
    layer_norm: "layer_norm native_layer_norm rms_norm _fused_rms_norm",
    onnx("GroupNormalization"): "group_norm native_group_norm instance_norm",
    batch_norm: "batch_norm native_batch_norm _native_batch_norm_legit _batch_norm_impl_index "
    "_native_batch_norm_legit_no_training _native_batch_norm_legit_functional cudnn_batch_norm",
    reduction: "mean sum amax amin max min std var norm linalg_vector_norm argmax argmin prod any all "
    "logsumexp nansum nanmean std_mean var_mean aminmax median count_nonzero",
    cumulative: "cumsum cumprod logcumsumexp cummax cummin",
    top: "topk",
    copied: "copy",
    scales: "choose_qparams choose_qparams_symmetric choose_qparams_per_token "
    "choose_qparams_per_token_asymmetric",
    quantised: "quantize_per_token dequantize_per_token quantize_per_tensor quantize_per_channel "
    "dequantize_per_tensor dequantize_per_channel dequantize fake_quantize_per_tensor_affine "
    "fake_quantize_per_channel_affine",
}

RULES: Mapping[str, Handler] = {name: rule for rule, names in _RULES.items() for name in names.split()}
"""Rule by operator name, without namespace, overload and the underscore of in-place calls."""
LAYERS = frozenset(("linear", "matmul", "mm", "addmm", "bmm", "einsum"))
"""Calls that count as layers even where they work on constants alone."""
READERS: Mapping[str, str] = {
    **dict.fromkeys(("conv1d", "conv2d"), "Conv"),
    **dict.fromkeys(("max_pool1d", "max_pool2d"), "MaxPool"),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d"), "AveragePool"),
}
"""Calls that take over a zero border of their operand, as the ONNX operators that they are."""
