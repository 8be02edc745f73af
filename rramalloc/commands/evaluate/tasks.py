"""Tasks: a network split in time, in execution order: weight layers, and operators whose cost is named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

from rramalloc.errors import SpecError, UnsupportedError, suggestion
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.performance import ChipPerformance, Rates
from rramalloc.hardware.tables import Precision
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.counts import macs
from rramalloc.network.network import Network
from rramalloc.network.node import Stage
from rramalloc.records import brief
from rramalloc.timing.access import BITS_PER_BYTE
from rramalloc.timing.measured_steps import MeasuredSteps

Term = Literal["in_transfer", "compute", "out_transfer"]
TERMS: tuple[Term, ...] = ("in_transfer", "compute", "out_transfer")
SplitBy = Literal["windows", "outputs"]
"""Quantity that is divided among the subtasks of a task: its output pixels, or its output channels."""


class TaskTerms(NamedTuple):
    """Run time of a subtask in ns: reading its input, computing, and writing its output."""

    in_ns: float
    compute_ns: float
    out_ns: float

    @property
    def total_ns(self) -> float:
        """Sum of the three terms."""
        return self.in_ns + self.compute_ns + self.out_ns

    @property
    def dominant(self) -> Term:
        """The largest term, the first of equals."""
        return TERMS[self.index(max(self))]


class Subtask(NamedTuple):
    """A part of a task: ids of its units, from 1, its share of the task, and the rates of its routes.

    compute_ns: of the whole task on units as these.
    """

    compute: Sequence[int]
    storage: Sequence[int]
    share: Fraction
    split: SplitBy
    rates: Rates
    compute_ns: float


TaskSplit = tuple[Subtask, ...]


class LayerTask(NamedTuple):
    """One operator on a chip.

    windows: its output pixels; outputs: its output channels; bytes_in, bytes_out: of its inputs and output;
    bytes_working: its weights, 0 for an operator that has none; compute_ns: in a single subtask.
    """

    name: str
    operator: str
    windows: int
    outputs: int
    bytes_in: int
    bytes_out: int
    bytes_working: int
    compute_ns: float

    @property
    def is_layer(self) -> bool:
        """Whether it has weights."""
        return self.bytes_working > 0

    def split_by(self, split: SplitBy) -> SplitBy:
        """Return "windows" for operators without weights, which need only their own channels."""
        return split if self.is_layer else "windows"

    def split_among(
        self,
        units: Sequence[tuple[Sequence[int], Sequence[int]]],
        split: SplitBy,
        chip: ChipPerformance,
        shares: Sequence[Fraction] | None = None,
    ) -> TaskSplit:
        """Return the subtasks that have these (compute, storage) units, in even shares unless given."""
        split = self.split_by(split)
        parts = zip(units, shares or self.even_shares(len(units), split), strict=True)
        return tuple(
            Subtask(*units_of_part, share, split, chip.rates(*units_of_part), self.compute_ns)
            for units_of_part, share in parts
        )

    def terms(self, share: Fraction, split: SplitBy, rates: Rates) -> TaskTerms:
        """Return the run time of a subtask: it reads its share of the input, or all if channels are divided.

        Source: docs/sources/companions.md 1.
        """
        part = float(share)
        read = self.bytes_in if split == "outputs" and share else part * self.bytes_in
        return TaskTerms(read / rates.in_gb_s, part * self.compute_ns, part * self.bytes_out / rates.out_gb_s)

    def need_bytes(self, share: Fraction, split: SplitBy, *, keeps_weights: bool) -> int:
        """Return the storage that a subtask needs for its input, output and, if kept there, weights."""
        if share == 0:
            return 0
        weights = self.bytes_working if keeps_weights else 0
        if split == "outputs":
            moved = share * (self.bytes_out + weights)
            undivided = self.bytes_in
        else:
            moved = share * (self.bytes_in + self.bytes_out)
            undivided = weights
        return -(-moved.numerator // moved.denominator) + undivided

    def even_shares(self, subtasks: int, split: SplitBy) -> tuple[Fraction, ...]:
        """Return whole windows or channels dealt out as evenly as they go, the larger shares first."""
        return _even(self.windows if split == "windows" else self.outputs, subtasks)


@lru_cache(maxsize=4096)
def _even(count: int, parts: int) -> tuple[Fraction, ...]:
    fewest, more = divmod(count, parts)
    return (Fraction(fewest + 1, count),) * more + (Fraction(fewest, count),) * (parts - more)


def tasks_of(
    network: Network,
    chip: ChipPerformance,
    precision: Precision,
    options: MappingOptions,
    machine: Hardware | None = None,
    measured: MeasuredSteps | None = None,
) -> tuple[LayerTask, ...]:
    """Return the tasks in execution order, without weight layers on the host.

    machine: hardware whose step is the time of a window of a weight layer for which the chip gives no cost,
    or whose digital units compute all of them; measured: time of a window of every weight layer on arrays,
    which replaces the chip's.
    Raises UnsupportedError if no layer is left, SpecError for an operator without cost.
    Source: docs/sources/companions.md 1.
    """
    layers = {stage.name for stage in options.timed_stages(network)}
    if not layers:
        raise UnsupportedError(
            network.where, "has no weight layer to evaluate; fully connected layers are with --fc crossbar"
        )
    tasks = []
    for node in network.nodes:
        weighs = isinstance(node, Stage)
        cost = chip.cost_ns_per_byte(node.op)
        if node.name not in layers and (weighs or cost is None):
            continue
        output = network.shapes[node.name]
        sources = [network.shapes[name] for name in node.inputs]
        bits = precision
        weights = 0
        step_ns = None
        if isinstance(node, Stage):
            bits = precision.of_layer(node)
            weights = _bytes(node.weight_count(sources[0].channels), bits.weight_bits)
            step_ns = None if machine is None else machine.of_layer(node).compute_ns
        bytes_in = _bytes(sum(source.channels * source.pixels for source in sources), bits.input_bits)
        if machine is not None and machine.processor is not None and isinstance(node, Stage):
            compute_ns = macs(network, node) / machine.processor.macs_per_ns
        elif measured is not None and node.name in measured.compute_ns:
            compute_ns = output.pixels * measured.compute_ns[node.name]
        elif cost is not None:
            compute_ns = bytes_in * cost
        elif step_ns is not None:
            compute_ns = output.pixels * step_ns
        else:
            raise SpecError(
                f"{network.where}: node {node.name[:60]!r}",
                f"the chip gives no ns_per_byte for {node.op!r}, no default and no [timing]: add one of them",
            )
        tasks.append(
            LayerTask(
                name=node.name,
                operator=node.op,
                windows=output.pixels,
                outputs=output.channels,
                bytes_in=bytes_in,
                bytes_out=_bytes(output.channels * output.pixels, bits.output_bits),
                bytes_working=weights,
                compute_ns=compute_ns,
            )
        )
    return tuple(tasks)


def check_task_names(names: Iterable[str], tasks: Sequence[LayerTask], where: str) -> None:
    """Raise SpecError for a name that is no task, with similar names of tasks."""
    known = dict.fromkeys(task.name for task in tasks)
    for name in names:
        if name not in known:
            first = ", ".join(task[:60] for task in [*known][:8]) + (", ..." if len(known) > 8 else "")
            hint = suggestion(name, [*known]) or f"tasks: {first}"
            raise SpecError(where, f"{brief(name)} is no task of the network; {hint}")


def _bytes(values: int, bits: int) -> int:
    return -(-values * bits // BITS_PER_BYTE)
