"""Files for MNSIM 2.0: a complete SimConfig.ini, the network with its copies, and a script that runs it.

network.py holds `net`, a list of [({...}, None)] per layer with the relative positions of its inputs and
outputs, and `multiple`, which run.py gives to both `TCG` and `Model_latency`. Convolution, pooling, element
sum and FC are all that MNSIM has; weights lie as with our mapping whole_kernel, and a processing element (PE)
holds all slices of a weight in its crossbar groups.
Source: docs/sources/peers.md; MNSIM-2.0, Mapping_Model/Tile_connection_graph.py, Latency_Model/
Model_latency.py and Hardware_Model/*.py.
"""

from __future__ import annotations

import configparser
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from rramalloc.commands.export.bundle import Bundle, ExportedFile, Remark, remark, run_script
from rramalloc.commands.export.subject import Subject, is_dilated
from rramalloc.hardware.tables import factors_of
from rramalloc.network.geometry import Pads, Pair
from rramalloc.network.node import (
    Conv,
    Elementwise,
    Flatten,
    GlobalPool,
    Linear,
    Node,
    Pixelwise,
    Pool,
)
from rramalloc.units import counted

_COMMAND: Final = "python run.py MNSIM-2.0  # a checkout; needs numpy and pandas"
_HIGH_OHM = 1e6
"""Resistance of a cell's lowest level, that of MNSIM's own SimConfig.ini."""
_LOW_OHM = 1e4
"""Resistance of a cell's highest level, that of MNSIM's own SimConfig.ini."""
_MOST_CELL_BITS = 6
"""Most bits of a cell: beyond, the list of resistances, which MNSIM reads once per crossbar, makes
it slow."""
_TILES = (64, 64)  # grid of tiles where the hardware has no [chip]: that of MNSIM's own SimConfig.ini
_PES = (2, 2)
"""PEs of a tile where the hardware has no [chip]: those of MNSIM's own SimConfig.ini."""
_CONVERTERS: Final[Mapping[int | None, str]] = {1: "1", 2: "2", 3: "3", 4: "4", 6: "5", 8: "6"}
"""DAC_Choice by the bits of a converter."""
_ALONG_L = "2"
"""Order in which tiles are taken; it leaves a grid that is not square."""
_SNAKE = "1"
"""Order in which tiles of any grid are taken."""

_SETTINGS: Final[Mapping[str, str]] = {
    "Device level": "Device_Tech=130 Device_Type=NVM Device_Area=1.44 Read_Level=2 Read_Voltage=0,0.15 "
    "Write_Level=2 Write_Voltage=0,3 Read_Latency=3.16 Write_Latency=10 Device_Variation=1 "
    "Device_SAF=0.1,0.1 Read_Energy=1.12e-15 Write_Energy=1.6e-15",
    "Crossbar level": "Cell_Type=1T1R Transistor_Tech=130 Wire_Resistance=-1 Wire_Capacity=-1 "
    "Load_Resistance=-1 Area_Calculation=0",
    "Interface level": "DAC_Choice=1 DAC_Area=0 DAC_Precision=0 DAC_Power=0 DAC_Sample_Rate=0 ADC_Choice=6 "
    "ADC_Area=0 ADC_Precision=0 ADC_Power=0 ADC_Sample_Rate=0 ADC_Interval_Thres=-1 Logic_Op=-1",
    "Process element level": "PIM_Type=0 Sub_Position=0 DAC_Num=128 ADC_Num=128 PE_inBuf_Size=0 "
    "PE_inBuf_Area=0 Tile_outBuf_Size=0 Tile_outBuf_Area=0 DFU_Buf_Size=0 DFU_Buf_Area=0",
    "Digital module": "Digital_Frequency=500 Adder_Tech=45 Adder_Area=0 Adder_Power=0 Multiplier_Tech=45 "
    "Multiplier_Area=0 Multiplier_Power=0 ShiftReg_Tech=65 ShiftReg_Area=0 ShiftReg_Power=0 Reg_Tech=45 "
    "Reg_Area=0 Reg_Power=0 JointModule_Tech=45 JointModule_Area=0 JointModule_Power=0",
    "Tile level": "Pooling_shape=3,3 Pooling_unit_num=64 Pooling_Tech=65 Pooling_area=0 Tile_Adder_Num=0 "
    "Tile_Adder_Level=0 Tile_ShiftReg_Num=0 Tile_ShiftReg_Level=0 Inter_Tile_Bandwidth=20 "
    "Intra_Tile_Bandwidth=1024 Tile_outBuf_Size=0 Tile_outBuf_Area=0 DFU_Buf_Size=0 DFU_Buf_Area=0",
    "Architecture level": "Buffer_Choice=1 Buffer_Technology=90 Buffer_ReadPower=0 Buffer_WritePower=0 "
    "Buffer_Bitwidth=64 LUT_Capacity=1 LUT_Area=0 LUT_Power=0 LUT_Bandwidth=0",
    "Algorithm Configuration": "Weight_Polarity=1 Simulation_Level=0 NoC_enable=0",
}
"""Settings that do not follow from the hardware: every other section and key that MNSIM reads, at its own
value."""


