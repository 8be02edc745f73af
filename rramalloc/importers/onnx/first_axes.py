"""Follows the first axis of inputs through a graph: does the model treat it as a batch?

A batch is kept apart from everything else: a convolution, a pooling, an attention or a product of computed
stacks of matrices has it in front. An axis along which values are mixed, picked or told apart is none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from rramalloc.importers.axes import Dims
from rramalloc.importers.onnx.operators.elementwise import PRODUCTS, SUMS
from rramalloc.importers.onnx.shapes import permutation
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import Constant, Tensor, Value

_FRONT = frozenset(
    "Conv ConvInteger ConvTranspose FusedConv QLinearConv MaxPool AveragePool LpPool QLinearAveragePool "
    "GlobalAveragePool GlobalMaxPool GlobalLpPool QLinearGlobalAveragePool BatchNormalization GroupNorm "
    "GroupNormalization InstanceNormalization DepthToSpace SpaceToDepth LRN RoiAlign Attention "
    "MultiHeadAttention GroupQueryAttention".split()
)
"""Operators whose first input has the batch in front, and nothing else."""
_RECURRENT = ("LSTM", "GRU", "RNN")
_ALONG = {"Softmax": -1, "LogSoftmax": -1, "Hardmax": -1, "Concat": 0, "Split": 0, "ArgMax": 0, "ArgMin": 0}
_ALONG |= {"TopK": -1, "Gather": 0, "GatherElements": 0}
"""Operators that mix or pick values along the axis that an attribute names, and its default."""
_REGROUPED = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


class AllDecidedError(Exception):
    """Every input has a verdict."""


class FirstAxes:
    """Positions of the first axes of inputs in every tensor.

    verdicts: whether it is a batch, for inputs where that shows; stored: tensors with values in the file.
    """

    def __init__(self, names: Sequence[str], stored: Collection[str]) -> None:
        self.verdicts: dict[str, bool] = {}
        self.pending = set(names)
        self._at: dict[str, dict[str, int]] = {name: {name: 0} for name in names}
        self._stored = stored

    def judge(self, step: Step) -> None:
        """Find verdicts that an operator gives. Raises AllDecidedError after the last one."""
        for index, source, place in self._tracked(step):
            verdict = self._verdict(step, index, place)
            if verdict is not None:
                self._decide(source, verdict)

    def carry(self, step: Step, results: Sequence[Value]) -> None:
        """Follow the axes to an operator's results. Raises AllDecidedError."""
        for index, source, place in self._tracked(step):
            for name, value in zip(step.proto.output, results, strict=True):
                if not isinstance(value, Tensor) or source not in self.pending:
                    continue
                there = _carried(step, index, place, value.dims)
                size = step.dims(index)[place]
                if there is not None and 0 <= there < len(value.dims) and value.dims[there] % size == 0:
                    self._at.setdefault(name, {})[source] = there
                elif there is not None:
                    self._decide(source, False)

    def _tracked(self, step: Step) -> list[tuple[int, str, int]]:
        return [
            (index, source, place)
            for index, name in enumerate(step.proto.input)
            for source, place in self._at.get(name, {}).items()
            if source in self.pending
        ]

    def _decide(self, source: str, verdict: bool) -> None:
        self.verdicts[source] = verdict
        self.pending.discard(source)
        if not self.pending:
            raise AllDecidedError

    def _verdict(self, step: Step, index: int, place: int) -> bool | None:
        rank, op = len(step.dims(index)), step.op
        if op in _FRONT and (index == 0 or (op.endswith("Attention") and index < 3)):
            return place == 0
        if op in _RECURRENT:
            return place == (0 if step.integer("layout", 0) else 1)
        if op == "RoiAlign":
            return False
        if op in ("MatMul", "Gemm"):
            other = step.need(1 - index) if index < 2 else None
            inner = (rank - 1, rank - 2)[index % 2]
            if op == "Gemm" and step.integer(("transA", "transB")[index % 2], 0):
                inner = 1 - inner
            if isinstance(other, Tensor):
                return rank > 2 and place < rank - 2
            return False if place == inner and index < 2 else None
        if op in _ALONG and not (op == "Gather" and index):
            return False if place == step.axis(step.integer("axis", _ALONG[op]), rank) else None
        if op.endswith("LayerNormalization"):
            return False if place >= step.integer("axis", -1) % rank else None
        if op.startswith("Reduce"):
            axes = step.axes_of(rank, 1, 13 if op == "ReduceSum" else 18)
            return False if axes is None or place in axes else None
        return self._told_apart(step, rank - place) if op in SUMS or op in PRODUCTS else None

    def _told_apart(self, step: Step, behind: int) -> bool | None:
        """Return False, not a batch, if a stored operand has different values for each place, else None."""
        for name, value in zip(step.proto.input, step.values, strict=True):
            dims = value.dims if isinstance(value, Constant) and name in self._stored else None
            if dims and behind <= len(dims) and dims[-behind] > 1:
                return False
        return None


def _carried(step: Step, index: int, place: int, out: Dims) -> int | None:
    """Return the place of an axis of an input in a result of these dims: -1 if it was cut, None if
    not known."""
    dims, op = step.dims(index), step.op
    if op == "Transpose":
        return permutation(step, len(dims)).index(place)
    if op in _REGROUPED:
        before = math.prod(dims[:place])
        fits = (k for k, size in enumerate(out) if size > 1 and math.prod(out[:k]) == before)
        return next(fits, -1)
    if op == "Gather":
        axis = step.axis(step.integer("axis", 0), len(step.dims(0)))
        return axis + place if index else place + (len(out) - len(dims)) * (place > axis)
    if op == "Einsum":
        terms, _, wanted = step.text("equation", "").replace(" ", "").partition("->")
        letter = terms.split(",")[index][place : place + 1]
        return None if "." in terms or letter not in wanted else wanted.index(letter)
    if op.startswith(("Reduce", "Arg")) and len(out) < len(dims):
        axes = step.axes_of(len(dims), 1, 13 if op == "ReduceSum" else 18) or (
            step.integer("axis", 0) % len(dims),
        )
        return place - sum(axis < place for axis in axes)
    return place + len(out) - len(dims) if len(out) >= len(dims) else None
