"""Every method on every shipped network, and published and peer allocations beside ours.

python results/comparison.py [--networks N ...] [--limit CASES] [--fresh] [--page]

Compares what results/comparison/comparison.csv lacks and appends it there, then writes the page and the
figures beside it. All numbers are counted or simulated, none is measured: they are the same on every machine.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pages
from pages import RESULTS

import rramalloc
from rramalloc.chart import BLUE, ORANGE, Axis, Chart, Marks, Panel, row_height
from rramalloc.commands.compare.comparison import REFERENCE, SCALARS, Comparison, Row
from rramalloc.methods.registry import METHODS, method_named
from rramalloc.network.shipped import shipped_names

FOLDER = RESULTS / "comparison"
CSV, PAGE = FOLDER / "comparison.csv", FOLDER / "README.md"
METHODS_FIGURE, BARS_FIGURE = FOLDER / "methods.svg", FOLDER / "vgg16_2048.svg"
COPIES_FIGURE, TIMELINE_FIGURE = (
    FOLDER / "vgg16_2048_copies.svg",
    FOLDER / "vgg16_2048_timeline.svg",
)
COLUMNS = ("crossbar", "fc", *SCALARS, "copies", "skipped")
ALL = tuple(name for name in METHODS if method_named(name).compared)
MODELLED = (REFERENCE, "published", "proportional")


class Case(NamedTuple):
    """One comparison. arrays: as `compare` reads it; crossbar: wordlines and bitlines."""

    network: str
    arrays: str
    crossbar: int = 128
    fc: str = "host"
    methods: tuple[str, ...] = ALL

    @property
    def label(self) -> str:
        return f"{self.network} {self.crossbar} {self.arrays} {self.fc}"


@dataclass(frozen=True)
class Figure:
    """A published figure. P: steps by the published method, W: by copies proportional to the windows."""

    network: str
    name: str
    arrays: int
    crossbar: int
    P: int
    W: int

    @property
    def case(self) -> Case:
        return Case(self.network, str(self.arrays), self.crossbar, methods=MODELLED)


@dataclass(frozen=True)
class Peer:
    """An allocation that a published tool gives, copies of the convolutions in file order.

    budget: arrays it was to keep to; printed: arrays it says it uses, both in groups of `slices` arrays, one
    for each bit slice of the weights; classifiers are stored once if fc is "crossbar".
    """

    tool: str
    network: str
    crossbar: int
    fc: str
    budget: int
    printed: int | None
    slices: int
    copies: tuple[int, ...]

    def cases(self, used: int) -> Iterator[Case]:
        """Ours with as many arrays as the allocation uses, and with its budget."""
        for arrays in dict.fromkeys((used, self.budget // self.slices)):
            yield Case(self.network, str(arrays), self.crossbar, self.fc, (REFERENCE,))


PUBLISHED = (
    Figure("alexnet_todaes", "AlexNet", 1024, 128, 113, 117),
    Figure("alexnet_todaes", "AlexNet", 2048, 128, 49, 49),
    Figure("vgg11", "VGG-A", 2048, 128, 329, 330),
    Figure("vgg11", "VGG-A", 4096, 128, 162, 245),
    Figure("vgg19", "VGG-E", 4096, 256, 201, 295),
    Figure("vgg19", "VGG-E", 8192, 128, 280, 318),
    Figure("vgg19", "VGG-E", 8192, 256, 112, 112),
    Figure("resnet18", "ResNet-18", 4096, 128, 79, 101),
)
"""docs/sources/model.md 9."""
PEERS = (
    Peer("TODAES", "alexnet_todaes", 128, "host", 2304, None, 1, (106, 21, 7, 6, 6)),
    Peer("TODAES", "vgg11", 128, "host", 2304, None, 1, (200, 50, 13, 13, 4, 4, 1, 1)),
    Peer("PIMCOMP balance", "resnet18", 128, "crossbar", 9216, 5334, 1,
         (381, *[96] * 4, *[24] * 5, 6, 6, 6, 7, 6, *[2] * 5)),
    Peer("PIMCOMP genetic", "resnet18", 128, "crossbar", 9216, 7416, 1,
         (514, 131, 131, 130, 131, *[33] * 5, 9, 9, 9, 8, 9, *[3] * 5)),
    Peer("PIMSYN annealing", "alexnet", 256, "crossbar", 12250, 12312, 8, (109, 27, 7, 6, 6)),
    Peer("PIMSYN annealing", "vgg16", 256, "crossbar", 30000, 30136, 8,
         (203, 196, 52, 50, 14, 13, 13, 3, 3, 3, 1, 1, 1)),
)  # fmt: skip
"""docs/sources/model.md 9 and published outputs of PIMCOMP and PIMSYN."""


def used_by(peer: Peer) -> int:
    """Arrays that a peer's allocation uses, in its groups of slices, by our demand; classifiers once."""
    layers = rramalloc.inspect(
        peer.network, crossbar=f"{peer.crossbar}x{peer.crossbar}", fc=peer.fc  # type: ignore[arg-type]
    ).layers  # fmt: skip
    copies = [*peer.copies, *[1] * (len(layers) - len(peer.copies))]
    return sum(d * layer.arrays_per_copy for d, layer in zip(copies, layers, strict=True))


