"""Compiled tests of whether array groups fit tiles, and a way to place them; integers only.

Groups of equal size are one class, so nothing here depends on how many there are: tiles that hold the same
are one row. Sizes fall. All sums stay below 2^63 as long as all arrays together do.
"""

from __future__ import annotations

from typing import Any

from rramalloc.compiled import compiled, compiled_inline


@compiled
def cannot_fit(sizes: Any, counts: Any, tiles: int, arrays: int) -> bool:
    """Return True if certainly no packing exists. False says nothing.

    sizes: int64, distinct and falling; counts: groups of each size.
    Source: L2 of Martello and Toth (1990); dual feasible functions of Carlier, Clautiaux and Moukrim (2007).
    """
    total = 0
    for j in range(len(sizes)):
        total += sizes[j] * counts[j]
    if total > tiles * arrays or sizes[0] > arrays:
        return True
    for size in sizes:
        small, large = size, arrays - size + 1
        if 2 * small <= arrays and (
            _without_small(sizes, counts, arrays, small) > tiles * arrays
            or _rounded(sizes, counts, arrays, small) > 2 * tiles * (arrays // small)
        ):
            return True
        if 2 * large <= arrays and _rounded(sizes, counts, arrays, large) > 2 * tiles * (arrays // large):
            return True
    return False


@compiled_inline
def _without_small(sizes: Any, counts: Any, arrays: int, least: int) -> int:
    """Return the arrays taken if groups below `least` vanish and those that leave less fill a tile."""
    taken = 0
    for j in range(len(sizes)):
        if sizes[j] >= least:
            taken += counts[j] * (arrays if sizes[j] > arrays - least else sizes[j])
    return taken


@compiled_inline
def _rounded(sizes: Any, counts: Any, arrays: int, unit: int) -> int:
    """Return twice the whole `unit`s that groups take of 2 * (arrays // unit) in a tile; large round up."""
    taken = 0
    for j in range(len(sizes)):
        if 2 * sizes[j] > arrays:
            taken += counts[j] * 2 * (arrays // unit - (arrays - sizes[j]) // unit)
        elif 2 * sizes[j] == arrays:
            taken += counts[j] * (arrays // unit)
        else:
            taken += counts[j] * 2 * (sizes[j] // unit)
    return taken


@compiled
def best_fit(
    sizes: Any, counts: Any, tiles: int, arrays: int, order: Any, residual: Any, number: Any, held: Any
) -> int:
    """Place all groups best-fit decreasing; rows written, -1 if it does not succeed.

    Row r: number[r] tiles with residual[r] arrays left hold held[r, j] groups of size j each; `held` may
    have no columns. order: written, rows by residual. All need 2 * classes + 1 rows.
    """
    rows = 1
    order[0], residual[0], number[0] = 0, arrays, tiles
    held[0, :] = 0
    for j in range(len(sizes)):
        size, left, at = sizes[j], counts[j], 0
        while left > 0:
            while at < rows and residual[order[at]] < size:
                at += 1
            if at == rows:
                return -1
            row = order[at]
            each = min(residual[row] // size, left)
            wide = min(left // each, number[row])
            if wide < number[row]:
                _split(row, wide, at, rows, order, residual, number, held)
                rows += 1
            residual[row] -= each * size
            if held.shape[1] > 0:
                held[row, j] += each
            left -= each * wide
            place = at
            while place > 0 and residual[order[place - 1]] > residual[row]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = row
            at += 1
    return rows


@compiled_inline
def _split(
    row: int, keep: int, at: int, rows: int, order: Any, residual: Any, number: Any, held: Any
) -> None:
    """Leave `keep` tiles in `row`, which is at order[at]; the others become row number `rows` after it."""
    residual[rows], number[rows] = residual[row], number[row] - keep
    number[row] = keep
    for column in range(held.shape[1]):  # a slice, which can fail with a message, compiles for 4 s
        held[rows, column] = held[row, column]
    for place in range(rows, at + 1, -1):
        order[place] = order[place - 1]
    order[at + 1] = rows


@compiled
def heaviest(sizes: Any, counts: Any, weights: Any, arrays: int, best: Any) -> int:
    """Return the largest weight of groups in one tile, at most counts[j] of each size; best: scratch."""
    best[: arrays + 1] = 0
    for j in range(len(sizes)):
        left, together = min(counts[j], arrays // sizes[j]), 1
        while left > 0:
            together = min(together, left)
            size, weight = together * sizes[j], together * weights[j]
            for room in range(arrays, size - 1, -1):
                best[room] = max(best[room], best[room - size] + weight)
            left -= together
            together *= 2
    return int(best[arrays])
