"""ReloadPlan: the result of `optimize --reload`, a network larger than the chip in segments."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rramalloc.allocation.allocation import Allocation, Arrays, NetworkResult, Options, PositiveCount
from rramalloc.network.coverage import Coverage
from rramalloc.network.network import Network, NetworkDocument
from rramalloc.network.node import Name
from rramalloc.records import Record, absent
from rramalloc.status import Status, Stopped, of_fields
from rramalloc.units import counted, duration, share

FORMAT: Literal["rramalloc-reload/2"] = "rramalloc-reload/2"
DurationNs = Annotated[float, Field(ge=0)]


class Segment(Record):
    """Consecutive stages that are in the arrays at the same time.

    first, last: of its stages; stages: how many; arrays: used; makespan, interval: of one input,
    in steps, or ticks of own clocks; write_ns: to write its weights; run_ns: of all inputs; time_ns: both;
    lower_bound: ns that no allocation of these stages undercuts; network: these stages as a network of their
    own, whose inputs are what earlier segments computed; allocation: of that network, for `simulate`,
    `place`, `verify` and `export`.
    """

    first: Name
    last: Name
    stages: PositiveCount
    arrays: PositiveCount
    makespan: PositiveCount
    interval: PositiveCount
    write_ns: DurationNs
    run_ns: DurationNs
    time_ns: DurationNs
    lower_bound: DurationNs
    network: NetworkDocument
    allocation: Allocation


class OtherCuts(Record):
    """Result of other cuts, with allocations searched for in the same way.

    cuts: "greedy", as many layers as fit with one copy each, then the next ones, or "layers", each alone;
    segments: how many; total_ns: their time; ratio: of that to the time of the plan.
    """

    cuts: Literal["greedy", "layers"]
    segments: PositiveCount
    total_ns: DurationNs
    ratio: float


class ReloadPlan(NetworkResult):
    """Plan to run a network on fewer arrays than it needs: segment by segment, each written, then run.

    inputs: that run through every segment each time it is written; total_ns: time of all of them;
    per_input_ns: of one in the mean; throughput_per_s: inputs per second; segments: in the order in which
    they run; lower_bound: ns that no cuts of the layers in this order and no allocations undercut; gap:
    (total_ns - lower_bound) / total_ns; proof: what shows the bound, in words; stopped: why the search ended,
    as in an allocation; write_ns: in total; arrays:
    allowed, most of any segment, and what the whole network needs; cut_layers: parts of layers that alone
    exceed the arrays; other_cuts: plain ways to cut, for comparison; dynamic_pj, write_pj, static_pj,
    energy_pj: for one input in the mean, None, and left out of files, where the hardware does not give them;
    work_s: work of the search in seconds of a reference core, counted.
    """

    rows_in = "segments"
    unlisted = frozenset({"network", "allocation"})

    format: Literal["rramalloc-reload/2"] = FORMAT
    options: Options
    inputs: PositiveCount
    seed: int
    work_s: float
    arrays: Arrays
    total_ns: DurationNs
    per_input_ns: DurationNs
    throughput_per_s: DurationNs
    lower_bound: DurationNs
    gap: float
    proof: str
    status: Status = Field(default_factory=of_fields)
    stopped: Stopped | None = Field(None, exclude_if=absent)
    write_ns: DurationNs
    segments: tuple[Segment, ...]
    cut_layers: dict[Name, PositiveCount] = Field(default_factory=dict)
    other_cuts: tuple[OtherCuts, ...] = ()
    dynamic_pj: float | None = Field(None, exclude_if=absent)
    write_pj: float | None = Field(None, exclude_if=absent)
    static_pj: float | None = Field(None, exclude_if=absent)
    energy_pj: float | None = Field(None, exclude_if=absent)
    host: tuple[str, ...] = ()
    coverage: Coverage

    @property
    def networks(self) -> tuple[Network, ...]:
        """The segments as networks, in the order in which they run."""
        return tuple(
            Network.from_document(segment.network.model_dump(mode="json", exclude_none=True), segment.first)
            for segment in self.segments
        )

    def _headline(self) -> tuple[str, str]:
        number = counted(len(self.segments), "segment")
        end = "proven optimal" if self.gap == 0 else f"at most {share(self.gap)} from optimal"
        if self.gap == 0:
            end += self.coverage.extent
        return self.network.name, f"{duration(self.per_input_ns)} an input in {number}, {end}"
