"""Roles of the axes of an operator's tensors, under every importer: images, parts of the grid, or channels.

An axis of a tensor holds channels, or a part of the images of the node that computes it, or of their grid.
Reshapes and transpositions mostly keep every pixel where it is: then only what axes run over changes, without
a node.
Source: docs/sources/model.md 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from rramalloc.network.geometry import Pair, Shape

Dims = tuple[int, ...]
INNER = 10**6
"""A level within all others."""
MAX_TAKEN = 2**16
"""Longest axis of a grid of which single places are taken; longer ones are waited for whole."""

_MOST_CACHED = 4096  # different layouts; networks of 200,000 operators have some hundred


IMAGES = 2
"""Side of the images, beside height (0) and width (1)."""
_RASTER = (IMAGES, 0, 1)
"""Sides in the order of pixels: image by image, row by row."""


class Atom(NamedTuple):
    """A factor of a grid's height (grid 0), width (1) or of the images (2); level: its place there, outermost
    first."""

    size: int
    grid: int
    level: tuple[int, ...]


Role = tuple[Atom, ...]
"""Role of an axis: factors of the grid, outermost first, or () for channels and single elements."""
AxisRoles = tuple[Role, ...]
"""The role of every axis; all factors of the grid stand in it once."""
AxisPart = tuple[int, Atom | None]
"""Size of a part of an axis, and the factor of the grid that it is, None for channels."""


def lettered(dims: Sequence[int], letters: str) -> AxisRoles:
    """Return a layout by a letter for each axis: Y rows, X columns, I images, anything else channels."""
    return canonical(
        dims,
        [
            (Atom(size, "YXI".index(letter), (axis,)),) if letter in "YXI" else ()
            for axis, (size, letter) in enumerate(zip(dims, letters, strict=True))
        ],
    )


def canonical(dims: Sequence[int], layout: Sequence[Role]) -> AxisRoles:
    """Return the layout with levels from 0 on, without single elements, neighbouring factors joined.

    Factors are joined that are neighbours in both axis and grid. An axis whose length is not the product of
    its factors becomes one factor, in the place of its first one.
    """
    return _canonical(tuple(dims), tuple(layout))


@lru_cache(maxsize=_MOST_CACHED)
def _canonical(dims: Dims, layout: AxisRoles) -> AxisRoles:
    roles: list[list[Atom]] = []
    for size, role in zip(dims, layout, strict=True):
        fits = math.prod(atom.size for atom in role) == size
        kept = [atom for atom in role if atom.size > 1] if fits or not role else [role[0]._replace(size=size)]
        roles.append(kept if size > 1 else [])
    places = _ranks(roles)
    for joined in roles:
        factors, joined[:] = joined[:], []
        for atom in factors:
            here = places[atom.grid, atom.level]
            if joined and joined[-1].grid == atom.grid and joined[-1].level == (here - 1,):
                joined[-1] = Atom(joined[-1].size * atom.size, atom.grid, (here,))
            else:
                joined.append(atom._replace(level=(here,)))
    ranks = _ranks(roles)
    return tuple(tuple(a._replace(level=(ranks[a.grid, a.level],)) for a in joined) for joined in roles)


def _ranks(roles: Sequence[Sequence[Atom]]) -> dict[tuple[int, tuple[int, ...]], int]:
    """Return the rank of every level on its side of the grid, by (side, level)."""
    found = [sorted(a.level for role in roles for a in role if a.grid == grid) for grid in (0, 1, 2)]
    return {(grid, level): at for grid, levels in enumerate(found) for at, level in enumerate(levels)}


def grid_of(layout: Sequence[Role]) -> Pair:
    """Return the height and width of the grid: the product of the factors of each side."""
    high, wide = (math.prod(a.size for role in layout for a in role if a.grid == g) for g in (0, 1))
    return high, wide


def images_of(layout: Sequence[Role]) -> int:
    """Return the number of images."""
    return math.prod(a.size for role in layout for a in role if a.grid == IMAGES)


@lru_cache(maxsize=_MOST_CACHED)
def shape_of(dims: Dims, layout: AxisRoles) -> Shape:
    """Return the channels, height, width and images of a tensor with these axes."""
    (high, wide), images = grid_of(layout), images_of(layout)
    return Shape(math.prod(dims) // (high * wide * images), high, wide, images)


def is_of_images(role: Role) -> bool:
    """Return True for an axis that runs over images alone."""
    return bool(role) and all(atom.grid == IMAGES for atom in role)


def as_images(role: Role) -> Role:
    """Return the role of an axis whose parts of the grid become images, cut out in raster order."""
    return tuple(Atom(a.size, IMAGES, (_RASTER.index(a.grid), *a.level)) for a in role)


def reshaped(dims: Dims, layout: AxisRoles, target: Dims) -> list[list[AxisPart]] | None:
    """Return the roles of each axis after a reshape, outermost first; None where factors are cut across.

    An axis in which channels and grid meet has parts of both kinds.
    """
    parts: list[AxisPart] = []
    for size, role in zip(dims, layout, strict=True):
        if role:
            parts += [(atom.size, atom) for atom in role]
        elif size > 1 and parts and parts[-1][1] is None:
            parts[-1] = (parts[-1][0] * size, None)
        elif size > 1:
            parts.append((size, None))
    axes: list[list[AxisPart]] = []
    for wanted in target:
        taken, left = list[AxisPart](), wanted
        while left > 1:
            if not parts:
                return None
            size, atom = parts.pop(0)
            if left % size and size % left == 0:
                parts.insert(0, (size // left, atom and Atom(size // left, atom.grid, (*atom.level, 1))))
                size, atom = left, atom and Atom(left, atom.grid, (*atom.level, 0))
            elif left % size:
                return None
            taken.append((size, atom))
            left //= size
        axes.append(taken)
    return None if parts else axes


def chosen(layout: AxisRoles, axis: int, indices: Sequence[int]) -> tuple[int, list[int]] | None:
    """Return the side of an axis and the pixels (or images) along it at `indices`; None unless one factor."""
    if len(layout[axis]) != 1:
        return None
    chosen_atom = layout[axis][0]
    side = sorted((a for role in layout for a in role if a.grid == chosen_atom.grid), key=lambda a: a.level)
    pixels = [0]
    for atom in side:
        kept = indices if atom == chosen_atom else range(atom.size)
        pixels = [-1 if at < 0 or k < 0 else at * atom.size + k for at in pixels for k in kept]
    return chosen_atom.grid, pixels


def runs_of(indices: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the indices as runs (first, count, step); -1, none, as runs of step 0."""
    runs: list[tuple[int, int, int]] = []
    for index in indices:
        if runs:
            first, count, step = runs[-1]
            ahead = index - (first + step * (count - 1))
            fits = (first < 0) == (index < 0) and (ahead == step or (count == 1 and first >= 0))
            if fits:
                runs[-1] = (first, count + 1, ahead)
                continue
        runs.append((index, 1, 0))
    return runs


