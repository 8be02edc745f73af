"""Limits of compiled searches: copies of every stage and arrays; and steps between breakpoints."""

from __future__ import annotations

from typing import Any, NamedTuple

from rramalloc.compiled import compiled_part


class CopyLimitTables(NamedTuple):
    """The constraints of a Problem. demand, smallest, largest: int64 of length n."""

    demand: Any
    budget: int
    smallest: Any
    largest: Any


class LimitTables(NamedTuple):
    """Limits beside that of the priced cost: none, or the cost itself and then every axis.

    per_array: int64, what an array of each kind takes (axes x kinds); per_part: what a part of the
    sensitivity takes; limit: int64; excess: cost of a part above the limit; held: what the current state of
    an annealing takes, scratch.
    """

    per_array: Any
    per_part: Any
    limit: Any
    excess: Any
    held: Any


@compiled_part
def arrays_of(demand: Any, copies: Any) -> int:
    """Return the arrays that an allocation uses."""
    used = 0
    for i in range(len(demand)):
        used += demand[i] * copies[i]
    return used


@compiled_part
def batches_of(windows: int, copies: int) -> int:
    """Return the batches of `copies`."""
    return (windows + copies - 1) // copies


@compiled_part
def with_batches(windows: int, batches: int) -> int:
    """Return the fewest copies with at most `batches`; 1 ... windows."""
    if batches < 1:
        return windows
    if batches > windows:
        return 1
    # ceil(W / b) copies take at most b batches, and one copy fewer takes more than b.
    return (windows + batches - 1) // batches


@compiled_part
def next_breakpoint(windows: int, copies: int) -> int:
    """Return the fewest copies that save a batch, the same copies if there is one batch."""
    batches = batches_of(windows, copies)
    return copies if batches == 1 else with_batches(windows, batches - 1)


@compiled_part
def copy_to(target: Any, source: Any) -> None:
    """Copy source to target: compiled in a tenth of the time of target[:] = source."""
    for i in range(len(target)):
        target[i] = source[i]
