"""Section of a comparison: all methods side by side, a chart a budget."""

from __future__ import annotations

from typing import Any

from rramalloc.report import style
from rramalloc.report.page import charts
from rramalloc.report.page.allocation import hardware_words, mapping_words, network_words, warning_notes
from rramalloc.report.page.parts import Chart, Column, Detail, Fact, Note, Section, Table, shown
from rramalloc.shown import counted
from rramalloc.studies.comparison import Comparison, Row
from rramalloc.studies.judged import REFERENCE
from rramalloc.units import share, steps

_MOST_PANELS = 8
_BEYOND = 2.5
_KINDS: dict[str, Any] = {"method": "text", "proof": "text", "repaired": "text", "gap": "percent"}
_FLOATS = ("ratio", "seconds", "clock_s", "step_ns", "latency_ns")
_SHOWN = (
    "arrays",
    "method",
    "makespan",
    "ratio",
    "gap",
    "interval",
    "used",
    "recurrence",
    "published",
    "latency_ns",
    "seconds",
    "clock_s",
    "best",
    "worst",
    "repaired",
    "proof",
)


def comparison_section(comparison: Comparison, detail: Detail) -> Section:
    """Headline, bars of ratios, and all rows."""
    rows, budgets = comparison.rows, comparison.budgets
    facts = [
        Fact("Methods", f"{len({row.method for row in rows}):,}"),
        Fact("Budgets", ", ".join(f"{budget:,}" for budget in budgets[:4]) or "none", "arrays"),
    ]
    blocks: list[Any] = list(warning_notes(comparison.warnings))
    limit = ""
    if rows:
        group = comparison.at(budgets[0])
        fastest = min(group, key=lambda row: (row.ratio, row.makespan))
        slowest = max(group, key=lambda row: row.ratio)
        facts.append(Fact("Fastest", steps(fastest.makespan), f"{fastest.method} with {budgets[0]:,} arrays"))
        facts.append(
            Fact("Its gap", share(fastest.gap), "at most from optimal" if fastest.gap else "proven optimal")
        )
        limit = f"With {budgets[0]:,} arrays no allocation takes less than {steps(fastest.lower_bound)}"
        if 0 < fastest.ratio < slowest.ratio:
            longer = f"{slowest.ratio / fastest.ratio:.3g} times as long as {fastest.method}"
            limit += f"; {slowest.method} takes {longer}"
        blocks += [_chart(comparison, budget) for budget in budgets[:_MOST_PANELS]]
        if len(budgets) > _MOST_PANELS:
            blocks.append(Note(f"The first {_MOST_PANELS} of {len(budgets)} budgets are drawn."))
        blocks.append(_table(comparison, detail))
    if comparison.skipped:
        heads = (Column("Arrays", "int"), Column("Method"), Column("Reason"))
        left = [(skipped.arrays, skipped.method, skipped.reason) for skipped in comparison.skipped]
        blocks.append(shown(Table("Left out", heads, left), detail))
    options = comparison.options
    return Section(
        title=f"{comparison.network.name}: methods side by side",
        subtitle=f"Comparison · {hardware_words(comparison.hardware)}",
        facts=tuple(facts),
        blocks=tuple(blocks),
        limit=limit,
        headline=f"{counted(len(rows), 'row')} at {counted(len(budgets), 'budget')}",
        made=(
            ("Network", network_words(comparison.network)),
            ("Hardware", hardware_words(comparison.hardware)),
            ("Mapping", mapping_words(options)),
            ("Seeds, work", f"{options.seeds} from {options.seed}, {options.work} units a run"),
            ("rramalloc", comparison.rramalloc_version),
        ),
    )


