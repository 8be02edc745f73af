"""Question: what is asked of a case (docs/sources/model.md 21); imports nothing that is compiled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field

from rramalloc.allocation.budgets import MOST_INPUTS
from rramalloc.allocation.limits import at_most_of
from rramalloc.choices import Divided, ObjectiveName
from rramalloc.errors import RramallocError, SpecError
from rramalloc.frozen import FrozenDict
from rramalloc.methods.registry import method_named
from rramalloc.records import Record, brief, check_range, fault, listed
from rramalloc.search.target import NO_TARGET, Target
from rramalloc.timing.latency_table import as_latency_table
from rramalloc.units import amount

if TYPE_CHECKING:
    from rramalloc.allocation.allocation_input import AllocationInput
    from rramalloc.methods.method import Method


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


def _at_most(value: dict[str, float | str]) -> dict[str, float]:
    try:
        return at_most_of(value)
    except RramallocError as error:
        raise fault(str(error)) from None


_Texts = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...], BeforeValidator(listed)]
TARGETS = ("target", "target_ns", "target_interval", "target_throughput")


class QuestionFields(Record):
    """Options of `optimize` that a sweep or `size` takes from its file; a new one reaches both.

    target: the latency in steps; latency_table: a file beside this one, or a table of its form.
    """

    target: int | None = None
    target_ns: float | str | None = None
    target_interval: int | str | None = None
    target_throughput: float | str | None = None
    fold: bool = False
    host: _Texts | None = None
    copies: _Texts | None = None
    copies_divide: Divided | None = None
    at_most: Annotated[dict[str, float | str], AfterValidator(_at_most)] | None = None
    latency_table: Annotated[str, Field(min_length=1, max_length=4096)] | dict[str, Any] | None = None
    allow_partial: bool = False
    feeds_back: bool | None = None
    sequences: int | None = None
    states: dict[str, str] | None = None

    def beside(self, folder: str) -> Self:
        """Return the same fields with the content of the latency table, a file beside theirs in `folder`.

        Raises FileError, SpecError.
        """
        table = self.latency_table
        if table is None:
            return self
        table = as_latency_table(os.path.join(folder, table) if isinstance(table, str) else table).to_dict()
        return self.model_copy(update={"latency_table": table})

    @property
    def goal(self) -> FrozenDict[str, float | str]:
        """The target that is given, by its name."""
        given = {name: getattr(self, name) for name in TARGETS if getattr(self, name) is not None}
        return FrozenDict(given)

    @property
    def wanted(self) -> Target:
        """The target that the fewest arrays reach. Raises SpecError."""
        return target_of(self.goal)


def target_of(given: Mapping[str, Any]) -> Target:
    """Return the target of the fewest arrays, as `TARGETS` name it; texts have units.

    Raises SpecError out of range.
    """
    steps, interval = given.get("target"), given.get("target_interval")
    ns = _amount("target_ns", given.get("target_ns"), "ns")
    throughput = _amount("target_throughput", given.get("target_throughput"), "inputs/s")
    check_range("target", steps, 1, 2**53)
    check_range("target_ns", ns, 0, 1e300)
    check_range("target_throughput", throughput, 1e-300, 1e300)
    interval_ns = None
    if isinstance(interval, str):
        try:
            text, interval = interval, None
            interval = int(text) if text.strip().isdecimal() else None
            interval_ns = amount(text, "ns") if interval is None else None
        except ValueError:
            words = "must be a whole number of steps or ticks, or a time with its unit such as 10us"
            raise SpecError("target_interval", f"{words}, got {brief(text)}") from None
    check_range("target_interval", interval, 1, 2**53)
    check_range("target_interval", interval_ns, 0, 1e300)
    return Target(steps, ns, interval, interval_ns, throughput)


def _amount(name: str, value: float | str | None, unit: str) -> float | None:
    """Return a number in a unit, also that of a text such as "10k". Raises SpecError."""
    if not isinstance(value, str):
        return value
    try:
        return amount(value, unit)
    except ValueError as error:
        raise SpecError(name, str(error)) from None
