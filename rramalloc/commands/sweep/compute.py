"""Points to results, in a worker: a process of this machine or one of a Dask cluster."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any, cast

from rramalloc.allocation.allocation import Allocation
from rramalloc.allocation.case import Case
from rramalloc.allocation.goes_with import check_command, check_question
from rramalloc.allocation.layer_bits import BitChoice, BitTable
from rramalloc.allocation.limits import copy_limits
from rramalloc.allocation.optimize import (
    checked_allocation,
    objective_of,
    optimize,
    propose,
    utilisation_of_all,
)
from rramalloc.allocation.question import Question, target_of
from rramalloc.choices import ObjectiveName
from rramalloc.commands.sweep.rows import ComputedColumns, failure
from rramalloc.commands.sweep.spec import SweepPoint, SweptCase
from rramalloc.errors import WorkerError
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.network.network import Network
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work
from rramalloc.timing.figures import FIGURES
from rramalloc.timing.measured_steps import measured_steps
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.version import __version__

_RESULTS = (
    *("makespan", "interval", "objective_value", "objective_unit", "lower_bound", "gap", "proof"),
    *("status", "stopped", "step_ns", "latency_ns", "throughput_per_s", *FIGURES, "work_s"),
)


def compute_row(version: str, case: tuple[Any, ...], *asked: Any) -> ComputedColumns:
    """Compute a point from plain values: a Dask scheduler need not have the package. Raises WorkerError."""
    if version != __version__:
        words = f"a worker has rramalloc {__version__}, the driver has {version}"
        raise WorkerError(f"{words}: install the same rramalloc everywhere")
    return results_of(SweepPoint(SweptCase(*case), *asked))


def results_of(point: SweepPoint) -> ComputedColumns:
    """Return the columns of a row that a point is computed for; they depend on nothing but the point."""
    found: ComputedColumns = {}
    objective = cast("ObjectiveName", point.objective)
    try:
        case = _case(point.case)
        if case.placed:  # anew: what its placer remembers would depend on the points before
            case = case.with_stages(case.stages)
        given = dict(point.case.more)
        target = target_of(given)
        request = Question(
            objective=objective,
            method=point.method,
            seed=point.seed,
            inputs=point.inputs,
            target=target,
            placed=case.placed,
            bits=given.get("bits"),
        )
        check_command("sweep", "sweep", case, request)
        check_question(case, request)
        if case.hardware.kinds is None:
            found["minimum"] = case.minimum
        case, budget = case.with_numbers(point.arrays)
        if not target.given:
            case.check_numbers(budget)
        found["arrays"] = case.most_arrays(budget)
        stop = Work(work=point.work, cores=1)
        if case.bits is not None:
            return found | _columns(optimize(case, budget, request, stop)) | {"repaired": False}
        problem = _problem(case, budget)
        asked = objective_of(problem, request)
        answer = propose(asked, request, stop)
        allocation = checked_allocation(case, budget, asked, request, stop, answer)
        utilisation = utilisation_of_all(problem, answer.choice, case.hardware)
    except Exception as error:  # noqa: BLE001 - a point that fails is a row of the sweep
        return found | failure(error)
    more: ComputedColumns = {
        "utilisation": utilisation,
        "repaired": answer.repaired,
    }
    return found | _columns(allocation) | more


def _columns(allocation: Allocation) -> ComputedColumns:
    found: ComputedColumns = {column: getattr(allocation, column) for column in _RESULTS}
    words = "; ".join(allocation.not_counted) or None
    return found | {"used": allocation.arrays.used, "not_counted": words}


@lru_cache(maxsize=16)
def _stages(network: str, network_json: str, options: MappingOptions) -> StageGraph:
    return StageGraph.build(Network.from_document(json.loads(network_json), network), options)


@lru_cache(maxsize=64)
def _case(swept: SweptCase) -> Case:
    given = dict(swept.more)
    fold = given.get("fold", False)
    mapping = DEFAULT_MAPPING.changed(mapping=swept.mapping, fc=swept.fc, host=swept.host, fold=fold)
    left = DEFAULT_MAPPING.changed(fc=swept.fc, host=swept.host)  # one graph for all mappings
    stages = _stages(swept.network, swept.network_json, left)
    states = dict(given["states"]) if "states" in given else None
    network = stages.network.in_turns(given.get("feeds_back"), given.get("sequences"), states)
    case = Case(
        network,
        swept.hardware,
        mapping,
        measured_steps(swept.table, network, mapping, swept.hardware),
        copy_limits(swept.copies, stages),
        at_most=dict(swept.at_most),
        divide=swept.copies_divide,
        placed=given.get("placed", False),
    )
    case = case.with_stages(stages.of_network(network))
    if "bits" not in given:
        return case
    choices = {
        name: tuple(BitChoice(*row) for row in rows) for name, rows in json.loads(given["bits"]).items()
    }
    return case.choosing(BitTable(choices, limit=given.get("sensitivity", math.inf)))


@lru_cache(maxsize=16)
def _problem(case: Case, arrays: int) -> Problem:
    return case.problem(arrays)
