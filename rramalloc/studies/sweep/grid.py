"""Grid: the points of a sweep by their number, without listing them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rramalloc.studies.sweep.point import Point
from rramalloc.studies.sweep.spec import Spec

_ABSENT = (None,)


@dataclass(frozen=True)
class Grid:
    """All points of a spec, in mixed radix: the last list varies fastest."""

    spec: Spec

    @property
    def size(self) -> int:
        """Number of points."""
        return self.spec.size

    @cached_property
    def _axes(self) -> tuple[tuple[tuple[str, ...], int], ...]:
        groups = self.spec.groups
        return tuple((group, len(self._values[group[0]])) for group in groups)

    @cached_property
    def _values(self) -> dict[str, tuple[Any, ...]]:
        """Values of every list; networks and hardware by their place in the spec."""
        spec = self.spec
        return {
            "networks": tuple(range(len(spec.networks))),
            "hardware": tuple(range(len(spec.hardware))),
            "crossbars": spec.crossbars or _ABSENT,
            "cell_bits": spec.cell_bits or _ABSENT,
            "bandwidths_gb_s": spec.bandwidths_gb_s or _ABSENT,
            "mappings": spec.mappings,
            "fc": spec.fc,
            "arrays": spec.arrays,
            "objectives": spec.objectives,
            "methods": spec.methods,
            "seeds": spec.seeds,
        }

    def point(self, index: int) -> Point:
        """The point of that number, from 0. Raises IndexError."""
        if not 0 <= index < self.size:
            raise IndexError(index)
        chosen = {name: values[0] for name, values in self._values.items()}
        for group, length in reversed(self._axes):
            index, place = divmod(index, length)
            for name in group:
                chosen[name] = self._values[name][place]
        return Point._make((*chosen.values(), self.spec.work))

    def __iter__(self) -> Iterator[Point]:
        return map(self.point, range(self.size))
