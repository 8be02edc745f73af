"""What the axes of a reshaped tensor mean."""

from __future__ import annotations

from collections.abc import Iterator

from rramalloc.importers.onnx.tensors import Dims, canonical

_Block = tuple[list[int], list[int]]


def regroup(dims: Dims, layout: str, target: Dims) -> tuple[str, bool]:
    """Layout after a reshape, and whether every grid axis survives, so that pixels stay together.

    Old and new axes are matched in the smallest blocks with equal products. A block of channels stays
    channels; a grid axis survives alone. A grid that is cut or merged is a new grid; a block that mixes
    channels and grid becomes channels if it is one axis, else keeps channels where they were, first or last.
    """
    roles = ["1"] * len(target)
    keeps = True
    for old, new in _blocks(dims, target):
        kinds = {layout[axis] for axis in old}
        if kinds == {"C"}:
            fill = ["C"] * len(new)
        elif len(old) == len(new) == 1:
            fill = [layout[old[0]]]
        else:
            keeps = False
            fill = _mixed([layout[axis] for axis in old], len(new))
        for axis, role in zip(new, fill, strict=True):
            roles[axis] = role
    if not keeps:
        grid = [axis for axis, role in enumerate(roles) if role in "YX" and target[axis] > 1]
        for axis in grid:
            roles[axis] = "X" if len(grid) > 1 and axis == grid[-1] else "Y"
    return canonical(target, "".join(roles)), keeps


def _mixed(old: list[str], count: int) -> list[str]:
    if "C" not in old:
        return ["Y"] * count
    if count == 1:
        return ["C"]
    return ["Y"] * (count - 1) + ["C"] if old[-1] == "C" else ["C"] + ["Y"] * (count - 1)


def _blocks(dims: Dims, target: Dims) -> Iterator[_Block]:
    """Axes longer than 1 on both sides, in blocks with equal products."""
    left = [axis for axis, size in enumerate(dims) if size != 1]
    right = [axis for axis, size in enumerate(target) if size != 1]
    i = j = 0
    while i < len(left) and j < len(right):
        old, new = [left[i]], [right[j]]
        a, b = dims[left[i]], target[right[j]]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                a, i = a * dims[left[i]], i + 1
                old.append(left[i - 1])
            else:
                b, j = b * target[right[j]], j + 1
                new.append(right[j - 1])
        yield old, new
