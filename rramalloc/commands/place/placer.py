"""CasePlacer: places the allocations of one case, for `--placed`, and remembers their placements.

Transfer time: how long a step's outputs take from the tiles that compute them to those that read them.

In a step each copy of a stage yields a block of pixels, which goes to every consumer, after the partial sums
of copies that lie in several tiles (`transfer`). With all stages busy, a link carries what all edges and
partial sums send over it in one step. Partial sums, and then results, need

    transfer_ns = hops of the longest route, each with its hop_ns + max over its links of load / bandwidth.

A stage needs as long as the slowest of its edges. It runs beside the access to memory
(docs/sources/model.md 7): the step lasts as long as the slower of them, or the computation. The load of the
slowest link is taken to grow with the stage's own copies, so that a search can trade copies for time; at the
copies that were placed the time is exact.

Where stages have their own clocks, the transfer of an edge is a delay instead: its pixels reach the consumer
transfer_ns after their batch has ended (docs/sources/model.md 11). A stage one of whose links is asked for
more bytes than it carries in the time of the batches slows down until the link keeps up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rramalloc.allocation.allocation import EdgeDelay, LayerPlaces
from rramalloc.allocation.allocation_input import AllocationInput
from rramalloc.allocation.case import Case
from rramalloc.allocation.goes_with import check_command
from rramalloc.commands.place.arrange import TRIES_THAT_PAY, Arrangement, arrange, as_kept
from rramalloc.commands.place.layout import Layout
from rramalloc.commands.place.mesh import chip_of
from rramalloc.commands.place.place import StoredNetwork, timer_of
from rramalloc.commands.place.transfer import TransferTimer, check_transfer
from rramalloc.errors import SpecError
from rramalloc.network.network import Network
from rramalloc.rounding import SAME_SUM
from rramalloc.search.problem import Choice, Placed
from rramalloc.search.work import Work

_SEED = 0  # of what placements draw: that of a search does not change the places of an allocation
_SEED_AGAIN = 1000  # where one more is looked for
_MANY_MOVES = 4000  # copies times tiles, beyond which placing again is one more try: several take seconds


_Key = tuple[bytes, bool, bool]
"""Identity of an allocation, whether its interval is minimised, and whether it was placed again."""


@dataclass(frozen=True, eq=False)
class CasePlacer:
    """The `Placer` of a case.

    of_interval: whether the interval is minimised, in place of the latency. What was placed again is
    remembered beside what was placed first: a quick placement does not depend on what was asked before.
    Raises SpecError if the hardware lacks [chip] or all of its times and bandwidths, or [timing] without
    measured step times; UnsupportedError for what does not go with `--placed`.
    """

    case: Case
    of_interval: bool = False
    _known: dict[_Key, tuple[Arrangement, tuple[LayerPlaces, ...], bool]] = field(default_factory=dict)
    _charged_s: dict[_Key, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_command("place", "--placed", self.case)
        hardware = self.case.hardware
        check_transfer(hardware)
        if hardware.timing is None and self.case.measured is None:
            reason = "has no [timing] and there is no latency table"
            words = f"{reason}: transfer is compared with the time of a step"
            raise SpecError(f"hardware {hardware.name[:60]!r}", words)

    @property
    def placed_count(self) -> int:
        """Number of allocations that were placed."""
        return len({key[:2] for key in self._known})

    def for_interval(self) -> CasePlacer:
        """Return the same placer for the least interval."""
        return replace(self, of_interval=True)

    def placed(
        self, found: Choice, stop: Work | None = None, *, quick: bool = False, again: bool = False
    ) -> Placed:
        """Return an allocation with its placement, as `Placer.placed`."""
        case, of_case = self.case, found
        if case.bits is not None and any(mode.weight_bits for mode in found.modes):
            case, of_case = case.fixed(found)
        problem = replace(of_case.problem.in_modes(of_case.modes), placer=None)
        if problem.step_time is None:
            raise AssertionError("checked before")
        identity, stop = found.identity, stop or Work()
        begun_s = stop.spent_s
        key = identity, self.of_interval, again
        known = self._known.get((identity, self.of_interval, False))
        if not quick:
            known = self._known.get((identity, self.of_interval, True), known)
        if known is None or (again and not known[2] and known[0].slower > 1 + SAME_SUM):
            timer = TransferTimer(
                problem.graph, found.copies, problem.step_time, case.hardware, self.of_interval
            )
            stored = StoredNetwork.of_copies(
                problem.on_arrays.graph, timer.placed_copies, case.hardware, case.mapping
            )
            moves = int(timer.placed_copies.sum()) * chip_of(case.hardware).tile_count
            arranged = arrange(
                stored.graph,
                stored.held,
                case.hardware,
                work=None,
                seed=_SEED if known is None else _SEED_AGAIN,
                stop=stop,
                timer=timer,
                taken=case.taken,
                tries=1 if quick or (again and moves > _MANY_MOVES) else TRIES_THAT_PAY,
            )
            # More work may end in another minimum: the better placement stays.
            if known is not None and known[0].slower <= arranged.slower:
                arranged = known[0]
            places = places_in_result(arranged.layout, problem.on_arrays.graph.names)
            known = self._known[key] = arranged, places, not quick
            self._charged_s[key] = stop.spent_s - begun_s
        else:  # as `Placer.placed`
            stop.charge(self._charged_s.get(key, 0.0))
        arranged, times = known[0], known[0].times
        if times is None:
            raise AssertionError("a timer was given")
        timed = replace(problem, graph=times.graph, step_time=times.step_time, limits=found.problem.limits)
        graph = problem.graph
        transfer_ns = {
            graph.names[stage]: float(times.transfer_ns[stage])
            for stage in graph.network_order
            if graph.weighted[stage]
        }
        choice = timed.choice(found.copies)
        is_hidden = arranged.slower <= 1 + SAME_SUM
        return Placed(choice, is_hidden, transfer_ns, known[1])


def places_in_result(layout: Layout, names: Sequence[str]) -> tuple[LayerPlaces, ...]:
    """Return the places of a layout as files keep them. names: of the stages."""
    pieces, sites = layout.pieces, layout.sites[layout.site]
    rows: list[list[tuple[int, ...]]] = [[] for _ in names]
    table = np.column_stack([pieces.copy, sites, pieces.arrays])
    for stage, row in zip(pieces.stage.tolist(), table.tolist(), strict=True):
        rows[stage].append(tuple(row))
    return tuple(
        LayerPlaces(layer=name, stripe=int(height), pieces=tuple(own))
        for name, height, own in zip(names, pieces.heights, rows, strict=True)
    )


def timed_again(network: Network, source: AllocationInput, stop: Work | None = None) -> AllocationInput:
    """Return an allocation with the transfers between its places on its hardware, which may be another one.

    Without places it is placed in one try, which the clock and token of `stop` end, to which it is charged.
    Raises SpecError for places that do not hold it, CapacityError.
    """
    before, hardware = source.without_transfer(), source.hardware
    timer = timer_of(network, before)
    if timer is None:
        return before
    stored = StoredNetwork.of(network, before)
    if source.places:
        times = as_kept(stored.graph, stored.held, hardware, timer, source.places).times
    else:
        times = arrange(
            stored.graph, stored.held, hardware, work=None, seed=_SEED, stop=stop, timer=timer, tries=1
        ).times
    if times is None:
        raise AssertionError("a timer was given")
    names, ticks = timer.graph.names, times.graph.batch_ticks(timer.copies).tolist()
    delays = [
        EdgeDelay(producer=names[p], consumer=names[c], ticks=lag) for (p, c), lag in times.graph.lags.items()
    ]
    return replace(
        source,
        transfer_ns=dict(zip(names, times.transfer_ns.tolist(), strict=True)),
        delays=tuple(delays),
        cycles=dict(zip(names, ticks, strict=True)) if times.graph.unit == "ticks" else {},
    )
