"""Files for PIMSYN: its network JSON, the copies for `set_weight_duplication`, and a script that runs it.

duplication.json holds one integer per OP_CONV node in file order; FC layers are forced to one copy. PIMSYN
only has arrays of the sizes and cells of the resolutions for which its config.json has a power.
Source: docs/sources/peers.md; PIMSYN-NN, dse.py, neural_network_parse.py and dataflow_compile.py.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from rramalloc.commands.export.bundle import Bundle, Remark, json_file, remark, run_script
from rramalloc.commands.export.pimcomp_network import node_list
from rramalloc.commands.export.subject import Subject, is_dilated
from rramalloc.network.node import Concat, Conv, Elementwise, GlobalPool, Linear, Pool, Stage
from rramalloc.units import counted

_COMMAND: Final = "python run.py PIMSYN-NN  # a checkout"
_SIZES: Final = (128, 256, 512)
_RESOLUTIONS: Final = (1, 2, 4)
"""Sides of an array and bits of a cell in the table "RRAM" of its config.json; it has every pair."""


def export(subject: Subject) -> Bundle:
    """Export network.json, duplication.json, allocation.json and run.py. Raises UnsupportedError."""
    subject = subject.for_tool("PIMSYN")
    for node in subject.network.nodes:
        shape = subject.network.shapes[node.name]
        timed = isinstance(node, Conv | Pool | GlobalPool | Elementwise | Linear)
        if timed and shape.height != shape.width:
            raise subject.refused(
                f"takes the grid for square, this one is {shape.height} x {shape.width}", node
            )
    nodes = node_list(subject)
    crossbar = subject.hardware.crossbar
    if crossbar.wordlines != crossbar.bitlines or crossbar.wordlines not in _SIZES:
        sizes = ", ".join(f"{side} x {side}" for side in _SIZES)
        raise subject.refused(
            f"has arrays of {sizes}, these have {crossbar.wordlines} x {crossbar.bitlines} cells",
            advise=lambda: list(chain(*subject.on_crossbars(((side, side) for side in _SIZES), export))),
        )
    copies = {
        stage.name: subject.copies[stage.name] if stage.name in nodes.index else 1
        for stage in subject.network.stages
    }
    arrays = {stage.name: copies[stage.name] * _demand(subject, stage) for stage in subject.network.stages}
    bits = subject.hardware.crossbar.cell_bits
    resolution = bits if bits in _RESOLUTIONS else _RESOLUTIONS[-1]
    settings = {
        "size": subject.hardware.crossbar.wordlines,
        "resolution": resolution,
        "config": {
            "weight_res": resolution * subject.hardware.slices_per_weight,
            "data_res": subject.hardware.precision.input_bits,
        },
        "copies": copies,
        "arrays": arrays,
    }
    files = (
        json_file("network.json", nodes.entries, "the network"),
        json_file(
            "duplication.json",
            [copies[name] for name in nodes.index],
            "copies per convolution in file order, for `set_weight_duplication`",
        ),
        json_file(
            "allocation.json",
            settings,
            "array size, resolutions, copies and arrays of every layer, for run.py",
        ),
        run_script(
            "pimsyn", "imports a checkout, compares its counts with ours and prints them and its time"
        ),
    )
    remarks = (*nodes.remarks, *_remarks(subject, resolution, sum(arrays.values())))
    return Bundle(files, remarks, command=_COMMAND)


def _demand(subject: Subject, stage: Stage) -> int:
    """Return the arrays of one copy as PIMSYN counts them: each slice of the weights in arrays of its own."""
    slices = subject.hardware.slices_per_weight
    return slices * subject.dense_arrays(stage, subject.hardware.crossbar.bitlines)


def _remarks(subject: Subject, resolution: int, arrays: int) -> list[Remark]:
    theirs = {stage.name: _demand(subject, stage) for stage in subject.network.stages}
    remarks = subject.counted_otherwise(theirs, "each slice of the weights has arrays of its own")
    for stage in filter(is_dilated, subject.network.stages):
        text = "dilation is not looked at when it finds the pixels that a window needs"
        remarks.append(remark("ignored", text, stage.name))
    if any(isinstance(node, Concat) for node in subject.network.nodes):
        text = "a concatenation is passed through: its consumer waits for each of its inputs"
        remarks.append(remark("ignored", text))
    cell_bits = subject.hardware.crossbar.cell_bits
    if resolution != cell_bits:
        cells = counted(subject.hardware.slices_per_weight, "cell")
        text = f"no cells of {cell_bits} bit: a weight takes {cells} of {resolution} bit"
        remarks.append(remark("changed", text))
    text = f"stores {arrays} arrays; its time is that of the design with the best power efficiency"
    return [*remarks, remark("note", text)]
