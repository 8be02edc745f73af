"""`rramalloc report`: one HTML page from results."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from rramalloc.cli import parameters
from rramalloc.cli.output import note


def report(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Results as JSON; of a sweep also its folder.")
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="The HTML file to write.")
    ] = "report.html",
    network: Annotated[
        list[str] | None,
        typer.Option(
            "--network", metavar="NETWORK", help="Network of an allocation; shipped ones are found."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Heading of the page.")] = None,
    date: Annotated[
        str | None, typer.Option("--date", metavar="TEXT", help="Date to show; none if left out.")
    ] = None,
    quiet: parameters.Quiet = False,
) -> None:
    """One self-contained HTML page from allocations, comparisons, fronts, sweeps, placements and costs.

    Example: rramalloc report vgg16_1024.json vgg16_front.json -o vgg16.html
    """
    from rramalloc import api

    words = ["rramalloc", "report", *files, "-o", output]
    for name in network or []:
        words += ["--network", name]
    for option, text in (("--title", title), ("--date", date)):
        words += [] if text is None else [option, text]
    page = api.report(
        files, output, networks=network or [], title=title, date=date, command=shlex.join(words)
    )
    note(f"{output}: {len(page.encode()):,} bytes, {len(files)} results", quiet=quiet)
