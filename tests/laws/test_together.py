"""What meets: modes, clocks or a memory, kinds of arrays and bits, with every kind of question.

Searches and provers answer: the program enumerates nothing, the tests do, with code of their own.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import combinations
from pathlib import Path
from random import Random

import pytest
from laws import soak
from laws.soak import FEATURES, QUESTIONS, Drawn, WrongAnswerError

import rramalloc

pytestmark = pytest.mark.usefixtures("no_enumeration")

DRAWN = 3
"""Problems of every pair of features, of each of which every question is asked."""
MOST = 1_500
"""Allocations of a problem; the long soak has those of the program's own enumeration, and more."""
WORK = 2
RIGHT = "right"
REFUSED = "refused by name"
"""`pareto` takes no --bits."""
TABLE = {
    ("modes", "time"): {"objective": RIGHT, "target": RIGHT, "limit": RIGHT, "hold": RIGHT, "front": RIGHT},
    ("modes", "kinds"): {"objective": RIGHT, "target": RIGHT, "limit": RIGHT, "hold": RIGHT, "front": RIGHT},
    ("modes", "bits"): {"objective": RIGHT, "target": RIGHT, "limit": RIGHT, "hold": RIGHT, "front": REFUSED},
    ("time", "kinds"): {"objective": RIGHT, "target": RIGHT, "limit": RIGHT, "hold": RIGHT, "front": RIGHT},
    ("time", "bits"): {"objective": RIGHT, "target": RIGHT, "limit": RIGHT, "hold": RIGHT, "front": REFUSED},
    ("kinds", "bits"): {"objective": RIGHT, "target": RIGHT, "limit": RIGHT, "hold": RIGHT, "front": REFUSED},
}
"""What works with what: an answer that is right, or an error that names what is not to be had.

The objective `sequential` is refused with bits, too; it is one of several that `objective` draws.
"""


def test_every_pair_is_in_the_table() -> None:
    assert set(TABLE) == set(combinations(FEATURES, 2))
    assert all(set(cells) == set(QUESTIONS) for cells in TABLE.values())


def drawn(pair: tuple[str, str], number: int, least: int = soak.LEAST_ALLOCATIONS, most: int = MOST) -> Drawn:
    return soak.draw(Random(f"{pair} {number}"), pair, least, most)


def asked(case: Drawn, pair: tuple[str, str], number: int, question: str, folder: Path) -> str:
    """Ask a question of a problem that a failing test can name."""
    try:
        return soak.ask(case, question, Random(f"{pair} {number} {question}"), folder, WORK)
    except WrongAnswerError as error:
        raise WrongAnswerError(f"drawn({pair}, {number}), {question}: {error}") from error


@pytest.mark.parametrize("pair", TABLE, ids="-".join)
def test_pairs_with_all_questions(pair: tuple[str, str], tmp_path: Path) -> None:
    ends = Counter[tuple[str, str]]()
    for number in range(DRAWN):
        case = drawn(pair, number)
        for question in QUESTIONS:
            ends[question, asked(case, pair, number, question, tmp_path)] += 1
    for question, cell in TABLE[pair].items():
        refused = ends[question, REFUSED]
        assert (refused == DRAWN) == (cell == REFUSED), question


@pytest.mark.parametrize("number", range(len(TABLE)))
def test_every_allocation_is_what_simulate_says(number: int) -> None:
    """The code that enumerates here, and the program's: two readings of docs/sources/model.md."""
    pair = list(TABLE)[number]
    case = drawn(pair, number)
    mapping = "sdk" if case.machine.sdk else "im2col"
    for row in Random(number).sample(range(len(case.every.rows)), 10):
        numbers = zip(case.machine.stages, case.every.modes, case.every.rows[row].tolist(), strict=True)
        bits = {stage.name: modes[at].bits for stage, modes, at in numbers if case.machine.is_layer(stage)}
        network = case.machine.network.with_bits(bits)
        found = rramalloc.simulate(
            network, case.document(row), hardware=case.machine.hardware, mapping=mapping
        )
        right = {name: float(column[row]) for name, column in case.every.quantities.items()}
        assert (found.makespan, found.arrays) == (right["makespan"], right["arrays"])
        assert found.latency_ns == pytest.approx(right["latency_ns"])
        if found.energy_pj is not None:
            assert (found.energy_pj, found.area_um2) == pytest.approx((right["energy"], right["area"]))


SOAK = os.environ.get("RRAMALLOC_SOAK", "")


@pytest.mark.skipif(
    not SOAK, reason="hours: RRAMALLOC_SOAK=FIRST:SMALL:LARGE, numbers of problems; :kinds behind"
)
def test_long_soak(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Problems that the program would enumerate, and larger ones; all faults are listed.

    A feature behind the numbers asks of pairs with it alone.
    """
    numbers, only = SOAK.split(":")[:3], SOAK.split(":")[3:]
    first, small, large = map(int, numbers)
    sizes = [(soak.LEAST_ALLOCATIONS, 50_000)] * small + [(50_000, 1_500_000)] * large
    ends, faults, pairs = (
        Counter[tuple[str, str]](),
        list[str](),
        [pair for pair in TABLE if {*only} <= {*pair}],
    )
    for number, size in enumerate(sizes, first):
        pair = pairs[number % len(pairs)]
        case = drawn(pair, number, *size)
        for question in QUESTIONS:
            if question == "front" and number % 4:
                continue  # takes ten times as long
            try:
                ends[question, asked(case, pair, number, question, tmp_path)] += 1
            except WrongAnswerError as error:
                faults.append(f"{size}: {error}")
    with capsys.disabled():
        print(f"{len(sizes)} problems, {sum(ends.values()) + len(faults)} questions, {len(faults)} faults")
        for (question, end), count in sorted(ends.items()):
            print(f"  {question}: {end}: {count}")
    assert faults == []
