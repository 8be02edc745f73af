"""`neurosim`: copies by the size of a layer's input grid, whatever they take.

Source: DNN+NeuroSim V1.4 (Peng et al.), ChipDesignInitialize, pipelineSpeedUp: a layer of H input rows is
stored ceil((H / ceil(H_max / degree))^2) times, with H_max the largest H and degree 8, its default. The rows
are those without padding, as in the networks shipped with it. Our reading: the degree stays 8; NeuroSim
lowers it to floor(H_max / H_min) of the layers with kernels above 1 x 1 where that is less. It knows no
budget.
"""

from __future__ import annotations

import numpy as np

from rramalloc.methods.method import Method, clipped
from rramalloc.search import cost
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work

DEGREE = 8  # NeuroSim's default: the stage of most rows gets about its square in copies


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Return copies in proportion to the square of a stage's rows."""
    network = problem.graph.network
    rows = [network.input_shape(stage).height for stage in problem.graph.stages]
    unit = -(-max(rows) // DEGREE)
    copies = np.array([-(-(count**2) // unit**2) for count in rows], dtype=np.int64)
    words = f"heuristic: copies by the square of input rows, one for {unit} rows"
    stop.charge(cost.ROWS_STAGE * len(rows))
    return Answer(problem.choice(clipped(problem, copies)), 1, words)


NEUROSIM = Method("neurosim", solve, minimises="nothing: copies by grid size", source="DNN+NeuroSim V1.4")
