"""Files for NeuroSim V1.4 and V1.5: the network CSV, copies for `pipelineSpeedUp`, a script that runs it.

NetWork.csv has no header and ends without a line break, since NeuroSim fails on a header and on a blank
last line; H and W are padded because it has none. Chains, or with `layers_only` the layers of any network, as
NeuroSim V1.4 ships a list of those of DenseNet-40: nothing that joins them is timed. It makes every copy that
fits the tiles of a layer, whether asked for or not: it chooses sizes of tiles and processing elements (PEs),
powers of two, for the best use of their cells. With "novel mapping" the layers of the commonest kernel size
have a PE per kernel position, the others lie as one matrix ("conventional mapping").
V1.5 has the floor plan of V1.4; its traces and its values of devices are others, which run.py minds.
Source: docs/sources/peers.md; DNN_NeuroSim_V1.4, NeuroSIM/main.cpp and Chip.cpp: ChipDesignInitialize,
ChipFloorPlan, TileDesign*, PEDesign, SubArrayDup, OverallEachLayer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, NamedTuple

from rramalloc.commands.export.bundle import Bundle, ExportedFile, Remark, json_file, remark, run_script
from rramalloc.commands.export.subject import Subject, is_taken
from rramalloc.network.node import (
    Conv,
    ConvTranspose,
    Flatten,
    GlobalPool,
    Input,
    Linear,
    Pixelwise,
    Pool,
    Recurrent,
    Stage,
)

_COMMAND: Final = "python run.py NEUROSIM  # a checkout of V1.4 or V1.5; needs make and g++"
_POOLING = ((2, 2), (2, 2))
"""Kernel and stride of the pooling unit that it counts."""


class _LayerRow(NamedTuple):
    """One line of the CSV. height, width: of the padded input; pool: 0 or 1."""

    stage: Stage
    height: int
    width: int
    inputs: int
    kernel_h: int
    kernel_w: int
    outputs: int
    pool: int
    stride: int

    @property
    def matrix(self) -> Matrix:
        """Its weights, as the floor plan sees them."""
        return Matrix(self.inputs, self.kernel_h * self.kernel_w, self.outputs)


_LEAST_PE = 2
"""Least side of a PE, in rows of an array."""
_LEAST_TILE = 4
"""Least side of a tile, in rows of an array."""


class Matrix(NamedTuple):
    """Weights of a layer: input channels, kernel positions, output channels."""

    inputs: int
    positions: int
    outputs: int


class _Block(NamedTuple):
    rows: int
    columns: int


class _Place(NamedTuple):
    """free_copies: that fit the tiles of a single copy; tiles: of a single copy; arrays: of a tile."""

    free_copies: int
    tiles: int
    arrays: int


def export(subject: Subject) -> Bundle:
    """Export NetWork.csv, pipelineSpeedUp.json, settings.json and run.py. Raises UnsupportedError."""
    subject = subject.for_tool("NeuroSim")
    rows, remarks = _rows(subject)
    crossbar = subject.hardware.crossbar
    precision = subject.hardware.precision
    slices = subject.hardware.slices_per_weight
    plan = Floorplan.of([row.matrix for row in rows], crossbar.wordlines, crossbar.bitlines, slices)
    if plan is None:
        rows_left = (crossbar.wordlines >> halved for halved in range(1, crossbar.wordlines.bit_length()))
        shorter = ((wordlines, crossbar.bitlines) for wordlines in rows_left)
        raise subject.refused(
            f"needs a layer of more than {crossbar.wordlines} columns for its tiles of several arrays of "
            f"{crossbar.wordlines} rows",
            advise=lambda: next(subject.on_crossbars(shorter, export), []),
        )
    copies = [subject.copies.get(row.stage.name, 1) for row in rows]
    made = plan.copies_made(copies)
    tiles = plan.tiles_taken(copies)
    for row, wanted, got, free in zip(rows, copies, made, plan.free_copies, strict=True):
        if got != wanted:
            text = f"{wanted} copies become {got}: a tile has room for {free}, all are used"
            remarks.append(remark("rounded", text, row.stage.name))
    arrays = [count * size for count, size in zip(tiles, plan.arrays_per_tile, strict=True)]
    settings = {
        "parameters": {
            "memcelltype": 2,
            "numRowSubArray": crossbar.wordlines,
            "numColSubArray": crossbar.bitlines,
            "cellBit": crossbar.cell_bits,
            "novelMapping": plan.novel,
            "pipeline": True,
        },
        "weight_bits": precision.weight_bits,
        "input_bits": precision.input_bits,
        "rows_parallel": crossbar.wordlines,
        "layers": [row.stage.name for row in rows],
        "copies": made,
        "tiles": tiles,
        "arrays": arrays,
        "arrays_per_tile": plan.arrays_per_tile,
    }
    files = (
        ExportedFile(
            name="NetWork.csv",
            text="\n".join(",".join(map(str, row[1:])) for row in rows),
            about="the layers: padded height and width, channels, kernel, pooling, stride",
        ),
        json_file("pipelineSpeedUp.json", copies, "copies asked for, one integer per layer"),
        json_file(
            "settings.json",
            settings,
            "values of Param.cpp, arguments of `main`, and the copies, tiles and arrays that follow",
        ),
        run_script(
            "neurosim", "edits and builds a copy of a checkout, runs it and compares its counts with ours"
        ),
    )
    return Bundle(files, (*remarks, *_notes(subject, sum(arrays), sum(tiles))), command=_COMMAND)


def _rows(subject: Subject) -> tuple[list[_LayerRow], list[Remark]]:
    if subject.layers_only:
        return _rows_of_any(subject)
    network = subject.network
    if sum(isinstance(node, Input) for node in network.nodes) > 1:
        raise subject.refused(
            "reads chains only: this network has several inputs", advise=_as_layers(subject)
        )
    rows: list[_LayerRow] = []
    remarks: list[Remark] = []
    for node in network.nodes:
        if len(network.consumers[node.name]) > 1:
            raise subject.refused(
                "reads chains only: more than one layer reads this one", node, _as_layers(subject)
            )
        match node:
            case Linear() if node.name not in subject.copies:
                remarks.append(remark("ignored", "left to the host: not in NetWork.csv", node.name))
            case Conv() | Linear():
                rows.append(_row(subject, node))
            case Pool() | GlobalPool():
                if not rows or rows[-1].pool:
                    raise subject.refused("has one pooling at most, behind a weight layer", node)
                rows[-1] = rows[-1]._replace(pool=1)
                if node.op != "maxpool" or (node.kernel, node.stride) != _POOLING:
                    text = f"{node.name[:60]!r} ({node.op}) is counted as a maximum over 2 x 2 pixels"
                    remarks.append(remark("changed", text, rows[-1].stage.name))
            case Input() | Pixelwise() | Flatten():
                pass
            case _:
                raise subject.refused(
                    f"reads chains of weight layers and pooling, not {node.op!r}", node, _as_layers(subject)
                )
    return rows, remarks


def _as_layers(subject: Subject) -> Callable[[], list[str]]:
    """Return a function that returns --layers-only as remedy if NeuroSim takes the list of layers."""
    of_layers = replace(subject, layers_only=True, is_tried=True)
    return lambda: ["export with --layers-only"] if is_taken(export, of_layers) else []


def _rows_of_any(subject: Subject) -> tuple[list[_LayerRow], list[Remark]]:
    """Return the layers of any network, in its order, and remarks on operators that NeuroSim leaves out."""
    network = subject.network
    nodes = {node.name: node for node in network.nodes}
    rows = dict[str, _LayerRow]()
    remarks: list[Remark] = []
    for node in network.nodes:
        match node:
            case Linear() if node.name not in subject.copies:
                remarks.append(remark("ignored", "left to the host: not in NetWork.csv", node.name))
            case Conv() | Linear():
                rows[node.name] = _row(subject, node)
            case ConvTranspose() | Recurrent():
                raise subject.refused(f"reads convolutions and linear layers, not {node.op!r}", node)
            case Pool() | GlobalPool():
                source = nodes[node.inputs[0]]
                while isinstance(source, Pixelwise):
                    source = nodes[source.inputs[0]]
                row = rows.get(source.name)
                text = f"{node.op} takes no time: it stands behind no layer, or behind another pooling"
                if row is not None and not row.pool:
                    rows[source.name] = row._replace(pool=1)
                    text = f"{node.op} behind {source.name[:60]!r} is counted as a maximum over 2 x 2 pixels"
                remarks.append(remark("changed", text, node.name))
            case Input() | Flatten() | Pixelwise():
                pass
            case _:
                text = f"{node.op} takes no time: NeuroSim has layers alone"
                remarks.append(remark("ignored", text, node.name))
    text = "layers alone: additions, concatenations and all else that joins them take no time"
    remarks.append(remark("note", text))
    return list(rows.values()), remarks


def _row(subject: Subject, stage: Conv | Linear) -> _LayerRow:
    source = subject.network.input_shape(stage)
    output = subject.network.shapes[stage.name]
    if isinstance(stage, Conv):
        subject.check_plain(stage)
    if stage.stride[0] != stage.stride[1]:
        shown = f"{stage.stride[0]} x {stage.stride[1]}"
        raise subject.refused(f"has one number for the stride, this one is {shown}", stage)
    pads = stage.pads
    height = source.height + pads[0] + pads[2]
    width = source.width + pads[1] + pads[3]
    return _LayerRow(
        stage, height, width, source.channels, *stage.kernel, output.channels, 0, stage.stride[0]
    )


def _notes(subject: Subject, arrays: int, tiles: int) -> list[Remark]:
    texts = [f"builds {arrays} arrays in {tiles} tiles, more than it uses"]
    if subject.hardware.precision.signed == "differential":
        texts.append("a weight is not stored as +/-: it takes half the columns that it takes here")
    texts += [
        "its figure is the pipeline's cycle per image, the time of the slowest layer",
        "its time does not fall as 1 / copies: the time of its buffers dominates",
        "weights and inputs are random; a few input vectors stand for all unless `--vectors` says more",
    ]
    return [remark("note", text) for text in texts]


@dataclass(frozen=True, slots=True)
class Floorplan:
    """NeuroSim's placement of layers in tiles.

    novel: whether it uses novel mapping; by layer, free_copies: copies that fit the tiles of a single one;
    tiles: of a single copy; arrays_per_tile: of that layer's tiles.
    """

    novel: bool
    free_copies: tuple[int, ...]
    tiles: tuple[int, ...]
    arrays_per_tile: tuple[int, ...]

    @classmethod
    def of(cls, layers: Sequence[Matrix], wordlines: int, bitlines: int, slices: int) -> Floorplan | None:
        """Return the floorplan of novel mapping, NeuroSim's default, else of conventional mapping, else None.

        slices: columns of a weight. A mapping cannot be built if its largest square is below the least one.
        """
        novel = _novel(layers, wordlines)
        side = max((_raised(layers[i].outputs * slices) for i in novel), default=0)
        if side < _LEAST_PE * wordlines:
            novel = frozenset()
            if max(_raised(layer.outputs * slices) for layer in layers) < _LEAST_TILE * wordlines:
                return None
        arrays = _Block(wordlines, bitlines)
        unsplit = [
            _Block(m.inputs * m.positions, m.outputs * slices) for i, m in enumerate(layers) if i not in novel
        ]
        split = [_Block(m.inputs, m.outputs * slices) for i, m in enumerate(layers) if i in novel]
        positions = next((layers[i].positions for i in novel), 0)
        conventional = iter(_conventional(unsplit, arrays))
        by_position = iter(_by_position(split, arrays, positions))
        places = [next(by_position if i in novel else conventional) for i in range(len(layers))]
        free, tiles, sizes = zip(*places, strict=True)
        return cls(bool(novel), free, tiles, sizes)

    def copies_made(self, wanted: Sequence[int]) -> list[int]:
        """Return the number of copies that NeuroSim makes when asked for as many."""
        return [-(-copies // free) * free for copies, free in zip(wanted, self.free_copies, strict=True)]

    def tiles_taken(self, wanted: Sequence[int]) -> list[int]:
        """Return the tiles of each layer when NeuroSim is asked for as many copies."""
        made = zip(self.copies_made(wanted), self.free_copies, self.tiles, strict=True)
        return [copies // free * tiles for copies, free, tiles in made]


def _novel(layers: Sequence[Matrix], wordlines: int) -> frozenset[int]:
    """Return the layers of the commonest kernel size above 1, first of equals, that fill an array's rows."""
    counts = Counter(layer.positions for layer in layers if layer.positions > 1)
    positions = max(counts, key=lambda size: counts[size]) if counts else 1
    return frozenset(
        index
        for index, layer in enumerate(layers)
        if layer.positions == positions and layer.inputs * positions >= wordlines
    )


