"""`rramalloc export`: an allocation as files for other mappers and simulators."""

from __future__ import annotations

from typing import Any

import typer

from rramalloc.cli import complete
from rramalloc.cli.output import note, print_view_as
from rramalloc.cli.parameters import Help, OptionValue, described, of_call, passed
from rramalloc.errors import UnknownNameError


def _is_target(name: str | None) -> str | None:
    from rramalloc.commands.export.discovery import target_names

    if name is not None and name not in target_names():
        raise typer.BadParameter(str(UnknownNameError("tool", name, target_names())))
    return name


_TARGETS = complete.names_of("commands.export.discovery:target_names")
EXPORT: Help = {
    "to": (
        OptionValue("TOOL", completion=_TARGETS, plugins="rramalloc.exports"),
        "csv, json, mnsim, neurosim, pimcomp, pimsyn, or the tool of a plugin.",
        _is_target,
    ),
    "output": ("FILE|DIR", "Where to write: a new folder where the tool takes several files."),
    "check": (None, "Only list what the tool rounds, ignores or counts otherwise; without --to, the tools."),
    "placement": ("FILE", "Placement to add, for csv and json."),
    "layers_only": (None, "For neurosim: the layers of any network; what joins them takes no time."),
}


@described(EXPORT, goal="to check", problem="placement layers_only")
@of_call(
    "rramalloc.commands.export.export:export",
    outputs="output quiet",
    example="Example: rramalloc export alexnet --allocation a.json --to pimsyn -o out",
)
def command(
    given: dict[str, Any],
    *,
    quiet: bool,
    output: str | None,
    to: str | None = None,
    check: bool = False,
) -> None:
    """Run `export`, or list the tools and what they round or ignore."""
    from rramalloc.commands.export.bundle import check_target
    from rramalloc.commands.export.export import export as run_export

    if to is None:
        from rramalloc.commands.export.export import export_check
        from rramalloc.commands.export.view import check_view

        if not check:
            words = "name a tool with --to, or list those that take the allocation with --check"
            raise typer.BadParameter(words)
        print_view_as(check_view(export_check(**passed(given, export_check))), "table", quiet=quiet)
        return
    if output is not None and not check:
        check_target(output, [given[name] for name in ("network", "allocation", "placement", "hardware")])
    made = run_export(**passed(given, run_export))
    if check and made.remarks:
        from rramalloc.commands.export.view import remarks_view

        print_view_as(remarks_view(made), "table", quiet=quiet)
        return
    if check:
        typer.echo(f"{made.target}: nothing is rounded, ignored or counted otherwise")
        return
    if output is None:
        typer.echo(made.single_text(), nl=False)
    else:
        for path in made.save(output):
            note(f"wrote {path}", quiet=quiet)
    # Remarks on all layers are printed, those on single layers are counted: there may be hundreds.
    for remark in made.remarks:
        if remark.layer is None:
            note(f"note: {remark.text}", quiet=quiet)
    single = sum(remark.layer is not None for remark in made.remarks)
    if single:
        note(f"note: {single} remarks on single layers; --check lists them", quiet=quiet)