def cases() -> list[Case]:
    """Everything that the page shows."""
    wanted = [Case(network, "x2") for network in shipped_names()]
    wanted += [Case("vgg16", "2048")]
    wanted += [figure.case for figure in PUBLISHED]
    wanted += [case for peer in PEERS for case in peer.cases(used_by(peer))]
    return list(dict.fromkeys(wanted))


Table = dict[tuple[str, int, str, int], dict[str, dict[str, str]]]
"""Rows of the CSV by network, crossbar, fc and arrays, then by method."""


def read_table() -> Table:
    """What was compared so far."""
    table: Table = {}
    if CSV.exists():
        with CSV.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                key = row["network"], int(row["crossbar"]), row["fc"], int(row["arrays"])
                table.setdefault(key, {})[row["method"]] = row
    return table


def key_of(case: Case) -> tuple[str, int, str, int]:
    arrays = case.arrays
    if arrays.startswith("x"):
        size = f"{case.crossbar}x{case.crossbar}"
        arrays = str(int(arrays[1:]) * rramalloc.inspect(case.network, crossbar=size, fc=case.fc).minimum)  # type: ignore[arg-type]
    return case.network, case.crossbar, case.fc, int(arrays)


def run_missing(chosen: argparse.Namespace) -> None:
    """Compare what is not there, one case after the other, each appended when it is ready."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if chosen.fresh:
        CSV.unlink(missing_ok=True)
    missing = []
    for case in cases():
        there = read_table().get(key_of(case), {})
        methods = tuple(name for name in case.methods if name not in there)
        if methods and (not chosen.networks or case.network in chosen.networks):
            missing.append((case, methods))
    for number, (case, methods) in enumerate(missing[: chosen.limit], start=1):
        methods = tuple(name for name in methods if name not in read_table().get(key_of(case), {}))
        if not methods:
            continue
        print(f"{number}/{len(missing)}  {case.label}", end="  ", flush=True)
        found = rramalloc.compare(
            case.network, case.arrays, crossbar=f"{case.crossbar}x{case.crossbar}",
            fc=case.fc, methods=with_reference(methods),  # type: ignore[arg-type]
        )  # fmt: skip
        append(case, found, methods)
        best = min(found.rows, key=lambda row: row.makespan)
        print(f"{len(found.rows)} rows, best {best.makespan} by {best.method}", flush=True)


def with_reference(methods: tuple[str, ...]) -> tuple[str, ...]:
    """Ratios need the reference, even where it is there already."""
    return methods if REFERENCE in methods else (REFERENCE, *methods)


def append(case: Case, found: Comparison, methods: Sequence[str]) -> None:
    """Add the rows of a case at the end of the CSV."""
    fresh = not CSV.exists()
    common = {"crossbar": case.crossbar, "fc": case.fc, "network": case.network}
    with CSV.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if fresh:
            writer.writeheader()
        for row in found.rows:
            if row.method in methods:
                writer.writerow({name: getattr(row, name) for name in SCALARS} | common | copies_of(row))
        for left in found.skipped:
            row_of = {"arrays": left.arrays, "method": left.method, "skipped": left.reason}
            writer.writerow(common | row_of)


def copies_of(row: Row) -> dict[str, str]:
    return {"copies": " ".join(map(str, row.copies.values()))}


def shipped_table(table: Table) -> dict[str, dict[str, dict[str, str]]]:
    """Rows of the shipped networks at twice the minimum, by label."""
    keys = {case.label: key_of(case) for case in cases() if case.methods == ALL}
    return {
        f"{key[0]} {key[3]}": {name: table[key][name] for name in ALL if name in table[key]}
        for key in keys.values()
        if key in table
    }


def ratio_rows(shipped: dict[str, dict[str, dict[str, str]]]) -> Iterator[list[str]]:
    yield ["network, arrays", "auto", "bound", "gap", *(name for name in ALL if name != REFERENCE)]
    for label, rows in shipped.items():
        auto = rows[REFERENCE]
        cells = [label, auto["makespan"], auto["lower_bound"], f"{float(auto['gap']):.1%}"]
        yield cells + [ratio_cell(rows.get(name)) for name in ALL if name != REFERENCE]


def ratio_cell(row: dict[str, str] | None) -> str:
    """Ratio, bold where the method is as fast as auto or faster, with a star where it was repaired."""
    if row is None or row["skipped"]:
        return "-"
    ratio = float(row["ratio"])
    text = f"{ratio:.3f}" if ratio < 100 else f"{ratio:.0f}"
    text = f"**{text}**" if ratio <= 1 else text
    return f"{text}\\*" if row["repaired"] == "True" else text


def method_rows(shipped: dict[str, dict[str, dict[str, str]]]) -> Iterator[list[str]]:
    yield ["method", "networks", "as fast as auto", "faster", "ratio, median", "mean", "largest", "repaired",
           "spread, largest", "work s, median"]  # fmt: skip
    lines = []
    for name in ALL:
        runs = [row for rows in shipped.values() if (row := rows.get(name)) and not row["skipped"]]
        if not runs:
            continue
        ratios = [float(row["ratio"]) for row in runs]
        spreads = [(int(row["worst"]) - int(row["best"])) / int(row["median"]) for row in runs]
        counted = [float(row["work_s"]) for row in runs if row["work_s"]]
        seconds = pages.seconds_text(statistics.median(counted)) if counted else "-"
        line = [
            name, str(len(runs)), str(ratios.count(1.0)), str(sum(ratio < 1 for ratio in ratios)),
            f"{statistics.median(ratios):.3f}", f"{statistics.geometric_mean(ratios):.3f}",
            f"{max(ratios):.3f}", str(sum(row["repaired"] == "True" for row in runs)),
            f"{max(spreads):.1%}" if method_named(name).seeded else "-", seconds,
        ]  # fmt: skip
        lines.append((name != REFERENCE, statistics.geometric_mean(ratios), line))
    yield from (line for *_, line in sorted(lines))


def published_rows(table: Table) -> Iterator[list[str]]:
    yield ["network", "arrays", "lines", "P", "published", "W", "proportional",
           "exact, P's kind", "exact, W's kind", "auto", "bound"]  # fmt: skip
    for figure in PUBLISHED:
        rows = table.get(key_of(figure.case), {})
        if REFERENCE not in rows:
            continue
        steps = {name: cell(rows, name, "published") for name in MODELLED}
        yield [
            figure.name, str(figure.arrays), str(figure.crossbar), str(figure.P), steps["published"],
            str(figure.W), steps["proportional"], cell(rows, "published", "makespan"),
            cell(rows, "proportional", "makespan"), rows[REFERENCE]["makespan"],
            rows[REFERENCE]["lower_bound"],
        ]  # fmt: skip


def cell(rows: dict[str, dict[str, str]], method: str, field: str) -> str:
    return (rows.get(method) or {}).get(field) or "-"


def dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def peer_rows(table: Table) -> Iterator[list[str]]:
    yield ["allocation", "network", "lines", "budget", "printed", "used", "exact",
           "auto, same arrays", "ratio", "auto, its budget", "ratio"]  # fmt: skip
    for peer in PEERS:
        used, steps = used_by(peer), makespan_of(peer)
        budget = peer.budget // peer.slices
        cells = [peer.tool, peer.network, str(peer.crossbar), str(peer.budget), dash(peer.printed)]
        cells += [f"{used * peer.slices}{' (over)' if used > budget else ''}", str(steps)]
        for arrays in (used, budget):
            auto = table.get((peer.network, peer.crossbar, peer.fc, arrays), {}).get(REFERENCE)
            cells += (
                ["-", "-"] if auto is None else [auto["makespan"], f"{steps / int(auto['makespan']):.3f}"]
            )
        yield cells


def makespan_of(peer: Peer) -> int:
    """Exact makespan of a peer's allocation."""
    size = f"{peer.crossbar}x{peer.crossbar}"
    layers = rramalloc.inspect(peer.network, crossbar=size, fc=peer.fc).layers  # type: ignore[arg-type]
    copies = {layer.name: d for layer, d in zip(layers, peer.copies, strict=False)}
    timed = rramalloc.simulate(peer.network, copies, crossbar=size, fc=peer.fc)  # type: ignore[arg-type]
    return timed.makespan


