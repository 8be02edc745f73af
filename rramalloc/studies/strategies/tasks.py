"""Tasks: a network split in time, one task per weight layer, in execution order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple

from rramalloc.choices import FullyConnected
from rramalloc.errors import SpecError, UnsupportedError, suggestion
from rramalloc.hardware.hardware import Precision
from rramalloc.network.network import Network
from rramalloc.records import brief
from rramalloc.studies.strategies.chip import ChipPerformance
from rramalloc.timing.access import BITS_PER_BYTE
from rramalloc.timing.stage_graph import timed_stages

Term = Literal["in_transfer", "compute", "out_transfer"]
TERMS: tuple[Term, ...] = ("in_transfer", "compute", "out_transfer")


class LayerTask(NamedTuple):
    """One weight layer on a chip as if a single subtask did all of it.

    windows: its output pixels; bytes_in, bytes_out: of its input and output; bytes_working: its weights;
    in_ns, compute_ns, out_ns: the three terms of its run time.
    """

    name: str
    operator: str
    windows: int
    bytes_in: int
    bytes_out: int
    bytes_working: int
    in_ns: float
    compute_ns: float
    out_ns: float

    @property
    def total_ns(self) -> float:
        """Run time of the whole layer in one subtask."""
        return self.in_ns + self.compute_ns + self.out_ns

    @property
    def dominant(self) -> Term:
        """The largest term, the first of equals: shares scale all three, so it is so in every strategy."""
        terms = (self.in_ns, self.compute_ns, self.out_ns)
        return TERMS[terms.index(max(terms))]

    def need_bytes(self, share: Fraction, *, keeps_weights: bool) -> int:
        """Storage that a subtask with a share of the windows needs: input, output and, if kept, weights."""
        if share == 0:
            return 0
        moved = share * (self.bytes_in + self.bytes_out)
        return -(-moved.numerator // moved.denominator) + (self.bytes_working if keeps_weights else 0)

    def even_shares(self, subtasks: int) -> tuple[Fraction, ...]:
        """Whole windows dealt out as evenly as they go, the larger shares first; 0 where none are left."""
        each, more = divmod(self.windows, subtasks)
        large, small = Fraction(each + 1, self.windows), Fraction(each, self.windows)
        return (large,) * more + (small,) * (subtasks - more)


def tasks_of(
    network: Network, chip: ChipPerformance, precision: Precision, fc: FullyConnected
) -> tuple[LayerTask, ...]:
    """Tasks in execution order; classifiers are left out with fc "host".

    Raises UnsupportedError if no layer is left, SpecError for an operator without cost.
    Source: docs/sources/companions.md 1.
    """
    stages = timed_stages(network, fc)
    if not stages:
        raise UnsupportedError(network.where, "has no weight layer to evaluate")
    tasks = []
    for stage in stages:
        source, output = network.input_shape(stage), network.shapes[stage.name]
        bytes_in = _bytes(source.channels * source.pixels, precision.input_bits)
        bytes_out = _bytes(output.channels * output.pixels, precision.output_bits)
        where = f"{network.where}: node {stage.name[:60]!r}"
        tasks.append(
            LayerTask(
                name=stage.name,
                operator=stage.op,
                windows=output.pixels,
                bytes_in=bytes_in,
                bytes_out=bytes_out,
                bytes_working=_bytes(stage.weight_count(source.channels), precision.weight_bits),
                in_ns=bytes_in / chip.bandwidth_in_gb_s,
                compute_ns=bytes_in * chip.cost_ns_per_byte(stage.op, where),
                out_ns=bytes_out / chip.bandwidth_out_gb_s,
            )
        )
    return tuple(tasks)


def check_task_names(names: Iterable[str], tasks: Sequence[LayerTask], where: str) -> None:
    """Raise SpecError for a name that is no task, with the names that are near."""
    names_of_tasks = {task.name: None for task in tasks}
    for name in names:
        if name in names_of_tasks:
            continue
        hint = suggestion(name, list(names_of_tasks)) or f"tasks: {brief_list(list(names_of_tasks))}"
        raise SpecError(where, f"{brief(name)} is no task of the network; {hint}")


def brief_list(names: Sequence[str], most: int = 8) -> str:
    """The first names of a list."""
    return ", ".join(name[:60] for name in names[:most]) + (", ..." if len(names) > most else "")


def _bytes(values: int, bits: int) -> int:
    return -(-values * bits // BITS_PER_BYTE)
