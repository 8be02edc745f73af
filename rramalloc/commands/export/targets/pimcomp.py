"""Files for PIMCOMP: network JSON, copies and cores per node index, config.json, and a script that runs it.

PIMCOMP has no input for an allocation: run.py sets `replication_num` of the nodes in replication.json before
the tool partitions the weights, and lays array groups in the cores of cores.json. Its array is logical, one
weight per column; weights lie as in im2col, grouped convolutions are dense, classifiers are stored, and an
array group (one row block of a copy) stays in a core.
The tool itself fills core after core in the order of the layers, so that a few cores hold all copies of the
layers with the most reads, and these wait for each other: a core starts one read after another.
Source: docs/sources/peers.md; PIMCOMP-NN, Preparation.cpp, WeightReplication.cpp and HierarchyMapping.cpp in
its folder backend.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rramalloc.allocation.remedies import chip_words, more_chips
from rramalloc.commands.export.bundle import Bundle, Remark, json_file, remark, run_script
from rramalloc.commands.export.pimcomp_network import NodeList, node_list
from rramalloc.commands.export.subject import Subject, is_taken
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.tiles import Tiles
from rramalloc.network.node import Input, Stage

_MOST_NODES = 1000
"""MAX_NODE of configure.h: size of the tables by node."""
_MOST_PATHS = 10_000_000
"""It walks every path from the input to every node before it starts: some seconds and 0.3 GB."""
_MOST_CORES = 1000
"""MAX_CORE of configure.h."""
_MOST_GROUPS = 20_000
"""MAX_AG of configure.h: array groups of all copies."""
_DEFAULT_CORE = 64
"""Arrays of a core in the tool's own config.json, for hardware without [chip]."""
_DEFAULT_SIDE = 12
"""Side of the mesh in the tool's own config.json, for hardware without [chip]."""
TOGETHER = 8
"""Copies of a layer that share a core where they can, as neighbours read many inputs in common: of 1 to 64,
4 and 8 were the fastest in the tool (results/peers.md)."""
_PASSED_THROUGH = ("OP_FLATTEN", "OP_RESHAPE", "OP_DROPOUT", "OP_SOFTMAX", "OP_BN", "OP_LRN")
"""Operations that its schedule skips, so that they cannot be the last."""


class _Cores(NamedTuple):
    """The mesh that is written to config.json."""

    arrays: int
    layout: tuple[int, int]

    @property
    def number(self) -> int:
        return self.layout[0] * self.layout[1]


def export(subject: Subject) -> Bundle:
    """Export network.json, replication.json, config.json, run.json and run.py. Raises UnsupportedError."""
    subject = subject.for_tool("PIMCOMP", _with_room)
    if sum(isinstance(node, Input) for node in subject.network.nodes) > 1:
        raise subject.refused("starts at one input, this network has several")
    nodes = node_list(subject)
    if len(nodes.entries) > _MOST_NODES:
        raise subject.refused(f"has room for {_MOST_NODES} nodes, these are {len(nodes.entries)}")
    _check_paths(subject, nodes)
    last_node = _last_node(subject, nodes)
    columns = _logical_columns(subject)
    groups = [_groups(subject, stage, columns) for stage in subject.network.stages]
    cores = _cores(subject, groups, columns)
    settings = last_node | {"arrays": sum(layer_groups.arrays for layer_groups in groups)}
    laid = spread(groups, cores.number, cores.arrays)
    copies = {str(index): subject.copies[name] for name, index in nodes.index.items()}
    files = [
        json_file("network.json", {"node_list": nodes.entries}, "the network, as its front end writes it"),
        json_file("replication.json", copies, "copies by index of the node"),
        json_file("config.json", _config(subject, columns, cores), "all that it reads of the hardware"),
        json_file(
            "run.json", settings, "the node whose result leaves the chip, and the arrays that it will store"
        ),
        run_script("pimcomp", "builds the tool with inputs for copies and cores, and runs it"),
    ]
    if laid is not None:
        index = (str(nodes.by_name[stage.name]["index"]) for stage in subject.network.stages)
        by_node = dict(zip(index, laid, strict=True))
        files.insert(2, json_file("cores.json", by_node, "core of every array group, by index of the node"))
    command = "python run.py PIMCOMP-NN                          # low latency\n"
    command += "python run.py PIMCOMP-NN --mode high-throughput"
    text = "cores are filled in the order of the layers, as PIMCOMP does: in any other they have no room"
    if laid is not None:
        text = (
            f"up to {TOGETHER} copies of a layer lie in the core that starts the fewest reads (cores.json); "
            f"without that file PIMCOMP fills core after core in the order of the layers"
        )
    remarks = (*nodes.remarks, *_remarks(subject, columns, cores), remark("note", text))
    return Bundle(tuple(files), remarks, command)