def draw_methods(shipped: dict[str, dict[str, dict[str, str]]]) -> None:
    """Ratio of every method on every network, its median as a bar; what is far off stands at the end."""
    end = 2.0
    names = [line[0] for line in method_rows(shipped)][1:]
    points: dict[str, list[Any]] = {"ratio": [], "row": [], "colour": []}
    middles: dict[str, list[Any]] = {"ratio": [], "top": [], "bottom": []}
    far: dict[str, list[Any]] = {"end": [], "row": [], "words": []}
    for place, name in enumerate(names):
        ratios = [
            float(row["ratio"]) for rows in shipped.values() if (row := rows.get(name)) and row["ratio"]
        ]
        within = [ratio for ratio in ratios if ratio <= end]
        points["ratio"] += within
        points["row"] += [place] * len(within)
        points["colour"] += [BLUE if name == REFERENCE else ORANGE] * len(within)
        if len(within) < len(ratios):
            far["end"].append(end)
            far["row"].append(place)
            far["words"].append(f"» {len(ratios) - len(within)} up to {max(ratios):.3g}")
        middle = statistics.median(ratios)
        if middle <= end:
            middles["ratio"].append(middle)
            middles["top"].append(place - 0.36)
            middles["bottom"].append(place + 0.36)
    dots = {"x": "ratio", "y": "row", "color": {"field": "colour", "type": "nominal", "scale": None}}
    layers = (
        Marks({"type": "circle", "size": 24, "opacity": 0.6}, points, dots),
        Marks({"type": "rule", "strokeWidth": 2}, middles, {"x": "ratio", "y": "top", "y2": "bottom"}),
        Marks({"type": "text", "align": "left", "dx": 4}, far, {"x": "end", "y": "row", "text": "words"}),
    )
    across = Axis(
        "makespan / makespan of auto, one point a network, the black line is the median", 0.97, end * 1.12
    )
    panel = Panel(across, Axis.of_names(names), row_height(len(names)), layers)
    Chart("Methods", (panel,), "Ratio of every method on every network.").save(METHODS_FIGURE)


