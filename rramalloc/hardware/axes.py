"""Axes: lists whose product is a grid, some tied to advance together; and the hardware at a point of it.

Lists may carry values of a hardware by their dotted names (docs/sources/model.md 19).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.records import brief

_TIED = "give {fields} too, as lists that zip ties to the sizes"
"""Remedy where sizes of arrays are chosen without the area and energy of each."""


@dataclass(frozen=True)
class Axes:
    """Lists by name, in the order of the product, of which the last varies fastest.

    tied: groups of lists that advance together, each at the place of its first.
    """

    lists: Mapping[str, Sequence[object]]
    tied: tuple[tuple[str, ...], ...] = ()

    def check(self, given: Collection[str], known: Collection[str]) -> None:
        """Raise SpecError unless every tied list is given, and as long as those it is tied to.

        known: lists that may be given, which messages name.
        """
        used = set[str]()
        for group in self.tied:
            for name in group:
                if name not in known and name not in self.lists:
                    raise SpecError("zip", f"{brief(name)} is no list that is known: {', '.join(known)}")
                if name in used:
                    raise SpecError("zip", f"{name!r} stands twice")
                if name not in given:
                    raise SpecError("zip", f"{name!r} is not given")
                used.add(name)
            lengths = {name: len(self.lists[name]) for name in group}
            if len(set(lengths.values())) > 1:
                listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
                raise SpecError("zip", f"tied lists must be equally long, {listed}")

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Lists in the order of the product, tied ones together at the place of their first."""
        order = {name: place for place, name in enumerate(self.lists)}
        tied = {name: tuple(sorted(group, key=order.__getitem__)) for group in self.tied for name in group}
        groups = (tied.get(name, (name,)) for name in self.lists)
        return tuple(dict.fromkeys(groups))

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Values of each group."""
        return tuple(len(self.lists[group[0]]) for group in self.groups)

    @property
    def size(self) -> int:
        """Number of points of the grid: the product of the lengths of all groups."""
        return math.prod(self.lengths)

    def places(self, number: int) -> dict[str, int]:
        """Return the index in every list of point `number` (from 0): its digits in mixed radix."""
        places = dict.fromkeys(self.lists, 0)
        for group, length in zip(reversed(self.groups), reversed(self.lengths), strict=True):
            number, place = divmod(number, length)
            places |= dict.fromkeys(group, place)
        return places

    def values(self, places: Mapping[str, int]) -> dict[str, object]:
        """Return the value of every list at its place."""
        return {name: values[places[name]] for name, values in self.lists.items()}

    def around_first(self, names: Collection[str]) -> list[dict[str, object]]:
        """Return the values of the first point, and of those that differ from it in one group of `names`."""
        first, found = self.places(0), list[dict[str, object]]()
        for group, length in zip(self.groups, self.lengths, strict=True):
            if not any(name in names for name in group):
                continue
            found += [self.values(first | dict.fromkeys(group, place)) for place in range(length)]
        return found


def chosen_hardware(hardware: Hardware, values: Mapping[str, object], remedy: str = _TIED) -> Hardware:
    """Return the hardware with the values that a point has for it; "none" takes one away.

    remedy: as in `Hardware.with_values`.
    Raises SpecError for a value that does not fit or contradicts others, and for a size of arrays whose area
    or energy is not chosen with it.
    """
    chosen = {name: None if value == "none" else value for name, value in values.items()}
    ticks = hardware.timing is not None and hardware.timing.tick_ns is not None
    if chosen.get("timing.clock") == "shared" and ticks:
        chosen.setdefault("timing.tick_ns", None)  # there are no ticks then
    return hardware.with_values(chosen, remedy)