def _chart(comparison: Comparison, budget: int) -> Chart:
    """Ratio of every method to the reference; bars far beyond the others end at the end of the axis."""
    rows = comparison.at(budget)
    ratios = sorted(row.ratio for row in rows)
    end = min(ratios[-1], _BEYOND * ratios[len(ratios) // 2]) * 1.08
    best = REFERENCE if any(row.method == REFERENCE for row in rows) else "the best"
    drawn = charts.figure(
        charts.row_height(len(rows), each=24, around=100), f"ratio to {best}", x_range=(0, max(1.1, end))
    )
    charts.factors(drawn, [row.method for row in rows], "y")
    drawn.yaxis.ticker = list(range(len(rows)))
    entries = _bars(drawn, rows)
    bound = max(row.ratio * (1 - row.gap) for row in rows)
    line = drawn.segment(
        x0=[bound],
        x1=[bound],
        y0=[-0.6],
        y1=[len(rows) - 0.4],
        line_color=style.RED,
        line_width=2,
        line_dash="dashed",
    )
    keys = charts.keys([*entries, ("lower bound", [line])])
    cut = " Bars that reach the right edge go on: their values are in the table." if ratios[-1] > end else ""
    told = ", ".join(f"{row.method} {row.ratio:.3f}" for row in rows[:6])
    summary = f"Ratio of the makespans to that of {best} with {budget:,} arrays: {told}."
    return Chart(f"Methods with {counted(budget, 'array')}", (drawn,), summary, "x", cut.strip(), keys)


def _bars(drawn: Any, rows: tuple[Row, ...]) -> list[tuple[str, list[Any]]]:
    entries = []
    told = [
        ("method", "@method"),
        ("makespan", "@makespan{0,0}"),
        ("ratio", "@ratio{0.000}"),
        ("gap", "@gap{0.00} %"),
        ("arrays used", "@used{0,0}"),
        ("best, worst seed", "@low{0.000}, @high{0.000}"),
    ]
    for repaired, name in ((False, "method"), (True, "repaired to fit")):
        chosen = [(place, row) for place, row in enumerate(rows) if row.repaired == repaired]
        if not chosen:
            continue
        scale = [row.ratio / max(1, row.makespan) for _, row in chosen]
        data = charts.source(
            {
                "row": [place for place, _ in chosen],
                "method": [row.method for _, row in chosen],
                "makespan": [row.makespan for _, row in chosen],
                "ratio": [row.ratio for _, row in chosen],
                "gap": [round(100 * row.gap, 4) for _, row in chosen],
                "used": [row.used for _, row in chosen],
                "low": [row.best * by for (_, row), by in zip(chosen, scale, strict=True)],
                "high": [row.worst * by for (_, row), by in zip(chosen, scale, strict=True)],
                "colour": [style.BLUE if row.method == REFERENCE else style.SKY for _, row in chosen],
            }
        )
        bars = drawn.hbar(
            y="row",
            right="ratio",
            height=0.7,
            source=data,
            fill_color="colour",
            line_color=None,
            **({"hatch_pattern": "/", "hatch_color": "white"} if repaired else {}),
        )
        charts.hover(drawn, [bars], told)
        entries.append((name, [bars]))
        if any(row.runs > 1 for _, row in chosen):
            spread = drawn.segment(
                x0="low", x1="high", y0="row", y1="row", source=data, line_width=2, line_color=charts.INK
            )
            spread.glyph.tags = ["ink"]
            entries.append(("spread of seeds", [spread]))
    return entries


def _table(comparison: Comparison, detail: Detail) -> Table:
    fields = [name for name in _SHOWN if any(getattr(row, name) is not None for row in comparison.rows)]
    heads = tuple(
        Column(name.replace("_", " ").capitalize(), _KINDS.get(name, "float" if name in _FLOATS else "int"))
        for name in fields
    )
    rows = [[_cell(getattr(row, name)) for name in fields] for row in comparison.rows]
    return shown(Table("All rows", heads, rows, folded=False), detail)


def _cell(value: Any) -> Any:
    return ("yes" if value else "") if isinstance(value, bool) else value
