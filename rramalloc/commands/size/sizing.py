"""Sizing: the result of `size`, the cheapest chip that it finds."""

from __future__ import annotations

import os
from typing import Any, Literal

from pydantic import Field

from rramalloc.allocation.allocation import Allocation, PositiveCount
from rramalloc.commands.size.question import Minimised, Stored
from rramalloc.files import path_text, write_json
from rramalloc.hardware.hardware import Hardware
from rramalloc.records import Record
from rramalloc.result import AnswerRecord
from rramalloc.status import Status, of_fields
from rramalloc.units import area, counted, number_of, plain_quantity

FORMAT: Literal["rramalloc-size/1"] = "rramalloc-size/1"
CHOSEN = "chosen"
"""Why the candidate of the chip is no longer searched."""
DEARER = "dearer"
"""Why a candidate is no longer searched whose cost or bound reaches the best cost.

With a bound alone it is open whether it reaches the goals.
"""
INFEASIBLE = "infeasible"
"""Beginning of the reason of a candidate whose goals are out of reach."""


class SizedChip(Record):
    """The chip. arrays: that are used; tiles: None without [chip]; area_um2: None where it is not given."""

    hardware: Hardware
    arrays: PositiveCount
    tiles: PositiveCount | None
    area_um2: float | None


class NetworkOnChip(Record):
    """A network on the chip.

    network: its network JSON, None in files of earlier versions; goal: its target by name; reaches: the value
    reached, in the unit of the goal; arrays: that it uses; allocation: on this chip.
    """

    name: str
    network: dict[str, Any] | None = Field(None, repr=False)
    goal: dict[str, float | str]
    reaches: float | None
    arrays: PositiveCount
    allocation: Allocation

    @property
    def wanted(self) -> str:
        """The goal in words."""
        ((name, value),) = self.goal.items()
        return f"{name} {value if isinstance(value, str) else plain_quantity(value, self._unit)}"

    @property
    def reached(self) -> str | None:
        """The value reached in words, with the unit of the goal."""
        return None if self.reaches is None else plain_quantity(self.reaches, self._unit)

    @property
    def _unit(self) -> str:
        """The unit of the goal, "" for steps and ticks."""
        ((name, value),) = self.goal.items()
        is_time = name == "target_ns" or (isinstance(value, str) and not value.strip().isdecimal())
        return "inputs/s" if name == "target_throughput" else "ns" if is_time else ""


class Candidate(Record):
    """A choice of the hardware.

    choices: its values by dotted name; arrays, cost: at least, and at most where an allocation is known;
    why: chosen, dearer (no cost at most: by its bound alone), not finished, or infeasible, and by what.
    """

    choices: dict[str, Any]
    arrays: tuple[int, int | None]
    cost: tuple[float, float | None]
    why: str

    @property
    def text(self) -> str:
        """The choices in words."""
        return ", ".join(f"{name.rpartition('.')[2]} {value}" for name, value in self.choices.items()) or "-"

    @property
    def is_infeasible(self) -> bool:
        """Whether no allocation on it reaches all goals."""
        return self.why.startswith(INFEASIBLE)

    @property
    def cost_at_least(self) -> float:
        """No allocation makes it cheaper."""
        return self.cost[0]

    @property
    def cost_at_most(self) -> float | None:
        """Cost with the best allocations that are known."""
        return self.cost[1]

    @property
    def arrays_at_most(self) -> int | None:
        """Arrays of the best allocations that are known."""
        return self.arrays[1]


class Sizing(AnswerRecord):
    """The cheapest chip on which networks reach their goals, with a proof over all candidates.

    minimise: area of the chip, or arrays; status: optimal, or bounded where the search ended before;
    stored: one network at a time, or all; candidates: all choices, in their order; cost: what is minimised;
    lower_bound: no chip of these candidates costs less; gap: (cost - lower_bound) / cost; searched:
    candidates whose allocations were searched to their end; work_s: work in seconds of a reference core;
    not_counted: what times leave out, of any of the networks.
    """

    rows_in = "candidates"

    format: Literal["rramalloc-size/1"] = FORMAT
    minimise: Minimised
    stored: Stored
    cost: float
    lower_bound: float
    gap: float
    status: Status = Field(default_factory=of_fields)
    seed: int
    work: int
    work_s: float
    searched: int
    chip: SizedChip
    networks: tuple[NetworkOnChip, ...]
    candidates: tuple[Candidate, ...]

    @property
    def by_kind(self) -> dict[str, int]:
        """Arrays of every kind that are used; empty where there is one kind."""
        each = [network.allocation.arrays.by_kind or {} for network in self.networks]
        in_all = sum if self.stored == "all" else max
        return {name: in_all([kinds[name].used for kinds in each]) for name in each[0]}

    @property
    def proof(self) -> str:
        """Proof in words."""
        every = len(self.candidates)
        many = "this candidate" if every == 1 else f"these {every:,} candidates"
        of_links = any(text.startswith("links") for text in self.not_counted)
        extent = " on arrays, links not counted" if of_links else ""
        if self.status is Status.OPTIMAL:
            fewer = "less area" if self.minimise == "area_um2" else "fewer arrays"
            return f"proven{extent}: no chip of {many} with {fewer} reaches the goals"
        return f"bounded{extent}: no chip of {many} costs less than {self.quantity(self.lower_bound)}"

    @property
    def cost_unit(self) -> str:
        """Unit of costs."""
        return "um2" if self.minimise == "area_um2" else "arrays"

    @property
    def counted_tiles(self) -> str:
        """Addition in words to a cost of whole tiles: all their arrays count; "" without tiles."""
        chip = self.chip.hardware.chip
        if chip is None:
            return ""
        words = f"of {number_of(self.chip.tiles or chip.tile_count, 'tile')}"
        is_said = self.minimise == "arrays" or self.by_kind  # some kind of the hardware may not be in use
        return words if is_said else f", {number_of(chip.arrays, 'array')} {words}"

    def quantity(self, cost: float) -> str:
        """Return a cost in words."""
        return area(cost) if self.minimise == "area_um2" else counted(int(cost), "array")

    def _headline(self) -> tuple[str, str]:
        names = ", ".join(network.name for network in self.networks)
        return names, f"{self.quantity(self.cost)}, {self.status}, {self.chip.hardware.name}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the chip as a hardware file (.toml), which every command takes, else the result as JSON.

        Raises FileError.
        """
        if path_text(path).endswith(".toml"):
            self.chip.hardware.save(path)
        else:
            write_json(path, self.to_dict())
