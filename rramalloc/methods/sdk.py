"""`sdk`: the largest square parallel window that costs no array, then copies for the slowest layer.

Source: SDK (Zhang et al., IEEE TCAD 39(11), 2020), as VW-SDK (Rhe, Moon and Ko, DATE 2022, arXiv
2112.11282) states it: square windows of all channels, as large as keeps the arrays of a layer at what im2col
takes. It gives the cycles that are published for it (`cycles`, docs/sources/model.md 10).

SDK is about one layer on its own. Our reading for a network under a budget: every layer takes its window, and
then the slowest one gets more copies as in `bottleneck`, until what lowers its batches does not fit. Layers
whose window does not fit keep their smallest block; those with most windows are served first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from rramalloc.errors import UnsupportedError
from rramalloc.mapping.demand import Storage
from rramalloc.mapping.mode import Mode
from rramalloc.mapping.modes import BlockGrid, largest_block, smallest_block
from rramalloc.methods.method import Method
from rramalloc.network.geometry import Pair
from rramalloc.search import cost
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Choose square windows, then copies. Raises UnsupportedError unless mapping is `sdk`."""
    words = "heuristic: SDK's square windows, then copies for the slowest layer"
    return with_windows(problem, sdk_storage(problem, "sdk"), square_block, words, stop)


SDK = Method(
    "sdk",
    solve,
    minimises="each layer's cycles by square windows, then the slowest layer's time",
    source="SDK, TCAD 2020",
    needs="sdk",
)


def sdk_storage(problem: Problem, method: str) -> Storage:
    """Return the arrays of all modes of a problem. Raises UnsupportedError unless mapping is `sdk`."""
    if not problem.chooses_blocks:
        raise UnsupportedError(
            f"method {method!r}", "chooses parallel windows, which only mapping 'sdk' has: use --mapping sdk"
        )
    return problem.storage


def square_block(storage: Storage, stage: int) -> Pair:
    """Return the largest square block whose single copy takes no more arrays than the smallest block."""
    node, (network, _) = storage.stages[stage], storage.laid_out
    unit, largest = smallest_block(node), largest_block(node, network.shapes[node.name])
    most, block = storage.of(stage, Mode(*unit)).arrays(1), unit
    for side in range(2, min(largest[0] // unit[0], largest[1] // unit[1]) + 1):
        wider = (side * unit[0], side * unit[1])
        if storage.of(stage, Mode(*wider)).arrays(1) > most:  # more rows and columns never take fewer arrays
            break
        block = wider
    return block


def cycles(storage: Storage, stage: int, block: Pair) -> int:
    """Return SDK's cycles for a layer: steps of one array that holds a copy's parts one by one."""
    node, (network, _) = storage.stages[stage], storage.laid_out
    blocks = BlockGrid.of(node, network.shapes[node.name], block).total
    return blocks * storage.of(stage, Mode(*block)).arrays(1)


def with_windows(
    problem: Problem, storage: Storage, window: Callable[[Storage, int], Pair], words: str, stop: Work
) -> Answer:
    """Take the block that `window` chooses for each stage where it fits, then copies for the slowest stage
    while they do.

    What the time limit leaves no time for keeps its smallest block, or the copies that it has.
    """
    modes, copies = list(problem.graph.modes), problem.smallest.copy()
    (network, _), chosen_of = storage.laid_out, dict[str, Pair]()
    taken = problem.arrays_of_stages(copies).tolist()
    left, kept, stopped = problem.budget - sum(taken), 0, None
    for stage in sorted(range(len(modes)), key=lambda stage: -int(problem.graph.windows[stage])):
        kind = network.kinds[storage.stages[stage].name]
        if kind not in chosen_of:  # equal stages have equal windows
            if stop.out_of_time:
                stopped = stop.cut
                break
            chosen_of[kind] = window(storage, stage)
        wider = modes[stage].in_block(chosen_of[kind])
        arrays = storage.count(stage, wider).arrays(int(copies[stage]))
        if arrays - taken[stage] <= left:
            left -= arrays - taken[stage]
            modes[stage], taken[stage] = wider, arrays
        else:
            kept += 1
    chosen = tuple(modes)
    total = problem.graph.in_modes(chosen).windows.tolist()
    heap = [(-count // int(copies[stage]), stage) for stage, count in enumerate(total)]  # -batches
    heapq.heapify(heap)
    steps = len(heap)
    while heap[0][0] < -1:
        if stop.out_of_time:
            stopped = stop.cut
            break
        batches, stage = -heap[0][0], heap[0][1]
        more = -(-total[stage] // (batches - 1))
        arrays = storage.count(stage, chosen[stage]).arrays(more)
        if arrays - taken[stage] > left:
            break
        left -= arrays - taken[stage]
        copies[stage], taken[stage] = more, arrays
        heapq.heapreplace(heap, (-total[stage] // more, stage))
        steps += 1
    words += f"; the windows of {kept} layers do not fit" if kept else ""
    stop.charge(cost.WINDOW * steps)
    return Answer(problem.choice(copies, chosen), 1, words, stopped=stopped)
