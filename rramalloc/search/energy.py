"""Lower bound of the energy with a least number of arrays and a least time (docs/sources/model.md 12)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rramalloc.search.menu import StageModes, all_modes, listed_modes, shortest_step_ns
from rramalloc.search.problem import Choice, Column, Problem, variants_of
from rramalloc.search.sequential import least_cost
from rramalloc.search.work import Work
from rramalloc.timing.metrics import EnergyModel

_ROUNDING = 1e-9  # relative: a bound must stay below sums of the same numbers in another order


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
        if self.model.energy.read_pj is None:
            return 0.0
        stages = range(len(self.problem.demand))
        listed = [listed_modes(self.problem, stage, self._most(stage)) for stage in stages]
        least_pj = [float(self._of_blocks(stage, each).min()) for stage, each in enumerate(listed)]
        return math.fsum([*least_pj, *self.model.moved_pj.tolist()])

    def frugal(self, stop: Work) -> Choice:
        """Return an allocation whose modes read the least that the arrays allow, whatever time they take."""

        def reading_pj(stage: int, each: StageModes) -> npt.NDArray[np.float64]:
            of_modes: npt.NDArray[np.float64] = self._of_blocks(stage, each)[each.block]
            return of_modes

        return least_cost(self.problem, stop, reading_pj).choice

    def _of_blocks(self, stage: int, listed: StageModes) -> npt.NDArray[np.float64]:
        """Return the least energy of the reads of a stage in each of its blocks, one batch a block."""
        energy, model, total = self.model.energy, self.model, listed.blocks[:, Column.TOTAL]
        stored = listed.blocks.copy()
        stored[:, Column.TILE] = 1  # the rest of a whole tile is not read
        reads = replace(listed, blocks=stored).arrays_of(np.arange(len(stored)), total)
        variants = variants_of(listed.blocks)
        slots = np.array([model.slots(stage, variant, 1) for variant in variants])
        cycles = np.array([model.cycles(stage, variant) for variant in variants])
        rows, columns = np.array([model.lines_used(stage, variant) for variant in variants]).T
        adc_pj, row_pj = columns * (energy.adc_pj or 0.0), rows * (energy.row_pj or 0.0)
        read_pj = reads * slots * (energy.read_pj or 0.0)
        of_blocks: npt.NDArray[np.float64] = read_pj + total * (adc_pj * slots + row_pj * cycles)
        return of_blocks

    @cached_property
    def array_ns(self) -> float:
        """Arrays times latency that no allocation undercuts: those of a stage are busy for all batches."""
        stages = all_modes(self.problem)
        shortest_ns = shortest_step_ns(self.problem, stages) * (1 - _ROUNDING)
        return sum(int((each.modes.arrays * each.modes.length).min()) for each in stages) * shortest_ns

    def energy_pj(self, arrays: int, latency_ns: float) -> float:
        """Return the least energy with at least `arrays` and `latency_ns`."""
        leakage_mw = self.model.leakage_mw or 0.0
        # Both terms bound arrays times latency from below, so their maximum does.
        array_ns = max(self.model.leaking_arrays(arrays) * latency_ns, self.array_ns)
        return self.dynamic_pj + leakage_mw * array_ns

    def least_ns(self, arrays: int, power_mw: float) -> float:
        """Return the least time in which at least `arrays` keep to a power, infinity where they leak more."""
        leakage_mw = self.model.leakage_mw or 0.0
        left_mw = power_mw * (1 + _ROUNDING) - leakage_mw * self.model.leaking_arrays(arrays)
        return self.dynamic_pj / left_mw if left_mw > 0 else math.inf

    def _most(self, stage: int) -> int:
        return int(self.problem.lowest[stage]) + self.problem.budget - self.problem.minimum
