"""`genetic`: PIMCOMP's genetic search, with mutation and without crossover.

Source: PIMCOMP (Sun et al., DAC 2023), its code's GeneticAlgorithm: individuals come from the rule of
balance.py with random margins of 0.1 ... 0.9; in each of 3 iterations the fastest 30 % of the population
survive and of the others one in five by chance; mutants of survivors fill the population up: one in five has
a copy of a random layer more, one in five has one less, the others are placed differently. Individuals that
do not fit are drawn again. A last selection ends it.

Our reading: populations of 100 and of 200 individuals, one after the other, the better result counts. The
fitness is the exact makespan, then the arrays used: PIMCOMP's own estimate runs its instructions on its own
machine. A mutant that is only placed differently is a copy of its parent. If no margin gives an individual
that fits, the search starts with every layer stored once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rramalloc.methods.balance import with_margins
from rramalloc.methods.method import Method
from rramalloc.ndarrays import Ints
from rramalloc.search import cost
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work
from rramalloc.timing.simulate import Copies

POPULATIONS = (100, 200)  # individuals of the two runs, as the source states
ITERATIONS = 3  # generations, as the source states
SURVIVING = 0.3  # fraction of a population that survives by fitness, as the source states
SPARED = 0.2  # chance of each other individual to survive, as the source states
MORE = 0.2  # a draw below this gives a mutant one more copy of a layer
FEWER = 0.4  # a draw from MORE to here takes one copy from a layer of the mutant
_TRIES = 1000  # mutants drawn until one fits the budget: ends the loop where hardly any does


def solve(problem: Problem, stop: Work, seed: int) -> Answer:
    """Return the fastest individual of both populations."""
    search = _Evolution(problem, stop, np.random.Generator(np.random.PCG64(seed)))
    founders = search.founders()
    best = founders[:1]
    for size in POPULATIONS:
        best = search.by_fitness(np.concatenate((best, search.evolved(founders, size)[:1])))[:1]
    words = f"heuristic: genetic search, populations of 100 and 200, {ITERATIONS} iterations"
    words += ", stopped before its end" if search.stopped else ""
    stopped = stop.cut if search.stopped else None
    return Answer(problem.choice(best[0].copy()), 1, words, stopped=stopped)


GENETIC = Method(
    "genetic", solve, minimises="the exact makespan, by chance", source="PIMCOMP, DAC 2023", seeded=True
)


@dataclass(eq=False)
class _Evolution:
    problem: Problem
    stop: Work
    draw: np.random.Generator
    stopped: bool = False

    def founders(self) -> Ints:
        """Return individuals by the rule of `balance` that fit, one for each margin."""
        made = with_margins(self.problem, range(90, 9, -1), self.stop)
        fitting = [copies for copies in made if self.problem.arrays(copies) <= self.problem.budget]
        return np.array(fitting or [self.problem.smallest], dtype=np.int64)

    def evolved(self, founders: Ints, size: int) -> Ints:
        """Return a population after all iterations, the fittest first."""
        population = founders[self.draw.integers(len(founders), size=size)]
        for _ in range(ITERATIONS):
            if self.stop.is_used_up:
                self.stopped = True
                break
            survivors = self.survivors(self.by_fitness(population))
            mutants = [self._mutant(survivors) for _ in range(size - len(survivors))]
            population = np.concatenate((survivors, np.array(mutants, dtype=np.int64)))
        return self.by_fitness(population)

    def by_fitness(self, population: Ints) -> Ints:
        """Return the same individuals, the fastest first, of equals those with fewer arrays."""
        batches = float((-(-self.problem.graph.windows // population)).sum())
        self.stop.charge(cost.BATCH * batches + cost.INDIVIDUAL * len(population))
        makespans = self.problem.time.makespans(population, self.problem.graph.modes)
        return population[np.lexsort((population @ self.problem.demand, makespans))]

    def survivors(self, ordered: Ints) -> Ints:
        """Return the individuals that survive, by fitness or spared by chance, of a population in order."""
        survives = self.draw.random(len(ordered)) < SPARED
        survives[: -(-int(SURVIVING * 100) * len(ordered) // 100)] = True
        return ordered[survives]

    def _mutant(self, survivors: Ints) -> Copies:
        """Return copies with one copy more, fewer or neither of each stage; infeasible draws are repeated."""
        parent: Copies = survivors[0]
        for _ in range(_TRIES):
            parent = survivors[self.draw.integers(len(survivors))]
            change = self.draw.random()
            if change >= FEWER:
                break
            mutant = parent.copy()
            mutant[self.draw.integers(len(mutant))] += 1 if change < MORE else -1
            within = (mutant >= self.problem.smallest) & (mutant <= self.problem.largest)
            if self.problem.arrays(mutant) <= self.problem.budget and within.all():
                return mutant
        return parent
