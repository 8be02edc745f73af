"""`tune` with simulators whose answers are known: it keeps the best, repeats itself and loses nothing."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from commands.tune.toys import NETWORK, Faulty, OwnClocks

import rramalloc
from rramalloc.allocation.allocation import Allocation
from rramalloc.commands.tune.tuning import OwnChoice, Tuning
from rramalloc.errors import SimulatorError
from rramalloc.hardware.hardware import Hardware
from rramalloc.network.network import Network
from rramalloc.search.work import CancelToken


def clocks() -> OwnClocks:
    return OwnClocks((3, 40, 7), (0, 0, 2))


@pytest.fixture(scope="module")
def tuned() -> tuple[Tuning, OwnClocks]:
    """The result of 20 evaluations, and the simulator that gave them."""
    simulator = clocks()
    return rramalloc.tune(NETWORK, 24, simulator, evaluations=20), simulator


def test_the_best_answer_is_the_result(tuned: tuple[Tuning, OwnClocks]) -> None:
    tuning, simulator = tuned
    figures = [row.figure for row in tuning.judged if row.figure is not None]
    assert tuning.figure == min(figures)
    assert tuning.before == figures[0]
    assert tuning.figure < tuning.before
    assert tuning.evaluations == 20
    assert tuning.allocation.arrays.used <= 24
    again = clocks()
    assert again.evaluate(NETWORK, tuning.allocation) == tuning.figure
    # all but the one that was asked twice are different allocations within the budget
    assert len(set(simulator.asked)) == len(simulator.asked) - 1 == len(tuning.judged)
    assert all(row.arrays <= 24 for row in tuning.judged)


def test_a_run_goes_on_where_it_ended(tmp_path: Path) -> None:
    whole = rramalloc.tune(NETWORK, 24, clocks(), evaluations=16).to_dict()
    store = tmp_path / "answers.sqlite"
    rramalloc.tune(NETWORK, 24, clocks(), evaluations=10, store=store)
    simulator = clocks()
    rramalloc.tune(NETWORK, 24, simulator, evaluations=16, store=store)
    last = clocks()
    resumed = rramalloc.tune(NETWORK, 24, last, evaluations=16, store=store).to_dict()
    assert resumed == whole
    assert last.asked == []


def test_failures_are_rows_with_reasons() -> None:
    tuning = rramalloc.tune(NETWORK, 24, Faulty(), evaluations=20)
    for row in tuning.judged:
        copies = row.copies["conv1"]
        assert (row.figure, row.failure) == (
            (None, f"{copies} is even") if copies % 2 == 0 else (copies, None)
        )
    assert tuning.figure == 1
    assert tuning.failed == sum(row.figure is None for row in tuning.judged) > 0
    assert any("is even" in warning for warning in tuning.warnings)


class Never:
    name = "never"

    def evaluate(self, network: Network, allocation: Allocation) -> float:
        raise ZeroDivisionError("no luck")


def test_a_simulator_that_always_fails_is_given_up() -> None:
    with pytest.raises(SimulatorError, match=r"failed on all of \d+ allocations: ZeroDivisionError: no luck"):
        rramalloc.tune(NETWORK, 24, Never(), evaluations=1000)


class Noisy(OwnClocks):
    """Figures with errors of some per cent, drawn anew for every question."""

    def __init__(self) -> None:
        super().__init__((3, 40, 7), (0, 0, 2))
        self._draw = random.Random(1)

    def evaluate(self, network: Network, allocation: Allocation) -> float:
        return super().evaluate(network, allocation) * (1 + 0.05 * self._draw.random())


def test_a_simulator_that_does_not_repeat_itself_is_asked_again() -> None:
    simulator = Noisy()
    tuning = rramalloc.tune(NETWORK, 24, simulator, evaluations=40)
    assert tuning.deterministic is False
    assert any("different figures for the same allocation" in warning for warning in tuning.warnings)
    again = [row for row in tuning.judged if row.answers > 1]
    assert len(again) >= 4
    assert all(row.spread is not None and row.spread > 0 for row in again)
    assert tuning.judged[0].answers == 3
    assert tuning.before is not None
    assert tuning.figure <= tuning.before
    assert len(simulator.asked) <= 40
    assert tuning.figure == min(row.figure for row in tuning.judged if row.figure and row.answers == 3)


def test_an_interruption_returns_the_best_so_far() -> None:
    cancel = CancelToken()

    def stop(done: int, total: int, best: float | None) -> None:
        cancel.interrupted = done >= 7

    tuning = rramalloc.tune(NETWORK, 24, clocks(), evaluations=1000, on_progress=stop, cancel=cancel)
    assert tuning.evaluations == 7


class _Chooser:
    """A tool that chooses these copies, and whose figure is how far others are from them, in logarithms."""

    name = "chooser"

    def __init__(self, copies: dict[str, int]) -> None:
        self.copies = copies

    def evaluate(self, network: Network, allocation: Allocation) -> float:
        return sum(abs(math.log(count / self.copies[name])) for name, count in allocation.copies.items())

    def choose(self, network: Network, hardware: Hardware, arrays: int) -> OwnChoice:
        return OwnChoice(figure=0.0, copies=self.copies, arrays=3)


def test_the_own_choice_of_a_tool_and_its_neighbours_are_candidates() -> None:
    tuning = rramalloc.tune(NETWORK, 24, _Chooser({"conv1": 1, "conv2": 1, "conv3": 1}), evaluations=16)
    assert tuning.own is not None
    assert tuning.own.arrays == 3
    assert tuning.figure == 0.0
    assert tuning.before is not None
    assert tuning.before > 0
    chosen = [row.number for row in tuning.judged if row.origin == "own choice of chooser"]
    assert chosen == [2]
    assert [row.origin for row in tuning.judged[:8]].count("around these") >= 4


class _Latency:
    """A simulator that reads the latency of the file it is given."""

    name = "latency"

    def evaluate(self, network: Network, allocation: Allocation) -> float:
        assert allocation.places
        assert allocation.latency_ns is not None
        return allocation.latency_ns


def test_with_links_the_simulator_gets_places() -> None:
    """What it judges, what the result says, and what `simulate` makes of the file is one time with links."""
    machine = {
        "name": "slow links",
        "crossbar": {"wordlines": 64, "bitlines": 64, "cell_bits": 8},
        "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
        "timing": {"step_ns": 10.0},
        "chip": {"arrays_per_tile": 8, "tiles": [2, 2], "hop_ns_tile": 1.0, "bandwidth_tile_gb_s": 0.2},
    }
    tuning = rramalloc.tune(NETWORK, 12, _Latency(), evaluations=5, hardware=machine, placed=True)
    again = rramalloc.simulate(NETWORK, tuning.allocation)
    assert tuning.figure == again.latency_ns == tuning.allocation.latency_ns
    assert tuning.figure == min(row.figure for row in tuning.judged if row.figure is not None)
    assert not any("links between tiles" in text for text in tuning.not_counted)
    assert tuning.options.placed
