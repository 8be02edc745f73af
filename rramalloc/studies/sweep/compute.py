"""Points to rows, in a worker: a process of this machine or one of a Dask cluster."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from functools import lru_cache
from typing import Any, NamedTuple, cast
from uuid import uuid4

from rramalloc.allocation.budgets import budget
from rramalloc.allocation.optimize import (
    Request,
    checked_allocation,
    make_problem,
    propose,
    utilisation_of_all,
)
from rramalloc.choices import FullyConnected, ObjectiveName
from rramalloc.compiled import compilation
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import least_arrays
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.network.network import Network
from rramalloc.search.objective import check_method
from rramalloc.search.problem import Problem, Stop
from rramalloc.studies.sweep.rows import SweepRow, failed_row, inputs_of
from rramalloc.studies.sweep.spec import Changes, SweepPoint
from rramalloc.studies.sweep.sweep_sources import NetworkText, machine_of
from rramalloc.timing.measured_steps import MeasuredSteps, measured_steps
from rramalloc.timing.metrics import EnergyArea
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.version import __version__

_LONGEST_BATCH_S = 0.5
_LOOK_EVERY_S = 0.5
_PR_SET_PDEATHSIG = 1
_WORKER = uuid4().hex
"""Names this process among the workers; no row depends on it."""
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


def run_batch(document: dict[str, Any]) -> dict[str, Any]:
    """Compute the points of a batch: {"rows": [[number, row], ...]}.

    "worker" names this process, and "compiled_s" holds its seconds of compilation before and after the batch.
    It ends early, with at least one row, when it takes long; the driver hands out the rest again. A worker
    that cannot compute at all answers {"fault": ...}: not every exception survives the way to the driver.
    """
    try:
        if document["version"] != __version__:
            return {"fault": f"has rramalloc {__version__}, the driver has {document['version']}"}
        networks = {place: NetworkText(*source) for place, source in document["networks"].items()}
        begun_s, compiled_s, rows = time.perf_counter(), compilation.seconds, []
        for number, *values in document["points"]:
            point = SweepPoint(*values)
            row = row_of(point, networks[str(point.network)], document["hardware"][str(point.hardware)])
            rows.append([number, row.model_dump()])
            if time.perf_counter() - begun_s > _LONGEST_BATCH_S:
                break
        return {"rows": rows, "worker": _WORKER, "compiled_s": [compiled_s, compilation.seconds]}
    except Exception as error:  # noqa: BLE001 - reported to the driver
        return {"fault": f"cannot compute: {type(error).__name__}: {str(error)[:200]}"}


def row_of(point: SweepPoint, network: NetworkText, hardware: str) -> SweepRow:
    """Compute a point; hardware: its document as JSON. The row depends on nothing but these."""
    inputs = inputs_of(point, network, hardware)
    try:
        check_method(cast("ObjectiveName", point.objective), point.method)
        mapping = DEFAULT_MAPPING.changed(mapping=point.mapping, fc=point.fc)
        case = _Case(network, hardware, point.changes, mapping)
        inputs["minimum"] = _minimum(case)
        inputs["arrays"] = budget(point.arrays, inputs["minimum"])
        return SweepRow(**inputs, **_result(case, point, inputs["arrays"]))
    except Exception as error:  # noqa: BLE001 - a point that fails is a row of the sweep
        return failed_row(inputs, error)


def serve(parent: int) -> None:
    """Answer batches from stdin on stdout, a JSON line each, until stdin ends.

    parent: process id of the driver, whose end also ends this process.
    """
    _end_with(parent)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a solver prints is no answer
    with contextlib.suppress(BrokenPipeError):
        answers.write(b"{}\n")
        answers.flush()
        for line in sys.stdin.buffer:
            answers.write(json.dumps(run_batch(json.loads(line)), separators=(",", ":")).encode() + b"\n")
            answers.flush()


def _end_with(parent: int) -> None:
    """End with the driver even in the middle of a long point: at once on Linux, soon elsewhere."""
    with contextlib.suppress(OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_EVERY_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Case(NamedTuple):
    """What points share that differ in budget, objective, method or seed only; hashable, for the caches."""

    network: NetworkText
    hardware: str
    changes: Changes
    mapping: MappingOptions

    @property
    def machine(self) -> Hardware:
        return machine_of(self.hardware, self.changes).hardware


def _result(case: _Case, point: SweepPoint, arrays: int) -> dict[str, Any]:
    """The result columns of a row. Raises what `optimize` raises."""
    problem, hardware = _problem(case, arrays), case.machine
    request = Request(
        mapping=case.mapping,
        objective=cast("ObjectiveName", point.objective),
        method=point.method,
        seed=point.seed,
        measured=_measured(case),
    )
    stop = Stop(work=point.work, cores=1)
    candidate = propose(problem, request, stop)
    allocation = checked_allocation(hardware, arrays, problem, request, stop, candidate)
    row = {column: getattr(allocation, column) for column in _RESULTS}
    return row | {
        "used": allocation.arrays.used,
        "utilisation": utilisation_of_all(problem, candidate, hardware),
        "repaired": candidate.repaired,
    }


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
    return least_arrays(_network(case.network), graph.stages, case.machine, case.mapping)


@lru_cache(maxsize=16)
def _problem(case: _Case, arrays: int) -> Problem:
    graph = _graph(case.network, case.mapping.fc)
    network, measured = _network(case.network), _measured(case)
    return make_problem(network, case.machine, arrays, case.mapping, graph=graph, measured=measured)


@lru_cache(maxsize=16)
def _measured(case: _Case) -> MeasuredSteps | None:
    return measured_steps(case.network.measured, _network(case.network), case.mapping.fc, case.machine)