def _last_node(subject: Subject, nodes: NodeList) -> dict[str, int]:
    """Return the index and output pixels of the node whose result is written back."""
    by_name = nodes.by_name
    last = [entry for entry in nodes.entries if not entry["consumer"]]
    if len(last) > 1:
        names = ", ".join(repr(entry["name"][:60]) for entry in last[:3])
        raise subject.refused(f"writes one result back, this network has {len(last)}: {names}")
    entry = last[0]
    while entry["operation"] in _PASSED_THROUGH:
        entry = by_name[entry["provider"][0]]
    dims = entry["output_dim"]
    return {"last_node": entry["index"], "last_pixels": dims[2] * dims[3] if len(dims) == 4 else 1}


def _groups(subject: Subject, stage: Stage, columns: int) -> ArrayGroups:
    """Return the groups of a layer, which are stored in cores whoever computes it here."""
    width = -(-subject.network.shapes[stage.name].channels // columns)
    return ArrayGroups(
        copies=subject.copies.get(stage.name, 1),
        blocks=subject.dense_arrays(stage, columns) // width,
        width=width,
        windows=subject.network.shapes[stage.name].pixels,
    )


def _logical_columns(subject: Subject) -> int:
    """Return the weights that a row of an array holds."""
    bitlines = subject.hardware.crossbar.bitlines
    taken = subject.hardware.columns_per_weight
    if taken > bitlines:
        raise subject.refused(
            f"counts columns in weights: one takes {taken} bitlines, an array has {bitlines}",
            advise=lambda: subject.larger_crossbar(export, _with_room),
        )
    return bitlines // taken


def _check_paths(subject: Subject, nodes: NodeList) -> None:
    paths = {entry["name"]: int(not entry["provider"]) for entry in nodes.entries}
    for entry in nodes.entries:
        paths[entry["name"]] += sum(paths[name] for name in entry["provider"])
    if (total := sum(paths.values())) > _MOST_PATHS:
        raise subject.refused(
            f"walks every path from the input to every node: {total:.3g} here, {_MOST_PATHS:.0e} take it "
            f"some seconds"
        )


def _with_room(subject: Subject) -> list[str]:
    """Return remedies for cores that are too few, as `_fitting`. Raises UnsupportedError."""
    return _fitting(subject, _logical_columns(subject))


def _fitting(subject: Subject, columns: int) -> list[str]:
    """Return remedies for cores that are too few: allocations whose arrays fit as PIMCOMP fills its cores.

    columns: weights that a row of an array holds; where a weight may be cut it counts other arrays.
    """
    chip = subject.hardware.chip
    crossbar = subject.hardware.crossbar
    groups = [_groups(subject, stage, columns) for stage in subject.network.stages]
    if crossbar.bitlines % subject.hardware.columns_per_weight:
        return []
    widths = {group.width for group in groups}
    room = max(_DEFAULT_CORE if chip is None else chip.arrays_per_tile, *widths)
    values: dict[str, object] = {"counting.groups": "dense", "counting.classifiers": "stored"}
    values["counting.row_blocks"] = "anywhere" if chip is None else "first_fit"
    if chip is not None:
        values |= {"chip.sharing": "free"} if chip.sharing == "layer" else {}
        values |= {"chip.arrays_per_tile": room}
    side = math.isqrt(_MOST_CORES)
    sizes = iter([({}, side * side)]) if chip is None else subject.growing_chips
    every = (
        subject.allocated_anew(
            "im2col", min(Tiles(cores, room).certain(widths), _MOST_GROUPS), values | chips
        )
        for chips, cores in sizes
        if cores <= _MOST_CORES
    )
    return next(filter(None, every), [])


def _cores(subject: Subject, groups: Sequence[ArrayGroups], columns: int) -> _Cores:
    """Return the cores of the hardware, or a mesh that is large enough. Raises UnsupportedError."""

    def fitting() -> list[str]:
        return _fitting(subject, columns)

    if (total := sum(group.number for group in groups)) > _MOST_GROUPS:
        raise subject.refused(
            f"has room for {_MOST_GROUPS} array groups (row blocks of all copies), these are {total}",
            advise=fitting,
        )
    chip = subject.hardware.chip
    arrays = max(_DEFAULT_CORE, *(group.width for group in groups)) if chip is None else chip.arrays_per_tile
    for stage, group in zip(subject.network.stages, groups, strict=True):
        if group.width > arrays:
            raise subject.refused(
                f"keeps an array group in one core: this one has {group.width} arrays, a core (tile) has "
                f"{arrays}",
                stage,
                lambda: [*_with_larger_cores(subject, max(group.width for group in groups)), *fitting()],
            )
    used = sum(group.arrays for group in groups)
    in_order = [(group.number, group.width) for group in groups]
    if chip is None:
        side = _DEFAULT_SIDE
        while first_fit(in_order, side * side, arrays) is None:
            side += 1
        cores = _Cores(arrays, (side, side))
    else:
        cores = _Cores(arrays, chip.as_one_grid)
    if cores.number > _MOST_CORES:
        raise subject.refused(
            f"has room for {_MOST_CORES} cores, {cores.number} are needed for {used} arrays",
            advise=fitting,
        )
    if first_fit(in_order, cores.number, arrays) is None:
        raise subject.refused(
            f"cannot place this: {used} arrays, each row block of a copy in one core, filled in the order of "
            f"the layers, and classifiers stored, do not fit {cores.number} cores of {arrays}",
            advise=lambda: [
                *subject.on_more_chips(used, lambda hardware: is_taken(export, subject.on(hardware))),
                *fitting(),
            ],
        )
    return cores


def _with_larger_cores(subject: Subject, arrays: int) -> list[str]:
    """Return the remedy of tiles with `arrays` arrays, and of more chips if these are needed."""
    larger = subject.hardware.with_values({"chip.arrays_per_tile": arrays})
    words = f"arrays_per_tile = {arrays}"

    def takes(hardware: Hardware) -> bool:
        return not subject.anew and is_taken(export, subject.on(hardware))

    if not takes(larger):
        machine = more_chips(larger, 1, takes)
        words += "" if machine is None else f", {chip_words(machine).removeprefix('[chip] ')}"
        return [] if machine is None else [subject.exported_on(f"[chip] {words}")]
    return [subject.exported_on(f"[chip] {words}")]


def _config(subject: Subject, columns: int, cores: _Cores) -> dict[str, Any]:
    """Return all fields that its back end reads; it takes the bits of a number from `adc_count`."""
    crossbar = subject.hardware.crossbar
    precision = subject.hardware.precision
    matrix = {
        "xbar_size": [crossbar.wordlines, columns],
        "xbar_array_count": cores.arrays,
        "cell_precision": crossbar.cell_bits,
        "adc_count": precision.input_bits,
    }
    core = {"matrix_config": matrix}
    return {"chip_config": {"core_config": core, "network_config": {"layout": list(cores.layout)}}}


def _remarks(subject: Subject, columns: int, cores: _Cores) -> list[Remark]:
    chip = subject.hardware.chip
    stages = subject.network.stages
    theirs = {stage.name: subject.dense_arrays(stage, columns) for stage in stages}
    remarks = subject.counted_otherwise(theirs, "weights lie as in im2col, one weight a column")
    total = sum(theirs[stage.name] * subject.copies.get(stage.name, 1) for stage in stages)
    if chip is not None and chip.chip_count > 1:
        text = "{} x {} chips are written as one mesh of cores".format(*chip.grid[1])
        remarks.append(remark("changed", text))
    rows, columns = cores.layout
    whose = "the hardware has no [chip]: written as" if chip is None else "the cores are"
    text = f"needs {total} arrays; {whose} {rows} x {columns} cores of {cores.arrays} arrays"
    return [*remarks, remark("note", text)]


# --- cores of array groups


class ArrayGroups(NamedTuple):
    """Groups of arrays of a layer: each copy has `blocks` groups of `width` arrays; windows: of the layer."""

    copies: int
    blocks: int
    width: int
    windows: int

    @property
    def number(self) -> int:
        """Groups of all copies."""
        return self.copies * self.blocks

    @property
    def reads(self) -> float:
        """Reads of each group."""
        return self.windows / self.copies

    @property
    def arrays(self) -> int:
        """Arrays of all copies."""
        return self.number * self.width

    def next_chunk(self, placed: int) -> int:
        """Return the groups to lay together after `placed` ones: the rest of a copy, or TOGETHER copies."""
        if parted := placed % self.blocks:
            return self.blocks - parted
        return min(TOGETHER * self.blocks, self.number - placed)


def first_fit(groups: Iterable[tuple[int, int]], cores: int, arrays: int) -> list[int] | None:
    """Return the arrays left in each core after groups (count, width) in order, None if one has no room."""
    left = [arrays] * cores
    first: dict[int, int] = {}
    for count, width in groups:
        core = first.get(width, 0)
        for _ in range(count):
            while core < cores and left[core] < width:
                core += 1
            if core == cores:
                return None
            left[core] -= width
        first[width] = core
    return left


def spread(layers: Sequence[ArrayGroups], cores: int, arrays: int) -> list[list[int]] | None:
    """Return the core of every group of every layer, copy after copy, so that cores start about as many
    reads.

    TOGETHER copies of a layer go to the core with the fewest reads so far that has room for them; fewer
    where none has, and a copy is parted only where it must be. Layers whose copies have the most reads come
    first (Graham 1969, doi:10.1137/0117039), or those with the largest copies where that leaves a group
    without a place. None if that does too.
    """
    by_reads = sorted(range(len(layers)), key=lambda at: -layers[at].reads)
    by_size = sorted(range(len(layers)), key=lambda at: -layers[at].blocks * layers[at].width)
    return _spread(layers, by_reads, cores, arrays) or _spread(layers, by_size, cores, arrays)


def _spread(
    layers: Sequence[ArrayGroups], order: Sequence[int], cores: int, arrays: int
) -> list[list[int]] | None:
    """Return the core of every group with layers placed in this order, None if they do not fit."""
    left = np.full(cores, arrays)
    reads = np.zeros(cores)
    laid: list[list[int]] = [[] for _ in layers]
    for at in order:
        layer = layers[at]
        placed = laid[at]
        while len(placed) < layer.number:
            room = int(left.max()) // layer.width
            count = min(room, layer.next_chunk(len(placed)))
            if count > layer.blocks:
                count -= count % layer.blocks
            if not count:
                return None
            core = int(np.where(left >= count * layer.width, reads, np.inf).argmin())
            placed += [core] * count
            left[core] -= count * layer.width
            reads[core] += count * layer.reads
    return laid
