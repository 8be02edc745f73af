"""The points beside an allocation, against all allocations of tiny networks."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import pytest
from laws.allocations import Law, Timed, allocations, random_law

import rramalloc
from rramalloc import Network
from rramalloc.commands.explain.explanation import ExplainedPoint, Neighbour
from rramalloc.hardware.hardware import Hardware

SAME = 1e-9
MOST_ALLOCATIONS = 100


@dataclass(frozen=True)
class Drawn:
    """All allocations of a network, and the explanation of one of them."""

    every: list[Timed]
    start: Timed
    objective: Literal["latency", "interval"]
    made: rramalloc.Explanation

    @classmethod
    def of(cls, number: int, work: int = 10) -> Drawn:
        random = Random(number)
        while True:
            law = random_law(random)
            limits = random_limits(law, random) if random.random() < 0.4 else {}
            divide = random.choice((None, None, None, "width", "windows"))
            every = list(allocations(law, limits, divide, MOST_ALLOCATIONS))
            if len(every) >= 3:
                break
        start, objective = random.choice(every), random.choice(("latency", "interval"))
        copies = {name: mode.copies for name, mode in start.modes.items()}
        made = rramalloc.explain(
            law.network,
            allocation=start.bare() if law.sdk else copies,
            hardware=law.hardware,
            mapping="sdk" if law.sdk else "im2col",
            objective=objective,
            speedup=random.choice((1.01, 1.2, 1.5, 2.0, 3.0, 10.0)),
            copies=limits or None,
            copies_divide=divide,
            work=work,
        )
        return cls(every, start, objective, made)

    def value(self, timed: Timed) -> float:
        return timed.latency if self.objective == "latency" else timed.interval

    def least(self, arrays: int) -> float:
        """Least value with at most so many arrays."""
        return min(self.value(each) for each in self.every if each.arrays <= arrays)

    def fewest(self, value: float) -> int | None:
        """Fewest arrays with at most this value, None if no allocation has it."""
        fitting = [each.arrays for each in self.every if self.value(each) <= value * (1 + SAME / 1000)]
        return min(fitting, default=None)

    @property
    def cheaper(self) -> tuple[int, float] | None:
        """The next point of the front with fewer arrays."""
        if self.start.arrays == min(each.arrays for each in self.every):
            return None
        value = self.least(self.start.arrays - 1)
        return self.fewest(value) or 0, value

    @property
    def faster(self) -> tuple[int, float] | None:
        """The next point of the front that is faster."""
        arrays = self.fewest(self.value(self.start) * (1 - SAME))
        return None if arrays is None else (arrays, self.least(arrays))

    def check(self) -> int:
        """Assert that what is said is true; return how many of the three points were proven."""
        assert self.made.arrays == self.start.arrays
        assert self.made.value == pytest.approx(self.value(self.start), rel=SAME)
        assert self.made.speedup is not None
        assert self.made.speedup.target is not None
        reaching = self.fewest(self.made.speedup.target)
        self._check(self.made.cheaper, self.cheaper)
        self._check(self.made.faster, self.faster)
        self._check(self.made.speedup, None if reaching is None else (reaching, None))
        return sum(each.proven for each in (self.made.cheaper, self.made.faster, self.made.speedup))

    def _check(self, told: Neighbour, right: tuple[int, float | None] | None) -> None:
        if told.point is None:
            assert right is None or not told.proven, (told.words, right)
            return
        assert right is not None, told.words
        arrays, value = right
        same = [each for each in self.every if each.arrays == told.point.arrays]
        assert told.point.value in [pytest.approx(self.value(each), rel=SAME) for each in same]
        if told.proven:
            assert told.point.arrays == arrays, (told.words, right)
            assert value is None or told.point.value == pytest.approx(value, rel=SAME), (told.words, right)
        self._check_bounds(told.point, arrays)

    def _check_bounds(self, point: ExplainedPoint, arrays: int) -> None:
        if point.arrays_bound is not None and point.value >= self.value(self.start):
            assert point.arrays_bound <= (self.fewest(point.value) or 0)
        elif point.arrays_bound is not None:
            assert point.arrays_bound <= arrays
        if point.value_bound is not None and point.value >= self.value(self.start):
            assert point.value_bound <= self.least(self.start.arrays - 1) * (1 + SAME)
        elif point.value_bound is not None:
            assert point.value_bound <= self.least(point.arrays) * (1 + SAME)


def random_limits(law: Law, random: Random) -> dict[str, tuple[int, int]]:
    """Draw the fewest and the most copies of some layers."""
    limits = {}
    for conv in law.convs:
        if random.random() < 0.6:
            most = max(mode.blocks for mode in law.modes(conv))
            low = random.randint(1, min(most, 3))
            limits[conv.name] = (low, random.randint(low, min(most, low + 2)))
    return limits


@pytest.mark.parametrize("first", range(0, 24, 4))
def test_the_points_are_those_of_all_allocations(first: int) -> None:
    """Nothing that is proven is false, whatever the mapping, clocks, memory, limits and tiles."""
    proven = sum(Drawn.of(number).check() for number in range(first, first + 4))
    assert proven >= 3 * 4 - 2


def one_layer(**tables: Any) -> tuple[Network, Hardware]:
    """3 x 1 pixels of 4 channels, a kernel of 2 x 1 and 4 filters, on 8 x 4 cells of one bit."""
    nodes: list[dict[str, Any]] = [
        {"name": "in", "op": "input", "shape": [4, 3, 1]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 4, "kernel": [2, 1]},
    ]
    document = {
        "crossbar": {"wordlines": 8, "bitlines": 4, "cell_bits": 1},
        "precision": {"weight_bits": 1, "input_bits": 8, "output_bits": 8, "signed": "offset"},
        "timing": {"read_ns": 1.0, "dac_bits": 8},
    }
    return Network.build("n", nodes, source="by hand"), Hardware.model_validate(document | tables)


MEMORY = {"bandwidth_gb_s": 1.0, "reuse": "none", "scope": "per_layer"}


def test_a_larger_block_may_take_more_arrays_than_all_copies_of_a_window() -> None:
    """Block 1 x 1: two windows of 8 + 4 bytes, 24 ns in one step or two. Block 2 x 1: 12 rows, 8 columns, 4
    arrays, reads 12 B and writes 8 B: one step of 20 ns."""
    network, hardware = one_layer(memory=MEMORY)
    start = {"copies": {"a": 1}, "block": {"a": [1, 1]}}
    made = rramalloc.explain(network, allocation=start, hardware=hardware, mapping="sdk", speedup=1.2)
    for told in (made.faster, made.speedup):
        assert told is not None
        assert told.point is not None
        assert (told.point.arrays, told.point.value, told.proven) == (4, 20, True)
        assert told.point.block == {"a": (2, 1)}
    made = rramalloc.explain(network, allocation=start, hardware=hardware, mapping="sdk", speedup=1.3)
    assert made.speedup is not None
    assert (made.speedup.point, made.speedup.proven) == (None, True)
    (change,) = made.speedup.changes
    assert (change.number, change.need) == ("memory.bandwidth_gb_s", pytest.approx(20 * 1.3 / 24))


def test_next_cheaper_takes_the_fewest_arrays_of_its_interval() -> None:
    """4 windows of one array each; with 2 copies each both take 2 steps, with 3 still 2."""
    nodes: list[dict[str, Any]] = [
        {"name": "in", "op": "input", "shape": [4, 2, 2]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 4, "kernel": 1},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 4, "kernel": 2, "pads": [0, 0, 1, 1]},
    ]
    network, copies = Network.build("n", nodes, source="by hand"), {"a": 4, "b": 4}
    made = rramalloc.explain(network, allocation=copies, crossbar="16x16", objective="interval")
    assert made.cheaper.point is not None
    assert (made.cheaper.point.arrays, made.cheaper.point.value, made.cheaper.proven) == (4, 2, True)
    front = rramalloc.pareto(network, 7, crossbar="16x16", objective="interval").points
    assert (4, 2) in [(each.arrays, each.interval) for each in front]


def test_copies_that_must_be_divisors_stay_divisors() -> None:
    """6 windows in a row: of 4 copies the next divisor is 6, and an allocation file has its own rule."""
    nodes: list[dict[str, Any]] = [
        {"name": "in", "op": "input", "shape": [4, 1, 6]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 4, "kernel": 1},
    ]
    network = Network.build("n", nodes, source="by hand")
    own = rramalloc.optimize(network, 5, copies_divide="width")
    for made, copies in (
        (rramalloc.explain(network, allocation=own), 6),
        (rramalloc.explain(network, 5, copies_divide="width"), 6),
        (rramalloc.explain(network, allocation={"a": 3}, copies_divide="windows"), 6),
        (rramalloc.explain(network, allocation={"a": 1}, copies_divide="width"), 2),
    ):
        assert made.faster.point is not None
        assert (made.faster.point.copies, made.faster.proven) == ({"a": copies}, True)
