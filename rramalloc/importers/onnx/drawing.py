"""The network under construction: nodes, their names and shapes, and what was assumed on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rramalloc.errors import NetworkError, SpecError
from rramalloc.importers.onnx.protos import Room
from rramalloc.importers.onnx.step import Step
from rramalloc.importers.onnx.tensors import Dims, Tensor, canonical, shape_of, tensor
from rramalloc.network.geometry import Shape
from rramalloc.network.node import (
    Barrier,
    Concat,
    Conv,
    Elementwise,
    Flatten,
    GlobalPool,
    Input,
    Linear,
    Node,
    Pixelwise,
    Pool,
    Select,
    ShapeFault,
    Upsample,
)

MAX_NAME = 1000
Uses = Mapping[str, Sequence[tuple[str, int]]]
"""Readers of each ONNX tensor: operator and input position; a graph output reads as operator ''."""
Kind = (
    type[Barrier]
    | type[Concat]
    | type[Conv]
    | type[Elementwise]
    | type[Flatten]
    | type[GlobalPool]
    | type[Linear]
    | type[Pixelwise]
    | type[Pool]
    | type[Select]
    | type[Upsample]
)


class Drawing:
    """Collects network nodes while the ONNX nodes are visited in order.

    batch: the batch that the file fixes, everywhere taken as 1; uses: which operators read each ONNX tensor;
    room: how many constants may still be evaluated.
    """

    def __init__(self, where: str, batch: int, uses: Uses, taken: Iterable[str]) -> None:
        self.where, self.batch, self.uses = where, batch, uses
        self.room = Room()
        self.nodes: list[Node] = []
        self.shapes: dict[str, Shape] = {}
        self._taken = set(taken)
        self._notes: dict[tuple[str, str], list[str]] = {}

    def note(self, subject: str, remark: str, node: str) -> None:
        """Remember a warning; equal ones of several nodes become one."""
        self._notes.setdefault((subject, remark), []).append(node)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each kind of assumption."""
        return tuple(
            f"{subject} ({len(names)} node{'s' * (len(names) > 1)}, first {names[0]!r}) {remark}"
            for (subject, remark), names in self._notes.items()
        )

    def add_input(self, name: str, shape: Shape) -> str:
        """An input of the network."""
        unique = self._unique(name)
        self._record(Input, self.where, name=unique, shape=tuple(shape))
        return unique

    def emit(self, step: Step, kind: Kind, inputs: Sequence[str], suffix: str = "", **fields: Any) -> str:
        """Append a node; `suffix` names one that helps the main node of this step.

        Raises NetworkError if its fields or shapes are not allowed.
        """
        name = self._unique(f"{step.name}/{suffix}") if suffix else self._main(step)
        self._record(kind, step.place, name=name, inputs=tuple(inputs), **fields)
        return name

    def _main(self, step: Step) -> str:
        return self._unique(step.name) if step.name in self.shapes else step.name

    def _unique(self, name: str) -> str:
        stem = name[: MAX_NAME - 8] or "node"
        candidate, count = stem, 1
        while candidate in self._taken or candidate in self.shapes:
            count += 1
            candidate = f"{stem}_{count}"
        return candidate

    def _record(self, kind: Any, place: str, **fields: Any) -> None:
        try:
            node = kind(**fields)
        except SpecError as error:
            raise NetworkError(place, error.reason) from None
        shape = node.output_shape([self.shapes[name] for name in node.inputs])
        if isinstance(shape, ShapeFault):
            raise NetworkError(place, f"{shape.field}: {shape.reason}")
        self.nodes.append(node)
        self.shapes[node.name] = shape


def barrier(
    drawing: Drawing, step: Step, inputs: Sequence[Tensor], dims: Dims, layout: str, suffix: str = ""
) -> Tensor:
    """All pixels of the inputs before the first of the output."""
    if 0 in dims:
        raise step.unsupported("its output is empty")
    shape = tuple(shape_of(dims, canonical(dims, layout)))
    name = drawing.emit(step, Barrier, [x.node for x in inputs], suffix, shape=shape)
    return tensor(name, dims, layout)


def relayout(drawing: Drawing, step: Step, x: Tensor, layout: str, suffix: str = "regrid") -> Tensor:
    """The same values on another grid: a barrier, or nothing if each axis keeps its meaning."""
    layout = canonical(x.dims, layout)
    return x if layout == x.layout else barrier(drawing, step, [x], x.dims, layout, suffix)


def pixelwise(drawing: Drawing, step: Step, x: Tensor, op: str) -> Tensor:
    """One pixel in, one pixel out, same shape."""
    return tensor(drawing.emit(step, Pixelwise, [x.node], op=op), x.dims, x.layout)


def select(drawing: Drawing, step: Step, x: Tensor, dims: Dims, layout: str, suffix: str = "") -> Tensor:
    """Other channels on the same grid."""
    if 0 in dims:
        raise step.unsupported("its output is empty")
    shape = shape_of(dims, canonical(dims, layout))
    return tensor(drawing.emit(step, Select, [x.node], suffix, channels=shape.channels), dims, layout)


def expand(
    drawing: Drawing, step: Step, x: Tensor, dims: Dims, layout: str, suffix: str = "expand"
) -> Tensor:
    """The tensor repeated along its axes of length 1: pixels by upsampling, channels pixelwise."""
    have, want = x.shape, shape_of(dims, canonical(dims, layout))
    node = x.node
    if have[1:] != want[1:]:
        partial = [
            r for r in "YX" if any(s == r for s in x.layout) and have["CYX".index(r)] != want["CYX".index(r)]
        ]
        if partial:
            return barrier(drawing, step, [x], dims, layout, suffix)
        scale = (want.height // have.height, want.width // have.width)
        node = drawing.emit(step, Upsample, [node], suffix, scale=scale)
    if have.channels != want.channels:
        node = drawing.emit(step, Select, [node], f"{suffix}_channels", channels=want.channels)
    return tensor(node, dims, layout)
