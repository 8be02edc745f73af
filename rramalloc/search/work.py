"""Work that a search may do before it ends without a proof, and work that it has done."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rramalloc.choices import DEFAULT_WORK
from rramalloc.compiled import compilation
from rramalloc.log import LOGGER
from rramalloc.rounding import SAME_SUM
from rramalloc.status import Stopped

SECONDS_PER_WORK = 0.05
"""A unit of search work in seconds of a reference core."""
_RUNG = 5  # ratio of the work of searches that follow each other: all take 1.25 times that of the last

_FIRST_PLAN_S = 0.5
"""Counted seconds that a search plans with at first. With 1 s, and twice what was spent later, bounds of 16
networks were 0.2 % higher, answers no better (x2, x4, work 20), but turns of 3,000 stages were too long."""
REASONS = {
    Stopped.PROOF: "proven optimal",
    Stopped.GAP: "bounded, within the gap asked for",
    Stopped.EXHAUSTED: "bounded, bound and answer stood still",
    Stopped.WORK: "bounded, stopped after the work allowed",
    Stopped.TIME: "bounded, stopped by the time limit (depends on the machine)",
    Stopped.INTERRUPTED: "bounded, interrupted",
}
"""Why a search ended, in words."""
Tell = Callable[[str, int, int], None]
"""Called with (what is searched, best, bound) whenever one of them improves."""
Progress = Callable[[int, int], None]
"""Called with (best makespan, lower bound) whenever one of them improves."""


def planned_s(spent_s: float) -> float:
    """Return the counted seconds that a search plans with after some were spent: as many again.

    Never those that are allowed: so a longer search begins as a shorter one, and is never worse.
    """
    return max(_FIRST_PLAN_S, spent_s)


@dataclass(slots=True)
class CancelToken:
    """Ends a search, and every search nested in it, from outside (Ctrl-C); all of them share one.

    interrupted: set from outside.
    """

    interrupted: bool = False


class OutOfTime(Exception):  # noqa: N818 - caught by the search, never seen by a user
    """The wall clock or the user ended a search in the middle of a proof, which then proves nothing."""


@dataclass(slots=True)
class Work:
    """When a search ends before it has a proof.

    work: units of work, the same on every machine; time_limit_s: wall clock, machine-dependent, with what is
    compiled meanwhile, which is not interrupted: where that alone takes longer, the first answer follows;
    gap: relative distance of best and bound that is good enough; cores: how many may be used, None for all
    there are, which never changes the answer; cancel: ends it from outside;
    history: (seconds of work, best makespan, lower bound) whenever one of them improved;
    spent_s: seconds of a reference core that were charged; counts: whether anything was;
    is_exhausted: whether the search could do no more; is_over: whether its next part was too much;
    best: what `optimize` found with it, also where Ctrl-C ended that.
    """

    work: int = DEFAULT_WORK
    time_limit_s: float | None = None
    gap: float = 0.0
    on_progress: Progress | None = None
    cores: int | None = None
    cancel: CancelToken = field(default_factory=CancelToken)
    history: list[tuple[float, int, int]] = field(default_factory=list)
    spent_s: float = 0.0
    counts: bool = False
    is_exhausted: bool = False
    is_over: bool = False
    best: Any = None
    _started: float = field(default_factory=time.monotonic)
    _compiled_s: float = field(default_factory=lambda: compilation.seconds)
    _whole_limit_s: float | None = None

    def __post_init__(self) -> None:
        """Keep the limit of the user, of which searches within this one get shares."""
        if self._whole_limit_s is None:
            self._whole_limit_s = self.time_limit_s

    def nested(self, work: int, *, gap: float | None = None, cores: int | None = None) -> Work:
        """Return the end of a search within this one: its own units of work, the same clock and token.

        gap, cores: instead of those of this one.
        """
        gap, cores = self.gap if gap is None else gap, cores or self.cores
        own = replace(self, work=work, gap=gap, cores=cores, on_progress=None, history=[])
        own.spent_s = 0.0
        own.counts = own.is_exhausted = own.is_over = False
        return own

    def rungs(self) -> Iterator[Work]:
        """Yield searches within this one of rising work, which is charged: 1, 4, 20, 100, 500 ... units.

        For what does not go on where a shorter search ended. The best of all of them never gets worse with
        more work, since more work only adds searches. None follows the end of time.
        """
        works = [DEFAULT_WORK]
        while works[0] > 1:
            works.insert(0, max(1, works[0] // _RUNG))
        while works[-1] * _RUNG <= self.work:
            works.append(works[-1] * _RUNG)
        for work in [each for each in works if each <= self.work] or [self.work]:
            share = self.nested(work)
            try:
                yield share
            finally:  # also where the caller needs no other
                self.charge(share.spent_s)
            if self.out_of_time:
                return

    def reporting_to(self, tell: Tell | None, what: str) -> Work:
        """Return a copy that reports every improvement to `tell`, under the name `what`."""
        if tell is None:
            return self
        return replace(self, on_progress=partial(tell, what))

    def charge(self, seconds: float) -> None:
        """Count work that was done, in seconds of a reference core."""
        self.spent_s += seconds
        self.counts = True

    def taken(self) -> float:
        """Return what was charged, and begin to count anew."""
        seconds, self.spent_s = self.spent_s, 0.0
        return seconds

    @property
    def interrupted(self) -> bool:
        """Whether the user ended the search, by Ctrl-C; to be set from outside."""
        return self.cancel.interrupted

    @interrupted.setter
    def interrupted(self, asked: bool) -> None:
        self.cancel.interrupted = asked

    @property
    def counted_s(self) -> float | None:
        """Seconds of a reference core that were charged; None where nothing was counted."""
        return self.spent_s if self.counts else None

    @property
    def is_used_up(self) -> bool:
        """Whether all the work allowed was charged, or the wall clock or the user ended the search."""
        return self.is_over or self.out_of_time or self.spent_s >= self.work_s

    def allows(self, units: int) -> bool:
        """Return True if most of `units` more are allowed; if not, the search is over.

        What a search does next may not depend on the work allowed, so it does that whole, or nothing more.
        """
        self.is_over = self.is_over or self.spent_s + units * SECONDS_PER_WORK / 2 > self.work_s
        return not self.is_over

    @property
    def plan_s(self) -> float:
        """Seconds of work that were charged and that are planned, whatever is allowed."""
        return self.spent_s + planned_s(self.spent_s)

    @property
    def work_s(self) -> float:
        """Seconds of a reference core that the work allowed stands for."""
        return self.work * SECONDS_PER_WORK

    @property
    def seconds(self) -> float:
        """Seconds since the search began."""
        return time.monotonic() - self._started

    @property
    def out_of_time(self) -> bool:
        """Whether the wall clock or the user ended the search."""
        if self.interrupted:
            return True
        if self.time_limit_s is None or self.seconds < self.time_limit_s:
            return False
        if self._whole_limit_s is not None:
            compilation.note_limit(compilation.seconds - self._compiled_s, self._whole_limit_s)
        return True

    def check(self) -> None:
        """Raise OutOfTime if the wall clock or the user ended the search."""
        if self.out_of_time:
            raise OutOfTime

    def close_enough(self, best: float, bound: float) -> bool:
        """Return True if best and bound are within the gap asked for."""
        return best - bound <= self.gap * best

    def is_open(self, best: float, bound: float) -> bool:
        """Return True if a search over ranges goes on: the gap exceeds the one asked for and rounding."""
        close = math.isfinite(best) and best - bound <= max(self.gap, SAME_SUM) * best
        return not (close or self.is_used_up)

    def ends(self, best: int, bound: int, target: int, spent_s: float) -> bool:
        """Return True if a search ends after this work: with an answer, a proof, or no work allowed.

        target: a makespan that is good enough, 0 for none.
        """
        return (
            bound >= best
            or best <= target
            or 0 < target < bound
            or self.close_enough(best, bound)
            or self.out_of_time
            or spent_s >= self.work_s
        )

    @property
    def cut(self) -> Stopped:
        """What ends a search without a proof: the user, the wall clock, no progress, or the work allowed."""
        if self.interrupted:
            return Stopped.INTERRUPTED
        if self.out_of_time:
            return Stopped.TIME
        return Stopped.EXHAUSTED if self.is_exhausted and self.work else Stopped.WORK

    def stopped(self, gap: float) -> Stopped:
        """Return why a search ended; gap: the relative distance of its best from the bound."""
        if gap <= 0:
            return Stopped.PROOF
        return Stopped.GAP if gap <= self.gap else self.cut

    def reason(self, best: float, bound: float) -> str:
        """Return why a search ended, in words."""
        return REASONS[self.stopped((best - bound) / best if best else 0.0)]

    def report(self, seconds: float, best: int, bound: int) -> None:
        """Keep an improvement, with the seconds of work until it, and report it to the caller once."""
        if self.history and self.history[-1][1:] == (best, bound):
            return
        self.history.append((seconds, best, bound))
        LOGGER.info("makespan %d, bound %d after %.2f s of work", best, bound, seconds)
        if self.on_progress is not None:
            self.on_progress(best, bound)


@contextmanager
def interruptible(work: Work | CancelToken) -> Iterator[list[int]]:
    """Make the first Ctrl-C set `work.interrupted` and the second raise KeyboardInterrupt while
    this lasts; yields the signals that came."""
    came = list[int]()

    def ask(number: int, frame: object) -> None:  # noqa: ARG001
        came.append(number)
        if work.interrupted:
            raise KeyboardInterrupt
        work.interrupted = True

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def raising_late(stop: Work) -> Iterator[None]:
    """Make Ctrl-C end a search with its best, and raise KeyboardInterrupt once that is kept.

    Where somebody else handles Ctrl-C, and in other threads, which never get it, nothing changes.
    """
    alone = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not alone or threading.current_thread() is not threading.main_thread():
        yield
        return
    with interruptible(stop) as came:
        try:
            yield
        finally:
            if came:
                raise KeyboardInterrupt
