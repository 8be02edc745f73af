"""Question: what is asked of a case (docs/sources/model.md 21)."""

from __future__ import annotations

import os
from dataclasses import dataclass

from rramalloc.allocation.allocation_input import AllocationInput
from rramalloc.allocation.budgets import MOST_INPUTS
from rramalloc.choices import ObjectiveName
from rramalloc.methods.method import Method
from rramalloc.methods.registry import method_named
from rramalloc.records import check_range
from rramalloc.search.fewest import NO_TARGET, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Objective and method of a run.

    own: the method of this name, where it is one that was given as a function;
    target: what "arrays" must reach; inputs: how many stream, where "latency" is the time of all; start: an
    allocation to begin with, with method "auto"; takes_part: what of it fits by name, the rest begins with
    the fewest copies; placed: whether links count; bits: file that the bits of layers are chosen from.
    """

    objective: ObjectiveName = "latency"
    method: str = "auto"
    own: Method | None = None
    seed: int = 0
    target: Target = NO_TARGET
    inputs: int = 1
    start: AllocationInput | None = None
    takes_part: bool = False
    placed: bool = False
    bits: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        """Raise SpecError for a value out of range."""
        check_range("inputs", self.inputs, 1, MOST_INPUTS)

    @property
    def way(self) -> Method:
        """The method, whose libraries are imported only now. Raises UnknownNameError, PluginError."""
        return self.own or method_named(self.method)
