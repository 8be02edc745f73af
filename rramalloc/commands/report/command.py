"""`rramalloc report`: one HTML page from results."""

from __future__ import annotations

import shlex

from rramalloc.cli.output import note
from rramalloc.cli.parameters import Help, described

REPORT: Help = {
    "files": ("FILE...", "Results as JSON; of a sweep also its folder."),
    "output": ("FILE", "The HTML file to write."),
    "network": ("NETWORK", "Network of an allocation, unless it is a shipped one."),
    "title": ("TEXT", "Heading of the page."),
    "date": ("TEXT", "Date to show; none if left out."),
}


@described(REPORT, output="title date")
def command(
    files: list[str],
    *,
    output: str = "report.html",
    network: list[str] | None = None,
    title: str | None = None,
    date: str | None = None,
    quiet: bool = False,
) -> None:
    """Write one self-contained HTML page of allocations, comparisons, fronts, sweeps, placements and costs.

    Example: rramalloc report a.json -o alexnet.html
    """
    from rramalloc.commands.report.report import report as run_report

    words = ["rramalloc", "report", *files, "-o", output]
    for name in network or []:
        words += ["--network", name]
    for option, text in (("--title", title), ("--date", date)):
        words += [] if text is None else [option, text]
    page = run_report(
        files, output, networks=network or [], title=title, date=date, command=shlex.join(words)
    )
    note(f"{output}: {len(page.encode()):,} bytes, {len(files)} results", quiet=quiet)
