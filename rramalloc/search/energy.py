"""Lower bound of the energy with a least number of arrays and a least time (docs/sources/model.md 12)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rramalloc.ndarrays import Floats
from rramalloc.rounding import SAME_SUM
from rramalloc.search.menu import StageModes, all_modes, listed_modes, shortest_step_ns
from rramalloc.search.problem import Choice, Problem
from rramalloc.search.sequential import least_cost
from rramalloc.search.work import Work
from rramalloc.timing.metrics import EnergyModel


@dataclass(frozen=True, eq=False)
class EnergyFloor:
    """Lower bound of the energy of allocations with a least number of arrays and a least time."""

    problem: Problem
    model: EnergyModel

    @cached_property
    def dynamic_pj(self) -> float:
        """The least dynamic energy of all modes; with copies of one mapping that of every allocation.

        A batch reads at least the arrays that its copies fill, in at least the slots of a single copy.
        """
        if not self.model.gives_reads:
            return 0.0
        most = self.problem.lowest + (self.problem.budget - self.problem.minimum)
        listed = [listed_modes(self.problem, stage, arrays) for stage, arrays in enumerate(most.tolist())]
        least_pj = [float(self._of_modes(stage, each).min()) for stage, each in enumerate(listed)]
        return math.fsum([*least_pj, *self.model.moved_pj.tolist()])

    def frugal(self, stop: Work) -> Choice:
        """Return an allocation whose modes read the least that the arrays allow, whatever time they take."""

        def reading_pj(stage: int, each: StageModes) -> Floats:
            of_entries: Floats = self._of_modes(stage, each)[each.row]
            return of_entries

        return least_cost(self.problem, stop, reading_pj).choice

    def _of_modes(self, stage: int, listed: StageModes) -> Floats:
        """Return the least energy of the reads of a stage in each of its modes, one batch a block.

        In digital units it is that of the products.
        """
        model, table, modes = self.model, listed.table, listed.modes
        slots = np.array([model.reads_of_step(stage, mode, 1) for mode in modes])
        prices = np.array([model.prices(stage, mode) for mode in modes])
        _, read_pj, adc_pj, row_pj, rows, columns, cycles, digital_pj = prices.T
        stored = table._replace(tile=table.weight)  # the rest of a whole tile is not read
        reads = stored.arrays(table.total) // table.weight * slots
        per_block_pj = columns * adc_pj * slots + rows * row_pj * cycles
        of_modes: Floats = reads * read_pj + table.total * per_block_pj + digital_pj
        return of_modes

    @cached_property
    def leaked_pj(self) -> float:
        """Leakage that no allocation undercuts: the arrays of a stage leak while all of its batches run."""
        stages, leakage_mw = all_modes(self.problem), np.array(self.model.leakage_mw or (0.0,))
        shortest_ns = shortest_step_ns(self.problem, stages) * (1 - SAME_SUM)
        least = [
            float((leakage_mw[each.each.kind] * (each.arrays // each.each.weight) * each.length).min())
            for each in stages
        ]
        return math.fsum(least) * shortest_ns

    def leakage_mw(self, arrays: int) -> float:
        """Return the least leakage of arrays that cost at least so much."""
        leakage_mw, weights = self.model.leakage_mw or (0.0,), self.problem.storage.weights
        if len(weights) == 1:
            return leakage_mw[0] * self.model.leaking_arrays(arrays)
        of_arrays = min(own / weight for own, weight in zip(leakage_mw, weights, strict=True)) * arrays
        return max(of_arrays, self.model.chip_leakage_mw * (1 - SAME_SUM))

    def energy_pj(self, arrays: int, latency_ns: float) -> float:
        """Return the least energy with at least `arrays` and `latency_ns`."""
        # Both terms bound the leakage from below, so their maximum does.
        return self.dynamic_pj + max(self.leakage_mw(arrays) * latency_ns, self.leaked_pj)

    def least_ns(self, arrays: int, power_mw: float) -> float:
        """Return the least time in which at least `arrays` keep to a power, infinity where they leak more."""
        left_mw = power_mw * (1 + SAME_SUM) - self.leakage_mw(arrays)
        return self.dynamic_pj / left_mw if left_mw > 0 else math.inf
