"""`size`: the cheapest chip on which networks reach their goals, proven over all choices of hardware.

The arrays that a network needs at least bound what a candidate costs, proven or not. Candidates are searched
in fixed rounds, each with more work than the one before, the cheapest bounds first; a candidate is searched
no further once its bound reaches the best cost. Source: docs/sources/model.md 20.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from pydantic import TypeAdapter

from rramalloc.allocation.allocation import Allocation
from rramalloc.allocation.allocation_input import read_allocation
from rramalloc.allocation.case import Case
from rramalloc.allocation.check import check_answer
from rramalloc.allocation.goes_with import check_command, check_question
from rramalloc.allocation.optimize import arrays_in_result, checked_allocation, propose, start_choice
from rramalloc.allocation.optimize import question as objective_with_start
from rramalloc.allocation.question import Question
from rramalloc.commands.size.first_bounds import FirstBounds
from rramalloc.commands.size.question import (
    MILLIONTHS,
    SizedNetwork,
    SizeQuestion,
    Stored,
    cost_of_tiles,
    costs_of_kinds,
    read_question,
)
from rramalloc.commands.size.results import Results
from rramalloc.commands.size.sizing import (
    CHOSEN,
    DEARER,
    INFEASIBLE,
    Candidate,
    NetworkOnChip,
    SizedChip,
    Sizing,
)
from rramalloc.commands.size.task import SizeTask, TaskResult, missed_by, out_of_reach
from rramalloc.errors import InfeasibleError, LimitError, RramallocError, SpecError, TargetError
from rramalloc.files import beside
from rramalloc.hardware.components import array_area_nm2
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.kinds import MOST_ARRAYS
from rramalloc.hardware.tables import MAX_LINES, Chip
from rramalloc.mapping.tiles import Site
from rramalloc.network.shipped import shipped_network
from rramalloc.progress import followed
from rramalloc.records import check_effort, parse
from rramalloc.room import load_from
from rramalloc.search.cores import cores
from rramalloc.search.objective import gap_of
from rramalloc.search.problem import Answer
from rramalloc.search.resources import Cost
from rramalloc.search.work import Work
from rramalloc.timing.access import Absolute
from rramalloc.timing.figures import totals
from rramalloc.units import Unit, counted, number_of, plain_quantity, rounded
from rramalloc.version import __version__

if TYPE_CHECKING:
    from rramalloc.commands.sweep.workers import Workers

_WORKS = (1, 4, 20)
"""Units of search of the first rounds; the last round has all that is allowed."""
# A round compares its candidates with the best after every group of them. Groups depend on the question
# alone, so that the result does not depend on the number of cores.
_TOGETHER = 2  # candidates of a group at least
_GROUPS = 50  # groups of a round at most
_TILE_STEPS = 8  # numbers of tiles that are tried, up to twice the fewest
_MANY_SEARCHES = 500  # from which on worker processes are started, which takes seconds
_ALLOCATION: TypeAdapter[Allocation] = TypeAdapter(Allocation)
SizeProgress = Callable[[int, int, float | None, float], None]
"""Called with the candidates that are decided, all of them, the best cost (None: none yet) and the bound."""


def size(
    spec: str | Mapping[str, Any],
    *,
    store: str | os.PathLike[str] | None = None,
    scheduler: str | None = None,
    jobs: int | None = None,
    on_progress: SizeProgress | None = None,
    progress: bool = True,
    time_limit_s: float | None = None,
    stop: Work | None = None,
) -> Sizing:
    """Find the cheapest chip on which networks reach their goals, proven over all choices of its hardware.

    Parameters
    ----------
    spec
        A TOML file, or a dict of its form: {"networks": [{"network": "vgg11", "target_throughput": 2000}],
        "hardware": "isaac", "choose": {"timing.columns_per_adc": [16, 32]}}.
    store
        A file that keeps every search as soon as it ended: the same call goes on from there.
    scheduler
        Address of a Dask scheduler ("tcp://host:8786") whose workers search.
    jobs
        Processes on this machine without a scheduler, 1 for this one; None: one per core where there are
        so many searches that it pays. The result does not depend on it.
    on_progress
        Called with (candidates decided, candidates in all, least cost, bound).
    progress
        Show a line in a notebook.
    time_limit_s
        Seconds by the clock after which the search ends; the result then depends on the machine.
    stop
        Ends the search from outside.

    Returns
    -------
    Sizing
        The chip, what it costs, and what decided on every other candidate.

    Raises
    ------
    InfeasibleError
        No candidate reaches all goals.
    WorkerError
        The workers are lost.
    RramallocError
        FileError, SpecError, UnknownNameError.
    """
    from rramalloc.commands.sweep.workers import check_jobs

    question, folder = read_question(spec)
    check_jobs(jobs, scheduler)
    check_effort(question.seed, question.work, time_limit_s, most_seed=2**63 - 1)
    ending = stop or Work(time_limit_s=time_limit_s)
    with (
        _workers(question, scheduler, jobs) as workers,
        Results(store, workers) as results,
        followed(on_progress, progress, progress_words) as callback,
    ):
        return _Search(question, folder, ending, results, callback).result()


def progress_words(decided: int, candidates: int, best: float | None, bound: float) -> str:
    """Return the line of `size`."""
    best_so_far = "none yet" if best is None else rounded(best)
    return f"{decided} of {number_of(candidates, 'candidate')}, best {best_so_far}, bound {rounded(bound)}"


@contextlib.contextmanager
def _workers(question: SizeQuestion, scheduler: str | None, jobs: int | None) -> Iterator[Workers | None]:
    """Give the workers that search, None for this process. Raises WorkerError."""
    from rramalloc.commands.sweep.workers import ClusterWorkers, LocalWorkers

    few = question.size * len(question.networks) < _MANY_SEARCHES
    processes = jobs or (1 if few else cores())
    if scheduler is None and processes == 1:
        yield None
        return
    with ClusterWorkers(scheduler) if scheduler is not None else LocalWorkers(processes) as workers:
        yield workers


@dataclass(slots=True)
class _OnCandidate:
    """Bounds and allocations of a network on a candidate.

    least: lower bound of the cost; found: the best allocation known; impossible: reason why the goal is out
    of reach, "" if it is not known to be; miss: bound as a multiple of the goal then, None if unknown.
    """

    least: Cost
    found: Allocation | None = None
    impossible: str = ""
    miss: float | None = 1.0

    @property
    def decided(self) -> bool:
        """Whether more search would find no better allocation."""
        return self.found is not None and self.least >= self.most

    @property
    def most(self) -> float:
        """Cost of the best allocation known, infinity for none."""
        if self.found is None:
            return math.inf
        value = float(self.found.objective_value)
        return value if self.found.hardware.kinds is None else round(value * MILLIONTHS)


@dataclass(slots=True)
class _Candidate:
    """A candidate under search, with bounds and allocations of every network on it.

    tiles: of its chip where links are counted; missed: what then was not reached, and with how many tiles.
    """

    number: int
    choices: dict[str, Any]
    hardware: Hardware
    networks: list[_OnCandidate] = field(default_factory=list)
    least: float = 0.0
    most: float = math.inf
    is_dropped: bool = False
    tiles: int | None = None
    missed: str = ""

    @property
    def used(self) -> int:
        """Arrays that the networks use, in the order of ties."""
        each = (on_candidate.found for on_candidate in self.networks)
        return sum(found.arrays.used for found in each if found is not None)

    @property
    def impossible(self) -> str:
        """Reason why a goal is out of reach, "" if none is known to be."""
        return next(
            (on_candidate.impossible for on_candidate in self.networks if on_candidate.impossible), ""
        )

    @property
    def miss(self) -> float:
        """The bound of the first goal out of reach as a multiple of the goal, or its inverse for a rate."""
        first = next((on_candidate.miss for on_candidate in self.networks if on_candidate.impossible), 1.0)
        return math.inf if first is None else first

    @property
    def decided(self) -> bool:
        """Whether no more search is needed."""
        return (
            bool(self.impossible)
            or self.is_dropped
            or all(on_candidate.decided for on_candidate in self.networks)
        )


class _Search:
    """Rounds of search over all candidates. results: of tasks, computed by worker processes or here."""

    def __init__(
        self,
        question: SizeQuestion,
        folder: str,
        stop: Work,
        results: Results,
        on_progress: SizeProgress | None,
    ) -> None:
        self.question, self.folder, self.stop, self.on_progress = question, folder, stop, on_progress
        self.results, self.work_s = results, 0.0
        self.candidates = list[_Candidate]()
        for number, (choices, hardware) in enumerate(question.candidates(folder)):
            self._check(hardware)
            self.candidates.append(_Candidate(number, choices, hardware))
            self._check_time(question.size)
        first = self.candidates[0].hardware
        self.cases = [self._case(network, first) for network in question.networks]
        # a network and its goal as JSON, which tasks carry
        self.texts = [
            (
                json.dumps(case.network.to_dict()),
                json.dumps(
                    network.model_dump(mode="json", exclude={"network"}) | {"network": case.network.name}
                ),
            )
            for network, case in zip(question.networks, self.cases, strict=True)
        ]
        bounds = [
            FirstBounds(case, network.wanted, question.minimise)
            for network, case in zip(question.networks, self.cases, strict=True)
        ]
        for candidate in self.candidates:
            candidate.networks = [self._first(bound, candidate.hardware) for bound in bounds]
            self._bound(candidate)
            self._check_time(question.size)

    def _check_time(self, candidates: int) -> None:
        """Raise InfeasibleError if the search was ended before all candidates have a bound."""
        if self.stop.out_of_time:
            among = counted(candidates, "candidate")
            raise InfeasibleError(f"no chip was found of {among}: {self._more}", ())

    @property
    def _more(self) -> str:
        """Remedy if a search ends too early, in words."""
        if not self.stop.out_of_time:
            return "raise work"
        return "it was interrupted" if self.stop.interrupted else "the limit of time ended it: raise that"

    def _case(self, network: SizedNetwork, hardware: Hardware) -> Case:
        source = beside(self.folder, network.network, shipped_network)
        return Case.of(source, {**network.options, "hardware": with_free_arrays(hardware)})  # type: ignore[typeddict-item]

    def _check(self, hardware: Hardware) -> None:
        """Raise SpecError for a hardware of which no chip can be made."""
        question, where = self.question, f"hardware {hardware.name[:60]!r}"
        if question.minimise == "area_um2" and hardware.kinds is None and array_area_nm2(hardware) is None:
            raise SpecError(where, "energy.area_um2 is missing: give it, or minimise arrays")
        if question.minimise == "area_um2" and hardware.kinds is not None and not hardware.counts_area:
            words = "every kind needs an energy.area_um2 for the area of a chip"
            raise SpecError(where, f"{words}: give it, or minimise arrays")
        if question.placed:
            _tiles_of(hardware)
            is_shared = question.stored == "all" and len(question.networks) > 1
            if is_shared and hardware.own_tiles is not None:
                words = 'gives tiles to one layer each (sharing = "layer"), and networks are to share them'
                raise SpecError(where, f'{words}: take sharing = "free", stored "one", or leave placed out')
            check_transfer: Callable[[Hardware], None] = load_from(
                "place", "transfer:check_transfer", "placed"
            )
            check_transfer(hardware)

    def _first(self, bounds: FirstBounds, hardware: Hardware) -> _OnCandidate:
        """Return the first bound of a network on a hardware, before its modes are listed.

        Raises UnsupportedError for a hardware that does not go with the question.
        """
        case = bounds.case.on(hardware)
        asked = Question(objective="arrays", target=bounds.target, placed=self.question.placed)
        check_command("size", "size --placed" if self.question.placed else "size", case, asked)
        check_question(case, asked)
        try:
            return _OnCandidate(bounds.least(hardware))
        except TargetError as error:
            words = f"{bounds.case.network.name}: {out_of_reach(error)}"
            return _OnCandidate(bounds.once(hardware), impossible=words, miss=missed_by(error))

    def _bound(self, candidate: _Candidate) -> None:
        """Bound the cost of a candidate by what its networks take at least and at most."""
        stored = self.question.stored
        taken = _in_all(stored, (on_candidate.least for on_candidate in candidate.networks))
        if candidate.hardware.kinds is None:
            ((_, of_tile),) = costs_of_kinds(candidate.hardware, "arrays")
            candidate.least = self._cost(candidate, [-(-math.ceil(taken) // of_tile)])
        else:
            candidate.least = taken / MILLIONTHS
        if all(on_candidate.found is not None for on_candidate in candidate.networks):
            candidate.most = self._cost(candidate, _tiles(candidate, stored))

    def _cost(self, candidate: _Candidate, tiles: Sequence[int]) -> float:
        """Return the um2 or arrays of these tiles."""
        return cost_of_tiles(candidate.hardware, self.question.minimise, tiles)

    @property
    def best(self) -> _Candidate | None:
        """The cheapest candidate known; of equal ones that with the fewest arrays, then the first."""
        known = [
            candidate
            for candidate in self.candidates
            if not math.isinf(candidate.most) and not candidate.impossible
        ]
        return min(
            known, key=lambda candidate: (candidate.most, candidate.used, candidate.number), default=None
        )

    @property
    def bound(self) -> float:
        """The least cost that any candidate may have."""
        return min(
            (candidate.least for candidate in self.candidates if not candidate.impossible), default=math.inf
        )

    def result(self) -> Sizing:
        """Return the best chip that the rounds find. Raises InfeasibleError where no candidate is one."""
        self._decide()
        for work in [less for less in _WORKS if less < self.question.work] + [self.question.work]:
            self._round(work)
        if self.question.placed:
            self._place()
        best = self.best
        if best is None:
            raise self._infeasible()
        return self._sizing(best)

    def _place(self) -> None:
        """Place candidates, those with the lowest bound first, with more tiles where links ask for them."""
        order = sorted(
            (candidate for candidate in self.candidates if not candidate.impossible),
            key=lambda candidate: (candidate.least, candidate.number),
        )
        best = math.inf
        for place, candidate in enumerate(order):
            candidate.is_dropped = candidate.least >= best or self.stop.out_of_time
            if not candidate.is_dropped:
                self._search([candidate], self.question.work, math.inf)  # others were cheaper without links
            is_found = not candidate.is_dropped and not math.isinf(candidate.most)
            candidate.most = math.inf
            if is_found and not candidate.impossible:
                following = order[place + 1].least if place + 1 < len(order) else math.inf
                self._place_on_tiles(candidate, min(best, max(following, candidate.least)))
                best = min(best, candidate.most)

    def _place_on_tiles(self, candidate: _Candidate, limit: float) -> None:
        """Place the networks of a candidate on as many tiles as they take, or on more below a cost."""
        alone = [on_candidate.found for on_candidate in candidate.networks]
        (first,) = _tiles(candidate, self.question.stored)
        for tiles in range(first, 2 * first + 1, max(1, first // _TILE_STEPS)):
            cost = self._cost(candidate, [tiles])
            if (tiles > first and cost >= limit) or self.stop.out_of_time:
                return
            chip = candidate.hardware.with_values({"chip.tiles": tiles, "chip.chips": [1, 1]})
            try:
                found = self._placed_together(chip, alone)
            except TargetError as error:
                reached = plain_quantity(error.reached or error.bound, cast("Unit", error.unit))
                candidate.missed = f"with links, {counted(tiles, 'tile')} reach {reached}"
                continue
            except LimitError as error:
                candidate.missed = f"with links, {counted(tiles, 'tile')}: {error}"
                continue
            for on_candidate, allocation in zip(candidate.networks, found, strict=True):
                on_candidate.found = allocation
            candidate.tiles, candidate.most, candidate.missed = tiles, cost, ""
            return

    def _placed_together(self, chip: Hardware, alone: Sequence[Allocation | None]) -> list[Allocation]:
        """Return an allocation of every network that reaches its goal; those that are stored share the tiles.

        alone: without links, of which later networks keep the arrays free. Raises as `_placed`.
        """
        found = list[Allocation]()
        taken = Counter[Site]()
        for place, start in enumerate(alone):
            is_shared = self.question.stored == "all"
            later = sum(each.arrays.used for each in alone[place + 1 :] if each) if is_shared else 0
            found.append(self._placed(place, chip, start, taken, later))
            for layer in found[-1].places or () if is_shared else ():
                for _, *site, arrays in layer.pieces:
                    taken[site[0], site[1], site[2], site[3]] += arrays
        return found

    def _placed(
        self,
        place: int,
        chip: Hardware,
        start: Allocation | None,
        taken: Mapping[Site, int],
        later: int,
    ) -> Allocation:
        """Return an allocation of a network that reaches its goal on a chip.

        taken: arrays of tiles that hold other networks; later: arrays left for other networks.
        Raises TargetError, LimitError.
        """
        case = replace(self.cases[place].on(chip), placed=True, taken=dict(taken))
        case = case.with_stages(self.cases[place].stages)
        arrays = _tiles_of(chip).arrays - sum(taken.values()) - later
        begun = None if start is None else read_allocation(start)
        asked = Question(
            objective="arrays",
            seed=self.question.seed,
            target=self.question.networks[place].wanted,
            start=None if begun is None or begun.kinds else replace(begun, hardware=chip),
            placed=True,
        )
        stop = self.stop.nested(self.question.work)
        objective = objective_with_start(case.problem(arrays), asked)
        try:
            answer = propose(objective, asked, stop)
            return checked_allocation(case, arrays, objective, asked, stop, answer)
        finally:
            self.work_s += stop.spent_s

    def _round(self, work: int) -> None:
        """Search all undecided candidates with `work` units each, those with the lowest bounds first."""
        order = sorted(
            (candidate for candidate in self.candidates if not candidate.decided),
            key=lambda candidate: (candidate.least, candidate.number),
        )
        together = max(_TOGETHER, len(order) // _GROUPS)
        starts = [0, *range(1, len(order), together)]  # the first alone: often no other one is searched then
        for first, end in pairwise([*starts, len(order)]):
            best = self.best
            limit = math.inf if best is None else best.most
            if first < len(order) and order[first].least >= limit:  # and so those behind it
                return
            self._search(order[first:end], work, limit)
            if self.stop.out_of_time:
                return
            self._decide()

    def _decide(self) -> None:
        """Drop the candidates whose bound reaches the best cost."""
        best = self.best
        for candidate in self.candidates:
            candidate.is_dropped = best is not None and candidate is not best and candidate.least >= best.most
        if self.on_progress is not None:
            done = sum(candidate.decided for candidate in self.candidates)
            self.on_progress(done, len(self.candidates), None if best is None else best.most, self.bound)

    def _search(self, candidates: Sequence[_Candidate], work: int, limit: float) -> None:
        """Search the networks of candidates with so much work, while they may still cost less than a limit.

        One network after the other, each on all candidates at once: what is searched depends on the limit and
        on the networks before, not on how many processes there are.
        """
        for place in range(len(self.cases)):
            still = [
                candidate for candidate in candidates if not candidate.impossible and candidate.least < limit
            ]
            tasks = [
                (candidate, self._task(candidate, place, work))
                for candidate in still
                if not candidate.networks[place].decided
            ]
            results = self.results.of([task for _, task in tasks], self.stop)
            for candidate, task in tasks:
                if task in results:
                    self._take(candidate, place, results[task])
            if self.stop.out_of_time:
                return

    def _task(self, candidate: _Candidate, place: int, work: int) -> SizeTask:
        network, sized = self.texts[place]
        on_candidate, start = candidate.networks[place], ""
        if on_candidate.found is not None:
            bare = read_allocation(on_candidate.found).bare.model_dump(mode="json")
            start = json.dumps({name: value for name, value in bare.items() if value})
        hardware = with_free_arrays(candidate.hardware).model_copy(update={"set_values": None})
        text = json.dumps(hardware.to_dict())
        question = self.question
        kinds = costs_of_kinds(candidate.hardware, question.minimise) if candidate.hardware.kinds else ()
        if question.stored == "all" and len(self.cases) > 1:  # which share tiles
            kinds = tuple((cost // arrays, 1) for cost, arrays in kinds)
        return SizeTask(
            network, sized, text, kinds, question.minimise, on_candidate.least, work, question.seed, start
        )

    def _take(self, candidate: _Candidate, place: int, result: TaskResult) -> None:
        """Enter the result of a search into a candidate."""
        on_candidate = candidate.networks[place]
        on_candidate.least = Cost(max(on_candidate.least, result["least"]))
        on_candidate.impossible = result["impossible"]
        on_candidate.miss = result["miss"]
        if result["found"] is not None:
            found = parse(_ALLOCATION, result["found"], "allocation")
            is_better = (
                on_candidate.found is None or found.objective_value < on_candidate.found.objective_value
            )
            on_candidate.found = found if is_better else on_candidate.found
        self.work_s += result["work_s"]
        self._bound(candidate)

    def _infeasible(self) -> RramallocError:
        """Return an InfeasibleError that names the missed goals and the nearest candidate of each."""
        unknown = [each for each in self.candidates if not (each.impossible or each.missed)]
        if unknown:
            among = counted(len(self.candidates), "candidate")
            words = f"{len(unknown):,} of {among} {'is' if len(unknown) == 1 else 'are'} not decided"
            within = "in time" if self.stop.out_of_time else "within the work allowed"
            return InfeasibleError(f"no chip was found {within}, {words}: {self._more}", ())
        reasons = dict[str, list[_Candidate]]()
        for candidate in self.candidates:
            if candidate.impossible:
                reasons.setdefault(candidate.impossible.partition(":")[0], []).append(candidate)
        lines = [f"{each.missed} ({_shown(each.choices)})" for each in self.candidates if each.missed]
        for those in reasons.values():
            nearest = min(those, key=lambda candidate: (candidate.miss, candidate.number))
            shown = _shown(nearest.choices)
            lines.append(f"{nearest.impossible} ({counted(len(those), 'candidate')}; nearest with {shown})")
        every = len(self.candidates)
        words = "the candidate does not reach" if every == 1 else "none of these candidates reaches"
        return InfeasibleError(f"{words} all goals, {every:,} tried", lines)

    def _sizing(self, best: _Candidate) -> Sizing:
        """Return the result with the best chip."""
        cost, bound = best.most, min(self.bound, best.most)
        warnings = list[str]()
        each_array = (own for candidate in self.candidates for own in candidate.hardware.each_kind)
        sizes = {own.crossbar.size for own in each_array if own.processor is None}
        if self.question.minimise == "arrays" and len(sizes) > 1:
            warnings.append(f"arrays of different sizes count alike: {', '.join(sorted(sizes)[:8])}")
        if self.question.stored == "one" and len(self.question.networks) > 1:
            warnings.append("the networks run in turn: writing their weights between them is not counted")
        chip = _chip_of(best, self.question.stored)
        solved = zip(self.question.networks, best.networks, self.cases, strict=True)
        networks = tuple(
            _network_on(
                network, found, chip, replace(case, placed=self.question.placed).with_stages(case.stages)
            )
            for network, found, case in solved
        )
        notes = [note for network in networks for note in network.allocation.warnings]
        not_counted = [text for network in networks for text in network.allocation.not_counted]
        return Sizing(
            rramalloc_version=__version__,
            minimise=self.question.minimise,
            stored=self.question.stored,
            cost=cost,
            lower_bound=bound,
            gap=gap_of(cost, bound),
            seed=self.question.seed,
            work=self.question.work,
            work_s=round(self.work_s, 6),
            searched=sum(
                all(on_candidate.decided for on_candidate in candidate.networks)
                for candidate in self.candidates
            ),
            chip=chip,
            networks=networks,
            candidates=tuple(self._row(candidate, best) for candidate in self.candidates),
            not_counted=tuple(dict.fromkeys(not_counted)),
            warnings=tuple(dict.fromkeys([*warnings, *notes])),
        )

    def _row(self, candidate: _Candidate, best: _Candidate) -> Candidate:
        """Return the row of a candidate."""
        taken = _in_all(self.question.stored, (on_candidate.least for on_candidate in candidate.networks))
        if candidate.hardware.kinds is not None:  # of its dearest arrays
            taken /= max(cost for cost, _ in costs_of_kinds(candidate.hardware, self.question.minimise))
        is_known = not math.isinf(candidate.most) and not candidate.impossible
        is_decided = candidate.is_dropped or all(on_candidate.decided for on_candidate in candidate.networks)
        if candidate.hardware.kinds is not None:  # in turn others may share their kinds better
            is_decided &= candidate.is_dropped or candidate.least >= candidate.most
        why = DEARER if is_decided else ""
        if candidate is best:
            why = CHOSEN
        elif candidate.impossible:
            why = f"{INFEASIBLE}: {candidate.impossible}"
        elif candidate.missed:
            why = candidate.missed
        return Candidate(
            choices=candidate.choices,
            arrays=(math.ceil(taken), sum(_used(candidate, self.question.stored)) if is_known else None),
            cost=(candidate.least, candidate.most if is_known else None),
            why=why or "not finished",
        )


def _tiles_of(hardware: Hardware) -> Chip:
    """Return the tiles of a hardware. Raises SpecError without [chip]."""
    if hardware.chip is None:
        reason = "has no [chip], between whose tiles transfers could be counted: give arrays_per_tile there"
        raise SpecError(f"hardware {hardware.name[:60]!r}", reason)
    return hardware.chip


def with_free_arrays(hardware: Hardware) -> Hardware:
    """Return the hardware with more tiles and arrays than any network uses: `size` finds their number.

    Arrays that a network leaves free do not leak: the chip that is found has none.
    """
    chip, kinds, energy = hardware.chip, hardware.kinds, hardware.energy
    if chip is None:
        free_kinds = tuple(kind.model_copy(update={"arrays": None}) for kind in kinds or ())
        return hardware.model_copy(update={"kinds": free_kinds or None})
    side = min(MAX_LINES, math.isqrt(MOST_ARRAYS // max(hardware.arrays_per_tile)))
    free = chip.model_copy(update={"tiles": (side, side), "chips": (1, 1)})
    of_each = {"tiles": side**2 // max(1, len(kinds or ())), "arrays": None}
    in_tiles = tuple(kind.model_copy(update=of_each) for kind in kinds or ())
    if energy is not None and energy.leakage_mw is not None:
        energy = energy.model_copy(update={"idle": "gated"})
    return hardware.model_copy(update={"chip": free, "kinds": in_tiles or None, "energy": energy})


def _in_all(stored: Stored, amounts: Iterable[float]) -> float:
    """Return the arrays of all networks: their maximum if they run in turn, their sum if all are stored."""
    return max(amounts) if stored == "one" else sum(amounts)


def _used(candidate: _Candidate, stored: Stored) -> list[int]:
    """Return the arrays of every kind that hold the allocations: of each the most, or the sum of all."""
    found = [on_candidate.found for on_candidate in candidate.networks if on_candidate.found is not None]
    each = [[kind.used for kind in (own.arrays.by_kind or {}).values()] or [own.arrays.used] for own in found]
    return [int(_in_all(stored, used)) for used in zip(*each, strict=True)]


def _tiles(candidate: _Candidate, stored: Stored) -> list[int]:
    """Return the tiles of every kind that hold the allocations; arrays without [chip]."""
    each = zip(_used(candidate, stored), costs_of_kinds(candidate.hardware, "arrays"), strict=True)
    return [-(-used // of_tile) for used, (_, of_tile) in each]


def _chip_of(candidate: _Candidate, stored: Stored) -> SizedChip:
    """Return the chip of a candidate: as many arrays as its networks take, in whole tiles.

    Its hardware has an array or a tile of the kinds that are not in use.
    """
    hardware = candidate.hardware
    area_um2 = None
    tiles = _tiles(candidate, stored) if candidate.tiles is None else [candidate.tiles]
    if all(array_area_nm2(own) is not None for own in hardware.each_kind):
        area_um2 = cost_of_tiles(hardware, "area_um2", tiles)
    values: dict[str, Any] = {"chip.tiles": sum(max(1, number) for number in tiles), "chip.chips": [1, 1]}
    field = "arrays" if hardware.chip is None else "tiles"
    of_kinds = {
        f"kinds.{kind.name}.{field}": max(1, own)
        for kind, own in zip(hardware.kinds or (), tiles, strict=False)
    }
    return SizedChip(
        hardware=hardware.with_values(of_kinds if hardware.chip is None else values | of_kinds),
        arrays=sum(_used(candidate, stored)),
        tiles=None if hardware.chip is None else sum(tiles),
        area_um2=area_um2,
    )


def _network_on(
    network: SizedNetwork, on_candidate: _OnCandidate, chip: SizedChip, case: Case
) -> NetworkOnChip:
    """Return the allocation of a network on the chip, and the value of its goal."""
    found = on_candidate.found
    if found is None:
        raise ValueError("the chosen chip has an allocation of every network")
    (goal,) = network.goal
    most = sum(chip.hardware.chip_arrays) or chip.arrays
    case_on_chip = case.on(chip.hardware)
    on_chip = {"warnings": case_on_chip.warnings(most), **case_on_chip.about()}
    if found.places is None:  # placed ones were, on this chip
        problem = case_on_chip.problem(most)
        try:
            begun = start_choice(problem, read_allocation(found))
        except SpecError as error:
            words = "its allocation breaks a limit of at_most on the chip of all networks, which is larger"
            raise InfeasibleError(f"{case.network.name}: {words}", ["raise it, or size it alone"]) from error
        checked = check_answer(problem, Answer(begun, 0, ""), most, "size")
        absolute = Absolute.of(checked.problem.step_time, checked.timing)
        on_chip["arrays"] = arrays_in_result(case_on_chip, most, problem, checked)
        on_chip |= totals(checked.problem.metrics(checked.timing), absolute, checked.timing.graph)
    else:
        on_chip["arrays"] = found.arrays.model_copy(update={"budget": most})
    in_ns = network.wanted.target_interval_ns is not None  # an interval is in the unit of its goal
    reached = {
        "target": found.makespan,
        "target_ns": found.latency_ns,
        "target_interval": found.interval * (found.unit_ns or 1.0) if in_ns else found.interval,
        "target_throughput": found.throughput_per_s,
    }[goal]
    return NetworkOnChip(
        name=case.network.name,
        network=case.network.to_dict(),
        goal=network.goal,
        reaches=reached,
        arrays=found.arrays.used,
        allocation=found.model_copy(update=on_chip),
    )


def _shown(choices: Mapping[str, Any]) -> str:
    """Return the values of a candidate in words."""
    return ", ".join(f"{name} = {value}" for name, value in choices.items())[:200] or "the hardware as it is"
