"""Cuts that were active in the last solutions of a relaxation, and are tried first in the next one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key")

_MEMORY = 30
"""Solutions after which an inequality that no longer matters is forgotten."""


@dataclass(eq=False)
class Recent(Generic[Key]):
    """Keys of inequalities, those on which none of the last solutions rested forgotten."""

    _last: dict[Key, int] = field(default_factory=dict)
    _solved: int = 0

    @property
    def keys(self) -> set[Key]:
        """All that is remembered."""
        return set(self._last)

    def solved(self, active: Iterable[Key]) -> None:
        """Another solution, which rests on these."""
        self._solved += 1
        self._last |= dict.fromkeys(active, self._solved)
        oldest = self._solved - _MEMORY
        self._last = {key: last for key, last in self._last.items() if last > oldest}
