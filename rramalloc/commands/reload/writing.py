"""Time to write the weights of an allocation into its arrays (docs/sources/model.md 13).

The wordlines of an array are written one after another, and so many arrays at the same time as the hardware
has lanes. Arrays with the most wordlines in use come first: a round of lanes lasts as long as its fullest
array. With one lane that is the sum over all arrays, with equal arrays wordlines * ceil(arrays / lanes).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from rramalloc.choices import Mapping
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Write
from rramalloc.mapping.blocks import CopiesSharing, stored
from rramalloc.mapping.demand import WeightMatrix
from rramalloc.mapping.mode import Mode
from rramalloc.network.geometry import Pair
from rramalloc.network.node import Stage
from rramalloc.rounding import SAME_SUM
from rramalloc.timing.simulate import Copies
from rramalloc.timing.stage_graph import StageGraph


@dataclass(frozen=True, eq=False)
class Writing:
    """Writes the stages of one network.

    graph: in any blocks; write: what the hardware says of it; mapping: without folds.
    """

    graph: StageGraph
    hardware: Hardware
    write: Write
    mapping: Mapping
    _known: dict[tuple[int, Pair, int], Counter[int]] = field(default_factory=dict, init=False, repr=False)

    def wordlines(self, blocks: Sequence[Mode], copies: Copies) -> Counter[int]:
        """Return the arrays by the number of their wordlines that are written."""
        arrays: Counter[int] = Counter()
        for stage, count in enumerate(copies.tolist()):
            arrays.update(self.of_stage(stage, blocks[stage].block, count))
        return arrays

    def ns(self, arrays: Counter[int]) -> float:
        """Return the time to write these arrays [ns]."""
        rows = before = 0
        for wordlines in sorted(arrays, reverse=True):
            after = before + arrays[wordlines]
            rounds = -(-after // self.write.lanes) - -(-before // self.write.lanes)
            rows, before = rows + wordlines * rounds, after
        return rows * self.write.write_ns_per_row

    def of_stage(self, stage: int, block: Pair, copies: int) -> Counter[int]:
        """Return the arrays of one stage by the number of their wordlines that are written."""
        key = self.graph.kinds[stage], block, copies
        if key not in self._known:
            self._known[key] = self._of_stage(stage, block, copies)
        return self._known[key]

    def _of_stage(self, stage: int, block: Pair, copies: int) -> Counter[int]:
        weights = self._weights(stage, block)
        if weights is None:
            return Counter()
        held = stored(weights, self.hardware.crossbar, self.mapping, copies, self.graph.names[stage])
        if isinstance(held, CopiesSharing):
            last, planes = len(held) - 1, held.together
            full, rest = held[0].blocks[0].rows, held[last].blocks[0].rows
            return Counter({full: last * planes}) + Counter({rest: planes})
        by_rows = Counter(by_rows.rows for by_rows in held.blocks)
        return Counter({wordlines: copies * count for wordlines, count in by_rows.items()})

    def _weights(self, stage: int, block: Pair) -> WeightMatrix | None:
        """Return the weights of a stage, None of a digital node."""
        node = self.graph.stages[stage]
        if not isinstance(node, Stage):
            return None
        return WeightMatrix.of(self.graph.network, node, self.hardware, block)

    @cached_property
    def least_rows(self) -> tuple[int, ...]:
        """Wordlines of every stage that no allocation undercuts: of one copy of the smallest block."""
        of_stages = [self.of_stage(stage, block, 1) for stage, block in enumerate(self.graph.blocks)]
        return tuple(written_rows(arrays) for arrays in of_stages)

    @cached_property
    def _rows_per_array(self) -> float:
        """Wordlines that an array has in use at least, in the mean of all arrays that a copy adds.

        With blocks copies share arrays: one holds a whole kernel at least, or is one of several of a kernel,
        of which all but the last are full.
        """
        means = []
        for stage, block in enumerate(self.graph.blocks):
            weights = self._weights(stage, block)
            if weights is not None:
                half = self.hardware.crossbar.wordlines / 2
                copy = self.least_rows[stage] / self.of_stage(stage, block, 1).total()
                means.append(min(half, weights.rows) if self.mapping == "sdk" else copy)
        return min(means, default=0.0)

    def floor_ns(self, arrays: int, fewest: int) -> float:
        """Return a time that no allocation with `arrays` arrays undercuts; fewest: those of one copy of each
        stage."""
        rows = float(sum(self.least_rows))
        if self.mapping == "sdk":
            rows = max(rows, arrays * self._rows_per_array)
        else:
            rows += max(0, arrays - fewest) * self._rows_per_array
        return rows / self.write.lanes * self.write.write_ns_per_row * (1 - SAME_SUM)


def written_rows(arrays: Counter[int]) -> int:
    """Return the wordlines of all arrays."""
    return sum(wordlines * count for wordlines, count in arrays.items())
