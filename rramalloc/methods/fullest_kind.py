"""`fullest-kind`: every layer on the kind of arrays that it uses best, copies for the slowest layer.

Source: docs/sources/model.md 18, a baseline of kinds of arrays: the kind of a layer is the one of whose cells
one copy uses the largest part, of equal ones the cheapest, then the first; copies are those of `bottleneck`.
Where the kinds differ in the length of a step the slowest layer is the one that takes longest. It ends as
soon as a copy of the slowest layer does not fit, or that layer has all the copies it can use.
"""

from __future__ import annotations

from rramalloc.errors import SolverError
from rramalloc.methods.method import Method
from rramalloc.search.kind_starts import feed, fullest_modes
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Choose the kinds, then feed the slowest stage. Raises SolverError where a kind is too small."""
    modes, copies = fullest_modes(problem), problem.smallest.copy()
    if not problem.holds(copies, modes):
        used = problem.storage.stored(modes, copies).tolist()
        _, hardware = problem.storage.laid_out
        need = {kind.name: 0 for kind in hardware.kinds or ()}
        for mode, arrays in zip(modes, used, strict=True):
            need[list(need)[mode.kind]] += arrays
        shares = ", ".join(f"{name} {arrays:,}" for name, arrays in need.items())
        words = "every layer once on the kind that it uses best takes more than there is"
        raise SolverError(f"{words}: {shares}: give these kinds more arrays")
    words = "heuristic: the kind whose cells a layer uses best, copies for the slowest layer"
    stopped = feed(problem, modes, copies, stop)
    return Answer(problem.choice(copies, modes), 1, words, stopped=stopped)


FULLEST_KIND = Method(
    "fullest-kind",
    solve,
    minimises="empty cells, then the slowest layer's time, greedily",
    source="docs/sources/model.md 18",
    sees_digital=True,
    reads="case limits objective inputs placed method",
    needs="kinds",
)
