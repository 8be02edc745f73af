"""Tables of bits: choices of weight and input bits for layers, each with a sensitivity.

A sensitivity is what a choice costs in accuracy, by a measure of the user's; their sum has a limit. Fewer
bits mostly take fewer arrays and less time, but not always (docs/sources/model.md 16 and 17).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from rramalloc.csv_rows import csv_rows
from rramalloc.errors import SpecError
from rramalloc.files import read_text
from rramalloc.hardware.tables import MAX_BITS
from rramalloc.network.network import Network
from rramalloc.records import brief
from rramalloc.rounding import SAME_SUM
from rramalloc.search.resources import PARTS, Alternative

BitPair = tuple[int, int]
"""Bits of a layer's weights and inputs."""
LayerBits = tuple[Alternative, ...]
"""The bits that a layer may have, with its sensitivity to them."""
BIT_COLUMNS = ("layer", "weight_bits", "input_bits", "sensitivity")
_LARGEST_BYTES = 2**26  # of a table: some pairs of bits for every layer of the largest network


class BitChoice(NamedTuple):
    """Bits of a layer's weights and inputs, and the sensitivity to them."""

    weight_bits: int
    input_bits: int
    sensitivity: float


@dataclass(frozen=True)
class BitTable:
    """Choices by layer name, each pair of bits once, with the least of its sensitivities.

    where: the file; limit: of the sum of sensitivities.
    """

    choices: dict[str, tuple[BitChoice, ...]]
    where: str = "bits"
    limit: float = math.inf

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> BitTable:
        """Read a CSV with the columns layer, weight_bits, input_bits, sensitivity. Raises FileError,
        SpecError."""
        where = os.fspath(path)
        rows: dict[str, list[BitChoice]] = {}
        for place, row in csv_rows(read_text(path, _LARGEST_BYTES), where, BIT_COLUMNS):
            choice = BitChoice(
                _bits(row, "weight_bits", place), _bits(row, "input_bits", place), _sensitivity(row, place)
            )
            rows.setdefault(row["layer"], []).append(choice)
        # Every pair of bits once, and none left out for one with fewer bits: where copies share arrays, more
        # rows of them take more turns.
        least = {
            name: {choice[:2]: choice for choice in sorted(choices, reverse=True)}
            for name, choices in rows.items()
        }
        return cls({name: tuple(sorted(own.values())) for name, own in least.items()}, where)

    def of(self, network: Network) -> list[str]:
        """Return the table in network order. Raises SpecError for a layer that the network does not have."""
        layers = {stage.name: stage for stage in network.stages}
        for name in self.choices:
            if name not in layers:
                raise SpecError(self.where, f"layer {brief(name)} is no weight layer of the network")
            if layers[name].shares is not None:
                reason = f"layer {brief(name)} uses the weights of another one: choose its bits there"
                raise SpecError(self.where, reason)
        return [name for name in layers if name in self.choices]

    def with_limit(self, limit: float) -> BitTable:
        """Return the table with a limit of the sum of sensitivities."""
        return replace(self, limit=limit)

    def split(
        self, network: Network, timed: Collection[str]
    ) -> tuple[dict[str, BitPair], dict[str, LayerBits]]:
        """Return the least sensitive bits of layers that are not timed, and the choice for the others.

        The sensitivities of these are in parts of what the limit leaves. Raises SpecError if no choice keeps
        to the limit, or a layer is not of the network.
        """
        names = self.of(network)
        best = {name: min(self.choices[name], key=lambda choice: choice.sensitivity) for name in names}
        least = {name: choice.sensitivity for name, choice in best.items()}
        need = math.fsum(least.values())
        if need > self.limit * (1 + SAME_SUM):
            raise SpecError("sensitivity", f"must be at least {need:g}, the sum of the least of all layers")
        host = {name: choice[:2] for name, choice in best.items() if name not in timed}
        left = self.limit - math.fsum(least[name] for name in host)
        spare = self.limit - need

        def parts(sensitivity: float) -> int:
            return round(sensitivity / left * PARTS) if 0 < left < math.inf else 0

        return host, {
            name: tuple(
                Alternative(0, *choice[:2], parts(choice.sensitivity))
                for choice in self.choices[name]
                if choice.sensitivity <= least[name] + max(spare, 0.0) + SAME_SUM * self.limit
            )
            for name in names
            if name in timed
        }

    def sum_of(self, bits: Mapping[str, BitPair]) -> float:
        """Return the sum of sensitivities to these bits of layers."""
        return math.fsum(
            min(choice.sensitivity for choice in some if choice[:2] == bits[name])
            for name, some in self.choices.items()
        )


def _bits(row: dict[str, str], name: str, place: str) -> int:
    text = row[name]
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= MAX_BITS:
        raise SpecError(place, f"{name} must be from 1 to {MAX_BITS}, got {brief(text)}")
    return int(text)


def _sensitivity(row: dict[str, str], place: str) -> float:
    try:
        value = float(row["sensitivity"])
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise SpecError(place, f"sensitivity must be a number from 0 on, got {brief(row['sensitivity'])}")
    return value
