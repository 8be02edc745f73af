"""Files for PIMSYN: its network JSON and the list of integers for `set_weight_duplication`.

duplication.json holds one integer per OP_CONV node in file order; FC layers are forced to one copy.
Source: PEERS.md; PIMSYN-NN, dse.py, neural_network_parse.py and dataflow_compile.py.
"""

from __future__ import annotations

from typing import Final

from rramalloc.export.bundle import Bundle, ExportedFile, Remark
from rramalloc.export.pimcomp_network import node_list
from rramalloc.export.subject import Subject, is_dilated
from rramalloc.files import to_json
from rramalloc.network.counts import groups_of, kernel_of
from rramalloc.network.node import Concat, Conv, Elementwise, GlobalPool, Linear, Pool, Stage

_TOOL: Final = "PIMSYN"


def export(subject: Subject) -> Bundle:
    """network.json and duplication.json. Raises UnsupportedError."""
    for node in subject.network.nodes:
        shape = subject.network.shapes[node.name]
        timed = isinstance(node, Conv | Pool | GlobalPool | Elementwise | Linear)
        if timed and shape.height != shape.width:
            raise subject.refused(
                node, _TOOL, f"takes the grid for square, this one is {shape.height} x {shape.width}"
            )
    nodes = node_list(subject, _TOOL)
    copies = [subject.copies[name] for name in nodes.index]
    files = (
        ExportedFile(name="network.json", text=to_json(nodes.entries)),
        ExportedFile(name="duplication.json", text=to_json(copies)),
    )
    return Bundle(files, (*nodes.remarks, *_remarks(subject)))


def _demand(subject: Subject, stage: Stage) -> int:
    """Arrays of one copy as PIMSYN counts them: each slice of the weights in arrays of its own."""
    crossbar, kernel = subject.hardware.crossbar, kernel_of(stage)
    rows = kernel[0] * kernel[1] * subject.network.input_shape(stage).channels
    outputs = subject.network.shapes[stage.name].channels
    slices = subject.hardware.slices_per_weight
    return slices * -(-rows // crossbar.wordlines) * -(-outputs // crossbar.bitlines)


def _remarks(subject: Subject) -> list[Remark]:
    crossbar = subject.hardware.crossbar
    remarks = []
    for stage in subject.network.stages:
        theirs, ours = _demand(subject, stage), subject.demand[stage.name]
        if groups_of(stage) > 1:
            text = (
                f"{groups_of(stage)} groups count as a dense convolution: {theirs} arrays a copy, not {ours}"
            )
            remarks.append(Remark(layer=stage.name, kind="changed", text=text))
        elif theirs != ours:
            text = f"{theirs} arrays a copy, not {ours}: each slice of the weights has arrays of its own"
            remarks.append(Remark(layer=stage.name, kind="changed", text=text))
        if is_dilated(stage):
            text = "dilation is not looked at when it finds the pixels that a window needs"
            remarks.append(Remark(layer=stage.name, kind="ignored", text=text))
        if subject.is_fully_connected(stage):
            text = f"stored once on {theirs} arrays, whoever computes it here"
            remarks.append(Remark(layer=stage.name, kind="changed", text=text))
    if any(isinstance(node, Concat) for node in subject.network.nodes):
        text = "a concatenation is passed through: its consumer waits for each of its inputs"
        remarks.append(Remark(layer=None, kind="ignored", text=text))
    if crossbar.wordlines != crossbar.bitlines:
        text = f"its arrays are square, these have {crossbar.wordlines} x {crossbar.bitlines} cells"
        remarks.append(Remark(layer=None, kind="changed", text=text))
    text = (
        f"start it with -size {crossbar.wordlines} -res {crossbar.cell_bits} and pass duplication.json to "
        f"set_weight_duplication in place of the annealing's candidates"
    )
    return [*remarks, Remark(layer=None, kind="note", text=text)]
