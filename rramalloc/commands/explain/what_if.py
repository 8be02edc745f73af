"""Allocations on changed hardware, unchanged and searched again (docs/sources/model.md 19)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from rramalloc.allocation.allocation import Allocation
from rramalloc.allocation.allocation_input import AllocationInput
from rramalloc.allocation.case import Case
from rramalloc.allocation.goes_with import check_command
from rramalloc.allocation.optimize import checked_answer, question, solved
from rramalloc.allocation.question import Question
from rramalloc.allocation.simulation import SimulatedSums, simulated_sums
from rramalloc.choices import MAX_ARRAYS, ExplainedObjective
from rramalloc.commands.explain.explanation import NOT_TRIED, HardwareChange, KindUse, WhatIf, WhatIfResult
from rramalloc.errors import RramallocError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.kinds import Kind
from rramalloc.hardware.loader import as_hardware
from rramalloc.hardware.tables import MAX_BITS, MAX_LINES
from rramalloc.hardware.values import HardwareValues, texts_of, value_at, values_of
from rramalloc.room import load_from
from rramalloc.rounding import SAME_SUM
from rramalloc.search.links import WithLinks
from rramalloc.search.work import SECONDS_PER_WORK, Tell, Work
from rramalloc.timing.access import Absolute
from rramalloc.timing.metrics import Metrics
from rramalloc.timing.simulate import ExactTiming
from rramalloc.units import area, plain_quantity, share

ChangesLike = Sequence[str | MappingOf[str, object]] | MappingOf[str, object]
"""Changes of the hardware, each a text ("timing.adc_ns=2") or a dict of values; a dict alone is one."""
_HOPS = ("hop_ns_tile", "hop_ns_chip")
_BANDWIDTHS = ("bandwidth_tile_gb_s", "bandwidth_chip_gb_s")
_LINKS = frozenset(f"chip.{field}" for field in (*_HOPS, *_BANDWIDTHS))
"""Fields that take time only where the transfer between placed tiles is counted."""
_SMALLER = ("step_ns", "read_ns", "adc_ns", "columns_per_adc", *_HOPS)
_LARGER = ("rows_per_read", "dac_bits", "bandwidth_gb_s", *_BANDWIDTHS)
"""Fields of which less, or more, can only help."""
_MOST = {"dac_bits": MAX_BITS, "rows_per_read": MAX_LINES}
_TABLES = ("timing", "memory", "chip")
_TIMES = (2, 4, 8, 16, 32)  # by which a field is better; more is another device
_MORE_ARRAYS = 0.1  # part of the arrays that the last change adds
_PART_OF_CHARGED = 0.05  # of what was charged before, for all searches of changes that nobody named
_PART_OF_WORK = 0.05  # of the work allowed, where less was charged before
_LEAST_WALK = 20  # units; with 6 one on alexnet x2 took four times the CPU of its first placement for no more


@dataclass(frozen=True, eq=False)
class WhatIfs:
    """Changes of the hardware of one allocation, timed as `simulate --set` times it, or placed anew for it.

    own: the allocation, with the transfer of its placement if it has one; case: of the allocation, with its
    limits of copies; stop: of every search; tell: callback that gets the progress of every search;
    _placed_anew: the allocation by the changes for which it was placed anew.
    """

    own: AllocationInput
    case: Case
    objective: ExplainedObjective
    stop: Work
    seed: int
    tell: Tell | None = None
    _placed_anew: dict[str, AllocationInput] = field(default_factory=dict, init=False, repr=False)

    def all(self, changes: ChangesLike | None) -> tuple[WhatIf, ...]:
        """Return the gain from every change: with more area by gain per area, then the others by gain.

        changes: None for every field with a better value, and for more arrays.
        Raises SpecError for a change that the hardware cannot have, and for one of links that are not timed.
        """
        if changes is None:
            fields = better_values(self.case.hardware, 2, with_links=self._is_placed)
            found = self._of_list([{name: value} for name, value in fields])
        else:
            asked = changes_of(changes)
            links = sorted(_LINKS.intersection(name for values in asked for name in values))
            if links and not self._is_placed:
                reason = "explain with --placed, or an allocation of `optimize --placed`, or leave it out"
                raise SpecError("--what-if", f"{links[0]} is not timed without --placed: {reason}")
            found = [self._of(values, self.stop.nested(self.stop.work), is_given=True) for values in asked]
        return tuple(sorted(found, key=_order))

    @cached_property
    def now(self) -> WhatIfResult:
        """The allocation on the hardware that there is."""
        return self._as_it_is({})

    @property
    def _is_placed(self) -> bool:
        """Whether the time of the allocation counts the transfer between its tiles."""
        return bool(self.own.transfer_ns)

    @property
    def _kinds(self) -> tuple[Kind, ...]:
        """The kinds of arrays, none where there is one."""
        return self.case.hardware.kinds or ()

    def kinds(self, found: Sequence[WhatIf]) -> tuple[KindUse, ...] | None:
        """Return the use of every kind of arrays and the gain from more of it, the largest first.

        found: changes that were searched.
        """
        if not self._kinds:
            return None
        by_change = {what_if.change: what_if for what_if in found}
        sums = self._sums(self.own)
        pairs = zip(sums.timing.graph.modes, sums.taken.tolist(), strict=True)
        numbers = [(mode.kind, arrays) for mode, arrays in pairs]
        used = {
            kind.name: sum(arrays for kind_number, arrays in numbers if kind_number == place)
            for place, kind in enumerate(self._kinds)
        }
        uses = list[KindUse]()
        for kind in self._kinds:
            more = _more(kind.arrays or 0)
            if kind.tiles is not None and kind.arrays is not None:
                more = _more(kind.tiles) * (kind.arrays // kind.tiles)
            saves = None
            words = f"{kind.name}: {used[kind.name]:,}"
            words += " arrays" if kind.arrays is None else f" of {kind.arrays:,} arrays"
            change = by_change.get(f"{_of(kind)}={_larger(kind)}")
            if kind.arrays is not None and change is not None and change.searched is not None:
                saves = max(0.0, self.now.value - change.searched.value) / more
                words += f", {plain_quantity(saves, self._unit)} shorter for each of {more:,} more"
                words = words if saves else f"{words.partition(', ')[0]}, more of them gain nothing"
            known = {} if saves is None else {"more": more, "saves": saves}
            uses.append(
                KindUse(kind=kind.name, used=used[kind.name], arrays=kind.arrays, words=words, **known)
            )
        return tuple(sorted(uses, key=lambda use: -(use.saves or 0.0)))

    def cheapest(self, factor: float, found: Sequence[WhatIf]) -> HardwareChange:
        """Return the single change of the hardware with which the objective is `factor` times as small, and
        which adds least area; or that there is none.

        found: changes that were searched; others are tried with the allocation as it is.
        """
        target = self.now.value / factor * (1 + SAME_SUM)
        solutions = list[tuple[float, int, str, WhatIfResult, str]]()
        fields = {name for name, _ in better_values(self.case.hardware, 2)}
        for times in _TIMES:
            for name, value in better_values(self.case.hardware, times):
                if name not in fields or self.stop.out_of_time:
                    continue
                try:
                    result = self._as_it_is({name: value})
                except SpecError:  # beyond what a hardware may have
                    fields.discard(name)
                    continue
                if result.value <= target:
                    fields.discard(name)
                    more = _more_um2(self.now, result) or 0.0
                    change = texts_of({name: value})[0]
                    solutions.append((more, times, change, result, self._how(change)))
        solutions += [
            (what_if.more_um2 or 0.0, _TIMES[0], what_if.change, what_if.searched, "searched again")
            for what_if in found
            if what_if.searched is not None and what_if.searched.value <= target and what_if.have is not None
        ]
        if not solutions:
            words = NOT_TRIED if self.stop.out_of_time else "no single change of the hardware does"
            return HardwareChange(change=None, result=None, words=words)
        # of equal ones the first, which is the allocation as it is
        more_um2, _, change, result, how = min(solutions, key=lambda solution: solution[:3])
        words = f"{change}: {plain_quantity(result.value, self._unit)} {how}"
        words += f", {area(more_um2)} more" if more_um2 > 0 else ""
        words += ", the cheapest single change of the hardware"
        return HardwareChange(change=change, result=result, words=words)

    @property
    def _unit(self) -> str:
        """The unit of values: ns, or steps where the hardware gives no time."""
        timed = self.case.hardware.compute_ns is not None or self.case.measured is not None
        return "ns" if timed else "steps"

    def _of_list(self, fields: Sequence[HardwareValues]) -> list[WhatIf]:
        """Return the gain from every field and from more arrays; all searches share a small part of the work.

        Changes that shorten the time of the unchanged allocation are searched first, by their gain, then more
        arrays, then the others.
        """
        share = self.stop.nested(0)
        charged_s = max(_PART_OF_CHARGED * self.stop.spent_s, _PART_OF_WORK * self.stop.work_s)
        share.work = min(self.stop.work, max(1, round(charged_s / SECONDS_PER_WORK)))
        as_they_are = [(values, self._of(values, None)) for values in fields]
        changed = [change for change in as_they_are if change[1].gain]
        changed.sort(key=lambda change: -(change[1].gain or 0.0))  # what binds most has work left
        others = [change for change in as_they_are if not change[1].gain]
        found = [self._again(*change, share) for change in changed]
        found += self._of_more_kinds(share) if self._kinds else self._of_more_arrays(share)
        return found + [self._again(*change, share) for change in others]

    def _again(self, values: HardwareValues, alone: WhatIf, share: Work) -> WhatIf:
        """Return the gain from a change after a search, unless it failed before or the share is used up."""
        if alone.as_it_is is None or alone.searched is not None or share.is_used_up:
            return alone
        return self._of(values, share, alone.as_it_is)

    def _of(
        self,
        values: HardwareValues,
        share: Work | None,
        as_it_is: WhatIfResult | None = None,
        *,
        is_given: bool = False,
    ) -> WhatIf:
        """Return the gain from a change. Raises SpecError if a user gave it and no hardware can have it.

        share: of the work of its search and later ones, None for no search; as_it_is: the unchanged
        allocation, if it was timed before.
        """
        change, have = ", ".join(texts_of(values)), _now(self.case.hardware, values)
        try:
            hardware = as_hardware(self.own.hardware, set_values=values)
        except SpecError as error:
            if is_given:
                raise SpecError(error.where.replace("--set", "--what-if"), error.reason) from None
            return WhatIf(change=change, have=have, words=f"{change}: {error}")
        if self.stop.out_of_time:
            return WhatIf(change=change, have=have, words=f"{change}: {NOT_TRIED}")
        case = replace(self.case, hardware=hardware)
        try:
            check_command("explain", "explain", case)
            as_it_is = as_it_is or self._as_it_is(values)
            unit = "steps" if as_it_is.latency_ns is None else "ns"
            if unit != self._unit:
                words = f"{change}: cannot be compared ({unit}, not {self._unit})"
                return WhatIf(change=change, have=have, as_it_is=as_it_is, words=words)
            searched = None
            if share is not None:
                searched = self._searched(case, values, self.now.arrays, share, is_given=is_given)
        except RramallocError as error:  # other arrays may not hold the network any more
            return WhatIf(change=change, have=have, as_it_is=as_it_is, words=f"{change}: {error}")
        return self._compared(self.now, change, have, as_it_is, searched)

    def _of_more_kinds(self, share: Work) -> list[WhatIf]:
        """Return the gain from more arrays of every kind whose number is limited."""
        chip, limited = self.case.hardware.chip, [each for each in self._kinds if each.arrays is not None]
        if chip is not None:  # of which more tiles must have a site
            free = chip.tiles_per_chip - sum(kind.tiles or 0 for kind in limited)
            limited = [kind for kind in limited if _more(kind.tiles or 0) <= free]
        return [self._of({_of(kind): _larger(kind)}, None if share.is_used_up else share) for kind in limited]

    def _of_more_arrays(self, share: Work) -> list[WhatIf]:
        """Return the gain from more arrays, up to those of the chips; empty if all are in use."""
        chip, used = self.case.hardware.chip, self.now.arrays
        added = _more(used) if chip is None else min(_more(used), chip.arrays - used)
        if added < 1:
            return []
        change = f"{added} more arrays"
        if share.is_used_up:
            words = (
                NOT_TRIED if self.stop.out_of_time else f"not tried, optimize --arrays {used + added} does"
            )
            return [WhatIf(change=change, words=f"{change}: {words}")]
        try:
            searched = self._searched(self.case, {}, used + added, share)
        except RramallocError as error:
            return [WhatIf(change=change, words=f"{change}: {error}")]
        return [self._compared(self.now, change, None, self.now, searched)]

    def _compared(
        self,
        now: WhatIfResult,
        change: str,
        have: str | None,
        as_it_is: WhatIfResult,
        searched: WhatIfResult | None,
    ) -> WhatIf:
        best = searched or as_it_is
        gain, more_um2 = 1 - best.value / now.value, _more_um2(now, best)
        words = change if have is None else f"{change} (now {have})"
        if as_it_is is not now:
            words += f": {plain_quantity(as_it_is.value, self._unit)} {self._how(change)}"
            if searched is None:
                words += ", searched again only if named by --what-if"
            else:
                words += f", {plain_quantity(searched.value, self._unit)} searched again"
        else:
            words += f": {plain_quantity(best.value, self._unit)}"
        per_mm2 = None
        if gain > SAME_SUM:
            words += f", {share(gain)} shorter"
        if more_um2 is not None and more_um2 > 0:
            per_mm2 = gain / (more_um2 / 1e6)
            words += f", {area(more_um2)} more, {share(per_mm2)} a mm2" if gain > SAME_SUM else ""
        return WhatIf(
            change=change,
            have=have,
            as_it_is=as_it_is,
            searched=searched,
            gain=gain if gain > SAME_SUM else 0.0,
            more_um2=more_um2,
            gain_per_mm2=per_mm2 if gain > SAME_SUM else None,
            words=words,
        )

    def _as_it_is(self, values: HardwareValues) -> WhatIfResult:
        """Return the allocation on the changed hardware, as `_timed` gives it. Raises SpecError."""
        return self._simulated(self._timed(values))

    def _simulated(self, allocation: AllocationInput) -> WhatIfResult:
        sums = self._sums(allocation)
        return self._result(sums.timing, sums.absolute, sums.metrics, sums.arrays)

    def _sums(self, allocation: AllocationInput) -> SimulatedSums:
        network = self.case.network
        return simulated_sums(network, allocation, allocation.graph(network, self.case.stages), "next")

    def _searched_with_links(self, case: Case, arrays: int, stop: Work, *, walks: bool) -> WhatIfResult:
        """Return the result of `optimize --placed` within `arrays`. Raises RramallocError.

        walks: else only the answer without links is placed, with which a walk begins: quickly, and with as
        much work as pays where that leaves transfers that take time.
        """
        request = Question(objective=self.objective, seed=self.seed, placed=True)
        case = replace(case, placed=True).with_stages(case.stages)
        objective = None if walks else question(case.problem(arrays), request)
        if isinstance(objective, WithLinks):
            answer = objective.alone.solve(stop, self.seed)
            found = objective.problem.choice(answer.choice.copies, answer.choice.modes)
            if not objective.placer.placed(found, stop, quick=True).is_hidden:
                objective.placer.placed(found, stop, again=True)
        else:
            objective, answer = solved(case, arrays, request, stop)
        sums = checked_answer(objective, answer, arrays, request.method, stop)
        return self._result(sums.checked.timing, sums.absolute, sums.metrics, sums.checked.used)

    def _timed(self, values: HardwareValues) -> AllocationInput:
        """Return the allocation on the changed hardware, placed anew where its places do not hold there."""
        change = ", ".join(texts_of(values))
        if change in self._placed_anew:
            return self._placed_anew[change]
        timed = self.own.with_arguments(self.case.network, {"set_values": values})
        if not self._is_placed or timed.transfer_ns:
            return timed
        place_again = load_from("place", "placer:timed_again", "places")
        placed: AllocationInput = place_again(self.case.network, timed, self.stop)
        self._placed_anew[change] = placed
        return placed

    def _how(self, change: str) -> str:
        """Return in words how the allocation was timed on the changed hardware without a search."""
        return "as it is, placed anew" if change in self._placed_anew else "as it is"

    def _searched(
        self, case: Case, values: HardwareValues, arrays: int, share: Work, *, is_given: bool = False
    ) -> WhatIfResult:
        """Return the result of `optimize --set --start` within `arrays` and the rest of a share.

        is_given: a user gave the change, and all of the work is its own. Raises RramallocError.
        """
        start = self._timed(values)
        case = replace(case, measured=start.measured).with_stages(self.case.stages)
        if self._is_placed:
            with_links = self.stop.nested(share.work).reporting_to(self.tell, "what if, placed")
            placed = self._searched_with_links(
                case, arrays, with_links, walks=is_given or share.work >= _LEAST_WALK
            )
            share.charge(with_links.spent_s)
            return min(placed, self._simulated(start), key=lambda result: result.value)
        request = Question(objective=self.objective, seed=self.seed, start=start)
        if self._kinds:
            case, arrays = self._within_kinds(case, arrays)
        what = ", ".join(texts_of(values)) or f"{arrays:,} arrays"
        left = share.work - int(share.spent_s / SECONDS_PER_WORK)
        stop = self.stop.nested(left).reporting_to(self.tell, f"what if {what}")
        try:
            objective, answer = solved(case, arrays, request, stop)
        finally:
            share.charge(stop.spent_s)
        found = checked_answer(objective, answer, arrays, request.method, stop)
        result = self._result(found.checked.timing, found.absolute, found.metrics, found.checked.used)
        bound, in_ns = found.lower_bound, self._unit == "ns" and objective.unit != "ns"
        return result.model_copy(
            update={
                "lower_bound": bound * (found.absolute.unit_ns or 1) if in_ns else bound,
                "proof": found.proof,
                "status": found.status,
            }
        )

    def _within_kinds(self, case: Case, arrays: int) -> tuple[Case, int]:
        """Return the case and the arrays of all kinds together that a search may use.

        The numbers of the kinds hold; where one is open, the area of the allocation does, or its arrays.
        """
        if all(kind.arrays is not None for kind in case.hardware.kinds or ()):
            return case, MAX_ARRAYS
        area_um2 = self.now.area_um2
        if area_um2 is None:
            return case, arrays
        return replace(case, at_most={"area_um2": area_um2}).with_stages(case.stages), MAX_ARRAYS

    def _result(
        self,
        timing: ExactTiming | Allocation,
        absolute: Absolute | Allocation,
        metrics: Metrics | Allocation | None,
        arrays: int,
    ) -> WhatIfResult:
        """Return a result without a bound: that of a search is in the unit of its objective."""
        steps = timing.interval if self.objective == "interval" else timing.makespan
        figures = metrics.total if isinstance(metrics, Metrics) else metrics
        value = steps * (absolute.unit_ns or 1)
        unproven = dict.fromkeys(("lower_bound", "proof", "status"))
        return WhatIfResult.gather(timing, absolute, figures, arrays=arrays, value=value, **unproven)


def _of(kind: Kind) -> str:
    """Return the dotted name of the number of arrays of a kind."""
    return f"kinds.{kind.name}.arrays" if kind.tiles is None else f"kinds.{kind.name}.tiles"


def _larger(kind: Kind) -> int:
    """Return the number of arrays, or of tiles, of a kind and some more."""
    number = (kind.arrays if kind.tiles is None else kind.tiles) or 0
    return number + _more(number)


def _more(arrays: int) -> int:
    """Return the number of arrays that are tried in addition to `arrays`."""
    return max(1, int(arrays * _MORE_ARRAYS))


def better_values(hardware: Hardware, times: int, *, with_links: bool = False) -> Iterator[tuple[str, float]]:
    """Yield the given fields that have a better value, each with a value `times` as good.

    with_links: also those of links, which take time only where transfer between tiles is counted.
    """
    for table in _TABLES:
        given = getattr(hardware, table)
        for entry, have in () if given is None else given:
            if entry == "columns_per_adc" and have is not None:
                have = min(have, hardware.crossbar.bitlines)
            better, name = _better(entry, have, times), f"{table}.{entry}"
            if better != have and (with_links or name not in _LINKS):
                yield name, better
    for kind in hardware.kinds or ():
        for entry, have in (kind.timing or {}).items():
            better = _better(entry, have, times)
            if better != have:
                yield f"kinds.{kind.name}.timing.{entry}", better
    for operator, rate in ({} if hardware.digital is None else hardware.digital.ns_per_pixel).items():
        yield f"digital.ns_per_pixel.{operator}", rate / times


def _better(field: str, have: Any, times: int) -> Any:
    """Return a value of a field `times` as good, or the best that is allowed."""
    if not isinstance(have, int | float):
        return have
    if field in _SMALLER:
        return max(1, have // times) if isinstance(have, int) else have / times
    if field in _LARGER:
        return min(have * times, _MOST.get(field, have * times))
    return have


def changes_of(changes: ChangesLike) -> list[HardwareValues]:
    """Return the values of every change. Raises SpecError."""
    if isinstance(changes, MappingOf):
        return [changes]
    return [values_of([change] if isinstance(change, str) else change, "--what-if") for change in changes]


def _now(hardware: Hardware, values: HardwareValues) -> str:
    """Return the present values of the named fields in the texts of `--set`, "none" if absent."""
    texts = list[str]()
    for name in values:
        text = texts_of({name: value_at(hardware, name)})[0].partition("=")[2]
        texts.append(hardware.crossbar.size if name == "crossbar" else text)
    return ", ".join(texts)


def _more_um2(now: WhatIfResult, then: WhatIfResult) -> float | None:
    """Return the area that a change adds; None where the hardware gives none."""
    if now.area_um2 is None or then.area_um2 is None:
        return None
    return then.area_um2 - now.area_um2


def _order(what_if: WhatIf) -> tuple[int, float]:
    """Return the key by which changes are sorted: gain per area, gain, no gain, no result."""
    if what_if.gain is None:
        return 3, 0.0
    if what_if.gain == 0:
        return 2, 0.0
    return (0, -what_if.gain_per_mm2) if what_if.gain_per_mm2 is not None else (1, -what_if.gain)
