"""Filters and inputs of layers whose filters were folded first (docs/sources/companions.md 3)."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from rramalloc.mapping.demand import filter_of
from rramalloc.mapping.fold import UNFOLDED, Fold, fold_input, fold_weights
from rramalloc.network.geometry import Pads, Pair
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Stage

Folds = MappingOf[str, Pair]
"""Pixels (n_h, n_w) folded into one, by layer name; layers left out are as they are."""
NO_FOLDS: Folds = MappingProxyType({})


def fold_for(network: Network, stage: Stage, folds: Folds) -> Fold | None:
    """The fold of a stage, None if it is as it is. Raises SpecError for a dilated kernel."""
    size = folds.get(stage.name, UNFOLDED)
    return None if size == UNFOLDED else Fold.of(filter_of(network, stage), size)


def folded_filters(weights: npt.NDArray[Any], fold: Fold) -> npt.NDArray[Any]:
    """Weights (C_out, C_in of a group, K_h, K_w) as (C_out, channels, K_h', K_w')."""
    return np.moveaxis(fold_weights(np.moveaxis(weights, 1, -1), fold), -1, 1)


def folded_tensor(tensor: npt.NDArray[Any], stage: Stage, fold: Fold) -> npt.NDArray[Any]:
    """A tensor (channels, height, width) with pixels folded into channels, its border included."""
    pads = stage.pads if isinstance(stage, Conv) else Pads(0, 0, 0, 0)
    pixels = fold_input(np.moveaxis(tensor, 0, -1), fold, (pads[0], pads[1], pads[2], pads[3]))
    return np.moveaxis(pixels, -1, 0)
