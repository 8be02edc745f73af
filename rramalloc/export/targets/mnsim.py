"""Files for MNSIM 2.0: fields of SimConfig.ini, and the network and `multiple` as Python literals.

network.py holds `net`, a list of [({...}, None)] per layer, and `multiple`, which both `TCG` and
`Model_latency` must get. Convolution, pooling, element sum and FC are all it knows; weights lie as with our
mapping whole_kernel, and a PE holds all slices of a weight in its crossbar groups.
Source: PEERS.md; MNSIM_Python, Mapping_Model/Tile_connection_graph.py and Latency_Model/Model_latency.py.
"""

from __future__ import annotations

import configparser
import io
import math

from rramalloc.export.bundle import Bundle, ExportedFile, Remark
from rramalloc.export.mnsim_layers import Bits, Layer, layers
from rramalloc.export.subject import Subject
from rramalloc.hardware.hardware import Chip

_TOOL = "MNSIM"


def export(subject: Subject) -> Bundle:
    """SimConfig.ini and network.py. Raises UnsupportedError."""
    bits = _bits(subject)
    found = layers(subject, bits)
    multiple = [layer.copies for layer in found]
    files = (
        ExportedFile(name="SimConfig.ini", text=_config(subject, bits)),
        ExportedFile(name="network.py", text=_python(found, multiple)),
    )
    return Bundle(files, tuple(_remarks(subject, bits, found)))


def _bits(subject: Subject) -> Bits:
    precision = subject.hardware.precision
    polarity = 2 if precision.signed == "differential" else 1
    slices = precision.weight_bits - (polarity - 1)
    if slices < 1:
        raise subject.refused(
            None, _TOOL, f"takes the sign off a weight stored as +/-: {precision.weight_bits} bit is too few"
        )
    return Bits(precision.input_bits, precision.weight_bits, precision.output_bits, polarity, slices)


def _config(subject: Subject, bits: Bits) -> str:
    crossbar, chip = subject.hardware.crossbar, subject.hardware.chip
    config = configparser.ConfigParser()
    config.optionxform = str  # type: ignore[assignment,method-assign]
    config["Device level"] = {"Device_Level": str(2**crossbar.cell_bits)}
    config["Crossbar level"] = {"Xbar_Size": f"{crossbar.wordlines},{crossbar.bitlines}"}
    config["Process element level"] = {"Xbar_Polarity": str(bits.polarity), "Group_Num": str(bits.slices)}
    if chip is not None:
        config["Tile level"] = {"PE_Num": "{},{}".format(*_pes(chip, bits))}
        tiles = [chip.tiles[axis] * chip.chips[axis] for axis in (0, 1)]
        config["Architecture level"] = {"Tile_Num": f"{tiles[0]},{tiles[1]}"}
    text = io.StringIO()
    config.write(text)
    return text.getvalue().rstrip("\n") + "\n"


def _pes(chip: Chip, bits: Bits) -> tuple[int, int]:
    """Processing elements of a tile as (x, y), as square as their number allows."""
    count = max(1, chip.arrays_per_tile // bits.arrays)
    short = next(side for side in range(math.isqrt(count), 0, -1) if count % side == 0)
    return short, count // short


def _python(found: list[Layer], multiple: list[int]) -> str:
    rows = "".join(f"    [({layer.fields!r}, None)],\n" for layer in found)
    return f"net = [\n{rows}]\nmultiple = {multiple!r}\n"


def _remarks(subject: Subject, bits: Bits, found: list[Layer]) -> list[Remark]:
    remarks, pes = [], 0
    for layer in found:
        pes += layer.pes * layer.copies
        if layer.stage is None:
            continue
        ours, theirs = subject.demand[layer.stage], layer.pes * bits.arrays
        if ours != theirs:
            text = f"{layer.pes} PEs of {bits.arrays} arrays, {theirs} arrays a copy, not {ours}"
            remarks.append(Remark(layer=layer.stage, kind="changed", text=text))
        if layer.fields["type"] == "fc":
            text = "one copy, stored in the simulated chip whoever computes it here"
            remarks.append(Remark(layer=layer.stage, kind="changed", text=text))
        elif layer.copies > (width := layer.fields["Outputsize"][1]):
            text = f"copies share the {width} pixels of an output row: {layer.copies - width} of them idle"
            remarks.append(Remark(layer=layer.stage, kind="ignored", text=text))
    return [*remarks, *_general(subject, bits, pes)]


def _general(subject: Subject, bits: Bits, pes: int) -> list[Remark]:
    texts = []
    chip = subject.hardware.chip
    if subject.hardware.crossbar.cell_bits > 1:
        texts.append("a PE has a crossbar group for every bit of a weight, however many bits a cell holds")
    if chip is None:
        texts.append(f"needs {pes} PEs; the hardware has no [chip]: PE_Num and Tile_Num are left out")
    else:
        wide, high = _pes(chip, bits)
        if wide * high * bits.arrays != chip.arrays_per_tile:
            texts.append(
                f"a tile of {chip.arrays_per_tile} arrays is written as {wide} x {high} PEs of {bits.arrays}"
            )
        texts.append(f"needs {pes} PEs, the tiles have {wide * high * chip.tile_count}")
    texts.append("SimConfig.ini has only what follows from the allocation: merge it into the tool's own file")
    texts.append("give `multiple` to both TCG and Model_latency")
    return [Remark(layer=None, kind="note", text=text) for text in texts]
