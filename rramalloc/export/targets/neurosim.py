"""Files for NeuroSim V1.4: its network CSV and the list of integers for `pipelineSpeedUp`.

NetWork.csv has no header and ends without a line break, since NeuroSim fails on a header and on a blank
last line; H and W are padded because it knows no padding. Chains only. The list replaces `pipelineSpeedUp`
at the end of `ChipDesignInitialize`.
Source: PEERS.md; DNN_NeuroSim_V1.4, NeuroSIM/main.cpp and Chip.cpp.
"""

from __future__ import annotations

from typing import NamedTuple

from rramalloc.export.bundle import Bundle, ExportedFile, Remark
from rramalloc.export.neurosim_floorplan import Floorplan, Matrix
from rramalloc.export.subject import Subject, is_dilated
from rramalloc.files import to_json
from rramalloc.network.counts import kernel_of
from rramalloc.network.node import Conv, Flatten, GlobalPool, Input, Linear, Pixelwise, Pool, Stage

_TOOL = "NeuroSim"
_POOLING = ((2, 2), (2, 2))
"""Kernel and stride of the pooling unit that it counts."""


class _Row(NamedTuple):
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


def export(subject: Subject) -> Bundle:
    """NetWork.csv and pipelineSpeedUp.json. Raises UnsupportedError."""
    rows, remarks = _rows(subject)
    crossbar = subject.hardware.crossbar
    slices = subject.hardware.slices_per_weight
    matrices = [row.matrix for row in rows]
    plan = Floorplan.of(matrices, crossbar.wordlines, crossbar.bitlines, slices)
    if plan is None:
        raise subject.refused(
            None,
            _TOOL,
            f"needs a layer of more than {crossbar.wordlines} columns for its tiles of several arrays of "
            f"{crossbar.wordlines} rows: use smaller arrays",
        )
    copies = [subject.copies.get(row.stage.name, 1) for row in rows]
    for row, wanted, free in zip(rows, copies, plan.free_copies, strict=True):
        if (got := -(-wanted // free) * free) != wanted:
            text = f"{wanted} copies become {got}: a tile has room for {free}, all are used"
            remarks.append(Remark(layer=row.stage.name, kind="rounded", text=text))
    files = (
        ExportedFile(name="NetWork.csv", text="\n".join(",".join(map(str, row[1:])) for row in rows)),
        ExportedFile(name="pipelineSpeedUp.json", text=to_json(copies)),
    )
    return Bundle(files, (*remarks, *_notes(subject, plan)))


def _rows(subject: Subject) -> tuple[list[_Row], list[Remark]]:
    if sum(isinstance(node, Input) for node in subject.network.nodes) > 1:
        raise subject.refused(None, _TOOL, "reads chains only: this network has several inputs")
    rows: list[_Row] = []
    remarks: list[Remark] = []
    for node in subject.network.nodes:
        if len(subject.consumers[node.name]) > 1:
            raise subject.refused(node, _TOOL, "reads chains only: more than one layer reads this one")
        match node:
            case Conv() | Linear():
                rows.append(_row(subject, node))
            case Pool() | GlobalPool():
                remarks += _pooled(subject, node, rows)
            case Input() | Pixelwise() | Flatten():
                pass
            case _:
                raise subject.refused(
                    node, _TOOL, f"reads chains of weight layers and pooling, not {node.op!r}"
                )
    for row in rows:
        if subject.is_fully_connected(row.stage):
            text = "a fully connected layer: stored whoever computes it here"
            remarks.append(Remark(layer=row.stage.name, kind="changed", text=text))
    return rows, remarks


def _row(subject: Subject, stage: Stage) -> _Row:
    source, output = subject.network.input_shape(stage), subject.network.shapes[stage.name]
    kernel, stride, pads = kernel_of(stage), 1, (0, 0, 0, 0)
    if isinstance(stage, Conv):
        if stage.groups > 1:
            raise subject.refused(
                stage, _TOOL, f"has no grouped convolution, this one has {stage.groups} groups"
            )
        if is_dilated(stage):
            raise subject.refused(stage, _TOOL, f"has no dilated convolution, this one has {stage.dilation}")
        if stage.stride[0] != stage.stride[1]:
            shown = f"{stage.stride[0]} x {stage.stride[1]}"
            raise subject.refused(stage, _TOOL, f"has one number for the stride, this one is {shown}")
        stride, pads = stage.stride[0], stage.pads
    height, width = source.height + pads[0] + pads[2], source.width + pads[1] + pads[3]
    return _Row(stage, height, width, source.channels, *kernel, output.channels, 0, stride)


def _pooled(subject: Subject, node: Pool | GlobalPool, rows: list[_Row]) -> list[Remark]:
    """Mark the row before a pooling; what is lost of it."""
    if not rows or rows[-1].pool:
        raise subject.refused(node, _TOOL, "has one pooling at most, behind a weight layer")
    rows[-1] = rows[-1]._replace(pool=1)
    exact = isinstance(node, Pool) and node.op == "maxpool" and (node.kernel, node.stride) == _POOLING
    if exact:
        return []
    text = f"{node.name[:60]!r} ({node.op}) is counted as a maximum over 2 x 2 pixels"
    return [Remark(layer=rows[-1].stage.name, kind="changed", text=text)]


def _notes(subject: Subject, plan: Floorplan) -> list[Remark]:
    crossbar, precision = subject.hardware.crossbar, subject.hardware.precision
    parameters = (
        f"numRowSubArray {crossbar.wordlines}, numColSubArray {crossbar.bitlines}, "
        f"cellBit {crossbar.cell_bits}, pipeline true, novelMapping {str(plan.novel).lower()}"
    )
    texts = []
    if precision.signed == "differential":
        texts.append("a weight is not stored as +/-: it takes half the columns that it takes here")
    texts += [
        "its latency does not fall as 1 / replication: the time of its buffers dominates",
        f"set in Param.cpp: {parameters}",
        f"start it with synapse precision {precision.weight_bits} and input precision {precision.input_bits}",
        "put pipelineSpeedUp.json in place of pipelineSpeedUp at the end of ChipDesignInitialize",
    ]
    return [Remark(layer=None, kind="note", text=text) for text in texts]
