"""First axes of inputs: one walk over the whole graph by shapes, every operator with a rule whether it keeps
the elements of the axis apart or mixes them; then each input is decided.

Source: docs/sources/model.md 14.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import onnx

from rramalloc.errors import SpecError
from rramalloc.importers.axes import Dims
from rramalloc.importers.onnx.graph import read_by
from rramalloc.importers.onnx.inputs import MATRICES, Inputs, held_by, kernels_of, open_shape
from rramalloc.importers.onnx.operators.windowed import is_of_patches
from rramalloc.importers.onnx.shapes import PRODUCTS, SUMS, permutation
from rramalloc.importers.onnx.step import OnnxOperator
from rramalloc.importers.onnx.tensors import Constant, Tensor, Value
from rramalloc.records import brief

_BATCH = re.compile(r"n|b|bs|.*batch.*", re.IGNORECASE)
_UNNAMED = re.compile(r"|\?|none|unk__\d+|s\d+|dim_?\d+|.*dynamic_axes_\d+", re.IGNORECASE)
"""Names that exporters give to an axis that nobody named."""

Verdict = Literal["images", "apart", "scaled", "stored", "mixed"]
"""What an operator says of an axis: it works on each element alone, as on an image ("images") or otherwise
("apart"); it scales each by a stored value of its own ("scaled"), as heads, or adds one ("stored"), as
positions; it mixes them."""


class AxisPlace(NamedTuple):
    """Position of an input's first axis in a tensor: within this axis, inside `outer` merged elements."""

    axis: int
    outer: int = 1


class TrackedAxis(NamedTuple):
    """First axis of an input, as one operand of an operator holds it.

    operand: its number; axis: there; places: where operands hold it, by number; derived: numbers of operands
    that depend on the input, whether or not they hold its axis; stored: names of tensors of the file.
    """

    step: OnnxOperator
    operand: int
    axis: int
    places: Mapping[int, AxisPlace]
    derived: Collection[int]
    stored: Collection[str]

    @property
    def rank(self) -> int:
        """Number of axes of the operand."""
        return len(self.step.dims(self.operand))


Rule = Callable[[TrackedAxis], Verdict | None]


class FirstAxes:
    """Positions of the first axes of inputs in every tensor, and what operators say of them.

    lengths: of the first axes, by input; stored: tensors with values in the file; found: by input, the first
    operator of each verdict, as messages name it.
    """

    def __init__(self, lengths: Mapping[str, int], stored: Collection[str]) -> None:
        self.lengths = dict(lengths)
        self.found: dict[str, dict[Verdict, str]] = {name: {} for name in lengths}
        self._at: dict[str, dict[str, AxisPlace]] = {name: {name: AxisPlace(0)} for name in lengths}
        self._derived: dict[str, frozenset[str]] = {name: frozenset([name]) for name in lengths}
        self._stored = stored

    def judge(self, step: OnnxOperator) -> None:
        """Note what an operator says of the axes in its operands."""
        for source, axis in self._tracked(step):
            rule = _RULES.get(step.op)
            is_kernel = axis.operand in kernels_of(step.proto)
            verdict: Verdict | None = "mixed" if is_kernel else None
            if rule is not None and not is_kernel:
                with contextlib.suppress(SpecError):  # what is wrong with an operator, the import says
                    verdict = rule(axis)
            if verdict is not None:
                self._note(source, verdict, step)

    def carry(self, step: OnnxOperator, results: Sequence[Value]) -> None:
        """Follow the axes to an operator's results."""
        inputs = [self._derived.get(name, frozenset()) for name in read_by(step.proto)]
        for name in filter(None, step.proto.output):
            self._derived[name] = self._derived.get(name, frozenset()).union(*inputs)
        for source, (_, index, *_) in self._tracked(step):
            place, length = self._at[step.proto.input[index]][source], self.lengths[source]
            for name, value in zip(step.proto.output, results, strict=True):
                if not name or not isinstance(value, Tensor) or step.op in _ENDS:
                    continue
                there = _carried(step, index, place, length, value.dims)
                if there is not None and _holds(value.dims, there, length):
                    self._at.setdefault(name, {})[source] = there
                elif there is not None and step.op in _CUTS:
                    self._note(source, "mixed", step)

    def rename(self, names: Sequence[str], others: Sequence[str]) -> None:
        """Follow the axes from the outputs of a branch to those of its operator."""
        for name, other in zip(names, others, strict=True):
            self._at[other] = self._at.get(name, {})
            self._derived[other] = self._derived.get(name, frozenset())

    def places(self, batches: Collection[str]) -> dict[str, int]:
        """Return the axis of every tensor that holds the first axis of one of these inputs."""
        return {
            name: place.axis
            for name, places in self._at.items()
            for source, place in places.items()
            if source in batches
        }

    def _note(self, source: str, verdict: Verdict, step: OnnxOperator) -> None:
        self.found[source].setdefault(verdict, f"{step.label} {step.name[:60]!r}")

    def _tracked(self, step: OnnxOperator) -> list[tuple[str, TrackedAxis]]:
        """Return the axes that operands hold, each with its input."""
        names = step.proto.input
        held = [(index, source) for index, name in enumerate(names) for source in self._at.get(name, {})]
        made = list[tuple[str, TrackedAxis]]()
        for index, source in held:
            places = {at: self._at[names[at]][source] for at, other in held if other == source}
            derived = {at for at, name in enumerate(names) if source in self._derived.get(name, ())}
            axis = places[index].axis
            made.append((source, TrackedAxis(step, index, axis, places, derived, self._stored)))
        return made


