"""Beam search over modes: fewer arrays for a target, guided by an allocation (see kernels/beam.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rramalloc.ndarrays import Ints
from rramalloc.search import cost
from rramalloc.search.kernels.beam import (
    LATENESSES,
    Aim,
    Beam,
    BeamModes,
    Cells,
    PixelDeadlines,
    Trace,
    beam_search,
)
from rramalloc.search.kernels.moves import MenuTables, Scratch, State
from rramalloc.search.menu import Menu, StageModes
from rramalloc.search.work import Work
from rramalloc.timing.kernel import Shapes
from rramalloc.timing.stage_graph import FlatEdges

_REACH = 7
"""Number of latenesses that a beam distinguishes."""
_PARTS_OF_TARGET = 400
"""Latenesses are counted in such parts of the target where that is more than a step."""
_MOST_STATES = 2**11  # states that are kept of a stage
_MOST_KEPT = 2**23  # states of all stages and starts of their batches: bounds the memory


@dataclass(eq=False)
class BeamSearch:
    """Beam searches over the modes of a menu.

    tables: of the menu; scratch: which others may use between two searches; most_length: no target is longer;
    near: part by which a mode may take more arrays than another that is as fast and no taller, since which of
    them makes other stages wait less depends on theirs; expected_s: counted seconds of the next search.
    """

    edges: FlatEdges
    menu: Menu
    tables: MenuTables
    scratch: Scratch
    most_length: int
    near: float
    expected_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._modes, self._longest = _modes(self.menu, self.most_length, self.near)
        self.expected_s = cost.FIRST_BEAM_MODE * len(self._modes.block)

    @cached_property
    def _beam(self) -> Beam:
        return _working_memory(self.edges, self._longest)

    def run(self, guide: State, target: int, most: int, stop: Work) -> int:
        """Write the best allocation found that meets a target over the guide; return its arrays.

        What prices add counts as arrays. UNREACHED if there is none: then the guide stays.
        """
        aim = Aim(target, most + self.tables.priced_above_cost, _unit(target))
        arrays, spent_ns = beam_search(
            self.edges, self.tables, self._modes, aim, guide, self.scratch, self._beam
        )
        self.expected_s = 1e-9 * spent_ns
        stop.charge(self.expected_s)
        return arrays


def least_target(makespan: int) -> int:
    """Return the shortest target that a guide with this makespan can lead to."""
    return makespan - _REACH * _unit(makespan)


def _unit(target: int) -> int:
    return max(1, target // _PARTS_OF_TARGET)


def _modes(menu: Menu, most_length: int, near: float) -> tuple[BeamModes, Ints]:
    """Return the modes of all stages, and the most batches of any of each stage."""
    rows_of, each = dict[int, Ints](), list[Ints]()  # equal stages share their modes
    for i, stage in enumerate(menu.stages):
        if id(stage) not in rows_of:
            rows_of[id(stage)] = _modes_of(stage, menu, i, most_length, near)
        each.append(rows_of[id(stage)] + np.array([menu.first[i], 0, 0, 0]))
    block, copies, arrays, batches = np.concatenate(each).T.copy()
    first_row = np.cumsum([0, *map(len, each)])
    fewest, longest = arrays[first_row[:-1]], np.maximum.reduceat(batches, first_row[:-1])
    return BeamModes(first_row, block, copies, arrays, fewest.sum() - np.cumsum(fewest)), longest


def _modes_of(stage: StageModes, menu: Menu, at: int, most_length: int, near: float) -> Ints:
    """Return block, copies, cost in arrays and batches of the modes of stage `at`, by rising cost."""
    number = menu.numbers[at]
    own = stage.take((number[stage.row] >= 0) & (stage.length <= most_length))
    priced, mask = own.priced(menu.axes, menu.prices), np.zeros(len(own), dtype=np.bool_)
    tall = own.each.tall
    order = np.lexsort((priced, own.length))
    until = np.searchsorted(own.length[order], own.length, side="right") - 1
    for height in np.unique(tall):
        fewest = np.minimum.accumulate(np.where(tall <= height, priced, 2**60)[order])
        mask |= (tall == height) & (priced <= (1 + near) * fewest[until])
    columns = (number[own.row], own.low, priced, own.batches)
    block, low, arrays, batches = (column[mask] for column in columns)
    return np.stack([block, low, arrays, batches], axis=1)[np.lexsort((block, batches, arrays))]


def _working_memory(edges: FlatEdges, longest: Ints) -> Beam:
    """Return room for the states of stages with at most `longest` batches."""
    n, area = len(longest), edges.height * edges.width
    last, oldest = edges.last_consumer, np.arange(n + 1)
    for i in range(n - 1, -1, -1):
        oldest[i + 1 : last[i] + 1] = i
    slot, slots = np.zeros(n, dtype=np.int64), list[int]()  # slots: the stage in each, reused once it is dead
    for k in range(n):
        free = next((at for at, stage in enumerate(slots) if last[stage] < k), len(slots))
        slots[free : free + 1] = [k]
        slot[k] = free
    room = int(longest.max())
    width = min(_MOST_STATES, max(1, _MOST_KEPT // max(n, room * len(slots)) - 1))
    by_stage, cells = np.zeros((10, n), dtype=np.int64), (2 * _REACH + 1) ** LATENESSES
    return Beam(
        state=State(*by_stage[:2]),
        shapes=Shapes(*by_stage[2:8]),
        image=edges.image,
        ticks=by_stage[8],
        begin=by_stage[9],
        starts=np.zeros((width + 1) * room * len(slots), dtype=np.int64),
        place=slot * (width + 1) * room,
        longest=longest,
        oldest=oldest,
        pixels=np.zeros(int(area.max()), dtype=np.int64),
        late=np.zeros(2 * LATENESSES, dtype=np.int64),
        pixel_deadlines=PixelDeadlines(*np.zeros((5, int(area.sum())), dtype=np.int64)),
        cells=Cells(*np.zeros((4, cells), dtype=np.int64)),
        trace=Trace(*(np.zeros(size, dtype=np.int64) for size in [(n, width)] * 4 + [n])),
        reach=_REACH,
    )
