"""Crossbar demand: the least number of arrays that hold a stage's weights once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rramalloc.choices import MAPPINGS, Divided, Mapping
from rramalloc.errors import SpecError, UnknownNameError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Crossbar
from rramalloc.mapping.fold import UNFOLDED, Filter, folded_kernel
from rramalloc.mapping.mode import NO_BLOCKS, BlocksByName, LayerArray, Mode, array_of
from rramalloc.mapping.modes import ArrayCount, BlockArrays, breakpoints, input_extent, smallest_block
from rramalloc.mapping.options import DEFAULT_MAPPING, MappingOptions
from rramalloc.ndarrays import Ints
from rramalloc.network.counts import inputs_of
from rramalloc.network.geometry import MAX_PIXELS, Pair
from rramalloc.network.network import Network
from rramalloc.network.node import ConvTranspose, Stage, TimedNode


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightMatrix:
    """A stage's weights as the crossbar sees them.

    positions: input pixels that a copy reads for its block of windows, K_h * K_w for a single window;
    inputs, outputs: channels of one group (outputs: of all windows of the block);
    columns: bitlines one group takes, outputs * columns per weight; groups: number of groups;
    wordlines_per_input, arrays_per_block: as the hardware stores polarities and slices.
    """

    positions: int
    inputs: int
    outputs: int
    columns: int
    groups: int
    wordlines_per_input: int = 1
    arrays_per_block: int = 1

    @classmethod
    def of(
        cls, network: Network, stage: Stage, hardware: Hardware, block: Pair | None = None
    ) -> WeightMatrix:
        """Return the weights of a stage; block: windows that a copy computes in a step.

        By default that is the smallest block that the stage can have.
        Source: docs/sources/model.md 3 and 10.
        """
        high, wide = block or smallest_block(stage)
        groups = 1 if hardware.dense_groups else stage.groups
        outputs = high * wide * stage.outputs // groups
        of_layer = hardware.of_layer(stage)
        return cls(
            positions=input_extent(stage, 0, high) * input_extent(stage, 1, wide),
            inputs=inputs_of(network, stage) // groups,
            outputs=outputs,
            columns=outputs * of_layer.columns_per_weight,
            groups=groups,
            wordlines_per_input=of_layer.wordlines_per_input,
            arrays_per_block=of_layer.arrays_per_block,
        )

    def folded(self, kernel: Pair, size: Pair) -> WeightMatrix:
        """Return these weights, of a kernel (height, width), with (n_h, n_w) pixels folded into inputs."""
        high, wide = folded_kernel(kernel, size)
        return replace(self, positions=high * wide, inputs=size[0] * size[1] * self.inputs)

    @property
    def rows(self) -> int:
        """Wordlines that one group takes."""
        return self.positions * self.inputs * self.wordlines_per_input

    @property
    def cells(self) -> int:
        """Memristor cells in use when the weights are stored once."""
        return self.rows * self.columns * self.groups * self.arrays_per_block

    def on(self, crossbar: Crossbar) -> BlockArrays:
        """Return the layout of copies and groups of these weights on arrays."""
        return BlockArrays(self.rows, self.columns, self.groups, crossbar, self.arrays_per_block)


NO_ARRAYS = (1, 1, 0)
"""Rows, columns and groups of a stage without weights: it has no group; 1 row and column divide safely."""


def block_arrays(network: Network, stage: TimedNode, hardware: LayerArray, block: Pair) -> BlockArrays:
    """Return the wordlines and bitlines that one group of a stage takes with this block."""
    if not isinstance(stage, Stage):
        return BlockArrays(*NO_ARRAYS, hardware.crossbar)
    return WeightMatrix.of(network, stage, hardware, block).on(hardware.crossbar)


def count_of_copies(demand: int) -> ArrayCount:
    """Return the count of copies that share no array; demand: arrays of one copy, 0 of a digital node."""
    return ArrayCount(min(demand, 1), 0, max(demand, 1))


@dataclass(frozen=True, eq=False)
class Storage:
    """Arrays of every mode of the stages of a network on a hardware, in the order of `stages`.

    demand: int64, arrays of one copy of every stage if all keep the graph's block, None if blocks are chosen;
    divide: what copies must be a divisor of, None for any number; options: layout of copies whose bits or
    kinds of arrays are chosen; choices: whether these are chosen; weights: cost of an array of every kind.
    Without a hardware only `demand` is known.
    """

    stages: tuple[TimedNode, ...]
    demand: Ints | None = None
    network: Network | None = None
    hardware: Hardware | None = None
    divide: Divided | None = None
    options: MappingOptions = DEFAULT_MAPPING
    choices: bool = False
    weights: tuple[int, ...] = (1,)
    _known: dict[tuple[str, Mode], BlockArrays] = field(default_factory=dict, repr=False)
    _counts: dict[tuple[int, Mode], ArrayCount] = field(default_factory=dict, repr=False)

    @classmethod
    def of_copies(cls, demand: Ints) -> Storage:
        """Return the storage of stages that choose copies alone, of `demand` arrays each."""
        return cls((), demand)

    @property
    def chooses_blocks(self) -> bool:
        """Whether a stage has several blocks to choose from."""
        return self.demand is None

    @property
    def is_proportional(self) -> bool:
        """Whether any number of copies is allowed and d copies of a stage take d times its `demand`."""
        return self.demand is not None and not self.choices and self.is_chosen_freely

    @property
    def is_chosen_freely(self) -> bool:
        """Whether any number of copies is allowed and takes no arrays beside those that store weights."""
        return self.divide is None and (self.hardware is None or self.hardware.own_tiles is None)

    def with_copies_alone(self, demand: Ints) -> Storage:
        """Return the storage of copies in the graph's blocks, of `demand` arrays; bits, kinds stay free."""
        if self.is_chosen_freely and not self.choices:
            return replace(Storage.of_copies(demand), weights=self.weights)
        return replace(self, demand=demand, _counts={})

    def with_weights(self, weights: tuple[int, ...]) -> Storage:
        """Return the storage with other costs of an array of every kind."""
        return replace(self, weights=weights, _counts={})

    def of_stages(self, stages: tuple[TimedNode, ...], chosen: npt.NDArray[np.bool_]) -> Storage:
        """Return the storage of the stages where the mask `chosen` is True."""
        demand = None if self.demand is None else self.demand[chosen]
        return replace(self, stages=stages, demand=demand, _known={}, _counts={})

    @property
    def laid_out(self) -> tuple[Network, Hardware]:
        """Network and hardware. Raises ValueError where only `demand` is known."""
        if self.network is None or self.hardware is None:
            raise ValueError("nothing says how weights lie on arrays")
        return self.network, self.hardware

    def weight(self, mode: Mode) -> int:
        """Return the cost of an array of the kind of a mode."""
        return self.weights[mode.kind]

    def is_digital(self, mode: Mode) -> bool:
        """Return True if copies of a mode are held by digital units rather than arrays."""
        hardware = self.hardware
        return hardware is not None and hardware.each_kind[mode.kind].processor is not None

    def of(self, stage: int, mode: Mode) -> BlockArrays:
        """Return the lines that a group of a stage takes in a mode. Raises ValueError as `laid_out`."""
        network, hardware = self.laid_out
        node = self.stages[stage]
        key = network.kinds[node.name], mode
        if key not in self._known:
            own = array_of(hardware, node, mode)
            self._known[key] = block_arrays(network, mode.of_stage(node), own, mode.block)
        return self._known[key]

    def count(self, stage: int, mode: Mode) -> ArrayCount:
        """Return the cost of copies by their number, of whole tiles where a tile holds one stage."""
        key = stage, mode
        if key not in self._counts:
            count, hardware = self.count_stored(stage, mode), self.hardware
            chip = None if hardware is None else hardware.own_tiles
            count = count if chip is None else count.in_own_tiles(chip)
            self._counts[key] = count.weighted(self.weight(mode))
        return self._counts[key]

    def count_stored(self, stage: int, mode: Mode) -> ArrayCount:
        """Return the arrays that store the weights of copies, by their number; each copy has a unit."""
        if self.is_digital(mode):
            return count_of_copies(int(isinstance(self.stages[stage], Stage)))
        if self.demand is None:
            return self.of(stage, mode).count
        # Without a hardware `demand` is of the modes at hand, with one of the layer's bits on the first kind.
        if self.hardware is None or not (mode.weight_bits or mode.kind):
            return count_of_copies(int(self.demand[stage]))
        (network, hardware), node = self.laid_out, mode.of_stage(self.stages[stage])
        return count_of_copies(demands(network, [node], array_of(hardware, node, mode), self.options)[0])

    def costs(self, modes: Sequence[Mode], copies: Ints) -> Ints:
        """Return the cost of the arrays that every stage takes, int64."""
        return self._arrays(self.count, modes, copies)

    def taken(self, modes: Sequence[Mode], copies: Ints) -> Ints:
        """Return the arrays that every stage takes, whole tiles where a tile holds one stage; int64."""
        return self.costs(modes, copies) // np.array([self.weight(mode) for mode in modes], dtype=np.int64)

    def stored(self, modes: Sequence[Mode], copies: Ints) -> Ints:
        """Return the arrays that store weights of every stage, int64: without those that fill up tiles."""
        if self.choices and self.hardware is not None and self.hardware.own_tiles is None:
            return self.taken(modes, copies)  # its counts are kept
        return self._arrays(self.count_stored, modes, copies)

    def _arrays(
        self, count_of: Callable[[int, Mode], ArrayCount], modes: Sequence[Mode], copies: Ints
    ) -> Ints:
        if self.is_proportional and self.demand is not None:
            return copies * self.demand
        every = enumerate(zip(modes, copies.tolist(), strict=True))
        return np.array([count_of(i, mode).arrays(count) for i, (mode, count) in every], dtype=np.int64)

    def most_copies(self, modes: Sequence[Mode], arrays: Ints) -> Ints:
        """Return the most copies of every stage that fit `arrays`, its budget in units of cost; int64."""
        if self.is_proportional and self.demand is not None:
            most: Ints = np.where(self.demand > 0, arrays // np.maximum(self.demand, 1), 2**40)
            return most
        every = enumerate(zip(modes, arrays.tolist(), strict=True))
        return np.array([self.count(i, mode).most_copies(held) for i, (mode, held) in every], dtype=np.int64)


def storage_of(
    network: Network,
    stages: tuple[TimedNode, ...],
    hardware: Hardware,
    options: MappingOptions,
    divide: Divided | None = None,
) -> Storage:
    """Return how many arrays each mode of these stages takes. Raises SpecError as `demand`."""
    weights = (1,) * len(hardware.each_kind)
    if options.mapping == "sdk":
        return Storage(stages, None, network, hardware, divide, weights=weights)
    one_copy = np.array(demands(network, stages, hardware.each_kind[0], options), dtype=np.int64)
    # Without tiles of one stage, divisors and kinds the arrays of one copy tell those of any number.
    if hardware.own_tiles is None and divide is None and hardware.kinds is None:
        return Storage.of_copies(one_copy)
    chooses = hardware.kinds is not None
    return Storage(stages, one_copy, network, hardware, divide, options, chooses, weights)


def demand(weights: WeightMatrix, crossbar: Crossbar, mapping: Mapping, where: str) -> int:
    """Return the arrays that store `weights` once under a mapping; `where` names the stage in errors.

    Groups that fit one array together share it block-diagonally, in every mapping.
    Raises SpecError if a kernel has more positions than wordlines under `whole_kernel`.
    Source: docs/sources/model.md 3; grouped `kernel_split` and `whole_kernel` follow the rule of `im2col`.
    """
    if mapping not in MAPPINGS:
        raise UnknownNameError("mapping", mapping, MAPPINGS)
    if mapping == "whole_kernel":
        return _whole_kernel(weights, crossbar, where)
    parts, part = parts_apart(weights, mapping)
    return parts * part.on(crossbar).arrays(1)


def parts_apart(weights: WeightMatrix, mapping: Mapping) -> tuple[int, WeightMatrix]:
    """Return the number of parts into which a mapping cuts the rows, and one part; parts share no array."""
    if mapping == "kernel_split":
        return weights.positions, replace(weights, positions=1)
    return 1, weights


def demands(
    network: Network,
    stages: Sequence[TimedNode],
    hardware: Hardware,
    options: MappingOptions = DEFAULT_MAPPING,
) -> list[int]:
    """Return the arrays of one copy of each stage in its best fold, if options fold; 0 of digital nodes.

    Raises SpecError.
    """
    sizes = folds(network, stages, hardware, options) or [UNFOLDED] * len(stages)
    known: dict[tuple[object, ...], int] = {}  # equal layers are counted once
    arrays = []
    for stage, size in zip(stages, sizes, strict=True):
        if not isinstance(stage, Stage):  # a digital node has no weights
            arrays.append(0)
            continue
        if hardware.processor is not None:  # a copy takes a unit, whatever its weights
            arrays.append(1)
            continue
        key = network.kinds[stage.name], stage.weight_bits, stage.input_bits, size
        if key not in known:
            where = f"{network.where}: node {stage.name[:60]!r}"
            matrix = folded_weights(network, stage, hardware, size)
            known[key] = demand(matrix, hardware.crossbar, options.mapping, where)
        arrays.append(known[key])
    return arrays


def active_lines(
    network: Network, stage: Stage, hardware: LayerArray, options: MappingOptions, block: Pair, copies: int
) -> Pair:
    """Return (wordlines, bitlines) in use of the fullest array that a batch of `copies` reads.

    They hold all groups and all copies that share the array. Source: docs/sources/model.md 11; with
    "kernel_split" and "whole_kernel" the rows of one array.
    """
    crossbar, weights = hardware.crossbar, _mapped_weights(network, stage, hardware, options, block)
    _, weights = parts_apart(weights, options.mapping)
    together = weights.groups * (copies if options.mapping == "sdk" else 1)
    # The first array is the fullest: it holds as many of the groups as share it.
    if shared := min(weights.on(crossbar).sharing, together):
        return shared * weights.rows, shared * weights.columns
    rows = weights.rows
    if options.mapping == "whole_kernel":
        rows = min(rows, crossbar.wordlines // weights.positions * weights.positions)
    return min(rows, crossbar.wordlines), min(weights.columns, crossbar.bitlines)


def _mapped_weights(
    network: Network, stage: Stage, hardware: Hardware, options: MappingOptions, block: Pair
) -> WeightMatrix:
    """Return the weights of a stage in the layout of a mapping, in its best fold if options fold."""
    if options.mapping in ("im2col", "sdk"):
        return WeightMatrix.of(network, stage, hardware, block)
    (size,) = folds(network, [stage], hardware, options) or [UNFOLDED]
    return folded_weights(network, stage, hardware, size)


def lines_of_copy(
    network: Network, stage: Stage, hardware: LayerArray, options: MappingOptions, block: Pair
) -> Pair:
    """Return (wordlines, bitlines) in use, summed over all arrays that hold one copy.

    Copies that share an array use as many lines as copies on arrays of their own. Source:
    docs/sources/model.md 12.
    """
    crossbar, weights = hardware.crossbar, _mapped_weights(network, stage, hardware, options, block)
    parts, weights = parts_apart(weights, options.mapping)
    high, wide = -(-weights.rows // crossbar.wordlines), -(-weights.columns // crossbar.bitlines)
    if options.mapping == "whole_kernel" and high > 1:
        # Cuts between channels: every array but the last holds whole kernels of as many channels as fit.
        high = -(-weights.inputs * weights.wordlines_per_input // (crossbar.wordlines // weights.positions))
    held = parts * weights.groups * weights.arrays_per_block
    return held * weights.rows * wide, held * weights.columns * high


def copies_of_full_array(network: Network, stage: Stage, hardware: LayerArray, block: Pair) -> int:
    """Return the copies that fill the first array with mapping "sdk": more read no more lines of an array."""
    arrays = block_arrays(network, stage, hardware, block)
    return max(1, -(-arrays.sharing // arrays.groups))


def stored_classifiers(
    network: Network,
    stages: Sequence[TimedNode],
    hardware: Hardware,
    options: MappingOptions = DEFAULT_MAPPING,
) -> dict[str, int]:
    """Return the arrays of weight layers outside `stages` that the hardware also stores, by name.

    Empty unless the hardware's [counting] stores classifiers. Raises SpecError.
    """
    if hardware.counting is None or hardware.counting.classifiers == "host":
        return {}
    timed = {stage.name for stage in stages}
    left = [stage for stage in network.stages if stage.name not in timed]
    return dict(zip((stage.name for stage in left), once(network, left, hardware, options), strict=True))


def least_arrays(
    network: Network,
    stages: Sequence[TimedNode],
    hardware: Hardware,
    options: MappingOptions = DEFAULT_MAPPING,
) -> int:
    """Return the arrays that store every stage and every stored classifier once. Raises as `once`."""
    stored = stored_classifiers(network, stages, hardware, options)
    return sum(once(network, stages, hardware, options)) + sum(stored.values())


def once(
    network: Network, stages: Sequence[TimedNode], hardware: Hardware, options: MappingOptions
) -> list[int]:
    """Return the arrays of one copy of each stage, as [chip] sharing counts them. Raises SpecError."""
    modes = storage_of(network, tuple(stages), hardware, options)
    blocks, ones = [Mode(*smallest_block(stage)) for stage in stages], np.ones(len(stages), dtype=np.int64)
    return [int(arrays) for arrays in modes.costs(blocks, ones)]


def row_block_widths(
    network: Network, hardware: Hardware, blocks: BlocksByName = NO_BLOCKS
) -> dict[str, int] | None:
    """Return the arrays side by side in a row block of each weight layer, timed or not, by name.

    They must share a tile; None if the hardware's [counting] lets them lie anywhere. blocks: windows that a
    copy computes in a step.
    Raises SpecError for a row block wider than a tile.
    """
    if hardware.counting is None or hardware.counting.row_blocks == "anywhere" or hardware.chip is None:
        return None
    bitlines, room = hardware.crossbar.bitlines, hardware.chip.arrays_per_tile
    stored = {
        stage.name: WeightMatrix.of(network, stage, hardware, blocks.get(stage.name))
        for stage in network.stages
    }
    widths = {
        name: -(-matrix.columns // bitlines) * matrix.arrays_per_block for name, matrix in stored.items()
    }
    widest = max(widths, key=lambda name: widths[name])
    if widths[widest] > room:
        raise SpecError(
            f"hardware {hardware.name[:60]!r}",
            f"a row block of layer {widest[:60]!r} is {widths[widest]} arrays wide and must lie in one tile "
            f"of {room}: write [chip] arrays_per_tile = {widths[widest]}, or more",
        )
    return widths


def folds(
    network: Network, stages: Sequence[TimedNode], hardware: Hardware, options: MappingOptions
) -> list[Pair] | None:
    """Return for each stage the pixels (n_h, n_w) to fold into one for the fewest arrays, (1, 1) for no fold.

    None unless the options ask for folds. Of folds with equally few arrays the one with the least work wins:
    fewest zeros added to the kernel, then fewest pixels folded, then most of them on width.
    Source: docs/sources/companions.md 3.
    """
    if not options.fold:
        return None
    return [
        _fewest_arrays(WeightMatrix.of(network, stage, hardware), stage.kernel, hardware.crossbar)
        if isinstance(stage, Stage) and fold_refusal(network, stage) is None
        else UNFOLDED
        for stage in stages
    ]


def folded_weights(network: Network, stage: Stage, hardware: Hardware, size: Pair) -> WeightMatrix:
    """Return the weights of a stage with size = (n_h, n_w) pixels folded into one; (1, 1) folds nothing."""
    matrix = WeightMatrix.of(network, stage, hardware)
    return matrix if size == UNFOLDED else matrix.folded(stage.kernel, size)


def fold_refusal(network: Network, stage: Stage) -> str | None:
    """Return the reason why a stage cannot be folded, None if it can."""
    if isinstance(stage, ConvTranspose):
        return "it is a transposed convolution: only convolutions and linear layers are folded"
    if stage.kernel[0] * stage.kernel[1] > MAX_PIXELS:
        return f"the kernel has more than {MAX_PIXELS} positions: too many to look for a fold"
    return filter_of(network, stage).refusal


def filter_of(network: Network, stage: Stage) -> Filter:
    """Return the weights of a stage as a filter; a linear layer has a kernel of one pixel."""
    return Filter(
        outputs=stage.outputs,
        kernel=stage.kernel,
        inputs=inputs_of(network, stage) // stage.groups,
        stride=stage.stride,
        dilation=stage.dilation,
        groups=stage.groups,
    )


@lru_cache(maxsize=4096)
def _fewest_arrays(weights: WeightMatrix, kernel: Pair, crossbar: Crossbar) -> Pair:
    """Return the fold with the fewest arrays.

    A fold that is no breakpoint of the kernel has more inputs and a folded kernel of the same length, so it
    takes no fewer arrays and is not tried.
    """

    def cost(size: Pair) -> tuple[int, int, int, int]:
        folded = weights.folded(kernel, size)
        arrays = demand(folded, crossbar, "kernel_split", "")
        return arrays, folded.positions * folded.inputs, size[0] * size[1], size[0]

    heights, widths = (breakpoints(length, length).tolist() for length in kernel)
    return min(itertools.product(heights, widths), key=cost)


def _whole_kernel(weights: WeightMatrix, crossbar: Crossbar, where: str) -> int:
    """Return the arrays of mapping "whole_kernel", which cuts rows between input channels only."""
    channels = crossbar.wordlines // weights.positions
    if channels == 0:
        raise SpecError(
            where,
            f"its kernel has {weights.positions} positions, an array has {crossbar.wordlines} wordlines: "
            f"mapping 'whole_kernel' cannot cut a kernel; use 'im2col' or arrays with more wordlines",
        )
    if weights.groups > 1:  # groups that fit an array together share it, as with "im2col"
        together = weights.on(crossbar)
        if together.sharing:
            return together.arrays(1)
    high = -(-weights.inputs * weights.wordlines_per_input // channels)
    return weights.groups * high * -(-weights.columns // crossbar.bitlines) * weights.arrays_per_block
