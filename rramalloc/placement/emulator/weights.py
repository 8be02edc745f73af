"""Integer weights and inputs: of an ONNX file, or random by seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal
from zlib import crc32

import numpy as np
import numpy.typing as npt

from rramalloc.mapping.fold import Fold
from rramalloc.network.counts import groups_of, kernel_of
from rramalloc.network.network import Network
from rramalloc.network.node import Input, Stage
from rramalloc.placement.emulator.folded import folded_filters
from rramalloc.placement.emulator.integers import Ints, Width
from rramalloc.placement.emulator.limits import window_rows

Source = Literal["file", "random"]
Real = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Weights:
    """Weights of every layer, made when asked for: equal calls yield equal weights.

    bits: signed, two's complement; given: real or whole weights by layer name, (C_out, C_in / groups, K_h,
    K_w); layers without are random.
    """

    network: Network
    bits: int
    seed: int
    given: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    def source(self, stage: Stage) -> Source:
        """Where a layer's weights come from."""
        return "file" if stage.name in self.given else "random"

    def of(self, stage: Stage) -> npt.NDArray[np.signedinteger[Any]]:
        """Integer weights of a layer, (C_out, C_in / groups, K_h, K_w)."""
        if stage.name in self.given:
            return quantised(self.given[stage.name], self.bits)
        kernel = kernel_of(stage)
        outputs = self.network.shapes[stage.name].channels
        inputs = window_rows(self.network, stage) // (kernel[0] * kernel[1])
        low, high = -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        draw = np.random.default_rng((self.seed, 0, crc32(stage.name.encode())))
        size = (outputs, inputs, *kernel)
        return draw.integers(low, high, size=size, dtype=np.min_scalar_type(low).type, endpoint=True)

    def grouped(self, stage: Stage, fold: Fold | None = None) -> Ints:
        """The same as (groups, outputs of a group, rows of a window), folded or not."""
        weights, groups = self.of(stage), groups_of(stage)
        if fold is not None:
            weights = folded_filters(weights, fold)
        return weights.reshape(groups, len(weights) // groups, -1)


def quantised(weights: npt.NDArray[Any], bits: int) -> npt.NDArray[np.signedinteger[Any]]:
    """Whole numbers of so many bits, in proportion to real weights; whole weights that fit stay."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    kind = np.min_scalar_type(low)
    if weights.dtype.kind in "iu" and weights.min() >= low and weights.max() <= high:
        return weights.astype(kind)
    real = weights.astype(np.float64)
    most = float(np.abs(real).max())
    if most == 0:
        return np.zeros(real.shape, dtype=kind)
    return np.clip(np.rint(real * (max(high, 1) / most)), low, high).astype(kind)


def drawn_input(network: Network, node: Input, width: Width, seed: int, image: int) -> Ints:
    """Random integers of the full width as one input of the network, (channels, height, width)."""
    draw = np.random.default_rng((seed, 2, image, crc32(node.name.encode())))
    return draw.integers(width.low, width.high, size=network.shapes[node.name], endpoint=True, dtype=np.int64)
