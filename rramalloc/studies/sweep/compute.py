"""One point to one row, in a worker: whatever goes wrong is told in the row."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple, cast

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import demands
from rramalloc.mapping.options import DEFAULT_MAPPING, FullyConnected, MappingOptions
from rramalloc.network.network import Network
from rramalloc.results.optimize import Request, checked_allocation, make_problem, propose
from rramalloc.search.problem import Objective, Problem, Stop
from rramalloc.studies.budgets import budget
from rramalloc.studies.sweep.point import Point, machine_of
from rramalloc.studies.sweep.row import Row, asked, failed
from rramalloc.studies.sweep.sources import NetworkText
from rramalloc.timing.stage_graph import StageGraph


class _Case(NamedTuple):
    """What points share that differ in budget, objective, method or seed only; hashable, for the caches."""

    network: NetworkText
    hardware: str
    changes: tuple[Any, ...]
    mapping: MappingOptions

    @property
    def machine(self) -> Hardware:
        return machine_of(self.hardware, *self.changes).hardware


def row_of(point: Point, network: NetworkText, hardware: str) -> Row:
    """Compute a point; hardware: its document as JSON. The row depends on nothing but these."""
    told = asked(point, network, hardware)
    try:
        if point.objective != "latency" and point.method != "auto":
            raise SpecError(
                "method",
                f"{point.method!r} minimises latency only; objective {point.objective!r} needs 'auto'",
            )
        mapping = DEFAULT_MAPPING.changed(mapping=point.mapping, fc=point.fc)
        case = _Case(network, hardware, point[2:5], mapping)
        told["minimum"] = _minimum(case)
        told["arrays"] = budget(point.arrays, told["minimum"])
        return Row(**told, **_result(case, point, told["arrays"]))
    except Exception as error:  # noqa: BLE001 - a point that fails is a row of the sweep
        return failed(told, error)


def _result(case: _Case, point: Point, arrays: int) -> dict[str, Any]:
    """The result columns of a row. Raises what `optimize` raises."""
    problem, hardware = _problem(case, arrays), case.machine
    request = Request(
        mapping=case.mapping,
        objective=cast("Objective", point.objective),
        method=point.method,
        seed=point.seed,
    )
    stop = Stop(work=point.work, cores=1)
    found = propose(problem, request, stop)
    allocation = checked_allocation(_network(case.network), hardware, arrays, problem, request, stop, found)
    same = (
        "makespan",
        "interval",
        "lower_bound",
        "gap",
        "proof",
        "step_ns",
        "latency_ns",
        "throughput_per_s",
    )
    row = {column: getattr(allocation, column) for column in (*same, "seconds")}
    return row | {"used": allocation.arrays.used, "repaired": found.repaired}


@lru_cache(maxsize=16)
def _network(source: NetworkText) -> Network:
    return Network.from_document(json.loads(source.text), source.name)


@lru_cache(maxsize=16)
def _graph(source: NetworkText, fc: FullyConnected) -> StageGraph:
    return StageGraph.build(_network(source), fc)


@lru_cache(maxsize=64)
def _minimum(case: _Case) -> int:
    """Arrays with every layer stored once."""
    graph = _graph(case.network, case.mapping.fc)
    return sum(demands(_network(case.network), graph.stages, case.machine, case.mapping))


@lru_cache(maxsize=16)
def _problem(case: _Case, arrays: int) -> Problem:
    graph = _graph(case.network, case.mapping.fc)
    return make_problem(_network(case.network), case.machine, arrays, case.mapping, graph=graph)