@dataclass(frozen=True, slots=True)
class AxisMove:
    """Change of a grid: pixels joined into blocks, then every pixel repeated, and images alike."""

    pool: Pair
    scale: Pair
    joined: int
    repeated: int


def move(dims: Dims, layout: AxisRoles, target: Dims, want: AxisRoles) -> AxisMove | None:
    """Return the move of a tensor to other roles, repeated along axes of length 1; None if pixels change
    order.

    Grid that becomes channels must be the innermost of its height or width, and so must what becomes grid.
    Images alike.
    """
    kept: list[tuple[Atom, Atom]] = []
    gone: list[Atom] = []
    new: list[Atom] = []
    for have, role, wanted, other in zip(dims, layout, target, want, strict=True):
        if have != wanted and have != 1:
            return None
        if role and other:
            pairs = _refined(role, other)
            if pairs is None:
                return None
            kept += pairs
        else:
            gone += role
            new += other
    for grid in (0, 1, 2):
        mine = [(a.level, b.level) for a, b in kept if a.grid == grid]
        if any(a.grid != b.grid for a, b in kept) or [b for _, b in sorted(mine)] != sorted(
            b for _, b in mine
        ):
            return None
        for atoms, levels in ((gone, [a for a, _ in mine]), (new, [b for _, b in mine])):
            if any(atom.level < max(levels, default=()) for atom in atoms if atom.grid == grid):
                return None
    axes = zip(dims, layout, want, strict=True)
    spread = any(other and not role and have > 1 for have, role, other in axes)
    if not kept and new and (gone or spread):
        return None
    pools, scales = [tuple(gone)], [tuple(new)]
    return AxisMove(grid_of(pools), grid_of(scales), images_of(pools), images_of(scales))