def draw_vgg16() -> None:
    """The comparison on VGG-16 with 2048 arrays, and the allocation that auto gives there."""
    rramalloc.compare("vgg16", 2048).plot.methods(save=BARS_FIGURE)
    allocation = rramalloc.optimize("vgg16", 2048)
    allocation.plot.copies(save=COPIES_FIGURE)
    allocation.plot.timeline(save=TIMELINE_FIGURE)


INTRODUCTION = """\
Every method on every shipped network with twice the arrays it needs at least (crossbars of 128 x 128, plain
weights, classifiers on the host), and on VGG-16 with 2048 arrays. Every allocation is simulated exactly.
ratio: makespan over that of auto, in bold where it is not larger; a star where copies were taken away because
what the method asked for does not fit. Methods with a seed show the median of 5 seeds. work: counted, in
seconds of a reference core. All numbers, copies and reasons for what was skipped: `comparison.csv`. All
of it is the same on every machine.

Regenerate with `python results/comparison.py --fresh`; without `--fresh` it goes on where it stopped."""
PUBLISHED_NOTES = """\
P, W: published steps of the published method and of copies proportional to the windows
(docs/sources/model.md 9),
beside the published recurrence of what our methods `published` and `proportional` give for the same
budget. exact: makespan of the allocations of `published` and `proportional` with the default handoff, which
is a step a layer slower than the one of the published model.
auto: its makespan, and the bound. lines: wordlines and bitlines. ResNet-18 is no chain: the published
recurrence does not cover it."""
PEER_NOTES = """\
Allocations that others published or printed, timed by our simulator, beside auto with as many arrays as they
use and with the budget they were given. budget, printed: theirs; used: by our demand with their layout.
PIMCOMP and PIMSYN store the classifiers once, so do we here. PIMSYN (256 x 256, weights in 2-bit cells)
gives each of the 8 slices of a weight an array of its own: its counts are 8 times those of plain 256 x 256
arrays. Counted like this, both of its printed numbers come out of our demand, and both exceed the budget it
was given. With the slices side by side in one array, our default, the same copies need {packed} arrays."""


