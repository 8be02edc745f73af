"""Explanation: the result of `explain`, with the bottlenecks of an allocation and its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from rramalloc.allocation.allocation import BlockSize, CaseOptions, LayerModes, NetworkResult, PositiveCount
from rramalloc.network.coverage import Coverage
from rramalloc.network.node import Name
from rramalloc.records import Record, Steps, absent
from rramalloc.status import Status
from rramalloc.units import Unit, counted, duration, number_of, plain_quantity

FORMAT: Literal["rramalloc-explanation/2"] = "rramalloc-explanation/2"
StepPart = Literal["read", "converter", "given", "measured", "digital", "memory", "transfer"]
"""Part of a step that takes time."""
PART_WORDS: dict[StepPart, str] = {
    "read": "the reads of the arrays",
    "converter": "the converters",
    "given": "step_ns of [timing]",
    "measured": "the measured latency",
    "digital": "the rate of the digital node",
    "memory": "memory access",
    "transfer": "transfer between tiles",
}


class ExplainedLayer(Record):
    """One stage of an allocation: its share of the critical path, and the parts of its step.

    cycles: ticks that a batch lasts, left out without own clocks; busy: steps in which it computes;
    sets_interval: whether no other computes longer; critical: steps that the critical path spends in it;
    waiting: steps that it waits for inputs after its first batch; slack: steps by which any one batch could
    start later at the same makespan.

    input_cycles, reads, conversions: turns in which the bits of an input are fed, reads of an array in a
    step, and conversions that an ADC makes one after another in a read; read_ns, converter_ns: of all reads,
    which overlap; array_ns: instead of both where it is given, measured or of a digital node; memory_ns,
    transfer_ns: further parts of a step; step_ns, binds: the longest part, and which it is. None where the
    hardware says nothing of it. Where layers share a memory a step waits for the memory_ns of all.
    Source: docs/sources/model.md 4, 7 and 11.
    """

    name: Name
    kind: str | None = Field(None, exclude_if=absent)
    copies: PositiveCount
    block: BlockSize | None = Field(None, exclude_if=absent)
    arrays: Steps
    batches: PositiveCount
    cycles: PositiveCount | None = Field(None, exclude_if=absent)
    busy: Steps
    sets_interval: bool
    start: Steps
    finish: Steps
    critical: Steps
    waiting: Steps
    slack: Steps
    input_cycles: PositiveCount | None = None
    reads: PositiveCount | None = None
    conversions: PositiveCount | None = None
    read_ns: float | None = None
    converter_ns: float | None = None
    array_ns: float | None = None
    memory_ns: float | None = None
    transfer_ns: float | None = None
    step_ns: float | None = None
    binds: StepPart | None = None


class ExplainedPoint(LayerModes):
    """A point of the front of arrays and the objective, beside an allocation.

    tiles, chips: fewest that hold it, None without [chip]; value, ratio: of the objective, and divided by
    that of the allocation, so that below 1 is faster; arrays_bound: fewest arrays with which the value asked
    for is possible, area_bound_um2: least area instead, where several kinds of arrays are counted by area;
    value_bound: least value with the arrays allowed; None where that was not searched.
    """

    arrays: PositiveCount
    tiles: PositiveCount | None
    chips: PositiveCount | None
    makespan: Steps
    interval: Steps
    latency_ns: float | None
    value: int | float
    ratio: float
    arrays_bound: PositiveCount | None = None
    area_bound_um2: float | None = Field(None, exclude_if=absent)
    value_bound: int | float | None = None
    proof: str


class Change(Record):
    """A number of the hardware that holds a target back.

    number: as a hardware file names it; have: its value; need: what it must be at most, or at least if that
    is more than `have`; None where that is not known.
    """

    number: str
    have: float | None = None
    need: float | None = None

    @property
    def words(self) -> str:
        """The number with its limit."""
        if self.have is None or self.need is None:
            return self.number
        side = "at most" if self.need < self.have else "at least"
        return f"{self.number} {side} {self.need:.4g} (now {self.have:.4g})"


def _of_neighbour(fields: dict[str, Any]) -> Status:
    """Return the status of a neighbour: optimal where it is proven, also that there is none."""
    point = fields.get("point")
    if fields.get("proven"):
        return Status.OPTIMAL
    is_bounded = point is not None and (point.arrays_bound is not None or point.value_bound is not None)
    return Status.BOUNDED if is_bounded else Status.FEASIBLE


NOT_TRIED = "not tried, the search was ended before"
"""Words of a search that a limit of time, or the user, left out."""


class Neighbour(Record):
    """A point beside an allocation, or the reason why there is none.

    point: with the fewest arrays, or the fastest with fewer; proven: that no point is better, or that there
    is none; words: both in a sentence; factor, target: of a speedup, and the value that it asks for; changes:
    what must change in the hardware before that is reached.
    """

    point: ExplainedPoint | None
    proven: bool
    words: str
    factor: float | None = Field(None, exclude_if=absent)
    target: int | float | None = Field(None, exclude_if=absent)
    changes: tuple[Change, ...] = ()
    status: Status = Field(default_factory=_of_neighbour)


class WhatIfResult(Record):
    """An allocation on changed hardware.

    value: the objective, in ns, or in steps where the hardware gives no time; lower_bound, in the same unit,
    proof, status: of a search, None where there was none; the others as in an allocation.
    """

    arrays: PositiveCount
    makespan: Steps
    interval: Steps
    latency_ns: float | None
    value: float
    energy_pj: float | None = None
    area_um2: float | None = None
    lower_bound: float | None = None
    proof: str | None = None
    status: Status | None = None


class WhatIf(Record):
    """Gain from one change of the hardware.

    change: as `--set` takes it; have: the values now, None for a change of the arrays alone; as_it_is: the
    same allocation on the changed hardware, None where it cannot be; searched: the best within the same
    arrays, None where it was not searched; gain: part by which `searched`, or else `as_it_is`, is shorter
    than now, 0 if it is not, None if one is in steps and the other in ns; more_um2: area that it takes
    beside that of now, None where the hardware does not give it; gain_per_mm2: where it takes any; words: all
    in a sentence, or why there is no result.
    Source: docs/sources/model.md 19.
    """

    change: str
    have: str | None = None
    as_it_is: WhatIfResult | None = None
    searched: WhatIfResult | None = None
    gain: float | None = None
    more_um2: float | None = None
    gain_per_mm2: float | None = None
    words: str


class KindUse(Record):
    """A kind of arrays of the chip.

    used: arrays of the allocation; arrays: on the chip, None where nothing says how many; more: arrays that
    a search has more of it; saves: by which the objective falls for each of these, in its unit: the price of
    an array of this kind, 0 where more of them gain nothing, None where that was not searched; words: all in
    a sentence. Source: docs/sources/model.md 19.
    """

    kind: str
    used: Steps
    arrays: PositiveCount | None
    more: PositiveCount | None = None
    saves: float | None = None
    words: str


class HardwareChange(Record):
    """The single change of the hardware that reaches a speedup with least area, if one does.

    change: as `--set` takes it, None where no single change does; result: the allocation with it; words: both
    in a sentence.
    """

    change: str | None
    result: WhatIfResult | None
    words: str


class Explanation(NetworkResult):
    """The limits of an allocation, and its neighbours on the front of arrays and the objective.

    objective, unit, value: what faster means, latency or interval, in steps, ticks or ns; slowest: the layer
    that sets the length of a step, None with own clocks or without a time; tick_ns: with own clocks;
    cheaper, faster: the next points with fewer arrays, and with a smaller value; speedup, speedup_change:
    None unless a factor was asked for; what_if: changes that cost area by their gain per area, others by
    their gain, then those that gain nothing; kinds: of arrays, the shortest of them first, None where the
    hardware has one.
    """

    rows_in = "layers"

    format: Literal["rramalloc-explanation/2"] = FORMAT
    options: CaseOptions
    objective: Literal["latency", "interval"]
    unit: Unit
    value: int | float
    seed: int
    work: int
    arrays: PositiveCount
    makespan: Steps
    interval: Steps
    step_ns: float | None
    tick_ns: float | None = Field(None, exclude_if=absent)
    latency_ns: float | None
    slowest: Name | None
    critical_path_text: str
    layers: tuple[ExplainedLayer, ...]
    cheaper: Neighbour
    faster: Neighbour
    speedup: Neighbour | None = None
    speedup_change: HardwareChange | None = None
    what_if: tuple[WhatIf, ...] = ()
    kinds: tuple[KindUse, ...] | None = Field(None, exclude_if=absent)
    coverage: Coverage

    @property
    def time_unit(self) -> str:
        """ "step", or "tick" where stages have their own clocks."""
        return "step" if self.tick_ns is None else "tick"

    def _headline(self) -> tuple[str, str]:
        words = f"{plain_quantity(self.value, self.unit)} on {counted(self.arrays, 'array')}"
        return self.network.name, f"{words}; {self.critical_path_text}"


def step_words(
    layers: Sequence[ExplainedLayer], tick_ns: float | None, step_ns: float | None, slowest: str | None
) -> str:
    """Return in words the layer and the part of its step that set the step's length.

    With own clocks that is the layer with most steps on the critical path.
    """
    layer = max(
        layers, key=lambda candidate: (tick_ns is None and candidate.name == slowest, candidate.critical)
    )
    if layer.binds is None or (step_ns is None and tick_ns is None):
        return ""
    alike = len(layers) > 1 and len({(candidate.binds, candidate.step_ns) for candidate in layers}) == 1
    words = f"set by {PART_WORDS[layer.binds]}"
    if layer.binds != "given":
        words += f" of {'every layer' if alike else layer.name}"
    if step_ns is not None:
        return f"{duration(step_ns)}, {words}"
    return f"{number_of(layer.cycles or 1, 'tick')} of {duration(tick_ns or 1.0)}, {words}"