class Regridding(NamedTuple):
    """Fields of a `regrid` node: the grid and the images that pixels move to, and how they do."""

    grid: Pair
    images: int
    order: str


def regridding(layout: AxisRoles, want: AxisRoles) -> Regridding | None:
    """Return how pixels move between images and grid, None if channels or their order change otherwise."""
    pairs: list[tuple[Atom, Atom]] = []
    for role, other in zip(layout, want, strict=True):
        refined = _refined(role, other)
        if refined is None:
            return None
        pairs += refined
    have, wanted = (_sides([pair[at] for pair in pairs]) for at in (0, 1))
    order = "raster"
    if [*chain(*have)] != [*chain(*wanted)]:
        order = _order_of_cut(have, wanted) or _order_of_cut(wanted, have)
    return Regridding(grid_of(want), images_of(want), order) if order else None


def regriddings(layout: AxisRoles, want: AxisRoles, dims: Dims) -> list[tuple[AxisRoles, Regridding]]:
    """Return steps by which pixels move to other images and another grid, through one image if need be."""
    for between in (want, *_of_one_image(layout, dims), *_of_one_image(want, dims)):
        first, then = regridding(layout, between), regridding(between, want)
        if first is not None and then is not None:
            return [(between, first), (want, then)] if between != want else [(want, first)]
    return []


def _of_one_image(layout: AxisRoles, dims: Dims) -> list[AxisRoles]:
    """Return layouts with images below each other, also with rows beside each other, or beside each other."""
    sides = ({IMAGES: 0, 0: 0, 1: 1}, {IMAGES: 0, 0: 1, 1: 1}, {IMAGES: 1, 0: 0, 1: 1})
    return [
        canonical(
            dims,
            [
                tuple(Atom(a.size, side[a.grid], (_RASTER.index(a.grid), *a.level)) for a in role)
                for role in layout
            ],
        )
        for side in sides
    ]


def _sides(atoms: Sequence[Atom]) -> list[list[int]]:
    """Return the numbers of the factors on each side, images first, outermost first."""
    numbers = sorted(range(len(atoms)), key=lambda number: atoms[number].level)
    return [[number for number in numbers if atoms[number].grid == grid] for grid in _RASTER]


def _order_of_cut(have: list[list[int]], wanted: list[list[int]]) -> str:
    """Return the order in which images are cut: of neighbours, of pixels apart, "" for none."""
    images, *sides = have
    cut, *kept = wanted
    pairs = list(zip(sides, kept, strict=True))
    if all(side[len(side) - len(inner) :] == inner for side, inner in pairs):
        outer = [side[: len(side) - len(inner)] for side, inner in pairs]
        return "windows" if cut == [*images, *chain(*outer)] else ""
    if all(side[: len(inner)] == inner for side, inner in pairs):
        outer = [side[len(inner) :] for side, inner in pairs]
        return "strided" if cut == [*images, *chain(*outer)] else ""
    return ""


def _refined(one: Role, other: Role) -> list[tuple[Atom, Atom]] | None:
    """Return both roles cut into the same factors, None if they have none in common."""
    left, right, pairs = list(one), list(other), list[tuple[Atom, Atom]]()
    while left and right:
        a, b = left.pop(0), right.pop(0)
        if a.size > b.size and a.size % b.size == 0:
            left.insert(0, Atom(a.size // b.size, a.grid, (*a.level, 1)))
            a = Atom(b.size, a.grid, (*a.level, 0))
        elif b.size > a.size and b.size % a.size == 0:
            right.insert(0, Atom(b.size // a.size, b.grid, (*b.level, 1)))
            b = Atom(a.size, b.grid, (*b.level, 0))
        elif a.size != b.size:
            return None
        pairs.append((a, b))
    return None if left or right else pairs


def in_raster_order(layout: AxisRoles, axis: int) -> bool:
    """Return True if one axis runs over the whole grid, row by row."""
    atoms = [atom for role in layout for atom in role]
    return list(layout[axis]) == sorted(atoms, key=lambda atom: (_RASTER.index(atom.grid), atom.level))
