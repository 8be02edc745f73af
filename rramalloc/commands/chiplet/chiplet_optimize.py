"""`chiplet_optimize`: the schedule of least cost on chiplets that a search finds, beside a lower bound.

A network is described on the tiles of a chip: a unit is a tile, a chiplet a chip, times are in ns. A stage
is split over P tiles, P a power of two, in one of three ways. Split by output channels, each tile has some of
the columns. Split by windows, each has all weights and computes some rows of the output. Split by input
channels, each has some wordlines, and partial sums are added up in the last tile. A tile holds as many copies
of its share as fit in its arrays.
Source: docs/sources/companions.md 2, goal of the method, compute cost of a crossbar tile; the bytes are
choices made here.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from dataclasses import replace
from statistics import median_low
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from rramalloc.allocation.case import Case
from rramalloc.allocation.goes_with import check_command
from rramalloc.choices import (
    DEFAULT_WORK,
    FullyConnected,
    HostLike,
    InputShapes,
    InputValues,
    Mapping,
    ValuesLike,
)
from rramalloc.commands.chiplet.cost import ChipletCost, OperatorRow, described_cost
from rramalloc.commands.chiplet.description import (
    DESCRIPTION,
    MAX_GRID_EXTENT,
    SCHEDULE,
    ChipUnit,
    Description,
    read_description,
)
from rramalloc.commands.chiplet.places import Submesh
from rramalloc.commands.chiplet.schedule_problem import ScheduleProblem
from rramalloc.commands.chiplet.schedule_search import (
    GroupSchedule,
    ScheduleProgress,
    ScheduleSearch,
    schedule_lower_bound,
)
from rramalloc.commands.place.layout import Flows
from rramalloc.errors import SolverError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import HardwareLike, as_hardware
from rramalloc.hardware.tables import Chip, CrossbarLike
from rramalloc.importers import NetworkLike, as_network
from rramalloc.mapping.demand import WeightMatrix, demand
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, ConvTranspose, Stage
from rramalloc.records import Record, absent, check_effort, parse
from rramalloc.result import AnswerRecord, frame_of
from rramalloc.rounding import SAME_SUM
from rramalloc.search.work import Work
from rramalloc.status import Status, of_fields
from rramalloc.timing.access import BITS_PER_BYTE
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.units import counted, quantity, share
from rramalloc.version import __version__

if TYPE_CHECKING:
    import pandas as pd


class Split(NamedTuple):
    """A way to split a stage. inside_bytes: moved between its tiles; read: bytes read for one of input."""

    name: str
    tiles: int
    compute_ns: float
    inside_bytes: float
    read: float

    @property
    def reduced(self) -> bool:
        """Whether partial sums are added up in the last tile."""
        return self.name.startswith("inputs")


def describe_network(
    network: Network, hardware: Hardware, options: MappingOptions
) -> tuple[Description, tuple[str, ...]]:
    """Return the description of a network on a chip, and warnings; each stage is a group without a place.

    Raises SpecError without [chip] or [timing], and for a stage that the whole chip cannot hold.
    """
    check_command("chiplet", "chiplet optimize", Case(network, hardware, options))
    chip = hardware.chip
    if chip is None or hardware.compute_ns is None:
        missing = "[chip]" if chip is None else "[timing]"
        raise SpecError(
            f"hardware {hardware.name[:60]!r}", f"needs {missing} to describe a network on its tiles"
        )
    if chip.tile_count > MAX_GRID_EXTENT:
        raise SpecError("chip", f"has {chip.tile_count} tiles, the limit is {MAX_GRID_EXTENT}")
    graph = StageGraph.build(network, options)
    bandwidth = chip.bandwidth_tile_gb_s
    splits = {
        stage.name: tuple(_splits(network, stage, hardware, options.mapping, chip, int(windows)))
        for stage, windows in zip(graph.layers, graph.windows, strict=True)
    }
    names = [graph.names[stage] for stage in graph.network_order]
    operators = {}
    for name in names:
        partitions = splits[name]
        operators[name] = {
            "compute": [split.compute_ns for split in partitions],
            "units": [split.tiles for split in partitions],
            "reduce_to": ["last" if split.reduced else "none" for split in partitions],
            "transfers": [network.shapes[name].height if split.reduced else 0 for split in partitions],
            "strategies": [split.name for split in partitions],
        } | ({} if bandwidth is None else {"bytes": [split.inside_bytes for split in partitions]})
    flows = Flows.of(graph, hardware)
    edges = []
    for producer, consumer, size_bytes in zip(
        flows.producer.tolist(), flows.consumer.tolist(), flows.size_bytes.tolist(), strict=True
    ):
        source = graph.names[producer]
        to = graph.names[consumer]
        row = [size_bytes * split.read for split in splits[to]]
        table = {} if bandwidth is None else {"bytes": [row] * len(splits[source])}
        edges.append({"from": source, "to": to, "transfers": network.shapes[source].height} | table)
    document = {
        "name": network.name,
        "unit": "ns",
        "chip": {
            "chiplets": list(chip.grid[1]),
            "units": list(chip.grid[0]),
            "bandwidth_inside": bandwidth,
            "bandwidth_between": chip.bandwidth_chip_gb_s or bandwidth,
            "hop_cycles_inside": chip.hop_ns_tile or 0.0,
            "hop_cycles_between": chip.hop_ns_chip or 0.0,
        },
        "groups": [[name] for name in names],
        "operators": operators,
        "edges": edges,
    }
    where = f"{network.where} on hardware {hardware.name[:60]!r}"
    return parse(DESCRIPTION, document, where), (
        *_left_out(chip),
        "weights are taken to be in the arrays of a tile when their group runs; writing them is not counted",
    )


def _left_out(chip: Chip) -> Iterator[str]:
    several = ["hop_ns_chip", "bandwidth_chip_gb_s"] if chip.chip_count > 1 else []
    for field in ("hop_ns_tile", "bandwidth_tile_gb_s", *several):
        if getattr(chip, field) is None:
            instead = field == "bandwidth_chip_gb_s" and chip.bandwidth_tile_gb_s is not None
            what = "that of tiles is taken" if instead else "that time is left out"
            yield f"the hardware gives no {field}: {what}"


def _splits(
    network: Network, stage: Stage, hardware: Hardware, mapping: Mapping, chip: Chip, windows: int
) -> Iterator[Split]:
    """Yield the splits of a stage whose largest share fits in a tile. Raises SpecError if none does."""
    weights = WeightMatrix.of(network, stage, hardware)
    where = f"{network.where}: node {stage.name[:60]!r}"
    output = network.shapes[stage.name]
    step_ns = hardware.of_layer(stage).compute_ns or 0.0
    output_bytes = output.channels * output.pixels * hardware.precision.output_bits / BITS_PER_BYTE
    fitting = False
    tiles = 1
    while tiles <= chip.tile_count:
        for name, piece, part, read in _shares(network, stage, weights, windows, tiles):
            copies = min(chip.arrays_per_tile // demand(piece, hardware.crossbar, mapping, where), part)
            if copies:
                fitting = True
                partial_sums = (tiles - 1) * output_bytes if name == "inputs" else 0.0
                called = f"{name} / {tiles}" if tiles > 1 else name
                yield Split(called, tiles, -(-part // copies) * step_ns, partial_sums, read)
        tiles *= 2
    if not fitting:
        need = demand(weights, hardware.crossbar, mapping, where)
        raise SpecError(
            where,
            f"needs {need} arrays, no split over up to {chip.tile_count} tiles of {chip.arrays_per_tile} "
            f"arrays holds it: use a larger chip or larger arrays",
        )


def _shares(
    network: Network, stage: Stage, weights: WeightMatrix, windows: int, tiles: int
) -> Iterator[tuple[str, WeightMatrix, int, float]]:
    """Yield name, weights and windows of the largest share of each split, and bytes read per input byte."""
    if tiles == 1:
        yield "whole", weights, windows, 1.0
        return
    per_weight = weights.columns // weights.outputs
    if weights.groups >= tiles:
        yield "groups", replace(weights, groups=-(-weights.groups // tiles)), windows, 1.0
    elif weights.groups == 1 and weights.outputs >= tiles:
        outputs = -(-weights.outputs // tiles)
        yield (
            "outputs",
            replace(weights, outputs=outputs, columns=outputs * per_weight),
            windows,
            float(tiles),
        )
    shape = network.shapes[stage.name]
    source = network.input_shape(stage)
    if shape.height >= tiles:
        rows = -(-shape.height // tiles)
        span = min(source.height, _rows_read(stage, rows))
        yield "windows", weights, rows * shape.width, max(1.0, tiles * span / source.height)
    if weights.groups == 1 and weights.inputs >= tiles:
        yield "inputs", replace(weights, inputs=-(-weights.inputs // tiles)), windows, 1.0


def _rows_read(stage: Stage, rows: int) -> int:
    """Return the input rows that `rows` output rows need, padding included."""
    match stage:
        case Conv():
            return (rows - 1) * stage.stride[0] + (stage.kernel[0] - 1) * stage.dilation[0] + 1
        case ConvTranspose():
            return -(-rows // stage.stride[0]) + stage.block_reach[0] - 1
        case _:
            return rows


_RANDOM = 21  # random schedules whose median is shown
_EQUAL = 1e-6  # relative difference that rounding may make between the search and the cost of its schedule
_PROVEN = "proven optimal: it costs as much as the lower bound"
_BOUNDED = "bounded: heaviest path or all units in use, with the edges, by a bucket pass"


class ScheduleBaseline(Record):
    """A schedule to compare with. total: its cost; ratio: of it to the cost of the found schedule."""

    name: str
    total: float
    ratio: float


class ChipletSchedule(AnswerRecord):
    """A schedule on chiplets: groups of operators, their strategies and submeshes, and its cost.

    description: with the schedule in it, as `chiplet cost` reads it; cost: of the schedule; lower_bound: no
    schedule costs less;
    gap: (total - lower_bound) / total; options: strategies with their submeshes, of all operators;
    left_out: submeshes that were not looked at, as there are too many; baselines: other schedules of the
    same description; work_s: work in seconds of a reference core; set_values: of the hardware that the
    description is of, as in Hardware.
    """

    format: Literal["rramalloc-chiplet-schedule/2"] = SCHEDULE
    description: Description
    cost: ChipletCost
    total: float
    lower_bound: float
    gap: float
    proof: str
    status: Status = Field(default_factory=of_fields)
    baselines: tuple[ScheduleBaseline, ...]
    options: int
    left_out: int
    seed: int
    work: int
    work_s: float
    set_values: tuple[str, ...] | None = Field(None, exclude_if=absent)

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row per operator: the fields of OperatorRow."""
        return frame_of(self.rows(), OperatorRow._fields)

    def rows(self) -> list[OperatorRow]:
        """Return the operators in the order of their groups."""
        rows = []
        for row in self.cost.rows():
            operator = self.description.operators[row.operator]
            called = operator.strategies
            submesh = Submesh.of(operator)
            rows.append(
                row._replace(
                    strategy=str(operator.strategy) if called is None else called[operator.strategy],
                    units=None if submesh is None else submesh.size(self.description.chip),
                    first=_unit(operator.first),
                    last=_unit(operator.last),
                )
            )
        return rows

    def _headline(self) -> tuple[str, str]:
        groups = counted(len(self.cost.groups), "group")
        gap = f"at most {share(self.gap)} from optimal"
        return self.description.name or "", f"{quantity(self.total, self.cost.unit)} in {groups}, {gap}"


