"""Timed: stalls, buffers and the critical path, which follow from an allocation and its network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.allocation.allocation import Allocation
from rramalloc.allocation.allocation_input import AllocationInput, read_case
from rramalloc.allocation.simulation import Simulation
from rramalloc.errors import RramallocError, SpecError
from rramalloc.importers import NetworkLike, as_network, load
from rramalloc.network.network import Network
from rramalloc.network.shipped import shipped_names
from rramalloc.records import brief
from rramalloc.timing.buffers import Buffers, buffers
from rramalloc.timing.critical_path import CriticalSegment, critical_path, path_words
from rramalloc.timing.simulate import ExactTiming


@dataclass(frozen=True, slots=True)
class BusySpan:
    """Batches of a stage without a pause. stage: its place in network order; batches: fewer than the steps
    where short pauses were joined.
    """

    stage: int
    start: int
    finish: int
    batches: int


@dataclass(frozen=True, eq=False)
class Timed:
    """An allocation's timing beyond its file. path: segments that the makespan waits for;
    limit: the path in words; timing: None where it comes from the file of a simulation.
    """

    buffers: Buffers
    path: tuple[CriticalSegment, ...]
    limit: str
    timing: ExactTiming | None

    def runs(self, most: int) -> tuple[list[BusySpan], int]:
        """Return the spans in which every stage computes, and the longest pause joined to keep to `most`
        spans."""
        if self.timing is None:
            return [], 0
        order = self.timing.graph.network_order
        starts = [self.timing.of_stage(stage) for stage in order]
        cycles = [int(self.timing.cycles[stage]) for stage in order]
        pauses = np.concatenate([np.diff(begin) - ticks for begin, ticks in zip(starts, cycles, strict=True)])
        lengths = np.sort(pauses[pauses > 0])[::-1]
        room = max(0, most - len(starts))
        joined = int(lengths[room]) if len(lengths) > room else 0
        runs = [
            run
            for stage, (begin, ticks) in enumerate(zip(starts, cycles, strict=True))
            for run in _runs(stage, begin, ticks, joined)
        ]
        return runs, joined


def _runs(stage: int, starts: npt.NDArray[np.signedinteger[Any]], cycles: int, joined: int) -> list[BusySpan]:
    ends = np.flatnonzero(np.diff(starts) - cycles > joined)
    first = [0, *(ends + 1).tolist()]
    last = [*ends.tolist(), len(starts) - 1]
    return [
        BusySpan(stage, int(starts[begin]), int(starts[end]) + cycles, end - begin + 1)
        for begin, end in zip(first, last, strict=True)
    ]


class Networks:
    """The networks that a report may use: those the user names, then those that ship, found by their hash."""

    def __init__(self, named: Sequence[NetworkLike]) -> None:
        self._named = [as_network(network) for network in named]

    def find(self, sha256: str) -> Network | None:
        """Return the network with this hash of its graph, None if there is none."""
        for network in self._named:
            if network.is_of(sha256):
                return network
        name = _shipped().get(sha256)
        return None if name is None else load(name)


@cache
def _shipped() -> dict[str, str]:
    return {load(name).sha256: name for name in shipped_names()}


def time_result(result: Allocation | Simulation, known: Networks, where: str) -> Timed | None:
    """Return the times that follow from a result and its network, None if the network is not known.

    Raises SpecError if the file of an allocation says something else.
    """
    network = known.find(result.network.sha256)
    if isinstance(result, Simulation):
        return time_simulation(result, network, where)
    return None if network is None else time_allocation(result, network, where)


def contradictions(result: Allocation | Simulation) -> Iterator[str]:
    """Yield the numbers of a file that do not go together whatever its network is, in words."""
    unit = f"{result.time_unit}s"
    if result.interval > result.makespan:
        yield f"says an interval of {result.interval} {unit}, its makespan is {result.makespan}"
    last = max((layer.finish for layer in result.layers), default=result.makespan)
    if last != result.makespan:
        yield f"says {result.makespan} {unit}, its last layer finishes at {last}"
    for layer in result.layers:
        batches = -(-layer.windows // layer.copies)
        is_plain = layer.arrays_per_copy > 0 and {layer.block, layer.fold} <= {None, (1, 1)}
        if is_plain and layer.batches != batches:
            yield f"says {layer.batches} batches of {brief(layer.name)}, its copies come to {batches}"
        elif layer.start + layer.batches * (layer.cycles or 1) > layer.finish:
            yield f"says that {brief(layer.name)} finishes before its batches can"


def time_allocation(allocation: Allocation, network: Network, where: str) -> Timed:
    """Simulate an allocation again. Raises SpecError if its file says something else, or does not fit."""
    case, read = read_case(network, allocation, {}, origin=where)
    timing = read.timing(read.graph(case.network), "next")
    given = {layer.name: (layer.start, layer.finish) for layer in allocation.layers}
    exact = zip(timing.start.tolist(), timing.finish.tolist(), strict=True)
    if allocation.makespan != timing.makespan or given != dict(zip(timing.graph.names, exact, strict=True)):
        raise SpecError(
            where,
            f"says {allocation.makespan} {allocation.time_unit}s, its copies come to {timing.makespan} with "
            f"other starts or finishes on this network: the file was changed, make it anew",
        )
    path = critical_path(timing)
    return Timed(
        buffers=buffers(timing, allocation.hardware.precision.output_bits),
        path=path,
        limit=path_words(path, timing.makespan, allocation.time_unit),
        timing=timing,
    )


def time_simulation(simulation: Simulation, network: Network | None, where: str) -> Timed:
    """Return a simulation's file, with the times of single batches if its network is given and yields the
    same."""
    given = AllocationInput(
        copies={layer.name: layer.copies for layer in simulation.layers},
        blocks={layer.name: layer.block for layer in simulation.layers if layer.block is not None},
        cycles={layer.name: layer.cycles for layer in simulation.layers if layer.cycles is not None},
        where=where,
        hardware=simulation.hardware,
        measured=simulation.latency_table,
        network=simulation.network,
        sequences=simulation.sequences,
        states=simulation.states or {},
        bits={
            layer.name: (layer.weight_bits, layer.input_bits)
            for layer in simulation.layers
            if layer.weight_bits is not None and layer.input_bits is not None
        },
    )
    network = None if network is None else given.network_of(network, {})
    stated = {layer.name: (layer.start, layer.finish) for layer in simulation.layers}
    recomputed = None
    # The file does not keep by which options layers were left to the host.
    options: Sequence[dict[str, Any]] = ({"fc": "host"}, {"fc": "crossbar"})
    if simulation.coverage is not None:
        options = ({"fc": "crossbar", "host": simulation.coverage.host},)
    for left in () if network is None else options:
        changed = given.changed(**left)
        try:
            timing = changed.timing(changed.graph(network), simulation.handoff)  # type: ignore[arg-type]
        except RramallocError:
            continue
        exact = zip(timing.start.tolist(), timing.finish.tolist(), strict=True)
        if stated == dict(zip(timing.graph.names, exact, strict=True)):
            recomputed = timing
    stored = Buffers(simulation.edges, simulation.buffers)
    return Timed(stored, simulation.critical_path, simulation.critical_path_text, recomputed)
