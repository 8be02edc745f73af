"""The placement of least traffic for a handful of copies and tiles: linearised quadratic assignment.

x[i, t]: piece i is in tile t; y[i, t, j, u] = x[i, t] * x[j, u] for pieces of stages that exchange data, tied
to x by sum over u of y[i, t, j, u] = x[i, t] and sum over t of y[i, t, j, u] = x[j, u].
Source: Adams and Johnson (1994), first level of the reformulation linearisation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from rramalloc.placement.flows import Flows
from rramalloc.placement.layout import Layout
from rramalloc.placement.mesh import Mesh
from rramalloc.search.problem import Stop

_MOST_PRODUCTS = 900
"""Variables y above which it is not tried."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """layout: the best found, and its cost; bound: of any placement of its pieces where they send no partial
    sums (of pieces in a tile these count for each piece here).
    """

    layout: Layout
    cost: float
    bound: float


def solve(layout: Layout, flows: Flows, mesh: Mesh, arrays_per_tile: int, work: int) -> Optimum | None:
    """Place the pieces of `layout` in any of its tiles; None if there are too many or no solution."""
    pairs = _pairs(layout, flows)
    tiles = len(layout.sites)
    if not pairs or len(pairs) * tiles * tiles > _MOST_PRODUCTS:
        return None
    from rramalloc.methods.milp import run_highs

    distance = mesh.distances(layout.sites)
    unit = max(weight for *_, weight in pairs)
    scaled = [(i, j, weight / unit) for i, j, weight in pairs]
    program, x = _program(layout, scaled, distance, arrays_per_tile)
    answer = run_highs(program, Stop(work=work), 0)
    if not answer.has_solution:
        return None
    site = np.array([max(range(tiles), key=lambda t: x[i][t].value()) for i in range(len(x))], dtype=np.int64)
    if np.bincount(site, layout.pieces.arrays, tiles).max() > arrays_per_tile:
        return None
    placed = replace(layout, site=site)
    cost = placed.cost(flows, mesh)
    proven = answer.optimal and cost <= answer.bound * unit * (1 + 1e-6)
    bound = cost if proven else min(cost, max(0.0, answer.bound) * unit * (1 - 1e-6))
    return Optimum(placed, cost, bound)


def _pairs(layout: Layout, flows: Flows) -> list[tuple[int, int, float]]:
    """Pieces that exchange data, and the bytes they exchange."""
    pieces, sums = layout.pieces, layout.pieces.sums
    members = [np.flatnonzero(pieces.stage == stage).tolist() for stage in range(pieces.stages)]
    edges = list(zip(flows.producer.tolist(), flows.consumer.tolist(), strict=True))
    if sum(len(members[p]) * len(members[c]) for p, c in edges) + len(sums.source) > _MOST_PRODUCTS:
        return []
    each = flows.size_bytes / (pieces.given[flows.producer] * pieces.taken[flows.consumer])
    pairs = [
        (i, j, share * int(pieces.gives[i]) * int(pieces.arrays[j]))
        for (p, c), share in zip(edges, each.tolist(), strict=True)
        for i in members[p]
        for j in members[c]
        if pieces.gives[i]
    ]
    targets, sizes = sums.target[sums.net].tolist(), sums.size_bytes[sums.net].tolist()
    return pairs + list(zip(sums.source.tolist(), targets, sizes, strict=True))


def _program(
    layout: Layout, pairs: list[tuple[int, int, float]], distance: Any, arrays_per_tile: int
) -> tuple[Any, list[list[Any]]]:
    import pulp

    program = pulp.LpProblem("placement", pulp.LpMinimize)
    tiles = range(len(layout.sites))
    x = [
        [program.add_variable(f"x_{i}_{t}", cat=pulp.LpBinary) for t in tiles]
        for i in range(len(layout.pieces.stage))
    ]
    cost = []
    for i, row in enumerate(x):
        program += pulp.lpSum(row) == 1, f"once_{i}"
    for t in tiles:
        held = [int(layout.pieces.arrays[i]) * row[t] for i, row in enumerate(x)]
        program += pulp.lpSum(held) <= arrays_per_tile, f"room_{t}"
    for number, (i, j, weight) in enumerate(pairs):
        y = [[program.add_variable(f"y_{number}_{t}_{u}", lowBound=0) for u in tiles] for t in tiles]
        for t in tiles:
            program += pulp.lpSum(y[t]) == x[i][t], f"from_{number}_{t}"
            program += pulp.lpSum(row[t] for row in y) == x[j][t], f"to_{number}_{t}"
        cost += [weight * float(distance[t, u]) * y[t][u] for t in tiles for u in tiles if t != u]
    for i, j in pairwise(range(len(x))):
        if layout.pieces.alike[i] == layout.pieces.alike[j]:
            order = pulp.lpSum(t * (x[j][t] - x[i][t]) for t in tiles)
            program += order >= 0, f"alike_{i}_{j}"
    program.setObjective(pulp.lpSum(cost))
    return program, x
