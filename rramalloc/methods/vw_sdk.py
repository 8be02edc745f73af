"""`vw-sdk`: the parallel window of fewest cycles on one array, then copies for the slowest layer.

Source: VW-SDK (Rhe, Moon and Ko, DATE 2022, arXiv 2112.11282), Algorithm 1. It compares im2col and all
parallel windows, h x w inputs for ph x pw neighbouring windows, and takes the one with the fewest

    positions of the window * ceil(C_in / (M // (h * w))) * ceil(C_out / (N // (ph * pw)))

cycles on a single array of M x N. The array holds whole windows of some input channels for some output
channels at a time. Of equal ones the first is taken, im2col before all, then by rising height and width.

Our reading: groups are computed one after the other, or as many at a time as share an array; padding, stride
and dilation enter the number of positions and the inputs of a window. VW-SDK is about one layer on its own; a
network under a budget is served as in `sdk`, with these windows stored whole (docs/sources/model.md 10).
"""

from __future__ import annotations

import numpy as np

from rramalloc.mapping.demand import Storage
from rramalloc.mapping.mode import Mode
from rramalloc.mapping.modes import BlockGrid, input_extents, largest_block, smallest_block
from rramalloc.methods.method import Method
from rramalloc.methods.sdk import cycles, sdk_storage, with_windows
from rramalloc.network.geometry import Pair
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Take the published windows, then copies. Raises UnsupportedError unless mapping is `sdk`."""
    words = "heuristic: VW-SDK's windows, then copies for the slowest layer"
    modes = sdk_storage(problem, "vw-sdk")
    return with_windows(problem, modes, lambda modes, stage: variable_window(modes, stage)[0], words, stop)


VW_SDK = Method(
    "vw-sdk",
    solve,
    minimises="each layer's cycles on one array, then the slowest layer's time",
    source="VW-SDK, DATE 2022",
    needs="sdk",
)


def variable_window(storage: Storage, stage: int) -> tuple[Pair, int]:
    """Return the block that VW-SDK chooses for a stage, and its cycles on a single array."""
    node, (network, hardware) = storage.stages[stage], storage.laid_out
    shape, unit = network.shapes[node.name], smallest_block(node)
    largest = largest_block(node, shape)
    single = storage.of(stage, Mode(*unit))
    crossbar, groups = single.crossbar, single.groups
    best, fewest = unit, cycles(storage, stage, unit)
    high, wide = (input_extents(node, axis, largest[axis])[unit[axis] - 1 :: unit[axis]] for axis in (0, 1))
    inputs = single.rows // int(high[0] * wide[0])
    per_window = single.columns // (unit[0] * unit[1])  # bitlines of all outputs of one window of a group
    weight_columns = hardware.of_layer(node).columns_per_weight
    grid = BlockGrid.of(node, shape, unit)
    height, width = (extent + before for extent, before in zip(shape.grid, grid.phase, strict=True))
    broad = np.arange(1, len(wide) + 1, dtype=np.int64) * unit[1]
    for row, reach in enumerate(high.tolist(), 1):
        tall = row * unit[0]
        pixels, outputs = reach * wide, crossbar.bitlines // (tall * broad * weight_columns)
        fits = (pixels <= crossbar.wordlines) & (outputs >= 1)
        if not fits[0]:
            break
        channels = crossbar.wordlines // pixels[fits]
        parts = -(-inputs // channels) * -(-per_window // (outputs[fits] * weight_columns))
        sharing = np.minimum(
            crossbar.wordlines // (inputs * pixels[fits]),
            crossbar.bitlines // (per_window * tall * broad[fits]),
        )
        turns = np.where(sharing >= 1, -(-groups // np.maximum(sharing, 1)), groups * parts)
        turns *= single.arrays_per_block
        taken = shape.images * -(-height // tall) * -(-width // broad[fits]) * turns
        place = int(taken.argmin())
        if taken[place] < fewest:
            best, fewest = (tall, int(broad[fits][place])), int(taken[place])
    return best, fewest
