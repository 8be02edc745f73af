"""Emulator and reference side by side: node after node, every value compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rramalloc.network.network import Network
from rramalloc.network.node import Elementwise, Input, Node, Stage
from rramalloc.placement.emulator.emulator import Emulator
from rramalloc.placement.emulator.integers import Ints
from rramalloc.placement.emulator.reference import Reals, Reference
from rramalloc.placement.emulator.schedule import Steps
from rramalloc.placement.emulator.verification import Difference
from rramalloc.placement.emulator.weights import drawn_input

Told = Callable[[int, int, str], None]
"""Called with the number of nodes done, of all of them, and the name of the next."""
_DIGITS = 6


@dataclass(slots=True)
class Tally:
    """Sums over all images of what a layer's values are and by how much they differ."""

    values: int = 0
    expected: float = 0.0
    apart: float = 0.0
    worst: int = 0

    def add(self, expected: Ints, got: Ints) -> None:
        """Count the values of one image."""
        apart = np.abs(got - expected)
        self.values += expected.size
        self.worst = max(self.worst, int(apart.max(initial=0)))
        self.expected += float(np.square(expected.astype(np.float64)).sum())
        self.apart += float(np.square(apart.astype(np.float64)).sum())

    @property
    def relative_error(self) -> float:
        """Root of the sum of squares of the differences over that of the expected values."""
        if not self.apart:
            return 0.0
        return float(f"{(self.apart / self.expected) ** 0.5 if self.expected else 1.0:.{_DIGITS}g}")


@dataclass(slots=True)
class Comparison:
    """Computes images on both sides. shifts: of every node that sums, from the first image's reference."""

    network: Network
    emulator: Emulator
    reference: Reference
    seed: int
    exact: bool
    shifts: dict[str, int] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    values: int = 0

    def run(self, image: int, told: Told | None = None) -> Difference | None:
        """Compute one image; the first difference, where everything must be equal.

        Raises EarlyReadError, MisplacedError.
        """
        expected, got = dict[str, Reals](), dict[str, Ints]()
        written = dict[str, Steps]()
        left = _readers(self.network)
        for number, node in enumerate(self.network.nodes):
            if told is not None:
                told(number, len(self.network.nodes), node.name)
            inputs = list(node.inputs)
            written[node.name] = self.emulator.schedule.written(
                self.network, node, [written[name] for name in inputs]
            )
            wanted, found = self._both(node, [expected[n] for n in inputs], [got[n] for n in inputs], image)
            difference = self._compared(node, wanted, found, image)
            if difference is not None:
                return difference
            expected[node.name], got[node.name] = self._narrowed(node, wanted, found)
            for name in inputs:
                left[name] -= 1
                if not left[name]:
                    for kept in (expected, got, written):
                        kept.pop(name, None)
        return None

    def _both(self, node: Node, expected: list[Reals], got: list[Ints], image: int) -> tuple[Reals, Ints]:
        if isinstance(node, Input):
            drawn = drawn_input(self.network, node, self.emulator.width, self.seed, image)
            return drawn.astype(np.float64), drawn
        return self.reference.output(node, expected), self.emulator.output(node, got)

    def _compared(self, node: Node, wanted: Reals, found: Ints, image: int) -> Difference | None:
        whole = wanted.astype(np.int64)
        if found.shape != whole.shape:
            raise AssertionError(f"{node.name}: {found.shape} for {whole.shape}")
        self.values += whole.size
        if isinstance(node, Stage):
            self.tallies.setdefault(node.name, Tally()).add(whole, found)
        if not self.exact or np.array_equal(found, whole):
            return None
        channel, row, column = map(int, np.argwhere(found != whole)[0])
        at = (channel, row, column)
        return Difference(
            image=image, layer=node.name, position=at, expected=int(whole[at]), got=int(found[at])
        )

    def _narrowed(self, node: Node, wanted: Reals, found: Ints) -> tuple[Reals, Ints]:
        if not isinstance(node, Stage | Elementwise):
            return wanted, found
        if node.name not in self.shifts:
            self.shifts[node.name] = self.emulator.width.shift_for(wanted.astype(np.int64))
        shift = self.shifts[node.name]
        return self.reference.narrowed(wanted, shift), self.emulator.narrowed(found, shift)


def _readers(network: Network) -> dict[str, int]:
    """How many nodes read each node; an input named twice counts twice."""
    count = dict.fromkeys((node.name for node in network.nodes), 0)
    for node in network.nodes:
        for name in node.inputs:
            count[name] += 1
    return count
