"""`rramalloc inspect`: stages, arrays per copy and the smallest budget."""

from __future__ import annotations

from typing import Unpack

from rramalloc.allocation.case_arguments import MappedArguments
from rramalloc.cli.output import deliver
from rramalloc.cli.parameters import Format, described, passed


@described({})
def command(
    network: str,
    *,
    output_format: Format = "table",
    output: str | None = None,
    quiet: bool = False,
    **shared: Unpack[MappedArguments],
) -> None:
    """Show stages, windows, arrays per copy, utilisation of the arrays, and the smallest budget.

    Example: rramalloc inspect resnet18 --hardware isaac
    """
    given = locals()
    from rramalloc import api

    deliver(api.inspect(**passed(given, api.inspect)), given)