def _unit(unit: ChipUnit | None) -> str | None:
    return None if unit is None else " / ".join(f"{row},{column}" for row, column in unit)


def chiplet_optimize(
    source: Description | NetworkLike,
    *,
    hardware: HardwareLike | None = None,
    crossbar: CrossbarLike | None = None,
    set_values: ValuesLike | None = None,
    mapping: Mapping = "im2col",
    fc: FullyConnected = "host",
    host: HostLike | None = None,
    seed: int = 0,
    work: int = DEFAULT_WORK,
    time_limit_s: float | None = None,
    input_shapes: InputShapes | None = None,
    input_values: InputValues | None = None,
    on_progress: ScheduleProgress | None = None,
    stop: Work | None = None,
) -> ChipletSchedule:
    """Find groups, partitions and submeshes of least cost, with a lower bound.

    Parameters
    ----------
    source
        A description or its file, or with `hardware` a network.
    hardware
        With [chip] and [timing]: the description is generated for its tiles. A Hardware, a file, a dict of
        its form, or a preset.
    crossbar
        Wordlines and bitlines of an array, "256x256" or (256, 256), instead of the hardware's.
    set_values
        Values of the hardware that are replaced: {"timing.columns_per_adc": 16}, or ["timing.adc_ns=2"].
    mapping
        Layout of weights on arrays.
    fc
        Who computes linear layers on a single pixel: the "host", untimed, or arrays ("crossbar").
    host
        Layers that are left to the host, by name or pattern.
    seed
        Of what the search draws.
    work
        Units of search, 0.05 s each on a reference core.
    time_limit_s
        Seconds by the clock after which the search ends; the result then depends on the machine.
    input_shapes
        Shape with batch of every input of an ONNX file that has open axes, by name.
    input_values
        Values of inputs of an ONNX file that decide what runs, by name.
    on_progress
        Called with (best, bound) whenever one of them improves.
    stop
        Replaces work and time_limit_s; its `interrupted` ends the search with the best so far.

    Returns
    -------
    ChipletSchedule
        Its cost is computed anew by `chiplet_cost`'s code.

    Raises
    ------
    RramallocError
        FileError, SpecError, UnsupportedError; SolverError if cost and search disagree.
    """
    check_effort(seed, work, time_limit_s)
    assumed: tuple[str, ...] = ()
    set_texts: tuple[str, ...] | None = None
    not_counted: tuple[str, ...] = ()
    if hardware is None and (crossbar is not None or set_values):
        raise SpecError("hardware", "is left out, and its arrays or values are to be changed: give it too")
    if hardware is not None:
        if isinstance(source, Description):
            raise SpecError("hardware", "a description has a chip of its own: give no hardware")
        network = as_network(source, input_shapes, input_values=input_values)
        options = DEFAULT_MAPPING.changed(mapping=mapping, fc=fc, host=host)
        machine = as_hardware(hardware, crossbar, set_values)
        where = network.where
        description, assumed = describe_network(network, machine, options)
        set_texts = machine.set_values
        not_counted = Case(network, machine, options).not_counted(links=True)
    elif isinstance(source, Network | MappingOf):
        raise SpecError("hardware", "a network needs a hardware with [chip]; a description has its own")
    else:
        description, where = read_description(source)
    problem = ScheduleProblem.of(description, where)
    ending = stop or Work(work=work, time_limit_s=time_limit_s)
    search = ScheduleSearch(problem, ending, seed)
    least = schedule_lower_bound(problem)
    starts, others = _starts(problem, search)
    search.spent_s = 0.0
    schedule = search.improve(starts, ending.work_s, least, on_progress)
    found = search.total(schedule)
    scheduled = problem.described(schedule.groups, schedule.chosen)
    cost = described_cost(scheduled, where)
    total = cost.total
    bound = min(least, cost.total)
    if abs(total - found) > _EQUAL * max(1.0, total):
        raise SolverError(f"the search counts {found}, the schedule costs {total}; please report")
    warnings = [*assumed, *cost.warnings]
    if problem.fixed:
        some = ", ".join(name[:60] for name in problem.fixed[:4])
        operators = counted(len(problem.fixed), "operator")
        warnings.append(f"{operators} stay where they are described, as edges list pairs of units: {some}")
    if problem.places.left_out:
        listed = f"{len(problem.places.submeshes):,}"
        left_out = f"{problem.places.left_out:,} submeshes were left out, evenly"
        warnings.append(f"{left_out}: schedule and bound are of {listed}")
    return ChipletSchedule(
        rramalloc_version=__version__,
        description=scheduled,
        cost=cost,
        total=total,
        lower_bound=bound,
        gap=(total - bound) / total if total else 0.0,
        proof=_PROVEN if found <= least * (1 + SAME_SUM) else _BOUNDED,
        baselines=tuple(
            ScheduleBaseline(name=name, total=other, ratio=other / total if total else 1.0)
            for name, other in others.items()
        ),
        options=problem.count,
        left_out=problem.places.left_out,
        seed=seed,
        work=ending.work,
        work_s=search.spent_s,
        set_values=set_texts,
        not_counted=not_counted,
        warnings=tuple(warnings),
    )


def _starts(problem: ScheduleProblem, search: ScheduleSearch) -> tuple[list[GroupSchedule], dict[str, float]]:
    """Return the schedules to search from, and the cost of baselines, which need no search, by name."""
    start = problem.start()
    described = [] if start is None else [GroupSchedule(*start)]
    alone = (
        GroupSchedule([[v] for v in problem.order], list(start[1])) if start else search.greedy(alone=True)
    )
    greedy = search.greedy()
    drawn = median_low(search.total(search.random_schedule()) for _ in range(_RANDOM))
    others = {} if start is None else {"as described": search.total(described[0])}
    others |= {"one group an operator": search.total(alone), "random": drawn, "greedy": search.total(greedy)}
    return [*described, alone, greedy], others