def settled(inputs: Inputs, axes: FirstAxes, where: str) -> Inputs:
    """Return the inputs with every first axis that is a batch as 1.

    axes: what operators say of them. Raises UnsupportedError for an open first axis that is no batch, or may
    be none.
    """
    data, notes, batch = dict(inputs.data), list(inputs.notes), 1
    images = set[str]()
    verdicts = {name: _decided(found) for name, found in axes.found.items()}
    proven = {name for name, verdict in verdicts.items() if verdict}
    ones = {
        name
        for name, dims in inputs.data.items()
        if len(dims) > 1 and dims[0] == 1 and name not in inputs.given and name not in inputs.open
    }
    sizes = {inputs.data[name][0] for name in proven if name not in inputs.open}
    names = {inputs.open[name] for name in proven if name in inputs.open} - {""}
    for name, dims in inputs.data.items():
        verdict, found = verdicts.get(name), axes.found.get(name, {})
        if name in inputs.open:
            called = inputs.open[name]
            if len(dims) == 1 and called in names:
                verdict = True
            if verdict is None and (called in names or _BATCH.fullmatch(called)):
                verdict = True
            if verdict is None and _UNNAMED.fullmatch(called):
                notes.append(
                    f"input {brief(name)}: the open first axis is taken as a batch of 1; if it is none, give "
                    f"its length by --input-shape"
                )
                verdict = True
            if not verdict:
                mixer = found.get("mixed")
                more = f"{mixer} mixes" if mixer else "no operator treats the first axis as a batch"
                more = f" ({more} the elements of the first axis)" if mixer else f" ({more})"
                alike = [n for n, other in inputs.open.items() if other == called and called]
                asked = dict.fromkeys([name, *alike])
                raise open_shape({n: (called, *inputs.data[n][1:]) for n in asked}, where, more, first=128)
            data[name] = (1, *dims[1:])
        elif dims and dims[0] > 1:
            if len(dims) == 1 and dims[0] in sizes:  # labels, lengths: a value for each element of a batch
                verdict = True
            if "images" in found and "mixed" in found and not verdict:
                images.add(name)
            if name in inputs.dynamic and verdict is not False:
                verdict = True
            if verdict is None and name not in inputs.given and len(dims) > 1:
                is_usual = len(dims) > 3 or (len(dims) == 3 and dims[1] != 1)
                verdict = dims[0] in sizes or (is_usual and not ones)
                if not verdict:
                    notes.append(
                        f"input {brief(name)}: no operator treats the first axis of {dims[0]} as a batch: "
                        f"taken as a part of one input"
                    )
            if verdict:
                batch = dims[0] if batch == 1 else batch
                data[name] = (1, *dims[1:])
            if verdict and name not in inputs.dynamic:
                notes.append(f"input {brief(name)} has a batch of {dims[0]}: taken as 1, one input at a time")
    places = axes.places(proven - set(inputs.open))
    return replace(
        inputs,
        data=data,
        batch=batch,
        batch_places=places,
        images=frozenset(images),
        notes=tuple(notes),
    )


