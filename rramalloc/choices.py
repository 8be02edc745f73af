"""What options can be: the names that calls, files and commands accept, each list in one place."""

from __future__ import annotations

from typing import Literal, get_args

Mapping = Literal["im2col", "kernel_split", "whole_kernel", "sdk"]
"""How weights lie on crossbars (docs/sources/model.md 3)."""
FoldMapping = Literal["im2col", "kernel_split", "whole_kernel", "sdk", "best"]
"""What `fold` lays filters out for; `best` chooses a mapping for every layer."""
FullyConnected = Literal["host", "crossbar"]
"""Who computes linear layers on a 1 x 1 grid: the host, untimed, or arrays."""
Handoff = Literal["next", "same"]
"""Step in which a computed pixel can be used (docs/sources/model.md 4)."""
ObjectiveName = Literal["latency", "interval", "arrays", "energy", "edp", "sequential"]
"""What `optimize` minimises."""
SweptObjective = Literal["latency", "interval", "energy", "edp", "sequential"]
"""What the points of a sweep minimise: those that need no target."""
ComparedObjective = Literal["latency", "energy", "edp"]
"""What `compare` judges methods by."""
FrontObjective = Literal["makespan", "interval", "latency_ns", "energy", "edp", "area"]
"""What `pareto` puts against arrays, or against another quantity."""
FrontAgainst = Literal["arrays", "interval", "latency_ns", "energy", "edp", "area"]
"""What `pareto` puts an objective against."""
NodeNames = Literal["module", "onnx"]
"""What nodes of an ONNX file are named after: PyTorch's modules where the file has them, or its own names."""
FoldRule = Literal["least_work", "source", "least_padding", "height_first", "width_first", "balanced"]
"""How folded pixels are split over height and width (docs/sources/companions.md 3)."""
AuxiliaryLayer = Literal["avgpool", "conv1x1", "conv3x3"]
"""What stands behind a layer whose latency is measured, to make its output small."""
OverheadMethod = Literal["regression", "subtract", "both"]
"""How the overhead of a device is taken off a measured latency."""
RowsFormat = Literal["csv", "parquet"]
"""File with all rows of a sweep."""

MAPPINGS: tuple[Mapping, ...] = get_args(Mapping)
FC_CHOICES: tuple[FullyConnected, ...] = get_args(FullyConnected)
HANDOFFS: tuple[Handoff, ...] = get_args(Handoff)
NODE_NAMES: tuple[NodeNames, ...] = get_args(NodeNames)
OBJECTIVES: tuple[ObjectiveName, ...] = get_args(ObjectiveName)
COMPARED_OBJECTIVES: tuple[ComparedObjective, ...] = get_args(ComparedObjective)
FRONT_AGAINST: tuple[FrontAgainst, ...] = get_args(FrontAgainst)
FRONT_OBJECTIVES: tuple[FrontObjective, ...] = get_args(FrontObjective)
FOLD_RULES: tuple[FoldRule, ...] = get_args(FoldRule)
AUXILIARY_LAYERS: tuple[AuxiliaryLayer, ...] = get_args(AuxiliaryLayer)
