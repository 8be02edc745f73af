"""All ways to give N compute and M storage units to interchangeable subtasks, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import comb
from typing import NamedTuple

MAX_ENUMERATED = 64
"""Compute or storage units that can be enumerated."""

Blocks = tuple[tuple[int, ...], ...]


class Way(NamedTuple):
    """Compute and storage units of every subtask, which are ordered by their first compute unit."""

    compute: Blocks
    storage: Blocks

    @property
    def name(self) -> str:
        """Such as "C1+2:D1 C3:D2+3"."""
        return " ".join(
            f"C{'+'.join(map(str, compute))}:D{'+'.join(map(str, storage))}"
            for compute, storage in zip(self.compute, self.storage, strict=True)
        )


def count_ways(compute: int, least: Sequence[Sequence[int]], storage: int) -> int:
    """Number of ways for Q = 1 ... len(least) subtasks, subtask q with least[Q - 1][q] storage units or more.

    The compute units fall into Q blocks in S(N, Q) ways (Stirling numbers of the second kind); storage units
    are dealt to the Q blocks, which these make distinct, in M! [x^M] prod_q sum_{j >= least_q} x^j / j! ways.
    With one storage unit at least this is the sum of Q! S(N, Q) S(M, Q).
    """
    blocks = _stirling(compute)
    return sum(blocks[len(needs)] * _deals(storage, tuple(needs))[storage] for needs in least)


def ways(compute: int, least: Sequence[Sequence[int]], storage: int) -> Iterator[Way]:
    """The ways that `count_ways` counts: by Q, then by compute units, then by storage units."""
    for needs in least:
        if sum(needs) > storage or len(needs) > compute:
            continue
        for labels in _partitions(compute, len(needs)):
            own = _blocks(labels, len(needs))
            for dealt in _dealings(storage, list(needs)):
                yield Way(own, _blocks(dealt, len(needs)))


def _stirling(units: int) -> list[int]:
    """Ways to part `units` distinct units into 0, 1, ... non-empty blocks."""
    row = [1] + [0] * units
    for _ in range(units):
        row = [0, *(row[blocks - 1] + blocks * row[blocks] for blocks in range(1, units + 1))]
    return row


@lru_cache(maxsize=2 * MAX_ENUMERATED)  # one list is often the start of the next
def _deals(units: int, needs: tuple[int, ...]) -> tuple[int, ...]:
    """Ways to deal 0 ... `units` distinct units to distinct subtasks, each with its needs or more."""
    if not needs:
        return (1,) + (0,) * units
    found = _deals(units, needs[:-1])
    return tuple(
        sum(comb(total, own) * found[total - own] for own in range(needs[-1], total + 1))
        for total in range(units + 1)
    )


def _partitions(units: int, blocks: int) -> Iterator[tuple[int, ...]]:
    """Block of every unit, blocks numbered by their first unit, in lexicographic order."""

    def extend(labels: tuple[int, ...], opened: int) -> Iterator[tuple[int, ...]]:
        left = units - len(labels)
        if not left:
            yield labels
            return
        for label in range(min(opened + 1, blocks)):
            if blocks - max(opened, label + 1) < left:
                yield from extend((*labels, label), max(opened, label + 1))

    return extend((), 0)


def _dealings(units: int, missing: list[int]) -> Iterator[tuple[int, ...]]:
    """Subtask of every storage unit, in lexicographic order; missing: units each subtask still needs."""
    labels = [0] * units

    def extend(place: int, needed: int) -> Iterator[tuple[int, ...]]:
        if place == units:
            yield tuple(labels)
            return
        for label in range(len(missing)):
            useful = missing[label] > 0
            if needed - useful < units - place:
                labels[place] = label
                missing[label] -= 1
                yield from extend(place + 1, needed - useful)
                missing[label] += 1

    return extend(0, sum(missing))


def _blocks(labels: Sequence[int], count: int) -> Blocks:
    members: list[list[int]] = [[] for _ in range(count)]
    for unit, label in enumerate(labels, 1):
        members[label].append(unit)
    return tuple(map(tuple, members))
