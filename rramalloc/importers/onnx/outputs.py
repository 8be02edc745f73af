"""Output shapes of operators that the network model does not know, by their ONNX definition.

Own rules, because the shape inference of the onnx library crashes the process on malformed attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rramalloc.importers.axes import Dims
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import Constant
from rramalloc.network.geometry import MAX_EXTENT

Rule = Callable[[Step], Sequence[Dims] | None]


def outputs_of(step: Step) -> list[Dims | None]:
    """Shape of every output, None without a rule. Raises SpecError for wrong attributes."""
    count = len(step.proto.output)
    rule = _RULES[step.op] if has_rule(step) else None
    if rule is None or any(value is not None and value.dims is None for value in step.values):
        return [None] * count
    shapes = rule(step) or []
    fits = [dims if all(0 <= size <= MAX_EXTENT for size in dims) else None for dims in shapes]
    return [*fits, *[None] * count][:count]


def has_rule(step: Step) -> bool:
    """Whether the operator is a standard one of which only the output shapes are defined here."""
    return step.proto.domain in ("", "ai.onnx") and step.op in _RULES


def _gather_nd(step: Step) -> Sequence[Dims] | None:
    data, indices = step.dims(0), step.dims(1)
    shared = step.integer("batch_dims", 0)
    if not indices or not 0 <= shared < len(data) or not 1 <= indices[-1] <= len(data) - shared:
        raise step.fault("batch_dims", "data, indices and batch_dims do not fit")
    return [indices[:-1] + data[shared + indices[-1] :]]


def _recurrent(step: Step) -> Sequence[Dims] | None:
    data, weight = step.dims(0), step.dims(2)
    if len(data) != 3 or len(weight) != 3:
        raise step.fault("X", "data and weights of a recurrent layer have three axes")
    directions, hidden = weight[0], weight[2]
    if step.integer("layout", 0):
        batch, time = data[:2]
        state = (batch, directions, hidden)
        return [(batch, time, directions, hidden), state, state]
    time, batch = data[:2]
    state = (directions, batch, hidden)
    return [(time, directions, batch, hidden), state, state]


def _roi_align(step: Step) -> Sequence[Dims] | None:
    size = (step.integer("output_height", 1), step.integer("output_width", 1))
    return [(*step.dims(1)[:1], *step.dims(0)[1:2], *size)]


def _one_hot(step: Step) -> Sequence[Dims] | None:
    depth = step.known_integers(1, "depth")
    indices = step.dims(0)
    if not depth:
        return None
    axis = step.axis(step.integer("axis", -1), len(indices) + 1)
    return [(*indices[:axis], depth[0], *indices[axis:])]


def _einsum(step: Step) -> Sequence[Dims] | None:
    """Only equations that name every axis."""
    left, arrow, right = step.text("equation", "").replace(" ", "").partition("->")
    terms = left.split(",")
    shapes = [step.dims(index) for index in range(len(step.values))]
    if not arrow or "." in left or [len(term) for term in terms] != [len(dims) for dims in shapes]:
        return None
    sizes: dict[str, int] = {}
    for term, dims in zip(terms, shapes, strict=True):
        for letter, size in zip(term, dims, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise step.mismatch("inputs", f"axis {letter!r} is {sizes[letter]} and {size} long")
    return None if set(right) - set(sizes) else [tuple(sizes[letter] for letter in right)]


def _reduced(step: Step) -> Sequence[Dims] | None:
    dims = step.dims(0)
    listed = step.value(1)
    if isinstance(listed, Constant) and listed.array is None and step.integers("axes") is None:
        return None
    since = 13 if step.op == "ReduceSum" else 18
    axes = step.axes_of(len(dims), 1, since) or tuple(range(len(dims)))
    if step.integer("keepdims", 1):
        return [tuple(1 if axis in axes else size for axis, size in enumerate(dims))]
    return [tuple(size for axis, size in enumerate(dims) if axis not in axes)]


def _matrix(step: Step) -> Sequence[Dims] | None:
    a, b = step.dims(0), step.dims(1)
    if len(a) < 2 or len(b) != 2 or a[-1] != b[0]:
        return None
    return [(*a[:-1], b[1])]


_SAME = (
    "Bernoulli BitCast CumProd CumSum EyeLike InstanceNormalization LayerNormalization LogSoftmax "
    "RandomNormalLike RandomUniformLike ReverseSequence RotaryEmbedding Scatter ScatterElements ScatterND "
    "TensorScatter Trilu"
)
_REDUCTIONS = "Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare"

_RULES: dict[str, Rule] = {
    **dict.fromkeys(_SAME.split(), lambda step: [step.dims(0)] * max(len(step.proto.output), 1)),
    **dict.fromkeys([f"Reduce{name}" for name in _REDUCTIONS.split()], _reduced),
    "GatherElements": lambda step: [step.dims(1)],
    "GatherND": _gather_nd,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "GridSample": lambda step: [step.dims(0)[:2] + step.dims(1)[1:-1]],
    "RoiAlign": _roi_align,
    "OneHot": _one_hot,
    "Einsum": _einsum,
    "MatMul": _matrix,
}
