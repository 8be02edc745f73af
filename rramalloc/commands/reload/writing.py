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
from rramalloc.mapping.mode import Mode, array_of
from rramalloc.network.node import Stage
from rramalloc.rounding import SAME_SUM
from rramalloc.timing.simulate import Copies
from rramalloc.timing.stage_graph import StageGraph


@dataclass(frozen=True, eq=False)
class Writing:
    """Writes the stages of one network.

    graph: in any blocks; write: what the hardware says of it; mapping: without folds. Of layers on digital
    units nothing is written (docs/sources/model.md 18).
    """

    graph: StageGraph
    hardware: Hardware
    write: Write
    mapping: Mapping
    _known: dict[tuple[int, Mode, int], Counter[int]] = field(default_factory=dict, init=False, repr=False)

    def wordlines(self, modes: Sequence[Mode], copies: Copies) -> Counter[int]:
        """Return the arrays by the number of their wordlines that are written."""
        arrays: Counter[int] = Counter()
        for stage, count in enumerate(copies.tolist()):
            arrays.update(self.of_stage(stage, modes[stage], count))
        return arrays

    def ns(self, arrays: Counter[int]) -> float:
        """Return the time to write these arrays [ns]."""
        rows = before = 0
        for wordlines in sorted(arrays, reverse=True):
            after = before + arrays[wordlines]
            rounds = -(-after // self.write.lanes) - -(-before // self.write.lanes)
            rows, before = rows + wordlines * rounds, after
        return rows * self.write.write_ns_per_row

    def of_stage(self, stage: int, mode: Mode, copies: int) -> Counter[int]:
        """Return the arrays of one stage by the number of their wordlines that are written."""
        key = self.graph.kinds[stage], mode, copies
        if key not in self._known:
            self._known[key] = self._of_stage(stage, mode, copies)
        return self._known[key]

    def _of_stage(self, stage: int, mode: Mode, copies: int) -> Counter[int]:
        own = array_of(self.hardware, self.graph.stages[stage], mode)
        weights = self._weights(stage, mode)
        if weights is None or own.processor is not None:
            return Counter()
        held = stored(weights, own.crossbar, self.mapping, copies, self.graph.names[stage])
        if isinstance(held, CopiesSharing):
            last, planes = len(held) - 1, held.together
            full, rest = held[0].blocks[0].rows, held[last].blocks[0].rows
            return Counter({full: last * planes}) + Counter({rest: planes})
        by_rows = Counter(by_rows.rows for by_rows in held.blocks)
        return Counter({wordlines: copies * count for wordlines, count in by_rows.items()})

    def _weights(self, stage: int, mode: Mode) -> WeightMatrix | None:
        """Return the weights of a stage, None of a digital node."""
        node = self.graph.stages[stage]
        if not isinstance(node, Stage):
            return None
        return WeightMatrix.of(self.graph.network, node, array_of(self.hardware, node, mode), mode.block)

    @cached_property
    def least_rows(self) -> tuple[int, ...]:
        """Wordlines of every stage that no allocation undercuts: of one copy of the smallest block."""
        kinds = range(len(self.hardware.each_kind))
        return tuple(
            min(written_rows(self.of_stage(stage, mode._replace(kind=kind), 1)) for kind in kinds)
            for stage, mode in enumerate(self.graph.modes)
        )

    @cached_property
    def _rows_per_array(self) -> float:
        """Wordlines that an array has in use at least, in the mean of all arrays that a copy adds.

        With blocks copies share arrays: one holds a whole kernel at least, or is one of several of a kernel,
        of which all but the last are full. Of several kinds 0: arrays are a cost, and some are not written.
        """
        means = []
        for stage, mode in enumerate(self.graph.modes):
            weights = self._weights(stage, mode)
            if weights is not None and self.hardware.kinds is None:
                half = self.hardware.crossbar.wordlines / 2
                copy = self.least_rows[stage] / self.of_stage(stage, mode, 1).total()
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
