"""`published-dp`: the least published recurrence of a chain, by dynamic programming.

Source: ACM TODAES 29(1):21, doi 10.1145/3631523: Algorithm 2 looks for the copies with the smallest latency
by Algorithm 1, the published recurrence (docs/sources/model.md 5). The search here has the same objective
and proves its
optimum (search/published.py), so by that recurrence it is at least as good as theirs.
"""

from __future__ import annotations

from rramalloc.methods import published
from rramalloc.search.problem import Candidate, Problem, Stop


def solve(problem: Problem, stop: Stop, seed: int) -> Candidate:
    """Least published recurrence within the budget. Raises UnsupportedError on other than chains."""
    return published.solve(problem, stop, seed)
