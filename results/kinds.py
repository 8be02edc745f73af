"""One kind of arrays against several on the same area, and arrays beside digital units.

Every network gets twice the area that it needs at least in arrays of 128 x 128. Makespans, energies, byte
hops and bounds are counted, so they are the same on every machine.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from pages import SEARCHED, Case, Study, markdown

import rramalloc
from rramalloc.allocation.allocation import Allocation
from rramalloc.hardware.hardware import Hardware

NETWORKS = ("resnet18", "vgg16", "mobilenet_v1")
SIZES = (64, 128, 256, 512)
WORK = 200  # units of search, 10 s of a reference core at most
PLACING = 20  # of placing
SHARED_COLUMNS = 64  # columns of an ADC, whatever the array: one step for all sizes
ARRAY_UM2 = 25.0  # ISAAC, table I: 0.0002 mm2 for the 8 crossbars of 128 x 128 of an IMA
LINES_UM2 = 415.0  # the rest of an IMA but its ADCs, 440 um2 in all with an array: DACs, registers, adders
ADC_UM2 = 1200.0  # ISAAC, table I: 0.0096 mm2 for 8
CELLS_PJ = 30.0  # of a read of 100 ns by an array of 128 x 128: 2.4 mW for 8 arrays
LINES_PJ = 50.0  # the same of its 128 DACs: 4 mW for 8 * 128
ADC_PJ = 1.5625  # of a conversion of 0.78125 ns: 16 mW for 8
TILE_ARRAYS = 96  # of 128 x 128 in a tile of ISAAC; of other sizes as many as take the same area
UNIT_MACS = 3.2  # MACs in a ns of a digital unit of 0.1 mm2: DaDianNao has 63.46 GOPS/mm2 (ISAAC, table IV)
UNIT_PJ = 7.0  # of a MAC: its 286.4 GOPS/W
DIGITAL = ("mobilenet_v1", "mobilenet_v2", "resnet18")
"""Networks that are asked for the best chip of arrays, of digital units, and of both."""
ENERGY = ("64+256", "128+512")
"""Pairs of sizes that are also asked for the least energy, beside each of them alone."""


@dataclass(frozen=True)
class Row:
    """One question: sizes, such as "64+256", and what came.

    question: "time", "energy" (makespan is that of the allocation with the least energy) or "digital" (in
    ticks of 10 ns; sizes are "digital", such as "512", or both); lower_bound: of what is minimised;
    energy_pj: of an input; byte_hops: of the allocation in tiles of equal area.
    """

    network: str
    sizes: str
    area_um2: float
    makespan: int
    lower_bound: float
    gap: float
    arrays: str
    utilisation: float
    question: str = "time"
    energy_pj: float | None = None
    byte_hops: int | None = None


def area_um2(size: int) -> float:
    """Area of an array without ADCs: cells grow with the square of its lines, what serves lines with them."""
    part = size / 128
    return ARRAY_UM2 * part**2 + LINES_UM2 * part


def with_adcs_um2(size: int) -> float:
    """Area of an array with its ADCs."""
    return area_um2(size) + size // SHARED_COLUMNS * ADC_UM2


def read_pj(size: int) -> float:
    """Energy of a read without ADCs: cells grow with the square of the lines, what serves lines with them."""
    part = size / 128
    return CELLS_PJ * part**2 + LINES_PJ * part


def hardware(sizes: tuple[int, ...], *, units: int = 0, tiles: dict[str, int] | None = None) -> Hardware:
    """Arrays of one size, or of several kinds, with their own clocks beside `units` kinds of digital units.

    tiles: of every kind in use, for placing; those of all kinds have about the same area.
    """
    kinds: list[dict[str, Any]] = [
        {
            "name": f"k{size}",
            "crossbar": {"wordlines": size, "bitlines": size},
            "energy": {"area_um2": area_um2(size), "read_pj": read_pj(size), "leakage_mw": 0.0},
        }
        for size in sizes
    ]
    unit = {"macs_per_ns": UNIT_MACS, "pj_per_mac": UNIT_PJ, "area_um2": 1e5, "leakage_mw": 0.0}
    kinds += [{"name": f"unit{number}", "processor": unit} for number in range(units)]
    side = sizes[0] if sizes else 128
    document: dict[str, Any] = {
        "name": "isaac's components",
        "source": "ISAAC, ISCA 2016, table I; results/kinds.py says how areas grow with the size",
        "crossbar": {"wordlines": side, "bitlines": side, "cell_bits": 2},
        "precision": {"weight_bits": 16, "input_bits": 16, "output_bits": 16, "signed": "offset"},
        "timing": {
            "read_ns": 100.0,
            "dac_bits": 1,
            "adc_ns": 0.78125,
            "columns_per_adc": SHARED_COLUMNS,
        },
        "energy": {
            "area_um2": area_um2(side),
            "adc_um2": ADC_UM2,
            "read_pj": read_pj(side),
            "adc_pj": ADC_PJ,
            "leakage_mw": 0.0,
        },
    }
    if units:
        document["timing"] |= {"clock": "own", "tick_ns": 10.0}
    if tiles is not None:
        kinds = [kind for kind in kinds if tiles[kind["name"]]]
        per_tile = {f"k{size}": arrays_of_tile(size) for size in sizes}
        document["chip"] = {"arrays_per_tile": arrays_of_tile(side), "tiles": sum(tiles.values())}
        for kind in kinds:
            kind |= {"tiles": tiles[kind["name"]], "chip": {"arrays_per_tile": per_tile[kind["name"]]}}
    if len(kinds) > 1:
        document["kinds"] = kinds
    return Hardware.model_validate(document)


def arrays_of_tile(size: int) -> int:
    """Arrays of a tile with about the area of one of ISAAC."""
    return max(1, round(TILE_ARRAYS * with_adcs_um2(128) / with_adcs_um2(size)))


def cells_of(network: str) -> dict[str, float]:
    """Cells that one copy of every layer fills, the same on arrays of any size."""
    inspected = rramalloc.inspect(network, hardware=hardware((64,)))
    return {row.name: row.utilisation * row.arrays_per_copy * 64 * 64 for row in inspected.layers}


def run(network: str, named: str, question: str = "time") -> list[Row]:
    """Answer one question. named: sizes of arrays, such as "64+256", "digital" for units."""
    parts = [part for part in named.split("+") if part != "digital"]
    sizes = tuple(map(int, parts))
    units = 0
    if question == "digital":  # two kinds of equal units stand for one, as kinds are two or more
        units = 1 if sizes and "digital" in named else 2 if not sizes else 0
    area = 2 * rramalloc.inspect(network, hardware=hardware((128,))).minimum * with_adcs_um2(128)
    machine = hardware(sizes, units=units)
    if question == "digital" and not units:
        timing = {"timing.clock": "own", "timing.tick_ns": 10.0}
        machine = machine.with_values(timing)
    asked: dict[str, Any] = {"objective": "energy" if question == "energy" else "latency"}
    if machine.kinds is None:
        asked["arrays"] = int(area // with_adcs_um2(sizes[0]))
    else:
        asked["at_most"] = {"area_um2": area}
    found = rramalloc.optimize(network, hardware=machine, work=WORK, progress=False, **asked)
    used = {f"k{sizes[0]}": found.arrays.used} if machine.kinds is None else {}
    used |= {name: of_kind.used for name, of_kind in (found.arrays.by_kind or {}).items()}
    row = Row(
        network,
        named,
        area,
        found.makespan,
        found.lower_bound,
        round(found.gap, 6),
        " ".join(f"{name.removeprefix('k')}:{count}" for name, count in used.items() if count),
        utilisation(network, found, used),
        question,
        found.energy_pj,
        byte_hops(network, found, sizes, used) if question == "time" else None,
    )
    return [row]


def utilisation(network: str, found: Allocation, used: dict[str, int]) -> float:
    """Return the part of the cells of the arrays in use that hold weights, 0 without arrays."""
    filled = cells_of(network)
    cells = sum(int(name[1:]) ** 2 * count for name, count in used.items() if name[1:].isdecimal())
    layers = [layer for layer in found.layers if layer.name in filled]
    on_arrays = [layer for layer in layers if not (layer.kind or "").startswith("unit")]
    return round(sum(filled[layer.name] * layer.copies for layer in on_arrays) / cells, 4) if cells else 0.0


def byte_hops(network: str, found: Allocation, sizes: tuple[int, ...], used: dict[str, int]) -> int:
    """Return the byte hops of an allocation that is placed in tiles, as many of every kind as it needs."""
    tiles = {f"k{size}": -(-used.get(f"k{size}", 0) // arrays_of_tile(size)) for size in sizes}
    in_use = tuple(size for size in sizes if tiles[f"k{size}"])
    chip = hardware(in_use, tiles=tiles)
    layers = {layer.name: layer for layer in found.layers}
    bare: dict[str, Any] = {"copies": {name: layer.copies for name, layer in layers.items()}}
    if chip.kinds is not None:
        bare["kind"] = {name: layer.kind for name, layer in layers.items() if layer.kind is not None}
    return round(rramalloc.place(network, bare, hardware=chip, work=PLACING).traffic.cost)


def questions() -> Iterator[Case]:
    """All questions: each size, all pairs, and all four."""
    for network in NETWORKS:
        for count in (1, 2, 4):
            yield from ((network, "+".join(map(str, sizes))) for sizes in combinations(SIZES, count))
        for named in (*map(str, SIZES), *ENERGY):
            yield network, named, "energy"
    for network in DIGITAL:
        for size in SIZES:
            yield network, str(size), "digital"
            yield network, f"{size}+digital", "digital"
        yield network, "digital", "digital"


def answer(rows: Sequence[Row]) -> str:
    """Return what all sizes gain over the best single one, and digital units beside arrays over either."""
    timed = [row for row in rows if row.question == "time"]
    gaps = [row.gap for row in timed if "+" in row.sizes]
    gains = [(row.network, best_part(rows, row) / row.makespan) for row in timed if row.sizes.count("+") > 1]
    each = ", ".join(f"{network} {ratio:.2f}" for network, ratio in gains) or "not measured"
    return (
        f"**All four sizes are as fast as the best single one, times: {each}**. Gaps with several kinds: "
        f"median {statistics.median(gaps or [0.0]):.1%}, largest {max(gaps, default=0.0):.1%}. "
        f"{of_digital(rows)}"
    )


def of_digital(rows: Sequence[Row]) -> str:
    """Return on how many networks arrays beside digital units beat the best chip of either, in words."""
    ratios = dict[str, float]()
    asked = [row for row in rows if row.question == "digital"]
    for network in dict.fromkeys(row.network for row in asked):
        own = [row for row in asked if row.network == network]
        both = [row.makespan for row in own if "+digital" in row.sizes]
        alone = [row.makespan for row in own if "+digital" not in row.sizes]
        if both and alone:
            ratios[network] = min(alone) / min(both)
    better = [f"{network} {ratio:.2f}" for network, ratio in ratios.items() if ratio > 1]
    if not ratios:
        return "Chips with digital units are not measured."
    if not better:
        return "No chip of arrays and digital units beats the best one of either on the same area."
    return (
        f"**Arrays and digital units together beat the best chip of either on the same area on "
        f"{len(better)} of {len(ratios)} networks, times: {', '.join(better)}**."
    )


def best_part(rows: Sequence[Row], row: Row) -> int:
    """Return the makespan of the best single size of a row of several sizes."""
    parts = row.sizes.split("+")
    alike = [other for other in rows if (other.network, other.question) == (row.network, row.question)]
    return min(other.makespan for other in alike if other.sizes in parts)


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is assumed, and a table for each network."""
    timed = [row for row in rows if row.question == "time"]
    pairs = [row for row in timed if row.sizes.count("+") == 1]
    behind = [row for row in pairs if row.makespan > best_part(rows, row)]
    yield from (
        "Each network has twice the area that it needs at least in arrays of 128 x 128. A pair is behind the",
        f"better of its sizes in {len(behind)} of {len(pairs)} cases.",
        "",
        "Areas follow ISAAC's table I (ISCA 2016): the cells of an array of 128 x 128 take 25 um2, what",
        "serves its lines 415 um2, an ADC 1,200 um2. *Rule of this page*: cells grow with the square of the",
        "lines, the rest with the lines, and an ADC serves 64 columns on every array, so that a step is as",
        "long on all of them. A read of 128 x 128 takes 30 pJ in its cells and 50 pJ in its DACs, which",
        "grow alike, a conversion 1.56 pJ; table I has no leakage. Byte hops are of the allocation in tiles",
        "of one kind each, of about the area of a tile of ISAAC.",
        "",
    )
    for network in dict.fromkeys(row.network for row in timed):
        own = [row for row in timed if row.network == network]
        yield f"## {network}, {own[0].area_um2 / 1e6:.4g} mm2"
        yield ""
        head = ["sizes", "makespan", "bound", "gap", "arrays in use", "utilisation", "byte hops"]
        yield from markdown(
            [
                head,
                *(
                    [
                        row.sizes.replace("+", " + "),
                        f"{row.makespan:,}",
                        f"{row.lower_bound:,.0f}",
                        f"{row.gap:.1%}",
                        row.arrays.replace(" ", ", ").replace(":", " x "),
                        f"{row.utilisation:.0%}",
                        "" if row.byte_hops is None else f"{row.byte_hops:,}",
                    ]
                    for row in own
                ),
            ]
        )
    yield from of_energy([row for row in rows if row.question == "energy"])
    yield from beside_units([row for row in rows if row.question == "digital"])
    yield from (
        "Published claims, not measured here: AutoHet (heterogeneous crossbars by reinforcement learning)",
        "and Big-Little report 2 to 3 times the utilisation of one size, without a bound. Utilisation is the",
        "part of the cells of the arrays in use that hold weights.",
        f"{WORK} units of work a question, at most 10 s of a reference core.",
    )


