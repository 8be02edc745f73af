"""MeasuredSteps: how long one step of every stage lasts by a latency table (docs/sources/model.md 7)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rramalloc.errors import MissingLatencyError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import NonNegative
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.network.node import Name, Stage
from rramalloc.records import Record
from rramalloc.timing.latency_table import LatencyTable, LatencyTableLike, as_latency_table
from rramalloc.timing.measured_layer import MeasuredLayer

_LISTED = 8  # names in a message before "and N more"


class MeasuredSteps(Record):
    """Duration of one step of every stage by a latency table; results keep it, so that they need no table.

    A table holds the time a device takes for all windows of a layer, one after another. One window is one
    matrix-vector product, the work of one copy in one step: compute_ns = latency_ns / windows. All stages
    step together, so a step lasts as long as the slowest of them, whatever the copies.
    sha256: of the table; compute_ns: by layer name; assumed: layers that the table lacks, which take the
    hardware's compute_ns; below_noise: layers whose latency is not above the noise; a negative one is 0.
    Source: docs/sources/model.md 7.
    """

    sha256: str
    compute_ns: dict[Name, NonNegative]
    assumed: tuple[str, ...] = ()
    below_noise: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, table: LatencyTable, network: Network, options: MappingOptions, hardware: Hardware
    ) -> MeasuredSteps:
        """Return the steps of all stages of a network.

        Raises MissingLatencyError if the table lacks a stage and the hardware has no [timing]; SpecError if
        no stage takes any time.
        """
        stages = options.timed_stages(network)
        rows = {stage.name: table.find(network, stage) for stage in stages}
        compute_ns = {
            # Measured was one image.
            stage.name: max(row.latency_ns, 0.0) / math.prod(network.shapes[stage.name].grid)
            for stage in stages
            if (row := rows[stage.name]) is not None
        }
        steps = cls(
            sha256=table.sha256,
            compute_ns=compute_ns,
            below_noise=tuple(name for name, row in rows.items() if row and "below_noise" in row.flags),
        )
        return steps.completed(network, stages, hardware)

    def completed(self, network: Network, stages: Sequence[Stage], hardware: Hardware) -> MeasuredSteps:
        """Return the steps of exactly these stages; those without a time take the hardware's.

        Raises MissingLatencyError if the hardware has no time, SpecError if no stage takes any time.
        """
        missing = [stage for stage in stages if stage.name not in self.compute_ns]
        if missing and hardware.compute_ns is None:
            raise MissingLatencyError(
                [(stage.name, MeasuredLayer.of(network, stage).text) for stage in missing]
            )
        assumed = {stage.name: hardware.of_layer(stage).compute_ns or 0.0 for stage in missing}
        times = self.compute_ns | assumed
        compute_ns = {stage.name: times[stage.name] for stage in stages}
        if stages and not any(compute_ns.values()):
            raise SpecError("latency table", "no stage of the network takes any time: measure again")
        # Layers that were assumed before, when an allocation was made, stay marked as assumed.
        kept = {*self.assumed, *assumed}
        return self.model_copy(
            update={
                "compute_ns": compute_ns,
                "assumed": tuple(name for name in compute_ns if name in kept),
                "below_noise": tuple(name for name in compute_ns if name in self.below_noise),
            }
        )

    @property
    def longest_ns(self) -> float:
        """Duration of the slowest stage's step."""
        return max(self.compute_ns.values())

    @property
    def slowest(self) -> str:
        """The stage whose step is longest, the first of equals."""
        return max(self.compute_ns, key=lambda name: self.compute_ns[name])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Assumptions behind these steps, in words."""
        warnings = []
        if self.assumed:
            words = "not in the latency table, the hardware's step time is assumed"
            warnings.append(f"{_listed(self.assumed)}: {words}")
        if self.below_noise:
            warnings.append(f"{_listed(self.below_noise)}: latency below the noise of its measurement")
        return tuple(warnings)


def measured_steps(
    table: LatencyTableLike | MeasuredSteps | None,
    network: Network,
    options: MappingOptions,
    hardware: Hardware,
    own: MeasuredSteps | None = None,
) -> MeasuredSteps | None:
    """Return the step times by a table, its document or its file; without one those of an allocation, `own`.

    table: or step times of an allocation in its place.
    Raises FileError, SpecError, MissingLatencyError.
    """
    if isinstance(table, MeasuredSteps):
        own = table
    elif table is not None:
        return MeasuredSteps.of(as_latency_table(table), network, options, hardware)
    return None if own is None else own.completed(network, options.timed_stages(network), hardware)


def _listed(names: Sequence[str]) -> str:
    """Return the first names in a line, and how many more there are."""
    shown = ", ".join(name[:60] for name in names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED} more"
