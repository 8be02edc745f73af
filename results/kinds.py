"""One kind of arrays against several on the same area.

python results/kinds.py [--page]

Every network gets twice the area that it needs at least in arrays of 128 x 128. Runs what results/kinds.csv
lacks and appends it there, then writes results/kinds.md; --page: writes the page alone. Makespans and bounds
are counted, so they are the same on every machine.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from measured import RESULTS
from pages import markdown
from rows import append, read

import rramalloc
from rramalloc.hardware.hardware import Hardware

CSV, PAGE = RESULTS / "kinds.csv", RESULTS / "kinds.md"
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


def run(network: str, sizes: tuple[int, ...], area: float) -> Row:
    """Answer one question."""
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
    return Row(
        network,
        "+".join(map(str, sizes)),
        area,
        found.makespan,
        int(found.lower_bound),
        round(found.gap, 6),
        " ".join(f"{name[1:]}:{count}" for name, count in used.items() if count),
        round(stored / cells, 4),
    )


def questions() -> Iterator[tuple[str, tuple[int, ...]]]:
    """All questions: each size, all pairs, and all four."""
    for network in NETWORKS:
        yield from ((network, sizes) for count in (1, 2, 4) for sizes in combinations(SIZES, count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true")
    rows: list[Row] = read(CSV, Row)
    if not parser.parse_args().page:
        for network, sizes in questions():
            if any((row.network, row.sizes) == (network, "+".join(map(str, sizes))) for row in rows):
                continue
            least = rramalloc.inspect(network, hardware=hardware((128,))).minimum
            rows.append(run(network, sizes, 2 * least * with_adcs_um2(128)))
            append(CSV, rows[-1])
            print(rows[-1], flush=True)
    PAGE.write_text("\n".join(page(rows)), encoding="utf-8")


def page(rows: list[Row]) -> Iterator[str]:
    """The page: what was asked, the answer, the tables."""
    gaps = [row.gap for row in rows if "+" in row.sizes]
    by = {(row.network, row.sizes): row for row in rows}
    behind, ahead = [], []
    for row in rows:
        parts = row.sizes.split("+")
        if len(parts) == 2:
            better = min(by[row.network, part].makespan for part in parts)
            behind += [row] if row.makespan > better else []
        if len(parts) > 2:
            best = min(by[row.network, part].makespan for part in parts)
            ahead.append((row.network, best / row.makespan))
    gains = ", ".join(f"{network} {ratio:.2f}" for network, ratio in ahead)
    pairs = sum(row.sizes.count("+") == 1 for row in rows)
    yield from (
        "# Kinds of arrays",
        "",
        "Is a chip with arrays of several sizes faster than one with a single size on the same area? Each",
        "network has twice the area that it needs at least in arrays of 128 x 128. Times as fast with all",
        f"four sizes as with the best single one: {gains}. A pair is behind the better of its sizes in",
        f"{len(behind)} of {pairs} cases. Gaps with several kinds: median {statistics.median(gaps):.1%},",
        f"largest {max(gaps):.1%}.",
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
        "",
        f"`python results/kinds.py`: {WORK} units of work a question, at most 10 s of a reference core.",
        "",
    )


if __name__ == "__main__":
    main()
