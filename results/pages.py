"""A page of results/: what it asks, how that is measured, and how it is written.

Every page NAME has a script NAME.py here with a `STUDY`. `python results/all.py --only NAME` measures its
cases and writes NAME.csv and NAME.md, all in the same form: the question, the answer in a sentence, the
table, then the command, the version, the machine and the minutes.
"""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rramalloc
from rramalloc.chart import Chart

RESULTS = Path(__file__).resolve().parent
TIMED = ("network", "hardware", "mapping", "timing")
"""Folders on which the time of an allocation depends."""
SEARCHED = (*TIMED, "search", "methods", "allocation")
"""Folders on which the answer of a search depends, without `WITH_LINKS`."""
WITH_LINKS = "search/links.py"
"""The search with links between tiles, which runs where a page asks for `placed` and nowhere else."""
Case = tuple[str | int | float, ...]
"""Arguments of `Study.measure`."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """What a page asks, and how it is answered.

    title, question: of the page; row: dataclass of the rows of the CSV; cases: what is measured, of which
    `--quick` takes the first; measure: from a case to its rows; answer: a sentence with the main figure in
    bold; body: the lines below it; decided_by: folders and files of rramalloc/ on which the numbers depend;
    figures: drawings by their name beside the page; alone: True where wall-clock time is measured, so that
    nothing else may run; missing: why it cannot be measured on this machine, "" if it can.
    """

    title: str
    question: str
    row: type[Any]
    cases: Sequence[Case]
    measure: Callable[..., Sequence[Any]]
    answer: Callable[[Sequence[Any]], str]
    body: Callable[[Sequence[Any]], Iterable[str]]
    decided_by: tuple[str, ...]
    figures: Callable[[Sequence[Any]], Mapping[str, Chart]] = lambda _: {}
    alone: bool = False
    missing: Callable[[], str] = lambda: ""


def text_of(
    name: str, study: Study, rows: Sequence[Any], decided_by: Mapping[str, str], minutes: float
) -> str:
    """Return the whole page. decided_by: digest of each folder that decides it; minutes: of one core."""
    made = (
        f"`python results/all.py --only {name}`, {minutes:.1f} minutes of work with rramalloc "
        f"{rramalloc.__version__}{_commit()} on {_machine()}. The numbers depend on "
        f"{', '.join(f'`{folder}`' for folder in decided_by)} of `rramalloc/`."
    )
    lines = [f"# {study.title}", "", study.question, "", f"**Answer.** {study.answer(rows)}", ""]
    return "\n".join([*lines, *study.body(rows), "", "## How this was made", "", made, ""])


def summary_of(page: Path) -> tuple[str, str, str]:
    """Return title, question and main figure of a written page: the first bold words of its answer."""
    title, _, question, _, answer, *_ = page.read_text(encoding="utf-8").splitlines()
    figure = re.search(r"\*\*(.+?)\*\*", answer.removeprefix("**Answer.** "))
    return title.removeprefix("# "), question, figure[1] if figure else "-"


def _commit() -> str:
    """Return ", commit ABC" in a checkout."""
    command = ["git", "-C", str(RESULTS), "rev-parse", "--short=7", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True)
    return f", commit {done.stdout.strip()}," if done.returncode == 0 else ""


def _machine() -> str:
    """Return cores and kind of processor, and the version of Python."""
    kind = platform.processor() or platform.machine()
    described = Path("/proc/cpuinfo")
    if described.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", described.read_text("utf-8"), re.MULTILINE)
        kind = found[1] if found else kind
    return f"{os.cpu_count()} cores of {kind}, Python {platform.python_version()}"


def markdown(rows: Iterable[list[str]]) -> list[str]:
    """A table; the first row is its head."""
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return [head, "|" + "---|" * (head.count("|") - 1), *body, ""]


def by_budget(cells: Mapping[tuple[str, int, float], str]) -> list[str]:
    """A table with a row for each network and size of the arrays, a column for each budget.

    cells: text by network, lines of an array, and budget over the minimum.
    """
    factors = list(dict.fromkeys(factor for _, _, factor in cells))
    rows = [["network", "lines", *(f"x{factor:g}" for factor in factors)]]
    for network, lines in dict.fromkeys((network, lines) for network, lines, _ in cells):
        found = [cells.get((network, lines, factor), "-") for factor in factors]
        rows.append([network, str(lines), *found])
    return markdown(rows)


def gaps_by_networks(
    rows: Sequence[Any], chains: Collection[str], heads: tuple[str, str], fields: tuple[str, str]
) -> list[str]:
    """A table of two gaps of every row, for the networks that are chains, for the others, and for all.

    heads: what the gaps are of; fields: of a row, which also has its `network`.
    """
    first, second = (f"gap{head}: median" for head in heads)
    table = [["networks", "cases", first, "mean", second, "mean", "largest"]]
    for name, chosen in (
        ("chains", [row for row in rows if row.network in chains]),
        ("others", [row for row in rows if row.network not in chains]),
        ("all", rows),
    ):
        each = [[getattr(row, field) for row in chosen] or [0.0] for field in fields]
        cells = [average(gaps) for gaps in each for average in (statistics.median, statistics.mean)]
        table.append([name, str(len(chosen)), *(f"{gap:.1%}" for gap in (*cells, max(each[1])))])
    return markdown(table)


def seconds_text(seconds: float) -> str:
    """Seconds with three figures below 10, one decimal from there on."""
    return f"{seconds:.1f}" if seconds >= 10 else f"{seconds:.2f}" if seconds >= 0.1 else f"{seconds:.2g}"
