"""Crossbar demand: the least number of arrays that hold a stage's weights once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from rramalloc.errors import SpecError, UnknownNameError
from rramalloc.hardware.hardware import Crossbar, Hardware
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Stage

Mapping = Literal["im2col", "kernel_split", "whole_kernel"]
MAPPINGS: tuple[Mapping, ...] = get_args(Mapping)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightMatrix:
    """A stage's weights as the crossbar sees them.

    positions: kernel positions K_h * K_w; inputs, outputs: channels of one group;
    columns: bitlines one group takes, outputs * columns per weight; groups: number of groups.
    """

    positions: int
    inputs: int
    outputs: int
    columns: int
    groups: int

    @classmethod
    def of(cls, network: Network, stage: Stage, hardware: Hardware) -> WeightMatrix:
        """The weights of one stage of `network` on `hardware`."""
        channels = network.input_shape(stage).channels
        if isinstance(stage, Conv):
            positions, groups = stage.kernel[0] * stage.kernel[1], stage.groups
            outputs = stage.out_channels // groups
        else:
            positions, groups, outputs = 1, 1, stage.out_features
        return cls(
            positions=positions,
            inputs=channels // groups,
            outputs=outputs,
            columns=outputs * hardware.columns_per_weight,
            groups=groups,
        )

    @property
    def cells(self) -> int:
        """Memristor cells in use when the weights are stored once."""
        return self.positions * self.inputs * self.columns * self.groups


def demand(weights: WeightMatrix, crossbar: Crossbar, mapping: Mapping, where: str) -> int:
    """Arrays that hold `weights` once under a mapping; `where` names the stage in errors.

    Groups that fit one array together share it block-diagonally, in every mapping.
    Raises SpecError if a kernel has more positions than wordlines under `whole_kernel`.
    Source: MODEL.md 3; grouped `kernel_split` and `whole_kernel` follow the rule given for `im2col`.
    """
    match mapping:
        case "im2col":
            return _packed(weights, crossbar, weights.positions * weights.inputs)
        case "kernel_split":
            return weights.positions * _packed(weights, crossbar, weights.inputs)
        case "whole_kernel":
            return _whole_kernel(weights, crossbar, where)
    raise UnknownNameError("mapping", mapping, MAPPINGS)


def demands(network: Network, stages: tuple[Stage, ...], hardware: Hardware, mapping: Mapping) -> list[int]:
    """Demand of each stage, in the order given. Raises SpecError, UnknownNameError."""
    return [
        demand(
            WeightMatrix.of(network, stage, hardware),
            hardware.crossbar,
            mapping,
            f"{network.where}: node {stage.name[:60]!r}",
        )
        for stage in stages
    ]


def _packed(weights: WeightMatrix, crossbar: Crossbar, rows: int) -> int:
    """Groups of `rows` wordlines each, several to an array where they fit whole."""
    high = -(-rows // crossbar.wordlines)
    wide = -(-weights.columns // crossbar.bitlines)
    if weights.groups > 1 and high == wide == 1:
        together = min(crossbar.wordlines // rows, crossbar.bitlines // weights.columns)
        return -(-weights.groups // together)
    return weights.groups * high * wide


def _whole_kernel(weights: WeightMatrix, crossbar: Crossbar, where: str) -> int:
    channels = crossbar.wordlines // weights.positions
    if channels == 0:
        raise SpecError(
            where,
            f"its kernel has {weights.positions} positions, an array has {crossbar.wordlines} wordlines: "
            f"mapping 'whole_kernel' cannot cut a kernel; use 'im2col' or arrays with more wordlines",
        )
    if weights.groups > 1:
        rows = weights.positions * weights.inputs
        if rows <= crossbar.wordlines and weights.columns <= crossbar.bitlines:
            return _packed(weights, crossbar, rows)
    high = -(-weights.inputs // channels)
    return weights.groups * high * -(-weights.columns // crossbar.bitlines)
