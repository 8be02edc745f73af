"""What links between tiles change: objectives, fronts and sizes with them, beside what is found without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from pages import SEARCHED, WITH_LINKS, Study, markdown
from placement import hardware

import rramalloc
from rramalloc.hardware.hardware import Hardware
from rramalloc.units import plain_quantity

NETWORKS = (
    *(("resnet18", "own", "x1.1"), ("alexnet", "own", "x2"), ("inception_v1", "own", "x2")),
    *(("alexnet", "isaac", "x2"), ("squeezenet", "isaac", "x2"), ("shufflenet", "isaac", "x2")),
)
GB_S = (1.0, 4.0, 16.0)
SMALLER = (("alexnet", "own", "x2", 1.0), ("squeezenet", "own", "x2", 1.0), ("resnet18", "own", "x1.1", 1.0))
"""Networks and links of fronts and sizes, which place many allocations each."""
ENERGIES = ("energy", "edp")
"""Objectives of the hardware that has energies."""
WORK = 40  # of each search
SLOWER = 1.3  # times the latency without links, that a chip may have


@dataclass(frozen=True)
class Row:
    """A question without links and with them.

    alone: value without; after: of that allocation once it is placed, None where there are many; together:
    with links; bound: of it; work_alone_s, work_s: counted seconds of a core, without links and with them.
    Values: of objectives in `unit`; of fronts numbers of points; of sizes arrays on the chip.
    """

    network: str
    hardware: str
    budget: str
    gb_s: float
    question: str
    unit: str
    alone: float
    after: float | None
    together: float
    bound: float
    work_alone_s: float
    work_s: float


def objective_row(row: Row, machine: Hardware) -> Row:
    """Return the row of an objective: allocate without links and place, then allocate with them."""
    asked: dict[str, Any] = {"hardware": machine, "objective": row.question, "work": WORK, "progress": False}
    alone = rramalloc.optimize(row.network, row.budget, **asked)
    placement = rramalloc.place(row.network, alone, hardware=machine)
    together = rramalloc.optimize(row.network, row.budget, placed=True, **asked)
    values: Sequence[float | None]
    if row.question == "interval":
        interval_ns = together.interval * (together.step_ns or 0.0)
        values = placement.interval_ns_alone, placement.interval_ns, interval_ns
    elif row.question == "latency":
        values = alone.latency_ns, placement.latency_ns, together.latency_ns
    else:  # what `place` does not say of an allocation
        name = {"energy": "energy_pj", "edp": "edp"}[row.question]
        values = getattr(alone, name), None, getattr(together, name)
    without, after, found = values
    assert without is not None
    assert found is not None
    bound = found * (1 - together.gap)
    work_s = together.work_s or 0.0
    return replace(
        row, alone=without, after=after, together=found, bound=bound,
        work_alone_s=alone.work_s or 0.0, work_s=work_s,
    )  # fmt: skip


def front_row(row: Row, machine: Hardware) -> Row:
    """Return the row of a front of latency and arrays; bound: points within 1 % of theirs."""
    alone, together = (
        rramalloc.pareto(row.network, row.budget, hardware=machine, placed=placed, work=WORK, progress=False)
        for placed in (False, True)
    )
    near = sum(point.gap <= 0.01 for point in together.points)
    return replace(
        row, alone=len(alone.points), together=len(together.points), bound=near,
        work_alone_s=alone.work_s, work_s=together.work_s,
    )  # fmt: skip


def size_row(row: Row, machine: Hardware) -> Row:
    """Return the row of the smallest chip that is at most `SLOWER` times as slow as the network alone."""
    alone = rramalloc.optimize(row.network, row.budget, hardware=machine, progress=False)
    target_ns = SLOWER * (alone.latency_ns or 0.0)
    question = {
        "networks": [{"network": row.network, "target_ns": target_ns}],
        "hardware": machine.to_dict(),
        "choose": {"chip.bandwidth_tile_gb_s": [row.gb_s, 4 * row.gb_s], "chip.tiles": [[4, 4], [8, 8]]},
        "minimise": "arrays",
        "work": WORK,
    }
    found = [rramalloc.size({**question, "placed": placed}, progress=False) for placed in (False, True)]
    without, together = found
    return replace(
        row, alone=without.cost, together=together.cost, bound=together.lower_bound,
        work_alone_s=without.work_s, work_s=together.work_s,
    )  # fmt: skip


ROWS: dict[str, Callable[[Row, Hardware], Row]] = {"front": front_row, "size": size_row}


def run(network: str, name: str, budget: str, gb_s: float, question: str) -> list[Row]:
    """Answer one question without links and with them."""
    machine = hardware(name, timed=True).with_values({"chip.bandwidth_tile_gb_s": gb_s})
    unit = {"front": "points", "size": "arrays", "energy": "pJ", "edp": "pJ ns"}.get(question, "ns")
    row = Row(network, name, budget, gb_s, question, unit, 0.0, None, 0.0, 0.0, 0.0, 0.0)
    return [ROWS.get(question, objective_row)(row, machine)]


def answer(rows: Sequence[Row]) -> str:
    """Return in how many cases links cost no latency, for each speed, and what counting them saves."""
    parts = []
    for gb_s in GB_S:
        chosen = [row for row in rows if (row.gb_s, row.question) == (gb_s, "latency")]
        hidden = sum(row.together <= row.alone * (1 + 1e-9) for row in chosen)
        parts.append(f"{hidden} of {len(chosen)} at {gb_s:g} GB/s")
    timed = [row for row in rows if row.after is not None]
    most = max(((row.after or 0.0) / row.together for row in timed), default=1.0)
    return (
        f"**Transfers cost no latency in {', '.join(parts)}; copies that are chosen with links are up to "
        f"x{most:.2f} as fast as those that are placed afterwards**."
    )


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the tables."""
    yield (
        "Copies by `optimize` without transfers, then `place`; with links: `optimize --placed`, both with "
        f"`--work {WORK}`. own: 8 x 8 tiles of 16 arrays, 400 ns a step, hops of 2 ns; "
        "isaac: hops of 1 ns. Factors are to the value without transfers, bound: of what `--placed` proves; "
        "work: counted seconds of a core, without and with links."
    )
    yield ""
    table = [
        [
            "network",
            "hardware",
            "GB/s",
            "objective",
            "alone",
            "placed after",
            "with links",
            "bound",
            "work",
        ]
    ]
    for row in rows:
        if row.question in ROWS:
            continue
        values = (row.after, row.together, row.bound)
        factors = ["" if value is None else f"x{value / row.alone:.2f}" for value in values]
        cells = [f"{row.network} {row.budget}", row.hardware, f"{row.gb_s:g}", row.question]
        work = f"{row.work_alone_s:.1f}, {row.work_s:.1f}"
        alone = plain_quantity(row.alone, row.unit)
        table.append([*cells, alone, *factors, work])
    yield from markdown(table)
    yield ""
    yield (
        "`pareto` of latency and arrays: points without links, with links, and of these within 1 % of their "
        f"bounds; `size` for {SLOWER:g} times the latency without links: arrays of the chip without links, "
        "with links, and their bound."
    )
    yield ""
    table = [["network", "hardware", "GB/s", "command", "without links", "with links", "bound", "work"]]
    for row in rows:
        if row.question in ROWS:
            numbers = [f"{value:,.0f}" for value in (row.alone, row.together, row.bound)]
            work = f"{row.work_alone_s:.1f}, {row.work_s:.1f}"
            name = {"front": "pareto", "size": "size"}[row.question]
            table.append([f"{row.network} {row.budget}", row.hardware, f"{row.gb_s:g}", name, *numbers, work])
    yield from markdown(table)


STUDY = Study(
    title="Links",
    question="What do links between tiles change in objectives, fronts and sizes?",
    row=Row,
    cases=[
        *((*case, gb_s, "latency") for case, gb_s in product(NETWORKS, GB_S)),
        *((*case, min(GB_S), "interval") for case in NETWORKS),
        *((*case, min(GB_S), asked) for case, asked in product(NETWORKS, ENERGIES) if case[1] == "isaac"),
        *((*case, asked) for case, asked in product(SMALLER, ROWS)),
    ],
    measure=run,
    answer=answer,
    body=body,
    decided_by=(*SEARCHED, WITH_LINKS, "commands/place", "commands/pareto", "commands/size"),
)