def _by_position(blocks: Sequence[_Block], arrays: _Block, positions: int) -> list[_Place]:
    """Return the places of blocks in the PEs of novel mapping, a tile of one PE per kernel position."""
    if not blocks:
        return []
    side = _best(_widest(blocks), _LEAST_PE * arrays.rows, Fraction(0), lambda side: _use(blocks, side))[0]
    size = positions * _arrays(side, arrays)
    return [_Place(_copies(block, side, arrays), _tiles([block], side), size) for block in blocks]


def _conventional(blocks: Sequence[_Block], arrays: _Block) -> list[_Place]:
    """Return the places of blocks in tiles of PEs of arrays."""
    if not blocks:
        return []
    least = _LEAST_TILE * arrays.rows
    tile, use = _best(_widest(blocks), least, Fraction(0), lambda side: _use(blocks, side))
    cells = _tiles(blocks, tile) * tile * tile

    def use_of_pes(side: int) -> Fraction:
        held = sum(_copies(block, tile, _Block(side, side)) * block.rows * block.columns for block in blocks)
        return Fraction(held, cells)

    pe = _best(tile // 2, _LEAST_PE * arrays.rows, use, use_of_pes)[0]
    size = (tile // pe) ** 2 * _arrays(pe, arrays)
    return [
        _Place(_copies(block, tile, _Block(pe, pe)) * _copies(block, pe, arrays), _tiles([block], tile), size)
        for block in blocks
    ]


def _widest(blocks: Sequence[_Block]) -> int:
    """Return the columns of the widest block, as a power of two."""
    return max(_raised(block.columns) for block in blocks)


def _arrays(side: int, arrays: _Block) -> int:
    """Return the arrays of a PE."""
    return -(-side // arrays.rows) * -(-side // arrays.columns)


def _best(start: int, least: int, use: Fraction, use_of: Callable[[int], Fraction]) -> tuple[int, Fraction]:
    """Return the side with the highest use among start, start / 2 ... above `least`, and that use.

    Of equal ones the larger wins; `start`, at least `least`, if none is used better than `use`.
    """
    best = side = max(start, least)
    while side > least:
        if (candidate := use_of(side)) > use:
            best = side
            use = candidate
        side //= 2
    return best, use


def _tiles(blocks: Sequence[_Block], side: int) -> int:
    return sum(-(-block.rows // side) * -(-block.columns // side) for block in blocks)


def _use(blocks: Sequence[_Block], side: int) -> Fraction:
    """Return the share of the cells in use when blocks lie in squares of `side`."""
    cells = sum(block.rows * block.columns for block in blocks)
    return Fraction(cells, _tiles(blocks, side) * side * side)


def _copies(block: _Block, side: int, unit: _Block) -> int:
    """Return the copies of a block in a square made of units, 1 if it is larger than that both ways."""
    if block.rows > side and block.columns > side:
        return 1
    down = -(-side // unit.rows) // -(-block.rows // unit.rows)
    across = -(-side // unit.columns) // -(-block.columns // unit.columns)
    return max(1, down) * max(1, across)


def _raised(value: int) -> int:
    """Return the next power of two."""
    return 1 << (value - 1).bit_length()
