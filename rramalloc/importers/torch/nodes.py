"""The network nodes that a PyTorch conversion has made so far, in JSON form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rramalloc.importers.torch.layout import Layout, Tensor
from rramalloc.network.geometry import Shape

_MAX_NAME = 900


class NodeList:
    """items: nodes in JSON form; expected: the shape PyTorch gave each; unknown, notes: for warnings."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.items: list[dict[str, Any]] = []
        self.expected: dict[str, Shape] = {}
        self.unknown: Counter[str] = Counter()
        self.notes: Counter[str] = Counter()
        self._taken: dict[str, int] = {}
        self._placed: dict[tuple[str, Layout], str] = {}

    def unique(self, name: str) -> str:
        """A node name that is not taken: the name itself, or with a number."""
        name = stem = name[:_MAX_NAME] or "node"
        while name in self._taken:
            self._taken[stem] += 1
            name = f"{stem}_{self._taken[stem]}"
        self._taken[name] = 0
        return name

    def add(self, tensor: Tensor, op: str, inputs: Sequence[str], **fields: Any) -> Tensor:
        """Append the node that computes `tensor`; return the tensor."""
        item = {"name": tensor.node, "op": op} | fields
        self.items.append(item | {"inputs": list(inputs)} if inputs else item)
        self.expected[tensor.node] = tensor.shape
        return tensor

    def placed(self, tensor: Tensor, layout: Layout) -> Tensor:
        """The tensor with its pixels in another layout: a barrier, made once, unless they lie so already."""
        if tensor.lies(layout):
            return Tensor(tensor.node, tensor.dims, layout)
        key = (tensor.node, layout)
        if key not in self._placed:
            moved = Tensor(self.unique(f"{tensor.node}_reordered"), tensor.dims, layout)
            self._placed[key] = moved.node
            return self.add(moved, "barrier", [tensor.node], shape=list(moved.shape))
        return Tensor(self._placed[key], tensor.dims, layout)

    def warnings(self) -> list[str]:
        """One line for every operator that was not known or only approximated."""
        lines = [
            f"operator {name[:60]!r} is not known: {count} node(s) wait for all pixels of their inputs"
            for name, count in sorted(self.unknown.items())
        ]
        return lines + [f"{note}: {count} node(s)" for note, count in sorted(self.notes.items())]
