"""Files for PIMCOMP: its network JSON, copies per node index, and the part of its config.json that follows.

PIMCOMP has no input for an allocation: `replication_num` of every OP_CONV node is set from replication.json
before it partitions the weights. Its array is logical, one weight per column, and weights lie as in im2col.
Source: PEERS.md; PIMCOMP-NN, backend/Preparation.cpp and WeightReplication.cpp.
"""

from __future__ import annotations

from typing import Any, Final

from rramalloc.export.bundle import Bundle, ExportedFile, Remark
from rramalloc.export.pimcomp_network import NodeList, node_list
from rramalloc.export.subject import Subject
from rramalloc.files import to_json
from rramalloc.network.counts import groups_of, kernel_of
from rramalloc.network.node import Conv, Input, Stage

_TOOL: Final = "PIMCOMP"
_MOST_NODES = 3000
"""Size of the tables in which PIMCOMP counts visits of nodes."""
_ACTIVATIONS = ("OP_RELU", "OP_TANH", "OP_SIGMOID")


def export(subject: Subject) -> Bundle:
    """network.json, replication.json and config.json. Raises UnsupportedError."""
    if sum(isinstance(node, Input) for node in subject.network.nodes) > 1:
        raise subject.refused(None, _TOOL, "starts at one input, this network has several")
    nodes = node_list(subject, _TOOL)
    if len(nodes.entries) > _MOST_NODES:
        raise subject.refused(
            None, _TOOL, f"has room for {_MOST_NODES} nodes, these are {len(nodes.entries)}"
        )
    _check_activations(subject, nodes)
    columns = _logical_columns(subject)
    _check_cores(subject, columns)
    copies = {str(nodes.index[name]): subject.copies[name] for name in nodes.index}
    documents = {
        "network.json": {"node_list": nodes.entries},
        "replication.json": copies,
        "config.json": _config(subject, columns),
    }
    files = tuple(ExportedFile(name=name, text=to_json(text)) for name, text in documents.items())
    return Bundle(files, (*nodes.remarks, *_remarks(subject, columns)))


def _dense_demand(subject: Subject, stage: Stage, columns: int) -> int:
    """Arrays of one copy as PIMCOMP counts them: im2col, a grouped convolution as if it were dense."""
    kernel, channels = kernel_of(stage), subject.network.input_shape(stage).channels
    rows = kernel[0] * kernel[1] * channels
    return -(-rows // subject.hardware.crossbar.wordlines) * _width(subject, stage, columns)


def _width(subject: Subject, stage: Stage, columns: int) -> int:
    """Arrays side by side: one array group, which PIMCOMP keeps in one core."""
    return -(-subject.network.shapes[stage.name].channels // columns)


def _logical_columns(subject: Subject) -> int:
    """Weights that a row of an array holds."""
    bitlines, taken = subject.hardware.crossbar.bitlines, subject.hardware.columns_per_weight
    if taken > bitlines:
        raise subject.refused(
            None, _TOOL, f"counts columns in weights: one takes {taken} bitlines, an array has {bitlines}"
        )
    return bitlines // taken


def _check_activations(subject: Subject, nodes: NodeList) -> None:
    stages = {stage.name: stage for stage in subject.network.stages}
    for entry in nodes.entries:
        if entry["operation"] in _ACTIVATIONS and entry["consumer"]:
            source = entry["provider"][0]
            if source in stages:
                raise subject.refused(
                    stages[source],
                    _TOOL,
                    f"does not return from a weight layer that an activation, {entry['name'][:60]!r}, reads "
                    f"beside or behind another reader: put an identity between them",
                )


def _check_cores(subject: Subject, columns: int) -> None:
    chip = subject.hardware.chip
    if chip is None:
        return
    for stage in subject.network.stages:
        if (wide := _width(subject, stage, columns)) > chip.arrays_per_tile:
            raise subject.refused(
                stage,
                _TOOL,
                f"keeps an array group in one core: this one has {wide} arrays, a core (tile) has "
                f"{chip.arrays_per_tile}",
            )


def _config(subject: Subject, columns: int) -> dict[str, Any]:
    crossbar, chip = subject.hardware.crossbar, subject.hardware.chip
    matrix: dict[str, Any] = {"xbar_size": [crossbar.wordlines, columns]}
    config: dict[str, Any] = {"chip_config": {"core_config": {"matrix_config": matrix}}}
    if chip is not None:
        matrix["xbar_array_count"] = chip.arrays_per_tile
        layout = [chip.tiles[axis] * chip.chips[axis] for axis in (0, 1)]
        config["chip_config"]["network_config"] = {"layout": layout}
    return config


def _remarks(subject: Subject, columns: int) -> list[Remark]:
    remarks, total = [], 0
    for stage in subject.network.stages:
        theirs, ours = _dense_demand(subject, stage, columns), subject.demand[stage.name]
        total += theirs * subject.copies.get(stage.name, 1)
        if isinstance(stage, Conv) and groups_of(stage) > 1:
            text = f"{stage.groups} groups count as a dense convolution: {theirs} arrays a copy, not {ours}"
            remarks.append(Remark(layer=stage.name, kind="changed", text=text))
        elif theirs != ours:
            text = f"{theirs} arrays a copy, not {ours}: weights lie as in im2col, one weight a column"
            remarks.append(Remark(layer=stage.name, kind="changed", text=text))
        if subject.is_fully_connected(stage):
            text = f"stored once on {theirs} arrays, whoever computes it here"
            remarks.append(Remark(layer=stage.name, kind="changed", text=text))
    return [*remarks, *_chip_remarks(subject, total)]


def _chip_remarks(subject: Subject, total: int) -> list[Remark]:
    chip = subject.hardware.chip
    if chip is None:
        text = (
            f"needs {total} arrays; the hardware has no [chip]: xbar_array_count and layout are left out of "
            f"config.json, keep those of the tool"
        )
        return [Remark(layer=None, kind="note", text=text)]
    remarks = []
    if chip.chips != (1, 1):
        text = f"{chip.chips[0]} x {chip.chips[1]} chips are written as one mesh of cores"
        remarks.append(Remark(layer=None, kind="changed", text=text))
    fits = "" if total <= chip.arrays else ": the tool aborts; give it more cores or allocate fewer arrays"
    text = f"needs {total} arrays, the cores have {chip.arrays}{fits}"
    return [*remarks, Remark(layer=None, kind="note", text=text)]
