"""`rramalloc optimize --reload`: a plan of segments in place of an allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from rramalloc.choices import signature_of
from rramalloc.cli.output import deliver
from rramalloc.cli.parameters import passed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rramalloc.search.work import Work

_WITH_RELOAD = ("reload", "output_format", "output", "quiet")
"""Options of the command itself that --reload goes with."""


def reload(given: Mapping[str, Any], written: Mapping[str, str], stop: Work) -> None:
    """Run `optimize --reload`. written: the options of `optimize` that stand on the command line."""
    from rramalloc.commands.reload.reload import optimize_reload as run_optimize_reload

    of_plan = {*signature_of(run_optimize_reload).parameters, *_WITH_RELOAD}
    for name, option in written.items():
        if name not in of_plan:
            raise typer.BadParameter(f"{option} is not for --reload")
    from rramalloc.search.work import interruptible

    with interruptible(stop):
        plan = run_optimize_reload(**passed(given, run_optimize_reload), stop=stop)
    deliver(plan, given)
