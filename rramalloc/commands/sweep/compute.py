"""Points to rows, in a worker: a process of this machine or one of a Dask cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from rramalloc.allocation.case import Case
from rramalloc.allocation.copy_limits import copy_limits
from rramalloc.allocation.optimize import (
    Request,
    check_inputs,
    checked_allocation,
    propose,
    utilisation_of_all,
)
from rramalloc.choices import Divided, FullyConnected, ObjectiveName
from rramalloc.commands.sweep.rows import SweepRow, failed_row, inputs_of
from rramalloc.commands.sweep.spec import Changes, Limits, NetworkText, SweepPoint, machine_of
from rramalloc.errors import WorkerError
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.network.network import Network
from rramalloc.search.objective import check_method
from rramalloc.search.problem import Problem
from rramalloc.search.work import Work
from rramalloc.timing.measured_steps import measured_steps
from rramalloc.timing.metrics import EnergyArea
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.version import __version__

_RESULTS = (
    "makespan",
    "interval",
    "objective_value",
    "objective_unit",
    "lower_bound",
    "gap",
    "proof",
    "step_ns",
    "latency_ns",
    "throughput_per_s",
    *EnergyArea._fields,
    "seconds",
)


def compute_row(version: str, point: Sequence[Any], network: Sequence[str], hardware: str) -> dict[str, Any]:
    """Compute a point from the arguments that `Sources.arguments` gives. Raises WorkerError."""
    if version != __version__:
        words = f"a worker has rramalloc {__version__}, the driver has {version}"
        raise WorkerError(f"{words}: install the same rramalloc everywhere")
    return row_of(SweepPoint(*point), NetworkText(*network), hardware).to_dict()


def row_of(point: SweepPoint, network: NetworkText, hardware: str) -> SweepRow:
    """Compute a point; hardware: its document as JSON. The row depends on nothing but these."""
    inputs = inputs_of(point, network, hardware)
    try:
        check_method(cast("ObjectiveName", point.objective), point.method)
        mapping = DEFAULT_MAPPING.changed(mapping=point.mapping, fc=point.fc)
        limits = tuple((name, limit) for name, limit in point.at_most)
        held = tuple(point.copies), point.copies_divide
        case = _case(network, hardware, point.changes, mapping, limits, held)
        inputs["minimum"] = case.minimum
        inputs["arrays"] = case.budget(point.arrays)
        return SweepRow(**inputs, **_result(case, point, inputs["arrays"]))
    except Exception as error:  # noqa: BLE001 - a point that fails is a row of the sweep
        return failed_row(inputs, error)


def _result(case: Case, point: SweepPoint, arrays: int) -> dict[str, Any]:
    """Return the result columns of a row. Raises what `optimize` raises."""
    problem = _problem(case, arrays)
    objective = cast("ObjectiveName", point.objective)
    check_inputs(point.inputs, objective)
    request = Request(objective=objective, method=point.method, seed=point.seed, inputs=point.inputs)
    stop = Work(work=point.work, cores=1)
    answer = propose(problem, request, stop)
    allocation = checked_allocation(case, arrays, problem, request, stop, answer)
    row = {column: getattr(allocation, column) for column in _RESULTS}
    return row | {
        "used": allocation.arrays.used,
        "utilisation": utilisation_of_all(problem, answer.choice, case.hardware),
        "repaired": answer.repaired,
    }


@lru_cache(maxsize=16)
def _network(source: NetworkText) -> Network:
    return Network.from_document(json.loads(source.text), source.name)


@lru_cache(maxsize=16)
def _stages(source: NetworkText, fc: FullyConnected) -> StageGraph:
    return StageGraph.build(_network(source), fc)


@lru_cache(maxsize=64)
def _case(
    source: NetworkText,
    hardware: str,
    changes: Changes,
    mapping: MappingOptions,
    limits: Limits,
    held: tuple[tuple[str, ...], Divided | None],
) -> Case:
    """Return what points share that differ in budget, objective, method or seed only."""
    network, machine = _network(source), machine_of(hardware, changes).hardware
    measured = measured_steps(source.measured, network, mapping.fc, machine)
    stages, (copies, divide) = _stages(source, mapping.fc), held
    case = Case(
        network, machine, mapping, measured, copy_limits(copies, stages), at_most=dict(limits), divide=divide
    )
    return case.with_stages(stages)


@lru_cache(maxsize=16)
def _problem(case: Case, arrays: int) -> Problem:
    return case.problem(arrays)
