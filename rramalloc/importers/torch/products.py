"""ATen matrix products: with constant weights a stage, of two computed tensors digital.

Source: docs/sources/model.md 2.
"""

from __future__ import annotations

from rramalloc.importers.torch.call import Call, Result
from rramalloc.importers.torch.graph import Argument, Ref
from rramalloc.importers.torch.layout import ContradictionError, Layout, Tensor, token_layout


def linear(call: Call) -> Result:
    """linear: the last axis is multiplied with a constant weight (out, in)."""
    source, weight = call.tensor("input"), call.dims("weight")
    if source is None or weight is None or len(weight) != 2 or call.tensor("weight") is not None:
        return _dynamic(call, ("input",), ("weight",))
    return _stage(call, source, len(source.dims) - 1, "weight")


def matmul(call: Call) -> Result:
    """matmul, mm, bmm: a constant matrix on either side makes a stage."""
    return _product(call, ("self",), ("other", "mat2", "vec"))


def addmm(call: Call) -> Result:
    """addmm, baddbmm: a product plus a bias; a computed bias is added behind the product."""
    result = _product(call, ("mat1", "batch1", "mat"), ("mat2", "batch2", "vec"))
    bias = call.tensor("self", "input")
    if bias is None or not isinstance(result, Tensor):
        return result
    return call.emit("add", [result, call.collapsed(bias)], result.dims, result.layout, suffix="_sum")


def _product(call: Call, left: tuple[str, ...], right: tuple[str, ...]) -> Result:
    first, second = call.tensor(*left), call.tensor(*right)
    out = call.out()
    if first is not None and second is None and _is_matrix(call, right):
        if len(out) == len(first.dims):
            return _stage(call, first, len(first.dims) - 1, *right)
    elif second is not None and first is None and _is_matrix(call, left):
        if len(out) == len(second.dims) >= 2:
            return _stage(call, second, len(second.dims) - 2, *left)
    elif first is not None and second is not None:
        return _dynamic(call, left, right)
    return call.unknown()


def _is_matrix(call: Call, keys: tuple[str, ...]) -> bool:
    """Is the operand one matrix, not a stack of different ones?"""
    dims = call.dims(*keys) or ()
    return len(dims) >= 2 and all(extent == 1 for extent in dims[:-2])


def _stage(call: Call, source: Tensor, axis: int, *weight: str) -> Tensor:
    """A linear layer along one axis; every other axis counts pixels. weight: where the operand may stand."""
    out = call.out()
    if len(out) != len(source.dims):
        raise ContradictionError(source.node)
    source = _spread(call, source, axis)
    weights = call.origin(*weight)
    return call.emit("linear", [source], out, source.essential, weights=weights, out_features=out[axis])


def _spread(call: Call, source: Tensor, axis: int) -> Tensor:
    """The source with every axis but one on the grid."""
    pixels = {other for other, extent in enumerate(source.dims) if extent > 1 and other != axis}
    return source if pixels == source.grid_axes else call.placed(source, token_layout(source.dims, axis))


def _dynamic(call: Call, left: tuple[str, ...], right: tuple[str, ...]) -> Result:
    """Two computed operands: pixels of the first stream, the second is needed whole."""
    first, second = call.tensor(*left), call.tensor(*right)
    if first is None or second is None or not isinstance(_argument(call, left), Ref):
        return call.unknown()
    out = call.out()
    shift = len(out) - len(first.dims)
    contracted = len(first.dims) - 1
    layout = first.essential.shifted(max(shift, 0))
    if shift < 0 or contracted in first.grid_axes:
        first, layout = call.collapsed(first, suffix="_first"), Layout()
    return _combined(call, first, [call.whole(second, suffix="_second")], layout)


def einsum(call: Call) -> Result:
    """A product of two tensors by letters; with one constant matrix it is a linear layer."""
    equation, operands = call.given("equation"), call.given("tensors")
    if not isinstance(equation, str) or not isinstance(operands, tuple) or len(operands) != 2:
        return call.unknown()
    terms, _, wanted = equation.replace(" ", "").partition("->")
    letters = terms.split(",")
    tensors = [call.frame.get(item.name) if isinstance(item, Ref) else None for item in operands]
    out = call.out()
    if len(letters) != 2 or len(wanted) != len(out) or not (terms.replace(",", "") + wanted).isalpha():
        return call.unknown()
    if tensors[0] is None:
        tensors, letters = tensors[::-1], letters[::-1]
    first, second = tensors
    left, right = letters
    if first is None or len(left) != len(first.dims) or len(set(wanted)) != len(wanted):
        return call.unknown()
    if second is None:
        return _lettered_stage(call, first, left, right, wanted)
    layout = Layout()
    if {left[axis] for axis in first.grid_axes} <= set(wanted):
        layout = first.essential.moved({axis: wanted.find(letter) for axis, letter in enumerate(left)})
    else:
        first = call.collapsed(first, suffix="_first")
    return _combined(call, first, [call.whole(second, suffix="_second")], layout)


def _lettered_stage(call: Call, source: Tensor, left: str, right: str, wanted: str) -> Result:
    """One letter of the source is replaced by one of the constant matrix, then axes are reordered."""
    gone, new = set(left) - set(wanted), set(wanted) - set(left)
    if (
        len(right) != 2
        or len(gone) != 1
        or len(new) != 1
        or set(right) != gone | new
        or len(right) != len(set(right))
    ):
        return call.unknown()
    letter, out = gone.pop(), call.out()
    axis = left.index(letter)
    letters = left.replace(letter, new.pop())
    source = _spread(call, source, axis)
    layout = source.essential.moved({old: wanted.index(letter) for old, letter in enumerate(letters)})
    return call.emit("linear", [source], out, layout, out_features=out[wanted.index(letters[axis])])


def attention(call: Call) -> Result:
    """scaled_dot_product_attention: queries stream, keys and values (and a mask) are needed whole."""
    query = call.tensor("query")
    others = [call.tensor(key) for key in ("key", "value", "attn_mask")]
    if query is None:
        return call.unknown()
    layout = query.essential
    if len(query.dims) - 1 in query.grid_axes:
        query, layout = call.collapsed(query, suffix="_query"), Layout()
    whole = [call.whole(other, suffix="_whole") for other in others if other is not None]
    return _combined(call, query, whole, layout)


def _combined(call: Call, streamed: Tensor, whole: list[Tensor], layout: Layout) -> Tensor:
    """concat, then the channels of the result."""
    out = call.out()
    result = Tensor("", out, layout)
    inputs = [streamed, *whole]
    grid = streamed.shape[1:]
    if (result.shape.height, result.shape.width) != grid:
        return call.barrier(inputs, out, layout)
    if len(inputs) == 1:
        return call.select(streamed, out, layout)
    dims = (sum(source.shape.channels for source in inputs), *grid)
    joined = call.emit("concat", inputs, dims, Layout((1,), (2,)), suffix="_inputs")
    return call.select(joined, out, layout)


def _argument(call: Call, keys: tuple[str, ...]) -> Argument:
    return next((call.given(key) for key in keys if call.given(key) is not None), None)