class _Storage(NamedTuple):
    """Layout of weights in a PE, and the grids of PEs and tiles.

    polarity: crossbars of a group, 2 for +/-; cells: that hold the bits of a weight, one group each.
    """

    inputs: int
    outputs: int
    polarity: int
    cells: int
    pes: Pair
    tiles: Pair

    @property
    def arrays(self) -> int:
        """Arrays of a processing element."""
        return self.polarity * self.cells

    @property
    def weight_bits(self) -> int:
        """Weightbit of a layer: MNSIM takes a group for each bit, beside the sign if +/-."""
        return self.cells + self.polarity - 1


@dataclass(frozen=True, slots=True)
class _MnsimLayer:
    """fields: of MNSIM's layer; name: of its node; pes: PEs of a copy, 0 without weights; copies: written."""

    fields: dict[str, Any]
    name: str
    pes: int
    copies: int

    def tiles(self, pes_of_tile: int) -> int:
        """Return the tiles that it takes; a pooling layer has one of its own."""
        return 1 if self.fields["type"] == "pooling" else -(-self.pes * self.copies // pes_of_tile)


def export(subject: Subject) -> Bundle:
    """Export SimConfig.ini, network.py and run.py. Raises UnsupportedError."""
    subject = subject.for_tool("MNSIM", _with_room)
    storage = _storage(subject)
    layers = _layers(subject, storage)
    tiles = sum(layer.tiles(storage.pes[0] * storage.pes[1]) for layer in layers)
    storage = storage._replace(tiles=_tile_grid(subject, storage, tiles))
    arrays = {layer.name: layer.pes * layer.copies * storage.arrays for layer in layers if layer.pes}
    remarks = (
        *_of_layers(subject, storage, layers),
        *_general(subject, storage, sum(arrays.values()), tiles),
    )
    rows = "".join(f"    [({layer.fields!r}, None)],\n" for layer in layers)
    lists = {
        "multiple": [layer.copies for layer in layers],
        "names": [layer.name for layer in layers],
        "arrays": arrays,
    }
    network = f"net = [\n{rows}]\n" + "".join(f"{name} = {value!r}\n" for name, value in lists.items())
    files = (
        ExportedFile(
            name="SimConfig.ini",
            text=_config(subject, storage),
            about="the hardware, complete: what does not follow from ours has MNSIM's own value",
        ),
        ExportedFile(
            name="network.py",
            text=network,
            about="`net` and `multiple` for `TCG` and `Model_latency`; `names` and `arrays` of the layers",
        ),
        run_script("mnsim", "imports a checkout, compares its counts with ours and prints them and its time"),
    )
    return Bundle(files, remarks, command=_COMMAND)


def _storage(subject: Subject) -> _Storage:
    precision = subject.hardware.precision
    chip = subject.hardware.chip
    polarity = 2 if precision.signed == "differential" else 1
    cells = subject.hardware.slices_per_weight
    if chip is None:
        pes = _PES
        tiles = _TILES
    else:
        pes = factors_of(max(1, chip.arrays_per_tile // (polarity * cells)))
        tiles = chip.as_one_grid
    return _Storage(precision.input_bits, precision.output_bits, polarity, cells, pes, tiles)


def _tile_grid(subject: Subject, storage: _Storage, needed: int) -> Pair:
    have = storage.tiles[0] * storage.tiles[1]
    if needed <= have:
        return storage.tiles
    if subject.hardware.chip is None:
        side = math.isqrt(needed - 1) + 1
        return side, side
    per_tile = 1 if subject.hardware.chip is None else subject.hardware.chip.arrays_per_tile
    raise subject.refused(
        f"needs {needed} tiles of {storage.pes[0]} x {storage.pes[1]} PEs of {storage.arrays} arrays, "
        f"the chip has {have}",
        advise=lambda: [
            *subject.on_more_chips(needed * per_tile, lambda _: True),
            *_fitting(subject, storage),
        ],
    )


def _with_room(subject: Subject) -> list[str]:
    """Return remedies for tiles that are too few, as `_fitting`. Raises UnsupportedError."""
    return _fitting(subject, _storage(subject))


def _fitting(subject: Subject, storage: _Storage) -> list[str]:
    """Return remedies for tiles that are too few: allocations whose arrays fit as MNSIM counts them.

    Each layer has tiles of its own, in PEs of all slices and polarities; poolings and classifiers that are
    left to the host take tiles too.
    """
    pes = storage.pes[0] * storage.pes[1]
    others = [layer for layer in _layers(subject, storage) if layer.name not in subject.copies]
    taken = sum(replace(layer, copies=1).tiles(pes) for layer in others)
    values: dict[str, object] = {"crossbar.slices": "arrays"} if storage.cells > 1 else {}
    if storage.polarity > 1:
        values["crossbar.polarities"] = "arrays"
    values |= {"chip.sharing": "layer", "chip.arrays_per_tile": pes * storage.arrays}
    if subject.hardware.counting is not None:
        values |= {"counting.classifiers": "host", "counting.row_blocks": "anywhere"}
    every = (
        subject.allocated_anew("whole_kernel", (tiles - taken) * pes * storage.arrays, values | chips)
        for chips, tiles in subject.growing_chips
    )
    return next(filter(None, every), [])


def _config(subject: Subject, storage: _Storage) -> str:
    crossbar = subject.hardware.crossbar
    level = 2**crossbar.cell_bits if crossbar.cell_bits <= _MOST_CELL_BITS else 2
    lowest = 1 / _HIGH_OHM
    highest = 1 / _LOW_OHM
    ohms = (1 / (lowest + step * (highest - lowest) / (level - 1)) for step in range(level))
    ours = {
        "Device level": {
            "Device_Level": str(level),
            "Device_Resistance": ", ".join(f"{ohm:.6g}" for ohm in ohms),
        },
        "Crossbar level": {
            "Xbar_Size": f"{crossbar.wordlines},{crossbar.bitlines}",
            "Subarray_Size": str(crossbar.wordlines),
        },
        "Process element level": {
            "Xbar_Polarity": str(storage.polarity),
            "Group_Num": str(storage.cells),
        },
        "Tile level": {"PE_Num": "{},{}".format(*storage.pes)},
        "Architecture level": {
            "Tile_Connection": _ALONG_L if storage.tiles[0] == storage.tiles[1] else _SNAKE,
            "Tile_Num": "{},{}".format(*storage.tiles),
        },
    }
    timing = subject.hardware.timing
    chip = subject.hardware.chip
    if timing is not None and timing.read_ns is not None:
        ours["Device level"]["Read_Latency"] = str(timing.read_ns)
    if timing is not None and timing.dac_bits in _CONVERTERS:
        ours["Interface level"] = {"DAC_Choice": _CONVERTERS[timing.dac_bits]}
    if chip is not None and chip.bandwidth_tile_gb_s is not None:
        ours["Tile level"]["Inter_Tile_Bandwidth"] = str(8 * chip.bandwidth_tile_gb_s)
    config = configparser.ConfigParser()
    config.optionxform = str  # type: ignore[assignment,method-assign]
    for section, settings in _SETTINGS.items():
        config[section] = dict(item.split("=") for item in settings.split()) | ours.get(section, {})
    text = io.StringIO()
    config.write(text)
    return text.getvalue().rstrip("\n") + "\n"


def _of_layers(subject: Subject, storage: _Storage, layers: list[_MnsimLayer]) -> list[Remark]:
    remarks = []
    for layer in layers:
        if not layer.pes:
            continue
        ours = subject.demand[layer.name]
        theirs = layer.pes * storage.arrays
        if ours != theirs:
            text = (
                f"{counted(layer.pes, 'PE')} of {storage.arrays} arrays, {theirs} arrays a copy, not {ours}"
            )
            remarks.append(remark("changed", text, layer.name))
        if layer.fields["type"] == "fc":
            text = "one copy, stored in the simulated chip whoever computes it here"
            remarks.append(remark("changed", text, layer.name))
        elif layer.copies < (wanted := subject.copies[layer.name]):
            text = (
                f"{wanted} copies become {layer.copies}: copies share the pixels of an output row, "
                f"more of them only cost time"
            )
            remarks.append(remark("rounded", text, layer.name))
    return remarks


def _general(subject: Subject, storage: _Storage, arrays: int, tiles: int) -> list[Remark]:
    crossbar = subject.hardware.crossbar
    chip = subject.hardware.chip
    rows, columns = storage.pes
    pes = f"{rows} x {columns}"
    places = " x ".join(map(str, storage.tiles))
    texts = [f"stores {arrays} arrays in {tiles} of {places} tiles, {pes} PEs of {storage.arrays} a tile"]
    if crossbar.cell_bits > 1:
        texts.append("Weightbit counts the cells of a weight: a PE has a crossbar group for each")
    if crossbar.cell_bits > _MOST_CELL_BITS:
        texts.append(f"a cell of {crossbar.cell_bits} bit is written with 2 levels: no time depends on them")
    if chip is None:
        texts.append("the hardware has no [chip]: PE_Num and Tile_Num are MNSIM's own")
    elif rows * columns * storage.arrays != chip.arrays_per_tile:
        texts.append(f"a tile of {chip.arrays_per_tile} arrays is written as {pes} PEs of {storage.arrays}")
    return [remark("note", text) for text in texts]


def _layers(subject: Subject, storage: _Storage) -> list[_MnsimLayer]:
    """Return the layers in network order. Raises UnsupportedError for what MNSIM cannot express."""
    standing: dict[str, str | None] = {}  # a node -> the layer whose output it passes on, None: the input
    layers: list[_MnsimLayer] = []
    place = dict[str, int]()
    readers = dict[str, list[int]]()
    for node in subject.network.nodes:
        sources = [standing[name] for name in node.inputs]
        if not sources or isinstance(node, Pixelwise | Flatten):
            standing[node.name] = sources[0] if sources else None
            continue
        index = len(layers)
        if not layers and not isinstance(node, Conv):
            raise subject.refused("needs a convolution as its first layer", node)
        if layers and None in sources:
            raise subject.refused("lets only its first layer read the input of the network", node)
        for source in filter(None, dict.fromkeys(sources)):
            readers[source].append(index - place[source])
        standing[node.name], place[node.name], readers[node.name] = node.name, index, []
        offsets = [-1 if source is None else place[source] - index for source in sources]
        links = {
            "Inputbit": storage.inputs,
            "outputbit": storage.outputs,
            "Weightbit": storage.weight_bits,
            "Inputindex": offsets,
            "Outputindex": readers[node.name],
            "Layerindex": index,
        }
        layers.append(_layer(subject, node, links))
        if layers[-1].fields["type"] == "element_sum":
            # a sum takes its size from the first of its inputs that is no sum, which must have a kernel
            kinds = (layers[index + offset].fields["type"] for offset in offsets)
            if next((kind for kind in kinds if kind != "element_sum"), "fc") == "fc":
                raise subject.refused("needs a convolution or a pooling among the inputs of a sum", node)
    for node in subject.network.nodes:
        if node.name in readers and not readers[node.name] and node.name != layers[-1].name:
            raise subject.refused("looks for the layers behind each one: only the last has none", node)
    # it looks up the reader of the last layer too, unless that is fully connected: here the layer itself
    readers[layers[-1].name].append(int(layers[-1].fields["type"] == "fc"))
    return layers


def _layer(subject: Subject, node: Node, links: dict[str, Any]) -> _MnsimLayer:
    source = subject.network.input_shape(node)
    output = subject.network.shapes[node.name]
    kind = "pooling"
    pes = 0
    copies = 1
    window = dict[str, int]()
    match node:
        case Linear() if subject.network.is_classifier(node):
            pes = _pes(subject, source.channels, output.channels, 1)
            fields = {"type": "fc", "Infeature": source.channels, "Outfeature": output.channels}
            return _MnsimLayer(fields | links, node.name, pes, 1)
        case Conv() | Linear():
            if isinstance(node, Conv):
                subject.check_plain(node)
            window = _square(subject, node, node.kernel, node.stride, Pads(*node.pads))
            positions = node.kernel[0] ** 2
            rows = subject.hardware.crossbar.wordlines
            if positions > rows:
                reason = f"keeps a kernel in one array: {positions} positions, an array has {rows} rows"
                raise subject.refused(reason, node, lambda: subject.larger_crossbar(export, _with_room))
            kind = "conv"
            copies = min(subject.copies[node.name], output.width)
            pes = _pes(subject, source.channels, output.channels, positions)
        case Pool():
            if is_dilated(node):
                raise subject.refused(f"has no dilated pooling, this one has {node.dilation}", node)
            window = _square(subject, node, node.kernel, node.stride, Pads(*node.pads))
        case GlobalPool():
            grid = (source.height, source.width)
            window = _square(subject, node, grid, grid, Pads(0, 0, 0, 0))
        case Elementwise() if node.op == "add" and len(node.inputs) > 1:
            kind = "element_sum"
            if {subject.network.shapes[name] for name in node.inputs} != {output}:
                raise subject.refused("repeats nothing in a sum: all inputs must have one shape", node)
        case _:
            raise subject.refused(f"has no layer for {node.op!r}", node)
    sizes = [[shape.height, shape.width] for shape in (source, output)]
    fields = {"type": kind, "Inputchannel": source.channels, "Inputsize": sizes[0], **window}
    fields |= {"Outputchannel": output.channels, "Outputsize": sizes[1], **links}
    return _MnsimLayer(fields, node.name, pes, copies)


def _pes(subject: Subject, inputs: int, outputs: int, positions: int) -> int:
    """Return the processing elements of one copy; all slices of a weight are in the groups of one."""
    crossbar = subject.hardware.crossbar
    return -(-outputs // crossbar.bitlines) * -(-inputs // (crossbar.wordlines // positions))


def _square(subject: Subject, node: Node, kernel: Pair, stride: Pair, pads: Pads) -> dict[str, int]:
    """Return the kernel, stride and padding as single numbers. Raises UnsupportedError."""
    for what, values in (("kernel", kernel), ("stride", stride), ("padding", pads)):
        if len(set(values)) > 1:
            shown = " x ".join(map(str, values))
            raise subject.refused(f"has one number for the {what}, this one is {shown}", node)
    return {"Kernelsize": kernel[0], "Stride": stride[0], "Padding": pads.top}
