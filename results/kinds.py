"""One kind of arrays against several on the same area.

Every network gets twice the area that it needs at least in arrays of 128 x 128. Makespans and bounds are
counted, so they are the same on every machine.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from pages import SEARCHED, Case, Study, markdown

import rramalloc
from rramalloc.hardware.hardware import Hardware

NETWORKS = ("resnet18", "vgg16", "mobilenet_v1")
SIZES = (64, 128, 256, 512)
WORK = 200  # units of search, 10 s of a reference core at most
SHARED_COLUMNS = 64  # columns of an ADC, whatever the array: one step for all sizes
ARRAY_UM2 = 25.0  # ISAAC, table I: 0.0002 mm2 for the 8 crossbars of 128 x 128 of an IMA
LINES_UM2 = 415.0  # the rest of an IMA but its ADCs, 440 um2 in all with an array: DACs, registers, adders
ADC_UM2 = 1200.0  # ISAAC, table I: 0.0096 mm2 for 8


@dataclass(frozen=True)
class Row:
    """One question: sizes, such as "64+256", and what came."""

    network: str
    sizes: str
    area_um2: float
    makespan: int
    lower_bound: int
    gap: float
    arrays: str
    utilisation: float


def area_um2(size: int) -> float:
    """Area of an array without ADCs: cells grow with the square of its lines, what serves lines with them."""
    part = size / 128
    return ARRAY_UM2 * part**2 + LINES_UM2 * part


def with_adcs_um2(size: int) -> float:
    """Area of an array with its ADCs."""
    return area_um2(size) + size // SHARED_COLUMNS * ADC_UM2


def hardware(sizes: tuple[int, ...]) -> Hardware:
    """Arrays of one size, or of several kinds."""
    kinds = [
        {
            "name": f"k{size}",
            "crossbar": {"wordlines": size, "bitlines": size},
            "energy": {"area_um2": area_um2(size)},
        }
        for size in sizes
    ]
    document: dict[str, Any] = {
        "name": "isaac's components",
        "source": "ISAAC, ISCA 2016, table I; results/kinds.py says how areas grow with the size",
        "crossbar": {"wordlines": sizes[0], "bitlines": sizes[0], "cell_bits": 2},
        "precision": {"weight_bits": 16, "input_bits": 16, "output_bits": 16, "signed": "offset"},
        "timing": {
            "read_ns": 100.0,
            "dac_bits": 1,
            "adc_ns": 0.78125,
            "columns_per_adc": SHARED_COLUMNS,
        },
        "energy": {"area_um2": area_um2(sizes[0]), "adc_um2": ADC_UM2},
    }
    if len(sizes) > 1:
        document["kinds"] = kinds
    return Hardware.model_validate(document)


def cells_of(network: str) -> dict[str, float]:
    """Cells that one copy of every layer fills, the same on arrays of any size."""
    inspected = rramalloc.inspect(network, hardware=hardware((64,)))
    return {row.name: row.utilisation * row.arrays_per_copy * 64 * 64 for row in inspected.layers}


def run(network: str, named: str) -> list[Row]:
    """Answer one question. named: sizes of arrays, such as "64+256"."""
    sizes = tuple(map(int, named.split("+")))
    area = 2 * rramalloc.inspect(network, hardware=hardware((128,))).minimum * with_adcs_um2(128)
    machine = hardware(sizes)
    if len(sizes) == 1:
        most = int(area // with_adcs_um2(sizes[0]))
        found = rramalloc.optimize(network, most, hardware=machine, work=WORK, progress=False)
        used = {f"k{sizes[0]}": found.arrays.used}
    else:
        limit = {"area_um2": area}
        found = rramalloc.optimize(network, hardware=machine, at_most=limit, work=WORK, progress=False)
        used = {name: of_kind.used for name, of_kind in (found.arrays.by_kind or {}).items()}
    filled, cells = cells_of(network), sum(int(name[1:]) ** 2 * count for name, count in used.items())
    stored = sum(filled[layer.name] * layer.copies for layer in found.layers if layer.name in filled)
    row = Row(
        network,
        named,
        area,
        found.makespan,
        int(found.lower_bound),
        round(found.gap, 6),
        " ".join(f"{name[1:]}:{count}" for name, count in used.items() if count),
        round(stored / cells, 4),
    )
    return [row]


def questions() -> Iterator[Case]:
    """All questions: each size, all pairs, and all four."""
    for network in NETWORKS:
        for count in (1, 2, 4):
            yield from ((network, "+".join(map(str, sizes))) for sizes in combinations(SIZES, count))


def answer(rows: Sequence[Row]) -> str:
    """Return what all sizes gain over the best single one."""
    gaps = [row.gap for row in rows if "+" in row.sizes]
    gains = [(row.network, best_part(rows, row) / row.makespan) for row in rows if row.sizes.count("+") > 1]
    each = ", ".join(f"{network} {ratio:.2f}" for network, ratio in gains) or "not measured"
    return (
        f"**All four sizes are as fast as the best single one, times: {each}**. Gaps with several kinds: "
        f"median {statistics.median(gaps or [0.0]):.1%}, largest {max(gaps, default=0.0):.1%}."
    )


def best_part(rows: Sequence[Row], row: Row) -> int:
    """Return the makespan of the best single size of a row of several sizes."""
    parts = row.sizes.split("+")
    return min(other.makespan for other in rows if other.network == row.network and other.sizes in parts)


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is assumed, and a table for each network."""
    pairs = [row for row in rows if row.sizes.count("+") == 1]
    behind = [row for row in pairs if row.makespan > best_part(rows, row)]
    yield from (
        "Each network has twice the area that it needs at least in arrays of 128 x 128. A pair is behind the",
        f"better of its sizes in {len(behind)} of {len(pairs)} cases.",
        "",
        "Areas follow ISAAC's table I (ISCA 2016): the cells of an array of 128 x 128 take 25 um2, what",
        "serves its lines 415 um2, an ADC 1,200 um2. *Rule of this page*: cells grow with the square of the",
        "lines, the rest with the lines, and an ADC serves 64 columns on every array, so that a step is as",
        "long on all of them.",
        "",
    )
    for network in dict.fromkeys(row.network for row in rows):
        own = [row for row in rows if row.network == network]
        yield f"## {network}, {own[0].area_um2 / 1e6:.4g} mm2"
        yield ""
        head = ["sizes", "makespan", "bound", "gap", "arrays in use", "utilisation"]
        yield from markdown(
            [
                head,
                *(
                    [
                        row.sizes.replace("+", " + "),
                        f"{row.makespan:,}",
                        f"{row.lower_bound:,}",
                        f"{row.gap:.1%}",
                        row.arrays.replace(" ", ", ").replace(":", " x "),
                        f"{row.utilisation:.0%}",
                    ]
                    for row in own
                ),
            ]
        )
    yield from (
        "Published claims, not measured here: AutoHet (heterogeneous crossbars by reinforcement learning)",
        "and Big-Little report 2 to 3 times the utilisation of one size, without a bound. Utilisation is the",
        "part of the cells of the arrays in use that hold weights.",
        f"{WORK} units of work a question, at most 10 s of a reference core.",
    )


STUDY = Study(
    title="Kinds of arrays",
    question="Is a chip with arrays of several sizes faster than one with a single size on the same area?",
    row=Row,
    cases=list(questions()),
    measure=run,
    answer=answer,
    body=body,
    decided_by=SEARCHED,
)
