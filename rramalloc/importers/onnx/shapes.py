"""Shape rules that constants and data share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from rramalloc.importers.axes import Dims
from rramalloc.importers.onnx.step import Step
from rramalloc.network.geometry import MAX_EXTENT
from rramalloc.records import brief

T = TypeVar("T")


def shown(dims: Sequence[int]) -> str:
    """Return the dims as a message shows them."""
    return brief(" x ".join(map(str, dims[:10])) or "scalar")[1:-1]


def broadcast(step: Step, shapes: Sequence[Dims]) -> Dims:
    """Return the common shape of operands. Raises NetworkError if they cannot be broadcast."""
    if not shapes:
        raise step.mismatch("inputs", f"{step.op} needs at least one")
    rank = max(len(dims) for dims in shapes)
    result = [1] * rank
    for dims in shapes:
        for axis, size in enumerate(dims, start=rank - len(dims)):
            if size != 1 and result[axis] not in (1, size):
                names = " and ".join(shown(dims) for dims in shapes[:4])
                raise step.mismatch("inputs", f"shapes {names} cannot be broadcast")
            result[axis] = result[axis] if size == 1 else size
    return tuple(result)


def reshaped(step: Step, dims: Dims, target: Dims, batch: int) -> Dims:
    """Return the shape after Reshape; `batch`: what the file calls the batch, now 1.

    Raises NetworkError if the number of elements differs.
    """
    copies = step.integer("allowzero", 0) == 0
    if copies and any(size == 0 and axis >= len(dims) for axis, size in enumerate(target)):
        raise step.fault("shape", f"copies an axis that the input {shown(dims)} does not have")
    wanted = [dims[axis] if size == 0 and copies else size for axis, size in enumerate(target)]
    if any(size < -1 or size > MAX_EXTENT for size in wanted) or wanted.count(-1) > 1:
        raise step.fault(
            "shape", f"got {brief(str(target))}, one axis may be -1 and none below or above {MAX_EXTENT}"
        )
    elements = math.prod(dims)
    if wanted and batch > 1 and wanted[0] % batch == 0:
        alone = [wanted[0] // batch or wanted[0], *wanted[1:]]
        wanted = alone if _fits(elements, alone) else wanted
    if not _fits(elements, wanted):
        raise step.mismatch("shape", f"{shown(dims)} cannot be reshaped to {shown(target)}")
    if -1 in wanted:
        rest = math.prod(size for size in wanted if size != -1)
        wanted[wanted.index(-1)] = elements // rest if rest else 0
    return tuple(wanted)


def _fits(elements: int, wanted: Sequence[int]) -> bool:
    rest = math.prod(size for size in wanted if size != -1)
    if -1 in wanted:
        return elements == 0 if rest == 0 else elements % rest == 0
    return elements == rest


def permutation(step: Step, rank: int) -> Dims:
    """Return the `perm` of a Transpose, reversed axes by default. Raises SpecError."""
    perm = step.integers("perm")
    if perm is None:
        return tuple(range(rank))[::-1]
    if sorted(perm) != list(range(rank)):
        raise step.fault("perm", f"got {brief(str(perm))}, must order the {rank} axes of the input")
    return perm


def squeezed(step: Step, dims: Dims) -> Dims:
    """Return the axes that Squeeze removes. Raises NetworkError if one is longer than 1."""
    axes = step.axes_of(len(dims), 1, since=13)
    if axes is None:
        return tuple(axis for axis, size in enumerate(dims) if size == 1)
    for axis in axes:
        if dims[axis] != 1:
            raise step.mismatch("axes", f"axis {axis} of {shown(dims)} is longer than 1")
    return axes


def unsqueezed(step: Step, dims: Dims) -> Dims:
    """Return the axes of the output that Unsqueeze inserts. Raises SpecError."""
    given = step.integers("axes")
    if given is None and step.opset >= 13:
        given = step.known_integers(1, "axes")
    if given is None:
        raise step.fault("axes", "this attribute is missing")
    if len(given) > 64:
        raise step.fault("axes", f"got {len(given)} axes, at most 64 make sense")
    return step.axes(given, len(dims) + len(given))


def inserted(items: Sequence[T], axes: Dims, new: T) -> tuple[T, ...]:
    """Return what stands for each axis, with new ones at these places of the result."""
    result = list(items)
    for axis in axes:
        result.insert(axis, new)
    return tuple(result)


def sliced(step: Step, dims: Dims) -> dict[int, range]:
    """Return the range that Slice keeps of every axis that it names: attributes before opset 10, inputs from
    then on.

    Raises SpecError, UnsupportedError.
    """
    if step.opset < 10:
        starts, ends, axes = step.integers("starts"), step.integers("ends"), step.integers("axes")
        steps = None
    else:
        starts, ends = step.known_integers(1, "starts"), step.known_integers(2, "ends")
        axes, steps = step.known_integers(3, "axes"), step.known_integers(4, "steps")
    if starts is None or ends is None:
        raise step.fault("starts", "Slice needs starts and ends")
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise step.fault("starts", "starts, ends, axes and steps must be equally long")
    if 0 in steps:
        raise step.fault("steps", "a step of 0 selects nothing")
    kept: dict[int, range] = {}
    for start, end, axis, stride in zip(starts, ends, axes, steps, strict=True):
        where = step.axis(axis, len(dims), "axes")
        kept[where] = range(*slice(start, end, stride).indices(dims[where]))
    return kept


def split_sizes(step: Step, size: int, outputs: int) -> Dims:
    """Return the lengths of the parts that Split makes. Raises SpecError, NetworkError."""
    sizes = step.integers("split")
    if sizes is None and step.opset >= 13:
        sizes = step.known_integers(1, "split")
    if sizes is None:
        part = -(-size // outputs)
        sizes = (*[part] * (outputs - 1), size - part * (outputs - 1))
    if len(sizes) != outputs or sum(sizes) != size or min(sizes) < 0:
        raise step.mismatch(
            "split", f"parts {brief(str(sizes))} do not make an axis of {size} in {outputs} outputs"
        )
    return sizes


def joined(step: Step, shapes: Sequence[Dims], axis: int) -> Dims:
    """Return the shape after Concat. Raises NetworkError if the other axes differ."""
    first = shapes[0]
    for dims in shapes[1:]:
        if len(dims) != len(first) or any(
            a != b for k, (a, b) in enumerate(zip(dims, first, strict=True)) if k != axis
        ):
            raise step.mismatch("inputs", f"{shown(first)} and {shown(dims)} differ outside axis {axis}")
    return (*first[:axis], sum(dims[axis] for dims in shapes), *first[axis + 1 :])
