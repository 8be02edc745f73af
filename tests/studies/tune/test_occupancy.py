"""Occupancy: row blocks of an allocation in tiles, counted by hand, and figures that jump with them."""

from __future__ import annotations

import numpy as np
import pytest
from studies.tune.toys import GRAPH, NETWORK

from rramalloc.hardware.loader import load_hardware
from rramalloc.mapping.options import DEFAULT_MAPPING
from rramalloc.results.optimize import make_problem
from rramalloc.studies.tune.calibration import Calibration, spearman
from rramalloc.studies.tune.occupancy import Occupancy
from rramalloc.studies.tune.proposals import Neighbourhood

PIMCOMP = load_hardware("pimcomp")
PROBLEM = make_problem(NETWORK, PIMCOMP, 400)


def occupancy() -> Occupancy:
    found = Occupancy.of(NETWORK, PIMCOMP, DEFAULT_MAPPING, PROBLEM)
    assert found is not None
    return found


def test_tiles_by_hand() -> None:
    """27, 144 and 288 rows: 1, 2 and 3 row blocks of one array; 60 + 4 of 6 fill a tile, 2 + 3 the next.

    Batches are 5, 22 and 64: the tiles start 60 * 5 + 4 * 22 and 2 * 22 + 3 * 64 reads.
    """
    described = np.exp(occupancy().describe(np.array([60, 3, 1])))
    assert described == pytest.approx([64, 64, 5, 1, 2, 1, 388, 312])


def test_hardware_without_tiles_has_none() -> None:
    plain = load_hardware("plain")
    problem = make_problem(NETWORK, plain, 400)
    assert Occupancy.of(NETWORK, plain, DEFAULT_MAPPING, problem) is None


def test_what_shares_a_tile_predicts_figures_that_follow_it() -> None:
    """A tile starts one read after another: without occupancy the same answers say less."""
    near, tiles = Neighbourhood(PROBLEM, 0), occupancy()
    copies = [np.array([60, 30, 20])]
    while len(copies) < 60:
        copies.append(near.near(copies[near.choose(len(copies))]))
    figures = [float(np.exp(tiles.describe(each)[-2])) for each in copies]
    models = [Calibration.fit(GRAPH, copies[:40], figures[:40], known) for known in (tiles, None)]
    ranks = [spearman(model.predict(copies[40:]).tolist(), figures[40:]) for model in models]
    assert ranks[0] is not None
    assert ranks[1] is not None
    assert ranks[0] > max(0.9, ranks[1])
