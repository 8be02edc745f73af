"""Parts of a step of every layer, and the time for which the result waits for the layer."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.allocation.case import Case
from rramalloc.allocation.optimize import kind_of
from rramalloc.commands.explain.explanation import ExplainedLayer, StepPart, step_words
from rramalloc.mapping.demand import active_lines
from rramalloc.network.node import Stage
from rramalloc.timing.access import access_ns
from rramalloc.timing.clocks import digital_ns
from rramalloc.timing.critical_path import critical_path, slack_of_stages
from rramalloc.timing.simulate import ExactTiming


def step_layers(
    case: Case, timing: ExactTiming, transfer_ns: MappingOf[str, float], arrays: npt.NDArray[np.int64]
) -> tuple[ExplainedLayer, ...]:
    """Return the row of every stage, in network order. arrays: of all copies, in canonical order."""
    graph, busy, slack = timing.graph, timing.batches * timing.cycles, slack_of_stages(timing)
    memory_ns, critical = _memory_ns(case, timing), dict.fromkeys(graph.names, 0)
    for segment in critical_path(timing):
        critical[segment.stage] += segment.steps
    return tuple(
        ExplainedLayer(
            name=graph.names[stage],
            kind=kind_of(case.hardware, graph.modes[stage]) if graph.weighted[stage] else None,
            copies=int(timing.copies[stage]),
            block=graph.blocks[stage] if case.mapping.mapping == "sdk" else None,
            arrays=int(arrays[stage]),
            batches=int(timing.batches[stage]),
            cycles=int(timing.cycles[stage]) if graph.unit == "ticks" else None,
            busy=int(busy[stage]),
            sets_interval=bool(busy[stage] == timing.interval),
            start=int(timing.start[stage]),
            finish=int(timing.finish[stage]),
            critical=critical[graph.names[stage]],
            waiting=int(timing.stall_steps[stage]),
            slack=int(slack[stage]),
            **_step_parts(case, timing, stage, memory_ns, transfer_ns.get(graph.names[stage])),
        )
        for stage in graph.network_order
    )


def _memory_ns(case: Case, timing: ExactTiming) -> list[float]:
    """Return the time that the memory needs for a step of every stage; empty without a memory."""
    graph, memory = timing.graph, case.hardware.memory
    if memory is None:
        return []
    shared = case.hardware.own_clock and memory.scope == "shared"  # each then has an equal part of it
    times = int(graph.weighted.sum()) if shared else 1
    return [
        times * copies * access_ns(graph.network, node, block, case.hardware)
        for node, block, copies in zip(graph.stages, graph.blocks, timing.copies.tolist(), strict=True)
    ]


def _step_parts(
    case: Case, timing: ExactTiming, stage: int, memory_ns: Sequence[float], transfer_ns: float | None
) -> dict[str, Any]:
    """Return the parts of a step of a stage, or of a batch with own clocks, by the fields of ExplainedLayer.

    Source: docs/sources/model.md 7 and 11.
    """
    graph, node, copies = timing.graph, timing.graph.stages[stage], int(timing.copies[stage])
    hardware = case.array_of(node, graph.modes[stage])
    parts: dict[str, Any] = {"transfer_ns": transfer_ns}
    times: dict[StepPart, float | None] = {}
    if not isinstance(node, Stage):
        rates = {} if hardware.digital is None else hardware.digital.ns_per_pixel
        times["digital"] = parts["array_ns"] = rates.get(node.op)
    elif hardware.processor is not None:
        times["digital"] = parts["array_ns"] = digital_ns(graph.network, node, hardware.processor)
    elif case.measured is not None:
        times["measured"] = parts["array_ns"] = case.measured.compute_ns[node.name]
    elif (timing_of_arrays := hardware.timing) is not None and timing_of_arrays.step_ns is not None:
        times["given"] = parts["array_ns"] = timing_of_arrays.step_ns
    elif timing_of_arrays is not None and timing_of_arrays.read_ns is not None:
        rows = columns = None  # of whole arrays where all stages step together
        if hardware.own_clock:
            rows, columns = active_lines(
                graph.network, node, hardware, case.mapping, graph.blocks[stage], copies
            )
        bits, crossbar = hardware.precision.input_bits, hardware.crossbar
        reads, conversions = (
            timing_of_arrays.reads(bits, crossbar, rows),
            timing_of_arrays.conversions(crossbar, columns),
        )
        parts |= {"input_cycles": timing_of_arrays.reads(bits, crossbar, 1), "reads": reads}
        times["read"] = parts["read_ns"] = reads * timing_of_arrays.read_ns
        if timing_of_arrays.adc_ns is not None:
            parts["conversions"] = conversions
            times["converter"] = parts["converter_ns"] = reads * timing_of_arrays.adc_ns * conversions
    if not any(times.values()):
        return parts
    if memory_ns:
        parts["memory_ns"] = memory_ns[stage]
        memory = hardware.memory
        together = not hardware.own_clock and memory is not None and memory.scope == "shared"
        times["memory"] = sum(memory_ns) if together else memory_ns[stage]
    times["transfer"] = transfer_ns
    known = {part: value for part, value in times.items() if value is not None}
    binds = max(known, key=lambda part: known[part])
    return {**parts, "step_ns": known[binds], "binds": binds}


def slowest_layer(layers: Sequence[ExplainedLayer]) -> str | None:
    """Return the layer with the longest step; of equal ones that which moves most."""
    longest = max(layers, key=lambda layer: (layer.step_ns or 0.0, layer.memory_ns or 0.0))
    return None if longest.step_ns is None else longest.name


def what_binds(case: Case, timing: ExactTiming, transfer_ns: MappingOf[str, float]) -> str:
    """Return in words the length of a step (of a batch with own clocks) and its cause; "" without times."""
    layers = step_layers(case, timing, transfer_ns, timing.copies)
    slowest = slowest_layer(layers)
    tick_ns = case.hardware.tick_ns if case.hardware.own_clock else None
    longest = [layer.step_ns for layer in layers if layer.name == slowest]
    words = step_words(layers, tick_ns, longest[0] if tick_ns is None and longest else None, slowest)
    return f"a {'step' if tick_ns is None else 'batch'} takes {words}" if words else ""
