"""Lower bound of the energy with a least number of arrays and a least time (docs/sources/model.md 12)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rramalloc.mapping.demand import ModeArrays
from rramalloc.search.menu import all_modes, listed_modes, shortest_step_ns
from rramalloc.search.problem import Column, Problem, variants_of
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
        problem, graph, model = self.problem, self.problem.graph, self.model
        if model.energy.read_pj is None:
            return 0.0
        energy, least_pj = model.energy, list[float]()
        if isinstance(problem.modes, ModeArrays) and problem.in_whole_tiles:  # the rest of a tile is not read
            problem = replace(problem, modes=problem.modes.in_free_tiles)
        for stage in range(len(graph.stages)):
            listed = listed_modes(problem, stage, self._most(stage))
            every = np.arange(len(listed.blocks))
            reads = listed.arrays_of(every, listed.blocks[:, Column.TOTAL])
            variants = variants_of(listed.blocks)
            slots = np.array([model.slots(stage, variant, 1) for variant in variants])
            cycles = np.array([model.cycles(stage, variant) for variant in variants])
            rows, columns = np.array([model.lines_used(stage, variant) for variant in variants]).T
            adc_pj, row_pj = columns * (energy.adc_pj or 0.0), rows * (energy.row_pj or 0.0)
            per_block_pj = adc_pj * slots + row_pj * cycles
            total = listed.blocks[:, Column.TOTAL]
            least_pj.append(float((reads * slots * energy.read_pj + total * per_block_pj).min()))
        return math.fsum([*least_pj, *model.moved_pj.tolist()])

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
