"""Compiled annealing on the exact makespan, moving between the breakpoints of ceil(W / d).

Only operations that every machine rounds alike are used, so a seed gives the same run everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rramalloc.compiled import compiled, compiled_inline
from rramalloc.mapping.packing_kernel import packing_scratch, placeable
from rramalloc.search.archive_kernel import keep

_NEVER = 2**62


@compiled_inline
def _draw(state: Any) -> float:
    """Uniform in (0, 1]: xorshift64*, the same numbers on every machine."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return (np.float64((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(11)) + 1.0) / 9007199254740992.0


@compiled_inline
def _below(state: Any, count: int) -> int:
    """Uniform in 0 ... count - 1."""
    drawn = int(_draw(state) * count)
    return drawn if drawn < count else count - 1


@compiled_inline
def _with_batches(windows: int, batches: int) -> int:
    """Fewest copies with at most that many batches."""
    batches = min(max(batches, 1), windows)
    return (windows + batches - 1) // batches


@compiled
def _run_stage(
    graph: Any, i: int, d: int, delay: int, cutoff: int, copies: Any, base: Any, starts: Any, where: Any,
    out: Any,
) -> int:  # fmt: skip
    """Starts of all batches of stage i into `out`; its finish, or _NEVER once it must pass `cutoff`."""
    windows, pointer, producer, offset, need = graph
    count = windows[i]
    batches = (count + d - 1) // d
    low, high = pointer[i], pointer[i + 1]
    time = -1
    for batch in range(batches):
        last = min((batch + 1) * d, count) - 1
        time += 1
        for edge in range(low, high):
            window = need[offset[edge] + last]
            if window >= 0:
                p = producer[edge]
                at = base[p] + np.int64((window + 0.5) * (1.0 / copies[p]))
                time = max(time, starts[where[p], at] + delay)
        if time + batches - batch > cutoff:
            return _NEVER
        out[base[i] + batch] = time
    return time + 1


@compiled
def _retime(
    graph: Any, delay: int, cutoff: int, old: Any, new: Any, base: Any, starts: Any, where: Any,
    finish: Any, moved: Any,
) -> int:  # fmt: skip
    """Makespan after the change from `old` to `new`, redoing only what depends on it.

    starts: int32 (2, windows of all stages), two versions of each stage's batch starts; where: the version
    in force; moved: written, stages whose other version now holds their new starts.
    """
    windows, pointer, producer, _, _ = graph
    makespan = 0
    moved[:] = False
    result = 0
    for i in range(len(windows)):
        touched = new[i] != old[i]
        for edge in range(pointer[i], pointer[i + 1]):
            touched = touched or moved[producer[edge]]
        if touched:
            end = _run_stage(graph, i, new[i], delay, cutoff, new, base, starts, where, starts[1 - where[i]])
            if end == _NEVER:
                result = _NEVER
                break
            same = new[i] == old[i]
            if same:
                batches = (windows[i] + new[i] - 1) // new[i]
                for batch in range(base[i], base[i] + batches):
                    if starts[0, batch] != starts[1, batch]:
                        same = False
                        break
            if not same:
                moved[i] = True
                where[i] = 1 - where[i]
                finish[1, i] = end
            makespan = max(makespan, end)
        else:
            makespan = max(makespan, finish[0, i])
    if result == _NEVER:
        for i in range(len(windows)):
            if moved[i]:
                where[i] = 1 - where[i]
        return _NEVER
    return makespan


@compiled
def _propose(
    windows: Any, demand: Any, budget: int, smallest: Any, largest: Any, state: Any, used: int, new: Any
) -> int:  # fmt: skip
    """Give a random stage fewer batches and take arrays from others until it fits; arrays then used."""
    n = len(windows)
    i = _below(state, n)
    if _draw(state) < 0.7:
        batches = (windows[i] + new[i] - 1) // new[i]
        part = _draw(state)
        jump = 1 + np.int64(batches * 0.15 * part * part * part)
        raised = min(max(_with_batches(windows[i], batches - jump), new[i] + 1), largest[i])
        used += demand[i] * (raised - new[i])
        new[i] = raised
    else:
        used = _lower(windows, demand, smallest, i, state, used, new)
    tries = 0
    while used > budget and tries < 64 * n:
        tries += 1
        j = _below(state, n)
        if j != i or tries > 4 * n:
            used = _lower(windows, demand, smallest, j, state, used, new)
    for _ in range(4):
        j = _below(state, n)
        batches = (windows[j] + new[j] - 1) // new[j]
        raised = min(_with_batches(windows[j], batches - 1), largest[j])
        if raised > new[j] and used + demand[j] * (raised - new[j]) <= budget:
            used += demand[j] * (raised - new[j])
            new[j] = raised
    return used


@compiled_inline
def _lower(windows: Any, demand: Any, smallest: Any, j: int, state: Any, used: int, new: Any) -> int:
    """Fewer copies of stage j, as many as another number of batches needs; arrays then used."""
    if new[j] > smallest[j]:
        batches = (windows[j] + new[j] - 1) // new[j]
        part = _draw(state)
        jump = 1 + np.int64(batches * 0.1 * part * part * part)
        lowered = min(_with_batches(windows[j], batches + jump), new[j] - 1)
        lowered = max(lowered, smallest[j])
        used -= demand[j] * (new[j] - lowered)
        new[j] = lowered
    return used


@compiled
def anneal(
    graph: Any, demand: Any, budget: int, packing: Any, smallest: Any, largest: Any, delay: int, current: Any,
    rounds: int, hot: float, cold: float, target: int, state: Any, best: Any, slots: Any,
) -> int:  # fmt: skip
    """Improve `current` (changed in place) for some rounds; best makespan, its allocation in `best`.

    hot, cold: first and last temperature as a fraction of the makespan; target: stop when it is met;
    state: uint64 of length 1, not 0, the generator's state; slots: of an archive that keeps what is
    fastest for its number of arrays, empty for none.
    """
    windows = graph[0]
    n = len(windows)
    base = np.zeros(n, dtype=np.int64)
    for i in range(1, n):
        base[i] = base[i - 1] + windows[i - 1]
    starts = np.empty((2, base[n - 1] + windows[n - 1]), dtype=np.int32)
    where, moved = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_)
    finish = np.zeros((2, n), dtype=np.int64)
    makespan, used = 0, 0
    for i in range(n):
        finish[:, i] = _run_stage(
            graph, i, current[i], delay, _NEVER, current, base, starts, where, starts[0]
        )
        makespan = max(makespan, finish[0, i])
        used += demand[i] * current[i]
    best[:] = current
    shortest, fewest = makespan, used
    new = current.copy()
    scratch = packing_scratch(packing[0])
    for step in range(rounds):
        if shortest <= target:
            break
        heat = shortest * hot / (1.0 + (hot / cold - 1.0) * (step / rounds))
        cutoff = makespan + int(2.0 * _draw(state) * heat)
        new[:] = current
        taken = _propose(windows, demand, budget, smallest, largest, state, used, new)
        if taken > budget or not placeable(packing, new, scratch):
            continue
        reached = _retime(graph, delay, cutoff, current, new, base, starts, where, finish, moved)
        if reached == _NEVER:
            continue
        keep(slots, taken, reached, new)
        for i in range(n):
            if moved[i]:
                finish[0, i] = finish[1, i]
        current[:] = new
        makespan, used = reached, taken
        if makespan < shortest or (makespan == shortest and used < fewest):
            shortest, fewest = makespan, used
            best[:] = current
    return shortest
