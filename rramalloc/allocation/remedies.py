"""Advice of errors: changes of a call or of its hardware, each tried before it is given.

What is tried is what a user would do: the case is made anew with the change, so that chips, whole tiles,
stored classifiers and held copies count as they will.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from rramalloc.choices import MAX_ARRAYS
from rramalloc.errors import BudgetError, RramallocError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import MAX_LINES

Works = Callable[[Hardware], bool]
StoreOn = Callable[[Hardware, int], object]
"""Makes the case anew on a hardware and stores all layers within a budget. Raises RramallocError."""
_MOST_TRIES = 4
"""Budgets, and numbers of chips, that are tried one after another: the first one is nearly always enough."""


def of_budget(
    hardware: Hardware,
    weight_bits: int,
    arrays: int,
    error: BudgetError,
    store: StoreOn,
    store_without: StoreOn,
) -> list[str]:
    """Return the remedies with which every layer of a case is stored, as `arrays` do not suffice.

    weight_bits: the most of a layer that has bits of its own; store_without: without what is held of copies.
    """

    def works(machine: Hardware) -> bool:
        return _is_stored(store, machine, arrays)

    remedies = list[str]()
    need = _smallest_budget(store, hardware, error.need)
    if need is not None:
        remedies.append(f"the smallest budget that works is --arrays {need}")
    elif (machine := _stored_on_more_chips(store, hardware, error.need)) is not None:
        budget = "" if works(machine) else f" and --arrays {_smallest_budget(store, machine, error.need)}"
        remedies.append(f"{chip_words(machine)}{budget}")
    if error.held and _is_stored(store_without, hardware, arrays):
        remedies.append("leave out --copies")
    if (machine := larger_crossbar(hardware, works)) is not None:
        remedies.append(f"--crossbar {machine.crossbar.size}")
    if (machine := more_cell_bits(hardware, weight_bits, works)) is not None:
        remedies.append(f"[crossbar] cell_bits = {machine.crossbar.cell_bits}")
    return remedies


def _stored_on_more_chips(store: StoreOn, hardware: Hardware, need: int) -> Hardware | None:
    """Return the hardware with enough chips that some budget stores every layer, None if none has."""
    budgets = dict[int, int | None]()

    def works(machine: Hardware) -> bool:
        chips = 0 if machine.chip is None else machine.chip.arrays
        budgets[chips] = _smallest_budget(store, machine, need)
        return budgets[chips] is not None

    machine = more_chips(hardware, need, works)
    if machine is None or machine.chip is None:
        return None
    # More than `need` may be needed, so that doubled chips are too many: those for what is needed are fewer.
    fewer = more_chips(hardware, budgets[machine.chip.arrays] or need, works)
    return fewer or machine


def _is_stored(store: StoreOn, hardware: Hardware, arrays: int) -> bool:
    """Return True if a budget stores every layer."""
    try:
        store(hardware, arrays)
    except RramallocError:
        return False
    return True


def _smallest_budget(store: StoreOn, hardware: Hardware, need: int) -> int | None:
    """Return the smallest budget that stores every layer, at least `need`; None where the chips have less."""
    for _ in range(_MOST_TRIES):
        try:
            store(hardware, min(need, MAX_ARRAYS))
        except BudgetError as short:  # of classifiers that [counting] stores besides
            need += short.need - short.have
        except RramallocError:
            return None
        else:
            return need
    return None


def more_chips(hardware: Hardware, arrays: int, works: Works) -> Hardware | None:
    """Return the hardware with the fewest chips that work, of those tried; None for none.

    arrays: that they have at least.
    """
    chip = hardware.chip
    if chip is None:
        return None
    fewest = max(-(-arrays // chip.arrays_per_chip), chip.chip_count + 1)
    for doublings in range(_MOST_TRIES):
        count = fewest << doublings
        rows = -(-count // MAX_LINES)
        try:
            machine = hardware.with_values({"chip.chips": [rows, -(-count // rows)]})
        except SpecError:  # more arrays than a hardware may have
            return None
        if works(machine):
            return machine
    return None


def chip_words(hardware: Hardware) -> str:
    """Return the chips of a hardware as its file gives them."""
    if hardware.chip is None:
        return ""
    chips = hardware.chip.chips
    return f"[chip] chips = {chips if isinstance(chips, int) else list(chips)}"


def larger_crossbar(hardware: Hardware, works: Works) -> Hardware | None:
    """Return the hardware with the smallest arrays that work, both sides doubled as often; None for none."""
    crossbar = hardware.crossbar
    sizes = list[Hardware]()
    factor = 2
    while factor * max(crossbar.wordlines, crossbar.bitlines) <= MAX_LINES:
        sizes.append(hardware.with_crossbar(factor * crossbar.wordlines, factor * crossbar.bitlines))
        factor *= 2
    return _least(sizes, works)


def more_cell_bits(hardware: Hardware, weight_bits: int, works: Works) -> Hardware | None:
    """Return the hardware with the fewest bits in a cell that work; None for none.

    weight_bits: the most of a layer that has bits of its own.
    """
    most = max(weight_bits, hardware.precision.weight_bits)
    now = hardware.crossbar.cell_bits
    bits = (bits for bits in range(now + 1, most + 1) if -(-most // bits) < -(-most // (bits - 1)))
    return _least([hardware.with_values({"crossbar.cell_bits": more}) for more in bits], works)


def _least(rising: Sequence[Hardware], works: Works) -> Hardware | None:
    """Return the first that works by bisection, None if not even the last does; all behind the first work."""
    if not rising or not works(rising[-1]):
        return None
    return rising[bisect_left(rising[:-1], True, key=works)]
