"""One search of `size`: the fewest arrays with which a network reaches its goal on one hardware.

A task is plain values, so that it can be computed by any process, and its result a JSON document, which a
store keeps by the key of the task: a call that was killed goes on from there with the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from rramalloc.allocation.allocation_input import read_allocation
from rramalloc.allocation.case import Case
from rramalloc.allocation.optimize import checked_allocation, objective_of, propose, start_choice
from rramalloc.allocation.question import Question
from rramalloc.choices import MAX_ARRAYS
from rramalloc.commands.size.question import SizedNetwork
from rramalloc.errors import LimitError, RramallocError, TargetError, WorkerError
from rramalloc.files import code_sha256
from rramalloc.hardware.hardware import Hardware
from rramalloc.network.network import Network
from rramalloc.records import parse
from rramalloc.rounding import EXACTLY
from rramalloc.search.menu import unlimited
from rramalloc.search.problem import Problem
from rramalloc.search.resources import Cost
from rramalloc.search.work import Work
from rramalloc.version import __version__

_NETWORK: TypeAdapter[SizedNetwork] = TypeAdapter(SizedNetwork)
_HARDWARE: TypeAdapter[Hardware] = TypeAdapter(Hardware)
TaskResult = dict[str, Any]
"""found: an allocation as JSON, None for none; least: no allocation costs less;
impossible: why the goal is out of reach, "" where it is not; miss: by what factor, None for any; work_s.
"""


class SizeTask(NamedTuple):
    """network, sized: a network and its goal as JSON; hardware: as JSON, with tiles and kinds without limit.

    least: known before; work: units of search; start: an allocation to begin with as bare JSON, "" for none.
    """

    network: str
    sized: str
    hardware: str
    least: Cost
    work: int
    seed: int
    start: str

    @property
    def key(self) -> str:
        """Hash of all that the result depends on, the code included."""
        return hashlib.sha256(json.dumps([code_sha256(), *self]).encode()).hexdigest()

    @property
    def call(self) -> tuple[Any, ...]:
        """The function that a worker calls by its name, and what it is given."""
        return f"{__name__}:compute", __version__, *self


def compute(version: str, *values: Any) -> TaskResult:
    """Compute a task in a worker. Raises WorkerError for another version."""
    if version != __version__:
        words = f"a worker has rramalloc {__version__}, the driver has {version}"
        raise WorkerError(f"{words}: install the same rramalloc everywhere")
    task = SizeTask(*values)
    try:
        return result_of(task, Work(work=task.work, cores=1))
    except RramallocError as error:  # which the driver raises: not all errors can be sent as they are
        return {"error": str(error)}


def result_of(task: SizeTask, stop: Work) -> TaskResult:
    """Return the result of a search, which depends on the task alone. Raises RramallocError."""
    sized = _sized(task.sized)
    case, problem = _opened(task.network, task.sized, task.hardware)
    result: TaskResult = {"found": None, "least": max(task.least, problem.minimum)}
    result |= {"impossible": "", "miss": 1.0, "work_s": 0.0}
    request = Question(objective="arrays", seed=task.seed, target=sized.wanted)
    if task.start:
        start = start_choice(problem, read_allocation(json.loads(task.start), "start"))
        problem = replace(problem, held=problem.held._replace(start=(start.modes, start.copies)))
    objective = objective_of(problem, request)
    try:
        answer = propose(objective, request, stop)
    except TargetError as error:
        if error.proven:
            error.limit = error.limit or problem.resources.beyond(problem.budget)
            result["impossible"] = f"{case.network.name}: {out_of_reach(error)}"
            result["miss"] = missed_by(error)
    except LimitError as error:
        result["impossible"] = f"{case.network.name}: {error}"
    else:
        found = checked_allocation(case, MAX_ARRAYS, objective, request, stop, answer)
        result["found"] = found.to_dict()
        least = math.ceil(found.lower_bound * problem.resources.per_unit * EXACTLY)
        result["least"] = max(result["least"], least)
    return result | {"work_s": stop.counted_s or 0.0}


def out_of_reach(error: TargetError) -> str:
    """Return the reason why a target is out of reach for any number of arrays."""
    held = f", {error.limit}" if error.limit else ""
    what = f"the {error.goal} of {error.target:.10g} {error.unit} cannot be met"
    return f"{what}, the bound is {error.bound:.10g}{held}"


def missed_by(error: TargetError) -> float | None:
    """Return the bound as a multiple of the goal, or its inverse for a rate; None for any."""
    factor = error.bound / error.target
    return max(factor, 1 / factor) if factor > 0 else None


@lru_cache(maxsize=64)
def _sized(text: str) -> SizedNetwork:
    return parse(_NETWORK, json.loads(text), "size")


@lru_cache(maxsize=16)
def _case(network: str, sized: str) -> Case:
    """Return the case of a network, whose stages are traced once for all hardware."""
    options: Any = _sized(sized).options
    source = Network.from_document(json.loads(network), "size")
    case = Case.of(source, options)
    return case.with_stages(case.stages)


@lru_cache(maxsize=128)
def _opened(network: str, sized: str, hardware: str) -> tuple[Case, Problem]:
    machine = parse(_HARDWARE, json.loads(hardware), "hardware")
    case = _case(network, sized).on(machine)
    return case, unlimited(case.problem(MAX_ARRAYS, advise=False))