def packed_words() -> str:
    """Arrays of PIMSYN's allocations by our default layout of sliced weights."""
    plain = rramalloc.load_hardware("plain")
    document = plain.to_dict()
    document["crossbar"] |= {"wordlines": 256, "bitlines": 256, "cell_bits": 2}
    hardware = type(plain).model_validate_json(json.dumps(document))
    found = []
    for peer in PEERS:
        if peer.slices > 1:
            layers = rramalloc.inspect(peer.network, hardware=hardware, fc="crossbar").layers
            copies = [*peer.copies, *[1] * (len(layers) - len(peer.copies))]
            found.append(str(sum(d * layer.arrays_per_copy for d, layer in zip(copies, layers, strict=True))))
    return " and ".join(found)


def beaten(shipped: dict[str, dict[str, dict[str, str]]]) -> list[str]:
    """Where a method is faster than auto."""
    return [
        f"{label}: {name} {row['makespan']}, auto {rows[REFERENCE]['makespan']}"
        for label, rows in shipped.items()
        for name, row in rows.items()
        if row["ratio"] and float(row["ratio"]) < 1
    ]


def write_page() -> None:
    """Write the page and the figures from what was compared so far."""
    table = read_table()
    shipped = {label: rows for label, rows in shipped_table(table).items() if REFERENCE in rows}
    if not shipped:
        sys.exit(f"{CSV.name} has no rows")
    lines = ["# Comparison", "", INTRODUCTION, ""]
    missing = [case.label for case in cases() if set(case.methods) - set(table.get(key_of(case), {}))]
    lines += (
        [f"**Incomplete: {len(missing)} of {len(cases())} comparisons are missing.**", ""] if missing else []
    )
    faster = beaten(shipped)
    lines += [f"Cases in which a method is faster than auto: {len(faster)}{':' if faster else '.'}", ""]
    lines += [*(f"- {item}" for item in faster), ""] if faster else []
    lines += [
        "## Methods",
        "",
        *pages.markdown(method_rows(shipped)),
        f"![ratios]({METHODS_FIGURE.name})",
        "",
    ]
    lines += ["mean: geometric. spread: largest minus smallest makespan of the seeds, over the median.", ""]
    lines += ["## Networks", "", *pages.markdown(ratio_rows(shipped))]
    lines += ["## VGG-16 with 2048 arrays", ""]
    for figure in (BARS_FIGURE, COPIES_FIGURE, TIMELINE_FIGURE):
        lines += [f"![{figure.stem.replace('_', ' ')}]({figure.name})", ""]
    lines += ["## Published figures", "", PUBLISHED_NOTES, "", *pages.markdown(published_rows(table))]
    lines += ["## Peer allocations", "", PEER_NOTES.format(packed=packed_words()), ""]
    lines += pages.markdown(peer_rows(table))
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    draw_methods(shipped)
    draw_vgg16()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare all methods and write results/comparison/.")
    parser.add_argument("--networks", nargs="+", choices=shipped_names(), default=(), metavar="NAME")
    parser.add_argument("--limit", type=int, help="comparisons at most")
    parser.add_argument("--fresh", action="store_true", help="compare again what is there already")
    parser.add_argument("--page", action="store_true", help="compare nothing, write the page")
    return parser.parse_args()


def main() -> None:
    """Compare what is missing and write the page."""
    chosen = arguments()
    if not chosen.page:
        run_missing(chosen)
    write_page()


if __name__ == "__main__":
    main()
