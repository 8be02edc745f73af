"""`balance`: one more copy for the slowest layer, until half of the arrays are given away.

Source: PIMCOMP (Sun et al., DAC 2023), its code's WeightReplication, method "balance". Available at first are
all arrays but those of fully connected layers; first copies are not taken off. While more is available than
one copy of the layer with most windows per copy needs, and more than half of what was available at first,
that layer gets a copy. Where first copies take more than half, it asks for more than there is.

Our reading: layers enter the queue in canonical order; a layer has no more copies than windows; layers of a
single window count as fully connected.
"""

from __future__ import annotations

from collections.abc import Sequence

from rramalloc.methods.bottleneck import fed
from rramalloc.methods.method import Method
from rramalloc.ndarrays import Ints
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work

MARGIN = 50
"""Percent of the arrays that are kept back."""


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Return the allocation by PIMCOMP's rule with its margin of a half."""
    copies = with_margins(problem, [MARGIN], stop)[0]
    return Answer(problem.choice(copies), 1, "heuristic: copies for the slowest layer with a margin of 50 %")


BALANCE = Method(
    "balance", solve, minimises="the same, until half of the arrays are gone", source="PIMCOMP, DAC 2023"
)


def with_margins(problem: Problem, margins: Sequence[int], stop: Work) -> Ints:
    """Return a row of copies for each margin, in percent of the arrays and falling."""
    single = problem.graph.windows == 1
    available = problem.budget - int((problem.demand * problem.smallest)[single].sum())
    return fed(problem, available, [available * margin // 100 for margin in margins], stop)
