"""Compiled moves of the improvement: pieces and contents of tiles that change places, in whole numbers.

potential[s, t] is the sum over the arrays of stage s of their distance to tile t. Stage s of mass z that
goes from a to b changes the cost by z * (pull(s, b) - pull(s, a)), pull(s, t) the sum over its neighbours c
of weight * potential[c, t]; where masses m_s go at once, each pair of neighbours s, c among them adds
-2 * weight * m_s * m_c * distance(a, b). Pieces of a tile are a linked list.
"""

from __future__ import annotations

from typing import Any

from rramalloc.compiled import compiled, compiled_inline

_RANDOM_FACTOR, _RANDOM_PRIME = 48271, 2**31 - 1
_SAMPLES = 512


@compiled_inline
def _next(state: Any, count: int) -> int:
    """A number in 0 ... count - 1 (Lehmer's generator, the same on every machine)."""
    state[0] = state[0] * _RANDOM_FACTOR % _RANDOM_PRIME
    return int(state[0] % count)


@compiled
def _pulled(s: int, a: int, b: int, pointer: Any, other: Any, weight: Any, potential: Any) -> int:
    """Change of the cost per array of stage s that goes from tile a to tile b, all else staying."""
    change = 0
    for e in range(pointer[s], pointer[s + 1]):
        change += weight[e] * (potential[other[e], b] - potential[other[e], a])
    return change


@compiled
def _gather(
    a: int, sign: int, stage: Any, size: Any, head: Any, after: Any, net: Any, touched: Any, n: int
) -> int:
    """Add the masses of the pieces in tile a to `net`; stages touched so far."""
    i = head[a]
    while i >= 0:
        s = stage[i]
        if net[s, 1] == 0:
            net[s, 1] = 1
            touched[n] = s
            n += 1
        net[s, 0] += sign * size[i]
        i = after[i]
    return n


@compiled
def _pair(i: int, j: int, stage: Any, size: Any, net: Any, touched: Any) -> int:
    """The mass of piece i, less that of piece j unless j < 0, as `net`; stages touched."""
    touched[0] = stage[i]
    net[stage[i], 0] += size[i]
    if j < 0:
        return 1
    net[stage[j], 0] -= size[j]
    touched[1] = stage[j]
    return 1 if stage[j] == stage[i] else 2


@compiled
def _change(
    a: int, b: int, touched: Any, n: int, net: Any, pointer: Any, other: Any, weight: Any, potential: Any,
    distance: Any,
) -> int:  # fmt: skip
    """Change of the cost if net[s] arrays of each touched stage go from a to b."""
    change, together = 0, 0
    for k in range(n):
        s = touched[k]
        mass = net[s, 0]
        if mass == 0:
            continue
        change += mass * _pulled(s, a, b, pointer, other, weight, potential)
        for e in range(pointer[s], pointer[s + 1]):
            together += weight[e] * mass * net[other[e], 0]
    return int(change - together * distance[a, b])


@compiled
def _shift(a: int, b: int, touched: Any, n: int, net: Any, potential: Any, distance: Any) -> None:
    """Let the masses go: potentials follow."""
    for k in range(n):
        s = touched[k]
        mass = net[s, 0]
        if mass != 0:
            for t in range(len(distance)):
                potential[s, t] += mass * (distance[b, t] - distance[a, t])


@compiled
def _clear(touched: Any, n: int, net: Any) -> None:
    for k in range(n):
        net[touched[k], 0] = 0
        net[touched[k], 1] = 0


@compiled
def _relink(
    i: int, a: int, b: int, size: Any, site: Any, room: Any, head: Any, before: Any, after: Any
) -> None:
    """Piece i leaves the list of tile a and heads that of b."""
    room[a] += size[i]
    room[b] -= size[i]
    if before[i] >= 0:
        after[before[i]] = after[i]
    else:
        head[a] = after[i]
    if after[i] >= 0:
        before[after[i]] = before[i]
    before[i], after[i], site[i] = -1, head[b], b
    if head[b] >= 0:
        before[head[b]] = i
    head[b] = i


@compiled
def _exchange(a: int, b: int, site: Any, head: Any, after: Any, room: Any) -> None:
    """The contents of two tiles change places."""
    head[a], head[b] = head[b], head[a]
    room[a], room[b] = room[b], room[a]
    for tile in (a, b):
        i = head[tile]
        while i >= 0:
            site[i] = tile
            i = after[i]


@compiled
def improve(
    stage: Any, size: Any, site: Any, room: Any, pointer: Any, other: Any, weight: Any, potential: Any,
    distance: Any, head: Any, before: Any, after: Any, net: Any, touched: Any, state: Any, proposals: int,
) -> int:  # fmt: skip
    """Threshold accepting: random moves, exchanges of pieces and of tiles; the change of the cost in all.

    Any change up to a threshold is taken, which falls from a share of the usual change to 0 after two
    thirds of the `proposals`. stage, size, site: of the pieces; room: free arrays of the tiles;
    pointer, other, weight: neighbours of each stage; net (stages, 2), touched: scratch, zero.
    """
    pieces, tiles = len(stage), len(room)
    total, rising, samples = 0, 0, 0
    for number in range(proposals):
        kind = _next(state, 4)
        i = _next(state, pieces)
        a, j = site[i], -1
        if kind == 0:
            b = _next(state, tiles)
        elif kind == 1:
            b = _next(state, tiles)
            if room[b] < size[i]:
                continue
        else:
            j = _next(state, pieces)
            b = site[j]
            if stage[i] == stage[j] and size[i] == size[j]:
                continue
            if room[a] + size[i] < size[j] or room[b] + size[j] < size[i]:
                continue
        if a == b:
            continue
        if kind == 0:
            n = _gather(a, 1, stage, size, head, after, net, touched, 0)
            n = _gather(b, -1, stage, size, head, after, net, touched, n)
        else:
            n = _pair(i, j, stage, size, net, touched)
        change = _change(a, b, touched, n, net, pointer, other, weight, potential, distance)
        threshold = 0
        if samples < _SAMPLES:
            if change > 0:
                rising, samples = rising + change // _SAMPLES, samples + 1
        elif 3 * number < 2 * proposals:
            threshold = int(rising // 16 * (1.0 - 1.5 * number / proposals))
        if change < 0 or (change <= threshold and samples >= _SAMPLES):
            total += change
            _shift(a, b, touched, n, net, potential, distance)
            if kind == 0:
                _exchange(a, b, site, head, after, room)
            else:
                _relink(i, a, b, size, site, room, head, before, after)
                if j >= 0:
                    _relink(j, b, a, size, site, room, head, before, after)
        _clear(touched, n, net)
    return total