def of_energy(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the least energies."""
    if not rows:
        return
    yield from ("## Least energy", "")
    head = ["network", "sizes", "energy (uJ)", "bound (uJ)", "gap", "makespan", "arrays in use"]
    table = [head]
    for row in rows:
        energies = [f"{value / 1e6:,.4g}" for value in (row.energy_pj or 0.0, row.lower_bound)]
        arrays = row.arrays.replace(" ", ", ").replace(":", " x ")
        sizes = row.sizes.replace("+", " + ")
        table.append([row.network, sizes, *energies, f"{row.gap:.1%}", f"{row.makespan:,}", arrays])
    yield from markdown(table)


def beside_units(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the fastest chips of arrays, of digital units, and of both."""
    if not rows:
        return
    yield from (
        "## Digital units",
        "",
        "Own clocks, ticks of 10 ns. A unit of 0.1 mm2 does 3.2 MACs in a ns at 7 pJ each, as dense and as",
        "frugal as DaDianNao in ISAAC's table IV (63.46 GOPS/mm2, 286.4 GOPS/W). *Rule of this page*: a unit",
        "holds the weights of its layer whatever their size.",
        "",
    )
    head = ["network", "kinds", "ticks", "bound", "gap", "in use", "energy (uJ)"]
    table = [head]
    for row in rows:
        named = row.sizes.replace("+", " + ")
        used = row.arrays.replace(" ", ", ").replace(":", " x ")
        energy = f"{(row.energy_pj or 0.0) / 1e6:,.4g}"
        bound = f"{row.lower_bound:,.0f}"
        table.append([row.network, named, f"{row.makespan:,}", bound, f"{row.gap:.1%}", used, energy])
    yield from markdown(table)


STUDY = Study(
    title="Kinds of arrays",
    question=(
        "Is a chip with arrays of several sizes, or with digital units, faster than one with a single kind "
        "on the same area?"
    ),
    row=Row,
    cases=list(questions()),
    measure=run,
    answer=answer,
    body=body,
    decided_by=(*SEARCHED, "commands/place"),
)