def _decided(found: Mapping[Verdict, str]) -> bool | None:
    """Return True for a batch, False for a part of one input, None where no operator decides."""
    order: Sequence[tuple[Verdict, bool]] = (
        ("mixed", False),
        ("images", True),
        ("scaled", False),
        ("apart", True),
        ("stored", False),
    )
    return next((verdict for said, verdict in order if said in found), None)


def _holds(dims: Dims, place: AxisPlace, length: int) -> bool:
    """Return True if a tensor of these dims may hold a whole first axis of this length there."""
    return 0 <= place.axis < len(dims) and dims[place.axis] % (place.outer * length) == 0


# --- where an operator's results hold the axis

_REGROUPED = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
_CUTS = frozenset((*_REGROUPED, "Slice", "Split", "Pad"))
"""Operators that mix an axis, or pick from it, where their results do not hold it whole."""
_ENDS = frozenset("Compress Loop NonMaxSuppression NonZero OneHot RoiAlign Scan Unique MaxRoiPool".split())
"""Operators whose results have other axes than their operands."""


def _carried(step: OnnxOperator, index: int, place: AxisPlace, length: int, out: Dims) -> AxisPlace | None:
    """Return the place of a first axis in a result with dims `out`: axis -1 if it was cut, None if unknown.

    length: of the first axis.
    """
    if step.op not in _REGROUPED:
        axis = _carried_axis(step, index, place.axis, out)
        return None if axis is None else AxisPlace(axis, place.outer)
    # axes are merged and split, the order of the elements stays
    outer = math.prod(step.dims(index)[: place.axis]) * place.outer
    for axis in range(len(out)):
        before = math.prod(out[:axis])
        if before and outer % before == 0 and _holds(out, AxisPlace(axis, outer // before), length):
            return AxisPlace(axis, outer // before)
    return AxisPlace(-1)


def _carried_axis(step: OnnxOperator, index: int, place: int, out: Dims) -> int | None:
    """Return the axis of a result that an input's axis becomes, None if unknown."""
    dims, op = step.dims(index), step.op
    if op == "Transpose":
        return permutation(step, len(dims)).index(place)
    if op == "Gather":
        axis = step.axis(step.integer("axis", 0), len(step.dims(0)))
        return axis + place if index else place + (len(out) - len(dims)) * (place > axis)
    if op == "Einsum":
        terms, _, wanted = step.text("equation", "").replace(" ", "").partition("->")
        letter = terms.split(",")[index][place : place + 1]
        return None if "." in terms or letter not in wanted else wanted.index(letter)
    if op.startswith(("Reduce", "Arg")) and len(out) < len(dims):
        axes = step.axes_of(len(dims)) or (step.integer("axis", 0) % len(dims),)
        return place - sum(axis < place for axis in axes)
    return place + len(out) - len(dims) if len(out) >= len(dims) else None


# --- rules: what an operator says of an axis in one of its operands


def _windowed(at: TrackedAxis) -> Verdict | None:
    """Convolution, pooling, regions: images in front; the grid and a list of regions are worked on whole."""
    if at.operand:
        return "mixed" if at.step.op in _OF_REGIONS else None
    is_linear = at.step.op == "Conv" and is_of_patches(at.step)
    return "mixed" if at.axis else "apart" if is_linear else "images"


def _normalised(at: TrackedAxis) -> Verdict | None:
    """Normalisation of channels at axis 1: rows of vectors have no batch that shows."""
    if at.operand:
        return None
    return "mixed" if at.axis else None if at.rank == 2 else "apart"


def _attention(at: TrackedAxis) -> Verdict | None:
    """Attention: batch in front, also of keys and values of earlier calls, which may be stacked."""
    op, batch = at.step.op, 0
    if at.step.proto.domain == "com.microsoft" and at.operand == _STACKED_PAST.get(op):
        batch = 1
    elif at.operand not in _PAST.get(op, ()) and (at.operand > 2 or at.operand in held_by(at.step.proto)):
        return None
    return "apart" if at.axis == batch else "mixed"


def _recurrent(at: TrackedAxis) -> Verdict | None:
    """Recurrent layer: the batch of data and of states; lengths follow that."""
    if at.operand == 4:
        return None
    batch = 0 if at.step.integer("layout", 0) else 1
    return "images" if at.axis == batch else "mixed"


def _product(at: TrackedAxis) -> Verdict | None:
    """Product of matrices: sums over one axis, and of stacks the leading ones go together."""
    step, pair, rank = at.step, MATRICES[at.step.op], at.rank
    if at.operand not in pair:
        return None
    second = at.operand == pair[1]
    inner = rank - 2 if second else rank - 1
    if step.op == "Gemm" and step.integer("transB" if second else "transA", 0):
        inner = 1 - inner
    other = pair[0] if second else pair[1]
    if at.axis == inner:
        return "mixed"
    partner, behind = step.dims(other), rank - at.axis
    is_stored = isinstance(step.need(other), Constant)
    if behind <= 2:  # scores of each with each
        return "mixed" if other in at.places else None
    if len(partner) < behind or partner[-behind] == 1:
        return None
    return "stored" if is_stored else "apart"


def _equation(at: TrackedAxis) -> Verdict | None:
    """Einsum: sums over letters that the result lacks; what computed operands share goes together."""
    step = at.step
    left, _, wanted = step.text("equation", "").replace(" ", "").partition("->")
    terms = left.split(",")
    if "." in left or len(terms) != len(step.values) or at.axis >= len(terms[at.operand]):
        return None
    letter = terms[at.operand][at.axis]
    if letter not in wanted or any(terms[k][p.axis : p.axis + 1] != letter for k, p in at.places.items()):
        return "mixed"
    others = [step.need(k) for k, term in enumerate(terms) if k != at.operand and letter in term]
    return "apart" if any(isinstance(value, Tensor) for value in others) else "stored" if others else None


def _along(at: TrackedAxis, default: int | None) -> Verdict | None:
    """Work along one axis, a choice, a rank, a sum or a cut; default: where none is named, None for all."""
    step = at.step
    given = step.known_integers(1, "axis") if step.op.startswith("Cum") else None
    axis = given[0] if given else step.attribute("axis", onnx.AttributeProto.INT)
    axis = default if axis is None else axis
    return "mixed" if axis is None or at.axis == step.axis(axis, at.rank) else None


def _behind(at: TrackedAxis) -> Verdict | None:
    """Normalisation and softmax: over all axes from one on, a softmax since opset 13 over that alone."""
    step, is_softmax = at.step, "max" in at.step.op
    if at.operand and not (at.operand == 1 and step.op.startswith("Skip")):
        return None
    is_one = is_softmax and step.integer("opset", step.opset) >= 13
    axis = step.axis(step.integer("axis", 1 if is_softmax and not is_one else -1), at.rank)
    return "mixed" if at.axis == axis or (at.axis > axis and not is_one) else None


def _joined(at: TrackedAxis) -> Verdict | None:
    """Concat: one behind the other along the axis, or beside each other at the same place."""
    return _along(at, 1) or _paired(at)


def _paired(at: TrackedAxis) -> Verdict | None:
    """Operands side by side: elements of the axis in two directions meet each other."""
    behind = at.rank - at.axis
    places = ((len(at.step.dims(index)), place.axis) for index, place in at.places.items())
    return "mixed" if any(rank - axis != behind for rank, axis in places) else None


def _combined(at: TrackedAxis) -> Verdict | None:
    """Sum or product value by value: a stored operand may have a value of its own for each element."""
    step, behind = at.step, at.rank - at.axis
    for name, value in zip(step.proto.input, step.values, strict=True):
        dims = value.dims if isinstance(value, Constant) and name in at.stored else None
        if dims and behind <= len(dims) and dims[-behind] > 1:
            return "scaled" if step.op in PRODUCTS else "stored"
    return _paired(at)


def _gathered(at: TrackedAxis) -> Verdict | None:
    """Gather and GatherElements: pick along an axis, unless each element picks for itself."""
    return None if at.operand or 1 in at.derived else _along(at, 0)


def _gathered_nd(at: TrackedAxis) -> Verdict | None:
    """GatherND: picks along the first axes behind the shared ones."""
    shared, picked = at.step.integer("batch_dims", 0), at.step.dims(1)[-1:] or (0,)
    if at.axis < shared:
        return "apart"
    return "mixed" if not at.operand and 1 not in at.derived and at.axis < shared + picked[0] else None


def _reduced(at: TrackedAxis) -> Verdict | None:
    """Reduction or statistics: over the listed axes or all; without a list some keep the channels apart."""
    axes = at.step.axes_of(at.rank)
    if at.step.op == "MeanVarianceNormalization":
        axes = axes or (0, 2, 3)
    if not axes and at.step.integer("noop_with_empty_axes", 0):
        return None
    return "mixed" if not at.operand and (not axes or at.axis in axes) else None


def _scanned(at: TrackedAxis) -> Verdict | None:
    """Scan: a recurrence along an axis of each scanned input; a state is taken whole."""
    count = at.step.integer("num_scan_inputs", 0)
    along = at.step.integers("scan_input_axes") or (0,) * count
    number = at.operand - len(at.step.values) + count
    is_scanned = 0 <= number < len(along) and at.axis == at.step.axis(along[number], at.rank)
    return "mixed" if is_scanned else None


_OF_REGIONS = ("RoiAlign", "MaxRoiPool")
_PAST = {
    "DecoderMaskedMultiHeadAttention": (5, 6),
    "GroupQueryAttention": (3, 4),
    "MultiHeadAttention": (6, 7),
}
"""Inputs of attention that hold keys and values of earlier calls, with the batch in front."""
_STACKED_PAST = {"Attention": 4, "DecoderMaskedSelfAttention": 4, "QAttention": 8}
"""Input of ONNX Runtime's attention that holds both, with the batch second."""
_FAMILIES: dict[Rule, str] = {
    _windowed: "Conv ConvInteger ConvTranspose FusedConv NhwcFusedConv QLinearConv DeformConv "
    "CausalConvWithState MaxPool AveragePool LpPool NhwcMaxPool QLinearAveragePool GlobalAveragePool "
    "GlobalMaxPool GlobalLpPool QLinearGlobalAveragePool DepthToSpace SpaceToDepth LRN GridSample "
    "RoiAlign MaxRoiPool",
    _normalised: "BatchNormalization GroupNorm GroupNormalization InstanceNormalization",
    _attention: "Attention DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention GroupQueryAttention "
    "MultiHeadAttention QAttention SparseAttention LinearAttention",
    _recurrent: "LSTM GRU RNN DynamicQuantizeLSTM",
    _product: " ".join(MATRICES),
    _equation: "Einsum",
    partial(_along, default=0): "Split ArgMax ArgMin ScatterElements Scatter CumSum CumProd",
    partial(_along, default=-1): "TopK LpNormalization",
    partial(_along, default=None): "Compress Unique",
    _joined: "Concat",
    _combined: " ".join((*SUMS, *PRODUCTS)),
    _gathered: "Gather GatherElements",
    _gathered_nd: "GatherND",
    _behind: "Softmax LogSoftmax Hardmax QLinearSoftmax LayerNormalization RMSNormalization "
    "SimplifiedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization",
    _reduced: "ReduceMean ReduceSum ReduceSumSquare ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
    "ReduceProd ReduceMax ReduceMin MeanVarianceNormalization",
    _scanned: "Scan",
}
_RULES = {name: rule for rule, names in _FAMILIES.items() for name in names.split()}
